//! Counts of memory cgroups that reclaim relies on.
//!
//! Without multi-generational LRU, the kernel decides from the lengths of a group's lists whether to deactivate pages.
//! It adds these lengths up every two seconds only (`mem_cgroup_flush_stats_ratelimited` in mm/memcontrol.c). If a small
//! group's inactive list empties before, reclaim still counts on its old length, leaves the active list alone and frees
//! nothing, and the OOM killer ends a program whose pages could go to swap. Reading the group's `memory.stat` adds the
//! lengths up; reading that of the root does not (measured with Linux 6.18).

use std::fs;
use std::path::{Path, PathBuf};

use crate::cgroup::Hierarchy;
use crate::kernel_file::KernelFile;
use crate::{Error, Root};

/// Whether multi-generational LRU is on, as a mask of its parts.
const GENERATIONS: &str = "/sys/kernel/mm/lru_gen/enabled";
/// The part without which the kernel uses an active and an inactive list.
const WHOLE: u64 = 1;
/// Programs cannot replace the pages of a larger group in two seconds.
const SMALL_BYTES: u64 = 512 << 20;
/// The most groups whose counts are added up.
const GROUPS: usize = 64;
/// Enough for a limit. The text of the counts is not needed.
const ROOM: usize = 64;

/// The counts of the groups with a small limit, and of those below them.
#[derive(Debug)]
pub struct GroupCounts {
    root: Root,
    hierarchy: Hierarchy,
    files: Vec<(PathBuf, KernelFile)>,
}

impl GroupCounts {
    /// The counts of no group yet; None if reclaim does not rely on them, or the machine has no memory cgroups.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn open(root: &Root) -> Result<Option<GroupCounts>, Error> {
        let text = root.read(GENERATIONS)?.unwrap_or_default();
        let parts = text.trim().trim_start_matches("0x");
        if u64::from_str_radix(parts, 16).is_ok_and(|parts| parts & WHOLE != 0) {
            return Ok(None);
        }
        let hierarchy = Hierarchy::of(root, "memory")?;
        Ok(hierarchy.map(|hierarchy| GroupCounts {
            root: root.clone(),
            hierarchy,
            files: Vec::new(),
        }))
    }

    /// Looks for new groups, and forgets those that are gone. What cannot be read is left out.
    pub fn find_groups(&mut self) {
        let mut known = std::mem::take(&mut self.files);
        let mut folders = vec![(self.hierarchy.mount.clone(), false)];
        while let Some((folder, is_below)) = folders.pop().filter(|_| self.files.len() < GROUPS) {
            let is_small = is_below || self.is_small(&folder);
            for entry in fs::read_dir(self.root.path(&folder)).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push((folder.join(entry.file_name()), is_small));
                }
            }
            let place = known.iter().position(|(group, _)| *group == folder);
            let file = place.map(|place| known.swap_remove(place).1);
            if is_small && let Some(file) = file.or_else(|| self.open_file(&folder, "memory.stat"))
            {
                self.files.push((folder, file));
            }
        }
    }

    /// Lets the kernel add up the counts of the groups found. Allocates nothing.
    pub fn add_up(&mut self) {
        // A group without an answer is gone.
        self.files.retain_mut(|(_, file)| file.text().is_some());
    }

    fn is_small(&self, group: &Path) -> bool {
        let limit = self.open_file(group, self.hierarchy.version.limit_name());
        limit.and_then(|mut file| file.number()).is_some_and(|bytes| bytes < SMALL_BYTES)
    }

    fn open_file(&self, group: &Path, name: &str) -> Option<KernelFile> {
        KernelFile::open(&self.root, group.join(name), ROOM).ok()?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_with_a_small_limit_are_found_unless_the_kernel_uses_generations() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for folder in ["/proc/self", "/m/small/below", "/m/large", "/sys/kernel/mm/lru_gen"] {
            fs::create_dir_all(root.path(folder)).unwrap();
        }
        let write = |path: &str, text: &str| fs::write(root.path(path), text).unwrap();
        write("/proc/self/mounts", "");
        assert!(GroupCounts::open(&root).unwrap().is_none());
        write("/proc/self/mounts", "m /m cgroup memory 0 0\n");
        let all = "9223372036854771712\n";
        for (group, limit) in
            [("", all), ("small", "16777216\n"), ("small/below", all), ("large", all)]
        {
            write(&format!("/m/{group}/memory.limit_in_bytes"), limit);
            write(&format!("/m/{group}/memory.stat"), "cache 0\n");
        }
        let groups = |counts: &mut GroupCounts| {
            counts.find_groups();
            counts.add_up();
            let mut folders: Vec<_> =
                counts.files.iter().map(|(folder, _)| folder.clone()).collect();
            folders.sort();
            folders
        };
        let mut counts = GroupCounts::open(&root).unwrap().unwrap();
        assert_eq!(groups(&mut counts), ["/m/small", "/m/small/below"].map(PathBuf::from));
        // A known group keeps its file.
        fs::remove_file(root.path("/m/small/memory.stat")).unwrap();
        fs::remove_dir_all(root.path("/m/small/below")).unwrap();
        write("/m/large/memory.limit_in_bytes", "536866816\n");
        assert_eq!(groups(&mut counts), ["/m/large", "/m/small"].map(PathBuf::from));

        write(GENERATIONS, "0x0006\n");
        assert!(GroupCounts::open(&root).unwrap().is_some());
        write(GENERATIONS, "0x0007\n");
        assert!(GroupCounts::open(&root).unwrap().is_none());
    }
}
