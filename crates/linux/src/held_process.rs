//! A process that is held by descriptors, so that it is still the same one when it is killed, and
//! what is done to it then. Nothing here allocates: it runs when memory is short.
//!
//! Contract: a number is used again once its process has ended; the descriptors are not. A file
//! of an ended process cannot be read, a signal to it is an error. Once the main thread has ended while others
//! run, `/proc/PID` shows no memory and no cgroup: these are read from another thread's folder then.
#![allow(unsafe_code, reason = "process_mrelease and kcmp have no wrapper")]

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, RawDir, fstat};
use rustix::io::{Errno, read};
use rustix::path::DecInt;
use rustix::process::{
    Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, setpriority_process,
};

use crate::root::open_at;
use crate::stat::Stat;

/// A process that is held.
#[derive(Debug)]
pub struct HeldProcess {
    number: u32,
    folder: OwnedFd,
    handle: OwnedFd,
    /// The folder of a thread that runs, once the main thread has ended.
    thread: Option<OwnedFd>,
}

/// Threads that are tried until one is found that runs: those that have ended, except the main one, are not listed.
const TRIED_MAX: usize = 16;

/// What the kernel did when it was told to take a dying process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// It took it.
    Taken,
    /// There was none left: the process gave it back itself.
    Gone,
    /// Not yet: somebody holds the process's memory map; ask again.
    Busy,
    /// It will not: another process uses the same memory, or the kernel is older than 5.15.
    Refused,
}

impl HeldProcess {
    /// Holds the process `number`, whose folder lies in `processes`, that is `/proc`.
    ///
    /// # Errors
    /// It has ended, is a thread, or descriptors ran out.
    pub fn open(processes: &OwnedFd, number: u32) -> Result<HeldProcess, Errno> {
        let name = DecInt::new(number);
        let folder = open_at(processes, name.as_c_str(), OFlags::DIRECTORY | OFlags::PATH)?;
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        let handle = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
        let mut held = HeldProcess { number, folder, handle, thread: None };
        // Alive after both were opened, so that both are of one process.
        let mut buffer = [0; 512];
        let stat = Stat::parse(held.read(c"stat", &mut buffer)?);
        if stat.is_some_and(|stat| stat.has_main_thread_ended() && !stat.has_ended()) {
            held.follow_thread();
        }
        Ok(held)
    }

    /// Holds it once more.
    ///
    /// # Errors
    /// Descriptors ran out.
    pub fn try_clone(&self) -> std::io::Result<HeldProcess> {
        let (folder, handle) = (self.folder.try_clone()?, self.handle.try_clone()?);
        let thread = self.thread.as_ref().map(OwnedFd::try_clone).transpose()?;
        Ok(HeldProcess { number: self.number, folder, handle, thread })
    }

    /// Reads all files but `stat` from a thread that runs, for a process whose main thread has ended; false if
    /// none runs.
    pub fn follow_thread(&mut self) -> bool {
        if !self.thread.as_ref().is_some_and(runs) {
            self.thread = self.running_thread();
        }
        self.thread.is_some()
    }

    fn running_thread(&self) -> Option<OwnedFd> {
        let threads = open_at(&self.folder, c"task", OFlags::DIRECTORY).ok()?;
        let mut found = None;
        self.threads(TRIED_MAX, |thread| {
            let name = DecInt::new(thread);
            let folder = open_at(&threads, name.as_c_str(), OFlags::DIRECTORY | OFlags::PATH);
            found = folder.ok().filter(runs);
            found.is_some()
        });
        found
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whose it is.
    ///
    /// # Errors
    /// It has ended.
    pub fn user(&self) -> Result<u32, Errno> {
        Ok(fstat(&self.folder)?.st_uid)
    }

    /// The beginning of a file of its folder, as much as `buffer` holds.
    ///
    /// # Errors
    /// It has ended, or the file may not be read.
    pub fn read<'a>(&self, name: &CStr, buffer: &'a mut [u8]) -> Result<&'a [u8], Errno> {
        let length = read(&self.open_file(name)?, &mut *buffer)?;
        Ok(&buffer[..length])
    }

    /// Opens a file of its folder.
    ///
    /// # Errors
    /// It has ended, or the file may not be opened.
    pub fn open_file(&self, name: &CStr) -> Result<OwnedFd, Errno> {
        let folder = match &self.thread {
            // Of a thread it counts that thread only.
            Some(thread) if name != c"stat" => thread,
            _ => &self.folder,
        };
        open_at(folder, name, OFlags::empty())
    }

    /// Whether process `other` uses the same memory map, as a child does between vfork and exec
    /// (`kcmp(2)`); none where the kernel does not say.
    pub fn shares_map_with(&self, other: u32) -> Option<bool> {
        const KCMP_VM: libc::c_int = 1;
        // SAFETY: the call takes numbers only.
        let result =
            unsafe { libc::syscall(libc::SYS_kcmp, self.number, other, KCMP_VM, 0_u64, 0_u64) };
        (result >= 0).then_some(result == 0)
    }

    /// Calls `is_enough` with the number of each of its threads, of the first `count_max`, until it
    /// says so; whether it did.
    pub fn threads(&self, count_max: usize, mut is_enough: impl FnMut(u32) -> bool) -> bool {
        let Ok(folder) = open_at(&self.folder, c"task", OFlags::DIRECTORY) else { return false };
        let mut buffer = [std::mem::MaybeUninit::uninit(); 2048];
        let mut entries = RawDir::new(&folder, &mut buffer);
        let mut left = count_max;
        while left > 0
            && let Some(Ok(entry)) = entries.next()
        {
            let Some(number) = number_of(entry.file_name()) else { continue };
            if is_enough(number) {
                return true;
            }
            left -= 1;
        }
        false
    }

    /// Whether one of its threads, of the first `count_max`, waits where no signal reaches it.
    pub fn has_uninterruptible_thread(&self, count_max: usize) -> bool {
        let Ok(folder) = open_at(&self.folder, c"task", OFlags::DIRECTORY) else { return false };
        self.threads(count_max, |thread| {
            let mut buffer = [0; 256];
            let length = thread_file(&folder, thread, b"/stat\0")
                .and_then(|file| read(&file, &mut buffer))
                .unwrap_or(0);
            let stat = Stat::parse(&buffer[..length]);
            stat.and_then(|stat| stat.state()) == Some(b'D')
        })
    }

    /// Tells it to end at once.
    ///
    /// # Errors
    /// It has ended, or may not be told to.
    pub fn kill(&self) -> Result<(), Errno> {
        pidfd_send_signal(&self.handle, Signal::KILL)
    }

    /// Lets its threads, of the first `count_max`, die at ordinary priority.
    pub fn make_ordinary(&self, count_max: usize) {
        self.threads(count_max, |thread| {
            let thread = i32::try_from(thread).ok().and_then(Pid::from_raw);
            // One that has ended is no matter.
            let _ = setpriority_process(thread, 0);
            false
        });
    }

    /// Whether it has ended, waiting for that as long as `time`.
    pub fn has_ended(&self, time: Duration) -> bool {
        let mut ends = [PollFd::new(&self.handle, PollFlags::IN)];
        // A time beyond what the clock can count never ends.
        let time = Timespec::try_from(time).ok();
        poll(&mut ends, time.as_ref()).is_ok_and(|count| count > 0)
    }

    /// Takes the memory of a process that was told to end, before it gets there itself: private
    /// memory alone, as the kernel's own reaper does (`process_mrelease(2)`).
    pub fn release_memory(&self) -> Release {
        // SAFETY: the call takes a descriptor, which is open as long as `self`, and flags.
        let result =
            unsafe { libc::syscall(libc::SYS_process_mrelease, self.handle.as_raw_fd(), 0) };
        match std::io::Error::last_os_error().raw_os_error() {
            _ if result == 0 => Release::Taken,
            Some(libc::ESRCH) => Release::Gone,
            Some(libc::EAGAIN | libc::EINTR) => Release::Busy,
            _ => Release::Refused,
        }
    }
}

/// Whether the thread with this folder runs.
fn runs(folder: &OwnedFd) -> bool {
    let mut buffer = [0; 512];
    let length = open_at(folder, c"stat", OFlags::empty())
        .and_then(|file| read(&file, &mut buffer))
        .unwrap_or(0);
    let stat = Stat::parse(&buffer[..length]);
    stat.is_some_and(|stat| !stat.has_main_thread_ended())
}

/// Opens a file of a thread or a process: `name` with a slash before and a zero behind it. One path instead of two
/// spares half of the calls; a victim has hundreds of threads.
fn thread_file(threads: &OwnedFd, thread: u32, name: &[u8]) -> Result<OwnedFd, Errno> {
    let mut path = [0; 32];
    let number = DecInt::new(thread);
    let number = number.as_bytes();
    path[..number.len()].copy_from_slice(number);
    path[number.len()..number.len() + name.len()].copy_from_slice(name);
    let path = CStr::from_bytes_until_nul(&path).map_err(|_| Errno::INVAL)?;
    open_at(threads, path, OFlags::empty())
}

/// Opens the folder of all processes below a root.
///
/// # Errors
/// What the operating system refuses.
pub fn open_processes(root: &crate::Root) -> Result<OwnedFd, crate::Error> {
    root.open_folder("/proc")
}

/// The beginning of a file of process `number`, which is not held: `name` with a slash before and a zero
/// behind it. By the next call the number may be another process's.
///
/// # Errors
/// It has ended, or the file may not be read.
pub fn read_unheld<'a>(
    processes: &OwnedFd,
    number: u32,
    name: &[u8],
    buffer: &'a mut [u8],
) -> Result<&'a [u8], Errno> {
    let length = read(&thread_file(processes, number, name)?, &mut *buffer)?;
    Ok(&buffer[..length])
}

/// Calls `each` with the number of every process in `processes`, that is `/proc`. Allocates nothing.
///
/// # Errors
/// What the operating system refuses.
pub fn each_process(processes: &OwnedFd, mut each: impl FnMut(u32)) -> Result<(), Errno> {
    let folder = open_at(processes, c".", OFlags::DIRECTORY)?;
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(&folder, &mut buffer);
    while let Some(entry) = entries.next() {
        if let Some(number) = number_of(entry?.file_name()) {
            each(number);
        }
    }
    Ok(())
}

fn number_of(name: &CStr) -> Option<u32> {
    std::str::from_utf8(name.to_bytes()).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use testkit::Sleeper;

    #[test]
    fn a_held_process_is_read_killed_and_never_mistaken() {
        let processes = open_processes(&crate::Root::system()).unwrap();
        let mut sleeper = Sleeper::start();
        let number = sleeper.0.id();
        let held = HeldProcess::open(&processes, number).unwrap();
        let mut buffer = [0; 64];
        assert_eq!(held.user(), Ok(crate::process::user()));
        let mut threads = Vec::new();
        let is_enough = held.threads(10, |thread| {
            threads.push(thread);
            false
        });
        assert!(!is_enough && threads == [number], "{threads:?}");
        assert!(held.threads(10, |_| true));
        // At first it may wait for its program to be read.
        let begun = Instant::now();
        while held.has_uninterruptible_thread(10) {
            assert!(begun.elapsed() < Duration::from_secs(60), "it sleeps and waits for nothing");
            std::thread::yield_now();
        }
        assert!(!held.has_ended(Duration::ZERO));
        // Told to release while it lives, the kernel refuses; this is what keeps it safe.
        assert_eq!(held.release_memory(), Release::Refused);
        held.kill().unwrap();
        assert!(held.has_ended(Duration::from_secs(60)));
        sleeper.0.wait().unwrap();
        assert_eq!(held.read(c"statm", &mut buffer).unwrap_err(), Errno::SRCH);
        assert_eq!(held.kill(), Err(Errno::SRCH));
        assert_eq!(held.release_memory(), Release::Gone);
        assert!(HeldProcess::open(&processes, u32::MAX).is_err());
    }

    #[test]
    fn a_process_whose_main_thread_has_ended_has_memory_and_a_group() {
        let processes = open_processes(&crate::Root::system()).unwrap();
        let headless = Sleeper::without_main_thread();
        let held = HeldProcess::open(&processes, headless.0.id()).unwrap();
        let mut buffer = [0; 4096];
        let stat = held.read(c"stat", &mut buffer).unwrap();
        assert!(Stat::parse(stat).unwrap().has_main_thread_ended());
        let statm = held.try_clone().unwrap();
        let statm = statm.read(c"statm", &mut buffer).unwrap();
        let memory = crate::weight::resident_and_anonymous(statm, 4096);
        assert!(memory.is_some_and(|(resident, _)| resident > 1 << 20), "{memory:?}");
        let weight = crate::weight::Weight::of(&held).unwrap();
        assert!(weight.own > 1 << 18, "{weight:?}");
        assert!(!held.has_ended(Duration::ZERO));
        held.kill().unwrap();
        assert!(held.has_ended(Duration::from_secs(60)));
        assert!(!held.try_clone().unwrap().follow_thread());
    }

    #[test]
    fn this_process_is_among_all() {
        let processes = open_processes(&crate::Root::system()).unwrap();
        let mut is_there = false;
        each_process(&processes, |number| is_there |= number == std::process::id()).unwrap();
        assert!(is_there);
    }
}
