//! `pagewise-agent balloon`: takes memory on purpose, so that other programs have little.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Args, ValueEnum};
use killer::balloon::{self, BalloonTarget, Ending, Kind, Options};
use linux::Root;
use linux::cgroup::MemoryGroup;
use types::Bytes;

use crate::arguments::parse_time;
use crate::exit::{Exit, ExitOutcome};
use crate::interrupt::Interrupt;
use crate::output::print;

/// The exit status if the balloon ends early: killed, or less memory available than `--floor`.
const ENDED_EARLY: u8 = 1;

/// Take memory on purpose, in a cgroup with a limit, to see how other programs behave when memory is short.
#[derive(Args)]
#[command(after_help = "\
The balloon prints event=filled when it reaches its target, and event=end with the reason when it \
ends. It ends early if the machine has less than --floor available. It always removes its cgroup. \
With the default --adj of 1000, killers choose the balloon first. Needs root.

Examples:
  pagewise-agent balloon 300MiB --for 60s
  pagewise-agent balloon available:500MiB --rate 100MiB --touch 20
  pagewise-agent balloon 40% --kind shared --within /sys/fs/cgroup/memory/apps")]
pub struct Arguments {
    /// How much memory to take: a size (300MiB), a share of all memory (40%), all but an amount that stays
    /// available (available:500MiB), or until tasks stall for a share of the time (pressure:20%).
    target: BalloonTarget,
    /// The kind of memory to take.
    #[arg(long, value_enum, default_value = "anon")]
    kind: KindName,
    /// Take at most this much memory per second, such as 100MiB [default: no limit].
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    rate: Option<Bytes>,
    /// Percentage of each page to fill with zeros, which compress well.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100))]
    compressible: u64,
    /// Percentage of its memory to touch again each second; 0 touches none.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    touch: u64,
    /// Number of threads that take the memory.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// The balloon's oom_score_adj.
    #[arg(long, value_name = "ADJ", default_value_t = 1000, allow_negative_numbers = true, value_parser = clap::value_parser!(i16).range(-1000..=1000))]
    adj: i16,
    /// The memory limit of its cgroup [default: its size plus a sixteenth].
    #[arg(long, value_name = "SIZE")]
    limit: Option<Bytes>,
    /// Create its cgroup inside this memory cgroup [default: the root].
    #[arg(long, value_name = "PATH")]
    within: Option<PathBuf>,
    /// End when the machine has less memory available than this [default: a sixteenth of all memory].
    #[arg(long, value_name = "SIZE")]
    floor: Option<Bytes>,
    /// The folder for its files.
    #[arg(long, value_name = "PATH", default_value = "/var/tmp")]
    folder: PathBuf,
    /// Hold the memory for this long, such as 60s [default: until Ctrl-C or SIGTERM].
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    duration: Option<Duration>,
    /// Hold memory in the cgroup PATH while the process PID lives.
    #[arg(long, hide = true, num_args = 2, value_names = ["PID", "PATH"])]
    inside: Option<Vec<String>>,
    /// Remove the cgroup at this path at the end of standard input.
    #[arg(long, hide = true, value_name = "PATH")]
    guard: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum KindName {
    /// Private anonymous memory.
    Anon,
    /// Page cache of a file, written to storage.
    File,
    /// Page cache of a file, not yet written to storage.
    Dirty,
    /// Shared memory.
    Shared,
}

pub fn run(arguments: &Arguments) -> ExitOutcome {
    let root = Root::system();
    if let Some(folder) = &arguments.guard {
        balloon::stand_guard(&root, folder)?;
        return Ok(ExitCode::SUCCESS);
    }
    let options = options(arguments);
    if let Some([parent, folder]) = arguments.inside.as_deref() {
        let parent = parent.parse().map_err(|_| Exit::Usage(format!("no process: {parent}")))?;
        return hold(&root, &options, parent, folder);
    }
    let interrupt = Interrupt::listen()?;
    let this = std::process::id().to_string();
    let mut inside = Command::new("/proc/self/exe");
    inside.args(std::env::args_os().skip(1)).args(["--inside", &this]);
    let mut guard = Command::new("/proc/self/exe");
    guard.args(["balloon", "1%", "--guard"]);
    let ending = balloon::supervise(&root, &options, inside, guard, || interrupt.came())?;
    let (why, status) = match ending {
        Ending::Asked => ("a signal or --for ended it".to_owned(), ExitCode::SUCCESS),
        Ending::Floor => {
            ("less memory was available than --floor".to_owned(), ExitCode::from(ENDED_EARLY))
        }
        Ending::Limit => (
            "the kernel killed it: its cgroup or a parent reached its limit".to_owned(),
            ExitCode::from(ENDED_EARLY),
        ),
        Ending::Killed(signal) => {
            (format!("signal {signal} killed it"), ExitCode::from(ENDED_EARLY))
        }
        Ending::Failed => return Err(Exit::Refused("the balloon cannot take memory".to_owned())),
    };
    print(format_args!("event=end why=\"{why}\""))?;
    Ok(status)
}

fn hold(root: &Root, options: &Options, parent: u32, folder: &str) -> ExitOutcome {
    // Measure the memory of the group that contains the balloon's own group.
    let group = options.within.as_ref().map(|path| MemoryGroup::at(root, path)).transpose()?;
    let filled = |bytes| {
        // The balloon holds its memory even if standard output is closed.
        let _ = print(format_args!("event=filled bytes={bytes} cgroup=\"{folder}\""));
    };
    balloon::hold(root, options, group.as_ref(), parent, || false, filled)?;
    Ok(ExitCode::SUCCESS)
}

fn options(arguments: &Arguments) -> Options {
    Options {
        target: arguments.target,
        kind: match arguments.kind {
            KindName::Anon => Kind::Anon,
            KindName::File => Kind::File,
            KindName::Dirty => Kind::Dirty,
            KindName::Shared => Kind::Shared,
        },
        rate: arguments.rate,
        compressible_percent: arguments.compressible,
        touched_percent: arguments.touch,
        threads: usize::from(arguments.threads),
        adj: arguments.adj,
        limit: arguments.limit,
        within: arguments.within.clone(),
        floor: arguments.floor,
        folder: arguments.folder.clone(),
        time: arguments.duration,
    }
}

/// Refuses a rate of 0, at which the balloon would never take anything.
fn parse_rate(text: &str) -> Result<Bytes, String> {
    let rate: Bytes = text.parse()?;
    match rate {
        Bytes(0) => Err("expected a rate above 0, such as 100MiB".to_owned()),
        rate => Ok(rate),
    }
}
