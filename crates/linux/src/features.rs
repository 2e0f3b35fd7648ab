//! Features of the kernel for memory shortage: zswap, zram, what a served swap area needs, mTHP, PSI.

use crate::cgroup::{Hierarchy, Version};
use crate::{Error, Root, counters, pressure, zram};

/// Features of a kernel. A feature that cannot be read counts as missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Whether zswap is on; None if the kernel has no zswap.
    pub zswap: Option<bool>,
    /// Whether there are zram devices, or the zram module.
    pub has_zram: bool,
    /// Whether there are FUSE and loop devices, or modules for them, as a served swap area needs.
    pub has_fuse_loop: bool,
    /// Whether the kernel has NBD devices that a served swap area can use, or the module for them.
    pub has_nbd: bool,
    /// Whether the kernel has ublk devices that a served swap area can use, or the module for them.
    pub has_ublk: bool,
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
        has_fuse_loop: has_fuse_loop(root, kernel),
        has_nbd: has_since(root, kernel, NBD_SINCE, "/sys/module/nbd", "nbd"),
        has_ublk: has_since(root, kernel, UBLK_SINCE, "/dev/ublk-control", "ublk_drv"),
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
    !zram::devices(root).unwrap_or_default().is_empty()
        || root.exists("/sys/class/zram-control")
        || has_module(root, kernel, "zram")
}

/// Whether the kernel has a module, or has it built in.
fn has_module(root: &Root, kernel: &str, name: &str) -> bool {
    ["modules.dep", "modules.builtin"].into_iter().any(|file| {
        let text = root.read(format!("/lib/modules/{kernel}/{file}")).ok().flatten();
        text.is_some_and(|text| text.contains(&format!("/{name}.ko")))
    })
}

/// The first Linux whose loop devices are set up with direct I/O in one call (LOOP_CONFIGURE).
const LOOP_CONFIGURE_SINCE: (u32, u32) = (5, 8);

/// The first Linux whose NBD devices swapd uses.
const NBD_SINCE: (u32, u32) = (5, 14);
/// The first Linux whose ublk devices swapd uses: it removes a device without waiting for its server.
pub const UBLK_SINCE: (u32, u32) = (6, 11);

/// Whether a kernel, by its `uname -r`, has this version or a later one.
pub fn is_at_least(kernel: &str, version: (u32, u32)) -> bool {
    let mut numbers = kernel.split(['.', '-']).map_while(|number| number.parse().ok());
    numbers.next().zip(numbers.next()) >= Some(version)
}

fn has_fuse_loop(root: &Root, kernel: &str) -> bool {
    has_since(root, kernel, LOOP_CONFIGURE_SINCE, "/dev/fuse", "fuse")
        && has_since(root, kernel, LOOP_CONFIGURE_SINCE, "/dev/loop-control", "loop")
}

/// Whether the kernel has this version or a later one, and the file of a feature or the module that makes it.
fn has_since(root: &Root, kernel: &str, since: (u32, u32), file: &str, module: &str) -> bool {
    is_at_least(kernel, since) && (root.exists(file) || has_module(root, kernel, module))
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
            (
                "/lib/modules/6.18.0/modules.dep",
                "kernel/drivers/block/zram/zram.ko.xz:\nkernel/drivers/block/loop.ko:\n\
                 kernel/drivers/block/nbd.ko:\nkernel/drivers/block/ublk_drv.ko:\n",
            ),
            ("/dev/fuse", ""),
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
            has_fuse_loop: true,
            has_nbd: true,
            has_ublk: true,
            keeps_zeros_out: true,
            has_mthp: true,
            has_psi: true,
            cgroup_version: Some(2),
        };
        assert_eq!(features(&root, "6.18.0"), all);
        let other = features(&root, "6.19.0");
        assert!(!other.has_zram && !other.has_fuse_loop && !other.has_nbd && !other.has_ublk);
        std::fs::write(root.path("/dev/loop-control"), "").unwrap();
        assert!(["5.8.0", "5.10.1-rc1", "6.1"].iter().all(|kernel| has_fuse_loop(&root, kernel)));
        assert!(["5.7.9", "4.19", "x"].iter().all(|kernel| !has_fuse_loop(&root, kernel)));
        for file in ["/dev/ublk-control", "/sys/module/nbd"] {
            std::fs::create_dir_all(root.path(file)).unwrap();
        }
        let found = |kernel| {
            let found = features(&root, kernel);
            (found.has_nbd, found.has_ublk)
        };
        assert_eq!([found("5.13.0"), found("5.14.0")], [(false, false), (true, false)]);
        assert_eq!([found("6.10.9"), found("6.11.2")], [(true, false), (true, true)]);
    }
}
