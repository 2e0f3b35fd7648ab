//! The swap architectures from outside.

mod against_naive;
mod as_recorded;
mod clairvoyant;
mod larger_pages;
mod recordings;
mod rules;
mod sampled;
mod support;
mod worked_cases;
