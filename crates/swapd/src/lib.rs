//! A swap area that this program serves: a carrier takes the kernel's requests, an engine answers them from two
//! tiers, and a placement decides which tier holds which slot. Or zram holds the slots, and the placement decides which
//! of them it writes back ([`zram`]). This crate must not know the simulator.
//!
//! Contract: every change to the machine is in the undo log before it is made. The thread that serves never
//! waits for the device that it serves.

pub mod area;
pub mod carrier;
pub mod emulation;
pub mod engine;
mod error;
mod fresh_counts;
pub mod guard;
pub mod handover;
mod probe;
pub mod protection;
pub mod record;
pub mod session;
pub mod statistics;
pub mod store;
pub mod undo;
pub mod zram;

pub use error::Error;
