//! Cgroups to run programs in: a group with a memory limit for all programs, and a group per program that
//! can be frozen. Version 1 has the two in separate hierarchies, version 2 nests them.
//!
//! A change is data ([`KernelSetting`]), so that a caller can show it before applying it.

use std::fmt::Debug;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cgroup::{Hierarchy, Version};
use crate::counters::{self, Counters};
use crate::{Error, KernelSetting, Root, process};

mod v1;
mod v2;

pub use v1::V1;
pub use v2::V2;

/// How long processes may take to die, and groups to be removed: exits read swap, and version 1
/// frees the kernel memory of dead groups later.
const END_WITHIN: Duration = Duration::from_secs(30);

/// How long tasks may take to stop: a task that waits for a swapped page stops when it has the page.
const FREEZE_WITHIN: Duration = Duration::from_secs(2);

const POLL_EVERY: Duration = Duration::from_millis(5);

/// The memory that a group uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All bytes that are charged to it.
    pub memory_bytes: u64,
    /// Bytes of anonymous memory, without swapped-out pages.
    pub anonymous_bytes: u64,
}

/// The files of a version of cgroups.
pub trait Layout: Debug + Send + Sync {
    /// The version.
    fn version(&self) -> Version;
    /// The group with the limit.
    fn memory(&self) -> &Path;
    /// The group whose children each hold a program.
    fn programs(&self) -> &Path;
    /// The settings that groups need before they can have limits, each with the setting that undoes it.
    ///
    /// # Errors
    /// The operating system refuses.
    fn preparation(&self, root: &Root) -> Result<Vec<(KernelSetting, KernelSetting)>, Error>;
    /// The settings that limit memory to `bytes`.
    fn limit(&self, bytes: u64) -> Vec<KernelSetting>;
    /// The settings that keep the group out of swap; `bytes` is its limit, which is already set.
    fn without_swap(&self, root: &Root, bytes: u64) -> Vec<KernelSetting>;
    /// The settings that permit limits for groups inside the group with the limit.
    fn nested_limits(&self) -> Vec<KernelSetting>;
    /// The setting of swappiness, 0 to 200: of the group, or of the machine if groups have none.
    fn swappiness(&self, value: u32) -> KernelSetting;
    /// The setting that freezes or thaws a program.
    fn freeze(&self, program: &str, is_frozen: bool) -> KernelSetting;
    /// Whether every task of a program has stopped.
    ///
    /// # Errors
    /// The operating system refuses.
    fn is_frozen(&self, root: &Root, program: &str) -> Result<bool, Error>;
    /// The file with the bytes that are charged to the group, and the line of `memory.stat` with its
    /// anonymous bytes.
    fn usage_names(&self) -> (&'static str, &'static str);
    /// The file whose line `oom_kill` counts the processes of the group that the OOM killer killed.
    fn kills_name(&self) -> &'static str;
}

/// The layout for groups named `name` on this machine: in the hierarchy of the memory controller, and of
/// the freezer of the same version.
///
/// # Errors
/// A controller is not mounted, or the operating system refuses.
pub fn layout(root: &Root, name: &str) -> Result<Box<dyn Layout>, Error> {
    let memory = Hierarchy::required(root, "memory")?;
    match memory.version {
        Version::V2 => Ok(Box::new(V2::new(&memory.mount, name))),
        Version::V1 => {
            let freezer = Hierarchy::required(root, "freezer")?;
            Ok(Box::new(V1::new(&memory.mount, &freezer.mount, name)))
        }
    }
}

/// Groups of earlier runs: all whose name begins with `prefix`.
///
/// # Errors
/// The operating system refuses.
pub fn left_over(root: &Root, prefix: &str) -> Result<Vec<PathBuf>, Error> {
    let layout = layout(root, prefix)?;
    let mut found = Vec::new();
    for folder in [layout.memory(), layout.programs()] {
        let Some(parent) = folder.parent() else { continue };
        let names = root.list(parent)?.into_iter().filter(|name| name.starts_with(prefix));
        found.extend(names.map(|name| parent.join(name)));
    }
    found.dedup();
    Ok(found)
}

/// Creates the group at `folder`, and missing parents.
///
/// # Errors
/// The operating system refuses.
pub fn create(root: &Root, folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(root.path(folder))
        .map_err(|error| Error::refused("make the cgroup", folder, error))
}

/// The files to which a process writes its PID to join a program's groups.
pub fn entrances(layout: &dyn Layout, program: &str) -> Vec<PathBuf> {
    let own = layout.programs().join(program).join("cgroup.procs");
    match layout.version() {
        Version::V1 => vec![layout.memory().join("cgroup.procs"), own],
        Version::V2 => vec![own],
    }
}

/// Reads the usage of the group with the limit.
///
/// # Errors
/// The operating system refuses.
pub fn usage(root: &Root, layout: &dyn Layout) -> Result<Usage, Error> {
    let (charged, anonymous) = layout.usage_names();
    let text = root.read(layout.memory().join(charged))?.unwrap_or_default();
    let statistics: Counters = root
        .read(layout.memory().join("memory.stat"))?
        .map(|text| counters::parse(&text))
        .unwrap_or_default();
    let memory_bytes = text.trim().parse().unwrap_or(0);
    // The statistics may be 2 s old (mm/memcontrol.c, FLUSH_TIME), but the charged bytes are current and
    // no longer include memory that was just freed.
    let anonymous_bytes = statistics.get(anonymous).copied().unwrap_or(0).min(memory_bytes);
    Ok(Usage { memory_bytes, anonymous_bytes })
}

/// The number of processes of the group with the limit that the OOM killer has killed; None if the kernel does
/// not count them.
///
/// # Errors
/// The operating system refuses.
pub fn oom_kills(root: &Root, layout: &dyn Layout) -> Result<Option<u64>, Error> {
    let text = root.read(layout.memory().join(layout.kills_name()))?;
    Ok(text.and_then(|text| counters::parse(&text).get("oom_kill").copied()))
}

/// The processes in the group at `folder`; empty if there is no such group.
///
/// # Errors
/// The operating system refuses.
pub fn processes(root: &Root, folder: &Path) -> Result<Vec<u32>, Error> {
    match root.read(folder.join("cgroup.procs")) {
        Ok(text) => Ok(text.unwrap_or_default().lines().flat_map(str::parse).collect()),
        // A group that was being removed.
        Err(_) if !root.exists(folder) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Freezes a program; false if some of its tasks did not stop in time.
///
/// # Errors
/// The operating system refuses.
pub fn freeze(root: &Root, layout: &dyn Layout, program: &str) -> Result<bool, Error> {
    layout.freeze(program, true).apply(root)?;
    let late = Instant::now() + FREEZE_WITHIN;
    while !layout.is_frozen(root, program)? {
        if Instant::now() > late {
            return Ok(false);
        }
        std::thread::sleep(POLL_EVERY);
    }
    Ok(true)
}

/// Kills every process of a program, frozen or not, and waits for their end. Then thaws the group, even
/// if the kernel killed the program while it was frozen, so that it can be started again.
///
/// # Errors
/// A process does not die in time, or the operating system refuses.
pub fn end(root: &Root, layout: &dyn Layout, program: &str) -> Result<(), Error> {
    let folder = layout.programs().join(program);
    if !root.exists(&folder) {
        return Ok(());
    }
    let thaw = || layout.freeze(program, false).apply(root);
    end_processes(root, &folder, thaw)?;
    thaw()
}

/// Kills every program and removes all groups.
///
/// # Errors
/// A process does not die in time, or the operating system refuses.
pub fn remove(root: &Root, layout: &dyn Layout) -> Result<(), Error> {
    for program in root.list(layout.programs())? {
        let folder = layout.programs().join(&program);
        if root.exists(folder.join("cgroup.procs")) {
            let ended = end(root, layout, &program);
            // The creator of a group may remove it meanwhile.
            if root.exists(&folder) {
                ended?;
                remove_folder(root, &folder)?;
            }
        }
    }
    // Groups inside the group with the limit, which version 1 has in a separate hierarchy.
    for nested in root.list(layout.memory())? {
        let folder = layout.memory().join(&nested);
        if root.exists(folder.join("cgroup.procs")) {
            remove_group(root, &folder)?;
        }
    }
    // A process may have joined the first group and not yet the second.
    end_processes(root, layout.memory(), || Ok(()))?;
    remove_folder(root, layout.programs())?;
    remove_folder(root, layout.memory())
}

/// Kills every process of a group that has no groups below it, and removes the group.
///
/// # Errors
/// A process does not die in time, or the operating system refuses.
pub fn remove_group(root: &Root, folder: &Path) -> Result<(), Error> {
    end_processes(root, folder, || Ok(()))?;
    remove_folder(root, folder)
}

fn end_processes(
    root: &Root,
    folder: &Path,
    thaw: impl Fn() -> Result<(), Error>,
) -> Result<(), Error> {
    let late = Instant::now() + END_WITHIN;
    loop {
        let alive = processes(root, folder)?;
        if alive.is_empty() {
            return Ok(());
        }
        alive.iter().for_each(|&process| process::kill(process));
        // In version 1 a frozen process does not die. Thawed after SIGKILL, it runs nothing before it dies.
        thaw()?;
        if Instant::now() > late {
            let what = format!("processes that do not end: {alive:?}");
            return Err(Error::unexpected(folder, what));
        }
        std::thread::sleep(POLL_EVERY);
    }
}

fn remove_folder(root: &Root, folder: &Path) -> Result<(), Error> {
    let late = Instant::now() + END_WITHIN;
    loop {
        match fs::remove_dir(root.path(folder)) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if Instant::now() > late => {
                return Err(Error::refused("remove the cgroup", folder, error));
            }
            Err(_) => std::thread::sleep(POLL_EVERY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder laid out like a system with version 2, with one program.
    fn version_2() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let program = root.path("/cgroup/launch/notes");
        fs::create_dir_all(&program).unwrap();
        fs::create_dir_all(root.path("/proc/self")).unwrap();
        let write = |path: &str, text: &str| fs::write(root.path(path), text).unwrap();
        write("/proc/self/mounts", "none /cgroup cgroup2 rw 0 0\n");
        write("/cgroup/cgroup.controllers", "cpu memory\n");
        write("/cgroup/cgroup.subtree_control", "");
        for file in ["memory.max", "memory.swap.max", "notes/cgroup.freeze"] {
            write(&format!("/cgroup/launch/{file}"), "");
        }
        write("/cgroup/launch/memory.current", "8192\n");
        write("/cgroup/launch/memory.stat", "anon 4096\nfile 4096\n");
        write("/cgroup/launch/notes/cgroup.procs", "17\n18\n");
        write("/cgroup/launch/notes/cgroup.events", "populated 1\nfrozen 1\n");
        (folder, root)
    }

    #[test]
    fn version_2_nests_the_groups_of_programs() {
        let (_folder, root) = version_2();
        let layout = layout(&root, "launch").unwrap();
        let layout = layout.as_ref();
        assert_eq!(layout.version(), Version::V2);
        let prepared = layout.preparation(&root).unwrap();
        assert_eq!((&*prepared[0].0.value, &*prepared[0].1.value), ("+memory", "-memory"));
        fs::write(root.path("/cgroup/cgroup.subtree_control"), "memory\n").unwrap();
        assert_eq!(layout.preparation(&root).unwrap(), []);

        for setting in layout.limit(1 << 20).iter().chain(&layout.without_swap(&root, 1 << 20)) {
            setting.apply(&root).unwrap();
        }
        let read = |path: &str| root.read(path).unwrap().unwrap();
        assert_eq!(read("/cgroup/launch/memory.max"), "1048576");
        assert_eq!(read("/cgroup/launch/memory.swap.max"), "0");
        assert_eq!(
            usage(&root, layout).unwrap(),
            Usage { memory_bytes: 8192, anonymous_bytes: 4096 }
        );
        assert_eq!(oom_kills(&root, layout).unwrap(), None);
        fs::write(root.path("/cgroup/launch/memory.events"), "oom 3\noom_kill 2\n").unwrap();
        assert_eq!(oom_kills(&root, layout).unwrap(), Some(2));

        let program = Path::new("/cgroup/launch/notes");
        assert_eq!(entrances(layout, "notes"), [program.join("cgroup.procs")]);
        assert_eq!(processes(&root, program).unwrap(), [17, 18]);
        assert!(freeze(&root, layout, "notes").unwrap());
        assert_eq!(read("/cgroup/launch/notes/cgroup.freeze"), "1");
        assert_eq!(left_over(&root, "lau").unwrap(), [Path::new("/cgroup/launch")]);

        // The state after the OOM killer killed a frozen program.
        fs::write(root.path(program.join("cgroup.procs")), "").unwrap();
        end(&root, layout, "notes").unwrap();
        assert_eq!(read("/cgroup/launch/notes/cgroup.freeze"), "0");
        assert!(left_over(&root, "other").unwrap().is_empty());
    }

    #[test]
    fn version_1_has_a_hierarchy_per_controller() {
        let (_folder, root) = version_2();
        let mounts = "a /memory cgroup rw,memory 0 0\nb /freezer cgroup rw,freezer 0 0\n";
        fs::write(root.path("/proc/self/mounts"), mounts).unwrap();
        let layout = layout(&root, "launch").unwrap();
        let layout = layout.as_ref();
        assert_eq!(layout.version(), Version::V1);
        assert_eq!(
            entrances(layout, "notes"),
            ["/memory/launch/cgroup.procs", "/freezer/launch/notes/cgroup.procs"]
                .map(PathBuf::from)
        );
        let state = "/freezer/launch/notes/freezer.state";
        assert_eq!(layout.freeze("notes", false), KernelSetting::new(state, "THAWED"));
        // Only a kernel that accounts swap has the common limit of memory and swap.
        assert_eq!(layout.without_swap(&root, 7).len(), 1);
        fs::create_dir(root.path("/memory")).unwrap();
        fs::write(root.path("/memory/memory.memsw.limit_in_bytes"), "").unwrap();
        let both = KernelSetting::new("/memory/launch/memory.memsw.limit_in_bytes", 7);
        assert_eq!(layout.without_swap(&root, 7)[1], both);
    }
}
