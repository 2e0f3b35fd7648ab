//! A live kernel to a recording. It knows how events are got and written; it must not know what they
//! mean, which crates/trace decides when the recording is imported.

#[cfg(feature = "bpf")]
pub mod bpf;
mod error;
pub mod sampler;
mod session;
pub mod sources;

pub use error::Error;
pub use session::{Outcome, Plan, Stop, record};
