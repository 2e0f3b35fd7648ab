//! Features of the kernel for memory shortage: zswap, zram, mTHP, PSI.

use crate::cgroup::{Hierarchy, Version};
use crate::{Error, Root, counters, pressure, zram};

/// Features of a kernel. A feature that cannot be read counts as missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Whether zswap is on; None if the kernel has no zswap.
    pub zswap: Option<bool>,
    /// Whether there are zram devices, or the zram module.
    pub has_zram: bool,
    /// Whether pages of zeros are kept out of swap areas, as since Linux 6.12.
    pub keeps_zeros_out: bool,
    /// Whether transparent huge pages of several sizes are supported.
    pub has_mthp: bool,
    /// Whether the kernel reports stall times (PSI).
    pub has_psi: bool,
    /// Version of the cgroup hierarchy that has the memory controller.
    pub cgroup_version: Option<u32>,
}

/// Features of the running kernel, whose release (`uname -r`) is `kernel`.
pub fn features(root: &Root, kernel: &str) -> Features {
    let sizes = root.list("/sys/kernel/mm/transparent_hugepage").unwrap_or_default();
    let cgroup = Hierarchy::of(root, "memory").ok().flatten();
    Features {
        zswap: zswap(root).ok().flatten(),
        has_zram: has_zram(root, kernel),
        keeps_zeros_out: keeps_zeros_out(root).unwrap_or_default(),
        has_mthp: sizes.iter().any(|name| name.starts_with("hugepages-")),
        has_psi: matches!(pressure::of_machine(root, "memory"), Ok(Some(_))),
        cgroup_version: cgroup.map(|hierarchy| match hierarchy.version {
            Version::V1 => 1,
            Version::V2 => 2,
        }),
    }
}

/// Whether zswap is on, which keeps pages in memory that would be written to a swap area. None if the kernel has
/// no zswap.
///
/// # Errors
/// The operating system refuses.
pub fn zswap(root: &Root) -> Result<Option<bool>, Error> {
    let switch = root.read("/sys/module/zswap/parameters/enabled")?;
    Ok(switch.map(|text| text.trim() == "Y"))
}

/// Whether pages of zeros are kept out of swap areas: the kernel swaps them out and writes nothing.
///
/// # Errors
/// The operating system refuses.
pub fn keeps_zeros_out(root: &Root) -> Result<bool, Error> {
    Ok(counters::vmstat(root)?.contains_key("swpout_zero"))
}

fn has_zram(root: &Root, kernel: &str) -> bool {
    let lists_it = |file| {
        let text = root.read(format!("/lib/modules/{kernel}/{file}")).ok().flatten();
        text.is_some_and(|text| text.contains("/zram.ko"))
    };
    !zram::devices(root).unwrap_or_default().is_empty()
        || root.exists("/sys/class/zram-control")
        || lists_it("modules.dep")
        || lists_it("modules.builtin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_system_has_no_features() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(features(&Root::at(folder.path()), "6.18.0"), Features::default());
    }

    #[test]
    fn features_are_found_by_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for (path, text) in [
            ("/sys/module/zswap/parameters/enabled", "N\n"),
            ("/lib/modules/6.18.0/modules.dep", "kernel/drivers/block/zram/zram.ko.xz:\n"),
            ("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled", "never\n"),
            ("/proc/vmstat", "pswpout 7\nswpout_zero 0\n"),
            ("/proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"),
            ("/proc/self/mounts", "none /sys/fs/cgroup cgroup2 rw 0 0\n"),
            ("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
        ] {
            let path = root.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let all = Features {
            zswap: Some(false),
            has_zram: true,
            keeps_zeros_out: true,
            has_mthp: true,
            has_psi: true,
            cgroup_version: Some(2),
        };
        assert_eq!(features(&root, "6.18.0"), all);
        assert!(!features(&root, "6.19.0").has_zram);
    }
}
