//! Cuts a recording to the movements of pages, or to those of swap, which takes a tenth of its bytes or less.
//!
//! A cut has every page that left memory or came back, every page of a file that entered or left the
//! page cache, and the names, beginnings, ends and kills of processes. So the kinds, flags and pages of
//! the events of a swap trace are those of the whole recording, without its device traffic.
//!
//! It lacks requests to devices, transfers of swap slots, latencies, who reclaimed, allocations, moments
//! of memory, and all samples but the first and the last; times are cut to milliseconds. Folders of the
//! machine's users have a number in place of their path, in the order of first appearance. The names of
//! the files in them stay. A cut to swap also lacks the pages and the names of files.

use std::collections::HashMap;
use std::io::Write;

use super::{
    About, Ending, FileName, Missing, Reader, Record, RecordingBlock, Sample, Writer, flag, kind,
};
use crate::input::Input;
use crate::{Error, ErrorKind};

/// Slow to write, and as quick to read as the recorder's own level.
const COMPRESSION_LEVEL: i32 = 19;

const MILLISECOND_NS: u64 = 1_000_000;

/// The pages whose movements a cut has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Of swap and of files.
    All,
    /// Of swap only.
    Swap,
}

/// Writes the cut of a recording, which is a recording itself and says what it lacks.
///
/// # Errors
/// `Corrupt` if `input` is no recording, or not a whole one; `Usage` if its events name swap slots; `Io`
/// if the operating system refuses a read or write.
pub fn cut<W: Write>(input: Input, output: W, pages: Pages) -> Result<W, Error> {
    let path = input.path().to_owned();
    let refuse = |message: &str| Error::new(ErrorKind::Corrupt, &path, message);
    let unwritten = |error: std::io::Error| {
        Error::new(ErrorKind::Io, &path, format!("cannot write its cut: {error}"))
    };
    let mut reader = Reader::new(input)?.ok_or_else(|| refuse("expected a recording"))?;
    let Some(RecordingBlock::About(about)) = reader.read_block()? else {
        return Err(refuse("expected the description of the recording first"));
    };
    if about.has_slots() {
        let message = "its events name swap slots, not pages; only recordings by owner can be cut";
        return Err(Error::new(ErrorKind::Usage, &path, message));
    }
    let mut folders = Folders::default();
    let about = without_devices(about, &mut folders, pages);
    let writer = Writer::with_level(output, &about, COMPRESSION_LEVEL).map_err(unwritten)?;
    let mut cut = CutWriter { writer, folders, pending: None, samples: None };
    while let Some(block) = reader.read_block()? {
        let written = match block {
            RecordingBlock::Records(records) => records
                .into_iter()
                .filter_map(|record| kept(record, pages))
                .try_for_each(|record| cut.push(record)),
            RecordingBlock::Files(_) if pages == Pages::Swap => Ok(()),
            RecordingBlock::Files(mut names) => {
                for FileName { path, .. } in &mut names {
                    *path = cut.folders.without_owner(path);
                }
                // A name holds for the records behind it, so those before must not follow it.
                cut.flush().and_then(|()| cut.writer.name_files(&names))
            }
            RecordingBlock::Sample(sample) => cut.sample(sample),
            RecordingBlock::Ending(ending) => return cut.finish(ending).map_err(unwritten),
            RecordingBlock::Moment(_) => Ok(()),
            _ => return Err(refuse("the recording is cut short, or of a later version")),
        };
        written.map_err(unwritten)?;
    }
    Err(refuse("the recording has no end, because the recorder stopped early"))
}

/// The description of the cut.
fn without_devices(mut about: About, folders: &mut Folders, pages: Pages) -> About {
    about.command.clear();
    for area in about.system.iter_mut().flat_map(|system| &mut system.areas) {
        area.path = folders.without_owner(&area.path);
    }
    about.sources.retain(|source| match source.as_str() {
        "swap" | "faults" => true,
        "files" => pages == Pages::All,
        _ => false,
    });
    if pages == Pages::Swap {
        about.absent.push(Missing {
            what: "pages of files".to_owned(),
            why: "the recording was cut to swap".to_owned(),
        });
    }
    about.absent.push(Missing {
        what: "device traffic, latencies, who reclaimed, allocations, moments of memory, and \
               counters and pressure between the first sample and the last"
            .to_owned(),
        why: "the recording was cut to movements of pages, with times in milliseconds".to_owned(),
    });
    about
}

/// Folders that are alike on every machine. Classes of files follow from these and from the file's name.
const COMMON_FOLDERS: [&str; 11] = [
    "/bin/", "/dev/", "/etc/", "/lib/", "/lib64/", "/opt/", "/sbin/", "/system/", "/usr/", "/var/",
    "/vendor/",
];

/// Folders of users below a common one.
const USERS_FOLDERS: [&str; 1] = ["/var/home/"];

/// Numbers for the folders of users, in the order of first appearance.
#[derive(Default)]
struct Folders {
    numbers: HashMap<String, usize>,
}

impl Folders {
    /// A path without the names of a user's folders; the name of the file stays. Different folders stay
    /// different, since a file with another path is another file.
    fn without_owner(&mut self, path: &str) -> String {
        let starts = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
        let is_users = !starts(&COMMON_FOLDERS) || starts(&USERS_FOLDERS);
        match path.rsplit_once('/') {
            Some((folder, name)) if is_users => {
                let next = self.numbers.len() + 1;
                let number = *self.numbers.entry(folder.to_owned()).or_insert(next);
                format!("/home/{number:08}/{name}")
            }
            _ => path.to_owned(),
        }
    }
}

/// The record as the cut has it; `None` if the cut lacks it.
fn kept(record: Record, pages: Pages) -> Option<Record> {
    let time_ns = record.time_ns / MILLISECOND_NS * MILLISECOND_NS;
    let record = Record { time_ns, ..record };
    let page = Record { auxiliary: 0, ..record };
    match record.kind {
        kind::PAGE_OUT => Some(Record { object: 0, device: 0, ..page }),
        kind::SWAP_IN => Some(Record { object: 0, flags: record.flags & flag::MAJOR, ..page }),
        kind::FILE_ADDED | kind::FILE_DROPPED if pages == Pages::Swap => None,
        kind::FILE_ADDED => Some(page),
        kind::FILE_DROPPED => Some(Record { process: 0, ..page }),
        kind::EXEC | kind::EXIT | kind::FORK | kind::KILL => Some(record),
        _ => None,
    }
}

struct CutWriter<W: Write> {
    writer: Writer<W>,
    folders: Folders,
    /// Grows while the next record continues its pages.
    pending: Option<Record>,
    /// Whether the first sample is written, and the last one.
    samples: Option<Option<Sample>>,
}

impl<W: Write> CutWriter<W> {
    fn push(&mut self, record: Record) -> std::io::Result<()> {
        if let Some(pending) = &mut self.pending {
            if continues(pending, &record) {
                pending.pages += record.pages;
                return Ok(());
            }
            self.writer.push(*pending)?;
        }
        self.pending = Some(record);
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if let Some(record) = self.pending.take() {
            self.writer.push(record)?;
        }
        self.writer.flush()
    }

    /// Readers take the growth of counters from the first sample and the last.
    fn sample(&mut self, mut sample: Sample) -> std::io::Result<()> {
        for area in &mut sample.areas {
            area.path = self.folders.without_owner(&area.path);
        }
        if let Some(last) = &mut self.samples {
            *last = Some(sample);
            return Ok(());
        }
        self.samples = Some(None);
        self.flush()?;
        self.writer.sample(&sample)
    }

    fn finish(mut self, ending: Ending) -> std::io::Result<W> {
        self.flush()?;
        if let Some(last) = self.samples.flatten() {
            self.writer.sample(&last)?;
        }
        self.writer.finish(ending)
    }
}

/// Whether a record is about the pages right behind those of the record before it.
fn continues(before: &Record, record: &Record) -> bool {
    let has_pages = matches!(record.kind, kind::PAGE_OUT | kind::FILE_ADDED | kind::FILE_DROPPED);
    let is_alike = Record { address: record.address, pages: record.pages, ..*before } == *record;
    has_pages
        && is_alike
        && before.pages > 0
        && record.pages > 0
        && before.address.checked_add(u64::from(before.pages)) == Some(record.address)
        && before.pages.checked_add(record.pages).is_some()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::formats::{ReadOptions, by_name};
    use crate::ledger::Ledger;
    use crate::record::Operation;
    use crate::recording::FileName;

    type Moved = (i64, Operation, u64, u8, Option<u32>);

    /// The time in milliseconds, the process, and whether the kernel chose it.
    type Kill = (i64, u32, bool);

    /// The movements of pages in a recording, without the process that dropped a file page, and the
    /// kills.
    fn moves(recording: &[u8]) -> (Vec<Moved>, Vec<Kill>) {
        let format = by_name("recording").unwrap();
        let input = Input::from_bytes("test.pgr", recording.to_vec()).unwrap();
        let mut reader = (format.open)(input, &ReadOptions::default()).unwrap();
        let (mut records, mut ledger) = (Vec::new(), Ledger::new(false));
        while reader.read(&mut records, &mut ledger).unwrap() {}
        let time_ms = |time_ns: i64| time_ns / MILLISECOND_NS as i64;
        let kills = ledger.shortage.kills.iter();
        let kills =
            kills.map(|kill| (time_ms(kill.time_ns), kill.pid, kill.is_of_kernel)).collect();
        let moved = records
            .iter()
            .filter(|record| {
                !matches!(record.operation, Operation::DeviceRead | Operation::DeviceWrite)
            })
            .map(|record| {
                let has_owner = record.operation != Operation::Evict;
                let owner = ledger.processes().get(record.process.index());
                let pid = owner.filter(|_| has_owner).map(|owner| owner.pid);
                let time_ms = time_ms(record.time_ns);
                (time_ms, record.operation, record.address, record.flags.0, pid)
            })
            .collect();
        (moved, kills)
    }

    fn written(records: &[Record], name_at: usize) -> Vec<u8> {
        let about = About { knows_zeros: true, ..About::default() };
        let mut writer = Writer::new(Vec::new(), &about).unwrap();
        for (at, &record) in records.iter().enumerate() {
            if at == name_at {
                writer.flush().unwrap();
                let path = "/mnt/lab/libc.so.6".to_owned();
                writer.name_files(&[FileName { device: 1, inode: 2, path }]).unwrap();
                writer.sample(&Sample { time_ns: at as u64, ..Sample::default() }).unwrap();
            }
            writer.push(record).unwrap();
        }
        writer.finish(Ending { lost: 3, ..Ending::default() }).unwrap()
    }

    fn cut_of(recording: &[u8]) -> Vec<u8> {
        let input = Input::from_bytes("test.pgr", recording.to_vec()).unwrap();
        cut(input, Vec::new(), Pages::All).unwrap()
    }

    prop_compose! {
        fn any_record()(
            step_ns in 0..900_000u64,
            (kind, flags, pages) in (1..12u8, 0..8u8, 0..3u16),
            (address, object) in (0..6u64, 1..4u64),
            (process, device) in (1..3u32, 0..2u32),
        ) -> Record {
            Record { time_ns: step_ns, address, object, process, device, pages, kind, flags, auxiliary: 7 }
        }
    }

    proptest! {
        #[test]
        fn a_cut_moves_the_pages_of_the_recording(
            mut records in prop::collection::vec(any_record(), 0..300),
            name_at in 0..300usize,
        ) {
            let mut now_ns = 0;
            for record in &mut records {
                now_ns += record.time_ns;
                record.time_ns = now_ns;
            }
            let recording = written(&records, name_at);
            let (moved, kills) = moves(&recording);
            prop_assert_eq!(moves(&cut_of(&recording)), (moved.clone(), kills.clone()));
            let input = Input::from_bytes("test.pgr", recording).unwrap();
            let of_swap = moved
                .into_iter()
                .filter(|&(_, operation, ..)| !matches!(operation, Operation::Request | Operation::Evict));
            let swap = cut(input, Vec::new(), Pages::Swap).unwrap();
            prop_assert_eq!(moves(&swap), (of_swap.collect(), kills));
        }
    }

    #[test]
    fn neighbouring_pages_become_one_record() {
        let out = |address| Record { kind: kind::PAGE_OUT, address, pages: 1, ..Record::default() };
        let recording = written(&[out(5), out(6), out(7), out(9)], usize::MAX);
        let input = Input::from_bytes("test.pgr", cut_of(&recording)).unwrap();
        let mut reader = Reader::new(input).unwrap().unwrap();
        let mut found = Vec::new();
        while let Some(block) = reader.read_block().unwrap() {
            match block {
                RecordingBlock::Records(records) => found.extend(records),
                RecordingBlock::About(about) => assert!(!about.absent.is_empty()),
                RecordingBlock::Ending(ending) => {
                    assert_eq!((ending.recorded, ending.lost), (2, 3))
                }
                other => panic!("unexpected {other:?}"),
            }
        }
        assert_eq!(found, [Record { pages: 3, ..out(5) }, out(9)]);
    }

    #[test]
    fn folders_of_users_become_numbers() {
        let mut folders = Folders::default();
        let cases = [
            ("/usr/lib/libc.so.6", "/usr/lib/libc.so.6"),
            ("/var/lib/x.db", "/var/lib/x.db"),
            ("", ""),
            ("/mnt/me/a/x.so", "/home/00000001/x.so"),
            ("/var/home/x.so", "/home/00000002/x.so"),
            ("/mnt/me/a/y.so", "/home/00000001/y.so"),
        ];
        for (path, expected) in cases {
            assert_eq!(folders.without_owner(path), expected);
        }
    }

    #[test]
    fn a_recording_of_swap_slots_is_refused() {
        for backend in ["tracefs", "swapd"] {
            let about = About { backend: backend.to_owned(), ..About::default() };
            let recording = Writer::new(Vec::new(), &about).unwrap();
            let recording = recording.finish(Ending::default()).unwrap();
            let input = Input::from_bytes("test.pgr", recording).unwrap();
            let refusal = cut(input, Vec::new(), Pages::All);
            assert!(refusal.unwrap_err().to_string().contains("name swap slots, not pages"));
        }
    }

    #[test]
    fn a_recording_without_an_end_is_refused() {
        let whole = written(&[], usize::MAX);
        for length in 1..whole.len() {
            let input = Input::from_bytes("test.pgr", whole[..length].to_vec()).unwrap();
            assert!(cut(input, Vec::new(), Pages::All).is_err(), "{length}");
        }
    }
}
