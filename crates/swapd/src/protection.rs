//! What keeps a swap server alive and out of its own way: its memory stays, the OOM killer does not choose it, and
//! its allocations do not wait for a swap-out that it has to serve.
//!
//! A refusal is a note, not an error: in a container the kernel grants less, and the server works all the same until
//! memory is very short.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use linux::cgroup::Hierarchy;
use linux::{Root, membership, process};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::configure_io_flusher_behavior;

use crate::Error;

/// The `oom_score_adj` of a server: the kernel's OOM killer and killd never kill it.
const OWN_ADJ: &str = "-1000";
/// The nice value of the thread that serves: programs wait for it.
const OWN_NICE: i32 = -10;

/// Locks all memory of this process, present and future, and takes it from the OOM killer's list. Returns what was
/// refused.
pub fn of_process(root: &Root) -> Vec<String> {
    let mut refused = Vec::new();
    if let Err(error) = std::fs::write(root.path("/proc/self/oom_score_adj"), OWN_ADJ) {
        refused.push(format!("oom_score_adj {OWN_ADJ}: {error}; the OOM killer may kill swapd"));
    }
    if let Err(error) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE) {
        refused.push(format!("mlockall: {error}; swapd may wait for its own swap area"));
    }
    refused
}

/// Lets the calling thread allocate without waiting for swap-outs (PR_SET_IO_FLUSHER), and ranks it before ordinary
/// threads. Returns what was refused.
pub fn of_thread() -> Vec<String> {
    let mut refused = Vec::new();
    if let Err(error) = configure_io_flusher_behavior(true) {
        refused.push(format!(
            "PR_SET_IO_FLUSHER: {error}; when no memory is free, swapd may wait for itself"
        ));
    }
    if let Err(error) = process::rank_this_thread(OWN_NICE) {
        refused.push(format!("nice {OWN_NICE}: {error}; faults wait longer on a busy machine"));
    }
    refused
}

/// Checks that no memory cgroup limits this process: what it holds for all programs would count against that limit.
///
/// # Errors
/// A cgroup does.
pub fn check_groups(root: &Root) -> Result<(), Error> {
    let Some(hierarchy) = Hierarchy::of(root, "memory")? else { return Ok(()) };
    let text = root.read("/proc/self/cgroup")?.unwrap_or_default();
    let own = membership::memory_group(text.as_bytes()).unwrap_or_default();
    let path = PathBuf::from(OsStr::from_bytes(own));
    let total =
        linux::gauge::Gauge::open(root, None)?.read(false).map_or(u64::MAX, |memory| memory.total);
    let name = hierarchy.version.limit_name();
    for group in path.ancestors() {
        let below = group.strip_prefix("/").unwrap_or(group);
        let file = hierarchy.mount.join(below).join(name);
        // The root group of version 2 has no limit.
        let Some(text) = root.read(&file)? else { continue };
        if let Some(bytes) = text.trim().parse().ok().filter(|&bytes: &u64| bytes < total) {
            return Err(limited(group, bytes));
        }
    }
    Ok(())
}

fn limited(group: &Path, bytes: u64) -> Error {
    Error::Refused(format!(
        "swapd runs in the memory cgroup {}, which is limited to {} MiB: the kernel would take memory from \
         the server of its own swap; start it outside, as a system service does",
        group.display(),
        bytes >> 20
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_limit_of_any_parent_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for folder in ["/proc/self", "/m/a/b"] {
            fs::create_dir_all(root.path(folder)).unwrap();
        }
        let write = |path: &str, text: &str| fs::write(root.path(path), text).unwrap();
        write("/proc/self/mounts", "m /m cgroup memory 0 0\n");
        write("/proc/meminfo", "MemTotal: 2048 kB\nMemFree: 1024 kB\nMemAvailable: 1024 kB\n");
        write("/proc/self/cgroup", "4:memory:/a/b\n");
        write("/m/memory.limit_in_bytes", "9223372036854771712\n");
        write("/m/a/b/memory.limit_in_bytes", "9223372036854771712\n");
        check_groups(&root).unwrap();
        write("/m/a/memory.limit_in_bytes", "1048576\n");
        let error = check_groups(&root).unwrap_err().to_string();
        assert!(error.contains("cgroup /a, which is limited to 1 MiB"), "{error}");
    }
}
