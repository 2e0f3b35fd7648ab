//! `damo`: records of DAMON by its tool damo, in JSON. They have regions but no single accesses; `info` and `pressure`
//! read them.

use super::system_records;
use super::{Format, ReadOptions};
use crate::Error;
use crate::input::Input;
use crate::record::RecordReader;
use crate::system::formats::damo;

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "damo",
    summary: "records of DAMON in JSON, by damo: regions, no accesses",
    has_columns: false,
    has_parts: false,
    has_accesses: false,
    sniff: damo::sniff,
    open,
};

fn open(input: Input, options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    system_records::open(input, options, damo::open, damo::open)
}
