//! `pagewise-agent killtrace`: what killing a process costs, phase by phase.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use linux::Root;
use linux::cgroup::MemoryGroup;
use recorder::kills::{BackendChoice, Options, Scope, Watch};
use serde_json::json;
use trace::kills::{About, Kill, Killer, KillsOutcome, chrome};
use types::shown;

use crate::arguments::{parse_size, parse_time};
use crate::exit::{self, Exit, INTERRUPTED};
use crate::interrupt::Interrupt;
use crate::output::{print, say};

/// Show how long each phase of a kill takes: signal, threads, unmapping, page tables, reaper. Ends on
/// Ctrl-C, or when the process of --pid has exited.
#[derive(Args)]
#[command(after_help = "\
Times are in microseconds. n/a: this kernel does not report the figure.

If tracefs is not mounted, killtrace as root mounts it in a private mount
namespace: no other process sees the mount, and it ends with killtrace.

Examples:
  pagewise-agent killtrace --pid 4711
  pagewise-agent killtrace --all --json -o kills.pgk
  pagewise-agent killtrace --read kills.pgk --chrome kills.json")]
pub struct Arguments {
    #[command(flatten)]
    processes: Processes,
    /// The source of events.
    #[arg(long, value_enum, default_value = "any", conflicts_with = "read")]
    backend: BackendName,
    /// End after this time at the latest, such as 500ms, 60s, 5m.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, conflicts_with = "read")]
    duration: Option<Duration>,
    /// Size of the buffer between kernel and killtrace, a power of two, such as 16MiB.
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = parse_size)]
    buffer: u32,
    /// Save the kernel's events, for --read; FILE must not exist.
    #[arg(short, long, value_name = "FILE", conflicts_with = "read")]
    output: Option<PathBuf>,
    /// Save a trace for ui.perfetto.dev or chrome://tracing; FILE must not exist.
    #[arg(long, value_name = "FILE")]
    chrome: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The processes whose kills to trace.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Processes {
    /// Trace only this process, until it has exited.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Trace the processes of this memory cgroup and those below it.
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// Trace every process.
    #[arg(long)]
    all: bool,
    /// Read the kills from a file that -o wrote.
    #[arg(long, value_name = "FILE")]
    read: Option<PathBuf>,
}

/// A source of kernel events, as the command line names it.
#[derive(Clone, Copy, ValueEnum)]
enum BackendName {
    /// tracepoints, or btf if the kernel refuses tracefs.
    Any,
    /// Tracepoints, which every kernel permits to root.
    Tracepoints,
    /// BPF programs on the same tracepoints; needs no tracefs.
    Btf,
    /// Tracepoints and the kernel functions on the path of a kill; many kernels refuse this.
    Function,
}

pub fn run(arguments: &Arguments) -> exit::ExitOutcome {
    let mut is_early = false;
    let (outcome, failure) = match &arguments.processes.read {
        // Signals keep their default action, so one also ends a read that waits for the writer of a pipe.
        Some(path) => {
            let read = trace::kills::read(path);
            (read.map_err(|error| Exit::Refused(error.to_string()))?, None)
        }
        None => {
            let (root, interrupt) = (Root::system(), Interrupt::listen()?);
            let deadline = arguments.duration.and_then(|time| Instant::now().checked_add(time));
            let mut waiting = Waiting { interrupt: interrupt.clone(), deadline };
            let recorded =
                recorder::kills::record(&root, &options(&root, arguments)?, &mut waiting)?;
            // Ctrl-C is the usual end of a recording; with --pid it comes before the process has exited.
            is_early = interrupt.came() && arguments.processes.pid.is_some();
            recorded
        }
    };
    // Print the results even if a file cannot be written.
    let written = match &arguments.chrome {
        Some(path) => write_chrome(path, &outcome.kills),
        None => Ok(()),
    };
    match arguments.json {
        true => print(json!(outcome.report()))?,
        false => print_table(&outcome)?,
    }
    written?;
    match failure {
        Some(failure) => Err(Exit::Refused(failure)),
        None if is_early => Ok(ExitCode::from(INTERRUPTED)),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Writes the trace for a viewer, and removes an incomplete file, because no viewer reads it.
fn write_chrome(path: &Path, kills: &[Kill]) -> Result<(), Exit> {
    let refused =
        |error: io::Error| Exit::Refused(format!("{}: cannot be written: {error}", path.display()));
    let mut file = BufWriter::new(File::create_new(path).map_err(refused)?);
    let written = serde_json::to_writer(&mut file, &chrome(kills));
    written.map_err(io::Error::from).and_then(|()| file.flush()).map_err(|error| {
        let _ = fs::remove_file(path);
        refused(error)
    })
}

fn options(root: &Root, arguments: &Arguments) -> Result<Options, Exit> {
    let scope = match (arguments.processes.pid, &arguments.processes.cgroup) {
        (Some(pid), _) if linux::process::beginning(root, pid).is_none() => {
            return Err(Exit::Usage(format!("--pid {pid}: there is no such process")));
        }
        (Some(pid), _) => Scope::Process(pid),
        (None, Some(path)) => Scope::Group(MemoryGroup::at(root, path)?),
        (None, None) => Scope::All,
    };
    let backend = match arguments.backend {
        BackendName::Any => BackendChoice::Any,
        BackendName::Tracepoints => BackendChoice::Tracepoints,
        BackendName::Btf => BackendChoice::Btf,
        BackendName::Function => BackendChoice::Function,
    };
    let output = arguments.output.clone();
    Ok(Options { backend, scope, output, buffer_bytes: arguments.buffer })
}

/// Waits for a signal or for the end of `--for`.
struct Waiting {
    interrupt: Interrupt,
    deadline: Option<Instant>,
}

impl Watch for Waiting {
    fn ready(&mut self, about: &About) {
        say(format_args!("waiting for kills on Linux {} ({})", about.kernel, about.backend));
    }

    fn is_over(&mut self) -> bool {
        self.interrupt.came() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

fn print_table(outcome: &KillsOutcome) -> Result<(), Exit> {
    print(format_args!(
        "{:>8} {:<15} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {:<14} killer",
        "pid",
        "name",
        "count",
        "rss MiB",
        "signal",
        "threads",
        "unmap",
        "tables",
        "reaper",
        "total",
        "trigger"
    ))?;
    outcome.kills.iter().try_for_each(|kill| print(line(kill)))?;
    for missing in &outcome.absent {
        say(format_args!("not measured: {}: {}", missing.what, missing.why));
    }
    if outcome.is_cut {
        say("the end of the recording is missing: the recorder was stopped early");
    }
    if outcome.lost > 0 {
        say(format_args!("{} events were lost: give a larger --buffer", outcome.lost));
    }
    Ok(())
}

fn line(kill: &Kill) -> String {
    let time = |value: Option<f64>| value.map_or("n/a".to_owned(), |value| format!("{value:.0}"));
    let memory = kill
        .rss_bytes
        .map_or("n/a".to_owned(), |bytes| format!("{:.1}", bytes as f64 / (1 << 20) as f64));
    let threads = kill.threads.map_or("n/a".to_owned(), |count| count.to_string());
    let trigger = serde_json::to_value(kill.trigger).unwrap_or_default();
    format!(
        "{:>8} {:<15} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {:<14} {}",
        kill.pid,
        printable(&kill.comm),
        threads,
        memory,
        time(kill.signal_us),
        time(kill.threads_us),
        time(kill.unmap_us),
        time(kill.pagetables_us),
        time(kill.reaper_us),
        time(kill.total_us),
        trigger.as_str().unwrap_or_default(),
        kill.killer.as_ref().map_or("n/a".to_owned(), named)
    )
}

fn named(killer: &Killer) -> String {
    let name = killer.comm.as_deref().map_or("?".to_owned(), printable);
    format!("{name} ({})", killer.pid)
}

/// The name with control characters replaced, which a terminal would obey.
fn printable(name: &str) -> String {
    shown(name).map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}
