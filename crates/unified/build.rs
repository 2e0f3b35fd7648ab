//! Does nothing: a crate needs a build script to ask for features of what macros and build scripts use.

fn main() {}
