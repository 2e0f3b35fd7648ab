//! Simulations of swap architectures. Requests are JSON text.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use serde::Deserialize;
use sim::devices::Device;
use sim::swap::{self, Marks, SimulateRequest};
use sim::zram::{ZramCounts, ZramRequest};
use trace::Source;
use trace::store::TextFile;
use types::PAGE_BYTES;

use crate::answers::{Answer, parsed};
use crate::errors::{Raise, detached};
use crate::opening::{RecordingArguments, sample_size};
use crate::results::{
    self, ArchitectureRow, AsRecorded, DescribedRequest, Devices, Simulate, Simulated,
};

/// The largest file of a device that is read.
const DEVICE_FILE_BYTES_MAX: u64 = 4 << 20;

/// One request as Python writes it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    architecture: String,
    fast_tier_bytes: u64,
    fast: String,
    slow: String,
    #[serde(default)]
    options: BTreeMap<String, String>,
    profile: Option<String>,
    /// Bytes of a page, which also select the times of the devices.
    #[serde(default = "small")]
    page_bytes: u64,
    #[serde(default)]
    readahead: Option<String>,
    #[serde(default)]
    clean_evictions: Option<String>,
    /// Whether operations wait while the slow device is busy: yes or no.
    #[serde(default)]
    queueing: Option<String>,
    /// Whether to replay an architecture that decides by latency over the range: yes or no.
    #[serde(default)]
    ranges: Option<String>,
}

/// The page size of every recording.
fn small() -> u64 {
    PAGE_BYTES
}

impl Wanted {
    /// The request for the simulator, with devices resolved.
    pub(crate) fn request(self) -> Result<SimulateRequest, sim::Error> {
        let fast = resolve_device(&self.fast)?;
        let slow = resolve_device(&self.slow)?;
        let mut request = SimulateRequest::new(self.architecture, self.fast_tier_bytes, fast, slow)
            .with_pages_of(self.page_bytes)?;
        request.options = self.options;
        request.profile = self.profile;
        if let Some(readahead) = self.readahead {
            request.readahead = readahead.parse()?;
        }
        if let Some(clean_evictions) = self.clean_evictions {
            request.clean_evictions = clean_evictions.parse()?;
        }
        request.queueing = is_yes("queueing", self.queueing.as_deref())?;
        request.replays_range = is_yes("ranges", self.ranges.as_deref())?;
        Ok(request)
    }
}

/// The value of an option that is yes or no, by default no.
fn is_yes(name: &str, value: Option<&str>) -> Result<bool, sim::Error> {
    match value {
        None | Some("no") => Ok(false),
        Some("yes") => Ok(true),
        Some(text) => Err(sim::Error::usage(format!("{name} cannot be '{text}'; it is yes or no"))),
    }
}

/// Runs a request, given, on a recording; returns the outcome. `sample_rate` or `sample_pages` ask for estimates from
/// a sample of the pages; `memory_limit` in bytes bounds the memory of exact counts.
#[pyfunction]
#[pyo3(signature = (path, format, mapping, columns, request, *, sample_rate=None, sample_pages=None, memory_limit=None, progress=None))]
#[allow(clippy::too_many_arguments, reason = "the options of one Python call")]
pub fn simulate(
    py: Python<'_>,
    path: PathBuf,
    format: Option<String>,
    mapping: Option<&str>,
    columns: Vec<(String, String)>,
    request: &str,
    sample_rate: Option<f64>,
    sample_pages: Option<u64>,
    memory_limit: Option<u64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer<Simulate>> {
    let recording = RecordingArguments::new(py, path, format, mapping, columns)?;
    let sample = sample_size(py, sample_rate, sample_pages)?;
    let wanted: Wanted = parsed(py, "request", request)?;
    let answer = detached(py, progress, |progress| {
        let simulated = |wanted: Wanted| {
            let request = wanted.request()?;
            if let Some(size) = sample {
                swap::refuse_unscalable(&request)?;
                let mut source = recording.sampled(size, progress)?;
                let outcome = swap::simulate_sampled(&mut source, &request, progress)?;
                return Ok::<_, sim::Error>((outcome, source.header().losses.clone()));
            }
            if let Some(limit) = memory_limit {
                let bytes = swap::bytes_per_page(&request)?;
                let mut limited = recording.limited(limit, progress)?;
                limited.spare_bytes(bytes)?;
                let room = limited.bytes_per_page();
                let mut open = || {
                    let source = limited.open()?;
                    Ok(recording.grouped(source, request.page_bytes)?)
                };
                let (outcome, source) = swap::simulate_within(&mut open, &request, room, progress)?;
                return Ok((outcome, source.header().losses.clone()));
            }
            let mut source = recording.grouped(recording.open()?, request.page_bytes)?;
            let outcome = swap::simulate(&mut *source, &request, progress)?;
            Ok((outcome, source.header().losses.clone()))
        };
        let (outcome, losses) = simulated(wanted.clone())?;
        let recorded = (wanted.page_bytes > PAGE_BYTES)
            .then(|| simulated(Wanted { page_bytes: PAGE_BYTES, ..wanted }))
            .transpose()?;
        Ok::<_, sim::Error>(Simulate {
            outcome,
            losses,
            trace: results::named(recording.path()),
            pagewise: env!("CARGO_PKG_VERSION"),
            build: env!("PAGEWISE_BUILD"),
            at_4_kib: recorded.map(|(outcome, _)| outcome.into()),
            trace_sha256: None,
        })
    })?;
    Ok(Answer(answer))
}

/// Runs a JSON list of requests in a single pass over a recording. Returns a list with
/// `{"outcome": ...}` or `{"error": text}` for each request. `marks` divide the recording into slices,
/// and outcomes have counts for each slice. Marks are increasing times in ns since the first event or,
/// without a clock, numbers of events.
#[pyfunction]
#[pyo3(signature = (path, format, mapping, columns, requests, *, marks=Vec::new(), progress=None))]
#[allow(clippy::too_many_arguments, reason = "the options of one Python call")]
pub fn simulate_many(
    py: Python<'_>,
    path: PathBuf,
    format: Option<String>,
    mapping: Option<&str>,
    columns: Vec<(String, String)>,
    requests: &str,
    marks: Vec<i64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer<Vec<Simulated>>> {
    let recording = RecordingArguments::new(py, path, format, mapping, columns)?;
    let wanted: Vec<Wanted> = parsed(py, "requests", requests)?;
    let answers = detached(py, progress, |progress| {
        let requests: Vec<_> = wanted.into_iter().map(Wanted::request).collect();
        let sound: Vec<SimulateRequest> = requests.iter().flatten().cloned().collect();
        let mut source = recording.open()?;
        let marks = marks_of(source.header(), marks);
        let mut outcomes = swap::simulate_many(&mut *source, &sound, &marks, progress).into_iter();
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            let outcome = match request {
                Ok(_) => outcomes.next().expect("every valid request has a result"),
                Err(error) => Err(error),
            };
            answers.push(match outcome {
                Ok(outcome) => {
                    Simulated { outcome: Some(Box::new(outcome)), ..Simulated::default() }
                }
                Err(error) if error.kind() == sim::ErrorKind::Cancelled => return Err(error),
                Err(error) => Simulated { error: Some(error.to_string()), ..Simulated::default() },
            });
        }
        Ok::<_, sim::Error>(answers)
    })?;
    Ok(Answer(answers))
}

/// The ends of slices: times if the trace has a clock, otherwise numbers of events.
fn marks_of(header: &trace::Header, marks: Vec<i64>) -> Marks {
    match marks {
        none if none.is_empty() => Marks::None,
        times if header.has_clock => Marks::Times(times),
        numbers => Marks::Events(numbers.into_iter().map(|number| number.max(0) as u64).collect()),
    }
}

/// Decides the requests of a recorded swap server again, and writes the moves to the file `moves`, if given.
#[pyfunction]
#[pyo3(signature = (path, *, moves=None, force=false, progress=None))]
pub fn simulate_as_recorded(
    py: Python<'_>,
    path: PathBuf,
    moves: Option<PathBuf>,
    force: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer<AsRecorded>> {
    let outcome = detached(py, progress, |progress| {
        let moves = moves.map(|moves| TextFile::create(&moves, force)).transpose()?;
        swap::as_recorded(&path, moves, progress)
    })?;
    Ok(Answer(AsRecorded {
        schema: "pagewise.as-recorded/1",
        recording: results::named(&path),
        identical: outcome.is_identical(),
        outcome,
    }))
}

/// Replays swap traffic into the zram devices of a JSON request in a single pass over a recording. Returns the counts
/// of each device in order.
#[pyfunction]
#[pyo3(signature = (path, format, mapping, columns, request, *, progress=None))]
pub fn simulate_zram(
    py: Python<'_>,
    path: PathBuf,
    format: Option<String>,
    mapping: Option<&str>,
    columns: Vec<(String, String)>,
    request: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer<Vec<ZramCounts>>> {
    let recording = RecordingArguments::new(py, path, format, mapping, columns)?;
    let wanted: ZramRequest = parsed(py, "request", request)?;
    let counts = detached(py, progress, |progress| {
        let mut source = recording.open()?;
        sim::zram::simulate_zram(&mut *source, &wanted, progress)
    })?;
    Ok(Answer(counts))
}

/// A request, given, with all defaults and the figures of both devices.
#[pyfunction]
pub fn describe_request(py: Python<'_>, request: &str) -> PyResult<Answer<DescribedRequest>> {
    let wanted: Wanted = parsed(py, "request", request)?;
    let fast_tier_bytes = wanted.fast_tier_bytes;
    let request = wanted.request().map_err(|error| error.raise(py))?;
    let options = swap::effective_options(&request).map_err(|error| error.raise(py))?;
    Ok(Answer(DescribedRequest {
        architecture: request.architecture,
        profile: request.profile,
        options,
        fast_tier_bytes,
        page_bytes: request.page_bytes,
        fast: request.fast,
        slow: request.slow,
        readahead: request.readahead.name(),
        clean_evictions: request.clean_evictions.name(),
        queueing: request.queueing.then_some("yes"),
        ranges: if request.replays_range { "yes" } else { "no" },
    }))
}

/// The architectures of the catalog with their options and profiles.
#[pyfunction]
pub fn architectures() -> Answer<Vec<ArchitectureRow>> {
    Answer(swap::CATALOG.iter().map(Into::into).collect())
}

/// The built-in devices, fastest first with times in ns per 4 KiB page.
#[pyfunction]
pub fn devices() -> Answer<Devices> {
    let devices = sim::devices::builtin().collect();
    Answer(Devices { schema: "pagewise.devices/1", devices })
}

/// A device by name, READ/WRITE times or path of its file.
#[pyfunction]
pub fn device(py: Python<'_>, text: &str) -> PyResult<Answer<Device>> {
    resolve_device(text).map(Answer).map_err(|error| error.raise(py))
}

/// Fast devices for every latency ratio over which a conclusion must hold, of READ/WRITE
/// times. The slow device is given by name, READ/WRITE times or path of its file.
#[pyfunction]
pub fn latency_ratios(py: Python<'_>, slow: &str) -> PyResult<Vec<String>> {
    let slow = resolve_device(slow).map_err(|error| error.raise(py))?;
    let texts = sim::devices::latency_ratios().into_iter().map(|ratio| {
        let fast = slow.faster_by(ratio);
        format!("{}/{}ns", fast.read.typical_ns, fast.write.typical_ns)
    });
    Ok(texts.collect())
}

/// The device with this name, READ/WRITE times, or file. The simulator itself reads no files.
fn resolve_device(text: &str) -> Result<Device, sim::Error> {
    if Path::new(text).extension().is_none_or(|extension| extension != "toml") {
        return Ok(Device::resolve(text)?);
    }
    let content = device_file(Path::new(text)).map_err(|error| {
        sim::Error::new(sim::ErrorKind::Device, format!("{text}: cannot be read: {error}"))
    })?;
    Ok(Device::from_toml(&content, text)?)
}

/// The text of a regular file of moderate size: a device such as /dev/zero has no end, and a pipe
/// waits for its writer.
fn device_file(path: &Path) -> io::Result<String> {
    let about = std::fs::metadata(path)?;
    if !about.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if about.len() > DEVICE_FILE_BYTES_MAX {
        return Err(io::Error::other(format!("larger than {} MiB", DEVICE_FILE_BYTES_MAX >> 20)));
    }
    let mut text = String::new();
    File::open(path)?.take(DEVICE_FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}
