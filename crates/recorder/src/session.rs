//! One recording from its first event to its last.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linux::system::{self, Machine};
use linux::{Root, process};
use trace::recording::moments::SOURCE;
use trace::recording::{About, Ending, Missing, Record, Writer};

use crate::backend::{Backend, BackendChoice};
use crate::bpf::{self, Programs};
use crate::moments::{Moments, Remains};
use crate::notices::Notice;
use crate::scene::{Deaths, Look, Scene};
use crate::sources::{CATALOG, Source};
use crate::{Error, Filter, machine, sampler, tracefs};

/// How often the kernel's counters are noted, and what is pending is written.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// How often a moment is taken besides those at kills: each costs about 6 ms of CPU time for a hundred
/// processes.
const MOMENT_EVERY: Duration = Duration::from_millis(200);

/// What to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the recording goes.
    pub output: PathBuf,
    /// What is recorded.
    pub sources: Vec<&'static Source>,
    /// Whose events.
    pub filter: Filter,
    /// The group whose memory and processes are noted, where that is not the filter's.
    pub noted: Option<linux::cgroup::MemoryGroup>,
    /// How the kernel is heard.
    pub backend: BackendChoice,
    /// Room for records that wait to be written: a power of two.
    pub buffer_bytes: u32,
    /// The command that runs meanwhile, for the recording's own description.
    pub command: Vec<String>,
}

/// Who begins what is recorded, and knows when it is over.
pub trait Stop {
    /// Called once, before `start`, with what the recording will lack because of how the kernel is heard.
    fn ready(&mut self, _absent: &[Missing]) {}

    /// Called once, when every program is attached: from now on nothing is missed.
    ///
    /// # Errors
    /// A command that cannot be run.
    fn start(&mut self) -> io::Result<()>;

    /// Asked many times a second: none to go on; otherwise the exit status of the command, where its
    /// end is why.
    fn is_over(&mut self) -> Option<Option<i32>>;
}

/// How a recording went.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Records written.
    pub recorded: u64,
    /// Records that found the buffer full.
    pub lost: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// How long it took.
    pub duration: Duration,
    /// CPU time of this process in it.
    pub cpu: Duration,
    /// Exit status of the command, where it ended.
    pub exit_status: Option<i32>,
    /// How the kernel was heard, as in recordings.
    pub backend: &'static str,
    /// What the recording does not have because of how the kernel was heard.
    pub absent: Vec<Missing>,
    /// Why it ended before its time, where it did: the disk was full, say.
    pub failure: Option<String>,
}

/// More lost than this share of all records is too much.
const LOST_SHARE_MAX: f64 = 0.001;

impl Outcome {
    /// Whether so much was lost that figures of the recording are in doubt: more than 0.1 %.
    pub fn is_lossy(&self) -> bool {
        self.lost as f64 > LOST_SHARE_MAX * (self.recorded + self.lost) as f64
    }
}

/// Records until `stop` says so.
///
/// # Errors
/// What the kernel refuses before the first record. What fails later ends the recording and stands
/// in the outcome, since what was recorded is good.
pub fn record(root: &Root, options: &Options, stop: &mut dyn Stop) -> Result<Outcome, Error> {
    let mut object = bpf::object();
    let mut backend = Backend::attach(
        options.backend,
        &mut object,
        &options.sources,
        &options.filter,
        options.noted.as_ref().or(options.filter.group.as_ref()),
        options.buffer_bytes,
    )?;
    let file = create(&options.output)?;
    let whole = file.try_clone().map_err(Error::Write)?;
    let begun = about(root, options, &backend)
        .and_then(|about| Writer::new(file, &about).map_err(Error::Write));
    let mut writer = begun.inspect_err(|_| {
        // Nothing is recorded, and a file without a beginning cannot be read.
        let _ = std::fs::remove_file(&options.output);
    })?;
    stop.ready(backend.absent());
    let meter = Meter::start();
    let ended = run(root, options, &mut backend, &mut writer, stop);
    if let Err(error @ Error::Command(..)) = ended {
        // Its command never ran: there is nothing to keep.
        let _ = std::fs::remove_file(&options.output);
        return Err(error);
    }
    Ok(finish(writer, &whole, &backend, ended, &meter))
}

/// Ends the file, of which `whole` is another handle, and says how the recording `ended`.
fn finish(
    writer: Writer<File>,
    whole: &File,
    backend: &Backend,
    ended: Result<Option<i32>, Error>,
    meter: &Meter,
) -> Outcome {
    let lost = backend.lost() + writer.unwritten();
    let (recorded, bytes) = (writer.recorded(), writer.bytes());
    if let Err(Error::Write(_)) = ended {
        // A full disk took half a block; without it what was recorded can still be ended.
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
    Outcome {
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

/// Begins the file of a recording at a path that nothing has. What is written is appended, so that what
/// is cut off its end leaves no hole.
///
/// # Errors
/// What the operating system refuses, a file that is there included.
pub fn create(path: &Path) -> Result<File, Error> {
    let file = File::options().append(true).create_new(true).open(path);
    file.map_err(|error| Error::Create(path.to_owned(), error))
}

/// Begins what is recorded.
///
/// # Errors
/// A command that cannot be run.
pub fn start(stop: &mut dyn Stop, command: &[String]) -> Result<(), Error> {
    stop.start().map_err(|error| Error::Command(command.join(" "), error))
}

/// The time that a recording takes, and the CPU time of this process in it.
pub struct Meter {
    began: Instant,
    cpu_before: Duration,
}

impl Meter {
    /// From now on.
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

/// What any recording made here and now says of the machine.
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

fn about(root: &Root, options: &Options, backend: &Backend) -> Result<About, Error> {
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

/// What this recording does not have, though a recording may.
fn absent(options: &Options, backend: &Backend) -> Vec<Missing> {
    let not_asked = CATALOG
        .iter()
        .filter(|source| !options.sources.contains(source))
        .map(|source| Missing { what: source.name.to_owned(), why: "not asked for".to_owned() });
    not_asked.chain(backend.absent().iter().cloned()).collect()
}

/// Moves records from the buffer to the file until it is over; the exit status of the command.
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
    let has_moments = options.sources.iter().any(|source| source.name == SOURCE);
    let group = options.filter.group.as_ref();
    let noted = options.noted.as_ref().or(group);
    let mut scene = has_moments.then(|| Scene::open(root, noted)).flatten().map(Watched::new);
    let mut next_sample = Instant::now() + SAMPLE_EVERY;
    loop {
        let over = stop.is_over();
        // Before the records, which may take long: the measurement belongs to the notices.
        if let Some(scene) = &mut scene {
            scene.look(root, backend.notices()?, over.is_some());
        }
        drain(backend, writer)?;
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

/// Takes moments of memory and processes, periodically and at each kill.
struct Watched<'a> {
    scene: Scene<'a>,
    moments: Moments,
    next: Instant,
    /// Notices of kills without a moment yet, and a measurement that is not written yet.
    notices: Vec<Notice>,
    look: Option<Look>,
}

impl<'a> Watched<'a> {
    fn new(scene: Scene<'a>) -> Watched<'a> {
        let (moments, next) = (Moments::default(), Instant::now());
        Watched { scene, moments, next, notices: Vec::new(), look: None }
    }

    /// Measures memory and processes if there are notices, if it is time, or at the end.
    fn look(&mut self, root: &Root, notices: Vec<Notice>, is_over: bool) {
        self.notices.extend(notices);
        let now = Instant::now();
        if self.notices.is_empty() && now < self.next && !is_over {
            if self.moments.is_watching() {
                self.moments.watch(system::monotonic_ns(), |process| remains(root, process));
            }
            return;
        }
        self.moments.watch(system::monotonic_ns(), |process| remains(root, process));
        let is_dying = |process| {
            self.notices.iter().any(|notice| notice.process == process)
                || self.moments.is_dying(process)
        };
        let killed_ns = self.notices.iter().map(|notice| notice.time_ns).min();
        let deaths = Deaths { killed_ns, is_dying: &is_dying };
        self.look = self.scene.look(&deaths);
        self.next = now + MOMENT_EVERY;
    }

    /// Writes the moments of kills up to the last measurement, and the measurement.
    fn write(
        &mut self,
        root: &Root,
        notices: Vec<Notice>,
        writer: &mut Writer<File>,
    ) -> Result<(), Error> {
        self.notices.extend(notices);
        if self.look.is_none() && !self.notices.is_empty() {
            self.look(root, Vec::new(), true);
        }
        let Some(look) = self.look.take() else {
            // The group was removed, so it has no more kills.
            self.notices.clear();
            return Ok(());
        };
        let (due, later): (Vec<Notice>, Vec<Notice>) =
            self.notices.drain(..).partition(|notice| notice.time_ns <= look.moment.time_ns);
        self.notices = later;
        let moments = self.moments.take(&due, look);
        moments.iter().try_for_each(|moment| writer.moment(moment)).map_err(Error::Write)
    }
}

/// The remaining memory of a killed process; None once it has ended.
fn remains(root: &Root, process: u32) -> Option<Remains> {
    let start = process::beginning(root, process)?;
    let resident = process::state(root, process).map_or(0, |state| state.resident);
    Some(Remains { start, resident })
}

/// The processes that are there before the recording, each as if it had just begun its program.
fn names(root: &Root, filter: &Filter) -> Result<Vec<Record>, Error> {
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

/// Writes what is in the buffer.
fn drain(backend: &mut Backend, writer: &mut Writer<File>) -> Result<(), Error> {
    backend.drain(|batch| {
        if !batch.files.is_empty() {
            writer.name_files(&batch.files).map_err(Error::Write)?;
        }
        batch.records.iter().try_for_each(|&record| writer.push(record)).map_err(Error::Write)
    })
}

/// Whether the kernel grants text events, which serve where it refuses BPF.
///
/// # Errors
/// Why not.
pub fn probe_text() -> Result<(), Error> {
    tracefs::probe()
}

/// Whether the kernel takes the programs of each source: loads and attaches them for a moment.
pub fn probe() -> Vec<(&'static Source, Result<(), Error>)> {
    /// Room for what may come in that moment: a page.
    const BUFFER_BYTES: u32 = 1 << 12;
    let ask = |source: &'static Source| {
        let mut object = bpf::object();
        let attached =
            Programs::attach(&mut object, &[source], &Filter::default(), None, BUFFER_BYTES)
                .map(drop);
        (source, attached)
    };
    CATALOG.iter().map(ask).collect()
}
