//! Swap areas: lists those in use, from `/proc/swaps`, and creates, enables and disables areas.
#![allow(unsafe_code, reason = "swapon and swapoff have no safe wrapper")]

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::{Error, Root, unescape};

/// A swap area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// The file or device.
    pub path: PathBuf,
    /// Whether the area is a file of a file system.
    pub is_file: bool,
    /// The size of the area.
    pub bytes: u64,
    /// Bytes in use.
    pub bytes_used: u64,
    /// The priority of the area: the kernel uses the highest first, and equal ones in turn.
    pub priority: i32,
}

/// The areas in use, in the kernel's order.
///
/// # Errors
/// The operating system refuses, or a line has an unexpected format.
pub fn areas(root: &Root) -> Result<Vec<Area>, Error> {
    let text = root.read("/proc/swaps")?.unwrap_or_default();
    let area = |line| {
        parse(line).ok_or_else(|| {
            Error::unexpected("/proc/swaps", format!("expected a path and four fields: {line:?}"))
        })
    };
    text.lines().skip(1).filter(|line| !line.trim().is_empty()).map(area).collect()
}

fn parse(line: &str) -> Option<Area> {
    let mut fields = line.split_whitespace().rev();
    let priority = fields.next()?.parse().ok()?;
    let used_kibibytes: u64 = fields.next()?.parse().ok()?;
    let kibibytes: u64 = fields.next()?.parse().ok()?;
    let is_file = fields.next()? == "file";
    let path = fields.next()?;
    Some(Area {
        path: unescape(path),
        is_file,
        bytes: kibibytes * 1024,
        bytes_used: used_kibibytes * 1024,
        priority,
    })
}

/// The highest priority of an area.
pub const PRIORITY_MAX: i32 = 32767;

/// The flag of swapon for a priority in the lower bits (include/linux/swap.h).
const PREFER: i32 = 0x8000;
/// The flags of swapon that make it discard freed slots while the area is in use, but not all slots at once at the
/// start.
const DISCARD_FREED: i32 = 0x10000 | 0x40000;

/// Creates a fully allocated file of `bytes` at `path`, and formats it as a swap area. An existing file is
/// not touched.
///
/// # Errors
/// The file exists, the disk is full, or the operating system refuses.
pub fn create_file(path: &Path, bytes: u64) -> Result<(), Error> {
    let refused = |error| Error::refused("make the swap file", path, error);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let file = file.map_err(refused)?;
    // Checked first, because some file systems fill up before fallocate fails.
    let room = rustix::fs::fstatvfs(&file).map_err(|error| refused(error.into()))?;
    let left_bytes = room.f_bavail.saturating_mul(room.f_frsize);
    if bytes > left_bytes {
        let (wanted, left) = (bytes >> 20, left_bytes >> 20);
        let what = format!(
            "a swap file of {wanted} MiB does not fit: {left} MiB are left; choose a \
             smaller size, or a folder on a larger disk"
        );
        return Err(Error::unexpected(path, what));
    }
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)
        .map_err(|error| refused(error.into()))?;
    format(path, bytes)
}

/// Formats the file or device at `path`, of `bytes`, as a swap area
/// (`union swap_header` in include/linux/swap.h).
///
/// # Errors
/// The operating system refuses.
pub fn format(path: &Path, bytes: u64) -> Result<(), Error> {
    format_as(path, bytes, &Identity::default())
}

/// What tools such as blkid show of an area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// A number unlike that of any other area; zeros for none.
    pub uuid: [u8; 16],
    /// The name of the area, filled up with NUL bytes.
    pub label: [u8; 16],
}

const MAGIC: &[u8] = b"SWAPSPACE2";
const VERSION_AT: usize = 1024;
const UUID_AT: usize = 1036;
const LABEL_AT: usize = 1052;

/// Formats the file or device at `path`, of `bytes`, as a swap area that shows `identity`.
///
/// # Errors
/// The operating system refuses.
pub fn format_as(path: &Path, bytes: u64, identity: &Identity) -> Result<(), Error> {
    let page_bytes = rustix::param::page_size();
    let mut header = vec![0; page_bytes];
    let last_page = (bytes / page_bytes as u64).saturating_sub(1) as u32;
    header[VERSION_AT..VERSION_AT + 4].copy_from_slice(&1u32.to_ne_bytes());
    header[VERSION_AT + 4..VERSION_AT + 8].copy_from_slice(&last_page.to_ne_bytes());
    header[UUID_AT..UUID_AT + 16].copy_from_slice(&identity.uuid);
    header[LABEL_AT..LABEL_AT + 16].copy_from_slice(&identity.label);
    header[page_bytes - MAGIC.len()..].copy_from_slice(MAGIC);
    let write = || {
        let mut file = OpenOptions::new().write(true).open(path)?;
        file.write_all(&header)?;
        file.sync_all()
    };
    write().map_err(|error| Error::refused("format the swap area", path, error))
}

/// The identity of the swap area in the file or device at `path`; None if it has none, or cannot be read.
pub fn identity(path: &Path) -> Option<Identity> {
    let mut header = vec![0; rustix::param::page_size()];
    File::open(path).and_then(|mut file| file.read_exact(&mut header)).ok()?;
    let at = |offset: usize| header[offset..offset + 16].try_into().ok();
    header.ends_with(MAGIC).then_some(Identity { uuid: at(UUID_AT)?, label: at(LABEL_AT)? })
}

/// Enables the area at `path` with a priority from 0 to 32767.
///
/// # Errors
/// The operating system refuses.
pub fn on(path: &Path, priority: i32) -> Result<(), Error> {
    on_with(path, priority, 0)
}

/// Enables the area at `path` with a priority from 0 to 32767, and lets the kernel discard its freed slots. A device
/// that takes no discards gets none.
///
/// # Errors
/// The operating system refuses.
pub fn on_discarding(path: &Path, priority: i32) -> Result<(), Error> {
    on_with(path, priority, DISCARD_FREED)
}

fn on_with(path: &Path, priority: i32, flags: i32) -> Result<(), Error> {
    let flags = flags | PREFER | (priority & PRIORITY_MAX);
    let name = c_path(path)?;
    // SAFETY: the path is a string that ends in NUL and lives during the call.
    if unsafe { libc::swapon(name.as_ptr(), flags) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // It has the signature of a swap area, so the file system does not support swap files.
        Some(libc::EINVAL) => Err(Error::unexpected(
            path,
            "its file system does not support swap files, like tmpfs and overlay; choose a folder \
             on a disk",
        )),
        _ => Err(Error::refused("use it as a swap area", path, error)),
    }
}

/// Disables the area at `path`; an area that is not in use is ignored.
///
/// # Errors
/// The operating system refuses: memory may have no room for the swapped pages.
pub fn off(path: &Path) -> Result<(), Error> {
    let name = c_path(path)?;
    // SAFETY: the path is a string that ends in NUL and lives during the call.
    if unsafe { libc::swapoff(name.as_ptr()) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::ENOENT) => Ok(()),
        _ => Err(Error::refused("disable the swap area", path, error)),
    }
}

fn c_path(path: &Path) -> Result<CString, Error> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::unexpected(path, "a path with a NUL byte"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_an_area_may_contain_blanks() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        let text = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                    /dev/zram0                              partition\t524284\t\t1024\t\t100\n\
                    /var/swap\\040file                      file\t\t1048572\t\t0\t\t-2\n";
        std::fs::write(folder.path().join("proc/swaps"), text).unwrap();
        let areas = areas(&Root::at(folder.path())).unwrap();
        assert_eq!(areas.len(), 2);
        assert_eq!((areas[0].bytes, areas[0].bytes_used), (524284 * 1024, 1024 * 1024));
        assert_eq!(areas[1].path, PathBuf::from("/var/swap file"));
        assert_eq!((areas[1].is_file, areas[1].priority), (true, -2));
    }

    #[test]
    fn a_swap_file_has_its_signature_and_must_fit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("swap");
        create_file(&path, 1 << 20).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let page_bytes = rustix::param::page_size();
        assert_eq!(bytes.len(), 1 << 20);
        assert_eq!(&bytes[page_bytes - 10..page_bytes], b"SWAPSPACE2");
        let pages = u32::from_ne_bytes(bytes[1028..1032].try_into().unwrap());
        assert_eq!(pages as usize, (1 << 20) / page_bytes - 1);
        // An existing file is not touched.
        assert!(create_file(&path, 1 << 20).is_err());
        let own = Identity { uuid: [7; 16], label: *b"sixteen letters!" };
        format_as(&path, 1 << 20, &own).unwrap();
        assert_eq!(identity(&path), Some(own));
        std::fs::write(&path, [0; 1 << 16]).unwrap();
        assert_eq!(identity(&path), None);

        let error = create_file(&folder.path().join("huge"), 1 << 60).unwrap_err().to_string();
        assert!(error.contains("does not fit"), "{error}");
    }

    #[test]
    fn a_line_of_another_format_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        std::fs::write(folder.path().join("proc/swaps"), "Filename\nwhat is this\n").unwrap();
        let error = areas(&Root::at(folder.path())).unwrap_err().to_string();
        assert!(error.contains("/proc/swaps") && error.contains("what is this"), "{error}");
    }
}
