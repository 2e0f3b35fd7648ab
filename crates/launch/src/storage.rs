//! The storage of a plan: its applications read files as slowly as from another device.
//!
//! The kernel's block throttle lets as many reads through each second as the device serves one after the other, and as
//! many bytes as it transfers, if that is known. A read thus waits as long as on the device, and several reads at
//! the same time wait for each other.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use devices::Device;
use linux::cgroup::{Hierarchy, Version};
use linux::groups::{self, Layout};
use linux::{KernelSetting, Root, disk, process};
use serde::{Deserialize, Serialize};

use crate::Error;

/// The storage of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    /// The device that files are read from: a name of the catalog, or `READ/WRITE` such as `200/300us`.
    pub files: String,
}

/// How the kernel slows down reads of the disk with the root file system.
#[derive(Clone, Debug, PartialEq)]
pub struct Throttle {
    /// The group whose processes it slows down.
    pub group: PathBuf,
    /// Whether the group is its own, in the hierarchy of the controller `blkio` of version 1.
    pub is_own: bool,
    /// A setting without which the group can have no limit, and the one that undoes it.
    pub preparation: Option<(KernelSetting, KernelSetting)>,
    /// The limits.
    pub settings: Vec<KernelSetting>,
}

impl Storage {
    /// The first invalid entry, and what was expected.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.device().map(drop).map_err(|error| format!("storage.files: {error}"))
    }

    fn device(&self) -> Result<Device, devices::Error> {
        Device::resolve(&self.files)
    }

    /// How the kernel can slow down the groups of `layout`.
    ///
    /// # Errors
    /// There is no disk or no controller for it, or the operating system refuses.
    pub(crate) fn throttle(&self, root: &Root, layout: &dyn Layout) -> Result<Throttle, Error> {
        let device = self.device().map_err(|error| Error::Refused(error.to_string()))?;
        let disk = disk::under(root, Path::new("/")).and_then(|disk| {
            let number = root.read(format!("/sys/block/{}/dev", disk.name)).ok()??;
            Some(number.trim().to_owned())
        });
        let Some(disk) = disk else {
            let what =
                "storage: the disk of / is not known, so reads of files cannot be slowed down";
            return Err(Error::Refused(what.to_owned()));
        };
        let reads = (1_000_000_000 / device.read.typical_ns.max(1)).max(1);
        let bytes = device.transfer.map(|transfer| (transfer.bandwidth_mb_s.typical * 1e6) as u64);
        Ok(match layout.version() {
            Version::V1 => {
                let name = layout.memory().file_name().unwrap_or_default();
                let group = Hierarchy::required(root, "blkio")?.mount.join(name);
                let set = |limit: &str, value: u64| {
                    let path = group.join(format!("blkio.throttle.read_{limit}_device"));
                    KernelSetting::new(path, format!("{disk} {value}"))
                };
                let settings = std::iter::once(set("iops", reads));
                let settings = settings.chain(bytes.map(|bytes| set("bps", bytes))).collect();
                Throttle { group, is_own: true, preparation: None, settings }
            }
            Version::V2 => {
                let group = layout.memory().to_owned();
                let switch = group.parent().unwrap_or(&group).join("cgroup.subtree_control");
                let enabled = root.read(&switch)?.unwrap_or_default();
                let is_enabled = enabled.split_whitespace().any(|name| name == "io");
                let pair =
                    || (KernelSetting::new(&switch, "+io"), KernelSetting::new(&switch, "-io"));
                let bytes = bytes.map_or(String::new(), |bytes| format!(" rbps={bytes}"));
                let limits = format!("{disk} riops={reads}{bytes}");
                let settings = vec![KernelSetting::new(group.join("io.max"), limits)];
                let preparation = (!is_enabled).then(pair);
                Throttle { group, is_own: false, preparation, settings }
            }
        })
    }

    /// Measures reads of 4 KiB of a file in `folder`, one after the other, by a process that joins the `entrances`
    /// of an application and by one that does not.
    ///
    /// # Errors
    /// The file cannot be written or read.
    pub(crate) fn measure(
        &self,
        root: &Root,
        folder: &Path,
        entrances: &[PathBuf],
    ) -> Result<FileReads, Error> {
        let device = self.device().map_err(|error| Error::Refused(error.to_string()))?;
        // About two seconds of reads, which is long beside the kernel's slices of a tenth of a second.
        let count = (2_000_000_000 / device.read.typical_ns.max(1)).clamp(50, 5000);
        let path = folder.join("storage-probe");
        let write = || {
            let mut file = File::create_new(&path)?;
            file.write_all(&vec![1; count as usize * 4096])?;
            file.sync_all()
        };
        write().map_err(|error| Error::file("written", &path, &error))?;
        let read = |entrances: &[PathBuf]| {
            let mut command = Command::new("dd");
            command.arg(format!("if={}", path.display())).arg("of=/dev/null");
            command.args(["bs=4096", "iflag=direct"]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let began = Instant::now();
            let ended = process::start(root, &mut command, entrances)?
                .wait()
                .map_err(|error| Error::file("read", &path, &error))?;
            if !ended.success() {
                let what = format!("storage: {}: dd cannot read it past the cache", path.display());
                return Err(Error::Refused(what));
            }
            Ok(began.elapsed().as_micros() as f64 / count as f64)
        };
        let measured = read(entrances).and_then(|slowed_us| Ok((slowed_us, read(&[])?)));
        let _ = fs::remove_file(&path);
        let (measured_us, unslowed_us) = measured?;
        let wanted_us = device.read.typical_ns as f64 / 1e3;
        Ok(FileReads { wanted_us, measured_us, unslowed_us })
    }
}

impl Throttle {
    /// The file to which a process of an application writes its PID to be slowed down, beside those of `groups`.
    pub(crate) fn entrance(&self) -> Option<PathBuf> {
        self.is_own.then(|| self.group.join("cgroup.procs"))
    }

    /// The files to which a process writes its PID to be slowed down as the application `name`.
    pub(crate) fn entrances(&self, layout: &dyn Layout, name: &str) -> Vec<PathBuf> {
        self.entrance().map_or_else(|| groups::entrances(layout, name), |own| vec![own])
    }
}

/// Reads of 4 KiB of a file, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct FileReads {
    /// Microseconds of a read on the wanted device.
    pub(crate) wanted_us: f64,
    /// Microseconds of a read by an application.
    pub(crate) measured_us: f64,
    /// Microseconds of a read by other processes.
    pub(crate) unslowed_us: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::groups::{V1, V2};

    /// A system with a disk 8:0 below /, and these lines of mounts.
    fn system(mounts: &str) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let write = |path: &str, text: &str| {
            let path = root.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("/proc/self/mounts", mounts);
        write("/proc/self/mountinfo", "1 0 8:0 / / rw - ext4 /dev/sda rw\n");
        write("/sys/devices/sda/dev", "8:0\n");
        write("/cgroup/cgroup.controllers", "cpu io memory\n");
        write("/cgroup/cgroup.subtree_control", "memory\n");
        for link in ["/sys/dev/block/8:0", "/sys/class/block/sda", "/sys/block/sda"] {
            let link = root.path(link);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(root.path("/sys/devices/sda"), link).unwrap();
        }
        (folder, root)
    }

    #[test]
    fn version_1_throttles_a_group_of_its_own() {
        let (_folder, root) = system("b /blkio cgroup rw,blkio 0 0\n");
        let layout = V1::new(Path::new("/memory"), Path::new("/freezer"), "launch");
        let storage = Storage { files: "100/200us".to_owned() };
        let throttle = storage.throttle(&root, &layout).unwrap();
        let path = "/blkio/launch/blkio.throttle.read_iops_device";
        assert_eq!(throttle.settings, [KernelSetting::new(path, "8:0 10000")]);
        assert_eq!(throttle.entrance().unwrap(), Path::new("/blkio/launch/cgroup.procs"));
        // A device whose bandwidth is known.
        let storage = Storage { files: "ufs-3.1".to_owned() };
        assert_eq!(storage.throttle(&root, &layout).unwrap().settings.len(), 2);
    }

    #[test]
    fn version_2_limits_the_group_of_the_run() {
        let (_folder, root) = system("c /cgroup cgroup2 rw 0 0\n");
        let layout = V2::new(Path::new("/cgroup"), "launch");
        let storage = Storage { files: "100/200us".to_owned() };
        let throttle = storage.throttle(&root, &layout).unwrap();
        let limit = KernelSetting::new("/cgroup/launch/io.max", "8:0 riops=10000");
        assert_eq!(throttle.settings, [limit]);
        let (change, undo) = throttle.preparation.clone().unwrap();
        assert_eq!((&*change.value, &*undo.value), ("+io", "-io"));
        assert_eq!(throttle.entrance(), None);
    }

    #[test]
    fn what_cannot_be_slowed_down_is_refused() {
        let storage = Storage { files: "no-such-device".to_owned() };
        assert!(storage.check().unwrap_err().starts_with("storage.files: "));
        let folder = tempfile::tempdir().unwrap();
        let layout = V1::new(Path::new("/memory"), Path::new("/freezer"), "launch");
        let storage = Storage { files: "emmc-5.1".to_owned() };
        let error = storage.throttle(&Root::at(folder.path()), &layout).unwrap_err().to_string();
        assert!(error.contains("the disk of / is not known"), "{error}");
    }
}
