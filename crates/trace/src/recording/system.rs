//! The swap of the recorded machine: swap areas with their disks, compressed memory, and features of the
//! kernel. Values that could not be read are absent.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::counters::Counters;

/// The swap of a machine when a recording begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct System {
    /// Memory limit of the recorded group in bytes, if it is below the machine's memory.
    pub limit_bytes: Option<u64>,
    /// The swap areas in use.
    pub areas: Vec<SwapArea>,
    /// The disk under `/`.
    pub root: Option<Disk>,
    /// Each configured zram device, by name.
    pub zram: BTreeMap<String, Zram>,
    /// Features of the kernel.
    pub features: Features,
}

/// A swap area.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SwapArea {
    /// The file or device.
    pub path: String,
    /// `file`, `partition` or `zram`.
    pub kind: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Priority; the kernel uses areas of higher priority first.
    pub priority: i32,
    /// The disk under the area; `None` if it is memory.
    pub disk: Option<Disk>,
}

/// A whole disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Disk {
    /// The kernel's name of the disk, such as `sda`.
    pub name: String,
    /// `emmc`, `sd`, `ufs`, `nvme`, `sata-ssd`, `hdd`, `virtual` or `unknown`.
    pub class: String,
    /// Version of UFS, such as `3.1`, or application performance class of an SD card, such as `A2`.
    pub version: Option<String>,
    /// Model name of the disk.
    pub model: Option<String>,
    /// The kernel's `rotational` flag, which is also set for most disks that do not report it.
    pub is_rotational: Option<bool>,
    /// Whether the disk is removable.
    pub is_removable: Option<bool>,
}

/// A zram device, with its counts at the time when it held most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Zram {
    /// Compression algorithm.
    pub algorithm: Option<String>,
    /// Size of the device in bytes.
    pub bytes: u64,
    /// Uncompressed bytes of the stored pages.
    pub orig_data_bytes: u64,
    /// Memory that the stored pages take.
    pub mem_used_bytes: u64,
}

/// Features of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Features {
    /// Whether zswap is on; `None` if the kernel has no zswap.
    pub zswap: Option<bool>,
    /// Whether there are zram devices, or the module for them.
    pub has_zram: bool,
    /// Whether the kernel can serve a swap area through FUSE and a loop device; `None` if the recording is older than
    /// this field.
    pub has_fuse_loop: Option<bool>,
    /// Whether the kernel can serve a swap area through NBD (Linux 5.14); `None` if the recording is older than this
    /// field.
    pub has_nbd: Option<bool>,
    /// Whether the kernel can serve a swap area through ublk (Linux 6.11); `None` if the recording is older than this
    /// field.
    pub has_ublk: Option<bool>,
    /// Whether the kernel keeps pages of zeros out of swap areas.
    pub keeps_zeros_out: bool,
    /// Whether the kernel has mTHP.
    pub has_mthp: bool,
    /// Whether the kernel reports stall times (PSI).
    pub has_psi: bool,
    /// Version of the cgroup hierarchy that has the memory controller.
    pub cgroup_version: Option<u32>,
}

impl System {
    /// Takes the counts (`Sample::zram`) of devices that hold more than before: the compression ratio is
    /// most accurate when a device is fullest.
    pub fn see_zram(&mut self, counters: &BTreeMap<String, Counters>) {
        for (name, counts) in counters {
            let count = |field| counts.get(field).copied().unwrap_or(0);
            if let Some(zram) = self.zram.get_mut(name)
                && count("orig_data_bytes") > zram.orig_data_bytes
            {
                zram.orig_data_bytes = count("orig_data_bytes");
                zram.mem_used_bytes = count("mem_used_bytes");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_the_fullest_sample_are_kept() {
        let counts = |original, used| {
            let counts =
                [("orig_data_bytes".to_owned(), original), ("mem_used_bytes".to_owned(), used)];
            BTreeMap::from([("zram0".to_owned(), BTreeMap::from(counts))])
        };
        let mut system = System::default();
        system.see_zram(&counts(9, 3));
        assert_eq!(system, System::default(), "a device that appeared later");
        system.zram.insert("zram0".to_owned(), Zram::default());
        for (original, used) in [(100, 40), (900, 300), (500, 100)] {
            system.see_zram(&counts(original, used));
        }
        let zram = &system.zram["zram0"];
        assert_eq!((zram.orig_data_bytes, zram.mem_used_bytes), (900, 300));
    }
}
