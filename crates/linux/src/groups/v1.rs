//! Version 1 of cgroups: the controllers `memory` and `freezer` have separate hierarchies
//! (Documentation/admin-guide/cgroup-v1).

use std::path::{Path, PathBuf};

use super::Layout;
use crate::cgroup::Version;
use crate::{Error, KernelSetting, Root};

/// Groups with the same name in both hierarchies.
#[derive(Clone, Debug)]
pub struct V1 {
    memory: PathBuf,
    programs: PathBuf,
}

impl V1 {
    /// Groups `name` below the mounts of the two controllers.
    pub fn new(memory_mount: &Path, freezer_mount: &Path, name: &str) -> V1 {
        V1::of(&memory_mount.join(name), &freezer_mount.join(name))
    }

    /// The groups at these folders.
    pub fn of(memory: &Path, programs: &Path) -> V1 {
        V1 { memory: memory.to_owned(), programs: programs.to_owned() }
    }
}

impl Layout for V1 {
    fn version(&self) -> Version {
        Version::V1
    }

    fn memory(&self) -> &Path {
        &self.memory
    }

    fn programs(&self) -> &Path {
        &self.programs
    }

    fn preparation(&self, _root: &Root) -> Result<Vec<(KernelSetting, KernelSetting)>, Error> {
        Ok(Vec::new())
    }

    fn limit(&self, bytes: u64) -> Vec<KernelSetting> {
        vec![KernelSetting::new(self.memory.join("memory.limit_in_bytes"), bytes)]
    }

    fn without_swap(&self, root: &Root, bytes: u64) -> Vec<KernelSetting> {
        let mut settings = vec![self.swappiness(0)];
        // Exists only if the kernel accounts swap. Swappiness 0 is not enough: it still swaps when no file pages are left.
        let both = "memory.memsw.limit_in_bytes";
        let parent = self.memory.parent().unwrap_or(&self.memory);
        if root.exists(parent.join(both)) {
            settings.push(KernelSetting::new(self.memory.join(both), bytes));
        }
        settings
    }

    fn nested_limits(&self) -> Vec<KernelSetting> {
        Vec::new()
    }

    fn swappiness(&self, value: u32) -> KernelSetting {
        KernelSetting::new(self.memory.join("memory.swappiness"), value)
    }

    fn freeze(&self, program: &str, is_frozen: bool) -> KernelSetting {
        let state = if is_frozen { "FROZEN" } else { "THAWED" };
        KernelSetting::new(self.programs.join(program).join("freezer.state"), state)
    }

    fn is_frozen(&self, root: &Root, program: &str) -> Result<bool, Error> {
        let state = root.read(self.programs.join(program).join("freezer.state"))?;
        Ok(state.is_some_and(|state| state.trim() == "FROZEN"))
    }

    fn usage_names(&self) -> (&'static str, &'static str) {
        ("memory.usage_in_bytes", "total_rss")
    }

    fn kills_name(&self) -> &'static str {
        "memory.oom_control"
    }
}
