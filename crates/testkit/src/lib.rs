//! Naive reference models and generators, for tests only.

pub mod swap;
