//! The pagewise trace file: Parquet, one row per event, with the [`Header`](crate::Header) as JSON
//! under the metadata key `pagewise`.
//!
//! | column | type | what |
//! |---|---|---|
//! | `time_ns` | i64 | nanoseconds since the first event; absent if the recording has no clock |
//! | `event` | u8 | number of the [`EventKind`](types::EventKind) |
//! | `flags` | u8 | bits of [`EventFlags`](types::EventFlags) |
//! | `page` | u32 | dense page number in order of first appearance; 0 and void on an exit, and in the whole file if the header's `pages` is null |
//! | `process` | u32 | index into the header's `processes` |
//! | `space` | u32 | name space of `address`: see [`Rows`](crate::Rows) |
//! | `address` | u64 | page, block or object as the recording names it |
//! | `bytes` | u32 | bytes moved; absent if the recording has no sizes |
//! | `duration_ns` | u64 | duration, 0 if unknown; absent if the recording has no durations |
//!
//! `page` is stored plain and uncompressed, so that a simulator reads it at the speed of a copy. A
//! column that never changes costs a few bytes per row group. Row groups have about
//! `ROW_GROUP_ROWS` rows and store the range of their times and events. `slice` uses it to skip row
//! groups, and readers of pages to skip columns.

mod aside;
mod chunk;
mod column;
mod delta;
mod file;
mod group;
mod guard;
mod info;
mod join;
mod layout;
mod pending;
mod plain;
mod reader;
mod save;
mod slice;
mod text_file;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use aside::Aside;
pub use aside::write_whole;
pub use info::{Info, ProcessInfo, info};
pub use join::{Joined, join};
pub use layout::SCHEMA;
pub(crate) use layout::is_parquet;
pub use reader::Reader;
pub(crate) use reader::key as page_key_of;
pub use save::save;
pub use slice::slice;
pub use text_file::TextFile;
pub use writer::Writer;
pub(crate) use writer::{refuse_existing, refuse_inputs};
