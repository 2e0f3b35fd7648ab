//! `logcat`: Android's log. It has no accesses; `info` and the commands on system traces read it.

use super::system_records;
use super::{Format, ReadOptions};
use crate::Error;
use crate::input::Input;
use crate::record::RecordReader;
use crate::system::formats::logcat;

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "logcat",
    summary: "Android's log, logcat -v threadtime: kills and launches, no accesses",
    has_columns: false,
    has_parts: false,
    has_accesses: false,
    sniff: logcat::sniff,
    open,
};

fn open(input: Input, options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    system_records::open(input, options, logcat::open, logcat::open)
}
