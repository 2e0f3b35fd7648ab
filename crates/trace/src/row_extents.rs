//! Extents of rows: successive rows that differ only in their page, which counts up.
//!
//! A request of many pages is an extent, and an access to an object is an extent of one row. Work per request is
//! done once per extent; only page numbers are stored row by row.

use std::iter::repeat_n;

use types::{EventFlags, EventKind, PAGE_BYTES, PageId, ProcessId};

use crate::Rows;

/// Rows that share all but their page; see [`Rows`] for what each field means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowExtent {
    /// Time of every row.
    pub time_ns: i64,
    /// Duration of every row.
    pub duration_ns: u64,
    /// Address of the first row; each further row has the next address.
    pub address: u64,
    /// Number of rows, at least one.
    pub count: u32,
    /// Name space of the addresses.
    pub space: u32,
    /// Bytes of the first row. Rows between the first and the last have whole pages.
    pub bytes_first: u32,
    /// Bytes of the last row, if there are several rows.
    pub bytes_last: u32,
    /// Process of every row.
    pub process: ProcessId,
    /// Kind of every row.
    pub kind: EventKind,
    /// Flags of every row.
    pub flags: EventFlags,
}

/// The optional columns that a trace has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionalColumns {
    /// Whether rows have a time.
    pub has_clock: bool,
    /// Whether rows have bytes.
    pub has_sizes: bool,
    /// Whether rows have a duration.
    pub has_durations: bool,
}

impl OptionalColumns {
    /// The columns that these rows have.
    pub fn of(rows: &Rows) -> OptionalColumns {
        OptionalColumns {
            has_clock: !rows.events.time_ns.is_empty(),
            has_sizes: !rows.bytes.is_empty(),
            has_durations: !rows.duration_ns.is_empty(),
        }
    }

    /// Replaces `rows` by the rows of `extents`. `pages` has a number for each row, or is empty if pages are
    /// not numbered.
    pub fn expand(self, extents: &[RowExtent], pages: &[u32], rows: &mut Rows) {
        rows.clear();
        let events = &mut rows.events;
        events.page.extend(pages.iter().map(|&page| PageId(page)));
        for extent in extents {
            let count = extent.count as usize;
            if self.has_clock {
                events.time_ns.extend(repeat_n(extent.time_ns, count));
            }
            events.kind.extend(repeat_n(extent.kind, count));
            events.flags.extend(repeat_n(extent.flags, count));
            events.process.extend(repeat_n(extent.process, count));
            rows.space.extend(repeat_n(extent.space, count));
            rows.address.extend((0..u64::from(extent.count)).map(|place| extent.address + place));
            if self.has_sizes {
                rows.bytes.push(extent.bytes_first);
                if count > 1 {
                    rows.bytes.extend(repeat_n(PAGE_BYTES as u32, count - 2));
                    rows.bytes.push(extent.bytes_last);
                }
            }
            if self.has_durations {
                rows.duration_ns.extend(repeat_n(extent.duration_ns, count));
            }
        }
    }

    /// Replaces `extents` by an extent for each of `rows`, which must have these columns.
    ///
    /// # Panics
    /// If the columns of `rows` differ in length.
    pub fn extents_of(self, rows: &Rows, extents: &mut Vec<RowExtent>) {
        let events = &rows.events;
        let length = rows.len();
        let is_even =
            |column: usize, is_present: bool| column == if is_present { length } else { 0 };
        assert!(
            is_even(events.time_ns.len(), self.has_clock)
                && is_even(events.flags.len(), true)
                && is_even(events.process.len(), true)
                && is_even(rows.space.len(), true)
                && is_even(rows.address.len(), true)
                && is_even(rows.bytes.len(), self.has_sizes)
                && is_even(rows.duration_ns.len(), self.has_durations),
            "every column has a value for each row, in every batch of a trace"
        );
        extents.clear();
        extents.extend((0..length).map(|index| RowExtent {
            time_ns: events.time_ns.get(index).copied().unwrap_or(0),
            duration_ns: rows.duration_ns.get(index).copied().unwrap_or(0),
            address: rows.address[index],
            count: 1,
            space: rows.space[index],
            bytes_first: rows.bytes.get(index).copied().unwrap_or(0),
            bytes_last: 0,
            process: events.process[index],
            kind: events.kind[index],
            flags: events.flags[index],
        }));
    }
}
