//! Slices of one trace, as one trace again.

use std::path::{Path, PathBuf};

use types::{EventKind, PageId, Progress};

use super::reader::{key, number};
use super::slice::{keep, sha256};
use super::{Reader, Writer, refuse_inputs};
use crate::renumber::Renumber;
use crate::rows::page_numbers;
use crate::runs::Shape;
use crate::{Error, ErrorKind, Header, Part, Rows, Shortage, Source, TraceKind};

/// What a join wrote.
#[derive(Debug)]
pub struct Joined {
    /// Of the new trace.
    pub header: Header,
    /// Events that are accesses.
    pub accesses: u64,
    /// Accesses that carry data towards storage.
    pub writes: u64,
    /// Nanoseconds from the first event to the latest.
    pub duration_ns: i64,
    /// Events that a slice holds although one before it has their time; they are written once.
    pub repeated: u64,
}

/// Writes the events of slices of one trace, at least one, in order of time to a new trace at `output`.
/// Where slices overlap, the one that begins first has the time; both hold the same events there.
///
/// # Errors
/// A file that is no slice, or not of the same trace as the first; an output that exists or cannot be
/// written; a caller that stops. Then no output is left.
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

/// The headers of the files, which are slices of one trace.
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

/// Whether two slices are of one trace, in which a number means the same process, device or file.
fn is_of_same(one: &Header, other: &Header) -> bool {
    let whole = |header: &Header| header.part.as_ref().map(|part| part.of.clone());
    whole(one) == whole(other)
        && one.kind == other.kind
        && one.processes == other.processes
        && one.devices == other.devices
        && one.files == other.files
}

/// A time of the recording that is read from one slice.
struct Stretch {
    slice: usize,
    from_ns: i64,
    to_ns: i64,
}

/// All times that the slices have, in order, each from the slice that begins first.
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

/// The slices, and what they come from.
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

/// The trace as it grows.
struct Joint {
    kind: TraceKind,
    renumber: Renumber,
    keys: Vec<u64>,
    numbers: Vec<u32>,
    shape: Option<Shape>,
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
            shape: None,
            first_ns: None,
            last_ns: 0,
            events: 0,
            accesses: 0,
            writes: 0,
        }
    }

    /// Gives rows whose clock began at `start_ns` the times and page numbers of the new trace.
    fn take(&mut self, path: &Path, rows: &mut Rows, start_ns: i64) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let shape = Shape::of(rows);
        let (true, Some(&first)) =
            (*self.shape.get_or_insert(shape) == shape, rows.events.time_ns.first())
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

    /// Numbers pages by what identifies them in every slice.
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

    /// The header of the slices, of which there is at least one, as that of the new trace.
    fn describe(self, headers: Vec<Header>, sources: Vec<(String, String)>) -> Joined {
        let times_ns = stretches(&headers).iter().map(|one| (one.from_ns, one.to_ns)).fold(
            Vec::new(),
            |mut times: Vec<(i64, i64)>, (from_ns, to_ns)| {
                match times.last_mut() {
                    Some(last) if last.1 == from_ns => last.1 = to_ns,
                    _ => times.push((from_ns, to_ns)),
                }
                times
            },
        );
        let mut headers = headers.into_iter();
        let mut first = headers.next().expect("there is a slice");
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
