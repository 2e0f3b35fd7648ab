//! Version 2 of cgroups: one hierarchy, in which the group of a program is inside the group with the limit
//! (Documentation/admin-guide/cgroup-v2.rst).

use std::path::{Path, PathBuf};

use super::Layout;
use crate::cgroup::Version;
use crate::{Error, KernelSetting, Root};

/// The group with the limit, and the groups of programs inside it.
#[derive(Clone, Debug)]
pub struct V2 {
    group: PathBuf,
}

impl V2 {
    /// The group `name` below the mount of the hierarchy.
    pub fn new(mount: &Path, name: &str) -> V2 {
        V2::of(&mount.join(name))
    }

    /// The group at this folder.
    pub fn of(group: &Path) -> V2 {
        V2 { group: group.to_owned() }
    }
}

impl Layout for V2 {
    fn version(&self) -> Version {
        Version::V2
    }

    fn memory(&self) -> &Path {
        &self.group
    }

    fn programs(&self) -> &Path {
        &self.group
    }

    fn preparation(&self, root: &Root) -> Result<Vec<(KernelSetting, KernelSetting)>, Error> {
        let mount = self.group.parent().unwrap_or(&self.group);
        let path = mount.join("cgroup.subtree_control");
        let enabled = root.read(&path)?.unwrap_or_default();
        if enabled.split_whitespace().any(|name| name == "memory") {
            return Ok(Vec::new());
        }
        Ok(vec![(KernelSetting::new(&path, "+memory"), KernelSetting::new(&path, "-memory"))])
    }

    fn limit(&self, bytes: u64) -> Vec<KernelSetting> {
        vec![KernelSetting::new(self.group.join("memory.max"), bytes)]
    }

    fn without_swap(&self, _root: &Root, _bytes: u64) -> Vec<KernelSetting> {
        vec![KernelSetting::new(self.group.join("memory.swap.max"), 0)]
    }

    fn nested_limits(&self) -> Vec<KernelSetting> {
        vec![KernelSetting::new(self.group.join("cgroup.subtree_control"), "+memory")]
    }

    fn swappiness(&self, value: u32) -> KernelSetting {
        KernelSetting::new("/proc/sys/vm/swappiness", value)
    }

    fn freeze(&self, program: &str, is_frozen: bool) -> KernelSetting {
        KernelSetting::new(self.group.join(program).join("cgroup.freeze"), u32::from(is_frozen))
    }

    fn is_frozen(&self, root: &Root, program: &str) -> Result<bool, Error> {
        let events = root.read(self.group.join(program).join("cgroup.events"))?;
        Ok(events.is_some_and(|events| events.lines().any(|line| line == "frozen 1")))
    }

    fn usage_names(&self) -> (&'static str, &'static str) {
        ("memory.current", "anon")
    }

    fn kills_name(&self) -> &'static str {
        "memory.events"
    }
}
