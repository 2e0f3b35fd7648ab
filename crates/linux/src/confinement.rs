//! What keeps a process from dying or running at once: a frozen group of version 1, or a limit of processor time.
//! Looking allocates nothing, since it happens when memory is short.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{read, write};

use crate::Root;
use crate::cgroup::{Hierarchy, Version};
use crate::kernel_file::number;
use crate::membership::controller_group;

/// The hierarchies that show whether a group is frozen or limited.
#[derive(Debug)]
pub struct Confinement {
    /// The freezer of version 1, whose frozen processes do not die.
    freezer: Option<String>,
    /// The mount point and the name of the processor controller, and the file with its limit.
    processor: Option<(String, &'static str, &'static str)>,
}

/// The file with the state of a group in the freezer of version 1.
#[derive(Debug)]
pub struct FreezerState(GroupFile);

/// A file in a group, by a path of bounded length.
#[derive(Debug)]
struct GroupFile {
    bytes: [u8; 1024],
    length: usize,
}

impl Confinement {
    /// Finds the hierarchies of this machine.
    pub fn find(root: &Root) -> Confinement {
        let mount = |controller| {
            let found = Hierarchy::of(root, controller).ok().flatten()?;
            Some((found.mount.to_str()?.to_owned(), found.version))
        };
        Confinement {
            freezer: mount("freezer").filter(|(_, version)| *version == Version::V1).map(|of| of.0),
            processor: mount("cpu").map(|(mount, version)| match version {
                Version::V1 => (mount, "cpu", "cpu.cfs_quota_us"),
                Version::V2 => (mount, "", "cpu.max"),
            }),
        }
    }

    /// The state of the group in the freezer of version 1 if it is frozen; `groups` is the text of
    /// `/proc/PID/cgroup`.
    pub fn frozen(&self, groups: &[u8]) -> Option<FreezerState> {
        let group = controller_group(groups, b"freezer")?;
        let state = GroupFile::new(self.freezer.as_ref()?, group, "freezer.state")?;
        let mut buffer = [0; 32];
        // FROZEN, or FREEZING while some of it still stops.
        state.read(&mut buffer)?.starts_with(b"FR").then_some(FreezerState(state))
    }

    /// Whether the group has a limit of processor time; `groups` is the text of `/proc/PID/cgroup`.
    pub fn has_processor_limit(&self, groups: &[u8]) -> bool {
        let limit = || {
            let (mount, controller, name) = self.processor.as_ref()?;
            let group = controller_group(groups, controller.as_bytes())?;
            let mut buffer = [0; 64];
            // "max" and "-1" mean no limit.
            number(GroupFile::new(mount, group, name)?.read(&mut buffer)?)
        };
        limit().is_some()
    }

    /// Freezes the group with the state file `state` if it is thawed; returns whether it was. Other files than states
    /// of the freezer stay as they are.
    pub fn freeze_again(&self, state: &Path) -> bool {
        let is_state = self.freezer.as_ref().is_some_and(|mount| {
            let below = state.strip_prefix(mount).ok();
            below.is_some_and(|below| {
                below.ends_with("freezer.state")
                    && below.components().all(|part| matches!(part, Component::Normal(_)))
            })
        });
        let is_thawed = || std::fs::read(state).is_ok_and(|text| text.starts_with(b"THAWED"));
        is_state && is_thawed() && std::fs::write(state, "FROZEN").is_ok()
    }
}

impl FreezerState {
    /// Thaws the group; returns whether the kernel did it.
    pub fn thaw(&self) -> bool {
        self.0.write(b"THAWED")
    }

    /// Freezes the group; returns whether the kernel did it.
    pub fn freeze(&self) -> bool {
        self.0.write(b"FROZEN")
    }

    /// The path of the file.
    pub fn path(&self) -> Option<&CStr> {
        self.0.path()
    }
}

impl GroupFile {
    /// None if the path is too long.
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

    fn open(&self, flags: OFlags) -> Option<OwnedFd> {
        openat(CWD, self.path()?, flags | OFlags::CLOEXEC, Mode::empty()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_frozen_and_limited_if_its_files_say_so() {
        let folder = tempfile::tempdir().unwrap();
        let mount = folder.path().to_str().unwrap().to_owned();
        std::fs::create_dir(folder.path().join("app")).unwrap();
        let confinement = Confinement {
            freezer: Some(mount.clone()),
            processor: Some((mount, "cpu", "cpu.cfs_quota_us")),
        };
        let groups = b"3:freezer:/app\n2:cpu,cpuacct:/app\n";
        let state = folder.path().join("app/freezer.state");
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join("app").join(name), text).unwrap();
        };
        assert!(confinement.frozen(groups).is_none());
        for (text, quota, expected) in [
            ("THAWED\n", "-1\n", false),
            ("FREEZING\n", "1\n", true),
            ("FROZEN\n", "20000\n", true),
        ] {
            write("freezer.state", text);
            write("cpu.cfs_quota_us", quota);
            assert_eq!(confinement.frozen(groups).is_some(), expected, "{text}");
            assert_eq!(confinement.has_processor_limit(groups), expected, "{quota}");
        }
        let frozen = confinement.frozen(groups).unwrap();
        assert!(frozen.thaw() && confinement.frozen(groups).is_none());
        assert!(frozen.freeze() && confinement.frozen(groups).is_some());
        assert_eq!(frozen.path().unwrap().to_str().unwrap(), state.to_str().unwrap());
        assert!(!confinement.has_processor_limit(b"0::/app\n"));
        assert!(GroupFile::new("/x", &[b'y'; 1024], "z").is_none());
    }

    #[test]
    fn only_a_thawed_state_below_the_freezer_is_frozen_again() {
        let folder = tempfile::tempdir().unwrap();
        let mount = folder.path().join("freezer");
        std::fs::create_dir_all(mount.join("app")).unwrap();
        let freezer = Some(mount.to_str().unwrap().to_owned());
        let confinement = Confinement { freezer, processor: None };
        let state = mount.join("app/freezer.state");
        let outside = folder.path().join("freezer.state");
        let around = mount.join("../freezer.state");
        for path in [&state, &outside] {
            std::fs::write(path, "THAWED\n").unwrap();
        }
        for (path, expected) in
            [(&outside, false), (&around, false), (&state, true), (&state, false)]
        {
            assert_eq!(confinement.freeze_again(path), expected, "{}", path.display());
        }
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "THAWED\n");
        assert_eq!(std::fs::read_to_string(&state).unwrap(), "FROZEN");
    }
}
