//! Rows: events with all columns of a recording.
//!
//! Readers of foreign formats fill rows, and the store writes and reads them. Simulators and analyses use
//! only the `Events` inside. A column that the recording lacks is empty in every batch of the trace.

use types::{EventKind, Events};

/// Bits of a page's address within its name space; 2^44 pages of 4 KiB are 64 PiB.
pub const ADDRESS_BITS: u32 = 44;

/// Number of name spaces in a key.
pub const SPACES_MAX: u32 = 1 << (u64::BITS - ADDRESS_BITS);

/// Consecutive events with all their columns.
///
/// A page is identified by (`space`, `address`): see [`page_key`]. `events.page` is its dense
/// number, or empty after the numbering table is full (`Header::pages` is then `None`).
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// Time, kind, flags, dense page and process. The process is the owner of the page in a swap
    /// trace, and the issuer of the request in a block or object trace.
    pub events: Events,
    /// Name space of `address`. In block traces, the index into `Header::devices`. In swap traces, 0 for
    /// file pages, otherwise 1 + the number of the owning process. In object traces, 0.
    pub space: Vec<u32>,
    /// Virtual page number, file page, 4 KiB block number or object id.
    pub address: Vec<u64>,
    /// Bytes of the page (at most 4096) or of the object that the event moved; empty if the recording has
    /// no sizes.
    pub bytes: Vec<u32>,
    /// Duration of the fault or request in nanoseconds, 0 if unknown; empty if the recording has no
    /// durations.
    pub duration_ns: Vec<u64>,
}

impl Rows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Empties every column and keeps its capacity.
    pub fn clear(&mut self) {
        self.events.clear();
        self.space.clear();
        self.address.clear();
        self.bytes.clear();
        self.duration_ns.clear();
    }
}

/// Copies the values of a column at the indexes in `kept`. A column that the recording lacks stays empty.
pub fn take_kept<T: Copy>(from: &[T], kept: &[usize], to: &mut Vec<T>) {
    if !from.is_empty() {
        to.extend(kept.iter().map(|&index| from[index]));
    }
}

/// The key of a page of a swap or block trace in the numbering table. Objects use their 64-bit id
/// instead.
///
/// The key is exact, no hash: importers refuse records outside `SPACES_MAX` and `ADDRESS_BITS`.
#[inline(always)]
pub const fn page_key(space: u32, address: u64) -> u64 {
    ((space as u64) << ADDRESS_BITS) | address
}

/// The page number of each row; `numbers` has only those of rows with a page. An exit has no page, and
/// its 0 is void.
pub fn page_numbers(
    kinds: impl Iterator<Item = EventKind>,
    mut numbers: impl Iterator<Item = u32>,
) -> impl Iterator<Item = u32> {
    kinds.map(move |kind| {
        let number = if kind == EventKind::Exit { None } else { numbers.next() };
        number.unwrap_or(0)
    })
}
