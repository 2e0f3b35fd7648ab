//! The ring beside a naive one, which keeps everything and cuts at the end.

use proptest::prelude::*;

use super::*;
use crate::input::Input;
use crate::recording::{Reader, Record, RecordingBlock, Sample, Writer, kind};

const AGE_MAX_NS: u64 = 1600;

/// Keeps all segments, and the number of the first that a ring must still have.
struct Naive {
    bytes_max: usize,
    piece_bytes: usize,
    segments: Vec<NaiveSegment>,
    first: usize,
}

struct NaiveSegment {
    begins_ns: u64,
    snapshot: Vec<RecordingBlock>,
    snapshot_bytes: usize,
    /// Each block with its bytes in a file.
    blocks: Vec<(RecordingBlock, usize)>,
}

impl NaiveSegment {
    /// Bytes of the segment in pieces: a block goes into the last piece if it has room.
    fn bytes(&self, piece_bytes: usize) -> usize {
        let (mut bytes, mut room) = (self.snapshot_bytes, 0);
        for &(_, length) in &self.blocks {
            if length > room {
                room = length.max(piece_bytes);
                bytes += room;
            }
            room -= length;
        }
        bytes
    }
}

impl Naive {
    /// Cuts to the last segments that fit.
    fn fit(&mut self) {
        let bytes = |first: usize| -> usize {
            let kept = self.segments[first..].iter();
            kept.map(|segment| segment.bytes(self.piece_bytes)).sum()
        };
        let last = self.segments.len() - 1;
        let fits = (self.first..last).find(|&first| bytes(first) <= self.bytes_max);
        self.first = fits.unwrap_or(last);
    }

    /// Cuts to the last segment that begins early enough, or everything.
    fn expire(&mut self, time_ns: u64) {
        let is_early = |segment: &NaiveSegment| segment.begins_ns + AGE_MAX_NS <= time_ns;
        let early = self.segments.iter().rposition(is_early);
        self.first = self.first.max(early.unwrap_or(0));
    }

    /// The contents of a file that begins at the segment `first`, in order and in one list for each kind of item.
    fn file(&self, first: usize) -> Contents {
        let mut contents = Contents::default();
        let earlier = self.segments[..first].iter().flat_map(|segment| &segment.blocks);
        for (block, _) in earlier {
            if let RecordingBlock::Files(names) = block {
                contents.take(&RecordingBlock::Files(names.clone()));
            }
        }
        self.segments[first].snapshot.iter().for_each(|block| contents.take(block));
        let kept = self.segments[first..].iter().flat_map(|segment| &segment.blocks);
        kept.for_each(|(block, _)| contents.take(block));
        contents
    }
}

/// What readers see in a file: records and samples in order, and the last name of each file.
#[derive(Debug, Default, PartialEq)]
struct Contents {
    records: Vec<Record>,
    sample_times: Vec<u64>,
    names: std::collections::BTreeMap<u64, String>,
}

impl Contents {
    fn take(&mut self, block: &RecordingBlock) {
        match block {
            RecordingBlock::Records(records) => self.records.extend(records),
            RecordingBlock::Sample(sample) => self.sample_times.push(sample.time_ns),
            RecordingBlock::Files(names) => {
                self.names.extend(names.iter().map(|name| (name.inode, name.path.clone())));
            }
            _ => {}
        }
    }
}

/// The contents of a copy, and its end.
fn read(bytes: &[u8]) -> (Contents, Option<Ending>) {
    let input = Input::from_bytes("test.pgr", bytes.to_vec()).unwrap();
    let mut reader = Reader::new(input).unwrap().unwrap();
    let (mut contents, mut ending) = (Contents::default(), None);
    while let Some(block) = reader.read_block().unwrap() {
        assert!(!matches!(block, RecordingBlock::CutShort(_)));
        contents.take(&block);
        if let RecordingBlock::Ending(found) = block {
            ending = Some(found);
        }
    }
    (contents, ending)
}

/// What happens to both rings.
#[derive(Clone, Debug)]
enum Step {
    Records(u16),
    Sample,
    Name(u8),
    BeginCopy,
    Copy(u16),
    EndCopy,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..3000_u16).prop_map(Step::Records),
        2 => Just(Step::Sample),
        2 => (0..20_u8).prop_map(Step::Name),
        1 => Just(Step::BeginCopy),
        3 => (1..20_000_u16).prop_map(Step::Copy),
        1 => Just(Step::EndCopy),
    ]
}

/// A number that does not compress (the finalizer of SplitMix64).
fn scattered(index: u64) -> u64 {
    let mixed = (index ^ index >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// An output that tests can read while the ring owns it.
#[derive(Clone, Default)]
struct Shared(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The ring under test with its writer, and the naive ring.
struct Both {
    writer: Writer<Ring<Shared>>,
    naive: Naive,
    time_ns: u64,
    /// The output of a copy, and the first segment of it.
    copy: Option<(Shared, usize)>,
    copies: usize,
}

impl Both {
    fn new(bytes_max: usize) -> Both {
        let ring = Ring::new(bytes_max, AGE_MAX_NS);
        let (bytes_max, piece_bytes) = (ring.bytes_max, ring.piece_bytes);
        let naive = Naive { bytes_max, piece_bytes, segments: Vec::new(), first: 0 };
        let writer = Writer::new(ring, &About::default()).unwrap();
        Both { writer, naive, time_ns: 1, copy: None, copies: 0 }
    }

    fn ring(&mut self) -> &mut Ring<Shared> {
        self.writer.output_mut()
    }

    fn now(&self) -> Mark {
        Mark { time_ns: self.time_ns, recorded: self.writer.recorded(), lost: self.time_ns / 7 }
    }

    fn begin_segment(&mut self) {
        let (now, time_ns) = (self.now(), self.time_ns);
        self.ring().begin(now);
        let process = self.naive.segments.len() as u32;
        let snapshot = Record { process, ..Record::default() }.of_program("runs");
        let before = self.writer.bytes();
        self.writer.push(snapshot).unwrap();
        self.writer.flush().unwrap();
        let snapshot_bytes = (self.writer.bytes() - before) as usize;
        self.ring().end_snapshot(1);
        self.naive.segments.push(NaiveSegment {
            begins_ns: time_ns,
            snapshot: vec![RecordingBlock::Records(vec![snapshot])],
            snapshot_bytes,
            blocks: Vec::new(),
        });
        self.naive.fit();
    }

    fn write(&mut self, block: RecordingBlock) {
        let before = self.writer.bytes();
        match &block {
            RecordingBlock::Records(records) => {
                records.iter().for_each(|&record| self.writer.push(record).unwrap());
                self.writer.flush().unwrap();
            }
            RecordingBlock::Sample(sample) => self.writer.sample(sample).unwrap(),
            RecordingBlock::Files(names) => self.writer.name_files(names).unwrap(),
            other => panic!("unexpected {other:?}"),
        }
        let bytes = (self.writer.bytes() - before) as usize;
        self.naive.segments.last_mut().unwrap().blocks.push((block, bytes));
        self.naive.fit();
    }

    fn end_copy(&mut self) {
        let Some((output, first)) = self.copy.take() else { return };
        let now = self.now();
        let (_, bytes, ended) = self.ring().end_copy(now, None);
        ended.unwrap();
        let (found, ending) = read(&output.0.borrow());
        assert_eq!(bytes, output.0.borrow().len() as u64);
        assert_eq!(found, self.naive.file(first));
        let ending = ending.unwrap();
        assert_eq!(ending.recorded, found.records.len() as u64);
        let begins_ns = self.naive.segments[first].begins_ns;
        assert_eq!(ending.lost, self.time_ns / 7 - begins_ns / 7);
        self.copies += 1;
    }

    fn take(&mut self, step: &Step) {
        let time_ns = self.time_ns;
        if self.ring().is_due(time_ns) {
            self.begin_segment();
        }
        match *step {
            Step::Records(count) => {
                let record = |index: u64| Record {
                    time_ns: time_ns + index,
                    address: scattered(time_ns + index),
                    kind: kind::PAGE_OUT,
                    ..Record::default()
                };
                let records = (0..u64::from(count)).map(record).collect();
                self.write(RecordingBlock::Records(records));
            }
            Step::Sample => {
                self.write(RecordingBlock::Sample(Sample { time_ns, ..Sample::default() }));
            }
            Step::Name(inode) => {
                let path = format!("/{time_ns}");
                let name = FileName { device: 1, inode: u64::from(inode), path };
                self.write(RecordingBlock::Files(vec![name]));
            }
            Step::BeginCopy if self.copy.is_none() => {
                let output = Shared::default();
                self.ring().begin_copy(output.clone(), &About::default()).unwrap();
                self.copy = Some((output, self.naive.first));
            }
            Step::BeginCopy => {}
            Step::Copy(bytes) => drop(self.ring().copy(usize::from(bytes)).unwrap()),
            Step::EndCopy => self.end_copy(),
        }
        self.ring().expire(time_ns);
        self.naive.expire(time_ns);
        let first = self.naive.segments[self.naive.first].begins_ns;
        assert_eq!(self.ring().begins_ns(), Some(first));
        assert!(self.ring().bytes() <= self.ring().bytes_max);
        assert_eq!(self.ring().refused, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_copy_has_what_a_ring_that_keeps_everything_would_cut(
        steps in proptest::collection::vec((step(), 0..300_u64), 1..200),
        kibibytes in 128..512_usize,
    ) {
        let mut both = Both::new(kibibytes << 10);
        for (step, gap_ns) in &steps {
            both.time_ns += gap_ns;
            both.take(step);
        }
        both.end_copy();
    }
}

#[test]
fn segments_in_a_copy_are_copied_before_they_are_forgotten() {
    let mut both = Both::new(256 << 10);
    both.take(&Step::Records(100));
    both.take(&Step::BeginCopy);
    for _ in 0..100 {
        both.time_ns += AGE_MAX_NS;
        both.take(&Step::Records(1000));
    }
    assert!(both.naive.first > 50);
    both.end_copy();
    assert_eq!(both.copies, 1);
}

#[test]
fn a_snapshot_of_a_later_segment_is_not_in_the_file() {
    let mut both = Both::new(1 << 20);
    for _ in 0..40 {
        both.time_ns += AGE_MAX_NS / SEGMENTS as u64;
        both.take(&Step::Sample);
    }
    let output = Shared::default();
    both.ring().begin_copy(output.clone(), &About::default()).unwrap();
    let now = both.now();
    let (ending, _, ended) = both.ring().end_copy(now, Some(3));
    ended.unwrap();
    let (contents, found) = read(&output.0.borrow());
    let first = both.naive.first as u32;
    assert_eq!(contents.records.iter().map(|record| record.process).collect::<Vec<_>>(), [first]);
    assert_eq!((ending.recorded, ending.exit_status), (1, Some(3)));
    assert_eq!(found, Some(ending));
    assert!((SEGMENTS..=SEGMENTS + 2).contains(&contents.sample_times.len()));
}

#[test]
fn a_block_larger_than_the_ring_is_lost_and_counted() {
    let mut both = Both::new(64 << 10);
    both.begin_segment();
    let output = Shared::default();
    both.ring().begin_copy(output.clone(), &About::default()).unwrap();
    let record = |index: u64| Record { address: scattered(index), ..Record::default() };
    (0..20_000).for_each(|index| both.writer.push(record(index)).unwrap());
    both.writer.flush().unwrap();
    let now = both.now();
    let (ending, _, ended) = both.ring().end_copy(Mark { lost: 5, ..now }, None);
    ended.unwrap();
    assert_eq!((ending.recorded, ending.lost), (1, 20_005));
    assert_eq!(read(&output.0.borrow()).0.records.len(), 1);
}

/// An output with room for some bytes.
struct Disk {
    written: Shared,
    room: usize,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.room);
        if count == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.room -= count;
        self.written.write(&bytes[..count])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_ends_a_copy_at_a_whole_block_and_the_ring_goes_on() {
    let mut writer = Writer::new(Ring::new(1 << 20, u64::MAX), &About::default()).unwrap();
    let mark = |writer: &Writer<Ring<Disk>>, time_ns| Mark {
        time_ns,
        recorded: writer.recorded(),
        lost: 0,
    };
    let now = mark(&writer, 0);
    writer.output_mut().begin(now);
    writer.output_mut().end_snapshot(0);
    for time_ns in 0..100 {
        writer.sample(&Sample { time_ns, ..Sample::default() }).unwrap();
    }
    let mut results = Vec::new();
    for room in (0..6000).step_by(97).chain([1 << 20]) {
        let written = Shared::default();
        let disk = Disk { written: written.clone(), room };
        if writer.output_mut().begin_copy(disk, &About::default()).is_err() {
            assert!(room < 1000);
            continue;
        }
        let copied = writer.output_mut().copy(usize::MAX);
        let now = mark(&writer, 200);
        let (_, bytes, ended) = writer.output_mut().end_copy(now, None);
        if copied.is_err() {
            assert_eq!(ended.as_ref().unwrap_err().kind(), io::ErrorKind::StorageFull);
        }
        let (contents, ending) = read(&written.0.borrow()[..bytes as usize]);
        assert_eq!(ending.is_some(), ended.is_ok());
        results.push((contents.sample_times.len(), ended.is_ok()));
    }
    assert!(results.is_sorted() && results.len() > 10);
    assert_eq!(results.last(), Some(&(100, true)));
}
