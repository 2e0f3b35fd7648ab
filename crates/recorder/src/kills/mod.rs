//! Records kills on the running kernel, analyses them as they happen, and optionally keeps the events in a file.
//! trace::kills interprets the events, both live and from a file.

mod backend;
#[cfg_attr(not(feature = "bpf"), path = "no_btf.rs")]
mod btf;
mod kept;
mod tasks;
mod tracepoints;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use linux::cgroup::MemoryGroup;
use linux::system::{self, Machine};
use linux::{Root, process};
use trace::kills::{About, Analysis, Ending, KillsBlock, KillsOutcome};

use crate::{Error, bpf};
use backend::Backend;
use kept::Kept;
use tasks::Tasks;

/// How often the buffer is emptied.
const DRAIN_EVERY: Duration = Duration::from_millis(20);

/// How often to check whether the events that matter only while a process dies can be disabled.
const DISARM_EVERY: Duration = Duration::from_secs(1);

/// How long the end of a process's memory may come after the end of the process.
const GRACE: Duration = Duration::from_secs(1);

/// The backend that the user requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendChoice {
    /// Tracepoints, or BPF programs if the kernel refuses tracefs.
    Any,
    /// Tracepoints in a separate trace instance.
    Tracepoints,
    /// BPF programs on the same tracepoints, which need no tracefs.
    Btf,
    /// Tracepoints, and the kernel functions on the path of a kill.
    Function,
}

/// The processes whose kills count.
#[derive(Clone, Debug)]
pub enum Scope {
    /// All processes.
    All,
    /// One process; its end ends the recording.
    Process(u32),
    /// The processes of a memory cgroup.
    Group(MemoryGroup),
}

/// What to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// The backend.
    pub backend: BackendChoice,
    /// The processes whose kills count.
    pub scope: Scope,
    /// The file of the recording; None to keep no file.
    pub output: Option<PathBuf>,
    /// The size of the buffer of all processors together.
    pub buffer_bytes: u32,
}

/// The caller's side of a recording of kills.
pub trait Watch {
    /// Called once, when all events are enabled: from now on no kill is missed.
    fn ready(&mut self, about: &About);

    /// Whether the recording should end; called many times a second.
    fn is_over(&mut self) -> bool;
}

/// Records and analyses kills until `watch` is over, or the named process has ended. If the file ends early, the
/// second value is the reason.
///
/// # Errors
/// The kernel refuses before the first event.
pub fn record(
    root: &Root,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<(KillsOutcome, Option<String>), Error> {
    let mut tasks = Tasks::new(root, &options.scope)?;
    let mut object = bpf::object();
    let mut backend = Backend::attach(root, options.backend, &mut object, options.buffer_bytes)?;
    let about = about(root, options, &backend)?;
    let analysis = Analysis::new(about.clone()).map_err(Error::Tracefs)?;
    let kept = Kept::begin(options.output.as_deref(), &about)?;
    let mut session = Session { analysis, kept };
    session.feed(KillsBlock::Tasks(tasks.present(root)))?;
    let named = Named::new(root, &options.scope);
    watch.ready(&about);
    let ended = run(root, named, &mut tasks, &mut backend, &mut session, watch);
    let ending = Ending { time_ns: system::monotonic_ns(), lost: backend.lost() };
    session.feed(KillsBlock::Ending(ending))?;
    let failure = session.kept.failure().or(ended.err().map(|error| error.to_string()));
    Ok((session.analysis.finish(), failure))
}

fn about(root: &Root, options: &Options, backend: &Backend) -> Result<About, Error> {
    let machine = Machine::this(root)?;
    let forms = backend.forms();
    Ok(About {
        pagewise: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: machine.kernel,
        machine: machine.architecture,
        process: match options.scope {
            Scope::Process(process) => Some(process),
            _ => None,
        },
        cgroup: match &options.scope {
            Scope::Group(group) => Some(group.folder.display().to_string()),
            _ => None,
        },
        ..forms
    })
}

/// Analyses blocks, and keeps them in the file until a write fails.
struct Session {
    analysis: Analysis,
    kept: Kept,
}

impl Session {
    fn feed(&mut self, block: KillsBlock) -> Result<(), Error> {
        self.kept.keep(&block);
        self.analysis.take(&block).map_err(Error::Tracefs)
    }
}

/// Moves events from the kernel into the session until it is over.
fn run(
    root: &Root,
    mut named: Named,
    tasks: &mut Tasks,
    backend: &mut Backend,
    session: &mut Session,
    watch: &mut dyn Watch,
) -> Result<(), Error> {
    let mut heard_until_ns = 0;
    let mut disarm_at = Instant::now() + DISARM_EVERY;
    loop {
        // Checked before the buffer is drained, so that the drain includes all earlier events.
        let is_over = watch.is_over() || named.is_over(root, &session.analysis);
        let now_ns = system::monotonic_ns();
        backend.drain(|block| session.feed(block))?;
        let found = tasks.look(root, &session.analysis.strangers(), |thread| backend.name(thread));
        if !found.is_empty() {
            session.feed(KillsBlock::Tasks(found))?;
        }
        // Kills that began before the previous drain are complete by now.
        session.feed(KillsBlock::Until(heard_until_ns))?;
        heard_until_ns = now_ns;
        if is_over {
            return Ok(());
        }
        if Instant::now() >= disarm_at {
            if session.analysis.is_quiet() {
                backend.disarm();
            }
            disarm_at = Instant::now() + DISARM_EVERY;
        }
        std::thread::sleep(DRAIN_EVERY);
    }
}

/// The process of `--pid`, and when its end was seen.
struct Named {
    process: Option<(u32, Option<u64>)>,
    gone: Option<Instant>,
}

impl Named {
    fn new(root: &Root, scope: &Scope) -> Named {
        let process = match scope {
            Scope::Process(process) => Some((*process, process::beginning(root, *process))),
            _ => None,
        };
        Named { process, gone: None }
    }

    /// Whether the process has ended, and the end of its memory was seen or is overdue.
    fn is_over(&mut self, root: &Root, analysis: &Analysis) -> bool {
        let Some((process, beginning)) = self.process else { return false };
        if self.gone.is_none() && process::beginning(root, process) != beginning {
            self.gone = Some(Instant::now());
        }
        let is_seen = analysis.kills().iter().any(|kill| kill.total_us.is_some());
        self.gone.is_some_and(|gone| is_seen || gone.elapsed() >= GRACE)
    }
}

/// Checks whether kills can be recorded here, by enabling the events once; returns the parts that would be absent.
///
/// # Errors
/// The reason why no kills can be recorded.
pub fn probe() -> Result<Vec<trace::recording::Missing>, Error> {
    let mut object = bpf::object();
    let backend = Backend::attach(&Root::system(), BackendChoice::Any, &mut object, 1 << 16)?;
    Ok(backend.forms().absent)
}
