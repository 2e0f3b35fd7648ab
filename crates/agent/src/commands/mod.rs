//! One file per command.

pub mod doctor;
pub mod record;
