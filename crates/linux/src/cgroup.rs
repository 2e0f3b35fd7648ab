//! Memory control groups of version 1 (a hierarchy per controller) and version 2 (one hierarchy).

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags, RawDir};
use rustix::io::{Errno, read};

use crate::counters::{self, Counters};
use crate::root::open_at;
use crate::{Error, KernelSetting, Root, unescape};

/// The version of the hierarchy that the memory controller belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Version 1: `memory.limit_in_bytes` and related files.
    V1,
    /// Version 2: `memory.max` and related files.
    V2,
}

impl Version {
    /// The name of the file with a group's limit.
    pub fn limit_name(self) -> &'static str {
        match self {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        }
    }
}

/// A mounted hierarchy with a certain controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// The mount point of the hierarchy.
    pub mount: PathBuf,
    /// The version of the hierarchy.
    pub version: Version,
}

/// A memory cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryGroup {
    /// The absolute path of its folder.
    pub folder: PathBuf,
    /// The version of its hierarchy.
    pub version: Version,
    /// The kernel's number for it: the inode of its folder.
    pub id: u64,
    /// The depth of the group below the root of the hierarchy.
    pub level: u32,
}

impl Hierarchy {
    /// Finds the hierarchy with `controller`; None if it is not mounted.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn of(root: &Root, controller: &str) -> Result<Option<Hierarchy>, Error> {
        let mounts = root.read("/proc/self/mounts")?.unwrap_or_default();
        for line in mounts.lines() {
            let mut fields = line.split_whitespace();
            let (Some(mount), Some(kind), Some(options)) =
                (fields.nth(1), fields.next(), fields.next())
            else {
                continue;
            };
            let mount = unescape(mount);
            let has_it = match kind {
                "cgroup" => options.split(',').any(|option| option == controller),
                "cgroup2" => root
                    .read(mount.join("cgroup.controllers"))?
                    .is_some_and(|names| names.split_whitespace().any(|name| name == controller)),
                _ => false,
            };
            if has_it {
                let version = if kind == "cgroup" { Version::V1 } else { Version::V2 };
                return Ok(Some(Hierarchy { mount, version }));
            }
        }
        Ok(None)
    }

    /// Finds the hierarchy with `controller`.
    ///
    /// # Errors
    /// The controller is not mounted, or the operating system refuses.
    pub fn required(root: &Root, controller: &str) -> Result<Hierarchy, Error> {
        Hierarchy::of(root, controller)?.ok_or_else(|| {
            let what = format!(
                "no cgroup hierarchy with the controller {controller} is mounted; as root: mount \
                 -t cgroup -o {controller} cgroup FOLDER"
            );
            Error::unexpected("/proc/self/mounts", what)
        })
    }

    /// Finds the group at `path`, which is absolute, or relative to the root of the hierarchy as in
    /// `/proc/PID/cgroup`.
    ///
    /// # Errors
    /// The path is not a cgroup of this hierarchy, or the operating system refuses.
    pub fn group(&self, root: &Root, path: &Path) -> Result<MemoryGroup, Error> {
        let folder = match path.starts_with(&self.mount) {
            true => path.to_owned(),
            false => self.mount.join(path.strip_prefix("/").unwrap_or(path)),
        };
        let below = folder.strip_prefix(&self.mount).expect("it was joined to the mount above");
        let level = below.components().count() as u32;
        let mount = self.mount.display();
        let list = format!("to list its cgroups: find {mount} -type d");
        let metadata = std::fs::metadata(root.path(&folder)).map_err(|error| {
            let what = format!("find the memory cgroup below {mount} ({list})");
            Error::refused(&what, &folder, error)
        })?;
        if !root.exists(folder.join("cgroup.procs")) {
            let what = format!("is not a cgroup of the hierarchy at {mount}; {list}");
            return Err(Error::unexpected(folder, what));
        }
        Ok(MemoryGroup { folder, version: self.version, id: metadata.ino(), level })
    }
}

impl MemoryGroup {
    /// Finds the group at `path`, which is absolute, or relative to the root of the hierarchy.
    ///
    /// # Errors
    /// The memory controller is not mounted, the path is not a cgroup of its hierarchy, or the operating
    /// system refuses.
    pub fn at(root: &Root, path: &Path) -> Result<MemoryGroup, Error> {
        Hierarchy::required(root, "memory")?.group(root, path)
    }

    /// The setting that limits its memory to `bytes`.
    pub fn limit(&self, bytes: u64) -> KernelSetting {
        KernelSetting::new(self.folder.join(self.version.limit_name()), bytes)
    }

    /// The PIDs of processes in the group and in groups below it.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn processes(&self, root: &Root) -> Result<Vec<u32>, Error> {
        let mut found = Vec::new();
        let walked = root.open_folder(&self.folder).and_then(|folder| {
            each_process_below(&folder, &mut |process| found.push(process))
                .map_err(|error| Error::refused("list processes of", &self.folder, error.into()))
        });
        match walked {
            // A group that was removed.
            Err(_) if !root.exists(&self.folder) => Ok(Vec::new()),
            walked => walked.map(|()| found),
        }
    }

    /// Reads `memory.stat`; None if the group was removed.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn statistics(&self, root: &Root) -> Result<Option<Counters>, Error> {
        match root.read(self.folder.join("memory.stat")) {
            Ok(text) => Ok(text.map(|text| counters::parse(&text))),
            // The group was removed while its file was opened.
            Err(_) if !root.exists(&self.folder) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The deepest level of groups that is walked.
const DEPTH_MAX: u32 = 16;

/// Calls `each` with the PID of every process in the group of `folder` and in groups below it. Allocates
/// nothing: it runs when memory is short.
///
/// # Errors
/// The operating system refuses, such as for a removed group.
pub fn each_process_below(folder: &OwnedFd, each: &mut dyn FnMut(u32)) -> Result<(), Errno> {
    walk(folder, DEPTH_MAX, each)
}

fn walk(folder: &OwnedFd, depth: u32, each: &mut dyn FnMut(u32)) -> Result<(), Errno> {
    each_number(&open_at(folder, c"cgroup.procs", OFlags::empty())?, each)?;
    if depth == 0 {
        return Ok(());
    }
    let listed = open_at(folder, c".", OFlags::DIRECTORY)?;
    let mut buffer = [std::mem::MaybeUninit::uninit(); 1024];
    let mut entries = RawDir::new(&listed, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let is_below = entry.file_type() == FileType::Directory
            && !matches!(entry.file_name().to_bytes(), b"." | b"..");
        if is_below && let Ok(below) = open_at(&listed, entry.file_name(), OFlags::DIRECTORY) {
            // A group that is being removed has no processes.
            let _ = walk(&below, depth - 1, each);
        }
    }
    Ok(())
}

/// Calls `each` with every number of a file that has one number per line.
fn each_number(file: &OwnedFd, each: &mut dyn FnMut(u32)) -> Result<(), Errno> {
    let mut buffer = [0; 512];
    let mut number: Option<u32> = None;
    loop {
        let length = read(file, &mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        // A number may continue in the next piece.
        for &byte in &buffer[..length] {
            number = match byte {
                b'0'..=b'9' => {
                    let before = number.unwrap_or(0);
                    Some(before.wrapping_mul(10).wrapping_add(u32::from(byte - b'0')))
                }
                _ => {
                    number.into_iter().for_each(&mut *each);
                    None
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn machine(mounts: &str) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("proc/self")).unwrap();
        fs::write(folder.path().join("proc/self/mounts"), mounts).unwrap();
        let root = Root::at(folder.path());
        (folder, root)
    }

    #[test]
    fn both_versions_are_found() {
        let (_folder, root) = machine("cgroup /sys/fs/memory\\040limits cgroup rw,memory 0 0\n");
        let hierarchy = Hierarchy::of(&root, "memory").unwrap().unwrap();
        assert_eq!(hierarchy.version, Version::V1);
        assert_eq!(hierarchy.mount, Path::new("/sys/fs/memory limits"));

        let (folder, root) = machine("none /sys/fs/cgroup cgroup2 rw 0 0\n");
        assert_eq!(Hierarchy::of(&root, "memory").unwrap(), None);
        let mount = folder.path().join("sys/fs/cgroup");
        fs::create_dir_all(mount.join("apps/one")).unwrap();
        fs::write(mount.join("cgroup.controllers"), "cpu memory pids\n").unwrap();
        let hierarchy = Hierarchy::of(&root, "memory").unwrap().unwrap();
        assert_eq!(hierarchy.version, Version::V2);

        let error = hierarchy.group(&root, Path::new("apps/one")).unwrap_err().to_string();
        assert!(error.contains("is not a cgroup"), "{error}");
        assert!(error.contains("to list its cgroups: find /sys/fs/cgroup -type d"), "{error}");
        let error = hierarchy.group(&root, Path::new("absent")).unwrap_err();
        assert_eq!(error.io_kind(), Some(std::io::ErrorKind::NotFound));
        let error = error.to_string();
        assert!(error.contains("to list its cgroups: find /sys/fs/cgroup -type d"), "{error}");
        fs::write(mount.join("apps/one/cgroup.procs"), "").unwrap();
        fs::write(mount.join("apps/one/memory.stat"), "anon 4096\n").unwrap();
        for path in ["apps/one", "/apps/one", "/sys/fs/cgroup/apps/one"] {
            let group = hierarchy.group(&root, Path::new(path)).unwrap();
            assert_eq!(group.level, 2);
            assert_eq!(group.statistics(&root).unwrap().unwrap()["anon"], 4096);
        }

        fs::write(mount.join("cgroup.procs"), "1\n").unwrap();
        fs::write(mount.join("apps/one/cgroup.procs"), "12\n13\n").unwrap();
        let all = hierarchy.group(&root, Path::new("/")).unwrap();
        // The folder between has no cgroup.procs, so it is not a cgroup.
        assert_eq!((all.level, all.processes(&root).unwrap()), (0, vec![1]));
        fs::write(mount.join("apps/cgroup.procs"), "").unwrap();
        assert_eq!(all.processes(&root).unwrap(), [1, 12, 13]);
        let many: String = (1000..2000).map(|number| format!("{number}\n")).collect();
        fs::write(mount.join("apps/one/cgroup.procs"), many).unwrap();
        let mut found = all.processes(&root).unwrap();
        found.sort_unstable();
        assert_eq!(found, [1].into_iter().chain(1000..2000).collect::<Vec<u32>>());
        fs::remove_dir_all(mount).unwrap();
        assert_eq!(all.processes(&root).unwrap(), [0; 0]);
    }
}
