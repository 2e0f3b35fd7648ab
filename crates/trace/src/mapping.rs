//! From records to rows: requests are split into the 4 KiB pages that they touch, and every page
//! gets the key by which it is numbered.

use std::iter::repeat_n;

use types::{EventFlags, EventKind, PAGE_BYTES};

use crate::ledger::Ledger;
use crate::record::{AddressUnit, Mapping, Operation, Record, Traits};
use crate::{ADDRESS_BITS, Rows, page_key};

/// Bytes per sector.
const SECTOR_BYTES: u64 = 512;

/// Bytes of a device that can be named: 64 PiB.
const DEVICE_BYTES_MAX: u64 = PAGE_BYTES << ADDRESS_BITS;

/// The rows of the next batch; an exit has a row but no key.
#[derive(Debug, Default)]
pub struct Mapped {
    /// Everything but the page numbers.
    pub rows: Rows,
    /// Key of each row that has a page.
    pub keys: Vec<u64>,
}

impl Mapped {
    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.keys.clear();
    }
}

/// Turns records of one recording into rows.
#[derive(Debug)]
pub struct Mapper {
    mapping: Mapping,
    traits: Traits,
    /// Time of the first row; the trace's times count from it.
    start_ns: Option<i64>,
    last_ns: i64,
    /// Records that were earlier than the one before them.
    disordered: u64,
}

impl Mapper {
    /// A mapper for records with these traits.
    ///
    /// # Errors
    /// Why such records cannot be mapped so.
    pub fn new(mapping: Mapping, traits: Traits) -> Result<Mapper, &'static str> {
        let is_possible = match traits.address {
            AddressUnit::Sector | AddressUnit::Byte => true,
            AddressUnit::Page => mapping == Mapping::Swap,
            AddressUnit::Id => mapping == Mapping::Objects,
        };
        if !is_possible {
            return Err(match traits.address {
                AddressUnit::Page => "holds pages that leave memory and return: use --as swap",
                _ => "holds names of objects, not places on a device: use --as objects",
            });
        }
        Ok(Mapper { mapping, traits, start_ns: None, last_ns: i64::MIN, disordered: 0 })
    }

    /// Time of the first row on the recording's clock; 0 before it and without a clock.
    pub fn start_ns(&self) -> i64 {
        self.start_ns.unwrap_or(0)
    }

    /// Records so far that were earlier than the one before them.
    pub fn disordered(&self) -> u64 {
        self.disordered
    }

    /// Appends the rows of one record, or books why it has none.
    #[inline]
    pub fn map(&mut self, record: &Record, mapped: &mut Mapped, ledger: &mut Ledger) {
        match (self.mapping, self.traits.address) {
            (Mapping::Objects, _) => self.map_object(record, mapped, ledger),
            (Mapping::Swap, AddressUnit::Page) => self.map_page(record, mapped, ledger),
            (Mapping::Swap | Mapping::Block, _) => self.map_request(record, mapped, ledger),
        }
    }

    fn map_object(&mut self, record: &Record, mapped: &mut Mapped, ledger: &mut Ledger) {
        let Some(kind) = access_kind(record.operation, ledger) else { return };
        self.push(record, kind, EventFlags::default(), 1, mapped);
        mapped.rows.space.push(0);
        mapped.rows.address.push(record.address);
        mapped.keys.push(record.address);
        if self.traits.has_sizes {
            mapped.rows.bytes.push(u32::try_from(record.bytes).unwrap_or(u32::MAX));
        }
    }

    fn map_page(&mut self, record: &Record, mapped: &mut Mapped, ledger: &mut Ledger) {
        let kind = match record.operation {
            Operation::SwapOut => EventKind::SwapOut,
            Operation::SwapIn => EventKind::SwapIn,
            Operation::Evict => EventKind::Evict,
            Operation::Request => EventKind::Request,
            Operation::Exit => EventKind::Exit,
            Operation::DeviceRead => EventKind::DeviceRead,
            Operation::DeviceWrite => EventKind::DeviceWrite,
            Operation::Read
            | Operation::Write
            | Operation::Discard
            | Operation::Flush
            | Operation::Passthrough => return ledger.skip("no page event"),
        };
        if record.address >> ADDRESS_BITS != 0 {
            return ledger.lose("pages with an impossible address", 1);
        }
        let is_file = record.flags.contains(EventFlags::FILE);
        let space = if is_file { 0 } else { record.process.0 + 1 };
        self.push(record, kind, record.flags, 1, mapped);
        mapped.rows.space.push(space);
        mapped.rows.address.push(record.address);
        if kind != EventKind::Exit {
            mapped.keys.push(page_key(space, record.address));
        }
    }

    fn map_request(&mut self, record: &Record, mapped: &mut Mapped, ledger: &mut Ledger) {
        let Some(kind) = access_kind(record.operation, ledger) else { return };
        if record.bytes == 0 {
            return ledger.skip("zero length");
        }
        let unit = if self.traits.address == AddressUnit::Byte { 1 } else { SECTOR_BYTES };
        let start = record.address.checked_mul(unit);
        let end = start.and_then(|start| start.checked_add(record.bytes));
        let (Some(start), Some(end)) = (start, end.filter(|&end| end <= DEVICE_BYTES_MAX)) else {
            return ledger.lose("requests beyond 64 PiB of a device", 1);
        };
        let (kind, flags, space) = match (self.mapping, kind) {
            (Mapping::Swap, EventKind::Write) => {
                (EventKind::SwapOut, EventFlags::DIRTY, record.device + 1)
            }
            (Mapping::Swap, _) => (EventKind::SwapIn, EventFlags::default(), record.device + 1),
            _ => (kind, EventFlags::default(), record.device),
        };
        let pages = start / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
        let count = (pages.end - pages.start) as usize;
        self.push(record, kind, flags, count, mapped);
        mapped.rows.space.extend(repeat_n(space, count));
        mapped.keys.extend(pages.clone().map(|page| page_key(space, page)));
        mapped.rows.address.extend(pages);
        if self.traits.has_sizes {
            push_page_bytes(start, end, count, &mut mapped.rows.bytes);
        }
    }

    /// Appends what all pages of a record share.
    #[inline]
    fn push(
        &mut self,
        record: &Record,
        kind: EventKind,
        flags: EventFlags,
        count: usize,
        mapped: &mut Mapped,
    ) {
        let rows = &mut mapped.rows;
        if self.traits.has_clock {
            let start_ns = *self.start_ns.get_or_insert(record.time_ns);
            self.disordered += u64::from(record.time_ns < self.last_ns);
            self.last_ns = record.time_ns;
            let time_ns = record.time_ns.saturating_sub(start_ns);
            rows.events.time_ns.extend(repeat_n(time_ns, count));
        }
        rows.events.kind.extend(repeat_n(kind, count));
        rows.events.flags.extend(repeat_n(flags, count));
        rows.events.process.extend(repeat_n(record.process, count));
        if self.traits.has_durations {
            rows.duration_ns.extend(repeat_n(record.duration_ns, count));
        }
    }
}

/// Read or write; anything else is booked and no access.
#[inline]
fn access_kind(operation: Operation, ledger: &mut Ledger) -> Option<EventKind> {
    let why = match operation {
        Operation::Read => return Some(EventKind::Read),
        Operation::Write => return Some(EventKind::Write),
        Operation::Discard => "discard",
        Operation::Flush => "flush",
        Operation::Passthrough => "neither read nor write",
        _ => "no request",
    };
    ledger.skip(why);
    None
}

/// Appends how much of each page the bytes from `start` to `end` are; they touch `count` pages.
fn push_page_bytes(start: u64, end: u64, count: usize, bytes: &mut Vec<u32>) {
    let first = bytes.len();
    bytes.extend(repeat_n(PAGE_BYTES as u32, count));
    // Both ends may lie within one page: what is missing of it is missing twice.
    bytes[first] -= (start % PAGE_BYTES) as u32;
    let missing = (PAGE_BYTES - end % PAGE_BYTES) % PAGE_BYTES;
    bytes[first + count - 1] -= missing as u32;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK: Traits = Traits {
        address: AddressUnit::Sector,
        mapping: Mapping::Block,
        has_clock: true,
        has_operations: true,
        has_sizes: true,
        has_durations: false,
    };

    fn map(mapping: Mapping, traits: Traits, records: &[Record]) -> (Mapped, Ledger) {
        let mut mapper = Mapper::new(mapping, traits).unwrap();
        let (mut mapped, mut ledger) = (Mapped::default(), Ledger::new(false));
        records.iter().for_each(|record| mapper.map(record, &mut mapped, &mut ledger));
        (mapped, ledger)
    }

    #[test]
    fn a_request_is_split_into_the_pages_it_touches() {
        let record = Record { bytes: 9 * 512, device: 1, ..Record::new(Operation::Write, 15) };
        let (mapped, _) = map(Mapping::Block, BLOCK, &[record]);
        assert_eq!(mapped.rows.address, [1, 2]);
        assert_eq!(mapped.rows.bytes, [512, 4096]);
        assert_eq!(mapped.rows.space, [1, 1]);
        assert_eq!(mapped.rows.events.kind, [EventKind::Write; 2]);
        let (mapped, _) = map(Mapping::Swap, BLOCK, &[record]);
        assert_eq!(mapped.rows.events.kind, [EventKind::SwapOut; 2]);
        assert_eq!(mapped.rows.events.flags, [EventFlags::DIRTY; 2]);
        let (mapped, _) = map(Mapping::Objects, BLOCK, &[record]);
        assert_eq!(mapped.rows.address, [15]);
        assert_eq!(mapped.rows.bytes, [4608]);
    }

    #[test]
    fn what_is_no_access_is_booked() {
        let far = Record { bytes: 512, ..Record::new(Operation::Read, u64::MAX / 512) };
        let farther = Record { bytes: 512, ..Record::new(Operation::Read, u64::MAX) };
        let records = [
            Record::new(Operation::Discard, 0),
            Record::new(Operation::Flush, 0),
            Record::new(Operation::Read, 0),
            far,
            farther,
        ];
        let (mapped, ledger) = map(Mapping::Block, BLOCK, &records);
        assert!(mapped.rows.is_empty());
        let skipped: Vec<_> = ledger.skipped().collect();
        assert_eq!(skipped, [("discard", 1), ("flush", 1), ("zero length", 1)]);
        assert_eq!(ledger.losses()[0].count, 2);
    }

    #[test]
    fn times_count_from_the_first_row_and_disorder_is_counted() {
        let mut mapper = Mapper::new(Mapping::Block, BLOCK).unwrap();
        let mut mapped = Mapped::default();
        for time_ns in [50, 70, 40, 60] {
            let record = Record { bytes: 512, time_ns, ..Record::new(Operation::Read, 8) };
            mapper.map(&record, &mut mapped, &mut Ledger::new(false));
        }
        assert_eq!(mapped.rows.events.time_ns, [0, 20, -10, 10]);
        assert_eq!((mapper.start_ns(), mapper.disordered()), (50, 1));
    }

    #[test]
    fn senseless_mappings_are_refused() {
        let pages = Traits { address: AddressUnit::Page, ..BLOCK };
        assert!(Mapper::new(Mapping::Block, pages).is_err());
        let ids = Traits { address: AddressUnit::Id, ..BLOCK };
        assert!(Mapper::new(Mapping::Swap, ids).is_err());
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_or_counted_twice(sector in 0u64..100_000, bytes in 1u64..3_000_000) {
            let record = Record { bytes, ..Record::new(Operation::Read, sector) };
            let (mapped, _) = map(Mapping::Block, BLOCK, &[record]);
            let total: u64 = mapped.rows.bytes.iter().map(|&bytes| u64::from(bytes)).sum();
            prop_assert_eq!(total, bytes);
            prop_assert!(mapped.rows.bytes.iter().all(|&bytes| bytes > 0));
            let touched = (sector * 512) / 4096..(sector * 512 + bytes).div_ceil(4096);
            prop_assert_eq!(mapped.rows.address, touched.collect::<Vec<u64>>());
            prop_assert_eq!(mapped.keys.len(), mapped.rows.events.len());
        }
    }
}
