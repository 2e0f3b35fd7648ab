//! What the preload library (crates/allocations) wrote of a command's allocations, to a recording. The
//! library leaves one log per process and program; they are merged by time once the command is over.

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
use crate::{Error, Outcome, Stop};

/// The variable that tells the library where logs go.
pub const VARIABLE: &str = "PAGEWISE_ALLOCATIONS";

/// How the program was heard.
const BACKEND: &str = "preload";

/// First bytes of a log, and where its records begin.
const MAGIC: [u8; 8] = *b"pgwalc\x00\x01";
const HEADER_BYTES: u64 = 4096;

/// Bytes of a record: the five words that it has where the kernel hands it over.
const RECORD_BYTES: usize = 40;

/// How often the command is asked whether it is over.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// What to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the recording goes.
    pub output: PathBuf,
    /// The command, for the recording's own description.
    pub command: Vec<String>,
}

impl Options {
    /// Where logs go until the command is over.
    pub fn folder(&self) -> PathBuf {
        let mut name = OsString::from(&self.output);
        name.push(".parts");
        PathBuf::from(name)
    }
}

/// Runs what `stop` starts, whose environment names the folder of `options`, and makes the recording.
///
/// # Errors
/// What the operating system refuses; a command that cannot be run, or that left no log.
pub fn record(root: &Root, options: &Options, stop: &mut dyn Stop) -> Result<Outcome, Error> {
    let folder = options.folder();
    fs::create_dir(&folder).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Error::Usage(format!(
            "{} is left of a recording that was killed: make a recording of it with --recover, or \
             remove it",
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

/// The recording of what a killed recorder, or one without room, left in `folder`, which stays.
/// The recording that the killed one began is replaced: all that it could hold is in the folder.
///
/// # Errors
/// What the operating system refuses; a folder without a log.
pub fn recover(root: &Root, folder: &Path, output: PathBuf) -> Result<Outcome, Error> {
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
            what: "programs that are static or setuid, or bring a malloc of their own".to_owned(),
            why: "no library can be loaded before theirs".to_owned(),
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

fn outcome((ending, bytes): &(Ending, u64), meter: &Meter) -> Outcome {
    Outcome {
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

/// Writes the records of all logs by time, and the end of the recording; that end, and the bytes of the
/// whole.
fn merge(
    folder: &Path,
    mut writer: Writer<File>,
    exit_status: Option<i32>,
) -> Result<(Ending, u64), Error> {
    let waiting = logs(folder)?;
    if waiting.is_empty() {
        return Err(Error::Usage(format!(
            "nothing was recorded in {}: the command may be static or setuid, or not use glibc",
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

/// Writes the records of logs, each given with the time of its first; how many were lost.
fn write_by_time(
    mut waiting: Vec<(u64, PathBuf)>,
    writer: &mut Writer<File>,
) -> Result<u64, Error> {
    // The earliest last; a log is opened when its time comes, since there may be thousands.
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
            // Threads may read the clock out of order; what happened is in the order of the log.
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

/// The records of one log.
struct Log {
    reader: BufReader<File>,
    /// The next record.
    ahead: Option<Record>,
    /// Records that have a place and were not read.
    left: u64,
    /// Records that found no room, or were not finished.
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
        // A process that was killed while it began its log has written nothing to it.
        let (lost, left) = if is_whole { (number(8), number(16)) } else { (0, 0) };
        let mut log = Log { reader, ahead: None, left, lost };
        log.ahead = log.read()?;
        Ok(log)
    }

    /// The next record.
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
                // Places without room are among the lost already.
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

    /// A log with these records, of which the last two places are not in the file.
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
            if let trace::recording::Block::Records(records) = block {
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
        let one = kind::ALLOCATE;
        log(
            &parts.join("1-0.log"),
            2,
            &[at(1, 10, one), at(1, 30, one), at(1, 29, one), at(1, 50, 0)],
        );
        log(&parts.join("2-0.log"), 3, &[at(2, 20, one), at(2, 40, one)]);
        log(&parts.join("3-0.log"), 0, &[]);
        let output = folder.path().join("out.pgr");
        let outcome = recover(&Root::system(), &parts, output.clone()).unwrap();
        assert_eq!(recorded(&output), [(10, 1), (20, 2), (30, 1), (29, 1), (40, 2)]);
        assert_eq!((outcome.recorded, outcome.lost), (5, 6), "one place was never finished");
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
