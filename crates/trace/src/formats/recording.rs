//! `recording`: the file of `pagewise-agent record` (crate::recording has its layout). By default it
//! becomes a swap trace, whose events `swap_events` interprets. As a block trace it has the requests to
//! block devices.

use super::requests::{believed, device_name};
use super::swap_events::{self, SwapEvents};
use super::{Format, ReadOptions};
use crate::sniff::Confidence;
use types::EventFlags;

use crate::input::Input;
use crate::ledger::Ledger;
use crate::record::{Mapping, Operation, Record, RecordReader, Traits};
use crate::recording::{self, About, MAGIC, PressureTotals, RecordingBlock, flag, kind};
use crate::zeros_counted::Samples;
use crate::{Error, ErrorKind, Position, Stall};

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "recording",
    summary: "what pagewise-agent records on a device, by owner and address",
    has_columns: false,
    has_parts: false,
    has_accesses: true,
    sniff,
    open,
};

/// Shift of the area's number in a swap entry, and bits of the slot in a page's address.
const AREA_SHIFT: u32 = 58;
const AREA_PAGE_BITS: u32 = 32;

/// Records per call of `read`. A call returns more if a single event has more pages.
const RECORDS_PER_READ: usize = 1 << 14;

fn sniff(head: &[u8]) -> Confidence {
    Confidence::Certain.when(MAGIC.begins(head))
}

fn open(input: Input, options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    let path = input.path().to_owned();
    let blocks = recording::Reader::new(input)?.ok_or_else(|| {
        let expected = "expected a recording, as `pagewise-agent record` writes";
        Error::new(ErrorKind::Corrupt, path, expected).at(Position::Byte(0))
    })?;
    let meaning = match options.mapping {
        Some(Mapping::Block) => Meaning::Block,
        _ => Meaning::Swap(SwapEvents::default()),
    };
    Ok(Box::new(RecordingReader {
        blocks,
        meaning,
        recorder: None,
        events: Vec::new(),
        taken: 0,
        samples: None,
        has_ended: false,
    }))
}

struct RecordingReader {
    blocks: recording::Reader,
    meaning: Meaning,
    /// Index of this recording's description among the ledger's recorders.
    recorder: Option<usize>,
    /// The events of the last block; `taken` of them have been read.
    events: Vec<recording::Record>,
    taken: usize,
    /// The kernel's counters, if page-outs of zeros are marked.
    samples: Option<Samples>,
    has_ended: bool,
}

/// How the events of a recording are interpreted.
enum Meaning {
    Swap(SwapEvents),
    /// Without owners: a write to a swap slot is a page-out, a read is a page-in.
    Slots,
    Block,
}

impl RecordReader for RecordingReader {
    fn read(&mut self, records: &mut Vec<Record>, ledger: &mut Ledger) -> Result<bool, Error> {
        let full = records.len() + RECORDS_PER_READ;
        while let Some(event) = self.events.get(self.taken)
            && records.len() < full
        {
            self.taken += 1;
            let time_ns = event.time_ns as i64;
            if event.kind == kind::KILL {
                let is_of_kernel = event.flags & flag::OOM_KILL != 0;
                ledger.note_kill(time_ns, event.process, is_of_kernel);
            }
            match &mut self.meaning {
                Meaning::Swap(meaning) => meaning.take(time_ns, event, records, ledger),
                Meaning::Slots => slot_transfer(time_ns, event, records, ledger),
                Meaning::Block => block_request(time_ns, event, records, ledger),
            }
        }
        Ok(self.taken < self.events.len() || self.read_block(ledger)?)
    }

    fn traits(&self) -> Traits {
        match self.meaning {
            Meaning::Swap(_) | Meaning::Slots => SwapEvents::TRAITS,
            Meaning::Block => Traits { has_stages: false, ..Traits::BLOCK_EVENTS },
        }
    }
}

impl RecordingReader {
    /// Reads the next block; false at the end of the file.
    fn read_block(&mut self, ledger: &mut Ledger) -> Result<bool, Error> {
        let Some(block) = self.blocks.read_block()? else {
            if !self.has_ended {
                ledger.lose("the end of the recording: the recorder stopped early", 1);
            }
            let zeros = match (self.samples.take(), &self.meaning) {
                (Some(samples), Meaning::Swap(meaning)) => {
                    Some(samples.zeros(meaning.zero_outs(), ledger))
                }
                _ => None,
            };
            ledger.note_zeros(zeros);
            return Ok(false);
        };
        match block {
            RecordingBlock::Records(events) => (self.events, self.taken) = (events, 0),
            RecordingBlock::About(about) => {
                if about.has_slots() && matches!(self.meaning, Meaning::Swap(_)) {
                    self.meaning = Meaning::Slots;
                }
                if let (true, Meaning::Swap(meaning)) = (about.knows_zeros, &mut self.meaning) {
                    meaning.know_zeros();
                    self.samples = Some(Samples::of(&about));
                }
                match self.recorder {
                    Some(index) => ledger.recorders[index] = about,
                    None => {
                        self.recorder = Some(ledger.recorders.len());
                        ledger.recorders.push(about);
                    }
                }
            }
            RecordingBlock::Files(names) => {
                for name in names {
                    ledger.files.name(name.device, name.inode, name.path);
                }
            }
            RecordingBlock::Ending(ending) => {
                self.has_ended = true;
                ledger.note_time(ending.time_ns);
                ledger.lose("events dropped because the recorder's buffer was full", ending.lost);
            }
            RecordingBlock::CutShort(bytes) => {
                ledger.lose("bytes of a block that was cut short", bytes)
            }
            RecordingBlock::Sample(sample) => {
                ledger.note_time(sample.time_ns);
                if let Some(&PressureTotals { some_us, full_us }) = sample.pressure.get("memory") {
                    let time_ns = sample.time_ns as i64;
                    ledger.shortage.stall_of_machine(Stall { time_ns, some_us, full_us });
                }
                let recorder = self.recorder.and_then(|index| ledger.recorders.get_mut(index));
                if let Some(About { system: Some(system), .. }) = recorder {
                    system.see_zram(&sample.zram);
                }
                if let Some(samples) = &mut self.samples {
                    samples.add(sample);
                }
            }
            RecordingBlock::Moment(moment) => {
                ledger.note_time(moment.time_ns);
                let recorder = self.recorder.and_then(|index| ledger.recorders.get(index));
                let is_of_cgroup = recorder.is_some_and(|about| about.cgroup.is_some());
                ledger.shortage.moment(&moment, is_of_cgroup);
                ledger.see(b"moment", 1);
            }
            RecordingBlock::Unknown(_) => {}
        }
        Ok(true)
    }
}

/// Appends the pages of a transfer between memory and a swap slot. All have the same owner, because the
/// real owners are unknown.
fn slot_transfer(
    time_ns: i64,
    event: &recording::Record,
    records: &mut Vec<Record>,
    ledger: &mut Ledger,
) {
    swap_events::see(event, ledger);
    let (operation, flags) = match event.kind {
        kind::SWAP_WRITE => (Operation::SwapOut, EventFlags::DIRTY),
        kind::SWAP_READ => (Operation::SwapIn, EventFlags::default()),
        kind::SLOT_VOID => (Operation::Void, EventFlags::default()),
        kind::FILE_ADDED => {
            return swap_events::file_pages(time_ns, Operation::Request, event, records, ledger);
        }
        kind::FILE_DROPPED => {
            return swap_events::file_pages(time_ns, Operation::Evict, event, records, ledger);
        }
        _ => return swap_events::know_process(event, ledger),
    };
    let process = ledger.named_process(0, b"swap slots");
    for slot in swap_events::slots(event) {
        // Each area takes 16 TiB of the trace's addresses.
        let page = slot >> AREA_SHIFT << AREA_PAGE_BITS | slot & ((1 << AREA_PAGE_BITS) - 1);
        records.push(Record { time_ns, process, flags, ..Record::new(operation, page) });
    }
}

/// Appends an event that is a request to a block device.
fn block_request(
    time_ns: i64,
    event: &recording::Record,
    records: &mut Vec<Record>,
    ledger: &mut Ledger,
) {
    swap_events::see(event, ledger);
    if event.kind != kind::BLOCK {
        return swap_events::know_process(event, ledger);
    }
    let operation = match event.flags {
        flags if flags & flag::IS_OTHER != 0 => Operation::Passthrough,
        flags if flags & flag::WRITES != 0 => Operation::Write,
        _ => Operation::Read,
    };
    records.push(Record {
        time_ns,
        bytes: event.object,
        process: ledger.process(event.process),
        device: ledger.device(device_name(event.device).as_bytes()),
        ..Record::new(believed(operation, event.object, ledger), event.address)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Zeros;
    use crate::formats::tests::read_with;
    use crate::recording::{Ending, FileName, Sample, System, Writer, Zram};
    use types::PageClass;

    /// Two pages of a library enter the page cache and one leaves; a request of 8 KiB; a kill.
    fn sample() -> Vec<u8> {
        let file =
            recording::Record { object: 7, device: 1 << 20, process: 9, ..Default::default() };
        let events = [
            recording::Record { kind: kind::FILE_ADDED, address: 5, pages: 2, ..file },
            recording::Record { kind: kind::FILE_DROPPED, address: 6, ..file },
            recording::Record {
                kind: kind::BLOCK,
                address: 8,
                object: 8192,
                flags: flag::WRITES,
                ..file
            },
            recording::Record { kind: kind::KILL, flags: flag::OOM_KILL, ..file },
        ];
        let about = About { sources: vec!["files".into()], ..About::default() };
        let mut writer = Writer::new(Vec::new(), &about).unwrap();
        let name = FileName { device: 1 << 20, inode: 7, path: "/usr/lib/libc.so.6".into() };
        writer.name_files(&[name]).unwrap();
        events.iter().for_each(|&event| writer.push(event).unwrap());
        writer.finish(Ending { lost: 3, ..Ending::default() }).unwrap()
    }

    #[test]
    fn without_owners_writes_and_reads_of_slots_are_page_outs_and_page_ins() {
        let about = About { backend: "tracefs".into(), ..About::default() };
        let mut writer = Writer::new(Vec::new(), &about).unwrap();
        let entry = 1 << AREA_SHIFT | 7;
        for (kind, pages, object) in [
            (kind::PAGE_OUT, 1, entry),
            (kind::SWAP_WRITE, 2, entry),
            (kind::SWAP_READ, 1, entry),
            // No kernel has such slots; a damaged file may have them.
            (kind::SWAP_WRITE, 2, u64::MAX),
        ] {
            let event = recording::Record { kind, pages, object, process: 5, ..Default::default() };
            writer.push(event).unwrap();
        }
        let bytes = writer.finish(Ending::default()).unwrap();
        let (records, ledger) = read_with(&FORMAT, &bytes, &ReadOptions::default()).unwrap();
        let brief: Vec<_> =
            records.iter().map(|record| (record.operation, record.address)).collect();
        let first = 1 << AREA_PAGE_BITS | 7;
        assert_eq!(
            brief,
            [
                (Operation::SwapOut, first),
                (Operation::SwapOut, first + 1),
                (Operation::SwapIn, first),
                (Operation::SwapOut, (64 << AREA_PAGE_BITS) - 1),
                (Operation::SwapOut, 0),
            ]
        );
        assert!(records.iter().all(|record| record.process == records[0].process));
        assert_eq!(ledger.processes().get(0).unwrap().name, "swap slots");
    }

    #[test]
    fn a_swap_server_records_discards_too_and_its_moves_and_capacities_are_only_counted() {
        let about = About { backend: "swapd".into(), ..About::default() };
        let mut writer = Writer::new(Vec::new(), &about).unwrap();
        for kind in [
            kind::CAPACITY,
            kind::SWAP_WRITE,
            kind::MOVE_DONE,
            kind::SWAP_READ,
            kind::MOVE_FAILED,
            kind::SLOT_VOID,
        ] {
            let event = recording::Record { kind, pages: 1, object: 9, ..Default::default() };
            writer.push(event).unwrap();
        }
        let bytes = writer.finish(Ending::default()).unwrap();
        let (records, _) = read_with(&FORMAT, &bytes, &ReadOptions::default()).unwrap();
        let brief: Vec<_> =
            records.iter().map(|record| (record.operation, record.address)).collect();
        assert_eq!(brief, [(Operation::SwapOut, 9), (Operation::SwapIn, 9), (Operation::Void, 9)]);
    }

    /// Page 5 is swapped out as zeros and returns twice, then with contents. Page 6 never holds zeros. A
    /// folio of two pages holds zeros, and its process ends.
    fn with_zeros(knows_zeros: bool) -> Vec<u8> {
        let about = About { backend: "bpf".into(), knows_zeros, ..About::default() };
        let mut writer = Writer::new(Vec::new(), &about).unwrap();
        let sample = |count: u64| Sample {
            vmstat: [("swpout_zero", count), ("swpin_zero", 2)]
                .map(|(name, count)| (name.to_owned(), count))
                .into(),
            ..Sample::default()
        };
        writer.sample(&sample(10)).unwrap();
        let page = recording::Record { process: 9, pages: 1, ..Default::default() };
        let out = recording::Record { kind: kind::PAGE_OUT, ..page };
        let back = recording::Record { kind: kind::SWAP_IN, ..page };
        for event in [
            recording::Record { address: 5, object: 1, flags: flag::ZEROS, ..out },
            recording::Record { address: 6, object: 2, device: 7, ..out },
            recording::Record { address: 5, ..back },
            recording::Record { address: 6, ..back },
            recording::Record { address: 5, ..back },
            recording::Record { address: 5, object: 1, device: 7, ..out },
            recording::Record { address: 5, ..back },
            recording::Record { address: 8, object: 4, pages: 2, flags: flag::ZEROS, ..out },
            recording::Record { kind: kind::EXIT, ..page },
            recording::Record { address: 8, ..back },
        ] {
            writer.push(event).unwrap();
        }
        writer.sample(&sample(13)).unwrap();
        writer.finish(Ending::default()).unwrap()
    }

    fn of_zeros(knows_zeros: bool) -> (Vec<Record>, Ledger) {
        read_with(&FORMAT, &with_zeros(knows_zeros), &ReadOptions::default()).unwrap()
    }

    #[test]
    fn each_of_several_recordings_keeps_its_recorder_and_its_counts_of_zram() {
        let recording = |backend: &str, held: u64| {
            let zram = [("zram0".to_owned(), Zram::default())].into();
            let system = Some(System { zram, ..System::default() });
            let about = About { backend: backend.to_owned(), system, ..About::default() };
            let mut writer = Writer::new(Vec::new(), &about).unwrap();
            let counts = [("orig_data_bytes".to_owned(), held)].into();
            let zram = [("zram0".to_owned(), counts)].into();
            writer.sample(&Sample { zram, ..Sample::default() }).unwrap();
            let event = recording::Record { kind: kind::SWAP_READ, pages: 1, ..Default::default() };
            writer.push(event).unwrap();
            writer.finish(Ending::default()).unwrap()
        };
        // Both descriptions are read before the counts of the first recording, as a merge does.
        let mut ledger = Ledger::new(false);
        let mut readers = [("bpf", 7), ("tracefs", 5)].map(|(backend, held)| {
            let input = Input::from_bytes("sample", recording(backend, held)).unwrap();
            let mut reader = open(input, &ReadOptions::default()).unwrap();
            reader.read(&mut Vec::new(), &mut ledger).unwrap();
            reader
        });
        for reader in &mut readers {
            while reader.read(&mut Vec::new(), &mut ledger).unwrap() {}
        }
        let kept = ledger.recorders.iter().map(|about| {
            let zram = &about.system.as_ref().unwrap().zram["zram0"];
            (about.backend.as_str(), zram.orig_data_bytes)
        });
        assert_eq!(kept.collect::<Vec<_>>(), [("bpf", 7), ("tracefs", 5)]);
    }

    #[test]
    fn merged_recordings_mark_zeros_only_if_each_of_them_does() {
        let zeros = |recordings: &[bool]| {
            let mut ledger = Ledger::new(false);
            for &knows_zeros in recordings {
                let input = Input::from_bytes("sample", with_zeros(knows_zeros)).unwrap();
                let mut reader = open(input, &ReadOptions::default()).unwrap();
                while reader.read(&mut Vec::new(), &mut ledger).unwrap() {}
            }
            ledger.zeros()
        };
        assert_eq!(zeros(&[true, true]), Some(Zeros::default()));
        for some in [[true, false], [false, true], [false, false]] {
            assert_eq!(zeros(&some), None, "{some:?}");
        }
        assert!(zeros(&[true]).unwrap().kernel_outs.is_some());
    }

    #[test]
    fn page_outs_and_page_ins_of_zeros_are_marked() {
        let (records, ledger) = of_zeros(true);
        let is_marked = |record: &&Record| record.flags.contains(EventFlags::ZERO);
        let marked: Vec<_> = records
            .iter()
            .filter(is_marked)
            .map(|record| (record.operation, record.address))
            .collect();
        let (out, back) = (Operation::SwapOut, Operation::SwapIn);
        assert_eq!(marked, [(out, 5), (back, 5), (back, 5), (out, 8), (out, 9)]);
        let zeros = Zeros { kernel_outs: Some(3), kernel_ins: Some(0) };
        assert_eq!((ledger.zeros(), ledger.losses().len()), (Some(zeros), 0));
    }

    #[test]
    fn a_recording_without_marks_has_no_counts_of_zeros() {
        let (records, ledger) = of_zeros(false);
        assert!(!records.iter().any(|record| record.flags.contains(EventFlags::ZERO)));
        assert_eq!(ledger.zeros(), None);
    }

    fn read(mapping: Mapping) -> (Vec<Record>, Ledger) {
        let options = ReadOptions { mapping: Some(mapping), ..ReadOptions::default() };
        read_with(&FORMAT, &sample(), &options).unwrap()
    }

    #[test]
    fn file_pages_have_their_class() {
        let (records, ledger) = read(Mapping::Swap);
        let brief: Vec<_> =
            records.iter().map(|record| (record.operation, record.address)).collect();
        let come = Operation::Request;
        assert_eq!(brief, [(come, 5), (come, 6), (Operation::Evict, 6)]);
        for record in &records {
            assert!(record.flags.contains(types::EventFlags::FILE));
            assert_eq!(record.flags.class(), PageClass::SharedLibrary);
        }
        assert_eq!(ledger.files.list()[0].path, "/usr/lib/libc.so.6");
        assert_eq!(ledger.files.list()[0].device, "1:0");
        let seen = [("block_write", 1), ("file_added", 2), ("file_dropped", 1), ("oom_kill", 1)];
        assert_eq!(ledger.seen(), seen.map(|(name, count)| (name.to_owned(), count)));
        assert_eq!(ledger.recorders[0].sources, ["files"]);
        let kills = &ledger.shortage.kills;
        assert_eq!((kills.len(), kills[0].pid, kills[0].is_of_kernel), (1, 9, true));
        assert_eq!(ledger.losses()[0].count, 3);
    }

    #[test]
    fn a_block_trace_has_the_requests_of_the_recording() {
        let (records, ledger) = read(Mapping::Block);
        assert_eq!(records.len(), 1);
        assert_eq!((records[0].operation, records[0].address), (Operation::Write, 8));
        assert_eq!((records[0].bytes, records[0].device), (8192, 0));
        assert_eq!(ledger.devices(), ["1,0"]);
    }

    #[test]
    fn the_header_keeps_the_machine_with_the_largest_counts_of_zram() {
        let zram = [("zram0".to_owned(), Zram { bytes: 1 << 30, ..Zram::default() })].into();
        let system = System { zram, ..System::default() };
        let about = About { system: Some(system), ..About::default() };
        let mut writer = Writer::new(Vec::new(), &about).unwrap();
        for (held, used) in [(8 << 20, 2 << 20), (4 << 20, 3 << 20)] {
            let counts =
                [("orig_data_bytes".to_owned(), held), ("mem_used_bytes".to_owned(), used)];
            let zram = [("zram0".to_owned(), counts.into())].into();
            writer.sample(&Sample { zram, ..Sample::default() }).unwrap();
        }
        let bytes = writer.finish(Ending::default()).unwrap();
        let (_, ledger) = read_with(&FORMAT, &bytes, &ReadOptions::default()).unwrap();
        let zram = &ledger.recorders[0].system.as_ref().unwrap().zram["zram0"];
        assert_eq!(
            (zram.bytes, zram.orig_data_bytes, zram.mem_used_bytes),
            (1 << 30, 8 << 20, 2 << 20)
        );
    }

    #[test]
    fn earlier_recordings_have_no_machine() {
        let text = serde_json::to_string(&About::default()).unwrap();
        assert!(!text.contains("system"), "{text}");
        assert_eq!(serde_json::from_str::<About>(&text).unwrap().system, None);
    }

    #[test]
    fn a_request_too_long_for_any_device_is_counted_as_a_loss() {
        let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
        let bytes = [u64::from(u32::MAX) << 12, 1 << 30];
        for object in bytes {
            let request = recording::Record { kind: kind::BLOCK, object, ..Default::default() };
            writer.push(request).unwrap();
        }
        let bytes = writer.finish(Ending::default()).unwrap();
        let options = ReadOptions { mapping: Some(Mapping::Block), ..ReadOptions::default() };
        let (records, ledger) = read_with(&FORMAT, &bytes, &options).unwrap();
        let operations: Vec<_> = records.iter().map(|record| record.operation).collect();
        assert_eq!(operations, [Operation::Passthrough, Operation::Read]);
        assert_eq!(ledger.losses()[0].count, 1);
    }
}
