//! `perfetto`: traces of Perfetto. As a block trace it has the requests to block devices; as a swap trace the
//! pages of files that enter and leave the page cache. Without `--as`, the events that the file has decide.

use super::system_records;
use super::{Format, ReadOptions};
use crate::Error;
use crate::input::Input;
use crate::record::RecordReader;
use crate::system::formats::{by_name, perfetto};

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "perfetto",
    summary: "traces of Perfetto: block requests, pages of files, kernel events",
    has_columns: false,
    has_parts: false,
    has_accesses: true,
    sniff: perfetto::sniff,
    open,
};

fn open(input: Input, options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    let format = by_name(FORMAT.name).expect("the catalog of system traces has this row");
    system_records::open(input, options, format.open, perfetto::open_once)
}
