//! A recording from its first event to its last.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linux::cgroup::MemoryGroup;
use linux::system::{self, Machine};
use linux::{Root, own_memory, process};
use trace::recording::moments::SOURCE;
use trace::recording::{About, Ending, Missing, Record, Writer};

use crate::backend::{Backend, BackendChoice};
use crate::bpf::{self, Object, Programs};
use crate::scene::Scene;
use crate::sources::{CATALOG, Source};
use crate::watch::Watched;
use crate::{Error, EventFilter, machine, sampler, tracefs};

/// How often the kernel's counters are sampled, and pending data is written.
pub const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// What to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file of the recording.
    pub output: PathBuf,
    /// The sources to record.
    pub sources: Vec<&'static Source>,
    /// The processes whose events are recorded.
    pub filter: EventFilter,
    /// The group of moments and notices, if it is not the group of the filter.
    pub noted: Option<MemoryGroup>,
    /// The backend.
    pub backend: BackendChoice,
    /// The size of the buffer between kernel and recorder: a power of two.
    pub buffer_bytes: u32,
    /// The command that runs meanwhile, for the header of the recording.
    pub command: Vec<String>,
}

impl Options {
    /// The group of moments and notices; None for the machine.
    fn noted_group(&self) -> Option<&MemoryGroup> {
        self.noted.as_ref().or(self.filter.group.as_ref())
    }
}

/// The caller's side of a recording: it starts the command, and decides when the recording is over.
pub trait Stop {
    /// Called once, before `start`, with the parts that the recording lacks because of the backend.
    fn ready(&mut self, _absent: &[Missing]) {}

    /// Called once, when all events are enabled: from now on no event is missed.
    ///
    /// # Errors
    /// The command cannot be run.
    fn start(&mut self) -> io::Result<()>;

    /// Called many times a second: None to continue; else the recording ends, with the exit status of the command if
    /// its end is the reason.
    fn is_over(&mut self) -> Option<Option<i32>>;
}

/// The result of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordingOutcome {
    /// Records written.
    pub recorded: u64,
    /// Records that found the buffer full.
    pub lost: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// The duration of the recording.
    pub duration: Duration,
    /// CPU time of this process during the recording.
    pub cpu: Duration,
    /// The exit status of the command, if it has ended.
    pub exit_status: Option<i32>,
    /// The name of the backend.
    pub backend: &'static str,
    /// Parts that the recording lacks because of the backend.
    pub absent: Vec<Missing>,
    /// The reason why the recording ended early, such as a full disk.
    pub failure: Option<String>,
}

/// The largest share of lost records that is acceptable.
const LOST_SHARE_MAX: f64 = 0.001;

impl RecordingOutcome {
    /// Whether more than 0.1 % of the records were lost, so that figures of the recording are in doubt.
    pub fn is_lossy(&self) -> bool {
        self.lost as f64 > LOST_SHARE_MAX * (self.recorded + self.lost) as f64
    }
}

/// Records until `stop` is over.
///
/// # Errors
/// The kernel refuses before the first record. A later failure ends the recording and is reported in the outcome,
/// because the records until then are good.
pub fn record(
    root: &Root,
    options: &Options,
    stop: &mut dyn Stop,
) -> Result<RecordingOutcome, Error> {
    let mut object = bpf::object();
    let mut backend = attach(options, &mut object)?;
    let file = create(&options.output)?;
    let whole = file.try_clone().map_err(Error::Write)?;
    let begun = about(root, options, &backend)
        .and_then(|about| Writer::new(file, &about).map_err(Error::Write));
    let mut writer = begun.inspect_err(|_| {
        // No record was written, and a file without a header cannot be read.
        let _ = std::fs::remove_file(&options.output);
    })?;
    drop_start(root);
    stop.ready(backend.absent());
    let meter = Meter::start();
    let ended = run(root, options, &mut backend, &mut writer, stop);
    if let Err(error @ Error::Command(..)) = ended {
        // The command never ran, so there is nothing to keep.
        let _ = std::fs::remove_file(&options.output);
        return Err(error);
    }
    Ok(finish(writer, &whole, &backend, ended, &meter))
}

/// Enables the events of `options`; from now on no event is missed. `object` is the storage of BPF programs.
///
/// # Errors
/// The kernel refuses.
pub fn attach<'object>(
    options: &Options,
    object: &'object mut Object,
) -> Result<Backend<'object>, Error> {
    Backend::attach(
        options.backend,
        object,
        &options.sources,
        &options.filter,
        options.noted_group(),
        options.buffer_bytes,
    )
}

/// Drops what only the start needed: reading the kernel's types and loading the programs takes more memory than
/// recording. A recorder that may not do so records all the same.
pub fn drop_start(root: &Root) {
    let _ = own_memory::drop_start(root);
}

/// What takes moments of memory and processes; None if they are not recorded, or the kernel does not report
/// memory.
pub fn watched<'a>(root: &'a Root, options: &'a Options) -> Option<Watched<'a>> {
    let has_moments = options.sources.iter().any(|source| source.name == SOURCE);
    has_moments.then(|| Scene::open(root, options.noted_group())).flatten().map(Watched::new)
}

/// Completes the file, of which `whole` is another handle, and returns the outcome.
fn finish(
    writer: Writer<File>,
    whole: &File,
    backend: &Backend,
    ended: Result<Option<i32>, Error>,
    meter: &Meter,
) -> RecordingOutcome {
    let lost = backend.lost() + writer.unwritten();
    let (recorded, bytes) = (writer.recorded(), writer.bytes());
    if let Err(Error::Write(_)) = ended {
        // Cut off an incomplete block, so that the file can still be completed on a full disk.
        let _ = whole.set_len(bytes);
    }
    let (exit_status, mut failure) = match ended {
        Ok(exit_status) => (exit_status, None),
        Err(error) => (None, Some(error.to_string())),
    };
    let ending = Ending { time_ns: system::monotonic_ns(), recorded, lost, exit_status };
    if let Err(error) = writer.finish(ending) {
        let _ = whole.set_len(bytes);
        failure.get_or_insert(Error::Write(error).to_string());
    }
    RecordingOutcome {
        recorded,
        lost,
        bytes,
        duration: meter.duration(),
        cpu: meter.cpu(),
        exit_status,
        backend: backend.name(),
        absent: backend.absent().to_vec(),
        failure,
    }
}

/// Creates the file of a recording; the path must not exist. The file is opened for appending, so that writes
/// after a truncation leave no hole.
///
/// # Errors
/// The file exists, or the operating system refuses.
pub fn create(path: &Path) -> Result<File, Error> {
    let file = File::options().append(true).create_new(true).open(path);
    file.map_err(|error| Error::Create(path.to_owned(), error))
}

/// Starts the command.
///
/// # Errors
/// The command cannot be run.
pub fn start(stop: &mut dyn Stop, command: &[String]) -> Result<(), Error> {
    stop.start().map_err(|error| Error::Command(command.join(" "), error))
}

/// Measures the time of a recording, and the CPU time of this process during it.
pub struct Meter {
    began: Instant,
    cpu_before: Duration,
}

impl Meter {
    /// Starts measuring.
    pub fn start() -> Meter {
        Meter { began: Instant::now(), cpu_before: system::processor_time() }
    }

    /// The time until now.
    pub fn duration(&self) -> Duration {
        self.began.elapsed()
    }

    /// The CPU time until now.
    pub fn cpu(&self) -> Duration {
        system::processor_time() - self.cpu_before
    }
}

/// The header of a recording, with the fields about the machine set.
pub fn here(root: &Root) -> Result<About, Error> {
    let machine = Machine::this(root)?;
    Ok(About {
        pagewise: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: machine.kernel,
        machine: machine.architecture,
        processors: machine.processors,
        memory_bytes: machine.memory_bytes,
        page_bytes: machine.page_bytes,
        realtime_offset_ns: system::realtime_offset_ns(),
        ..About::default()
    })
}

/// The header of a recording that begins now.
///
/// # Errors
/// The operating system refuses.
pub fn about(root: &Root, options: &Options, backend: &Backend) -> Result<About, Error> {
    let here = here(root)?;
    let group = options.filter.group.as_ref().or(options.noted.as_ref());
    Ok(About {
        system: Some(machine::system(root, &here.kernel, group)),
        sources: options.sources.iter().map(|source| source.name.to_owned()).collect(),
        backend: backend.name().to_owned(),
        absent: absent(options, backend),
        knows_zeros: backend.marks_zeros(),
        cgroup: options.filter.group.as_ref().map(|group| group.folder.display().to_string()),
        process: options.filter.process,
        command: options.command.clone(),
        ..here
    })
}

/// The parts that this recording lacks, with the reasons.
fn absent(options: &Options, backend: &Backend) -> Vec<Missing> {
    let not_asked = CATALOG
        .iter()
        .filter(|source| !options.sources.contains(source))
        .map(|source| Missing { what: source.name.to_owned(), why: "not asked for".to_owned() });
    not_asked.chain(backend.absent().iter().cloned()).collect()
}

/// Moves records from the buffer to the file until `stop` is over; returns the exit status of the command.
fn run(
    root: &Root,
    options: &Options,
    backend: &mut Backend,
    writer: &mut Writer<File>,
    stop: &mut dyn Stop,
) -> Result<Option<i32>, Error> {
    writer.sample(&sampler::sample(root, options.filter.group.as_ref())).map_err(Error::Write)?;
    for record in names(root, &options.filter)? {
        writer.push(record).map_err(Error::Write)?;
    }
    start(stop, &options.command)?;
    let group = options.filter.group.as_ref();
    let mut scene = watched(root, options);
    let mut next_sample = Instant::now() + SAMPLE_EVERY;
    loop {
        let over = stop.is_over();
        // Before the records, which may take long: the measurement belongs to the notices.
        if let Some(scene) = &mut scene {
            scene.look(root, backend.notices()?, over.is_some());
        }
        drain(backend, writer, |_| ())?;
        if let Some(scene) = &mut scene {
            scene.write(root, backend.notices()?, writer)?;
        }
        let now = Instant::now();
        if over.is_some() || now >= next_sample {
            writer.sample(&sampler::sample(root, group)).map_err(Error::Write)?;
            next_sample = now + SAMPLE_EVERY;
        }
        match over {
            Some(exit_status) => return Ok(exit_status),
            None => backend.wait()?,
        }
    }
}

/// The processes that run now, each as if it had just called exec.
///
/// # Errors
/// The group was removed, or the operating system refuses.
pub fn names(root: &Root, filter: &EventFilter) -> Result<Vec<Record>, Error> {
    let processes = match (&filter.group, filter.process) {
        (_, Some(process)) => vec![process],
        (Some(group), None) => group.processes(root)?,
        (None, None) => process::all(root)?,
    };
    let named = |process: u32| {
        let name = process::name(root, process)?;
        let record = Record { time_ns: system::monotonic_ns(), process, ..Record::default() };
        Some(record.of_program(&name))
    };
    Ok(processes.into_iter().filter_map(named).collect())
}

/// Writes the contents of the buffer, and passes the events to `see`.
///
/// # Errors
/// The kernel refuses, or the events cannot be written.
pub fn drain<W: Write>(
    backend: &mut Backend,
    writer: &mut Writer<W>,
    mut see: impl FnMut(&[Record]),
) -> Result<(), Error> {
    backend.drain(|batch| {
        see(&batch.records);
        if !batch.files.is_empty() {
            writer.name_files(&batch.files).map_err(Error::Write)?;
        }
        batch.records.iter().try_for_each(|&record| writer.push(record)).map_err(Error::Write)
    })
}

/// Checks whether the kernel permits text events, which replace BPF if it refuses BPF.
///
/// # Errors
/// The reason why it does not.
pub fn probe_text() -> Result<(), Error> {
    tracefs::probe()
}

/// Checks whether the kernel accepts the programs of each source: attaches and detaches them.
pub fn probe() -> Vec<(&'static Source, Result<(), Error>)> {
    /// The smallest buffer: a page.
    const BUFFER_BYTES: u32 = 1 << 12;
    let ask = |source: &'static Source| {
        let mut object = bpf::object();
        let attached =
            Programs::attach(&mut object, &[source], &EventFilter::default(), None, BUFFER_BYTES)
                .map(drop);
        (source, attached)
    };
    CATALOG.iter().map(ask).collect()
}
