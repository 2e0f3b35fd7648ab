//! Loop devices: block devices whose content is a file.
#![allow(unsafe_code, reason = "the ioctls of loop devices have no safe wrapper")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::{Error, Root};

const CONTROL: &str = "/dev/loop-control";
/// Another program may take the free device first; so often is another tried.
const TRIES_MAX: usize = 64;

// Numbers of include/uapi/linux/loop.h.
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_CLR_FD: libc::Ioctl = 0x4C01;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_info64`.
#[repr(C)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct Config {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

/// A loop device that is open in this process. The kernel frees the device when nothing has it open or uses it as a
/// swap area any more.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    file: File,
}

impl LoopDevice {
    /// Attaches `file` to a free device, with direct I/O and blocks of `block_bytes`. The call asks the file system
    /// of `file` for its attributes, so the thread that serves that file system must not make it.
    ///
    /// # Errors
    /// The operating system refuses, or the kernel would not use direct I/O.
    pub fn attach(root: &Root, file: &OwnedFd, block_bytes: u32) -> Result<LoopDevice, Error> {
        let control = open(Path::new(CONTROL))?;
        for _ in 0..TRIES_MAX {
            // SAFETY: this request has no argument.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
            if number < 0 {
                let error = io::Error::last_os_error();
                return Err(Error::refused("find a free loop device", CONTROL, error));
            }
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = LoopDevice { file: open(&path)?, path };
            match device.configure(file, block_bytes) {
                Ok(()) => return device.with_direct_io(root),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => continue,
                Err(error) => return Err(Error::refused("attach a file", &device.path, error)),
            }
        }
        let error = io::Error::from_raw_os_error(libc::EBUSY);
        Err(Error::refused("find a free loop device", CONTROL, error))
    }

    /// Takes over an open device from a process that ended.
    pub fn adopt(path: PathBuf, device: OwnedFd) -> LoopDevice {
        LoopDevice { path, file: File::from(device) }
    }

    fn configure(&self, file: &OwnedFd, block_bytes: u32) -> io::Result<()> {
        let config = Config {
            fd: file.as_raw_fd() as u32,
            block_size: block_bytes,
            info: Info {
                device: 0,
                inode: 0,
                rdevice: 0,
                offset: 0,
                sizelimit: 0,
                number: 0,
                encrypt_type: 0,
                encrypt_key_size: 0,
                flags: LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
                file_name: [0; 64],
                crypt_name: [0; 64],
                encrypt_key: [0; 32],
                init: [0; 2],
            },
            reserved: [0; 8],
        };
        // SAFETY: the kernel reads one `struct loop_config`, which lives during the call.
        match unsafe { libc::ioctl(self.file.as_raw_fd(), LOOP_CONFIGURE, &raw const config) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The kernel falls back to the page cache without an error, so ask.
    fn with_direct_io(self, root: &Root) -> Result<LoopDevice, Error> {
        let path = attribute(&self.name(), "loop/dio");
        match root.read(&path)? {
            Some(text) if text.trim() == "0" => {
                Err(Error::unexpected(&self.path, "the kernel refuses direct I/O for this file"))
            }
            _ => Ok(self),
        }
    }

    /// The path of the device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

impl AsFd for LoopDevice {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The paths of the devices whose file is called `file_name`, in any folder.
///
/// # Errors
/// The operating system refuses.
pub fn holding(root: &Root, file_name: &str) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for name in root.list("/sys/block")?.into_iter().filter(|name| name.starts_with("loop")) {
        let text = root.read(attribute(&name, "loop/backing_file"))?.unwrap_or_default();
        if text.trim_end().rsplit('/').next() == Some(file_name) {
            found.push(Path::new("/dev").join(name));
        }
    }
    Ok(found)
}

/// Whether the file at `path` is that of a device, by this or another name.
///
/// # Errors
/// The operating system refuses.
pub fn is_attached(root: &Root, path: &Path) -> Result<bool, Error> {
    let identity = |path: &Path| {
        std::fs::metadata(root.path(path)).ok().map(|found| (found.dev(), found.ino()))
    };
    let wanted = identity(path);
    for name in root.list("/sys/block")?.into_iter().filter(|name| name.starts_with("loop")) {
        let text = root.read(attribute(&name, "loop/backing_file"))?.unwrap_or_default();
        let file = Path::new(text.trim_end_matches('\n'));
        if file == path || (wanted.is_some() && identity(file) == wanted) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The file of the loop device at `path`; None if it is another device, or has no file.
///
/// # Errors
/// The operating system refuses.
pub fn file_of(root: &Root, path: &Path) -> Result<Option<PathBuf>, Error> {
    let number = std::fs::metadata(path).map(|found| found.rdev());
    let number = number.map_err(|error| Error::refused("look at", path, error))?;
    file_of_number(root, libc::major(number), libc::minor(number))
}

/// The file of the loop device with this number, or of the one with this partition.
fn file_of_number(root: &Root, major: u32, minor: u32) -> Result<Option<PathBuf>, Error> {
    let folder = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
    for attribute in ["loop/backing_file", "../loop/backing_file"] {
        if let Some(text) = root.read(folder.join(attribute))? {
            return Ok(Some(PathBuf::from(text.trim_end_matches('\n'))));
        }
    }
    Ok(None)
}

/// Detaches the file of the device at `path`; a device without a file is ignored.
///
/// # Errors
/// The operating system refuses.
pub fn detach(path: &Path) -> Result<(), Error> {
    let device = open(path)?;
    // SAFETY: this request has no argument.
    if unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENXIO) => Ok(()),
        _ => Err(Error::refused("detach its file", path, error)),
    }
}

fn attribute(name: &str, attribute: &str) -> PathBuf {
    Path::new("/sys/block").join(name).join(attribute)
}

fn open(path: &Path) -> Result<File, Error> {
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(path);
    file.map_err(|error| Error::refused("open it", path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_by_the_name_of_its_file() {
        assert_eq!(size_of::<Config>(), 304);
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for (name, file) in [("loop0", "/srv/swap-1\n"), ("loop1", "/swap-12\n"), ("vda", "x")] {
            let path = root.path(attribute(name, "loop"));
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("backing_file"), file).unwrap();
        }
        assert_eq!(holding(&root, "swap-1").unwrap(), [Path::new("/dev/loop0")]);
        assert_eq!(holding(&root, "swap").unwrap(), [Path::new("/none"); 0]);
        assert!(is_attached(&root, Path::new("/srv/swap-1")).unwrap());
        assert!(!is_attached(&root, Path::new("/swap-1")).unwrap());
        // Another name of the same file.
        std::fs::create_dir(root.path("/srv")).unwrap();
        std::fs::write(root.path("/srv/swap-1"), "").unwrap();
        std::fs::hard_link(root.path("/srv/swap-1"), root.path("/other")).unwrap();
        assert!(is_attached(&root, Path::new("/other")).unwrap());
    }

    #[test]
    fn the_file_of_a_device_or_of_its_partition_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let disk = root.path("/sys/devices/virtual/block/loop3");
        std::fs::create_dir_all(disk.join("loop")).unwrap();
        std::fs::create_dir_all(disk.join("loop3p1")).unwrap();
        std::fs::write(disk.join("loop/backing_file"), "/srv/disk image\n").unwrap();
        let numbers = root.path("/sys/dev/block");
        std::fs::create_dir_all(&numbers).unwrap();
        let link = |target: &Path, name: &str| {
            std::os::unix::fs::symlink(target, numbers.join(name)).unwrap();
        };
        link(&disk, "7:3");
        link(&disk.join("loop3p1"), "259:0");
        for (major, minor) in [(7, 3), (259, 0)] {
            let file = file_of_number(&root, major, minor).unwrap();
            assert_eq!(file, Some(PathBuf::from("/srv/disk image")));
        }
        assert_eq!(file_of_number(&root, 254, 0).unwrap(), None);
    }
}
