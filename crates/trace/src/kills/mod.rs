//! The cost of killing a process, phase by phase, from the kernel's own events: binary trace pages or
//! typed records become events, and events become a row per kill. A saved recording and a live kernel are
//! read the same way, block by block. This module must not know how events are recorded.
//!
//! Source of the phases: spec sheet S2 and the kernel's own order of calls (kernel/signal.c, kernel/exit.c,
//! mm/mmap.c, Linux 5.15 to 6.18). A phase whose events a kernel lacks is absent, never estimated.

mod analysis;
mod anatomy;
mod block;
mod chrome;
mod curve;
mod decode;
mod event;
mod file;
mod format;
mod kill;
mod pages;
mod senders;
mod typed;
mod victim;

pub use analysis::{Analysis, KillsOutcome, Report};
pub use block::{About, Ending, KillsBlock, Task};
pub use chrome::chrome;
pub use decode::{CATALOG, Row};
pub use event::{Event, What};
pub use file::{Writer, read, read_bytes};
pub use format::without_print;
pub use kill::{Kill, KillStep, KillTrigger, Killer};
pub use typed::{EVENT_BYTES, event as typed_event};

/// Name and version of the output of `killtrace --json`.
pub const SCHEMA: &str = "pagewise.kills/1";

#[cfg(test)]
mod tests;
