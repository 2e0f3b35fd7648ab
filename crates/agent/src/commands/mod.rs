//! One file per command.

pub mod doctor;
pub mod launch;
pub mod record;
