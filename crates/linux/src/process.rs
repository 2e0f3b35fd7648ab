//! Processes: reads `/proc`, starts them inside cgroups, and ends them.
#![allow(unsafe_code, reason = "a child joins its cgroups between fork and exec")]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::kernel_file::bytes;
use crate::stat::Stat;
use crate::{Error, Root, kernel_file, membership, passed_on};

/// The PIDs of all processes, in order.
///
/// # Errors
/// The operating system refuses.
pub fn all(root: &Root) -> Result<Vec<u32>, Error> {
    Ok(numbers_among(&root.list("/proc")?))
}

fn numbers_among(names: &[String]) -> Vec<u32> {
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// The command name of a process, at most 15 bytes; None once it has ended.
pub fn name(root: &Root, process: u32) -> Option<String> {
    // A process may end after it was listed; then its file cannot be read.
    let text = root.read(format!("/proc/{process}/comm")).ok()??;
    Some(text.trim_end_matches('\n').to_owned())
}

/// The state of a process at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessState {
    /// The name of the process, at most 15 bytes.
    pub name: String,
    /// The start time of the process, in clock ticks since boot.
    pub start: u64,
    /// The PID of its parent.
    pub parent: u32,
    /// The ID of its process group.
    pub process_group: u32,
    /// `oom_score_adj`.
    pub adj: i16,
    /// Bytes in memory.
    pub resident: u64,
    /// Bytes in swap.
    pub swapped: u64,
    /// Bytes of anonymous memory; None if the kernel does not report it.
    pub anonymous: Option<u64>,
    /// CPU time of all its threads so far, in clock ticks.
    pub ticks: u64,
    /// The part of its CPU time in user mode, in clock ticks.
    pub user_ticks: u64,
    /// Pages read from storage so far.
    pub major_faults: u64,
}

/// Fields of `/proc/PID/stat` (proc_pid_stat(5)).
const PARENT: usize = 4;
const PROCESS_GROUP: usize = 5;
const MAJOR_FAULTS: usize = 12;

/// The most descendants that are searched.
const DESCENDANTS_MAX: usize = 4096;

/// Reads the state of a process; None if it has ended, or has no address space, such as kernel threads.
pub fn state(root: &Root, process: u32) -> Option<ProcessState> {
    let file = |name: &str| root.read(format!("/proc/{process}/{name}")).ok().flatten();
    let stat = file("stat")?;
    let stat = Stat::parse(stat.as_bytes())?;
    let status = root.read(format!("{}/status", folder(root, process, &stat)?)).ok()??;
    Some(ProcessState {
        name: String::from_utf8_lossy(stat.name()).into_owned(),
        start: stat.start_ticks()?,
        parent: stat.number(PARENT)?,
        process_group: stat.number(PROCESS_GROUP)?,
        adj: file("oom_score_adj")?.trim().parse().ok()?,
        resident: bytes(status.as_bytes(), b"VmRSS")?,
        swapped: bytes(status.as_bytes(), b"VmSwap").unwrap_or(0),
        anonymous: bytes(status.as_bytes(), b"RssAnon"),
        ticks: stat.cpu_ticks()?,
        user_ticks: stat.user_ticks()?,
        major_faults: stat.number(MAJOR_FAULTS)?,
    })
}

/// The folder with the memory and the cgroups of a process: that of a running thread if the main thread has ended.
/// None if no thread runs.
fn folder(root: &Root, process: u32, stat: &Stat<'_>) -> Option<String> {
    if !stat.has_main_thread_ended() {
        return Some(format!("/proc/{process}"));
    }
    let other = threads(root, process).into_iter().find(|&thread| thread != process)?;
    Some(format!("/proc/{process}/task/{other}"))
}

/// The path of the memory cgroup of a process; None once it has ended.
pub fn memory_group(root: &Root, process: u32) -> Option<String> {
    let stat = root.read(format!("/proc/{process}/stat")).ok()??;
    let folder = folder(root, process, &Stat::parse(stat.as_bytes())?)?;
    let text = root.read(format!("{folder}/cgroup")).ok()??;
    let path = membership::memory_group(text.as_bytes())?;
    Some(String::from_utf8_lossy(path).into_owned())
}

/// The IDs of the threads of a process, in order; empty once it has ended.
pub fn threads(root: &Root, process: u32) -> Vec<u32> {
    numbers_among(&root.list(format!("/proc/{process}/task")).unwrap_or_default())
}

/// The descendants of a process; empty if the kernel does not list children
/// (`CONFIG_PROC_CHILDREN`).
pub fn descendants(root: &Root, process: u32) -> Vec<u32> {
    let mut found = vec![process];
    let mut place = 0;
    while let Some(&parent) = found.get(place).filter(|_| found.len() <= DESCENDANTS_MAX) {
        for thread in threads(root, parent) {
            let text = root.read(format!("/proc/{parent}/task/{thread}/children"));
            let text = text.ok().flatten().unwrap_or_default();
            found.extend(
                text.split_ascii_whitespace().filter_map(|child| child.parse::<u32>().ok()),
            );
        }
        place += 1;
    }
    found.split_off(1)
}

/// The process of a thread; None once the thread has ended.
pub fn of_thread(root: &Root, thread: u32) -> Option<u32> {
    let status = root.read(format!("/proc/{thread}/status")).ok()??;
    u32::try_from(kernel_file::field(status.as_bytes(), b"Tgid")?).ok()
}

/// The start time of a process, in ticks since boot; None once it has ended, even if its parent has not yet
/// waited for it. If another process reuses the PID, its start time differs.
pub fn beginning(root: &Root, process: u32) -> Option<u64> {
    let text = root.read(format!("/proc/{process}/stat")).ok()??;
    let stat = Stat::parse(text.as_bytes())?;
    stat.start_ticks().filter(|_| !stat.has_ended())
}

/// Starts `command` as the leader of a new process group, inside the cgroups with the files `entrances`: it runs
/// no instruction of its program outside them.
///
/// # Errors
/// A group accepts no process, or the program cannot be run.
pub fn start(root: &Root, command: &mut Command, entrances: &[PathBuf]) -> Result<Child, Error> {
    let mut files = Vec::new();
    for path in entrances {
        let file = OpenOptions::new().write(true).open(root.path(path));
        files.push(file.map_err(|error| Error::refused("open", path, error))?);
    }
    let join = move || {
        // Writing 0 moves the writing process.
        files.iter_mut().try_for_each(|file| file.write_all(b"0"))
    };
    // SAFETY: it only calls `write`, on files that are already open.
    unsafe { start_after(command, join) }
}

/// Starts `command` as the leader of a new process group; the kernel kills it when the calling thread
/// ends, however that ends.
///
/// # Errors
/// The program cannot be run.
pub fn start_bound(command: &mut Command) -> Result<Child, Error> {
    start_until(command, Signal::KILL)
}

/// Starts `command` as the leader of a new process group; the kernel sends it SIGTERM when the calling thread
/// ends, however that ends.
///
/// # Errors
/// The program cannot be run.
pub fn start_bound_gently(command: &mut Command) -> Result<Child, Error> {
    start_until(command, Signal::TERM)
}

/// Starts `command`, which gets `signal` when the calling thread ends.
fn start_until(command: &mut Command, signal: Signal) -> Result<Child, Error> {
    use rustix::process::{getpid, getppid, set_parent_process_death_signal};
    let parent = getpid();
    let bind = move || {
        set_parent_process_death_signal(Some(signal))?;
        match getppid() == Some(parent) {
            true => Ok(()),
            // The parent ended before the signal was set.
            false => Err(rustix::io::Errno::SRCH.into()),
        }
    };
    // SAFETY: it only makes system calls, and allocates nothing.
    unsafe { start_after(command, bind) }
}

/// Starts `command` as the leader of a new process group, with priority 0 and adj 0 instead of those of
/// this program.
///
/// # Errors
/// The program cannot be run.
pub fn start_ordinary(command: &mut Command) -> Result<Child, Error> {
    // SAFETY: it only makes system calls, and allocates nothing.
    unsafe { start_after(command, make_ordinary) }
}

/// Starts `command` in the process group of this program, so that it may use the terminal, with priority 0 and adj 0
/// instead of those of this program, and as [`passed_on::to`] describes.
///
/// # Errors
/// The program cannot be run.
pub fn start_in_foreground(command: &mut Command) -> std::io::Result<Child> {
    // SAFETY: it only makes system calls, and allocates nothing.
    unsafe { command.pre_exec(make_ordinary) };
    passed_on::to(command);
    command.spawn()
}

/// Gives this process priority 0 and adj 0. A refused change is ignored.
#[expect(clippy::unnecessary_wraps, reason = "what runs before exec may fail")]
fn make_ordinary() -> std::io::Result<()> {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    let _ = rustix::process::setpriority_process(None, 0);
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(file) = openat(CWD, c"/proc/self/oom_score_adj", flags, Mode::empty()) {
        let _ = rustix::io::write(&file, b"0");
    }
    Ok(())
}

/// Starts `command` as the leader of a new process group, after `prepare` has run in the child.
///
/// # Safety
/// `prepare` runs between fork and exec, where only async-signal-safe calls are permitted.
unsafe fn start_after(
    command: &mut Command,
    prepare: impl FnMut() -> std::io::Result<()> + Send + Sync + 'static,
) -> Result<Child, Error> {
    // SAFETY: the caller guarantees that `prepare` is async-signal-safe.
    unsafe { command.process_group(0).pre_exec(prepare) };
    let program = command.get_program().to_owned();
    command.spawn().map_err(|error| Error::refused("run", program, error))
}

/// Raises the limit of open files to `wanted`, or as far as permitted; returns the limit.
pub fn raise_descriptors(wanted: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let count = |limit: Option<u64>| {
        limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
    };
    if count(current) >= wanted {
        return count(current);
    }
    let raised = count(maximum).min(wanted);
    match setrlimit(Resource::Nofile, Rlimit { current: Some(raised as u64), maximum }) {
        Ok(()) => raised,
        Err(_) => count(current),
    }
}

/// The process that started this one; 0 if that is in another pid namespace.
pub fn parent() -> u32 {
    rustix::process::getppid().map_or(0, |process| process.as_raw_nonzero().get() as u32)
}

/// The effective user ID of this program.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether this program runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A file that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedFile {
    /// The path of the file, as the process sees it.
    pub path: PathBuf,
    /// The address of its first byte.
    pub address: u64,
}

/// The first file named `name` that a process has mapped; None if it has mapped none.
///
/// # Errors
/// There is no such process, or its maps may not be read.
pub fn mapped_file(root: &Root, process: u32, name: &str) -> Result<Option<MappedFile>, Error> {
    let path = format!("/proc/{process}/maps");
    let missing = || Error::refused("read", &path, std::io::ErrorKind::NotFound.into());
    let text = root.read(&path)?.ok_or_else(missing)?;
    Ok(text.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (addresses, offset) = (fields.next()?, fields.nth(1)?);
        let path = PathBuf::from(line.get(line.find('/')?..)?);
        let is_start = path.file_name()? == name && u64::from_str_radix(offset, 16).ok()? == 0;
        let address = u64::from_str_radix(addresses.split('-').next()?, 16).ok()?;
        is_start.then_some(MappedFile { path, address })
    }))
}

/// Reads `N` numbers of 64 bits from a process's memory at `address`.
///
/// # Errors
/// The memory may not be read, or is not mapped.
pub fn numbers<const N: usize>(root: &Root, process: u32, address: u64) -> Result<[u64; N], Error> {
    let path = format!("/proc/{process}/mem");
    let read = || {
        let memory = File::open(root.path(&path))?;
        let mut bytes = vec![0; N * size_of::<u64>()];
        memory.read_exact_at(&mut bytes, address)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|error| Error::refused("read", &path, error))?;
    let (words, _) = bytes.as_chunks::<{ size_of::<u64>() }>();
    Ok(std::array::from_fn(|place| words.get(place).map_or(0, |word| u64::from_ne_bytes(*word))))
}

/// Whether this program was started with `signal` ignored.
pub fn ignores(root: &Root, signal: i32) -> bool {
    let mask = own_mask(root, "SigIgn").ok().flatten().unwrap_or(0);
    // Signals count from 1.
    signal > 0 && mask.checked_shr(signal as u32 - 1).is_some_and(|rest| rest & 1 == 1)
}

/// The mask after `name` in the status of this program; None if there is none.
///
/// # Errors
/// The operating system refuses.
pub(crate) fn own_mask(root: &Root, name: &str) -> Result<Option<u64>, Error> {
    let status = root.read("/proc/self/status")?.unwrap_or_default();
    Ok(kernel_file::mask(status.as_bytes(), name.as_bytes()))
}

/// Bits of CAP_SYS_ADMIN, CAP_PERFMON and CAP_BPF in `CapEff`.
pub(crate) const SYS_ADMIN: u64 = 1 << 21;
const PERFMON: u64 = 1 << 38;
const BPF: u64 = 1 << 39;

/// Whether this process has the capabilities to load tracing BPF programs. The kernel can still refuse them.
pub fn may_load_bpf(root: &Root) -> bool {
    let mask = own_mask(root, "CapEff").ok().flatten().unwrap_or(0);
    mask & SYS_ADMIN != 0 || mask & (PERFMON | BPF) == PERFMON | BPF
}

/// Sends SIGKILL to a process; ignores failures.
pub fn kill(process: u32) {
    send(process, Signal::KILL);
}

/// Sends SIGTERM to a process; ignores failures.
pub fn terminate(process: u32) {
    send(process, Signal::TERM);
}

/// Sets the nice value of the calling thread: from -20, the highest priority, to 19.
///
/// # Errors
/// The operating system refuses.
pub fn rank_this_thread(nice: i32) -> Result<(), Error> {
    let thread = rustix::thread::gettid();
    rustix::process::setpriority_process(Some(thread), nice)
        .map_err(|error| Error::call("setpriority", error))
}

/// How a command ended that had a limited time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// The command exited with status 0.
    Well,
    /// The command exited with another status, a signal killed it, or its state is unknown.
    Wrong,
    /// The command was killed with its process group.
    Late,
}

/// How often [`finish`] looks, and how many times it looks for the end of a killed command.
const FINISH_LOOK_EVERY: Duration = Duration::from_millis(5);
const FINISH_LOOKS_MAX: u32 = 100;

/// Waits up to `time` for the end of `child`, the leader of a process group; then, or once `is_over`, kills the group.
pub fn finish(mut child: Child, time: Duration, is_over: impl Fn() -> bool) -> Finished {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Finished::Well,
            Ok(Some(_)) | Err(_) => return Finished::Wrong,
            Ok(None) if begun.elapsed() >= time || is_over() => break,
            Ok(None) => std::thread::sleep(FINISH_LOOK_EVERY),
        }
    }
    kill_group(child.id());
    // It dies soon: wait for it for a while, then leave it to the process that reaps orphans.
    for _ in 0..FINISH_LOOKS_MAX {
        if !matches!(child.try_wait(), Ok(None)) {
            break;
        }
        std::thread::sleep(FINISH_LOOK_EVERY);
    }
    Finished::Late
}

/// Sends SIGKILL to every process of the process group of `leader`.
pub fn kill_group(leader: u32) {
    if let Some(leader) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process_group(leader, Signal::KILL);
    }
}

fn send(process: u32, signal: Signal) {
    if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(process, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_listed_and_has_a_name() {
        let root = Root::system();
        let this = std::process::id();
        assert!(all(&root).unwrap().contains(&this));
        assert!(!name(&root, this).unwrap().is_empty());
        assert_eq!(name(&root, u32::MAX), None);
    }

    #[test]
    fn this_process_has_memory_and_an_adj() {
        let root = Root::system();
        let own = state(&root, std::process::id()).unwrap();
        assert!(own.resident > 1 << 18 && own.start > 0 && (-1000..=1000).contains(&own.adj));
        assert_eq!(state(&root, u32::MAX), None);
    }

    #[test]
    fn a_process_whose_main_thread_has_ended_has_memory_and_its_group() {
        let root = Root::system();
        let headless = testkit::Sleeper::without_main_thread();
        let seen = state(&root, headless.0.id()).unwrap();
        assert!(seen.anonymous.unwrap() > 1 << 18 && seen.resident > 1 << 20, "{seen:?}");
        assert_eq!(memory_group(&root, headless.0.id()), memory_group(&root, std::process::id()));
        assert!(beginning(&root, headless.0.id()).is_some());
    }

    #[test]
    fn a_process_has_threads_and_a_start_time_until_it_ends() {
        let (root, this) = (Root::system(), std::process::id());
        // Threads of other tests begin and end meanwhile.
        let look = || {
            let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            (own, of_thread(&root, own), threads(&root, this))
        };
        let (own, process, threads) =
            std::thread::scope(|scope| scope.spawn(look).join().expect("reading does not panic"));
        assert!(own != this && threads.contains(&own) && threads.contains(&this));
        assert_eq!(process, Some(this));
        assert!(beginning(&root, this).is_some());
        assert_eq!((of_thread(&root, u32::MAX), beginning(&root, u32::MAX)), (None, None));
        let mut child = Command::new("true").spawn().unwrap();
        let folder = format!("/proc/{}/task", child.id());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while beginning(&root, child.id()).is_some() {
            assert!(std::time::Instant::now() < deadline, "{folder}");
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }

    #[test]
    fn children_of_children_are_descendants() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sh -c 'sleep 1000 & echo $!; wait' & wait"]);
        let mut shell =
            shell.stdout(std::process::Stdio::piped()).process_group(0).spawn().unwrap();
        let mut line = String::new();
        let output = shell.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        let sleep: u32 = line.trim().parse().unwrap();
        let root = Root::system();
        let found = descendants(&root, shell.id());
        kill_group(shell.id());
        shell.wait().unwrap();
        if root.exists("/proc/thread-self/children") {
            assert!(found.len() == 2 && found[1] == sleep, "{found:?} {sleep}");
        }
        assert_eq!(descendants(&root, u32::MAX), []);
    }

    #[test]
    fn memory_of_a_process_is_read_at_the_address_of_a_mapped_file() {
        static NUMBERS: [u64; 2] = [0x5050, u64::MAX];
        let (root, this) = (Root::system(), std::process::id());
        let own = std::env::current_exe().unwrap();
        let name = own.file_name().unwrap().to_str().unwrap();
        let mapped = mapped_file(&root, this, name).unwrap().unwrap();
        assert_eq!(mapped.path, own);
        let header: [u64; 1] = numbers(&root, this, mapped.address).unwrap();
        assert_eq!(&header[0].to_ne_bytes()[..4], b"\x7fELF");
        assert_eq!(numbers(&root, this, NUMBERS.as_ptr() as u64).unwrap(), NUMBERS);
        assert!(numbers::<1>(&root, this, 0).is_err());
        assert_eq!(mapped_file(&root, this, "no such file").unwrap(), None);
        assert!(mapped_file(&root, u32::MAX, name).is_err());
    }

    #[test]
    fn signals_that_nohup_ignores_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert!(!ignores(&root, 1));
        std::fs::create_dir_all(root.path("/proc/self")).unwrap();
        let status = "SigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\n";
        std::fs::write(root.path("/proc/self/status"), status).unwrap();
        assert_eq!([1, 2, 13, 0].map(|signal| ignores(&root, signal)), [true, false, true, false]);
    }
}
