//! Reclaims the memory of a killed process. A process that dies at once frees it by itself; for others a reaper
//! thread calls `process_mrelease`, which a frozen, starved or waiting victim needs most. Reaper threads have
//! ordinary priority: with more they would take the processors from the programs that need the memory.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use linux::Root;
use linux::cgroup::{Hierarchy, Version};
use linux::held_process::{HeldProcess, Release};
use linux::kernel_file::number;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{read, write};

use crate::Error;
use crate::choices::Reclaim;
use crate::notes::VictimNote;
use crate::table::controller_group;

mod finish;

pub(crate) use finish::finish;

/// How often within the grace to check for threads in uninterruptible sleep: many enter it only because of the
/// kill (`request_wait_answer` in fs/fuse/dev.c).
const CHECKS: u32 = 4;
/// Threads of a victim that are checked.
const THREADS_MAX: usize = 256;
/// How often to call `process_mrelease` while another process holds the victim's mmap lock, once a millisecond.
const ATTEMPTS_MAX: u32 = 1000;
/// How long a thawed victim may take before its group is frozen again for the others in it.
const THAWED_FOR: Duration = Duration::from_millis(500);
const STACK: usize = 64 << 10;
/// Victims that wait at once; no more die in one batch.
const WAITING_MAX: usize = 32;

/// How memory came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaped {
    /// The victim ended within the grace.
    ByItself,
    /// The kernel took its memory.
    Taken,
    /// The victim had freed it before the call.
    Gone,
    /// The kernel refused to take it.
    Refused,
    /// It was left to the victim.
    Left,
}

/// The hierarchies that show whether a group is frozen or limited.
#[derive(Debug, Default)]
pub(crate) struct Hierarchies {
    /// The freezer of version 1, whose frozen processes do not die.
    freezer: Option<String>,
    /// The processor controller, and the file with its limit.
    processor: Option<(String, &'static str, &'static str)>,
}

impl Hierarchies {
    /// Finds the hierarchies of this machine.
    pub(crate) fn find(root: &Root) -> Hierarchies {
        let mount = |controller| {
            let found = Hierarchy::of(root, controller).ok().flatten()?;
            Some((found.mount.to_str()?.to_owned(), found.version))
        };
        Hierarchies {
            freezer: mount("freezer").filter(|(_, version)| *version == Version::V1).map(|of| of.0),
            processor: mount("cpu").map(|(mount, version)| match version {
                Version::V1 => (mount, "cpu", "cpu.cfs_quota_us"),
                Version::V2 => (mount, "", "cpu.max"),
            }),
        }
    }
}

/// The path of a file in a group, without allocation.
struct GroupFile {
    bytes: [u8; 1024],
    length: usize,
}

impl GroupFile {
    /// None if it is too long.
    fn new(mount: &str, group: &[u8], name: &str) -> Option<GroupFile> {
        let mut path = GroupFile { bytes: [0; 1024], length: 0 };
        for part in [mount.as_bytes(), group, b"/", name.as_bytes(), b"\0"] {
            let end = path.length + part.len();
            path.bytes.get_mut(path.length..end)?.copy_from_slice(part);
            path.length = end;
        }
        Some(path)
    }

    fn read<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        let file = self.open(OFlags::RDONLY)?;
        let length = read(&file, &mut *buffer).ok()?;
        Some(&buffer[..length])
    }

    fn write(&self, value: &[u8]) -> bool {
        self.open(OFlags::WRONLY).is_some_and(|file| write(&file, value).is_ok())
    }

    fn path(&self) -> Option<&CStr> {
        CStr::from_bytes_with_nul(&self.bytes[..self.length]).ok()
    }

    fn open(&self, flags: OFlags) -> Option<rustix::fd::OwnedFd> {
        openat(CWD, self.path()?, flags | OFlags::CLOEXEC, Mode::empty()).ok()
    }
}

/// Reclaims the memory of `victim`, which has got SIGKILL; `is_slow` if it is known not to die soon by itself.
pub(crate) fn recover(
    victim: &HeldProcess,
    is_slow: bool,
    reclaim: Reclaim,
    grace: Duration,
    hierarchies: &Hierarchies,
    note: Option<&VictimNote>,
) -> Reaped {
    let mut buffer = [0; 1024];
    let groups = victim.read(c"cgroup", &mut buffer).unwrap_or_default();
    let frozen = frozen_group(hierarchies, groups);
    let is_slow =
        is_slow || reclaim == Reclaim::First || frozen.is_some() || has_limit(hierarchies, groups);
    let reaped = if reclaim == Reclaim::Never {
        Reaped::Left
    } else if !is_slow && ends_within(victim, grace) {
        Reaped::ByItself
    } else {
        let reaped = take(victim);
        // Its threads end at ordinary priority.
        victim.make_ordinary(THREADS_MAX);
        reaped
    };
    if let Some(state) = frozen {
        thaw_for(victim, &state, note);
    }
    reaped
}

/// Whether the victim ends within the grace; false as soon as one of its threads cannot end.
fn ends_within(victim: &HeldProcess, grace: Duration) -> bool {
    for _ in 0..CHECKS {
        if victim.has_uninterruptible_thread(THREADS_MAX) {
            return false;
        }
        if victim.has_ended(grace / CHECKS) {
            return true;
        }
    }
    false
}

/// Kills one process as the killer does.
#[derive(Debug)]
pub struct Reaper(Hierarchies);

impl Reaper {
    /// A reaper for this machine.
    pub fn new(root: &Root) -> Reaper {
        Reaper(Hierarchies::find(root))
    }

    /// Kills `victim` and gets its memory back.
    ///
    /// # Errors
    /// It has ended, or may not be killed.
    pub fn reap(&self, victim: &HeldProcess, grace: Duration) -> Result<Reaped, Error> {
        victim.kill().map_err(|error| Error::refused("kill", error))?;
        Ok(recover(victim, false, Reclaim::Late, grace, &self.0, None))
    }
}

fn take(victim: &HeldProcess) -> Reaped {
    for _ in 0..ATTEMPTS_MAX {
        match victim.release_memory() {
            Release::Taken => return Reaped::Taken,
            Release::Gone => return Reaped::Gone,
            Release::Refused => return Reaped::Refused,
            Release::Busy if victim.has_ended(Duration::from_millis(1)) => return Reaped::Gone,
            Release::Busy => {}
        }
    }
    Reaped::Refused
}

/// The state file of the victim's group in the freezer of version 1, if that is frozen.
fn frozen_group(hierarchies: &Hierarchies, groups: &[u8]) -> Option<GroupFile> {
    let group = controller_group(groups, b"freezer")?;
    let state = GroupFile::new(hierarchies.freezer.as_ref()?, group, "freezer.state")?;
    let mut buffer = [0; 32];
    // FROZEN, or FREEZING while some of it still stops.
    state.read(&mut buffer)?.starts_with(b"FR").then_some(state)
}

/// Thaws a frozen victim until it has died, and freezes its group again for the other processes in it.
fn thaw_for(victim: &HeldProcess, state: &GroupFile, note: Option<&VictimNote>) {
    // Thaws even without a note, which matters only if this killer is killed meanwhile.
    let _ = note.zip(state.path()).map(|(note, path)| note.thaws(path));
    if state.write(b"THAWED") {
        victim.has_ended(THAWED_FOR);
        state.write(b"FROZEN");
    }
}

/// Whether the victim's group has a limit of processor time.
fn has_limit(hierarchies: &Hierarchies, groups: &[u8]) -> bool {
    let limit = || {
        let (mount, controller, name) = hierarchies.processor.as_ref()?;
        let group = controller_group(groups, controller.as_bytes())?;
        let mut buffer = [0; 64];
        // "max" and "-1" mean no limit.
        number(GroupFile::new(mount, group, name)?.read(&mut buffer)?)
    };
    limit().is_some()
}

/// A victim for one of the threads.
struct Job {
    victim: HeldProcess,
    is_slow: bool,
    reclaim: Reclaim,
    grace: Duration,
    note: Option<VictimNote>,
}

/// Threads that reclaim victims. When dropped, they end once their victims are dead.
pub(crate) struct Reapers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    jobs: Mutex<[Option<Job>; WAITING_MAX]>,
    queued: Condvar,
    is_over: AtomicBool,
    hierarchies: Hierarchies,
}

impl Reapers {
    /// Starts `count` threads.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn start(root: &Root, count: usize) -> Result<Reapers, Error> {
        let shared = Arc::new(Shared {
            jobs: Mutex::new([const { None }; WAITING_MAX]),
            queued: Condvar::new(),
            is_over: AtomicBool::new(false),
            hierarchies: Hierarchies::find(root),
        });
        let mut threads = Vec::new();
        for _ in 0..count {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name("reaper".to_owned()).stack_size(STACK);
            let thread = thread.spawn(move || shared.work());
            threads.push(thread.map_err(|error| Error::refused("start a thread", error))?);
        }
        Ok(Reapers { shared, threads })
    }

    /// Passes a killed victim to a thread; returns false if the queue is full, so that it dies by itself.
    pub(crate) fn send(
        &self,
        victim: HeldProcess,
        is_slow: bool,
        reclaim: Reclaim,
        grace: Duration,
        note: Option<VictimNote>,
    ) -> bool {
        let mut jobs = self.shared.jobs();
        let Some(place) = jobs.iter_mut().find(|place| place.is_none()) else { return false };
        *place = Some(Job { victim, is_slow, reclaim, grace, note });
        self.shared.queued.notify_one();
        true
    }
}

impl Drop for Reapers {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Relaxed);
        drop(self.shared.jobs());
        self.shared.queued.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn jobs(&self) -> MutexGuard<'_, [Option<Job>; WAITING_MAX]> {
        self.jobs.lock().expect("no holder of this lock panics")
    }

    fn work(&self) {
        loop {
            let mut jobs = self.jobs();
            let job = loop {
                if let Some(job) = jobs.iter_mut().find_map(Option::take) {
                    break job;
                }
                if self.is_over.load(Relaxed) {
                    return;
                }
                jobs = self.queued.wait(jobs).expect("no holder of this lock panics");
            };
            drop(jobs);
            let Job { victim, is_slow, reclaim, grace, note } = &job;
            recover(victim, *is_slow, *reclaim, *grace, &self.hierarchies, note.as_ref());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::held_process::open_processes;
    use testkit::Sleeper;

    pub(super) fn sleeper() -> (Sleeper, HeldProcess) {
        let sleeper = Sleeper::start();
        let processes = open_processes(&Root::system()).unwrap();
        let held = HeldProcess::open(&processes, sleeper.0.id()).unwrap();
        (sleeper, held)
    }

    #[test]
    fn a_victim_that_dies_in_time_needs_no_help() {
        let reaper = Reaper::new(&Root::system());
        let (mut sleeper, victim) = sleeper();
        let reaped = reaper.reap(&victim, Duration::from_secs(60)).unwrap();
        assert_eq!(reaped, Reaped::ByItself);
        sleeper.0.wait().unwrap();
        let again = reaper.reap(&victim, Duration::ZERO).unwrap_err().to_string();
        assert!(again.contains("cannot kill"), "{again}");
    }

    #[test]
    fn threads_reclaim_the_victims_that_they_get_and_end() {
        let reapers = Reapers::start(&Root::system(), 2).unwrap();
        let (_sleeper, victim) = sleeper();
        let (_other, living) = sleeper();
        let held = victim.try_clone().unwrap();
        victim.kill().unwrap();
        assert!(reapers.send(victim, true, Reclaim::Late, Duration::ZERO, None));
        drop(reapers);
        assert!(held.has_ended(Duration::from_secs(60)));
        assert!(!living.has_ended(Duration::ZERO));
    }

    #[test]
    fn a_group_is_frozen_and_limited_if_its_files_say_so() {
        let folder = tempfile::tempdir().unwrap();
        let mount = folder.path().to_str().unwrap().to_owned();
        std::fs::create_dir(folder.path().join("app")).unwrap();
        let hierarchies = Hierarchies {
            freezer: Some(mount.clone()),
            processor: Some((mount, "cpu", "cpu.cfs_quota_us")),
        };
        let groups = b"3:freezer:/app\n2:cpu,cpuacct:/app\n";
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join("app").join(name), text).unwrap();
        };
        assert!(frozen_group(&hierarchies, groups).is_none());
        for (state, quota, expected) in [
            ("FROZEN\n", "20000\n", true),
            ("FREEZING\n", "1\n", true),
            ("THAWED\n", "-1\n", false),
        ] {
            write("freezer.state", state);
            write("cpu.cfs_quota_us", quota);
            assert_eq!(frozen_group(&hierarchies, groups).is_some(), expected, "{state}");
            assert_eq!(has_limit(&hierarchies, groups), expected, "{quota}");
        }
        assert!(!has_limit(&hierarchies, b"0::/app\n"));
        assert!(GroupFile::new("/x", &[b'y'; 1024], "z").is_none());
    }
}
