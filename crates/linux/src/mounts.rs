//! Where file systems are mounted, from `/proc/self/mountinfo`.

use std::collections::HashMap;

use crate::system::device_number;
use crate::{Error, Root, unescape};

/// The mount point of each file system by the kernel's number of its device: of several, the first
/// that shows the file system's root.
///
/// # Errors
/// What the operating system refuses.
pub fn by_device(root: &Root) -> Result<HashMap<u32, String>, Error> {
    let text = root.read("/proc/self/mountinfo")?.unwrap_or_default();
    let mut points = HashMap::new();
    for (device, point) in text.lines().filter_map(parse) {
        points.entry(device).or_insert(point);
    }
    Ok(points)
}

/// Device and mount point of one line, where it shows the root of its file system.
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
}
