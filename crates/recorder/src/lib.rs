//! Records events of the running kernel. This crate receives and writes events; it must not interpret them:
//! crates/trace does that when the recording is imported.

pub mod allocations;
mod backend;
mod batch;
#[cfg_attr(not(feature = "bpf"), path = "no_bpf.rs")]
mod bpf;
mod error;
#[cfg(feature = "bpf")]
mod file_names;
mod follow;
pub mod kills;
mod machine;
mod moments;
#[cfg_attr(
    not(feature = "bpf"),
    allow(dead_code, reason = "text events have only process and time")
)]
mod notices;
#[cfg(feature = "bpf")]
mod refusals;
pub mod ring;
#[cfg(feature = "bpf")]
mod rings;
mod sampler;
mod scene;
mod session;
pub mod sources;
mod tracefs;
mod watch;
mod weights;
mod zeros;

pub use backend::BackendChoice;
pub use bpf::probe_function_entry;
pub use error::Error;
pub use follow::{SwapIns, follow, follow_swap_ins};
pub use session::{Options, RecordingOutcome, Stop, probe, probe_text, record};

/// The events to record: of all processes, or of a group or process.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Only this memory cgroup and those below it.
    pub group: Option<linux::cgroup::MemoryGroup>,
    /// Only this process.
    pub process: Option<u32>,
}
