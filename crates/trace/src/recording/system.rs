//! What the recorded machine had for memory that does not fit: swap areas and the disks under them,
//! compressed memory, features of its kernel. What could not be read is absent.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Counters;

/// The swap of a machine when a recording begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct System {
    /// The memory that the recorded group may use, in bytes, where that is less than the machine has.
    pub limit_bytes: Option<u64>,
    /// The swap areas in use.
    pub areas: Vec<SwapArea>,
    /// The disk under `/`.
    pub root: Option<Disk>,
    /// Each zram device that is set up, by its name.
    pub zram: BTreeMap<String, Zram>,
    /// What the kernel can do.
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
    /// Bytes it holds.
    pub bytes: u64,
    /// Higher is used first.
    pub priority: i32,
    /// What it lies on; none where it is memory.
    pub disk: Option<Disk>,
}

/// A whole disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Disk {
    /// The kernel's name for it, as `sda`.
    pub name: String,
    /// `emmc`, `sd`, `ufs`, `nvme`, `sata-ssd`, `hdd`, `virtual` or `unknown`.
    pub class: String,
    /// Version of UFS, as `3.1`, or application performance class of an SD card, as `A2`.
    pub version: Option<String>,
    /// What its maker calls it.
    pub model: Option<String>,
    /// Whether the kernel takes it for one that turns; it does so of most that do not say.
    pub is_rotational: Option<bool>,
    /// Whether it can be taken out.
    pub is_removable: Option<bool>,
}

/// Compressed memory. Its counts are the recording's fullest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Zram {
    /// What it compresses with.
    pub algorithm: Option<String>,
    /// Bytes of pages it takes.
    pub bytes: u64,
    /// Bytes of the pages that it holds.
    pub orig_data_bytes: u64,
    /// Memory that they take.
    pub mem_used_bytes: u64,
}

/// Features of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Features {
    /// Whether zswap is on; none where the kernel has none.
    pub zswap: Option<bool>,
    /// Whether there are zram devices, or a module that makes some.
    pub has_zram: bool,
    /// Whether pages of zeros are kept out of swap areas.
    pub keeps_zeros_out: bool,
    /// Whether transparent huge pages of several sizes can be switched on.
    pub has_mthp: bool,
    /// Whether the kernel reports stall times (PSI).
    pub has_psi: bool,
    /// Version of the cgroup hierarchy that has the memory controller.
    pub cgroup_version: Option<u32>,
}

impl System {
    /// Takes the counts of zram devices (`Sample::zram`) where they hold more than before: how well
    /// memory compresses shows best when there is much of it.
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
    fn the_counts_of_the_fullest_moment_stay() {
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
