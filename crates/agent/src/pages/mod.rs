//! `pagewise-agent pages`: samples the anonymous memory of processes, and measures how it compresses.
//!
//! Contract: contents of pages stay in this process and in zram devices of its own, which only root can read and which
//! are removed at the end. Only sizes and times leave.

mod codec;
mod device;
mod draw;
mod kernel;
mod mean;
mod measure;
mod report;
mod subject;

pub use codec::{Codec, Source};
pub use device::hold;
pub use kernel::kernel_zram;
pub use mean::Estimate;
pub use measure::{BATCH, Drawn, Sampler};
pub use report::{Idle, NotSampled, Pool, ProcessPages, Report, Sampled, total};
pub use subject::Subject;
