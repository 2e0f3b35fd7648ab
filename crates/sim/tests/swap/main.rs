//! The swap architectures from outside.

mod against_naive;
mod clairvoyant;
mod recordings;
mod rules;
mod support;
mod worked_cases;
