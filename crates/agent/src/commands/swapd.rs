//! `pagewise-agent swapd`: serves a swap area of two tiers to the kernel.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use daemon::Notify;
use daemon::settings::socket_path;
use daemon::sockets::{Answer, Answering, Listener, Sockets, listener_at, taken};
use devices::Device;
use linux::system::Machine;
use linux::{Root, process, swap};
use policy::tiers::Area;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use swapd::carrier::SLOT_BYTES;
use swapd::carrier::granted::CarrierKind;
use swapd::emulation::Figures;
use swapd::guard::{self, Guard, Task};
use swapd::handover::Handover;
use swapd::session::{AreaPlan, Session, TierDevices, Unended};
use swapd::statistics::{Count, Histogram, Serving, Statistics, Wanted};
use swapd::store::{self, Algorithm};
use swapd::zram::Take;
use swapd::{area, protection, undo, zram};
use types::Bytes;

use crate::arguments::parse_time;
use crate::exit::{Exit, ExitOutcome};
use crate::interrupt;
use crate::output::{print, say};

/// How often swapd looks for signals and for the end of its command.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often swapd looks for signals if it runs no command: an idle machine should stay idle.
const LOOK_FOR_SIGNALS_EVERY: Duration = Duration::from_millis(250);
/// How often swapd tries again to disable the area when memory had no room for its pages.
const TRY_EVERY: Duration = Duration::from_secs(1);

/// What swapd does instead of serving.
const HELPERS: [&str; 5] = ["undo", "swapoff", "swapon", "show", "check_unused"];
/// What makes the options of a swap area superfluous.
const NO_SWAP_AREA: [&str; 6] = ["serve", "undo", "swapoff", "swapon", "show", "check_unused"];
/// The policy of a served device by default, and its options.
const POLICY_OF_DEVICE: (&str, [(&str, &str); 2]) =
    ("nvm-cache", [("admit_at", "fault"), ("ghost", "4")]);

/// Serve a swap area of two tiers: a policy keeps some pages in locked memory, or on a fast device, and the others on
/// a disk. With --serve, serve a disk through a fast tier instead.
#[derive(Args)]
#[command(after_help = "\
The area is in use until swapd gets SIGINT, SIGTERM or SIGHUP, or until COMMAND exits. Then swapd disables the area \
and leaves nothing behind; while memory has no room for the pages, it goes on serving and tries again. If swapd is \
killed by SIGKILL, its guard takes over (through fuse since Linux 6.9); if both are killed, the pages in its area are \
lost: programs that need them get SIGBUS. Through zram, the kernel keeps all pages whatever ends. Needs root.

With --serve, swapd makes a block device with the content of DEVICE and prints its path; mount it in place of DEVICE. \
Every write goes to DEVICE before it is acknowledged, so none is lost however swapd ends. swapd ends only when nothing uses \
its device.

Examples:
  pagewise-agent swapd --size 3GiB --fast 256MiB --slow /var/lib/swapd \\
      --policy adaptive
  pagewise-agent swapd --size 1GiB --fast 64MiB --slow swap.tmp \\
      --policy hierarchical -- make -j4
  pagewise-agent swapd --size 8GiB --fast 1GiB --fast-on /dev/nvme0n1p3 \\
      --slow /dev/sda2 --policy adaptive
  pagewise-agent swapd --size 3GiB --fast 512MiB --slow /var/lib/swapd \\
      --through zram --policy hierarchical --option fill_on_read_miss=no
  pagewise-agent swapd --serve /dev/sdb1 --fast 128MiB
  pagewise-agent swapd --undo")]
pub struct Arguments {
    /// The size of the swap area, such as 3GiB.
    #[arg(long, value_name = "SIZE", required_unless_present_any = NO_SWAP_AREA)]
    size: Option<Bytes>,
    /// The size of the fast tier, which is locked memory unless --fast-on names a place for it.
    #[arg(long, value_name = "SIZE", required_unless_present_any = HELPERS)]
    fast: Option<Bytes>,
    /// The fast tier on a disk: a block device, which is overwritten, or a path where swapd makes a file that it unlinks
    /// at once; 1 MiB larger than --fast.
    #[arg(long, value_name = "PATH")]
    fast_on: Option<PathBuf>,
    /// Compress the pages of a fast tier in memory, so that --fast holds more of them: lz4 is quicker, zstd smaller.
    #[arg(long, value_name = "ALGORITHM", value_parser = parse_algorithm)]
    compress: Option<Algorithm>,
    /// The slow tier: a block device, which is overwritten, or a path where swapd makes a file of --size, which it
    /// unlinks at once.
    #[arg(long, value_name = "PATH", required_unless_present_any = NO_SWAP_AREA)]
    slow: Option<PathBuf>,
    /// Serve the content of this block device, or of a file in its place, through the fast tier instead of a swap area.
    /// It must not be mounted or in use; nothing is formatted.
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["size", "slow", "priority", "encrypt", "only_swap", "record", "moves"])]
    serve: Option<PathBuf>,
    /// The policy: an architecture of `pagewise list architectures`, except clairvoyant. With --serve, the default is
    /// nvm-cache with admit_at=fault and ghost=4: a block enters the fast tier at its second read.
    #[arg(long, value_name = "NAME", required_unless_present_any = NO_SWAP_AREA)]
    policy: Option<String>,
    /// An option of the policy; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_option)]
    option: Vec<(String, String)>,
    /// How the kernel reaches the server.
    #[arg(long, value_enum, default_value = "any")]
    through: Through,
    /// How long to poll for another request after each one before sleeping, such as 100us; 0us sleeps at once. Waking
    /// a sleeping processor takes longer than most answers.
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = parse_poll)]
    poll: Duration,
    /// The priority of the area: the kernel fills areas of higher priority first.
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(i32).range(0..=32767))]
    priority: i32,
    /// Keep a checksum of each page, and fail a read rather than return other data.
    #[arg(long)]
    verify: bool,
    /// Encrypt what lies on disks (AES-256-XTS) with a key that exists only in locked memory.
    #[arg(long)]
    encrypt: bool,
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
    /// of `pagewise devices`, or READ/WRITE such as 90/40us.
    #[arg(long, value_name = "TIER=DEVICE", value_delimiter = ',', value_parser = parse_device)]
    emulate: Vec<NamedDevice>,
    /// The devices whose latencies the policy weighs, also as FASTDEVICE,SLOWDEVICE. Default: those emulated; otherwise
    /// swapd measures a disk at the start, and assumes 1us for a fast tier in memory, more with --compress.
    #[arg(long, value_name = "TIER=DEVICE", value_delimiter = ',', value_parser = parse_device)]
    devices: Vec<NamedDevice>,
    /// Answer with the counts so far, as one JSON object, at this socket.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Answer with the counts so far, as OpenMetrics, at this socket.
    #[arg(long, value_name = "PATH")]
    metrics: Option<PathBuf>,
    /// Print one JSON object at the end; COMMAND then writes to standard error.
    #[arg(long)]
    json: bool,
    /// Undo what a killed swapd left: its swap area and its device.
    #[arg(long, conflicts_with_all = ["size", "fast", "fast_on", "compress", "slow", "serve", "policy", "option", "moves", "record", "emulate", "devices", "socket", "metrics", "json", "command"])]
    undo: bool,
    /// Disable this area; swapd runs itself for that, since its own process must not wait for the area.
    #[arg(long, value_name = "DEVICE", hide = true)]
    swapoff: Option<PathBuf>,
    /// Format and enable this area of --size with --priority; swapd runs itself for that too.
    #[arg(long, value_name = "DEVICE", hide = true, requires = "size")]
    swapon: Option<PathBuf>,
    /// Show this served device to programs; swapd runs itself for that too.
    #[arg(long, value_name = "DEVICE", hide = true)]
    show: Option<PathBuf>,
    /// Make sure that nothing uses this served device; swapd runs itself for that too.
    #[arg(long, value_name = "DEVICE", hide = true)]
    check_unused: Option<PathBuf>,
    /// Wait for the end of the swapd that started this process, and go on as its successor if it was killed.
    #[arg(long, value_name = "HANDOVER", hide = true, value_parser = Handover::parse)]
    guard: Option<Handover>,
    /// A command to run while swapd serves; swapd exits with its status.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Through {
    /// The first way that this kernel grants: ublk, then fuse, then nbd; nbd before fuse on Linux before 6.9.
    Any,
    /// A block device whose requests come through io_uring (ublk).
    Ublk,
    /// A network block device (NBD) whose socket ends in swapd.
    Nbd,
    /// A loop device over a file that swapd serves by FUSE.
    Fuse,
    /// A zram device: the kernel holds the pages compressed in memory, and swapd chooses which ones it writes to the slow
    /// tier (Linux 6.3, CONFIG_ZRAM_WRITEBACK).
    Zram,
}

impl Through {
    fn kinds(self, root: &Root) -> Result<Vec<CarrierKind>, linux::Error> {
        Ok(match self {
            Through::Any => CarrierKind::preferred(&Machine::this(root)?.kernel).to_vec(),
            Through::Ublk => vec![CarrierKind::Ublk],
            Through::Nbd => vec![CarrierKind::Nbd],
            Through::Fuse => vec![CarrierKind::Fuse],
            // No carrier brings requests to swapd.
            Through::Zram => Vec::new(),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    Fast,
    Slow,
}

/// A device of `--devices` or `--emulate`.
#[derive(Clone)]
struct NamedDevice {
    /// Without one, the fast tier's device comes first and the slow tier's second.
    tier: Option<Tier>,
    device: Device,
}

fn parse_device(text: &str) -> Result<NamedDevice, String> {
    let (tier, device) = match text.split_once('=') {
        None => (None, text),
        Some(("fast", device)) => (Some(Tier::Fast), device),
        Some(("slow", device)) => (Some(Tier::Slow), device),
        Some(_) => return Err("expected fast=DEVICE or slow=DEVICE".to_owned()),
    };
    Ok(NamedDevice { tier, device: Device::resolve(device).map_err(|error| error.to_string())? })
}

fn by_tier(named: &[NamedDevice]) -> Result<TierDevices, Exit> {
    let usage = |text: &str| Err(Exit::Usage(text.to_owned()));
    if named.iter().any(|each| each.tier.is_none()) {
        return match named {
            [
                NamedDevice { tier: None, device: fast },
                NamedDevice { tier: None, device: slow },
            ] => Ok(TierDevices { fast: Some(fast.clone()), slow: Some(slow.clone()) }),
            _ => usage(
                "expected fast=DEVICE, slow=DEVICE, or two devices, that of the fast tier first",
            ),
        };
    }
    let mut devices = TierDevices::default();
    for NamedDevice { tier, device } in named {
        let place = if *tier == Some(Tier::Fast) { &mut devices.fast } else { &mut devices.slow };
        if place.replace(device.clone()).is_some() {
            return usage("a tier has two devices: name one for each");
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
        let (server, emulated) = (linux::process::parent(), by_tier(&arguments.emulate)?);
        let mut time = None;
        let check = || {
            time = carrier_time(device, size.0, &emulated)?;
            Ok(())
        };
        area::enable(&root, device, size.0, arguments.priority, server, check)?;
        if let Some(time) = time {
            print(format_args!("{}", time.as_nanos()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(device) = &arguments.show {
        area::show(device, linux::process::parent())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(device) = &arguments.check_unused {
        area::check_unused(&root, device)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(plan) = plan(arguments, &root)? else {
        let count = undo::left(&root)?;
        print(format_args!("{count} changes undone"))?;
        return Ok(ExitCode::SUCCESS);
    };
    if let Some(handover) = &arguments.guard {
        return succeed(&root, arguments, &plan, handover);
    }
    for path in arguments.socket.iter().chain(&arguments.metrics) {
        let path = socket_path(path.clone()).map_err(Exit::Usage)?;
        if listener_at(&path, &[])? != Listener::None {
            return Err(taken(&path).into());
        }
    }
    let signal = listen()?;
    let mut session = match arguments.through {
        Through::Zram => zram::start(&root, &plan, follow)?,
        _ => Session::start(&root, &plan, &start_guard, enable)?,
    };
    for note in &session.about.refused {
        say(format_args!("pagewise-agent: the kernel refuses {note}"));
    }
    let started = start(arguments);
    tell_guard(&mut session, &started);
    let fast_place = match (&plan.fast_on, &session.about.compress) {
        (Some(path), _) => format!("at {}", path.display()),
        (None, None) => "in memory".to_owned(),
        (None, Some(algorithm)) => format!("in memory, compressed by {algorithm}"),
    };
    let about = &session.about;
    let (what, others) = match plan.area {
        Area::Device => (format!("{}", plan.slow.display()), "all of it"),
        Area::Swap | Area::Zram => {
            (format!("{} MiB of swap", about.size_bytes >> 20), "the others")
        }
    };
    let line = format!(
        "serving {what} at {} through {}: {} MiB {}, {others} at {}, policy {}",
        session.device.display(),
        about.through,
        about.fast_bytes >> 20,
        fast_place,
        plan.slow.display(),
        plan.policy
    );
    // The path of a served device is nowhere else.
    let line = match (arguments.json, plan.area) {
        (false, _) => Some(line),
        (true, Area::Device) => {
            say(format_args!("{line}"));
            None
        }
        (true, _) => None,
    };
    serve(arguments, &plan, session, &signal, started, line)
}

/// What to serve; none if the arguments ask for nothing.
fn plan(arguments: &Arguments, root: &Root) -> Result<Option<AreaPlan>, Exit> {
    let Some(fast) = arguments.fast else { return Ok(None) };
    let (area, slow, slots) = match (&arguments.serve, arguments.size, &arguments.slow) {
        (Some(_), ..) if matches!(arguments.through, Through::Zram) => {
            let what = "--through zram cannot do --serve: zram holds pages of swap; choose ublk, nbd or fuse";
            return Err(Exit::Usage(what.to_owned()));
        }
        (Some(device), ..) => (Area::Device, device, store::content_slots(device)?),
        (None, Some(size), Some(slow)) => {
            let is_zram = matches!(arguments.through, Through::Zram);
            (if is_zram { Area::Zram } else { Area::Swap }, slow, area::slots(size.0)?)
        }
        _ => return Ok(None),
    };
    let mut options: BTreeMap<String, String> = arguments.option.iter().cloned().collect();
    let policy = arguments.policy.clone().unwrap_or_else(|| {
        let (name, defaults) = POLICY_OF_DEVICE;
        for (option, value) in defaults {
            options.entry(option.to_owned()).or_insert_with(|| value.to_owned());
        }
        name.to_owned()
    });
    Ok(Some(AreaPlan {
        area,
        slots,
        fast_bytes: fast.0,
        fast_on: arguments.fast_on.clone(),
        compress: arguments.compress,
        slow: slow.clone(),
        policy,
        options,
        priority: arguments.priority,
        has_checksums: arguments.verify,
        is_encrypted: arguments.encrypt,
        through: arguments.through.kinds(root)?,
        poll: arguments.poll,
        may_be_alone: arguments.only_swap,
        moves: arguments.moves.clone(),
        record: arguments.record.clone(),
        emulated: by_tier(&arguments.emulate)?,
        weighed: by_tier(&arguments.devices)?,
    }))
}

/// Waits as the guard of another swapd, and goes on in its place if it was killed.
fn succeed(
    root: &Root,
    arguments: &Arguments,
    plan: &AreaPlan,
    handover: &Handover,
) -> ExitOutcome {
    // Signals of a service manager also reach the guard. They end it once it serves.
    let signal = listen()?;
    // Its own pages must not lie in the area.
    protection::of_process(root);
    // The server's lock ends with it.
    let kept = handover.keep_frames();
    if let Err(error) = &kept {
        say(format_args!("pagewise-agent: the guard of swapd cannot lock the fast tier: {error}"));
    }
    let Task::TakeOver(command) = guard::wait()? else { return Ok(ExitCode::SUCCESS) };
    let begun = Instant::now();
    let mut session = Session::take_over(root, plan, handover, &start_guard)?;
    drop(kept);
    say(format_args!(
        "pagewise-agent: swapd was killed; process {} serves {} since {} ms",
        std::process::id(),
        session.device.display(),
        begun.elapsed().as_millis()
    ));
    let running = command.map(|(process, start)| Running::OfPredecessor { process, start });
    let started = Ok(running);
    tell_guard(&mut session, &started);
    serve(arguments, plan, session, &signal, started, None)
}

/// Starts the guard: this program with the same arguments, and no files that cannot go on.
fn start_guard(handover: &Handover) -> Result<Guard, swapd::Error> {
    const LEFT_OUT: [&str; 3] = ["--record", "--moves", "--guard"];
    let mut command = Command::new("/proc/self/exe");
    let mut words = std::env::args_os().skip(1).take_while(|word| word != "--");
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        let name = text.split('=').next().unwrap_or_default();
        match LEFT_OUT.contains(&name) {
            true if !text.contains('=') => drop(words.next()),
            true => {}
            false => drop(command.arg(&word)),
        }
    }
    Guard::start(command.arg("--guard").arg(handover.text()))
}

/// Tells the guard which command this process waits for.
fn tell_guard(session: &mut Session, started: &Result<Option<Running>, Exit>) {
    if let Ok(Some(running)) = started
        && let Some(start) = process::beginning(&Root::system(), running.id())
    {
        session.say_command(running.id(), start);
    }
}

/// Opens the sockets, prints `line`, serves until a signal or the end of the command, and prints what was served.
fn serve(
    arguments: &Arguments,
    plan: &AreaPlan,
    session: Session,
    signal: &AtomicUsize,
    started: Result<Option<Running>, Exit>,
    line: Option<String>,
) -> ExitOutcome {
    let (statistics, about) = (Arc::clone(&session.statistics), session.about.clone());
    let sockets = Sockets::start(answering(arguments, &statistics, &about), |what| {
        say(format_args!("pagewise-agent: swapd runs without {what}"));
    });
    let started = sockets.map_err(Exit::from).and_then(|sockets| Ok((sockets, started?)));
    Notify::from_environment().send("READY=1");
    let printed = line.map_or(Ok(()), |line| print(format_args!("{line}")));
    // The area is in use already, so it does not end with an error alone.
    let end_now = AtomicUsize::new(SIGTERM as usize);
    let outcome = match (started, printed) {
        (Ok((_sockets, running)), Ok(())) => attend(session, plan, signal, running),
        (Ok((_sockets, running)), Err(error)) => {
            attend(session, plan, &end_now, running).and(Err(error))
        }
        (Err(error), _) => attend(session, plan, &end_now, None).and(Err(error)),
    };
    if arguments.json {
        print(statistics.json(&about))?;
    } else {
        let (fast, slow) = (&statistics.fast, &statistics.slow);
        let carrier_us = statistics.carrier_us().unwrap_or_default();
        let waits = [("fast", fast, &statistics.wait_fast), ("slow", slow, &statistics.wait_slow)];
        for (tier, counts, waits) in waits {
            let (reads, writes) = (counts.reads.get(), counts.writes.get());
            let (wanted, carrier_us) = match about.emulated.get(tier) {
                Some(device) => (wanted(device), carrier_us),
                None => (String::new(), 0.0),
            };
            let times = times(waits, carrier_us);
            print(format_args!("{tier} tier: {reads} reads, {writes} writes{times}{wanted}"))?;
        }
        let (up, down) = (statistics.promotions.get(), statistics.demotions.get());
        print(format_args!("{up} promotions, {down} demotions"))?;
        if about.compress.is_some() {
            print(compressed(&statistics))?;
        }
    }
    outcome
}

/// The sockets of the arguments, and what they answer.
fn answering(
    arguments: &Arguments,
    statistics: &Arc<Statistics>,
    about: &Serving,
) -> Vec<Answering> {
    let of = |text: fn(&Statistics, &Serving) -> String| {
        let (statistics, about) = (Arc::clone(statistics), about.clone());
        let answer: Answer = Arc::new(move |answer: &mut String| {
            answer.push_str(&text(&statistics, &about));
            Ok(())
        });
        answer
    };
    let json = of(|statistics, about| statistics.json(about) + "\n");
    let json = arguments.socket.as_ref().map(|path| Answering::json(path, json));
    let metrics = of(Statistics::open_metrics);
    let metrics = arguments.metrics.as_ref().map(|path| Answering::open_metrics(path, metrics));
    json.into_iter().chain(metrics).collect()
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

/// The command.
enum Running {
    /// This process started it.
    Own(Child),
    /// A server that was killed started it.
    OfPredecessor {
        /// Process id of the command.
        process: u32,
        /// Start of the command, by which it differs from later processes with the same id.
        start: u64,
    },
}

impl Running {
    fn id(&self) -> u32 {
        match self {
            Running::Own(child) => child.id(),
            Running::OfPredecessor { process, .. } => *process,
        }
    }

    /// The exit status of a shell for it, once it has ended; that of a predecessor's command is not known.
    fn ended(&mut self) -> Option<i32> {
        match self {
            Running::Own(child) => {
                let ended = child.try_wait().ok()??;
                Some(ended.code().or(ended.signal().map(|signal| 128 + signal)).unwrap_or(0))
            }
            Running::OfPredecessor { process, start } => {
                let is_there = process::beginning(&Root::system(), *process) == Some(*start);
                (!is_there).then_some(0)
            }
        }
    }
}

/// Starts the command, if there is one.
fn start(arguments: &Arguments) -> Result<Option<Running>, Exit> {
    let Some((program, rest)) = arguments.command.split_first() else { return Ok(None) };
    let mut command = Command::new(program);
    command.args(rest);
    if arguments.json {
        command.stdout(std::io::stderr());
    }
    let child = process::start_in_foreground(&mut command);
    let child = child.map_err(|error| Exit::of_command(program, &error))?;
    Ok(Some(Running::Own(child)))
}

/// Waits for the end of the session: a signal, or the end of the command, and then room for the pages.
fn attend(
    mut session: Session,
    plan: &AreaPlan,
    signal: &AtomicUsize,
    mut running: Option<Running>,
) -> ExitOutcome {
    let mut status = None;
    let mut next_try = Instant::now();
    let mut missing = Missing::default();
    loop {
        let came = signal.swap(0, Relaxed);
        if let Some(command) = &mut running {
            // Ctrl-C also reaches the command. Another signal may have reached only swapd.
            if came != 0 && came != SIGINT as usize {
                process::terminate(command.id());
            }
            if let Some(code) = command.ended() {
                (status, running) = (Some(code), None);
            }
        } else if came != 0 {
            status.get_or_insert(0);
            (missing, next_try) = (Missing::default(), Instant::now());
        }
        if session.has_failed() || (status.is_some() && Instant::now() >= next_try) {
            match session.end(|device| disable(device, plan.area)) {
                Ok(()) => return Ok(ExitCode::from(status.unwrap_or(0) as u8)),
                Err((None, unended)) => return Err(Exit::Refused(reason(&unended))),
                Err((Some(same), unended)) => {
                    missing.say_once(&unended);
                    session = *same;
                    next_try = Instant::now() + TRY_EVERY;
                }
            }
        }
        std::thread::sleep(if running.is_some() { LOOK_EVERY } else { LOOK_FOR_SIGNALS_EVERY });
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

/// Enables the area of a plan, or shows its device. Returns the time through the carrier, which was measured if a tier
/// is emulated.
fn enable(device: &Path, plan: &AreaPlan) -> Result<Option<Duration>, swapd::Error> {
    if plan.area == Area::Device {
        return in_helper("show", device, &[]).map(|_| None);
    }
    let bytes = u64::from(plan.slots) * SLOT_BYTES as u64;
    let (size, priority) = (Bytes(bytes).exact(), plan.priority.to_string());
    let devices = [("fast", &plan.emulated.fast), ("slow", &plan.emulated.slow)];
    let devices = devices.map(|(tier, device)| Some(format!("{tier}={}", device.as_ref()?.name)));
    let mut more = vec!["--size", &size, "--priority", &priority];
    more.extend(devices.iter().flatten().flat_map(|device| ["--emulate", device]));
    let printed = in_helper("swapon", device, &more)?;
    Ok(printed.trim().parse().ok().map(Duration::from_nanos))
}

/// The time through the carrier and back, which is measured if there are devices. One that is quicker is refused.
fn carrier_time(
    device: &Path,
    bytes: u64,
    emulated: &TierDevices,
) -> Result<Option<Duration>, swapd::Error> {
    let mut devices = [&emulated.fast, &emulated.slow].into_iter().flatten().peekable();
    if devices.peek().is_none() {
        return Ok(None);
    }
    let time = area::carrier_time(device, bytes)?;
    let time_ns = time.as_nanos() as u64;
    for device in devices {
        Figures::of(device).check("the way from a program to swapd and back", time_ns, time_ns)?;
    }
    Ok(Some(time))
}

/// Disables a swap area; makes sure that a served device is not in use.
fn disable(device: &Path, area: Area) -> Result<(), swapd::Error> {
    let call = match area {
        Area::Device => "check-unused",
        Area::Swap | Area::Zram => "swapoff",
    };
    in_helper(call, device, &[]).map(drop)
}

/// Follows the transfers of a zram device.
fn follow(device: u32, take: &mut Take<'_>) -> Result<(), swapd::Error> {
    recorder::follow(device, take).map_err(|error| {
        swapd::Error::Refused(format!(
            "the kernel refuses the events of swap, without which no page can be demoted: {error}; pagewise-agent \
             doctor shows what `record` needs"
        ))
    })
}

/// Runs this program for a call that the process of the server must not make (see `swapd::area`). Returns what it
/// prints.
fn in_helper(call: &str, device: &Path, more: &[&str]) -> Result<String, swapd::Error> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["swapd", &format!("--{call}")]).arg(device).args(more);
    match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            let reason = text.trim().strip_prefix("pagewise-agent: ").unwrap_or(text.trim());
            Err(swapd::Error::Refused(match reason {
                "" => format!("{call} {}: {}", device.display(), output.status),
                reason => reason.to_owned(),
            }))
        }
        Err(error) => Err(swapd::Error::Refused(format!("cannot run pagewise-agent: {error}"))),
    }
}

/// What a compressed fast tier holds.
fn compressed(statistics: &Statistics) -> String {
    let counts = &statistics.compressed;
    let (pages, bytes) = (counts.pages.get(), counts.bytes.get());
    let [filled, raw, refused] =
        [&counts.filled_pages, &counts.raw_pages, &counts.refused_pages].map(Count::get);
    format!(
        "fast tier: {pages} pages ({:.1} MiB) in {:.1} MiB, {filled} of one repeated word, {raw} not \
         compressible; {refused} found no room",
        (pages * SLOT_BYTES as u64) as f64 / (1 << 20) as f64,
        bytes as f64 / (1 << 20) as f64
    )
}

/// The times of reads, with what the way through the carrier takes if that was measured.
fn times(waits: &Histogram, carrier_us: f64) -> String {
    let time = |share| Some(waits.quantile_ns(share)? as f64 / 1e3 + carrier_us);
    match (time(0.5), time(0.99)) {
        (Some(half), Some(most)) => {
            let through = match carrier_us {
                0.0 => String::new(),
                _ => format!(", with {carrier_us:.1} us through the carrier"),
            };
            format!("; a read took {half:.1} us (median), {most:.1} us (99 %){through}")
        }
        _ => String::new(),
    }
}

/// The times that a read of one page should take on an emulated device.
fn wanted(device: &Wanted) -> String {
    let Wanted { device, p50, p99, .. } = device;
    format!("; {device} takes {p50:.1} us (median), {p99:.1} us (99 %)")
}

/// A time to poll: as any other time, or in microseconds.
fn parse_poll(text: &str) -> Result<Duration, String> {
    const POLL_MAX: Duration = Duration::from_secs(1);
    let expected = || format!("{text}: expected a time up to 1s, such as 100us or 0us");
    let micros = text.strip_suffix("us").and_then(|number| number.parse().ok());
    let poll = match micros {
        Some(micros) => Duration::from_micros(micros),
        None => parse_time(text).map_err(|_| expected())?,
    };
    if poll <= POLL_MAX { Ok(poll) } else { Err(expected()) }
}

fn parse_algorithm(text: &str) -> Result<Algorithm, String> {
    let found = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == text);
    found.ok_or_else(|| "expected lz4 or zstd".to_owned())
}

fn parse_option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("{text}: expected NAME=VALUE, such as window=64")),
    }
}
