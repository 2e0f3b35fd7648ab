//! Joins slices of a trace into a trace again.

use std::path::{Path, PathBuf};

use types::{EventKind, PageId, Progress};

use super::reader::{key, number};
use super::slice::{keep, sha256};
use super::{Reader, Writer, refuse_inputs};
use crate::renumber::Renumber;
use crate::row_extents::OptionalColumns;
use crate::rows::page_numbers;
use crate::{Error, ErrorKind, Header, Part, Rows, Shortage, Source, TraceKind};

/// The result of a join.
#[derive(Debug)]
pub struct Joined {
    /// Header of the new trace.
    pub header: Header,
    /// Events that are accesses.
    pub accesses: u64,
    /// Accesses that write data to storage.
    pub writes: u64,
    /// Nanoseconds from the first event to the latest.
    pub duration_ns: i64,
    /// Events in overlaps, which an earlier slice has too; they are written once.
    pub repeated: u64,
}

/// Writes the events of slices of the same trace, at least one, in order of time to a new trace at
/// `output`. Where slices overlap, the slice that begins first is read; both have the same events there.
///
/// # Errors
/// If a file is no slice or of another trace than the first, if `output` exists or cannot be written, or
/// if `progress` asks to stop. In all cases there is no output.
pub fn join(
    paths: &[PathBuf],
    output: &Path,
    replaces: bool,
    progress: &dyn Progress,
) -> Result<Joined, Error> {
    refuse_inputs(paths.iter().map(PathBuf::as_path), output)?;
    let headers = headers_of(paths)?;
    let total = headers.iter().fold(0u64, |total, header| total.saturating_add(header.events));
    let mut writer = Writer::create(output, replaces)?;
    let mut joint = Joint::new(headers[0].kind);
    let mut rows = Rows::default();
    for Stretch { slice, from_ns, to_ns } in stretches(&headers) {
        let (path, start_ns) = (&paths[slice], headers[slice].start_ns);
        let times = from_ns.saturating_sub(start_ns)..to_ns.saturating_sub(start_ns);
        let mut reader = Reader::open(path)?;
        reader.skip_outside(times.clone());
        while reader.next_rows(&mut rows)? {
            keep(&mut rows, &times);
            joint.take(path, &mut rows, start_ns)?;
            writer.write(&rows)?;
            progress.advance(joint.events, total).map_err(|_| Error::cancelled(output))?;
        }
    }
    let sources = sources(paths, &headers, progress)?;
    let joined = joint.describe(headers, sources);
    writer.finish(&joined.header)?;
    Ok(Joined { repeated: total.saturating_sub(joined.header.events), ..joined })
}

/// The headers of the files, after a check that they are slices of the same trace.
fn headers_of(paths: &[PathBuf]) -> Result<Vec<Header>, Error> {
    let header = |path: &PathBuf| Ok(Reader::open(path)?.header().clone());
    let headers: Vec<Header> = paths.iter().map(header).collect::<Result<_, Error>>()?;
    for (path, header) in paths.iter().zip(&headers) {
        let refused = |why: String| Err(Error::new(ErrorKind::Usage, path, why));
        if header.part.is_none() {
            return refused("is not a slice: only slices of one trace can be joined".to_owned());
        }
        if !is_of_same(&headers[0], header) {
            let first = paths[0].display();
            return refused(format!("is a slice of another trace than {first}"));
        }
    }
    Ok(headers)
}

/// Whether two slices are of the same trace and number processes, devices and files alike.
fn is_of_same(first: &Header, other: &Header) -> bool {
    let whole = |header: &Header| header.part.as_ref().map(|part| part.of.clone());
    whole(first) == whole(other)
        && first.kind == other.kind
        && first.processes == other.processes
        && first.devices == other.devices
        && first.files == other.files
}

/// A time range of the recording that is read from one slice.
struct Stretch {
    slice: usize,
    from_ns: i64,
    to_ns: i64,
}

/// All time ranges of the slices, in order, each from the slice that begins first.
fn stretches(headers: &[Header]) -> Vec<Stretch> {
    let times = |header: &Header| header.part.clone().map(|part| part.times_ns).unwrap_or_default();
    let mut all: Vec<Stretch> = (headers.iter().enumerate())
        .flat_map(|(slice, header)| {
            times(header).into_iter().map(move |(from_ns, to_ns)| Stretch { slice, from_ns, to_ns })
        })
        .collect();
    all.sort_by_key(|stretch| (stretch.from_ns, stretch.slice));
    let mut reached = i64::MIN;
    all.retain_mut(|stretch| {
        stretch.from_ns = stretch.from_ns.max(reached);
        reached = reached.max(stretch.to_ns);
        stretch.from_ns < stretch.to_ns
    });
    all
}

/// The sources of the new trace: the slices and their own sources.
fn sources(
    paths: &[PathBuf],
    headers: &[Header],
    progress: &dyn Progress,
) -> Result<Vec<(String, String)>, Error> {
    let mut sources = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        sources.push((sha256(path, progress)?, name.into_owned()));
    }
    for source in headers.iter().flat_map(|header| &header.sources) {
        if !sources.contains(source) {
            sources.push(source.clone());
        }
    }
    Ok(sources)
}

/// The state of the new trace.
struct Joint {
    kind: TraceKind,
    renumber: Renumber,
    keys: Vec<u64>,
    numbers: Vec<u32>,
    columns: Option<OptionalColumns>,
    /// Time of the first event on the recording's own clock.
    first_ns: Option<i64>,
    last_ns: i64,
    events: u64,
    accesses: u64,
    writes: u64,
}

impl Joint {
    fn new(kind: TraceKind) -> Joint {
        Joint {
            kind,
            renumber: Renumber::unlimited(),
            keys: Vec::new(),
            numbers: Vec::new(),
            columns: None,
            first_ns: None,
            last_ns: 0,
            events: 0,
            accesses: 0,
            writes: 0,
        }
    }

    /// Converts the times and page numbers of rows, whose clock began at `start_ns`, to the new trace.
    fn take(&mut self, path: &Path, rows: &mut Rows, start_ns: i64) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let columns = OptionalColumns::of(rows);
        let (true, Some(&first)) =
            (*self.columns.get_or_insert(columns) == columns, rows.events.time_ns.first())
        else {
            let why = "has no times, or other columns than the slices before it";
            return Err(Error::new(ErrorKind::Corrupt, path, why));
        };
        let first = *self.first_ns.get_or_insert(first.saturating_add(start_ns));
        for time in &mut rows.events.time_ns {
            *time = time.saturating_add(start_ns).saturating_sub(first);
            self.last_ns = self.last_ns.max(*time);
        }
        self.number(path, rows)?;
        self.events += rows.len() as u64;
        for (kind, &flags) in rows.events.kind.iter().zip(&rows.events.flags) {
            self.accesses += u64::from(kind.is_access());
            self.writes += u64::from(kind.is_access() && kind.is_write(flags));
        }
        Ok(())
    }

    /// Numbers pages by their key, which is the same in every slice.
    fn number(&mut self, path: &Path, rows: &mut Rows) -> Result<(), Error> {
        let kinds = &rows.events.kind;
        let places = rows.space.iter().zip(&rows.address).zip(kinds);
        let of_pages = places.filter(|&(_, &kind)| kind != EventKind::Exit);
        self.keys.clear();
        self.keys.extend(of_pages.map(|((&space, &address), _)| key(self.kind, space, address)));
        number(path, &mut self.renumber, &self.keys, &mut self.numbers)?;
        let numbers = page_numbers(kinds.iter().copied(), self.numbers.iter().copied());
        rows.events.page.clear();
        rows.events.page.extend(numbers.map(PageId));
        Ok(())
    }

    /// The header of the new trace, from those of the slices, of which there is at least one.
    fn describe(self, headers: Vec<Header>, sources: Vec<(String, String)>) -> Joined {
        let times_ns = stretches(&headers)
            .iter()
            .map(|stretch| (stretch.from_ns, stretch.to_ns))
            .fold(Vec::new(), |mut times: Vec<(i64, i64)>, (from_ns, to_ns)| {
                match times.last_mut() {
                    Some(last) if last.1 == from_ns => last.1 = to_ns,
                    _ => times.push((from_ns, to_ns)),
                }
                times
            });
        let mut headers = headers.into_iter();
        let mut first = headers.next().expect("a join has at least one slice");
        let others: Vec<Shortage> = headers.filter_map(|header| header.shortage).collect();
        for other in others {
            first.shortage.get_or_insert_default().join(other);
        }
        let header = Header {
            pagewise: env!("CARGO_PKG_VERSION").to_owned(),
            events: self.events,
            pages: Some(self.renumber.len() as u32),
            start_ns: self.first_ns.unwrap_or(first.start_ns),
            part: first.part.map(|part| Part { times_ns, ..part }),
            sources,
            ..first
        };
        let Joint { accesses, writes, last_ns: duration_ns, .. } = self;
        Joined { header, accesses, writes, duration_ns, repeated: 0 }
    }
}
