//! Reads the rings into which the BPF programs write records (bpf/record.h): the records of all rings, oldest
//! first.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use trace::recording::{Record, kind};

/// The words of `struct record` and `struct ring`, and the places of words in a ring.
const RECORD_WORDS: usize = 5;
const RING_WORDS: usize = 16;
const LOST: usize = 1;
const READ: usize = 8;

/// `ROUND` of record.h.
const ROUND: u8 = 0x80;

/// The fewest records of a ring if there is more than one ring: 36 ms of a storm.
const RECORDS_MIN: usize = 1 << 14;

/// Records per second of a swap storm, all on one processor.
const STORM_RECORDS: u64 = 450_000;

/// Bounds of the time between two reads. A wake-up costs about ten microseconds of CPU time; records that a
/// killed recorder has not read are lost.
const EVERY_MIN: Duration = Duration::from_millis(20);
const EVERY_MAX: Duration = Duration::from_millis(50);

/// The number of rings, and the records of each: powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSizes {
    pub rings: usize,
    pub records: usize,
}

impl RingSizes {
    /// The sizes that fit into `bytes`, with a ring for each processor if the rings are large enough.
    pub fn of(bytes: usize, processors: usize) -> RingSizes {
        let fits = (bytes / (RECORD_WORDS * size_of::<u64>())).max(1);
        let records = 1 << fits.ilog2();
        let rings = processors.next_power_of_two().min((records / RECORDS_MIN).max(1));
        RingSizes { rings, records: records / rings }
    }

    /// How often to read the rings: before a storm fills a third of a ring, if the bounds permit.
    pub fn read_every(&self) -> Duration {
        let filled_ns = self.records as u64 / 3 * 1_000_000_000 / STORM_RECORDS;
        Duration::from_nanos(filled_ns).clamp(EVERY_MIN, EVERY_MAX)
    }

    /// The number of words of all rings' positions.
    pub fn position_words(&self) -> usize {
        self.rings * RING_WORDS
    }

    /// The number of words of all rings' records.
    pub fn record_words(&self) -> usize {
        self.rings * self.records * RECORD_WORDS
    }
}

/// All rings, in words that the BPF programs change.
pub struct Rings<Words> {
    sizes: RingSizes,
    positions: Words,
    records: Words,
    /// The number of records that were read from each ring.
    read: Vec<u64>,
}

impl<Words: Deref<Target = [AtomicU64]>> Rings<Words> {
    pub fn new(sizes: RingSizes, positions: Words, records: Words) -> Rings<Words> {
        Rings { sizes, positions, records, read: vec![0; sizes.rings] }
    }

    /// Appends up to `count` events, or one more, that are not younger than `until_ns`, oldest first, and frees
    /// their places.
    pub fn take(&mut self, until_ns: u64, count: usize, taken: &mut Vec<Record>) {
        let full = taken.len() + count;
        let mut nexts: Vec<Option<u64>> =
            (0..self.sizes.rings).map(|ring| self.time(ring)).collect();
        while taken.len() < full
            && let Some((ring, until_ns)) = oldest(&nexts, until_ns)
        {
            nexts[ring] = loop {
                match self.next(ring) {
                    Some(record) if record.time_ns <= until_ns && taken.len() < full => {
                        push_events(record, taken);
                        self.read[ring] += 1;
                    }
                    next => break next.map(|record| record.time_ns),
                }
            };
        }
        for (positions, &read) in self.positions.chunks_exact(RING_WORDS).zip(&self.read) {
            positions[READ].store(read, Ordering::Release);
        }
    }

    /// How often to read the rings.
    pub fn read_every(&self) -> Duration {
        self.sizes.read_every()
    }

    /// Events that found their ring full.
    pub fn lost(&self) -> u64 {
        let rings = self.positions.chunks_exact(RING_WORDS);
        rings.map(|positions| positions[LOST].load(Ordering::Relaxed)).sum()
    }

    fn time(&self, ring: usize) -> Option<u64> {
        self.next(ring).map(|record| record.time_ns)
    }

    /// The next record of a ring, if it is complete: its kind then has the mark of this round.
    fn next(&self, ring: usize) -> Option<Record> {
        let read = self.read[ring] as usize;
        let index = ring * self.sizes.records + read % self.sizes.records;
        let words = &self.records[index * RECORD_WORDS..][..RECORD_WORDS];
        let end = words[4].load(Ordering::Acquire);
        let is_marked = (read / self.sizes.records).is_multiple_of(2);
        let record = Record::from_kernel([
            words[0].load(Ordering::Relaxed),
            words[1].load(Ordering::Relaxed),
            words[2].load(Ordering::Relaxed),
            words[3].load(Ordering::Relaxed),
            end,
        ]);
        let mark = if is_marked { ROUND } else { 0 };
        (record.kind & ROUND == mark).then_some(Record { kind: record.kind & !ROUND, ..record })
    }
}

/// Appends the events of a record: a page-out with a device is also the write of its pages, which the kernel
/// queues first.
fn push_events(record: Record, events: &mut Vec<Record>) {
    if record.kind == kind::PAGE_OUT && record.device != 0 {
        events.push(Record {
            kind: kind::SWAP_WRITE,
            process: record.auxiliary,
            address: 0,
            auxiliary: 0,
            flags: 0,
            ..record
        });
        events.push(Record { device: 0, ..record });
    } else {
        events.push(record);
    }
}

/// The ring whose next record is the oldest, by the times `nexts`, and the time until which it stays the oldest.
/// None if all records are younger than `until_ns`.
fn oldest(nexts: &[Option<u64>], until_ns: u64) -> Option<(usize, u64)> {
    let mut oldest: Option<(usize, u64)> = None;
    let mut until_ns = until_ns;
    for (ring, &next) in nexts.iter().enumerate() {
        match (next, oldest) {
            (Some(next), Some((_, first))) if first <= next => until_ns = until_ns.min(next),
            (Some(next), Some((_, first))) => (oldest, until_ns) = (Some((ring, next)), first),
            (Some(next), None) if next <= until_ns => oldest = Some((ring, next)),
            _ => {}
        }
    }
    oldest.map(|(ring, _)| (ring, until_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes records as the BPF programs do, in memory of this process.
    struct Writer {
        sizes: RingSizes,
        positions: Vec<AtomicU64>,
        records: Vec<AtomicU64>,
    }

    impl Writer {
        fn new(sizes: RingSizes) -> Writer {
            let words = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
            Writer {
                sizes,
                positions: words(sizes.position_words()),
                records: words(sizes.record_words()),
            }
        }

        fn rings(&self) -> Rings<&[AtomicU64]> {
            Rings::new(self.sizes, &self.positions, &self.records)
        }

        fn write(&self, ring: usize, time_ns: u64) {
            if let Some(claimed) = self.claim(ring) {
                self.complete(ring, claimed, time_ns);
            }
        }

        /// Claims the next place; counts a loss if there is none.
        fn claim(&self, ring: usize) -> Option<u64> {
            let positions = &self.positions[ring * RING_WORDS..];
            let claimed = positions[0].load(Ordering::Relaxed);
            if claimed - positions[READ].load(Ordering::Acquire) >= self.sizes.records as u64 {
                positions[LOST].fetch_add(1, Ordering::Relaxed);
                return None;
            }
            positions[0].store(claimed + 1, Ordering::Relaxed);
            Some(claimed)
        }

        /// Completes a record of kind 4 with its ring and its time.
        fn complete(&self, ring: usize, claimed: u64, time_ns: u64) {
            let (round, index) =
                (claimed / self.sizes.records as u64, claimed as usize % self.sizes.records);
            let words = &self.records[(ring * self.sizes.records + index) * RECORD_WORDS..];
            let kind = 4 | if round % 2 == 0 { ROUND } else { 0 };
            words[0].store(time_ns, Ordering::Relaxed);
            words[1].store(ring as u64, Ordering::Relaxed);
            words[4].store(u64::from_ne_bytes([0, 0, 0, 0, 0, 0, kind, 0]), Ordering::Release);
        }
    }

    fn times(rings: &mut Rings<&[AtomicU64]>, until_ns: u64, count: usize) -> Vec<u64> {
        let mut taken = Vec::new();
        rings.take(until_ns, count, &mut taken);
        assert!(taken.iter().all(|record| record.kind == 4));
        taken.iter().map(|record| record.time_ns).collect()
    }

    #[test]
    fn a_shape_fits_its_bytes() {
        let sizes = |bytes, processors| {
            let RingSizes { rings, records } = RingSizes::of(bytes, processors);
            (rings, records)
        };
        assert_eq!(sizes(8 << 20, 2), (2, 1 << 16));
        assert_eq!(sizes(8 << 20, 3), (4, 1 << 15));
        assert_eq!(sizes(8 << 20, 64), (8, 1 << 14));
        assert_eq!(sizes(4096, 2), (1, 64));
        assert_eq!(sizes(0, 1), (1, 1));
    }

    #[test]
    fn a_storm_does_not_fill_a_ring_between_two_reads() {
        let every = |bytes, processors| RingSizes::of(bytes, processors).read_every().as_millis();
        assert_eq!(every(8 << 20, 2), 48);
        assert_eq!(every(64 << 20, 2), 50);
        assert_eq!(every(8 << 20, 64), 20);
        assert_eq!(every(4096, 2), 20);
    }

    #[test]
    fn a_page_out_with_a_device_is_also_its_write() {
        let page_out = Record {
            time_ns: 9,
            address: 70,
            object: 80,
            process: 1,
            auxiliary: 2,
            device: 3,
            pages: 4,
            kind: kind::PAGE_OUT,
            flags: 1,
        };
        let mut events = Vec::new();
        push_events(page_out, &mut events);
        let written = Record {
            address: 0,
            process: 2,
            auxiliary: 0,
            kind: kind::SWAP_WRITE,
            flags: 0,
            ..page_out
        };
        let without_device = Record { device: 0, ..page_out };
        assert_eq!(events, [written, without_device]);
        events.clear();
        push_events(without_device, &mut events);
        assert_eq!(events, [without_device]);
    }

    #[test]
    fn records_of_all_rings_come_oldest_first_in_every_round() {
        let writer = Writer::new(RingSizes { rings: 4, records: 8 });
        let mut rings = writer.rings();
        for start in (1..1000).step_by(12) {
            for time_ns in start..start + 12 {
                writer.write([0, 2, 2, 1][time_ns as usize % 4], time_ns);
            }
            let taken = times(&mut rings, start + 5, 100);
            assert_eq!(taken, (start..start + 6).collect::<Vec<_>>());
            let taken = [times(&mut rings, u64::MAX, 5), times(&mut rings, u64::MAX, 5)].concat();
            assert_eq!(taken, (start + 6..start + 12).collect::<Vec<_>>());
        }
        assert_eq!(rings.lost(), 0);
    }

    #[test]
    fn a_full_ring_drops_records_and_counts_them() {
        let writer = Writer::new(RingSizes { rings: 2, records: 4 });
        let mut rings = writer.rings();
        (1..8).for_each(|time_ns| writer.write(1, time_ns));
        writer.write(0, 8);
        assert_eq!((times(&mut rings, u64::MAX, 100), rings.lost()), (vec![1, 2, 3, 4, 8], 3));
        writer.write(1, 9);
        assert_eq!((times(&mut rings, u64::MAX, 100), rings.lost()), (vec![9], 3));
    }

    #[test]
    fn an_incomplete_record_holds_back_later_records_of_its_ring() {
        let writer = Writer::new(RingSizes { rings: 1, records: 4 });
        let mut rings = writer.rings();
        for start in [1, 5, 9] {
            writer.write(0, start);
            let claimed = writer.claim(0).unwrap();
            writer.write(0, start + 2);
            assert_eq!(times(&mut rings, u64::MAX, 100), [start]);
            writer.complete(0, claimed, start + 1);
            assert_eq!(times(&mut rings, u64::MAX, 100), [start + 1, start + 2]);
        }
    }
}
