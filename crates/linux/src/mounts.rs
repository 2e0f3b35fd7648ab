//! Mounted file systems, from `/proc/self/mountinfo`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::system::device_number;
use crate::{Error, Root, unescape};

/// The mount point of each file system by its device number. If it is mounted several times, the first mount
/// that shows the file system's root.
///
/// # Errors
/// The operating system refuses.
pub fn by_device(root: &Root) -> Result<HashMap<u32, String>, Error> {
    let text = root.read("/proc/self/mountinfo")?.unwrap_or_default();
    let mut points = HashMap::new();
    for (device, point) in text.lines().filter_map(parse) {
        points.entry(device).or_insert(point);
    }
    Ok(points)
}

/// The device of a mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The device as `major:minor`; major 0 if the file system has no block device number, such as btrfs.
    pub device: String,
    /// The mount source: a device, or a word such as `tmpfs`.
    pub source: PathBuf,
}

/// The file system of the absolute `path`. If several are mounted at the same point, the last one.
///
/// # Errors
/// The operating system refuses.
pub fn holding(root: &Root, path: &Path) -> Result<Option<Mount>, Error> {
    let text = root.read("/proc/self/mountinfo")?.unwrap_or_default();
    let holds = |(point, _): &(PathBuf, Mount)| path.starts_with(point);
    let found = text.lines().filter_map(mounted).filter(holds);
    Ok(found.max_by_key(|(point, _)| point.components().count()).map(|(_, mount)| mount))
}

/// Parses the mount point and the file system of a line.
fn mounted(line: &str) -> Option<(PathBuf, Mount)> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(2);
    let device = fields.next()?.to_owned();
    let point = unescape(fields.nth(1)?);
    Some((point, Mount { device, source: unescape(kind.split(' ').nth(1)?) }))
}

/// Parses the device and the mount point of a line; None if the mount does not show the root of its file system.
fn parse(line: &str) -> Option<(u32, String)> {
    let mut fields = line.split(' ').skip(2);
    let (major, minor) = fields.next()?.split_once(':')?;
    let device = device_number(major.parse().ok()?, minor.parse().ok()?);
    let (root, point) = (fields.next()?, fields.next()?);
    (root == "/").then(|| (device, unescape(point).display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_of_file_systems_are_found_by_device() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc/self")).unwrap();
        let text = "21 1 254:0 / / rw,noatime - ext4 /dev/root rw\n\
                    30 21 0:25 /part /srv rw - btrfs /dev/sdb rw\n\
                    31 21 0:25 / /mnt/a\\040disk rw - btrfs /dev/sdb rw\n\
                    32 21 254:0 / /again rw - ext4 /dev/root rw\n";
        std::fs::write(folder.path().join("proc/self/mountinfo"), text).unwrap();
        let points = by_device(&Root::at(folder.path())).unwrap();
        assert_eq!(points[&(254 << 20)], "/");
        assert_eq!(points[&25], "/mnt/a disk");
    }

    #[test]
    fn a_path_belongs_to_the_deepest_and_last_mount_above_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc/self")).unwrap();
        let text = "1 0 0:1 / / rw - rootfs rootfs rw\n\
                    21 1 254:0 / / rw,noatime shared:1 - ext4 /dev/root rw\n\
                    30 21 0:25 /@swap /swap\\040area rw - btrfs /dev/sdb2 rw,subvol=/@swap\n";
        std::fs::write(folder.path().join("proc/self/mountinfo"), text).unwrap();
        let holding = |path: &str| {
            let mount = holding(&Root::at(folder.path()), Path::new(path)).unwrap().unwrap();
            (mount.device, mount.source)
        };
        assert_eq!(holding("/swapfile"), ("254:0".to_owned(), PathBuf::from("/dev/root")));
        assert_eq!(holding("/swap area/file"), ("0:25".to_owned(), PathBuf::from("/dev/sdb2")));
        assert_eq!(holding("/swap areas"), ("254:0".to_owned(), PathBuf::from("/dev/root")));
    }
}
