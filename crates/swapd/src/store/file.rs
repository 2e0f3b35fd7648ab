//! The file or block device of a tier. Block `i` lies at byte `i * 4096`; a block of the slow tier is a slot, and one
//! of the fast tier is a frame.
//!
//! A file is made by the server, readable by its owner only, and written once with zeros: a write to space that was
//! allocated but never written changes the file system's metadata, which takes memory when there is none.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use linux::{Root, loop_device, swap};
use rustix::fs::{
    FallocateFlags, FlockOperation, OFlags, SeekFrom, fallocate, flock, fstatfs, fstatvfs, major,
    minor, seek,
};
use rustix::io::{Errno, pwrite};

use super::Tier;
use crate::Error;
use crate::carrier::SLOT_BYTES;

/// `f_type` of file systems that keep files in memory (include/uapi/linux/magic.h).
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];
/// Why a path cannot be served.
const NO_CONTENT: &str = "is neither a block device nor a file";
/// Bytes of zeros written at a time.
const ZEROS: usize = 1 << 20;

/// Opens the block device at `path`, or makes a file there, with O_DIRECT. It has `blocks` blocks for a tier. A file
/// has no name afterwards, and the kernel frees it with its last user.
///
/// # Errors
/// The path is in use, or a file that exists; the file system has too little space, lies in memory, or has no
/// O_DIRECT; the device is smaller than the tier.
pub fn open(root: &Root, path: &Path, blocks: u64, tier: Tier) -> Result<OwnedFd, Error> {
    let bytes = blocks * SLOT_BYTES as u64;
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_symlink() => match std::fs::canonicalize(path) {
            Ok(target) => open(root, &target, blocks, tier),
            Err(error) => Err(refused(path, &error)),
        },
        Ok(found) if found.file_type().is_block_device() => open_device(root, path, bytes, tier),
        Ok(_) => Err(Error::Refused(format!(
            "{}: exists; the {} tier is a block device, or a file that swapd makes: name a path \
             that does not exist",
            path.display(),
            tier.name()
        ))),
        Err(_) => make_file(path, bytes, tier),
    }
}

/// The number of blocks of the device or file whose content is served.
///
/// # Errors
/// The device cannot be read, or has no whole number of blocks.
pub fn content_slots(path: &Path) -> Result<u32, Error> {
    // Opening a pipe waits, and opening some devices has effects.
    let kind = std::fs::metadata(path).map_err(|error| refused(path, &error))?.file_type();
    if !kind.is_block_device() && !kind.is_file() {
        return Err(refused(path, &NO_CONTENT));
    }
    let file = File::open(path).map_err(|error| refused(path, &error))?;
    let bytes = seek(&file, SeekFrom::End(0)).map_err(|error| refused(path, &error))?;
    let blocks = bytes / SLOT_BYTES as u64;
    if !bytes.is_multiple_of(SLOT_BYTES as u64) || !(1..u64::from(u32::MAX)).contains(&blocks) {
        let what = format!(
            "has {bytes} bytes; a served device has a multiple of {SLOT_BYTES}, less than 16TiB"
        );
        return Err(refused(path, &what));
    }
    Ok(blocks as u32)
}

/// Opens the block device or file whose content is served, with O_DIRECT, and changes nothing of it. No other server
/// gets it until the descriptor and its copies are closed.
///
/// # Errors
/// The path is no device or file, cannot be written, or is in use; it has another number of blocks than `slots`.
pub fn open_content(root: &Root, path: &Path, slots: u32) -> Result<OwnedFd, Error> {
    let path = &std::fs::canonicalize(path).map_err(|error| refused(path, &error))?;
    let kind = std::fs::metadata(path).map_err(|error| refused(path, &error))?.file_type();
    let bytes = u64::from(slots) * SLOT_BYTES as u64;
    let file = if kind.is_block_device() {
        open_device(root, path, bytes, Tier::Slow)?
    } else if kind.is_file() {
        if loop_device::is_attached(root, path)? {
            return Err(refused(
                path,
                &"is the file of a loop device; serve that device, or detach it",
            ));
        }
        // The kernel lets a swap file be opened, but refuses to write to it.
        if swap::areas(root)?.iter().any(|area| is_same(&area.path, path)) {
            return Err(refused(path, &"is used as swap; swapoff it"));
        }
        let file = options().open(path).map_err(|error| match error.raw_os_error() {
            Some(code) if code == Errno::INVAL.raw_os_error() => refused(
                path,
                &"its file system has no direct I/O (O_DIRECT); move it to another one",
            ),
            _ => refused(path, &error),
        })?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| refused(path, &"is locked by another program; end that program"))?;
        file.into()
    } else {
        return Err(refused(path, &NO_CONTENT));
    };
    match seek(&file, SeekFrom::End(0)) {
        Ok(found) if found == bytes => Ok(file),
        Ok(_) => Err(refused(path, &"changes its size")),
        Err(error) => Err(refused(path, &error)),
    }
}

/// Whether two paths name the same block device, or the same file that may not exist yet.
pub fn is_same(first: &Path, second: &Path) -> bool {
    if let (Ok(first), Ok(second)) = (std::fs::metadata(first), std::fs::metadata(second)) {
        let are_devices = [&first, &second].iter().all(|found| found.file_type().is_block_device());
        return match are_devices {
            true => first.rdev() == second.rdev(),
            false => (first.dev(), first.ino()) == (second.dev(), second.ino()),
        };
    }
    let whole = |path: &Path| {
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let folder = std::fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?;
        Some(folder.join(path.file_name()?))
    };
    whole(first).is_some_and(|first| whole(second) == Some(first))
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

fn open_device(root: &Root, path: &Path, bytes: u64, tier: Tier) -> Result<OwnedFd, Error> {
    // The kernel opens a loop device over a swap file in use, but refuses every write to it.
    if let Some(file) = loop_device::file_of(root, path)?
        && swap::areas(root)?.iter().any(|area| is_same(&area.path, &file))
    {
        let file = file.display();
        return Err(refused(path, &format!("its file {file} is used as swap; swapoff {file}")));
    }
    let flags = OFlags::DIRECT | OFlags::EXCL;
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(flags.bits() as i32);
    let file = options.open(path).map_err(|error| match error.raw_os_error() {
        Some(code) if code == Errno::BUSY.raw_os_error() => {
            refused(
                path,
                &"is mounted, swapped on, or used by another device; end that use, or name another device",
            )
        }
        _ => refused(path, &error),
    })?;
    if is_read_only(&file) {
        return Err(refused(path, &"is read-only; name a device that can be written"));
    }
    let size = seek(&file, SeekFrom::End(0)).map_err(|error| refused(path, &error))?;
    if size < bytes {
        let (name, option) = (tier.name(), tier.size_option());
        let what =
            format!("has {size} bytes, fewer than the {bytes} of the {name} tier; lower {option}");
        return Err(refused(path, &what));
    }
    Ok(file.into())
}

/// Whether the kernel refuses writes to a device, which it opens for writing even so.
fn is_read_only(device: &File) -> bool {
    let Ok(found) = device.metadata() else { return false };
    let (major, minor) = (major(found.rdev()), minor(found.rdev()));
    let attribute = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/ro"));
    attribute.is_ok_and(|text| text.trim() == "1")
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

fn make_file(path: &Path, bytes: u64, tier: Tier) -> Result<OwnedFd, Error> {
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
    #[allow(clippy::useless_conversion, reason = "the type has 32 bits on 32-bit ARM")]
    let kind = i64::from(kind);
    if IN_MEMORY.contains(&kind) {
        return Err(refused(
            path,
            &format!("lies in memory; the {} tier must be on a disk", tier.name()),
        ));
    }
    // A refused fallocate would first take all that is free, from every other program.
    let free = fstatvfs(&file).map_or(u64::MAX, |found| found.f_bavail * found.f_frsize);
    if free < bytes {
        let what = format!(
            "{free} bytes are free there, fewer than the {bytes} of the {} tier",
            tier.name()
        );
        return Err(refused(path, &what));
    }
    fallocate(&file, FallocateFlags::empty(), 0, bytes).map_err(|error| refused(path, &error))?;
    write_zeros(&file, bytes).map_err(|error| refused(path, &format!("cannot write: {error}")))?;
    std::fs::remove_file(path).map_err(|error| refused(path, &error))?;
    incomplete.0 = None;
    Ok(file.into())
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
    use super::*;

    fn folder() -> tempfile::TempDir {
        // The usual folder for temporary files may lie in memory.
        tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap()
    }

    #[test]
    fn a_file_is_whole_private_and_without_a_name() {
        let folder = folder();
        let path = folder.path().join("slow");
        let file = open(&Root::system(), &path, 300, Tier::Slow).unwrap();
        let found = File::from(file).metadata().unwrap();
        assert_eq!((found.len(), found.mode() & 0o777), (300 * 4096, 0o600));
        assert!(found.blocks() * 512 >= found.len() && !path.exists());
    }

    #[test]
    fn two_names_of_a_file_are_the_same_and_two_files_are_not() {
        let folder = folder();
        let path = |name: &str| folder.path().join(name);
        assert!(is_same(&path("new"), &path("./new")) && !is_same(&path("new"), &path("newer")));
        assert!(is_same(Path::new("new"), Path::new("./new")));
        std::fs::write(path("made"), "data").unwrap();
        std::os::unix::fs::symlink("made", path("link")).unwrap();
        assert!(is_same(&path("made"), &path("link")) && !is_same(&path("made"), &path("new")));
    }

    #[test]
    fn what_cannot_be_a_tier_is_refused_and_leaves_nothing() {
        let folder = folder();
        let path = folder.path().join("slow");
        let error =
            open(&Root::system(), &path, u32::MAX.into(), Tier::Slow).unwrap_err().to_string();
        assert!(error.contains("bytes are free there"), "{error}");
        assert!(!path.exists());
        let nowhere = folder.path().join("absent/slow");
        assert!(
            open(&Root::system(), &nowhere, 1, Tier::Slow)
                .unwrap_err()
                .to_string()
                .contains("absent/slow")
        );
        let error = open(&Root::system(), folder.path(), 1, Tier::Fast).unwrap_err().to_string();
        assert!(error.contains("exists; the fast tier"), "{error}");
        let memory = Path::new("/dev/shm/pagewise-test-slow");
        let error = open(&Root::system(), memory, 1, Tier::Slow).unwrap_err().to_string();
        assert!(error.contains("memory") || error.contains("direct"), "{error}");
        assert!(!memory.exists());
    }
}
