//! The commands of `pagewise-agent`, one file each.

pub mod balloon;
pub mod completions;
pub mod doctor;
pub mod killd;
pub mod killtrace;
pub mod launch;
pub mod lazy;
pub mod manual;
pub mod pages;
pub mod record;
mod record_allocations;
mod record_ring;
pub mod relaunchd;
pub mod swapd;
