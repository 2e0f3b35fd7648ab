//! Processes: what `/proc` says of them, how they begin in a cgroup and end.
#![allow(unsafe_code, reason = "a child joins its cgroups between fork and exec")]

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal};

use crate::{Error, Root};

/// Numbers of all processes, in order.
///
/// # Errors
/// What the operating system refuses.
pub fn all(root: &Root) -> Result<Vec<u32>, Error> {
    let mut processes: Vec<u32> =
        root.list("/proc")?.iter().filter_map(|name| name.parse().ok()).collect();
    processes.sort_unstable();
    Ok(processes)
}

/// The command name of a process, at most 15 bytes; none once it has ended.
pub fn name(root: &Root, process: u32) -> Option<String> {
    // A process may end between being listed and being read; its file then refuses.
    let text = root.read(format!("/proc/{process}/comm")).ok()??;
    Some(text.trim_end_matches('\n').to_owned())
}

/// Starts `command` as the leader of a process group of its own, inside the cgroups whose files
/// `entrances` are: it runs no instruction of its program outside them.
///
/// # Errors
/// A group that takes no process, or a program that cannot be run.
pub fn start(root: &Root, command: &mut Command, entrances: &[PathBuf]) -> Result<Child, Error> {
    let mut files = Vec::new();
    for path in entrances {
        let file = OpenOptions::new().write(true).open(root.path(path));
        files.push(file.map_err(|error| Error::refused("open", path, error))?);
    }
    let join = move || {
        // The kernel takes 0 for whoever writes it.
        files.iter_mut().try_for_each(|file| file.write_all(b"0"))
    };
    // SAFETY: the closure runs in the child between fork and exec, where only calls that are safe
    // in signal handlers may be made: it makes `write` alone, with files opened before.
    unsafe { command.process_group(0).pre_exec(join) };
    let program = command.get_program().to_owned();
    command.spawn().map_err(|error| Error::refused("run", program, error))
}

/// Whether this program may change the machine.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this program was started with `signal` ignored.
pub fn ignores(root: &Root, signal: i32) -> bool {
    let status = root.read("/proc/self/status").ok().flatten().unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    // Signals count from 1.
    signal > 0 && mask.checked_shr(signal as u32 - 1).is_some_and(|rest| rest & 1 == 1)
}

/// Tells a process to end at once; one that has ended already is no matter.
pub fn kill(process: u32) {
    send(process, Signal::KILL);
}

/// Asks a process to end; one that has ended already is no matter.
pub fn terminate(process: u32) {
    send(process, Signal::TERM);
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
    fn what_nohup_ignores_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert!(!ignores(&root, 1));
        std::fs::create_dir_all(root.path("/proc/self")).unwrap();
        let status = "SigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\n";
        std::fs::write(root.path("/proc/self/status"), status).unwrap();
        assert_eq!([1, 2, 13, 0].map(|signal| ignores(&root, signal)), [true, false, true, false]);
    }
}
