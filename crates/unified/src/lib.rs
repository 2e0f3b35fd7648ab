//! No code: Cargo.toml asks for features of dependencies.
