//! Naive reference models and generators, for tests only.
