//! The file or block device of the slow tier. Slot `i` lies at byte `i * 4096`.
//!
//! A file is made by the server, readable by its owner only, and written once with zeros: a write to space that was
//! allocated but never written changes the file system's metadata, which takes memory when there is none.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, OFlags, SeekFrom, fallocate, fstatfs, fstatvfs, seek};
use rustix::io::{Errno, pwrite};

use crate::Error;
use crate::carrier::SLOT_BYTES;

/// `f_type` of file systems that keep files in memory (include/uapi/linux/magic.h).
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];
/// Bytes of zeros written at a time.
const ZEROS: usize = 1 << 20;

/// An open slow tier.
#[derive(Debug)]
pub struct SlowStore {
    /// The file or device, open with O_DIRECT.
    pub file: OwnedFd,
    /// Whether the file is a block device.
    pub is_device: bool,
}

/// Opens the block device at `path`, or makes a file there that has `slots` slots. With `is_kept` the file keeps
/// its name, for a server that takes over; otherwise it has none, and the kernel frees it with its last user.
///
/// # Errors
/// The path is in use, or a file that exists; the file system has too little space, lies in memory, or has no
/// O_DIRECT; the device is smaller than the area.
pub fn open(path: &Path, slots: u32, is_kept: bool) -> Result<SlowStore, Error> {
    let bytes = u64::from(slots) * SLOT_BYTES as u64;
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_symlink() => match std::fs::canonicalize(path) {
            Ok(target) => open(&target, slots, is_kept),
            Err(error) => Err(refused(path, &error)),
        },
        Ok(found) if found.file_type().is_block_device() => open_device(path, bytes),
        Ok(_) => Err(Error::Refused(format!(
            "{}: exists; the slow tier is a block device, or a file that swapd makes: name a path \
             that does not exist",
            path.display()
        ))),
        Err(_) => make_file(path, bytes, is_kept),
    }
}

fn refused(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::Refused(format!("{}: {error}", path.display()))
}

fn options() -> OpenOptions {
    let flags = OFlags::DIRECT | OFlags::NOATIME;
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(flags.bits() as i32);
    options
}

fn open_device(path: &Path, bytes: u64) -> Result<SlowStore, Error> {
    let flags = OFlags::DIRECT | OFlags::EXCL;
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(flags.bits() as i32);
    let file = options.open(path).map_err(|error| match error.raw_os_error() {
        Some(code) if code == Errno::BUSY.raw_os_error() => {
            refused(path, &"is mounted, swapped on, or used by another device")
        }
        _ => refused(path, &error),
    })?;
    let size = seek(&file, SeekFrom::End(0)).map_err(|error| refused(path, &error))?;
    if size < bytes {
        let what =
            format!("has {size} bytes, fewer than the {bytes} of the swap area; lower --size");
        return Err(refused(path, &what));
    }
    Ok(SlowStore { file: file.into(), is_device: true })
}

/// Removes a file that could not be completed.
struct Incomplete<'a>(Option<&'a Path>);

impl Drop for Incomplete<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn make_file(path: &Path, bytes: u64, is_kept: bool) -> Result<SlowStore, Error> {
    let file = options().create_new(true).mode(0o600).open(path).map_err(|error| {
        match error.raw_os_error() {
            Some(code) if code == Errno::INVAL.raw_os_error() => {
                // The kernel makes the file before it refuses the flag.
                let _ = std::fs::remove_file(path);
                refused(path, &"its file system has no direct I/O (O_DIRECT); choose another one")
            }
            _ => refused(path, &error),
        }
    })?;
    let mut incomplete = Incomplete(Some(path));
    let kind = fstatfs(&file).map_err(|error| refused(path, &error))?.f_type;
    if IN_MEMORY.contains(&kind) {
        return Err(refused(path, &"lies in memory; the slow tier must be on a disk"));
    }
    // A refused fallocate would first take all that is free, from every other program.
    let free = fstatvfs(&file).map_or(u64::MAX, |found| found.f_bavail * found.f_frsize);
    if free < bytes {
        let what = format!("{free} bytes are free there, fewer than the {bytes} of the swap area");
        return Err(refused(path, &what));
    }
    fallocate(&file, FallocateFlags::empty(), 0, bytes).map_err(|error| refused(path, &error))?;
    write_zeros(&file, bytes).map_err(|error| refused(path, &format!("cannot write: {error}")))?;
    if !is_kept {
        std::fs::remove_file(path).map_err(|error| refused(path, &error))?;
    }
    incomplete.0 = None;
    Ok(SlowStore { file: file.into(), is_device: false })
}

fn write_zeros(file: &File, bytes: u64) -> Result<(), Errno> {
    // Direct I/O needs an aligned buffer.
    let zeros = vec![0_u8; ZEROS + SLOT_BYTES];
    let begin = zeros.as_ptr().align_offset(SLOT_BYTES);
    let zeros = &zeros[begin..begin + ZEROS];
    let mut offset = 0;
    while offset < bytes {
        let count = (bytes - offset).min(ZEROS as u64) as usize;
        match pwrite(file.as_fd(), &zeros[..count], offset)? {
            0 => return Err(Errno::IO),
            written => offset += written as u64,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn folder() -> tempfile::TempDir {
        // The usual folder for temporary files may lie in memory.
        tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap()
    }

    #[test]
    fn a_file_is_whole_private_and_without_a_name() {
        let folder = folder();
        let path = folder.path().join("slow");
        let tier = open(&path, 300, false).unwrap();
        let found = File::from(tier.file).metadata().unwrap();
        assert_eq!((found.len(), found.mode() & 0o777), (300 * 4096, 0o600));
        assert!(found.blocks() * 512 >= found.len() && !path.exists() && !tier.is_device);
        let kept = open(&path, 300, true).unwrap();
        assert!(path.exists());
        let error = open(&path, 300, true).unwrap_err().to_string();
        assert!(error.contains("exists"), "{error}");
        drop(kept);
    }

    #[test]
    fn what_cannot_be_a_slow_tier_is_refused_and_leaves_nothing() {
        let folder = folder();
        let path = folder.path().join("slow");
        let error = open(&path, u32::MAX, false).unwrap_err().to_string();
        assert!(error.contains("bytes are free there"), "{error}");
        assert!(!path.exists());
        let nowhere = folder.path().join("absent/slow");
        assert!(open(&nowhere, 1, false).unwrap_err().to_string().contains("absent/slow"));
        let error = open(folder.path(), 1, false).unwrap_err().to_string();
        assert!(error.contains("exists"), "{error}");
        let memory = Path::new("/dev/shm/pagewise-test-slow");
        let error = open(memory, 1, false).unwrap_err().to_string();
        assert!(error.contains("memory") || error.contains("direct"), "{error}");
        assert!(!memory.exists());
    }
}
