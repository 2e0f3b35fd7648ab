//! A process that is held by descriptors, so that a kill reaches the same process that was measured. Nothing here
//! allocates: it runs when memory is short.
//!
//! Contract: the kernel reuses the PID of a process that has ended; the descriptors never refer to another
//! process. A file of an ended process cannot be read, and a signal to it is an error. If the main thread has ended
//! while others run, `/proc/PID` shows no memory and no cgroup, so these are read from another thread's folder.
#![allow(unsafe_code, reason = "process_mrelease and kcmp have no wrapper")]

use std::ffi::CStr;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{AtFlags, OFlags, RawDir, fstat, statat};
use rustix::io::{Errno, read};
use rustix::path::DecInt;
use rustix::process::{
    Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, setpriority_process,
};

use crate::kernel_file::mask;
use crate::polling::is_readable;
use crate::root::open_at;
use crate::stat::Stat;

/// A process with open descriptors.
#[derive(Debug)]
pub struct HeldProcess {
    number: u32,
    folder: OwnedFd,
    handle: OwnedFd,
    /// The folder of a running thread, once the main thread has ended.
    thread: Option<OwnedFd>,
}

/// The most threads that are tried to find a running one. Ended threads are not listed, except for the main thread.
const TRIED_MAX: usize = 16;

/// The result of `process_mrelease`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The kernel took the memory.
    Taken,
    /// The process had already freed its memory.
    Gone,
    /// The mmap lock is held by another process; try again.
    Busy,
    /// The kernel refuses: another process uses the same address space, or the kernel is older than 5.15.
    Refused,
}

impl HeldProcess {
    /// Holds the process with PID `number`; `processes` is `/proc`.
    ///
    /// # Errors
    /// The process has ended, the PID is that of a thread, or descriptors ran out.
    pub fn open(processes: &OwnedFd, number: u32) -> Result<HeldProcess, Errno> {
        let name = DecInt::new(number);
        let folder = open_at(processes, name.as_c_str(), OFlags::DIRECTORY | OFlags::PATH)?;
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        let handle = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
        let mut held = HeldProcess { number, folder, handle, thread: None };
        // If it lives after both were opened, both belong to the same process.
        let mut buffer = [0; 512];
        let stat = Stat::parse(held.read(c"stat", &mut buffer)?);
        if stat.is_some_and(|stat| stat.has_main_thread_ended() && !stat.has_ended()) {
            held.follow_thread();
        }
        Ok(held)
    }

    /// Duplicates the descriptors.
    ///
    /// # Errors
    /// Descriptors ran out.
    pub fn try_clone(&self) -> std::io::Result<HeldProcess> {
        let (folder, handle) = (self.folder.try_clone()?, self.handle.try_clone()?);
        let thread = self.thread.as_ref().map(OwnedFd::try_clone).transpose()?;
        Ok(HeldProcess { number: self.number, folder, handle, thread })
    }

    /// For a process whose main thread has ended: reads all files but `stat` from a running thread from now on.
    /// Returns false if no thread runs.
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

    /// The PID of the process.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The pidfd of the process.
    pub(crate) fn handle(&self) -> &OwnedFd {
        &self.handle
    }

    /// The user ID of the process.
    ///
    /// # Errors
    /// The process has ended.
    pub fn user(&self) -> Result<u32, Errno> {
        Ok(fstat(&self.folder)?.st_uid)
    }

    /// Reads the beginning of a file of its folder, as much as `buffer` holds.
    ///
    /// # Errors
    /// The process has ended, or the file may not be read.
    pub fn read<'a>(&self, name: &CStr, buffer: &'a mut [u8]) -> Result<&'a [u8], Errno> {
        let length = read(&self.open_file(name)?, &mut *buffer)?;
        Ok(&buffer[..length])
    }

    /// Opens a file of its folder.
    ///
    /// # Errors
    /// The process has ended, or the file may not be opened.
    pub fn open_file(&self, name: &CStr) -> Result<OwnedFd, Errno> {
        let folder = match &self.thread {
            // The `stat` of a thread has the figures of only that thread.
            Some(thread) if name != c"stat" => thread,
            _ => &self.folder,
        };
        open_at(folder, name, OFlags::empty())
    }

    /// Opens `maps` of another process.
    ///
    /// # Errors
    /// Process `other` has ended, or its map may not be read.
    pub fn open_map_of(&self, other: u32) -> Result<OwnedFd, Errno> {
        let number = DecInt::new(other);
        let folder = open_at(&self.folder, c"..", OFlags::DIRECTORY | OFlags::PATH)?;
        let folder = open_at(&folder, number.as_c_str(), OFlags::DIRECTORY | OFlags::PATH)?;
        open_at(&folder, c"maps", OFlags::empty())
    }

    /// PIDs of the newest children that the threads of the process have started, and 0 in the places that are left; only 0
    /// if the kernel does not list children.
    pub fn newest_children<const COUNT: usize>(&self) -> [u32; COUNT] {
        let mut found = [0; COUNT];
        let Ok(threads) = open_at(&self.folder, c"task", OFlags::DIRECTORY) else { return found };
        let (mut buffer, mut place) = ([0; 1024], 0);
        self.threads(TRIED_MAX, |thread| {
            let name = DecInt::new(thread);
            let children = open_at(&threads, name.as_c_str(), OFlags::DIRECTORY | OFlags::PATH)
                .and_then(|folder| open_at(&folder, c"children", OFlags::empty()));
            let Ok(children) = children else { return false };
            // The oldest come first. Each number is followed by a blank.
            let mut number = 0_u32;
            while let Ok(length @ 1..) = read(&children, &mut buffer) {
                for &byte in &buffer[..length] {
                    match byte {
                        b'0'..=b'9' => number = number.wrapping_mul(10) + u32::from(byte - b'0'),
                        _ if number > 0 => {
                            (found[place % COUNT], place) = (number, place + 1);
                            number = 0;
                        }
                        _ => {}
                    }
                }
            }
            false
        });
        found
    }

    /// The bytes that the kernel has allocated for the file that the process maps at `addresses`: the first address of
    /// the mapping and the first behind it. None if the kernel does not say.
    pub fn allocated_bytes(&self, addresses: (u64, u64)) -> Option<u64> {
        let folder = open_at(&self.folder, c"map_files", OFlags::DIRECTORY | OFlags::PATH).ok()?;
        let mut name = [0; 40];
        let mut rest = name.as_mut_slice();
        write!(rest, "{:x}-{:x}\0", addresses.0, addresses.1).ok()?;
        let name = CStr::from_bytes_until_nul(&name).ok()?;
        let file = statat(&folder, name, AtFlags::empty()).ok()?;
        u64::try_from(file.st_blocks).ok()?.checked_mul(512)
    }

    /// Whether process `other` uses the same address space, as a child does between vfork and exec
    /// (`kcmp(2)`); None if the kernel does not report it.
    pub fn shares_map_with(&self, other: u32) -> Option<bool> {
        const KCMP_VM: libc::c_int = 1;
        // SAFETY: the call takes numbers only.
        let result =
            unsafe { libc::syscall(libc::SYS_kcmp, self.number, other, KCMP_VM, 0_u64, 0_u64) };
        (result >= 0).then_some(result == 0)
    }

    /// Calls `is_enough` with the ID of each of its first `count_max` threads until it returns true; returns
    /// whether it did.
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

    /// Whether one of its first `count_max` threads is in uninterruptible sleep (D state).
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

    /// Whether SIGKILL is pending. False if its state cannot be read.
    pub fn is_killed(&self) -> bool {
        let mut buffer = [0; 4096];
        self.read(c"status", &mut buffer).is_ok_and(is_killed)
    }

    /// Sends SIGKILL.
    ///
    /// # Errors
    /// The process has ended, or the kernel does not permit the signal.
    pub fn kill(&self) -> Result<(), Errno> {
        pidfd_send_signal(&self.handle, Signal::KILL)
    }

    /// Gives its first `count_max` threads ordinary priority, so that they die faster.
    pub fn make_ordinary(&self, count_max: usize) {
        self.threads(count_max, |thread| {
            let thread = i32::try_from(thread).ok().and_then(Pid::from_raw);
            // A thread that has ended is ignored.
            let _ = setpriority_process(thread, 0);
            false
        });
    }

    /// Waits up to `time` for its end; returns whether it has ended.
    pub fn has_ended(&self, time: Duration) -> bool {
        is_readable(&self.handle, time)
    }

    /// Frees the private memory of a killed process before its threads exit, as the kernel's own OOM reaper does
    /// (`process_mrelease(2)`).
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

/// Whether SIGKILL is pending, for one thread or for the process, from the text of `/proc/PID/status`.
fn is_killed(status: &[u8]) -> bool {
    const SIGKILL_BIT: u64 = 1 << 8;
    [&b"SigPnd"[..], b"ShdPnd"]
        .into_iter()
        .filter_map(|name| mask(status, name))
        .any(|mask| mask & SIGKILL_BIT != 0)
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

/// Opens a file of a thread or a process; `name` begins with a slash and ends with a zero. One path instead of two
/// saves half of the calls, and a victim may have hundreds of threads.
fn thread_file(threads: &OwnedFd, thread: u32, name: &[u8]) -> Result<OwnedFd, Errno> {
    let mut path = [0; 32];
    let number = DecInt::new(thread);
    let number = number.as_bytes();
    path[..number.len()].copy_from_slice(number);
    path[number.len()..number.len() + name.len()].copy_from_slice(name);
    let path = CStr::from_bytes_until_nul(&path).map_err(|_| Errno::INVAL)?;
    open_at(threads, path, OFlags::empty())
}

/// Opens `/proc` below a root.
///
/// # Errors
/// The operating system refuses.
pub fn open_processes(root: &crate::Root) -> Result<OwnedFd, crate::Error> {
    root.open_folder("/proc")
}

/// Reads the beginning of a file of process `number`, which is not held; `name` begins with a slash and ends with
/// a zero. At the next call the PID may belong to another process.
///
/// # Errors
/// The process has ended, or the file may not be read.
pub fn read_unheld<'a>(
    processes: &OwnedFd,
    number: u32,
    name: &[u8],
    buffer: &'a mut [u8],
) -> Result<&'a [u8], Errno> {
    let length = read(&thread_file(processes, number, name)?, &mut *buffer)?;
    Ok(&buffer[..length])
}

/// Calls `each` with the PID of every process; `processes` is `/proc`. Allocates nothing.
///
/// # Errors
/// The operating system refuses.
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
    fn a_held_process_is_read_and_killed_and_its_files_then_fail() {
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
        // At first it may wait for its program file.
        let begun = Instant::now();
        while held.has_uninterruptible_thread(10) {
            assert!(begun.elapsed() < Duration::from_secs(60), "it is in uninterruptible sleep");
            std::thread::yield_now();
        }
        assert!(!held.has_ended(Duration::ZERO));
        // For a living process the kernel refuses, which makes the call safe.
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
        let weight = crate::weight::Weight::of(&held, 1).unwrap();
        assert!(weight.own > 1 << 18, "{weight:?}");
        assert!(!held.has_ended(Duration::ZERO));
        held.kill().unwrap();
        assert!(held.has_ended(Duration::from_secs(60)));
        assert!(!held.try_clone().unwrap().follow_thread());
    }

    #[test]
    fn a_pending_kill_is_seen() {
        for (line, expected) in [
            ("SigPnd:\t0000000000000100", true),
            ("ShdPnd:\t0000000000000101", true),
            ("SigPnd:\t0000000000000080", false),
            ("SigBlk:\t0000000000000100", false),
            ("ShdPnd:\tx", false),
        ] {
            let text = format!("Name:\tx\n{line}\n");
            assert_eq!(is_killed(text.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn this_process_is_listed() {
        let processes = open_processes(&crate::Root::system()).unwrap();
        let mut is_listed = false;
        each_process(&processes, |number| is_listed |= number == std::process::id()).unwrap();
        assert!(is_listed);
    }
}
