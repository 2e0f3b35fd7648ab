//! Maps records to extents of rows: a request becomes the 4 KiB pages that it touches, and every page
//! gets a key, by which it is numbered later.

use types::{EventFlags, EventKind, PAGE_BYTES, PageClass};

use crate::ledger::Ledger;
use crate::record::{AddressUnit, Mapping, Operation, Record, Traits};
use crate::renumber::KeyExtent;
use crate::row_extents::{OptionalColumns, RowExtent};
use crate::{ADDRESS_BITS, page_key};

/// A sector has 512 bytes.
const SECTOR_BITS: u32 = 9;

/// Addressable bytes of a device: 64 PiB.
const DEVICE_BYTES_MAX: u64 = PAGE_BYTES << ADDRESS_BITS;

/// The rows of a batch. An exit has a row but no key.
#[derive(Debug, Default)]
pub struct Mapped {
    /// Everything but the page numbers.
    pub extents: Vec<RowExtent>,
    /// Number of rows in the extents.
    pub rows: usize,
    /// Key of each row, if pages are objects.
    pub ids: Vec<u64>,
}

impl Mapped {
    /// Empties the batch and keeps its capacity.
    pub fn clear(&mut self) {
        self.extents.clear();
        self.rows = 0;
        self.ids.clear();
    }

    /// Keys of the rows with a page, if pages are no objects.
    pub fn key_extents(&self) -> impl Iterator<Item = KeyExtent> {
        let paged = self.extents.iter().filter(|extent| extent.kind != EventKind::Exit);
        paged.map(|extent| KeyExtent {
            first: page_key(extent.space, extent.address),
            count: extent.count,
        })
    }
}

/// Maps the records of a recording to rows.
#[derive(Debug)]
pub struct Mapper {
    mapping: Mapping,
    traits: Traits,
    /// Time of the first row; the trace's times count from it.
    start_ns: Option<i64>,
    last_ns: i64,
    /// Records that are earlier than the record before them.
    disordered: u64,
}

impl Mapper {
    /// A mapper for records with these traits.
    ///
    /// # Errors
    /// The reason why `mapping` does not fit these records.
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

    /// Records so far that are earlier than the record before them.
    pub fn disordered(&self) -> u64 {
        self.disordered
    }

    /// The columns of the rows.
    pub fn columns(&self) -> OptionalColumns {
        OptionalColumns {
            has_clock: self.traits.has_clock,
            has_sizes: self.traits.has_sizes,
            has_durations: self.traits.has_durations,
        }
    }

    /// Appends the rows of `records` until there are at least `rows_max` rows, and returns the number of
    /// records used. `ledger` counts records without rows.
    pub fn map(
        &mut self,
        records: &[Record],
        rows_max: usize,
        mapped: &mut Mapped,
        ledger: &mut Ledger,
    ) -> usize {
        match (self.mapping, self.traits.address) {
            (Mapping::Objects, _) => {
                self.map_each(records, rows_max, mapped, ledger, Mapper::map_object)
            }
            (Mapping::Swap, AddressUnit::Page) => {
                self.map_each(records, rows_max, mapped, ledger, Mapper::map_page)
            }
            (Mapping::Swap | Mapping::Block, _) => {
                self.map_each(records, rows_max, mapped, ledger, Mapper::map_request)
            }
        }
    }

    fn map_each(
        &mut self,
        records: &[Record],
        rows_max: usize,
        mapped: &mut Mapped,
        ledger: &mut Ledger,
        map_one: impl Fn(&mut Mapper, &Record, &mut Mapped, &mut Ledger),
    ) -> usize {
        let mut rest = records.iter();
        while mapped.rows < rows_max
            && let Some(record) = rest.next()
        {
            map_one(self, record, mapped, ledger);
        }
        records.len() - rest.len()
    }

    #[inline]
    fn map_object(&mut self, record: &Record, mapped: &mut Mapped, ledger: &mut Ledger) {
        let Some(kind) = access_kind(record.operation, ledger) else { return };
        let bytes = u32::try_from(record.bytes).unwrap_or(u32::MAX);
        let extent = self.extent(record, kind, EventFlags::default(), 0);
        mapped.extents.push(RowExtent { bytes_first: bytes, ..extent });
        mapped.rows += 1;
        mapped.ids.push(record.address);
    }

    #[inline]
    fn map_page(&mut self, record: &Record, mapped: &mut Mapped, ledger: &mut Ledger) {
        let kind = match record.operation {
            Operation::SwapOut => EventKind::SwapOut,
            Operation::SwapIn => EventKind::SwapIn,
            Operation::Evict => EventKind::Evict,
            Operation::Request => EventKind::Request,
            Operation::Exit => EventKind::Exit,
            Operation::DeviceRead => EventKind::DeviceRead,
            Operation::DeviceWrite => EventKind::DeviceWrite,
            Operation::Void => EventKind::Void,
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
        let is_anonymous = !is_file && kind != EventKind::Exit;
        let flags =
            if is_anonymous { record.flags.with_class(PageClass::Anonymous) } else { record.flags };
        mapped.extents.push(self.extent(record, kind, flags, space));
        mapped.rows += 1;
    }

    #[inline]
    fn map_request(&mut self, record: &Record, mapped: &mut Mapped, ledger: &mut Ledger) {
        let Some(kind) = access_kind(record.operation, ledger) else { return };
        if record.bytes == 0 {
            return ledger.skip("zero length");
        }
        let unit_bits = if self.traits.address == AddressUnit::Byte { 0 } else { SECTOR_BITS };
        let is_near = record.address <= DEVICE_BYTES_MAX >> unit_bits;
        let start = if is_near { record.address << unit_bits } else { DEVICE_BYTES_MAX };
        if record.bytes > DEVICE_BYTES_MAX - start {
            return ledger.lose("requests beyond 64 PiB of a device", 1);
        }
        let end = start + record.bytes;
        let (kind, flags, space) = match (self.mapping, kind) {
            (Mapping::Swap, EventKind::Write) => {
                (EventKind::SwapOut, EventFlags::DIRTY, record.device + 1)
            }
            (Mapping::Swap, _) => (EventKind::SwapIn, EventFlags::default(), record.device + 1),
            _ => (kind, EventFlags::default(), record.device),
        };
        let first = start / PAGE_BYTES;
        let last = (end - 1) / PAGE_BYTES;
        let count = (last - first) as u32 + 1;
        // Bytes of the first and the last page outside the request.
        let before = (start % PAGE_BYTES) as u32;
        let after = (PAGE_BYTES - 1) as u32 - ((end - 1) % PAGE_BYTES) as u32;
        const WHOLE: u32 = PAGE_BYTES as u32;
        mapped.extents.push(RowExtent {
            address: first,
            count,
            bytes_first: WHOLE - before - if count == 1 { after } else { 0 },
            bytes_last: WHOLE - after,
            ..self.extent(record, kind, flags, space)
        });
        mapped.rows += count as usize;
    }

    /// An extent of one row without bytes.
    #[inline]
    fn extent(
        &mut self,
        record: &Record,
        kind: EventKind,
        flags: EventFlags,
        space: u32,
    ) -> RowExtent {
        // Without a clock every time is 0.
        let start_ns = *self.start_ns.get_or_insert(record.time_ns);
        self.disordered += u64::from(record.time_ns < self.last_ns);
        self.last_ns = record.time_ns;
        RowExtent {
            time_ns: record.time_ns.saturating_sub(start_ns),
            duration_ns: record.duration_ns,
            address: record.address,
            count: 1,
            space,
            bytes_first: 0,
            bytes_last: 0,
            process: record.process,
            kind,
            flags,
        }
    }
}

/// The kind of a read or write; other operations are counted as skipped.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rows;
    use proptest::prelude::*;

    const BLOCK: Traits = Traits { has_stages: false, ..Traits::BLOCK_EVENTS };

    fn map(mapping: Mapping, traits: Traits, records: &[Record]) -> (Rows, Ledger) {
        let mut mapper = Mapper::new(mapping, traits).unwrap();
        let (mut mapped, mut ledger) = (Mapped::default(), Ledger::new(false));
        assert_eq!(mapper.map(records, usize::MAX, &mut mapped, &mut ledger), records.len());
        let mut rows = Rows::default();
        mapper.columns().expand(&mapped.extents, &[], &mut rows);
        let keys: usize = mapped.key_extents().map(|extent| extent.count as usize).sum();
        let is_objects = mapping == Mapping::Objects;
        let keyed = if is_objects { mapped.ids.len() } else { keys };
        assert_eq!((rows.len(), rows.len()), (mapped.rows, keyed));
        (rows, ledger)
    }

    #[test]
    fn a_request_is_split_into_the_pages_it_touches() {
        let record = Record { bytes: 9 * 512, device: 1, ..Record::new(Operation::Write, 15) };
        let (rows, _) = map(Mapping::Block, BLOCK, &[record]);
        assert_eq!(rows.address, [1, 2]);
        assert_eq!(rows.bytes, [512, 4096]);
        assert_eq!(rows.space, [1, 1]);
        assert_eq!(rows.events.kind, [EventKind::Write; 2]);
        let (rows, _) = map(Mapping::Swap, BLOCK, &[record]);
        assert_eq!(rows.events.kind, [EventKind::SwapOut; 2]);
        assert_eq!(rows.events.flags, [EventFlags::DIRTY; 2]);
        let (rows, _) = map(Mapping::Objects, BLOCK, &[record]);
        assert_eq!(rows.address, [15]);
        assert_eq!(rows.bytes, [4608]);
    }

    #[test]
    fn records_without_an_access_are_counted() {
        let far = Record { bytes: 512, ..Record::new(Operation::Read, u64::MAX / 512) };
        let farther = Record { bytes: 512, ..Record::new(Operation::Read, u64::MAX) };
        let records = [
            Record::new(Operation::Discard, 0),
            Record::new(Operation::Flush, 0),
            Record::new(Operation::Read, 0),
            far,
            farther,
        ];
        let (rows, ledger) = map(Mapping::Block, BLOCK, &records);
        assert!(rows.is_empty());
        let skipped: Vec<_> = ledger.skipped().collect();
        assert_eq!(skipped, [("discard", 1), ("flush", 1), ("zero length", 1)]);
        assert_eq!(ledger.losses()[0].count, 2);
    }

    #[test]
    fn times_count_from_the_first_row_and_disorder_is_counted() {
        let mut mapper = Mapper::new(Mapping::Block, BLOCK).unwrap();
        let mut mapped = Mapped::default();
        let records = [50, 70, 40, 60].map(|time_ns| Record {
            bytes: 512,
            time_ns,
            ..Record::new(Operation::Read, 8)
        });
        let mut ledger = Ledger::new(false);
        // A batch uses no more records than it has room for.
        assert_eq!(mapper.map(&records, 3, &mut mapped, &mut ledger), 3);
        assert_eq!(mapper.map(&records[3..], 4, &mut mapped, &mut ledger), 1);
        let times: Vec<i64> = mapped.extents.iter().map(|extent| extent.time_ns).collect();
        assert_eq!(times, [0, 20, -10, 10]);
        assert_eq!((mapper.start_ns(), mapper.disordered()), (50, 1));
    }

    #[test]
    fn mappings_that_do_not_fit_the_records_are_refused() {
        let pages = Traits { address: AddressUnit::Page, ..BLOCK };
        assert!(Mapper::new(Mapping::Block, pages).is_err());
        let ids = Traits { address: AddressUnit::Id, ..BLOCK };
        assert!(Mapper::new(Mapping::Swap, ids).is_err());
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_or_counted_twice(sector in 0u64..100_000, bytes in 1u64..3_000_000) {
            let record = Record { bytes, ..Record::new(Operation::Read, sector) };
            let (rows, _) = map(Mapping::Block, BLOCK, &[record]);
            let total: u64 = rows.bytes.iter().map(|&bytes| u64::from(bytes)).sum();
            prop_assert_eq!(total, bytes);
            prop_assert!(rows.bytes.iter().all(|&bytes| bytes > 0));
            let touched = (sector * 512) / 4096..(sector * 512 + bytes).div_ceil(4096);
            prop_assert_eq!(rows.address, touched.collect::<Vec<u64>>());
        }
    }
}
