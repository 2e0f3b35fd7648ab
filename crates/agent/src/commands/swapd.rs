//! `pagewise-agent swapd`: serves a swap area of two tiers to the kernel.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use devices::Device;
use linux::{Root, process, swap};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use swapd::emulation::Figures;
use swapd::session::{AreaPlan, Session, TierDevices, Unended};
use swapd::statistics::Histogram;
use swapd::{area, undo};
use types::Bytes;

use crate::exit::{Exit, ExitOutcome};
use crate::interrupt;
use crate::output::{print, say};

/// How often the command looks for signals and for the end of its command.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often it tries again to disable the area when memory had no room for its pages.
const TRY_EVERY: Duration = Duration::from_secs(1);

/// What swapd does instead of serving.
const HELPERS: [&str; 3] = ["undo", "swapoff", "swapon"];

/// Serve a swap area of two tiers: a policy keeps some pages in locked memory and the others on a disk.
#[derive(Args)]
#[command(after_help = "\
The area is in use until swapd gets SIGINT, SIGTERM or SIGHUP, or until COMMAND exits. Then swapd disables the area \
and leaves nothing behind; while memory has no room for the pages, it goes on serving and tries again. If swapd is \
killed by SIGKILL, the pages in its area are lost: programs that need them get SIGBUS. Needs root.

Examples:
  pagewise-agent swapd --size 3GiB --fast 256MiB --slow /var/lib/swapd --policy adaptive
  pagewise-agent swapd --size 1GiB --fast 64MiB --slow swap.tmp --policy hierarchical -- make -j4
  pagewise-agent swapd --undo")]
pub struct Arguments {
    /// The size of the swap area, such as 3GiB.
    #[arg(long, value_name = "SIZE", required_unless_present_any = HELPERS)]
    size: Option<Bytes>,
    /// The size of the fast tier, which is locked memory.
    #[arg(long, value_name = "SIZE", required_unless_present_any = HELPERS)]
    fast: Option<Bytes>,
    /// The slow tier: a block device, which is overwritten, or a path where swapd makes a file of --size without a
    /// name.
    #[arg(long, value_name = "PATH", required_unless_present_any = HELPERS)]
    slow: Option<PathBuf>,
    /// The policy, one of those that `pagewise architectures` lists.
    #[arg(long, value_name = "NAME", required_unless_present_any = HELPERS)]
    policy: Option<String>,
    /// An option of the policy; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_option)]
    option: Vec<(String, String)>,
    /// How the kernel reaches the server.
    #[arg(long, value_enum, default_value = "any")]
    through: Through,
    /// The priority of the area: the kernel fills areas of higher priority first.
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(i32).range(0..=32767))]
    priority: i32,
    /// Keep a checksum of each page, and fail a read rather than return other data.
    #[arg(long)]
    verify: bool,
    /// Serve even if the machine has no other swap area.
    #[arg(long)]
    only_swap: bool,
    /// Write each move that the policy decides to this file, as CSV with the columns event, slot, move.
    #[arg(long, value_name = "FILE")]
    moves: Option<PathBuf>,
    /// Record each event and each move that ended to this file, for `pagewise import`.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Make a tier as slow as a device: fast=DEVICE, slow=DEVICE or both, separated by a comma. DEVICE is a name
    /// of `pagewise devices list`, or READ/WRITE such as 90/40us.
    #[arg(long, value_name = "TIER=DEVICE", value_delimiter = ',', value_parser = parse_device)]
    emulate: Vec<(Tier, Device)>,
    /// The devices whose latencies the policy weighs; default: those emulated, or measured at the start.
    #[arg(long, value_name = "TIER=DEVICE", value_delimiter = ',', value_parser = parse_device)]
    devices: Vec<(Tier, Device)>,
    /// Print one JSON object at the end; COMMAND then writes to standard error.
    #[arg(long)]
    json: bool,
    /// Undo what a killed swapd left: its swap area and its loop device.
    #[arg(long, conflicts_with_all = ["size", "fast", "slow", "policy", "option", "moves", "record", "emulate", "devices", "json", "command"])]
    undo: bool,
    /// Disable this area; swapd runs itself for that, since its own process must not wait for the area.
    #[arg(long, value_name = "DEVICE", hide = true)]
    swapoff: Option<PathBuf>,
    /// Format and enable this area of --size with --priority; swapd runs itself for that too.
    #[arg(long, value_name = "DEVICE", hide = true, requires = "size")]
    swapon: Option<PathBuf>,
    /// A command to run while swapd serves; swapd exits with its status.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Through {
    /// The first way that this kernel grants.
    Any,
    /// A loop device over a file that swapd serves by FUSE.
    Fuse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    Fast,
    Slow,
}

fn parse_device(text: &str) -> Result<(Tier, Device), String> {
    let tier = |name| match name {
        "fast" => Some(Tier::Fast),
        "slow" => Some(Tier::Slow),
        _ => None,
    };
    let parts = text.split_once('=').and_then(|(name, device)| Some((tier(name)?, device)));
    let (tier, device) = parts.ok_or("expected fast=DEVICE or slow=DEVICE")?;
    Ok((tier, Device::resolve(device).map_err(|error| error.to_string())?))
}

fn by_tier(named: &[(Tier, Device)]) -> Result<TierDevices, Exit> {
    let mut devices = TierDevices::default();
    for (tier, device) in named {
        let place = match tier {
            Tier::Fast => &mut devices.fast,
            Tier::Slow => &mut devices.slow,
        };
        if place.replace(device.clone()).is_some() {
            return Err(Exit::Usage("a tier has two devices: name one for each".to_owned()));
        }
    }
    Ok(devices)
}

pub fn run(arguments: &Arguments) -> ExitOutcome {
    let root = Root::system();
    if let Some(device) = &arguments.swapoff {
        swap::off(device)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let (Some(device), Some(size)) = (&arguments.swapon, arguments.size) {
        area::enable(&root, device, size.0, arguments.priority)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (Some(size), Some(fast), Some(slow), Some(policy)) =
        (arguments.size, arguments.fast, &arguments.slow, &arguments.policy)
    else {
        let count = undo::left(&root)?;
        print(format_args!("{count} changes undone"))?;
        return Ok(ExitCode::SUCCESS);
    };
    // Both are fuse as long as it is the only carrier.
    let (Through::Any | Through::Fuse) = arguments.through;
    let plan = AreaPlan {
        slots: area::slots(size.0)?,
        fast_bytes: fast.0,
        slow: slow.clone(),
        policy: policy.clone(),
        options: arguments.option.iter().cloned().collect(),
        priority: arguments.priority,
        has_checksums: arguments.verify,
        may_be_alone: arguments.only_swap,
        moves: arguments.moves.clone(),
        record: arguments.record.clone(),
        emulated: by_tier(&arguments.emulate)?,
        weighed: by_tier(&arguments.devices)?,
    };
    let signal = listen()?;
    let session = Session::start(&root, &plan, enable)?;
    for note in &session.notes {
        say(format_args!("pagewise-agent: the kernel refuses {note}"));
    }
    if !arguments.json {
        print(format_args!(
            "serving {} MiB of swap at {} through {}: {} MiB in memory, the others at {}, policy {}",
            size.0 >> 20,
            session.device.display(),
            session.about.through,
            fast.0 >> 20,
            slow.display(),
            plan.policy
        ))?;
    }
    let (statistics, about) = (Arc::clone(&session.statistics), session.about.clone());
    let outcome = match start(arguments) {
        Ok(child) => attend(session, &signal, child),
        // The area is in use already.
        Err(error) => attend(session, &AtomicUsize::new(SIGTERM as usize), None).and(Err(error)),
    };
    if arguments.json {
        print(statistics.json(&about))?;
    } else {
        let (fast, slow) = (&statistics.fast, &statistics.slow);
        let devices = &plan.emulated;
        for (tier, counts, waits, device) in [
            ("fast", fast, &statistics.wait_fast, &devices.fast),
            ("slow", slow, &statistics.wait_slow, &devices.slow),
        ] {
            let (reads, writes) = (counts.reads.get(), counts.writes.get());
            let (times, wanted) = (times(waits), device.as_ref().map_or(String::new(), wanted));
            print(format_args!("{tier} tier: {reads} reads, {writes} writes{times}{wanted}"))?;
        }
        let (up, down) = (statistics.promotions.get(), statistics.demotions.get());
        print(format_args!("{up} promotions, {down} demotions"))?;
    }
    outcome
}

/// The number of the signal that asks swapd to end, or 0. There may be many: another signal must not end swapd
/// before its pages are back.
fn listen() -> Result<Arc<AtomicUsize>, Exit> {
    let signal = Arc::new(AtomicUsize::new(0));
    for number in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_usize(number, Arc::clone(&signal), number as usize)
            .map_err(interrupt::refused)?;
    }
    Ok(signal)
}

/// Starts the command, if there is one.
fn start(arguments: &Arguments) -> Result<Option<Child>, Exit> {
    let Some((program, rest)) = arguments.command.split_first() else { return Ok(None) };
    let mut command = Command::new(program);
    command.args(rest);
    if arguments.json {
        command.stdout(std::io::stderr());
    }
    let child = process::start_in_foreground(&mut command);
    child.map(Some).map_err(|error| Exit::of_command(program, &error))
}

/// Waits for the end of the session: a signal, or the end of the command, and then room for the pages.
fn attend(mut session: Session, signal: &AtomicUsize, mut child: Option<Child>) -> ExitOutcome {
    let mut status = None;
    let mut next_try = Instant::now();
    let mut missing = Missing::default();
    loop {
        let came = signal.swap(0, Relaxed);
        if let Some(running) = &mut child {
            // Ctrl-C also reaches the command. Another signal may have reached only swapd.
            if came != 0 && came != SIGINT as usize {
                process::terminate(running.id());
            }
            if let Ok(Some(ended)) = running.try_wait() {
                let code = ended.code().or(ended.signal().map(|signal| 128 + signal));
                status = Some(code.unwrap_or(0));
                child = None;
            }
        } else if came != 0 {
            status.get_or_insert(0);
            (missing, next_try) = (Missing::default(), Instant::now());
        }
        if session.has_failed() || (status.is_some() && Instant::now() >= next_try) {
            match session.end(disable) {
                Ok(()) => return Ok(ExitCode::from(status.unwrap_or(0) as u8)),
                Err((None, unended)) => return Err(Exit::Refused(reason(&unended))),
                Err((Some(same), unended)) => {
                    missing.say_once(&unended);
                    session = *same;
                    next_try = Instant::now() + TRY_EVERY;
                }
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Whether the user knows why swapd goes on.
#[derive(Default)]
struct Missing {
    is_known: bool,
}

impl Missing {
    fn say_once(&mut self, unended: &Unended) {
        if !self.is_known {
            let reason = reason(unended);
            say(format_args!("pagewise-agent: {reason}; swapd goes on serving and tries again"));
            self.is_known = true;
        }
    }
}

fn reason(unended: &Unended) -> String {
    match unended {
        Unended::Missing(bytes) => format!(
            "memory has no room for the pages in the swap area: {} MiB are missing",
            bytes.div_ceil(1 << 20)
        ),
        Unended::Refused(error) => error.to_string(),
    }
}

fn enable(device: &Path, bytes: u64, priority: i32) -> Result<(), swapd::Error> {
    let (size, priority) = (Bytes(bytes).exact(), priority.to_string());
    in_helper("swapon", device, &["--size", &size, "--priority", &priority])
}

fn disable(device: &Path) -> Result<(), swapd::Error> {
    in_helper("swapoff", device, &[])
}

/// Runs this program for a call that the process of the server must not make (see `swapd::area`).
fn in_helper(call: &str, device: &Path, more: &[&str]) -> Result<(), swapd::Error> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["swapd", &format!("--{call}")]).arg(device).args(more);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(swapd::Error::Refused(format!("{call} {}: {status}", device.display()))),
        Err(error) => Err(swapd::Error::Refused(format!("cannot run pagewise-agent: {error}"))),
    }
}

fn times(waits: &Histogram) -> String {
    match (waits.quantile_ns(0.5), waits.quantile_ns(0.99)) {
        (Some(half), Some(most)) => format!(
            "; a read took {:.1} us (median), {:.1} us (99 %)",
            half as f64 / 1e3,
            most as f64 / 1e3
        ),
        _ => String::new(),
    }
}

/// What a read of one page takes on an emulated device, beside what it took.
fn wanted(device: &Device) -> String {
    let read = Figures::of(device).read;
    let [half, most] = [0.5, 0.99].map(|share| read.quantile_ns(share) as f64 / 1e3);
    format!("; {} takes {half:.1} us (median), {most:.1} us (99 %)", device.name)
}

fn parse_option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("{text}: expected NAME=VALUE, such as window=64")),
    }
}
