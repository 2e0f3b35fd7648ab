//! `pagewise-agent record`: writes the events of the running kernel to a recording.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use linux::Root;
use linux::cgroup::MemoryGroup;
use recorder::sources::{self, Source};
use recorder::{BackendChoice, EventFilter, Options, RecordingOutcome};
use serde_json::json;

use super::record_allocations;
use super::record_ring::{KeptFiles, RingArguments, RingEnding};
use crate::arguments::{parse_size, parse_time};
use crate::ending::Ending;
use crate::exit::{self, DATA_LOST, Exit, INTERRUPTED};
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
  pagewise-agent record -o /var/lib/pagewise --ring 10min
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
        "swap", "faults", "files", "block", "kills", "launches", "cgroup", "pid", "backend", "buffer", "length",
    ])]
    allocations: bool,
    /// Rebuild a recording from the folder of logs that an interrupted `record --allocations` left.
    #[arg(long, value_name = "FOLDER", requires = "allocations", conflicts_with = "command")]
    recover: Option<PathBuf>,
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
    #[command(flatten)]
    ring: RingArguments,
    /// Print one JSON object at the end, and send the output of COMMAND to standard error.
    #[arg(long)]
    json: bool,
    /// The file to write, which must not exist; with --ring the folder of the files, which must exist.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// A command to run. The recording ends when the command exits, and record exits with its status.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
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

pub fn run(arguments: Arguments) -> exit::ExitOutcome {
    let root = Root::system();
    let interrupt = Interrupt::listen()?;
    let command = arguments.command.clone();
    let mut ending = Ending::new(interrupt.clone(), command, arguments.duration, arguments.json);
    let mut kept = None;
    let outcome = if arguments.allocations {
        let Arguments { output, command, recover, .. } = &arguments;
        match recover {
            Some(folder) => record_allocations::recover(&root, folder, output)?,
            None => record_allocations::record(&root, output, command, &mut ending)?,
        }
    } else {
        let options = options(&root, &arguments)?;
        if let Some(warning) = swap_warning(&root, &options.sources) {
            say(warning);
        }
        match arguments.ring.options(arguments.buffer)? {
            None => recorder::record(&root, &options, &mut ending)?,
            Some(ring) => {
                let mut ending = RingEnding::new(ending)?;
                let outcome = recorder::ring::record(&root, &options, &ring, &mut ending)?;
                kept = Some(ending.kept);
                outcome
            }
        }
    };
    match arguments.json {
        true => print(report(&arguments, &outcome, kept.as_ref()))?,
        false => print_summary(&arguments, &outcome, kept.as_ref()),
    }
    if let Some(failure) = outcome.failure {
        return Err(Exit::Refused(failure));
    }
    if outcome.is_lossy() {
        say(match arguments.allocations {
            true => {
                "more than 0.1 % of the records were lost because the disk was full: free some \
                     space, or name a file on another disk with -o"
            }
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

fn print_summary(arguments: &Arguments, outcome: &RecordingOutcome, kept: Option<&KeptFiles>) {
    if let Some(kept) = kept {
        say(kept.summary());
    }
    say(format_args!(
        "{}: {} records in {:.1} s, {} lost",
        arguments.output.display(),
        outcome.recorded,
        outcome.duration.as_secs_f64(),
        outcome.lost
    ));
}

fn report(
    arguments: &Arguments,
    outcome: &RecordingOutcome,
    kept: Option<&KeptFiles>,
) -> serde_json::Value {
    let mut report = json!({
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
    });
    if let Some(kept) = kept {
        report["kept"] = kept.files();
        report["not_kept"] = kept.not_kept.into();
        // The bytes are those of each file.
        report["bytes"] = serde_json::Value::Null;
    }
    report
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
        filter: EventFilter { group, process: arguments.pid },
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
    let sources = [
        ("swap", arguments.swap),
        ("faults", arguments.faults),
        ("files", arguments.files),
        ("block", arguments.block),
        ("kills", arguments.kills),
        ("launches", arguments.launches),
    ];
    let names: Vec<&str> =
        sources.iter().filter(|(_, is_chosen)| *is_chosen).map(|(name, _)| *name).collect();
    let is_wanted = |source: &&Source| match names.is_empty() {
        true => source.is_default,
        false => names.contains(&source.name),
    };
    // A ring that waits for kills must record them.
    let is_trigger = |source: &&Source| source.name == "kills" && arguments.ring.waits_for_kills();
    sources::CATALOG.iter().filter(|source| is_wanted(source) || is_trigger(source)).collect()
}

/// The warning if swap is to be recorded but the machine has no swap area.
fn swap_warning(root: &Root, sources: &[&Source]) -> Option<&'static str> {
    let is_of_swap = sources.iter().any(|source| ["swap", "faults"].contains(&source.name));
    let has_none = linux::swap::areas(root).is_ok_and(|areas| areas.is_empty());
    (is_of_swap && has_none).then_some(
        "warning: no swap area is active, so no swap events can occur; `swapon --show` lists areas\n\
         To add one of 2 GiB: sudo sh -c 'fallocate -l 2G /swapfile.pagewise && \
         chmod 600 /swapfile.pagewise && mkswap /swapfile.pagewise && swapon /swapfile.pagewise'\n\
         To undo: sudo sh -c 'swapoff /swapfile.pagewise && rm /swapfile.pagewise'",
    )
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

    #[test]
    fn the_swap_file_of_the_warning_has_an_undo_and_a_name_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        std::fs::create_dir(root.path("/proc")).unwrap();
        std::fs::write(root.path("/proc/swaps"), "Filename\tType\tSize\tUsed\tPriority\n").unwrap();
        let warning = swap_warning(&root, &sources::defaults()).unwrap();
        // The user may have a /swapfile, which mkswap would erase.
        assert_eq!(warning.matches("/swapfile").count(), warning.matches(".pagewise").count());
        assert!(
            warning.ends_with("swapoff /swapfile.pagewise && rm /swapfile.pagewise'"),
            "{warning}"
        );
    }
}
