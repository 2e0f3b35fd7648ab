//! Finds the places of a file on its disk, with FIEMAP (Documentation/filesystems/fiemap.rst, Linux
//! 6.18).
#![allow(unsafe_code, reason = "FIEMAP has no safe wrapper")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use crate::system::device_number;
use crate::{Error, Root};

/// A contiguous range of a file on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileExtent {
    /// The kernel's number of the whole device.
    pub device: u32,
    /// The offset of the extent on the device.
    pub device_byte: u64,
    /// The offset of the extent in the file.
    pub file_byte: u64,
    /// The length of the extent.
    pub bytes: u64,
}

/// The extents of the file or block device at `path`, in the order of the file.
///
/// # Errors
/// The operating system refuses; some file systems do not support FIEMAP.
pub fn of(root: &Root, path: &Path) -> Result<Vec<FileExtent>, Error> {
    let refused = |error: io::Error| Error::refused("find on its disk", path, error);
    let file = File::open(path).map_err(refused)?;
    let metadata = file.metadata().map_err(refused)?;
    if metadata.file_type().is_block_device() {
        let (device, start_byte) = whole_device(root, metadata.rdev())?;
        let bytes = u64::MAX - start_byte;
        return Ok(vec![FileExtent { device, device_byte: start_byte, file_byte: 0, bytes }]);
    }
    let (device, start_byte) = whole_device(root, metadata.dev())?;
    let mut extents: Vec<FileExtent> = Vec::new();
    loop {
        let begin = extents.last().map_or(0, |last| last.file_byte + last.bytes);
        let next = map(&file, begin).map_err(refused)?;
        extents.extend(next.iter().map(|piece| FileExtent {
            device,
            device_byte: start_byte + piece.physical,
            file_byte: piece.logical,
            bytes: piece.length,
        }));
        if next.last().is_none_or(|last| last.flags & LAST != 0 || last.length == 0) {
            return Ok(extents);
        }
    }
}

/// The disk of a partition, and the partition's offset; a device that is not a partition is its own disk.
fn whole_device(root: &Root, device: u64) -> Result<(u32, u64), Error> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let folder = format!("/sys/dev/block/{major}:{minor}");
    let Some(start) = root.read(format!("{folder}/start"))? else {
        return Ok((device_number(major, minor), 0));
    };
    let text = root.read(format!("{folder}/../dev"))?.unwrap_or_default();
    let parent = text.trim().split_once(':').and_then(|(major, minor)| {
        let device = device_number(major.parse().ok()?, minor.parse().ok()?);
        Some((device, start.trim().parse::<u64>().ok()?))
    });
    let (device, sector) =
        parent.ok_or_else(|| Error::unexpected(&folder, "expected a partition with its disk"))?;
    Ok((device, sector * 512))
}

/// `struct fiemap_extent` of include/uapi/linux/fiemap.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Piece {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_words: [u32; 3],
}

const PIECES: usize = 128;
/// FIEMAP_EXTENT_LAST.
const LAST: u32 = 1;
/// _IOWR('f', 11, struct fiemap).
const FS_IOC_FIEMAP: libc::c_ulong = 0xC020_660B;

/// `struct fiemap`, followed by its extents.
#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    pieces: [Piece; PIECES],
}

/// The next extents of `file` from byte `start`.
fn map(file: &File, start: u64) -> io::Result<Vec<Piece>> {
    let mut request = Request {
        start,
        length: u64::MAX - start,
        flags: 0,
        mapped: 0,
        count: PIECES as u32,
        reserved: 0,
        pieces: [Piece::default(); PIECES],
    };
    // SAFETY: the call fills at most `count` pieces, for which `request` has room.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut request) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(request.pieces[..request.mapped.min(PIECES as u32) as usize].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_extents_of_a_file_cover_it_in_order() {
        // Beside the sources, because the folder of temporary files may be a tmpfs.
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![7; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let extents = match of(&Root::system(), Path::new(&path)) {
            Ok(extents) => extents,
            Err(error) => return testkit::skipped(&error.to_string()),
        };
        let mut end = 0;
        for extent in &extents {
            assert_eq!(extent.file_byte, end);
            assert!(extent.bytes > 0 && extent.device != 0);
            end += extent.bytes;
        }
        assert_eq!(end, 1 << 20);
    }

    #[test]
    fn a_partition_is_mapped_to_its_disk() {
        let folder = tempfile::tempdir().unwrap();
        let part = folder.path().join("sys/devices/sda/sda2");
        std::fs::create_dir_all(&part).unwrap();
        std::fs::write(part.join("start"), "2048\n").unwrap();
        std::fs::write(part.join("../dev"), "8:0\n").unwrap();
        let links = folder.path().join("sys/dev/block");
        std::fs::create_dir_all(&links).unwrap();
        std::os::unix::fs::symlink(&part, links.join("8:2")).unwrap();
        let root = Root::at(folder.path());
        let device = |minor| rustix::fs::makedev(8, minor);
        assert_eq!(whole_device(&root, device(2)).unwrap(), (8 << 20, 2048 * 512));
        assert_eq!(whole_device(&root, device(1)).unwrap(), (8 << 20 | 1, 0));
    }
}
