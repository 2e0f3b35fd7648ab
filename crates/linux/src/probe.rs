//! Checks which features this kernel permits, and names what the user loses without each.
#![allow(unsafe_code, reason = "asks the kernel for calls that no safe wrapper has")]

use std::fs::OpenOptions;
use std::io;

use crate::cgroup::{Hierarchy, Version};
use crate::tracefs::Tracefs;
use crate::{Error, Root, fuse, nbd, process, zram};

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The feature can be used; with a note such as a version or a path, or "".
    Given(String),
    /// The feature cannot be used, for this reason.
    Refused(String),
}

/// A feature that pagewise may use, and its check.
pub struct Check {
    /// The name of the check, the same in all output.
    pub name: &'static str,
    /// What the user loses if it is refused.
    pub without_it: &'static str,
    /// Checks it, and leaves no trace.
    pub ask: fn(&Root) -> Grant,
}

/// All checks of this crate, in the order of lists.
pub const CATALOG: &[Check] = &[
    Check {
        name: "tracefs",
        without_it: "no recording and no killtrace without BPF",
        ask: tracefs,
    },
    Check {
        name: "btf",
        without_it: "BPF programs cannot follow this kernel's types: recordings fall back to tracefs",
        ask: |root| match btf(root) {
            Ok(()) => Grant::Given(String::new()),
            Err(why) => Grant::Refused(why),
        },
    },
    Check {
        name: "psi",
        without_it: "no stall times in recordings; killers only poll",
        ask: pressure,
    },
    Check {
        name: "memory-cgroup",
        without_it: "no memory budget for launch plans, no recording limited to a cgroup",
        ask: memory_cgroup,
    },
    Check {
        name: "freezer",
        without_it: "cached apps of a launch plan keep running in the background",
        ask: freezer,
    },
    Check {
        name: "swapon",
        without_it: "launch plans cannot add their own swap area",
        ask: swapon,
    },
    Check { name: "zram", without_it: "no compressed swap in memory", ask: compressed },
    Check {
        name: "zswap",
        without_it: "no compressed cache in front of a swap area",
        ask: |root| {
            present(root, "/sys/module/zswap/parameters/enabled", "the kernel was built without it")
        },
    },
    Check {
        name: "zram-writeback",
        without_it: "no swapd --through zram: a zram device cannot move pages to a disk",
        ask: zram_writeback,
    },
    Check {
        name: "ublk",
        without_it: "swapd serves through nbd or fuse-loop, more slowly",
        ask: |root| served_by(root, "/dev/ublk-control", "ublk_drv", "6.11"),
    },
    Check {
        name: "nbd",
        without_it: "swapd serves through ublk or fuse-loop",
        ask: |_| match nbd::probe() {
            Ok(()) => Grant::Given("network block devices".to_owned()),
            Err(error) => refused(&error),
        },
    },
    Check {
        name: "fuse-loop",
        without_it: "swapd serves only where ublk or nbd is granted",
        ask: fuse_loop,
    },
    Check {
        name: "process-madvise",
        without_it: "no prefetch for, or page-out of, another process",
        ask: |_| system_call(libc::SYS_process_madvise, libc::EBADF),
    },
    Check {
        name: "process-mrelease",
        without_it: "a killed process frees its memory only when its last thread exits",
        ask: |_| system_call(libc::SYS_process_mrelease, libc::EBADF),
    },
    Check {
        name: "mthp",
        without_it: "page sizes between 4 KiB and 2 MiB cannot be applied",
        ask: huge_page_sizes,
    },
];

fn refused(error: &Error) -> Grant {
    Grant::Refused(error.to_string())
}

fn present(root: &Root, path: &str, otherwise: &str) -> Grant {
    match root.exists(path) {
        true => Grant::Given(String::new()),
        false => Grant::Refused(format!("{otherwise} ({path} is missing)")),
    }
}

fn tracefs(root: &Root) -> Grant {
    match Tracefs::of(root) {
        Ok(own) if own.is_own() => {
            Grant::Given("not mounted; recorders mount it privately".to_owned())
        }
        Ok(mounted) => Grant::Given(format!("at {}", mounted.folder().display())),
        Err(why) => Grant::Refused(why),
    }
}

/// Checks whether the kernel has BTF, which the BPF programs of pagewise need.
///
/// # Errors
/// The reason why it has none.
pub fn btf(root: &Root) -> Result<(), String> {
    let path = "/sys/kernel/btf/vmlinux";
    match root.exists(path) {
        true => Ok(()),
        false => Err(format!("the kernel was built without BTF ({path} is missing)")),
    }
}

fn pressure(root: &Root) -> Grant {
    match crate::pressure::of_machine(root, "memory") {
        Ok(Some(_)) => Grant::Given(String::new()),
        Ok(None) => Grant::Refused("off or not built in; boot with psi=1".to_owned()),
        Err(error) => refused(&error),
    }
}

fn memory_cgroup(root: &Root) -> Grant {
    match Hierarchy::of(root, "memory") {
        Ok(Some(hierarchy)) => {
            let version = if hierarchy.version == Version::V1 { 1 } else { 2 };
            Grant::Given(format!("version {version} at {}", hierarchy.mount.display()))
        }
        Ok(None) => Grant::Refused("no hierarchy with the memory controller is mounted".to_owned()),
        Err(error) => refused(&error),
    }
}

fn freezer(root: &Root) -> Grant {
    let found = match Hierarchy::of(root, "memory") {
        // Version 2 freezes without a controller.
        Ok(Some(memory)) if memory.version == Version::V2 => Ok(Some(memory)),
        Ok(_) => Hierarchy::of(root, "freezer"),
        Err(error) => Err(error),
    };
    match found {
        Ok(Some(hierarchy)) => Grant::Given(format!("at {}", hierarchy.mount.display())),
        Ok(None) => Grant::Refused("no cgroup hierarchy with a freezer is mounted".to_owned()),
        Err(error) => refused(&error),
    }
}

fn swapon(root: &Root) -> Grant {
    if !root.exists("/proc/swaps") {
        return Grant::Refused("the kernel was built without swap".to_owned());
    }
    match process::own_mask(root, "CapEff") {
        Ok(Some(bits)) if bits & process::SYS_ADMIN != 0 => Grant::Given(String::new()),
        Ok(_) => Grant::Refused("needs root (CAP_SYS_ADMIN)".to_owned()),
        Err(error) => refused(&error),
    }
}

fn compressed(root: &Root) -> Grant {
    match zram::devices(root) {
        Ok(devices) if !devices.is_empty() => {
            let folder = format!("/sys/block/{}/comp_algorithm", devices[0]);
            let algorithms = root.read(folder).ok().flatten().unwrap_or_default();
            Grant::Given(format!("{} ({})", devices.join(", "), algorithms.trim()))
        }
        Ok(_) if root.exists("/sys/class/zram-control") => Grant::Given("no device yet".to_owned()),
        Ok(_) => Grant::Refused("no zram device; as root: `modprobe zram`".to_owned()),
        Err(error) => refused(&error),
    }
}

fn zram_writeback(root: &Root) -> Grant {
    let devices = match zram::devices(root) {
        Ok(devices) => devices,
        Err(error) => return refused(&error),
    };
    match devices.first() {
        Some(device) => present(
            root,
            &format!("/sys/block/{device}/backing_dev"),
            "the kernel was built without CONFIG_ZRAM_WRITEBACK",
        ),
        None => Grant::Refused("no zram device; as root: `modprobe zram`".to_owned()),
    }
}

/// Checks for the device `path` of a driver that lets a process serve a block device.
fn served_by(root: &Root, path: &str, module: &str, since: &str) -> Grant {
    match OpenOptions::new().read(true).write(true).open(root.path(path)) {
        Ok(_) => Grant::Given(path.to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Grant::Refused(format!(
            "{path} is missing; as root, if the kernel has it (Linux {since}): `modprobe {module}`"
        )),
        Err(error) => Grant::Refused(format!("{path}: {error}")),
    }
}

/// Makes a file system in user space that is mounted nowhere and ends at once, and looks for loop devices.
fn fuse_loop(root: &Root) -> Grant {
    for (path, module, since) in
        [("/dev/fuse", "fuse", "2.6"), ("/dev/loop-control", "loop", "5.8")]
    {
        let found = served_by(root, path, module, since);
        if matches!(found, Grant::Refused(_)) {
            return found;
        }
    }
    match fuse::Channel::mount("pagewise-doctor", 1 << 16) {
        Ok(_) => Grant::Given("a loop device over a file that a process serves".to_owned()),
        Err(error) => refused(&error),
    }
}

/// Checks whether the kernel has a system call: with invalid arguments it must do nothing and return the error
/// `expected`.
fn system_call(number: libc::c_long, expected: i32) -> Grant {
    // SAFETY: the descriptor is invalid and all other arguments are 0, so the kernel refuses before it
    // reads any memory.
    let result = unsafe { libc::syscall(number, -1, 0, 0, 0, 0) };
    let error = io::Error::last_os_error();
    match (result, error.raw_os_error()) {
        (-1, Some(code)) if code == expected => Grant::Given(String::new()),
        (-1, Some(libc::ENOSYS)) => Grant::Refused("this kernel does not have the call".to_owned()),
        _ => Grant::Refused(error.to_string()),
    }
}

fn huge_page_sizes(root: &Root) -> Grant {
    let folders = match root.list("/sys/kernel/mm/transparent_hugepage") {
        Ok(folders) => folders,
        Err(error) => return refused(&error),
    };
    let mut kibibytes: Vec<u64> = folders
        .iter()
        .filter_map(|name| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok())
        .collect();
    kibibytes.sort_unstable();
    let (Some(first), Some(last)) = (kibibytes.first(), kibibytes.last()) else {
        return Grant::Refused("needs Linux 6.8".to_owned());
    };
    Grant::Given(format!("{} sizes from {first} to {last} KiB", kibibytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_system_grants_no_feature_that_needs_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for check in CATALOG
            .iter()
            .filter(|check| !["process-madvise", "process-mrelease"].contains(&check.name))
        {
            let Grant::Refused(why) = (check.ask)(&root) else { panic!("{} is given", check.name) };
            assert!(!why.is_empty() && !check.without_it.is_empty());
        }
    }

    #[test]
    fn the_freezer_is_of_the_memory_controllers_version() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        std::fs::create_dir_all(root.path("/proc/self")).unwrap();
        std::fs::create_dir(root.path("/both")).unwrap();
        let controllers = root.path("/both/cgroup.controllers");
        let (memory, ice) = ("m /memory cgroup memory 0 0\n", "f /ice cgroup freezer 0 0\n");
        let both = "b /both cgroup2 rw 0 0\n";
        for (mounts, in_version_2, expected) in [
            (format!("{both}{memory}{ice}"), "cpu", Some("at /ice")),
            (format!("{both}{memory}"), "cpu", None),
            (both.to_owned(), "memory", Some("at /both")),
        ] {
            std::fs::write(root.path("/proc/self/mounts"), &mounts).unwrap();
            std::fs::write(&controllers, in_version_2).unwrap();
            let given = match super::freezer(&root) {
                Grant::Given(place) => Some(place),
                Grant::Refused(_) => None,
            };
            assert_eq!(given.as_deref(), expected, "{mounts}");
        }
    }

    #[test]
    fn a_call_that_no_kernel_has_is_refused() {
        assert!(matches!(system_call(1 << 20, libc::EBADF), Grant::Refused(_)));
    }
}
