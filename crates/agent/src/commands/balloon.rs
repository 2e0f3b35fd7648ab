//! `pagewise-agent balloon`: takes memory on purpose, so that others have little.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Args, ValueEnum};
use killer::balloon::{self, Ending, Kind, Options, Target};
use linux::Root;
use linux::cgroup::MemoryGroup;
use types::Bytes;

use crate::arguments::parse_time;
use crate::exit::{Exit, Outcome};
use crate::interrupt::Interrupt;
use crate::output::print;

/// It ended before it was told to: it was killed, or the machine had too little memory left.
const ENDED_EARLY: u8 = 1;

/// Take memory on purpose, in a cgroup with a limit, to see what other programs do when it is short.
#[derive(Args)]
#[command(after_help = "\
The balloon prints event=filled when it reaches its target, and event=end with the reason when it \
ends. With its default adj of 1000 killers choose it first. It ends when the machine has less than \
--floor available, and its cgroup is removed however it ends. Needs root.

Examples:
  pagewise-agent balloon 300MiB --for 60s
  pagewise-agent balloon available:500MiB --rate 100MiB --touch 20
  pagewise-agent balloon 40% --kind shared --within /sys/fs/cgroup/memory/apps")]
pub struct Arguments {
    /// How much: a size (300MiB), a share of all memory (40%), all but a size that stays available
    /// (available:500MiB), or until some task stalls for a share of the time (pressure:20%).
    target: Target,
    /// The kind of memory.
    #[arg(long, value_enum, default_value = "anon")]
    kind: KindName,
    /// Memory that it takes in a second, at most, such as 100MiB [default: no limit].
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    rate: Option<Bytes>,
    /// Per cent of each page that is zero, and so compresses well.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100))]
    compressible: u64,
    /// Per cent of its memory that it touches again each second; 0 leaves it alone.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    touch: u64,
    /// Number of threads that take the memory.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// The balloon's oom_score_adj.
    #[arg(long, value_name = "ADJ", default_value_t = 1000, allow_negative_numbers = true, value_parser = clap::value_parser!(i16).range(-1000..=1000))]
    adj: i16,
    /// The limit of its cgroup [default: its size and a sixteenth more].
    #[arg(long, value_name = "SIZE")]
    limit: Option<Bytes>,
    /// The memory cgroup in which it creates its own [default: the root].
    #[arg(long, value_name = "PATH")]
    within: Option<PathBuf>,
    /// End when the machine has less memory available than this [default: a sixteenth of all memory].
    #[arg(long, value_name = "SIZE")]
    floor: Option<Bytes>,
    /// The folder in which it creates its files.
    #[arg(long, value_name = "PATH", default_value = "/var/tmp")]
    folder: PathBuf,
    /// How long it stays, such as 60s [default: until Ctrl-C or SIGTERM].
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    duration: Option<Duration>,
    /// To hold memory for the process of this number, in the cgroup at the path.
    #[arg(long, hide = true, num_args = 2, value_names = ["PID", "PATH"])]
    inside: Option<Vec<String>>,
    /// To remove the cgroup at this path once standard input ends.
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

pub fn run(arguments: &Arguments) -> Outcome {
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
        Ending::Asked => ("it was asked to".to_owned(), ExitCode::SUCCESS),
        Ending::Floor => {
            ("the machine has too little memory left".to_owned(), ExitCode::from(ENDED_EARLY))
        }
        Ending::Limit => (
            "its cgroup or one above was at its limit, so the kernel killed it".to_owned(),
            ExitCode::from(ENDED_EARLY),
        ),
        Ending::Killed(signal) => {
            (format!("it was killed by signal {signal}"), ExitCode::from(ENDED_EARLY))
        }
        Ending::Failed => return Err(Exit::Refused("the balloon could not be held".to_owned())),
    };
    print(format_args!("event=end why=\"{why}\""))?;
    Ok(status)
}

fn hold(root: &Root, options: &Options, parent: u32, folder: &str) -> Outcome {
    // What is measured is the memory of the group that the balloon's own lies in.
    let group = options.within.as_ref().map(|path| MemoryGroup::at(root, path)).transpose()?;
    let filled = |bytes| {
        // Nobody who does not listen keeps it from holding.
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

/// At no speed it would never hold anything.
fn parse_rate(text: &str) -> Result<Bytes, String> {
    let rate: Bytes = text.parse()?;
    match rate {
        Bytes(0) => Err("expected more than nothing a second, such as 100MiB".to_owned()),
        rate => Ok(rate),
    }
}
