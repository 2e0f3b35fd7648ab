//! `procfs`: snapshots of /proc in series. They have no accesses; `info` and the commands on system traces read them.

use super::system_records;
use super::{Format, ReadOptions};
use crate::Error;
use crate::input::Input;
use crate::record::RecordReader;
use crate::system::formats::procfs;

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "procfs",
    summary: "/proc/vmstat, meminfo and pressure in series: pressure, no accesses",
    has_columns: false,
    has_parts: false,
    has_accesses: false,
    sniff: procfs::sniff,
    open,
};

fn open(input: Input, options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    system_records::open(input, options, procfs::open, procfs::open)
}
