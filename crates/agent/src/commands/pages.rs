//! `pagewise-agent pages`: how far the anonymous memory of processes compresses, and what that costs.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use linux::idle_pages::{BITMAP, IdleBits};
use linux::page_buffers::PageBuffers;
use linux::system::{Machine, processor_time};
use linux::zsmalloc::SizeClasses;
use linux::{Root, held_process, process};
use types::Bytes;

use crate::arguments::parse_time;
use crate::exit::{Exit, ExitOutcome, INTERRUPTED};
use crate::interrupt::Interrupt;
use crate::output::{print, say};
use crate::pages::{
    self, Codec, Drawn, Idle, NotSampled, Pool, ProcessPages, Report, Sampled, Sampler, Source,
    Subject,
};

/// Pages of each process that are sampled at least; all of a smaller one.
const PAGES_MIN: u64 = 64;
/// Bytes of the kernel's configuration that are read at most.
const CONFIG_BYTES_MAX: u64 = 4 << 20;
/// Descriptors that a process takes while its pages are watched, and those of the rest of this program.
const DESCRIPTORS_EACH: usize = 4;
const DESCRIPTORS_OTHER: usize = 64;
/// How often a wait looks for Ctrl-C.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Sample the anonymous memory of processes, and measure how zram would compress it.
#[derive(Args)]
#[command(override_usage = "pagewise-agent pages [OPTIONS] <--pid <PID>...|--all>")]
#[command(after_help = "\
pages reads a random sample of the pages and prints only sizes and times. Page
contents go nowhere but into zram devices of its own, which it removes at the
end, also if it is killed. Pages in swap are not read, and pages of files and
shared memory are left out.

Root may read all processes, and only root can add zram devices; without them,
lz4 and zstd are measured by libraries, and lzo-rle cannot be measured.

With --idle, pages marks the sampled pages as idle, waits, and shows the pages
that no process has accessed since separately. The kernel swaps out such pages
first. This needs root and a kernel with CONFIG_IDLE_PAGE_TRACKING.

Examples:
  pagewise-agent pages --all
  pagewise-agent pages --all --idle 1min
  pagewise-agent pages --all --json > pages.json
  pagewise-agent pages --pid 4711 --algorithms lz4,zstd")]
pub struct Arguments {
    #[command(flatten)]
    processes: Processes,
    /// The algorithms to measure; by default lz4, zstd, and lzo-rle if a zram device can be added.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse_algorithm)]
    algorithms: Vec<String>,
    /// Measure by the kernel (zram) or by libraries; by default, by the kernel where it has the algorithm.
    #[arg(long, value_name = "zram|library", value_parser = parse_source)]
    by: Option<Source>,
    /// Read at most about this much memory, shared out by the sizes of the processes, but 64 pages of each.
    #[arg(long, value_name = "SIZE", default_value = "32MiB")]
    bytes: Bytes,
    /// Take at most about this much CPU time.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_time)]
    cpu: Duration,
    /// Show the pages that no process accesses during this time separately.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    idle: Option<Duration>,
    /// Seed of the random choice of pages.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Add a zram device, print its number, and remove it at the end of standard input.
    #[arg(long, hide = true, exclusive = true)]
    hold_device: bool,
}

/// The processes to sample. Not `required`: the guard of a device names none.
#[derive(Args)]
#[group(multiple = false)]
struct Processes {
    /// Sample these processes.
    #[arg(long, value_name = "PID", num_args = 1.., value_delimiter = ',')]
    pid: Vec<u32>,
    /// Sample all processes that may be read.
    #[arg(long)]
    all: bool,
}

impl Processes {
    fn check(&self) -> Result<(), Exit> {
        match self.all || !self.pid.is_empty() {
            true => Ok(()),
            false => Err(Exit::Usage(
                "no processes to sample: use --pid PID, or --all for all that may be read"
                    .to_owned(),
            )),
        }
    }
}

fn parse_algorithm(text: &str) -> Result<String, String> {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    match !text.is_empty() && text.len() <= 32 && text.chars().all(is_letter) {
        true => Ok(text.to_owned()),
        false => Err("expected the name of an algorithm, such as lz4".to_owned()),
    }
}

fn parse_source(text: &str) -> Result<Source, String> {
    [Source::Zram, Source::Library]
        .into_iter()
        .find(|source| source.name() == text)
        .ok_or_else(|| "expected zram or library".to_owned())
}

pub fn run(arguments: &Arguments) -> ExitOutcome {
    let root = Root::system();
    if arguments.hold_device {
        pages::hold(&root)?;
        return Ok(ExitCode::SUCCESS);
    }
    arguments.processes.check()?;
    let bits = arguments.idle.map(|_| idle_bits(&root)).transpose()?;
    let interrupt = Interrupt::listen()?;
    let machine = Machine::this(&root)?;
    let page_bytes = machine.page_bytes as usize;
    let classes = SizeClasses::of_kernel(&root, &machine.kernel, page_bytes, unpacked)?;
    let subjects = subjects(&root, &arguments.processes)?;
    let mut codecs = codecs(&root, arguments, page_bytes)?;
    let processes = held_process::open_processes(&root)?;
    let draw = Draw::new(&processes, &subjects, arguments, page_bytes as u64);
    let is_interrupted = || interrupt.came();
    let (drawn, idle) = match (&bits, arguments.idle) {
        (Some(bits), Some(time)) => watch(bits, time, subjects, &draw, &is_interrupted),
        _ => {
            let none = subjects.into_iter().map(|subject| (subject, None)).collect();
            (none, Idle::Unknown(why_no_idle(&root)))
        }
    };
    let mut sampler =
        Sampler { codecs: &mut codecs, classes: &classes, is_interrupted: &is_interrupted };
    let mut buffers = PageBuffers::new(pages::BATCH, page_bytes)?;
    let sampled = sample(&mut sampler, drawn, &draw, arguments.cpu, &mut buffers)?;
    // The devices are removed before the report: a failed write must not leave any.
    drop(codecs);
    if sampled.processes.is_empty() && !interrupt.came() {
        return Err(nothing_sampled(&sampled.absent));
    }
    let pool = Pool { page_bytes: machine.page_bytes, classes: &classes };
    let zram = pages::kernel_zram(&root);
    let report = Report {
        kernel: &machine.kernel,
        memory_bytes: machine.memory_bytes,
        pool,
        seed: arguments.seed,
        cpu_s: processor_time().as_secs_f64(),
        idle: &idle,
        zram: &zram,
    };
    match arguments.json {
        true => print(report.json(&sampled))?,
        false => show(&sampled, &report)?,
    }
    Ok(if interrupt.came() { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// Why there is no sample at all.
fn nothing_sampled(absent: &[NotSampled]) -> Exit {
    if let Some(refused) = absent.iter().find(|each| each.is_refused) {
        let others = match absent.len() {
            1 => String::new(),
            count => format!("none of {count} processes was sampled, such as "),
        };
        return Exit::Refused(format!("{others}{refused}; root may read all, so try as root"));
    }
    match absent.first() {
        Some(first) => Exit::Refused(format!("no process was sampled: {first}")),
        None => Exit::Refused("no process has memory of its own to sample".to_owned()),
    }
}

/// The kernel's idle bits.
fn idle_bits(root: &Root) -> Result<IdleBits, Exit> {
    match root.exists(BITMAP) {
        true => Ok(IdleBits::open(root)?),
        false => Err(Exit::Refused(format!("--idle: {}; leave it out", why_no_idle(root)))),
    }
}

/// Why idle pages are not shown separately.
fn why_no_idle(root: &Root) -> String {
    match root.exists(BITMAP) {
        true => "--idle was not given".to_owned(),
        false => format!("the kernel does not track idle pages ({BITMAP} is missing)"),
    }
}

/// The text of the kernel's configuration, which is compressed by gzip.
fn unpacked(packed: &[u8]) -> Option<String> {
    let mut text = String::new();
    let decoder = flate2::read::GzDecoder::new(packed);
    decoder.take(CONFIG_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The processes to sample, the largest first.
fn subjects(root: &Root, processes: &Processes) -> Result<Vec<Subject>, Exit> {
    let numbers = if processes.all { process::all(root)? } else { processes.pid.clone() };
    let mut found = Vec::new();
    for pid in numbers {
        let state = process::state(root, pid);
        if !processes.all && state.is_none() {
            return Err(Exit::Usage(format!(
                "--pid {pid}: there is no such process, or it has no memory of its own"
            )));
        }
        let Some(state) = state.filter(|_| !processes.all || pid != std::process::id()) else {
            continue;
        };
        // Before Linux 4.5 the kernel does not report it.
        let anonymous = state.anonymous.unwrap_or(state.resident);
        found.push(Subject { pid, name: state.name, anonymous });
    }
    found.sort_by_key(|subject| (std::cmp::Reverse(subject.anonymous), subject.pid));
    found.dedup_by_key(|subject| subject.pid);
    Ok(found)
}

fn codecs(root: &Root, arguments: &Arguments, page_bytes: usize) -> Result<Vec<Codec>, Exit> {
    let new = |name: &str| Codec::new(root, name, pages::BATCH, page_bytes, arguments.by);
    if !arguments.algorithms.is_empty() {
        return arguments.algorithms.iter().map(|name| new(name)).collect();
    }
    let mut found = Vec::new();
    match new("lzo-rle") {
        Ok(codec) => found.push(codec),
        Err(error) => say(format_args!("lzo-rle is not measured: {error}")),
    }
    for name in ["lz4", "zstd"] {
        match new(name) {
            Ok(codec) => found.push(codec),
            Err(_) if arguments.by == Some(Source::Zram) => {
                say(format_args!("{name} is not measured: the kernel's zram does not have it"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// How many pages are drawn of each process.
struct Draw<'a> {
    processes: &'a OwnedFd,
    seed: u64,
    /// Pages to draw of all processes together.
    pages_max: u64,
    /// Anonymous bytes of all processes together.
    bytes: u64,
}

impl Draw<'_> {
    fn new<'a>(
        processes: &'a OwnedFd,
        subjects: &[Subject],
        arguments: &Arguments,
        page_bytes: u64,
    ) -> Draw<'a> {
        let bytes = subjects.iter().map(share_of).sum();
        Draw { processes, seed: arguments.seed, pages_max: arguments.bytes.0 / page_bytes, bytes }
    }

    /// Draws pages of a process.
    fn of(&self, subject: &Subject) -> Result<Drawn, NotSampled> {
        let own = u128::from(self.pages_max) * u128::from(share_of(subject));
        let wanted = (own / u128::from(self.bytes.max(1))) as u64;
        Drawn::new(self.processes, subject.clone(), wanted.max(PAGES_MIN) as usize, self.seed)
    }
}

/// The share of a process in what a sample may cost.
fn share_of(subject: &Subject) -> u64 {
    subject.anonymous.max(1)
}

/// A process, with its pages if they were drawn.
type Next = (Subject, Option<Result<Drawn, NotSampled>>);

/// Draws the pages of all processes, marks them as idle, and looks after a while which still are.
fn watch(
    bits: &IdleBits,
    time: Duration,
    subjects: Vec<Subject>,
    draw: &Draw<'_>,
    is_interrupted: &dyn Fn() -> bool,
) -> (Vec<Next>, Idle) {
    linux::process::raise_descriptors(subjects.len() * DESCRIPTORS_EACH + DESCRIPTORS_OTHER);
    let mut all: Vec<Next> = Vec::new();
    let mut pages_marked = 0;
    for subject in subjects {
        let drawn = (!is_interrupted()).then(|| draw.of(&subject));
        if let Some(Ok(drawn)) = &drawn {
            pages_marked += drawn.mark_idle(bits);
        }
        all.push((subject, drawn));
    }
    // The kernel hides frames from a program without CAP_SYS_ADMIN, also from root in some containers.
    if pages_marked == 0 {
        return (all, Idle::Unknown("no page could be marked as idle".to_owned()));
    }
    say(format_args!("waiting {:.0} s to see which pages stay idle", time.as_secs_f64()));
    let marked = Instant::now();
    while marked.elapsed() < time && !is_interrupted() {
        sleep(LOOK_EVERY.min(time.saturating_sub(marked.elapsed())));
    }
    let waited = marked.elapsed();
    for (_, drawn) in &mut all {
        if let Some(Ok(drawn)) = drawn {
            drawn.look_at_idle(bits);
        }
    }
    (all, Idle::For(waited))
}

/// Samples the processes one after the other. Each gets its share of what is left, so that a limit cuts all of them.
fn sample(
    sampler: &mut Sampler<'_>,
    all: Vec<Next>,
    draw: &Draw<'_>,
    cpu_max: Duration,
    buffers: &mut PageBuffers,
) -> Result<Sampled, Exit> {
    let mut left = draw.bytes;
    let mut sampled = Sampled { processes: Vec::new(), absent: Vec::new() };
    for (subject, drawn) in all {
        let own = share_of(&subject);
        let cpu_left = cpu_max.saturating_sub(processor_time());
        let share = own as f64 / left as f64;
        left = left.saturating_sub(own).max(1);
        if (sampler.is_interrupted)() || cpu_left.is_zero() {
            let why = if cpu_left.is_zero() { "the CPU limit was reached" } else { "interrupted" };
            sampled.absent.push(NotSampled::left_out(&subject, why));
            continue;
        }
        let found = match drawn.unwrap_or_else(|| draw.of(&subject)) {
            Ok(drawn) => sampler.sample(&drawn, cpu_left.mul_f64(share.min(1.0)), buffers)?,
            Err(absent) => Err(absent),
        };
        match found {
            Ok(found) => sampled.processes.push(found),
            Err(absent) => sampled.absent.push(absent),
        }
    }
    Ok(sampled)
}

fn processes_of(count: usize) -> String {
    match count {
        1 => "1 process".to_owned(),
        _ => format!("{count} processes"),
    }
}

/// A size in whole KiB or larger units.
fn whole_kib(bytes: f64) -> String {
    Bytes((bytes / 1024.0) as u64 * 1024).to_string()
}

/// Processes that the table of the terminal shows.
const SHOWN_MAX: usize = 20;

fn show(sampled: &Sampled, report: &Report<'_>) -> Result<(), Exit> {
    let Sampled { processes, absent } = sampled;
    let page_bytes = report.pool.page_bytes;
    let all = pages::total(processes);
    let size = |pages: f64| whole_kib(pages * page_bytes as f64);
    print(format_args!(
        "{:>8}  {:<16} {:>10} {:>10} {:>8} {:>7}{}",
        "pid",
        "process",
        "anonymous",
        "in swap",
        "sampled",
        "same",
        all.algorithms.iter().map(|(name, _)| format!(" {name:>10}")).collect::<String>()
    ))?;
    let row = |each: &ProcessPages| {
        let pid = if each.pid == 0 { String::new() } else { each.pid.to_string() };
        let same = each.same.map_or("-".to_owned(), |same| format!("{:.1} %", same.mean * 100.0));
        let pools = each.algorithms.iter().map(|(_, algorithm)| {
            let pool = each.pool_bytes(algorithm, report.pool.classes).map(whole_kib);
            format!(" {:>10}", pool.unwrap_or_else(|| "-".to_owned()))
        });
        print(format_args!(
            "{pid:>8}  {:<16} {:>10} {:>10} {:>8} {same:>7}{}",
            each.name.escape_debug().to_string(),
            size(each.resident as f64),
            size(each.swapped as f64),
            each.sampled,
            pools.collect::<String>()
        ))
    };
    processes.iter().take(SHOWN_MAX).try_for_each(row)?;
    if processes.len() > SHOWN_MAX {
        print(format_args!("          and {} smaller processes", processes.len() - SHOWN_MAX))?;
    }
    row(&all)?;
    print("")?;
    print("The last columns: memory that these pages would take in zram. Of pages that take any:")?;
    print(format_args!(
        "{:>10} {:>7} {:>16} {:>10} {:>11} {:>12} {:>14}  {}",
        "algorithm",
        "ratio",
        "bytes per page",
        "in pool",
        "kept whole",
        "us compress",
        "us decompress",
        "by"
    ))?;
    for (name, algorithm) in &all.algorithms {
        let (Some(bytes), Some(pool)) = (algorithm.bytes, algorithm.pool_bytes) else { continue };
        let mean = |estimate: Option<pages::Estimate>, factor: f64| {
            estimate.map_or(f64::NAN, |estimate| estimate.mean * factor)
        };
        print(format_args!(
            "{name:>10} {:>7.2} {:>16} {:>10.0} {:>9.1} % {:>12.1} {:>14.1}  {}",
            page_bytes as f64 / bytes.mean,
            written(bytes),
            pool.mean,
            mean(algorithm.incompressible, 100.0),
            mean(algorithm.compress_us, 1.0),
            mean(algorithm.decompress_us, 1.0),
            algorithm.source.name()
        ))?;
    }
    if !absent.is_empty() {
        let refused = absent.iter().find(|each| each.is_refused);
        let example = refused.unwrap_or(&absent[0]);
        let hint =
            refused.filter(|_| !linux::process::is_root()).map_or("", |_| "; root may read all");
        print(format_args!(
            "Not sampled: {}, such as {example}{hint}",
            processes_of(absent.len())
        ))?;
    }
    if !all.is_complete {
        print(
            "The sample is smaller than asked for: the CPU limit was reached, or it was interrupted.",
        )?;
    }
    match report.idle {
        Idle::For(time) => show_idle(&all, *time, page_bytes)?,
        Idle::Unknown(why) => print(format_args!("Idle pages are not shown separately: {why}."))?,
    }
    print(format_args!("{} read in {:.2} s of CPU time", size(all.sampled as f64), report.cpu_s))
}

/// The pages that no process accessed, as far as they were sampled.
fn show_idle(all: &ProcessPages, time: Duration, page_bytes: u64) -> Result<(), Exit> {
    let Some(idle) = &all.idle else { return Ok(()) };
    print("")?;
    print(format_args!(
        "{:.1} % of the pages were idle for {:.0} s. Of idle pages that take memory in zram:",
        idle.share.mean * 100.0,
        time.as_secs_f64(),
    ))?;
    print(format_args!(
        "{:>10} {:>7} {:>16} {:>10} {:>11}",
        "algorithm", "ratio", "bytes per page", "in pool", "kept whole"
    ))?;
    for (name, sizes) in &idle.algorithms {
        let (Some(bytes), Some(pool), Some(whole)) =
            (sizes.bytes, sizes.pool_bytes, sizes.incompressible)
        else {
            continue;
        };
        print(format_args!(
            "{name:>10} {:>7.2} {:>16} {:>10.0} {:>9.1} %",
            page_bytes as f64 / bytes.mean,
            written(bytes),
            pool.mean,
            whole.mean * 100.0
        ))?;
    }
    print("")
}

/// A mean of bytes and its error.
fn written(bytes: pages::Estimate) -> String {
    let error = bytes.error.map_or(String::new(), |error| format!(" +-{error:.0}"));
    format!("{:.0}{error}", bytes.mean)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn subject(pid: u32, name: &str) -> Subject {
        Subject { pid, name: name.to_owned(), anonymous: 4096 }
    }

    fn refused(pid: u32, name: &str) -> NotSampled {
        let error = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        NotSampled::failed(&subject(pid, name), "cannot be opened", &error)
    }

    fn status_and_words(exit: &Exit) -> (ExitCode, String) {
        (exit.status(), exit.to_string())
    }

    #[test]
    fn no_readable_process_is_an_error_that_names_root() {
        let left_out = NotSampled::left_out(&subject(1, "init"), "the CPU limit was reached");
        let (status, words) =
            status_and_words(&nothing_sampled(&[left_out, refused(7, ") Z (\n")]));
        assert_eq!(status, ExitCode::from(3));
        assert!(words.contains("none of 2 processes was sampled, such as process 7 () Z (\\n): "));
        assert!(words.ends_with("; root may read all, so try as root"), "{words}");
        let (_, words) = status_and_words(&nothing_sampled(&[refused(7, "sh")]));
        assert!(words.starts_with("process 7 (sh): cannot be opened: "), "{words}");
    }

    #[test]
    fn a_reached_limit_does_not_ask_for_root() {
        let left_out = NotSampled::left_out(&subject(1, "init"), "the CPU limit was reached");
        let (_, words) = status_and_words(&nothing_sampled(&[left_out]));
        assert_eq!(words, "no process was sampled: process 1 (init): the CPU limit was reached");
    }

    #[test]
    fn without_processes_the_error_names_both_options() {
        let parsed = |words: &[&str]| {
            Command::try_parse_from(["pages"].iter().chain(words)).map(|found| found.arguments)
        };
        let Ok(none) = parsed(&[]) else { panic!("refused by the parser") };
        let (status, words) = status_and_words(&none.processes.check().unwrap_err());
        assert_eq!(status, ExitCode::from(2));
        assert!(words.contains("--pid PID") && words.contains("--all"), "{words}");
        assert!(parsed(&["--all", "--pid=1"]).is_err());
        assert!(parsed(&["--all", "--hold-device"]).is_err());
        assert!(parsed(&["--hold-device"]).is_ok_and(|found| found.hold_device));
        let Ok(many) = parsed(&["--pid", "1,2", "3"]) else { panic!("refused") };
        assert!(many.processes.check().is_ok());
        assert_eq!(many.processes.pid, [1, 2, 3]);
    }
}
