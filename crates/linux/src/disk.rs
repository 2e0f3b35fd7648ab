//! Finds the disk of a swap area or a file, and the disk's class of storage.
//!
//! Sources: Documentation/ABI/testing/sysfs-block, sysfs-driver-ufs and mmc (Linux 6.18); the SD
//! specification for the status register.

use std::path::{Path, PathBuf};

use crate::{Root, mounts};

/// The most layers between a file and its disk: partitions, mappings, loop devices.
const LAYERS_MAX: usize = 8;

/// Models of a hypervisor's virtual disks.
const IMITATED: [&str; 6] =
    ["QEMU", "VBOX", "VMware", "Virtual Disk", "Amazon Elastic Block Store", "PersistentDisk"];

/// The digit of the application performance class in `ssr`, the 512 bits of an SD card's status in
/// hexadecimal: bits 339 to 336. The first digit has bits 511 to 508.
const CLASS_DIGIT: usize = (511 - 339) / 4;

/// The class of a disk's storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Embedded MMC.
    Emmc,
    /// An SD card.
    SdCard,
    /// Universal Flash Storage.
    Ufs,
    /// An NVMe disk.
    Nvme,
    /// A SATA solid-state disk.
    SataSsd,
    /// A SATA hard disk.
    HardDisk,
    /// A disk of a virtual machine; only the host knows the real disk.
    Virtual,
    /// Anything else, such as disks behind USB or a RAID controller.
    Unknown,
}

impl Class {
    /// The name of the class in recordings.
    pub fn name(self) -> &'static str {
        match self {
            Class::Emmc => "emmc",
            Class::SdCard => "sd",
            Class::Ufs => "ufs",
            Class::Nvme => "nvme",
            Class::SataSsd => "sata-ssd",
            Class::HardDisk => "hdd",
            Class::Virtual => "virtual",
            Class::Unknown => "unknown",
        }
    }
}

/// A whole disk. Fields that the kernel does not report are None.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The name of the disk in the kernel, such as `sda`.
    pub name: String,
    /// The class of storage.
    pub class: Class,
    /// The version of UFS, such as `3.1`, or the application performance class of an SD card, such as `A2`.
    pub version: Option<String>,
    /// The name of the disk's model.
    pub model: Option<String>,
    /// Whether the kernel considers it rotational, which is the default for disks that do not report it.
    pub is_rotational: Option<bool>,
    /// Whether the disk is removable.
    pub is_removable: Option<bool>,
}

/// Finds the disk of the file, folder or block device at `path`. For a mapping of several disks, the first by
/// name. None if there is no disk, such as for tmpfs, or the kernel does not report it.
pub fn under(root: &Root, path: &Path) -> Option<Disk> {
    let folder = whole(root, layer(root, path)?, LAYERS_MAX)?;
    Some(Found { root, folder }.describe())
}

/// The sysfs folder of the block device at or below `path`.
fn layer(root: &Root, path: &Path) -> Option<PathBuf> {
    if path.starts_with("/dev") {
        return named(root, path);
    }
    let mount = mounts::holding(root, path).ok()??;
    let by_number = root.resolve(format!("/sys/dev/block/{}", mount.device));
    by_number.or_else(|| named(root, &mount.source))
}

/// The sysfs folder of the device node at `path`, which may be a link as in `/dev/mapper`.
fn named(root: &Root, path: &Path) -> Option<PathBuf> {
    let node = root.resolve(path).unwrap_or_else(|| path.to_owned());
    root.resolve(Path::new("/sys/class/block").join(node.file_name()?))
}

/// The sysfs folder of the disk below the block device of `folder`, which may be a disk itself.
fn whole(root: &Root, folder: PathBuf, layers: usize) -> Option<PathBuf> {
    let layers = layers.checked_sub(1)?;
    if root.exists(folder.join("partition")) {
        return whole(root, folder.parent()?.to_owned(), layers);
    }
    let slaves = folder.join("slaves");
    if let Some(first) = root.list(&slaves).ok()?.first() {
        return whole(root, root.resolve(slaves.join(first))?, layers);
    }
    match root.read(folder.join("loop/backing_file")).ok()? {
        Some(file) => whole(root, layer(root, Path::new(file.trim_end()))?, layers),
        None => Some(folder),
    }
}

/// A disk and its sysfs folder, without links.
struct Found<'a> {
    root: &'a Root,
    folder: PathBuf,
}

impl Found<'_> {
    fn describe(&self) -> Disk {
        let flag = |file| self.text(file).map(|text| text == "1");
        let is_rotational = flag("queue/rotational");
        let model = self.text("device/model").or_else(|| self.text("device/name"));
        let class = self.class(model.as_deref().unwrap_or_default(), is_rotational);
        Disk {
            name: self.name(),
            class,
            version: self.version(class),
            model,
            is_rotational,
            is_removable: flag("removable"),
        }
    }

    fn class(&self, model: &str, is_rotational: Option<bool>) -> Class {
        let name = self.name();
        let is_imitated = IMITATED.iter().any(|start| model.starts_with(start));
        if is_imitated || name.starts_with("xvd") || self.has_part("virtio") {
            return Class::Virtual;
        }
        match self.text("device/type").as_deref() {
            Some("MMC") => return Class::Emmc,
            Some("SD") => return Class::SdCard,
            _ => {}
        }
        if name.starts_with("nvme") {
            return Class::Nvme;
        }
        if self.driver().is_some_and(|driver| driver.starts_with("ufshcd")) {
            return Class::Ufs;
        }
        match is_rotational {
            Some(true) if self.has_part("ata") => Class::HardDisk,
            Some(false) if self.has_part("ata") => Class::SataSsd,
            _ => Class::Unknown,
        }
    }

    fn version(&self, class: Class) -> Option<String> {
        match class {
            Class::Ufs => {
                let controller = self.part("host")?.parent()?;
                let file = controller.join("device_descriptor/specification_version");
                let text = self.root.read(file).ok()??;
                let digits = u16::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()?;
                Some(format!("{:x}.{:x}", digits >> 8, digits >> 4 & 15))
            }
            Class::SdCard => match self.text("device/ssr")?.as_bytes().get(CLASS_DIGIT)? {
                b'0' => None,
                digit => Some(format!("A{}", char::from(*digit))),
            },
            _ => None,
        }
    }

    /// The driver of its SCSI host.
    fn driver(&self) -> Option<String> {
        let host = self.part("host")?.file_name()?;
        let file = Path::new("/sys/class/scsi_host").join(host).join("proc_name");
        Some(self.root.read(file).ok()??.trim().to_owned())
    }

    /// Whether a device above it has the name `name` followed by a number.
    fn has_part(&self, name: &str) -> bool {
        self.part(name).is_some()
    }

    /// The sysfs folder of the device above it with the name `name` followed by a number.
    fn part(&self, name: &str) -> Option<&Path> {
        let is_it = |folder: &&Path| {
            let number = folder.file_name().and_then(|own| own.to_str()?.strip_prefix(name));
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        };
        self.folder.ancestors().find(is_it)
    }

    fn name(&self) -> String {
        self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The trimmed text of one of its files; None if that is empty.
    fn text(&self, file: &str) -> Option<String> {
        let text = self.root.read(self.folder.join(file)).ok()??.trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A machine in a folder; tests add disks and files to it.
    struct Sketch(tempfile::TempDir);

    impl Sketch {
        fn new() -> Sketch {
            let sketch = Sketch(tempfile::tempdir().unwrap());
            sketch.write("/proc/self/mountinfo", "");
            sketch
        }

        fn root(&self) -> Root {
            Root::at(self.0.path())
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.root().path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn link(&self, path: &str, target: &str) {
            let path = self.root().path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(self.root().path(target), path).unwrap();
        }

        /// Adds a block device with its sysfs folder `path`, its number and its files.
        fn device(&self, path: &str, number: &str, files: &[(&str, &str)]) {
            self.write(&format!("{path}/dev"), number);
            for (name, text) in files {
                self.write(&format!("{path}/{name}"), text);
            }
            let name = path.rsplit('/').next().unwrap();
            self.link(&format!("/sys/class/block/{name}"), path);
            self.link(&format!("/sys/dev/block/{number}"), path);
        }

        fn disk(&self, path: &str) -> Option<Disk> {
            under(&self.root(), Path::new(path))
        }

        fn class(&self, path: &str) -> (&'static str, Option<String>) {
            let disk = self.disk(path).unwrap();
            (disk.class.name(), disk.version)
        }
    }

    const PHONE: &str =
        "/sys/devices/platform/soc/1d84000.ufshc/host0/target0:0:0/0:0:0:0/block/sda";

    #[test]
    fn the_swap_partition_of_a_phone_is_on_ufs_with_its_version() {
        let sketch = Sketch::new();
        let files = [("device/model", "KLUDG4UHDC-B0E1 \n"), ("queue/rotational", "0\n")];
        sketch.device(PHONE, "8:0", &[("removable", "0\n"), files[0], files[1]]);
        sketch.device(&format!("{PHONE}/sda5"), "8:5", &[("partition", "5\n")]);
        sketch.write("/sys/class/scsi_host/host0/proc_name", "ufshcd\n");
        let controller = PHONE.split_once("/host0").unwrap().0;
        let version = format!("{controller}/device_descriptor/specification_version");
        assert_eq!(sketch.class("/dev/block/sda5"), ("ufs", None));
        for (text, expected) in [("0x0310\n", "3.1"), ("0x0220\n", "2.2"), ("0x0400\n", "4.0")] {
            sketch.write(&version, text);
            assert_eq!(sketch.class("/dev/block/sda5"), ("ufs", Some(expected.to_owned())));
        }
        let disk = sketch.disk("/dev/block/sda5").unwrap();
        assert_eq!((disk.name.as_str(), disk.model.as_deref()), ("sda", Some("KLUDG4UHDC-B0E1")));
        assert_eq!((disk.is_rotational, disk.is_removable), (Some(false), Some(false)));
    }

    #[test]
    fn sd_cards_and_emmc_have_different_classes() {
        let sketch = Sketch::new();
        let base = "/sys/devices/platform/soc/mmc_host/mmc0/mmc0:0001/block";
        sketch.device(&format!("{base}/mmcblk0"), "179:0", &[("device/type", "MMC\n")]);
        sketch.device(&format!("{base}/mmcblk1"), "179:8", &[("device/type", "SD\n")]);
        assert_eq!(sketch.class("/dev/mmcblk0"), ("emmc", None));
        assert_eq!(sketch.class("/dev/mmcblk1"), ("sd", None));
        for (digit, expected) in [('0', None), ('1', Some("A1")), ('2', Some("A2"))] {
            let mut status = "0".repeat(128);
            status.replace_range(43..44, &digit.to_string());
            sketch.write(&format!("{base}/mmcblk1/device/ssr"), &status);
            assert_eq!(sketch.class("/dev/mmcblk1"), ("sd", expected.map(str::to_owned)));
        }
    }

    #[test]
    fn the_class_of_a_disk_comes_from_its_bus_and_its_model() {
        let sketch = Sketch::new();
        let pci = "/sys/devices/pci0000:00/0000:00:17.0";
        let scsi = "host2/target2:0:0/2:0:0:0/block";
        let disks = [
            (format!("{pci}/ata3/{scsi}/sda"), "Samsung SSD 860", "0\n", "sata-ssd"),
            (format!("{pci}/ata3/{scsi}/sdb"), "WDC WD2000F9YZ-0", "1\n", "hdd"),
            (format!("{pci}/ata3/{scsi}/sdc"), "QEMU HARDDISK", "1\n", "virtual"),
            (format!("{pci}/usb1/1-1/1-1:1.0/{scsi}/sdd"), "Ultra Fit", "1\n", "unknown"),
            (format!("{pci}/nvme/nvme0/nvme0n1"), "Samsung SSD 970 EVO Plus 1TB", "0\n", "nvme"),
            (format!("{pci}/nvme/nvme1/nvme1n1"), "Amazon Elastic Block Store", "0\n", "virtual"),
            (format!("{pci}/virtio1/block/vda"), "", "1\n", "virtual"),
            (format!("{pci}/virtio2/{scsi}/sde"), "ImageDisk", "1\n", "virtual"),
        ];
        for (number, (path, model, rotational, expected)) in disks.iter().enumerate() {
            let name = path.rsplit('/').next().unwrap();
            let files = [("device/model", *model), ("queue/rotational", *rotational)];
            sketch.device(path, &format!("8:{number}"), &files);
            assert_eq!(sketch.class(&format!("/dev/{name}")).0, *expected, "{name}");
        }
    }

    #[test]
    fn files_and_mappings_are_followed_to_their_disk() {
        let sketch = Sketch::new();
        let mmc = "/sys/devices/platform/mmc_host/mmc0/mmc0:0001/block/mmcblk0";
        sketch.device(mmc, "179:0", &[("device/type", "MMC\n")]);
        sketch.device(&format!("{mmc}/mmcblk0p2"), "179:2", &[("partition", "2\n")]);
        let mapping = "/sys/devices/virtual/block/dm-0";
        sketch.device(mapping, "253:0", &[]);
        sketch.link(&format!("{mapping}/slaves/mmcblk0p2"), &format!("{mmc}/mmcblk0p2"));
        sketch.write("/dev/dm-0", "");
        sketch.link("/dev/mapper/root", "/dev/dm-0");
        let image = [("loop/backing_file", "/images/swap.img\n")];
        sketch.device("/sys/devices/virtual/block/loop0", "7:0", &image);
        let mounts = "1 0 253:0 / / rw - ext4 /dev/mapper/root rw\n\
                      2 1 0:30 / /pool rw - btrfs /dev/mapper/root rw\n\
                      3 1 0:31 / /tmp rw - tmpfs tmpfs rw\n";
        sketch.write("/proc/self/mountinfo", mounts);
        for path in ["/", "/swapfile", "/dev/mapper/root", "/dev/loop0", "/pool/swapfile"] {
            let disk = sketch.disk(path).unwrap();
            assert_eq!((disk.name.as_str(), disk.class.name()), ("mmcblk0", "emmc"), "{path}");
        }
        assert_eq!(sketch.disk("/tmp/swapfile"), None);
        assert_eq!(sketch.disk("/dev/absent"), None);
    }

    #[test]
    fn a_loop_of_layers_has_no_disk() {
        let sketch = Sketch::new();
        let image = [("loop/backing_file", "/dev/loop0\n")];
        sketch.device("/sys/devices/virtual/block/loop0", "7:0", &image);
        assert_eq!(sketch.disk("/dev/loop0"), None);
    }
}
