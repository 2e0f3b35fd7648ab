//! `tracedat`: files of trace-cmd. As a block trace it has the requests to block devices; as a swap trace the
//! pages of files that enter and leave the page cache. Without `--as`, the events that the file has decide.

use super::system_records;
use super::{Format, ReadOptions};
use crate::Error;
use crate::input::Input;
use crate::record::RecordReader;
use crate::system::formats::tracedat;

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "tracedat",
    summary: "trace.dat files of trace-cmd: block requests, pages of files, kernel events",
    has_columns: false,
    has_parts: false,
    has_accesses: true,
    sniff: tracedat::sniff,
    open,
};

fn open(input: Input, options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    system_records::open(input, options, tracedat::open, tracedat::open)
}
