//! `pagewise-agent record`: writes the events of the running kernel to a recording.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use linux::Root;
use linux::cgroup::MemoryGroup;
use recorder::sources::{self, Source};
use recorder::{BackendChoice, Filter, Options, Outcome, Stop};
use serde_json::json;
use trace::recording::Missing;
use types::Bytes;

use super::record_allocations;
use crate::exit::{DATA_LOST, Exit, INTERRUPTED};
use crate::interrupt::Interrupt;
use crate::output::{print, say};

/// Record which process swaps which page, until --for, the end of COMMAND, or Ctrl-C.
#[derive(Args)]
#[command(after_help = "\
If you name no source, record records --swap, --faults and --launches.

If tracefs is needed but not mounted, record as root mounts it in a private
mount namespace: no other process sees the mount, and it ends with record.

Examples:
  pagewise-agent record -o work.pgr --for 60s
  pagewise-agent record -o build.pgr --files -- make -j4
  pagewise-agent record -o blur.pgr --allocations -- convert a.jpg b.png")]
pub struct Arguments {
    /// Pages that leave memory, and what swap devices read and write.
    #[arg(long)]
    swap: bool,
    /// Faults that bring pages back, with their latency.
    #[arg(long)]
    faults: bool,
    /// Pages of files that enter and leave the page cache.
    #[arg(long)]
    files: bool,
    /// Every request that goes to a block device.
    #[arg(long)]
    block: bool,
    /// Each SIGKILL with its victim and sender; memory and processes at each kill and every 200 ms.
    #[arg(long)]
    kills: bool,
    /// Each fork, exec and exit.
    #[arg(long)]
    launches: bool,
    /// Instead of the sources above: the blocks of 64 KiB or more that COMMAND and its children allocate,
    /// and which of their pages they touch. Needs no privileges.
    #[arg(long, conflicts_with_all = [
        "swap", "faults", "files", "block", "kills", "launches", "cgroup", "pid", "backend", "buffer",
    ])]
    pub allocations: bool,
    /// Rebuild a recording from the folder of logs that an interrupted `record --allocations` left.
    #[arg(long, value_name = "FOLDER", requires = "allocations", conflicts_with = "command")]
    pub recover: Option<PathBuf>,
    /// Record only this memory cgroup and those below it.
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// Record only this process.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// How long to record, such as 500ms, 60s, 5m.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    duration: Option<Duration>,
    /// The source of events.
    #[arg(long, value_enum, default_value = "any")]
    backend: BackendName,
    /// Size of the buffer between kernel and recorder, a power of two, such as 64MiB.
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = parse_size)]
    buffer: u32,
    /// Print one JSON object at the end, and send the output of COMMAND to standard error.
    #[arg(long)]
    pub json: bool,
    /// The file to write; it must not exist.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// A command to run. The recording ends when the command exits, and record exits with its status.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// A source of kernel events, as the command line names it.
#[derive(Clone, Copy, ValueEnum)]
enum BackendName {
    /// bpf, or tracefs if the kernel refuses bpf.
    Any,
    /// BPF programs: pages by owner and address.
    Bpf,
    /// Text events of a tracefs instance: pages by swap slot, and no pages of zeros.
    Tracefs,
}

pub fn run(arguments: Arguments) -> crate::Outcome {
    let root = Root::system();
    let interrupt = Interrupt::listen()?;
    let mut ending = Ending::new(&arguments, interrupt.clone());
    let outcome = if arguments.allocations {
        record_allocations::record(&root, &arguments, &mut ending)?
    } else {
        let options = options(&root, &arguments)?;
        if let Some(warning) = swap_warning(&root, &options.sources) {
            say(warning);
        }
        recorder::record(&root, &options, &mut ending)?
    };
    match arguments.json {
        true => print(report(&arguments, &outcome))?,
        false => print_summary(&arguments, &outcome),
    }
    if let Some(failure) = outcome.failure {
        return Err(Exit::Refused(failure));
    }
    if outcome.is_lossy() {
        say(match arguments.allocations {
            true => "more than 0.1 % of the records were lost: the disk of the recording was full",
            false => "more than 0.1 % of the records were lost: give a larger --buffer",
        });
        return Ok(ExitCode::from(DATA_LOST));
    }
    Ok(match outcome.exit_status {
        Some(status) => ExitCode::from(status as u8),
        None if interrupt.came() => ExitCode::from(INTERRUPTED),
        None => ExitCode::SUCCESS,
    })
}

fn print_summary(arguments: &Arguments, outcome: &Outcome) {
    say(format_args!(
        "{}: {} records in {:.1} s, {} lost",
        arguments.output.display(),
        outcome.recorded,
        outcome.duration.as_secs_f64(),
        outcome.lost
    ));
}

fn report(arguments: &Arguments, outcome: &Outcome) -> serde_json::Value {
    json!({
        "schema": "pagewise.record/1",
        "path": arguments.output.display().to_string(),
        "backend": outcome.backend,
        "records": outcome.recorded,
        "lost": outcome.lost,
        "bytes": outcome.bytes,
        "duration_s": outcome.duration.as_secs_f64(),
        "cpu_s": outcome.cpu.as_secs_f64(),
        "peak_bytes": linux::system::peak_bytes(&Root::system()),
        "exit_status": outcome.exit_status,
        "absent": outcome.absent,
        "failure": outcome.failure,
    })
}

fn options(root: &Root, arguments: &Arguments) -> Result<Options, Exit> {
    if let Some(process) = arguments.pid
        && linux::process::name(root, process).is_none()
    {
        return Err(Exit::Usage(format!("--pid {process}: there is no such process")));
    }
    let group = arguments.cgroup.as_ref().map(|path| MemoryGroup::at(root, path)).transpose()?;
    Ok(Options {
        output: arguments.output.clone(),
        sources: wanted(arguments),
        filter: Filter { group, process: arguments.pid },
        noted: None,
        backend: match arguments.backend {
            BackendName::Any => BackendChoice::Any,
            BackendName::Bpf => BackendChoice::Bpf,
            BackendName::Tracefs => BackendChoice::Tracefs,
        },
        buffer_bytes: arguments.buffer,
        command: arguments.command.clone(),
    })
}

fn wanted(arguments: &Arguments) -> Vec<&'static Source> {
    let asked = [
        ("swap", arguments.swap),
        ("faults", arguments.faults),
        ("files", arguments.files),
        ("block", arguments.block),
        ("kills", arguments.kills),
        ("launches", arguments.launches),
    ];
    let names: Vec<&str> =
        asked.iter().filter(|(_, is_asked)| *is_asked).map(|(name, _)| *name).collect();
    if names.is_empty() {
        return sources::defaults();
    }
    sources::CATALOG.iter().filter(|source| names.contains(&source.name)).collect()
}

/// The warning if swap is to be recorded but the machine has no swap area.
fn swap_warning(root: &Root, sources: &[&Source]) -> Option<&'static str> {
    let is_of_swap = sources.iter().any(|source| ["swap", "faults"].contains(&source.name));
    let has_none = linux::swap::areas(root).is_ok_and(|areas| areas.is_empty());
    (is_of_swap && has_none).then_some(
        "warning: no swap area is active, so no swap events can occur; `swapon --show` lists areas\n\
         To add one of 2 GiB: sudo sh -c 'fallocate -l 2G /swapfile && chmod 600 /swapfile && \
         mkswap /swapfile && swapon /swapfile'",
    )
}

/// Ends the recording on a signal, after `--for`, or when the command exits.
pub struct Ending {
    interrupt: Interrupt,
    command: Vec<String>,
    /// Environment variables that the command gets in addition to those of record.
    pub environment: Vec<(&'static str, OsString)>,
    /// Whether record needs standard output for itself, so that the command writes to standard error.
    is_json: bool,
    child: Option<Child>,
    is_passed_on: bool,
    duration: Option<Duration>,
    deadline: Option<Instant>,
}

impl Ending {
    fn new(arguments: &Arguments, interrupt: Interrupt) -> Ending {
        Ending {
            interrupt,
            command: arguments.command.clone(),
            environment: Vec::new(),
            is_json: arguments.json,
            child: None,
            is_passed_on: false,
            duration: arguments.duration,
            deadline: None,
        }
    }
}

impl Stop for Ending {
    fn ready(&mut self, absent: &[Missing]) {
        if !self.is_json {
            for missing in absent {
                say(format_args!("not recorded: {}: {}", missing.what, missing.why));
            }
        }
    }

    fn start(&mut self) -> std::io::Result<()> {
        self.deadline = self.duration.and_then(|duration| Instant::now().checked_add(duration));
        if let Some((program, rest)) = self.command.split_first() {
            let mut command = Command::new(program);
            command.envs(self.environment.iter().map(|(name, value)| (name, value)));
            if self.is_json {
                command.stdout(std::io::stderr());
            }
            self.child = Some(command.args(rest).spawn()?);
        }
        Ok(())
    }

    fn is_over(&mut self) -> Option<Option<i32>> {
        if let Some(child) = &mut self.child {
            // Ctrl-C also reaches the command, and its exit ends the recording. Another signal may
            // have reached only the recorder, so pass it on.
            if self.interrupt.came_from_elsewhere() && !self.is_passed_on {
                linux::process::terminate(child.id());
                self.is_passed_on = true;
            }
            if let Ok(Some(status)) = child.try_wait() {
                let by_signal = status.signal().map(|signal| 128 + signal);
                return Some(status.code().or(by_signal));
            }
        } else if self.interrupt.came() {
            return Some(None);
        }
        let is_late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        is_late.then_some(None)
    }
}

impl Drop for Ending {
    /// Kills the command if it outlives the recording's time: it was started for the recording.
    fn drop(&mut self) {
        if let Some(child) = &mut self.child
            && matches!(child.try_wait(), Ok(None))
        {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Parses the bytes of the buffer of all processors together: a power of two of at least a page.
pub fn parse_size(text: &str) -> Result<u32, String> {
    let Bytes(bytes) = text.parse()?;
    u32::try_from(bytes)
        .ok()
        .filter(|bytes| bytes.is_power_of_two() && (1 << 12..=1 << 30).contains(bytes))
        .ok_or_else(|| format!("{text}: expected a power of two from 4KiB to 1GiB"))
}

/// Parses a time such as 60s.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let expected = || "expected a number with ms, s, min or h, such as 60s".to_owned();
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, unit) = text.split_at(digits.ok_or_else(expected)?);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(expected()),
    };
    let number: f64 = number.parse().map_err(|_| expected())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| expected())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_take_the_units_of_the_desk() {
        for (text, seconds) in
            [("500ms", 0.5), ("60s", 60.0), ("10m", 600.0), ("10min", 600.0), ("2h", 7200.0)]
        {
            assert_eq!(parse_time(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["10", "min", "10 min", "1d", "-1s", "1e9h"] {
            assert!(parse_time(text).unwrap_err().contains("ms, s, min or h"), "{text}");
        }
    }

    #[test]
    fn swap_without_a_swap_area_is_warned_of() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        std::fs::create_dir(root.path("/proc")).unwrap();
        let head = "Filename\tType\tSize\tUsed\tPriority\n";
        let other: Vec<&Source> =
            sources::CATALOG.iter().filter(|source| source.name == "kills").collect();
        for (swaps, is_warned) in [("", true), ("/dev/sda2 partition 1024 0 -2\n", false)] {
            std::fs::write(root.path("/proc/swaps"), format!("{head}{swaps}")).unwrap();
            assert_eq!(swap_warning(&root, &sources::defaults()).is_some(), is_warned);
            assert_eq!(swap_warning(&root, &other), None);
        }
    }
}
