//! Cuts a part of a trace by time, as a separate trace.

use std::ops::Range;
use std::path::Path;

use types::{EventKind, PageId, Progress};

use super::{Reader, Writer, is_parquet, refuse_inputs};
use crate::input::Input;
use crate::renumber::Renumber;
use crate::rows::page_numbers;
use crate::{Error, ErrorKind, Header, Part, Rows, Source, Zeros};

/// Copies the events with a time in `times` (nanoseconds since the first event of the trace at
/// `path`) to a new trace at `output`, and returns its header.
///
/// Pages get new numbers, times count from the first event kept, and the header names the parent
/// with its sha256 and the range as the first of its sources. `replaces` allows `output` to exist.
///
/// # Errors
/// If the trace cannot be read or has no clock, the range is empty, `output` exists or cannot be written,
/// or `progress` asks to stop. In all cases there is no output.
pub fn slice(
    path: &Path,
    times: Range<i64>,
    output: &Path,
    replaces: bool,
    progress: &dyn Progress,
) -> Result<Header, Error> {
    let mut reader = open(path, &times, output)?;
    reader.skip_outside(times.clone());
    let mut writer = Writer::create(output, replaces)?;
    let mut header = reader.header().clone();
    header.events = 0;
    let mut cut = Cut { times, renumber: Renumber::unlimited(), first_ns: None };
    let mut rows = Rows::default();
    let stop = |_| Error::cancelled(path);
    let mut done = 0;
    while reader.next_rows(&mut rows)? {
        done += rows.len() as u64;
        progress.advance(done, reader.header().events).map_err(stop)?;
        cut.apply(&mut rows);
        header.events += rows.len() as u64;
        writer.write(&rows)?;
    }
    let sha256 = sha256(path, progress)?;
    header.part = Some(Part::cut(reader.header(), &sha256, &cut.times));
    header.pages = Some(cut.renumber.len() as u32);
    header.start_ns = header.start_ns.saturating_add(cut.first_ns.unwrap_or(0));
    if let (Some(shortage), Some(part)) = (&mut header.shortage, &header.part) {
        let times = part.times_ns.first().zip(part.times_ns.last());
        shortage.keep(times.map_or((0, 0), |(first, last)| (first.0, last.1)));
    }
    header.pagewise = env!("CARGO_PKG_VERSION").to_owned();
    // Counts of the whole recording do not apply to a part. The losses stay, because they may have
    // occurred in this part.
    header.seen.clear();
    header.recorded_ns = None;
    header.zeros = header.zeros.map(|_| Zeros::default());
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let part = format!("{name} from {} ns to {} ns", cut.times.start, cut.times.end);
    header.sources.insert(0, (sha256, part));
    writer.finish(&header)?;
    Ok(header)
}

/// Opens the trace at `path` after checking that `times` can be cut out of it into `output`.
fn open(path: &Path, times: &Range<i64>, output: &Path) -> Result<Reader, Error> {
    if times.is_empty() {
        let why = format!("the range from {} ns to {} ns is empty", times.start, times.end);
        return Err(Error::new(ErrorKind::Usage, path, why));
    }
    refuse_inputs([path], output)?;
    if path.is_file() && !is_parquet(path) {
        let why = "is no trace file: convert it first, with pagewise import";
        return Err(Error::new(ErrorKind::UnknownFormat, path, why));
    }
    let reader = Reader::open(path)?;
    if !reader.header().has_clock {
        return Err(Error::new(ErrorKind::Usage, path, "has no times to cut it by"));
    }
    Ok(reader)
}

struct Cut {
    times: Range<i64>,
    renumber: Renumber,
    /// Time of the first event kept.
    first_ns: Option<i64>,
}

impl Cut {
    /// Keeps the rows within the range and changes their page numbers and times.
    fn apply(&mut self, rows: &mut Rows) {
        keep(rows, &self.times);
        let Some(&first) = rows.events.time_ns.first() else { return };
        let first = *self.first_ns.get_or_insert(first);
        rows.events.time_ns.iter_mut().for_each(|time| *time = time.saturating_sub(first));
        self.number(rows);
    }

    fn number(&mut self, rows: &mut Rows) {
        let events = &mut rows.events;
        let keys: Vec<u64> = (events.page.iter().zip(&events.kind))
            .filter(|&(_, &kind)| kind != EventKind::Exit)
            .map(|(page, _)| u64::from(page.0))
            .collect();
        let mut numbers = Vec::new();
        // A part has no more pages than its parent, whose numbers fit.
        self.renumber.number_batch(&keys, &mut numbers).expect("the parent's pages fit a table");
        events.page.clear();
        let numbers = page_numbers(events.kind.iter().copied(), numbers.into_iter());
        events.page.extend(numbers.map(PageId));
    }
}

/// Keeps the rows with a time in `times`.
pub(super) fn keep(rows: &mut Rows, times: &Range<i64>) {
    let kept: Vec<bool> = rows.events.time_ns.iter().map(|time| times.contains(time)).collect();
    if kept.contains(&false) {
        retain(&mut rows.events.time_ns, &kept);
        retain(&mut rows.events.kind, &kept);
        retain(&mut rows.events.flags, &kept);
        retain(&mut rows.events.page, &kept);
        retain(&mut rows.events.process, &kept);
        retain(&mut rows.space, &kept);
        retain(&mut rows.address, &kept);
        retain(&mut rows.bytes, &kept);
        retain(&mut rows.duration_ns, &kept);
    }
}

/// Keeps the values whose flag is set. An absent column stays absent.
fn retain<T>(values: &mut Vec<T>, kept: &[bool]) {
    let mut flags = kept.iter();
    values.retain(|_| flags.next() == Some(&true));
}

pub(super) fn sha256(path: &Path, progress: &dyn Progress) -> Result<String, Error> {
    let mut input = Input::open(path, true)?;
    let (meter, total) = (input.meter(), input.file_bytes());
    while !input.fill()?.is_empty() {
        input.consume(usize::MAX);
        progress.advance(meter.bytes(), total).map_err(|_| Error::cancelled(path))?;
    }
    Ok(meter.sha256().expect("the input was asked for its hash"))
}
