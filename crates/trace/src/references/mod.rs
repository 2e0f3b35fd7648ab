//! Traces of memory references, thinned by a filter that keeps results exact for every page size.
//!
//! References come from a running program (`capture/`) or from a foreign file (`formats`), pass the
//! [`Filter`], and become [`SlotStep`]s, which [`Writer`] stores. [`Reader`] returns them as
//! [`ReferenceStep`](types::ReferenceStep)s. docs/formats.md describes the file.

mod capture;
mod ended;
mod file;
mod filter;
pub mod formats;
mod frame;
mod import;
mod info;
mod mappings;
mod reader;
mod replay;
mod slots;
mod writer;

pub use capture::{CHUNK_BYTES, CaptureReport, Places, capture};
pub use ended::{Ended, cut};
pub use file::{Ending, FILTER_BLOCKS_MIN, MAGIC, Origin, Processes, Stop};
pub use filter::{Filter, Reference};
pub use import::{ReferenceImportOptions, ReferenceImportReport, import};
pub use info::{Info, info};
pub use mappings::{Change, MAPPED_PAGE_BYTES, MappingChange};
pub use reader::Reader;
pub use replay::replay;
pub use slots::{SlotStep, Slots};
pub use writer::Writer;

/// Whether a file that begins with `head` is a trace of references.
pub fn is_head(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}
