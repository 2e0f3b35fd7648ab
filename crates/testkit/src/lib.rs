//! Naive reference models and generators, for tests only.

pub mod eviction;
pub mod generate;
pub mod swap;
