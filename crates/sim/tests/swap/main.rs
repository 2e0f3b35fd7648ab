//! The swap architectures from outside.

mod against_naive;
mod rules;
mod support;
mod worked_cases;
