//! Makes a recording of the logs that the preload library (crates/allocations) writes about a command's
//! allocations. The library writes one log per process and program; when the command has ended, the logs are
//! merged by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use linux::Root;
use linux::system;
use trace::allocations::SOURCE;
use trace::recording::{About, Ending, Missing, Record, Writer};

use crate::session::{Meter, create, here, start};
use crate::{Error, RecordingOutcome, Stop};

/// The environment variable that gives the library the folder for its logs.
pub const VARIABLE: &str = "PAGEWISE_ALLOCATIONS";

/// The name of this backend in recordings.
const BACKEND: &str = "preload";

/// The first bytes of a log, and the offset of its records.
const MAGIC: [u8; 8] = *b"pgwalc\x00\x01";
const HEADER_BYTES: u64 = 4096;

/// Bytes of a record: the five words of `struct record` in bpf/record.h.
const RECORD_BYTES: usize = 40;

/// How often to check whether the command has ended.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// What to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file of the recording.
    pub output: PathBuf,
    /// The command, for the header of the recording.
    pub command: Vec<String>,
}

impl Options {
    /// The folder of the logs while the command runs.
    pub fn folder(&self) -> PathBuf {
        let mut name = OsString::from(&self.output);
        name.push(".parts");
        PathBuf::from(name)
    }
}

/// Runs the command that `stop` starts, whose environment names the folder of `options`, and makes the recording.
///
/// # Errors
/// The operating system refuses, the command cannot be run, or it left no log.
pub fn record(
    root: &Root,
    options: &Options,
    stop: &mut dyn Stop,
) -> Result<RecordingOutcome, Error> {
    let folder = options.folder();
    fs::create_dir(&folder).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Error::Usage(format!(
            "{} exists, from an interrupted recording: rebuild that recording with --recover, or \
             remove the folder",
            folder.display()
        )),
        _ => Error::Create(folder.clone(), error),
    })?;
    let meter = Meter::start();
    let ended = begin(root, options).and_then(|writer| {
        let exit_status = run(options, stop)?;
        merge(&folder, writer, exit_status)
    });
    if let Err(error) = &ended
        && !matches!(error, Error::Create(..))
    {
        let _ = fs::remove_file(&options.output);
    }
    match ended {
        Err(Error::Write(error)) if has_logs(&folder) => Err(Error::Unmerged(folder, error)),
        ended => {
            let _ = fs::remove_dir_all(&folder);
            Ok(outcome(&ended?, &meter))
        }
    }
}

/// Makes a recording of the logs that an interrupted recorder left in `folder`, and keeps the folder. If the
/// interrupted recorder began the file `output`, this replaces it: the folder has all of its records.
///
/// # Errors
/// The operating system refuses, or the folder has no log.
pub fn recover(root: &Root, folder: &Path, output: PathBuf) -> Result<RecordingOutcome, Error> {
    let meter = Meter::start();
    let options = Options { output, command: Vec::new() };
    if folder == options.folder() && has_logs(folder) {
        let _ = fs::remove_file(&options.output);
    }
    let writer = begin(root, &options)?;
    let merged = merge(folder, writer, None).inspect_err(|_| {
        let _ = fs::remove_file(&options.output);
    })?;
    Ok(outcome(&merged, &meter))
}

fn begin(root: &Root, options: &Options) -> Result<Writer<File>, Error> {
    let about = About {
        backend: BACKEND.to_owned(),
        sources: vec![SOURCE.to_owned()],
        absent: vec![Missing {
            what: "programs that are static or setuid, or have their own malloc".to_owned(),
            why: "the preload library cannot replace their malloc".to_owned(),
        }],
        command: options.command.clone(),
        ..here(root)?
    };
    Writer::new(create(&options.output)?, &about).map_err(Error::Write)
}

fn run(options: &Options, stop: &mut dyn Stop) -> Result<Option<i32>, Error> {
    start(stop, &options.command)?;
    loop {
        match stop.is_over() {
            Some(exit_status) => return Ok(exit_status),
            None => std::thread::sleep(CHECK_EVERY),
        }
    }
}

fn outcome((ending, bytes): &(Ending, u64), meter: &Meter) -> RecordingOutcome {
    RecordingOutcome {
        recorded: ending.recorded,
        lost: ending.lost,
        bytes: *bytes,
        duration: meter.duration(),
        cpu: meter.cpu(),
        exit_status: ending.exit_status,
        backend: BACKEND,
        absent: Vec::new(),
        failure: None,
    }
}

/// Writes the records of all logs by time, and the end of the recording; returns that end, and the bytes of
/// the file.
fn merge(
    folder: &Path,
    mut writer: Writer<File>,
    exit_status: Option<i32>,
) -> Result<(Ending, u64), Error> {
    let waiting = logs(folder)?;
    if waiting.is_empty() {
        return Err(Error::Usage(format!(
            "nothing was recorded in {}: the command may be static or setuid, or may not use glibc",
            folder.display()
        )));
    }
    let lost = write_by_time(waiting, &mut writer)?;
    let recorded = writer.recorded();
    let ending = Ending { time_ns: system::monotonic_ns(), recorded, lost, exit_status };
    let file = writer.finish(ending.clone()).map_err(Error::Write)?;
    let bytes = file.metadata().map_err(Error::Write)?.len();
    Ok((ending, bytes))
}

/// Writes the records of the logs in `waiting`, each with the time of its first record; returns the number of lost
/// records.
fn write_by_time(
    mut waiting: Vec<(u64, PathBuf)>,
    writer: &mut Writer<File>,
) -> Result<u64, Error> {
    // Sorted with the earliest last. There may be thousands of logs, so each is opened only when its time comes.
    waiting.sort_by_key(|(first_ns, path)| Reverse((*first_ns, path.clone())));
    let (mut open, mut next, mut lost) = (Vec::new(), BinaryHeap::new(), 0);
    loop {
        let earliest = next.peek().map(|Reverse((time_ns, _))| *time_ns);
        if let Some((first_ns, path)) =
            waiting.pop_if(|(first_ns, _)| earliest.is_none_or(|earliest| *first_ns <= earliest))
        {
            next.push(Reverse((first_ns, open.len())));
            open.push(Some(Log::open(&path)?));
            continue;
        }
        let Some(Reverse((time_ns, number))) = next.pop() else { return Ok(lost) };
        let Some(log) = open.get_mut(number).and_then(Option::as_mut) else { continue };
        if let Some(record) = log.take()? {
            writer.push(record).map_err(Error::Write)?;
        }
        match &log.ahead {
            // Threads may read the clock out of order; the order of the log is right.
            Some(ahead) => next.push(Reverse((time_ns.max(ahead.time_ns), number))),
            None => {
                lost += log.lost;
                open[number] = None;
            }
        }
    }
}

fn has_logs(folder: &Path) -> bool {
    logs(folder).is_ok_and(|logs| !logs.is_empty())
}

/// The logs of a folder, each with the time of its first record.
fn logs(folder: &Path) -> Result<Vec<(u64, PathBuf)>, Error> {
    let refused = |error| Error::Create(folder.to_owned(), error);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(refused)? {
        let path = entry.map_err(refused)?.path();
        if path.extension().is_some_and(|extension| extension == "log")
            && let Some(first) = Log::open(&path)?.ahead
        {
            found.push((first.time_ns, path));
        }
    }
    Ok(found)
}

/// A log, which is read record by record.
struct Log {
    reader: BufReader<File>,
    /// The next record.
    ahead: Option<Record>,
    /// Places of the log that were not read yet.
    left: u64,
    /// Records that found no room, or are incomplete.
    lost: u64,
}

impl Log {
    fn open(path: &Path) -> Result<Log, Error> {
        let refused = |error: io::Error| Error::Usage(format!("{}: {error}", path.display()));
        let mut reader = BufReader::new(File::open(path).map_err(refused)?);
        let mut head = [0; MAGIC.len() + 16];
        let is_whole = reader.read_exact(&mut head).is_ok() && head.starts_with(&MAGIC);
        reader.seek(SeekFrom::Start(HEADER_BYTES)).map_err(refused)?;
        let number = |at: usize| {
            u64::from_ne_bytes(head[at..at + 8].try_into().expect("the range has 8 bytes"))
        };
        // A process that was killed while it created its log has written no records.
        let (lost, left) = if is_whole { (number(8), number(16)) } else { (0, 0) };
        let mut log = Log { reader, ahead: None, left, lost };
        log.ahead = log.read()?;
        Ok(log)
    }

    /// Takes the next record.
    fn take(&mut self) -> Result<Option<Record>, Error> {
        let following = self.read()?;
        Ok(std::mem::replace(&mut self.ahead, following))
    }

    fn read(&mut self) -> Result<Option<Record>, Error> {
        let mut bytes = [0; RECORD_BYTES];
        while self.left > 0 {
            self.left -= 1;
            match self.reader.read_exact(&mut bytes) {
                Ok(()) => {}
                // Places beyond the end of the file are already counted as lost.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
                Err(error) => return Err(Error::Write(error)),
            }
            let (words, _) = bytes.as_chunks();
            let word = |at: usize| u64::from_ne_bytes(words[at]);
            let record = Record::from_kernel([word(0), word(1), word(2), word(3), word(4)]);
            if record.kind != 0 {
                return Ok(Some(record));
            }
            self.lost += 1;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::recording::kind;

    /// Writes a log with these records, and with two more places that are not in the file.
    fn log(path: &Path, lost: u64, records: &[Record]) {
        let mut bytes = vec![0; HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&lost.to_ne_bytes());
        bytes[16..24].copy_from_slice(&(records.len() as u64 + 2).to_ne_bytes());
        for record in records {
            bytes.extend(record.time_ns.to_ne_bytes());
            bytes.extend(record.address.to_ne_bytes());
            bytes.extend(record.object.to_ne_bytes());
            for word in [record.process, record.auxiliary, record.device] {
                bytes.extend(word.to_ne_bytes());
            }
            bytes.extend(record.pages.to_ne_bytes());
            bytes.extend([record.kind, record.flags]);
        }
        fs::write(path, bytes).unwrap();
    }

    fn recorded(path: &Path) -> Vec<(u64, u32)> {
        let input = trace::input::Input::open(path, false).unwrap();
        let mut reader = trace::recording::Reader::new(input).unwrap().unwrap();
        let mut found = Vec::new();
        while let Some(block) = reader.read_block().unwrap() {
            if let trace::recording::RecordingBlock::Records(records) = block {
                found.extend(records.iter().map(|record| (record.time_ns, record.process)));
            }
        }
        found
    }

    #[test]
    fn logs_are_merged_by_time_and_keep_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let parts = folder.path().join("parts");
        fs::create_dir(&parts).unwrap();
        let at = |process, time_ns, kind| Record { process, time_ns, kind, ..Record::default() };
        let allocate = kind::ALLOCATE;
        log(
            &parts.join("1-0.log"),
            2,
            &[at(1, 10, allocate), at(1, 30, allocate), at(1, 29, allocate), at(1, 50, 0)],
        );
        log(&parts.join("2-0.log"), 3, &[at(2, 20, allocate), at(2, 40, allocate)]);
        log(&parts.join("3-0.log"), 0, &[]);
        let output = folder.path().join("out.pgr");
        let outcome = recover(&Root::system(), &parts, output.clone()).unwrap();
        assert_eq!(recorded(&output), [(10, 1), (20, 2), (30, 1), (29, 1), (40, 2)]);
        assert_eq!((outcome.recorded, outcome.lost), (5, 6), "one record is incomplete");
        assert_eq!(outcome.bytes, fs::metadata(&output).unwrap().len());
    }

    #[test]
    fn a_folder_without_a_log_leaves_no_recording() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out.pgr");
        let error = recover(&Root::system(), folder.path(), output.clone()).unwrap_err();
        assert!(error.to_string().contains("nothing was recorded"), "{error}");
        assert!(!output.exists());
    }
}
