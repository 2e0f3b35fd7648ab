//! A folder that only root or this user can write, with files that each belong to the process that has them locked.
//!
//! Contract: the kernel releases a lock when its process ends, however that happens, so a file without a lock was left
//! behind. Links are not followed, and files of other users, or with other names, are not opened for this.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, mkdir, openat,
    unlinkat,
};
use rustix::io::{Errno, pread};

/// A folder that other users cannot write.
#[derive(Debug)]
pub struct PrivateFolder(OwnedFd);

/// Locks `file` for its present handle and the copies of it; returns false if another handle holds the lock.
///
/// # Errors
/// The operating system refuses.
pub fn lock(file: impl AsFd) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl PrivateFolder {
    /// Opens the folder at `path`, which is made if it does not exist.
    ///
    /// # Errors
    /// Another user can write to the folder, or the operating system refuses.
    pub fn open(path: &Path) -> io::Result<PrivateFolder> {
        match mkdir(path, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(CWD, path, flags, Mode::empty())?;
        let found = fstat(&folder)?;
        if !is_trusted(found.st_uid) || found.st_mode & 0o022 != 0 {
            return Err(io::Error::other("others can write there: chmod go-w, chown root"));
        }
        Ok(PrivateFolder(folder))
    }

    /// Creates the file `name` and locks it.
    ///
    /// # Errors
    /// The file exists, or the operating system refuses.
    pub fn create_locked(&self, name: &str) -> io::Result<OwnedFd> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.0, name, flags, Mode::from_raw_mode(0o600))?;
        match lock(&file)? {
            true => Ok(file),
            false => Err(Errno::WOULDBLOCK.into()),
        }
    }

    /// Removes the file `name`, and ignores failures.
    pub fn remove(&self, name: &str) {
        let _ = unlinkat(&self.0, name, AtFlags::empty());
    }

    /// Takes the files that ended processes left: removes each file whose name begins with `prefix` and that no process
    /// has locked, and returns its first `bytes_max` bytes. Looks at `files_max` entries of the folder.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn take_left(
        &self,
        prefix: &str,
        files_max: usize,
        bytes_max: usize,
    ) -> io::Result<Vec<Vec<u8>>> {
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.0)?.flatten().take(files_max) {
            let name = entry.file_name();
            if !name.to_bytes().starts_with(prefix.as_bytes()) {
                continue;
            }
            // A file that cannot be read belongs to no program that locks its own.
            if let Ok(Some(bytes)) = self.left(name, bytes_max) {
                found.push(bytes);
                let _ = unlinkat(&self.0, name, AtFlags::empty());
            }
        }
        Ok(found)
    }

    /// The beginning of a file of a trusted user that no process has locked.
    fn left(&self, name: &CStr, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.0, name, flags, Mode::empty())?;
        let about = fstat(&file)?;
        let is_ours = FileType::from_raw_mode(about.st_mode) == FileType::RegularFile
            && is_trusted(about.st_uid)
            && about.st_nlink == 1;
        if !is_ours || !lock(&file)? {
            return Ok(None);
        }
        let mut bytes = vec![0; bytes_max];
        let length = pread(&file, &mut *bytes, 0)?;
        bytes.truncate(length);
        Ok(Some(bytes))
    }
}

/// Whether to trust files of this user.
fn is_trusted(user: u32) -> bool {
    user == 0 || user == crate::process::user()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn only_files_without_a_lock_are_taken_and_only_once() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run");
        let folder = PrivateFolder::open(&path).unwrap();
        let locked = folder.create_locked("own-1").unwrap();
        assert!(folder.create_locked("own-1").is_err());
        fs::write(path.join("own-2"), "left behind").unwrap();
        fs::write(path.join("other"), "of another program").unwrap();
        let outside = parent.path().join("outside");
        fs::write(&outside, "").unwrap();
        symlink(&outside, path.join("own-3")).unwrap();
        fs::create_dir(path.join("own-4")).unwrap();
        fs::hard_link(&outside, path.join("own-5")).unwrap();
        let take = || folder.take_left("own-", 64, 4).unwrap();
        assert_eq!(take(), [b"left"]);
        assert_eq!(take(), [[0; 0]; 0]);
        assert!(outside.exists() && path.join("other").exists() && path.join("own-1").exists());
        drop(locked);
        assert_eq!(take(), [[0; 0]]);
        folder.remove("other");
        assert!(!path.join("other").exists());
    }

    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
        let error = PrivateFolder::open(&path).unwrap_err().to_string();
        assert!(error.contains("others can write there"), "{error}");
        fs::remove_dir(&path).unwrap();
        symlink("/tmp", &path).unwrap();
        assert!(PrivateFolder::open(&path).is_err());
    }

    #[test]
    fn a_lock_is_held_by_every_copy_of_its_handle() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let first = fs::File::open(file.path()).unwrap();
        let second = fs::File::open(file.path()).unwrap();
        assert!(lock(&first).unwrap() && !lock(&second).unwrap());
        let copy = first.try_clone().unwrap();
        drop(first);
        assert!(!lock(&second).unwrap());
        drop(copy);
        assert!(lock(&second).unwrap());
    }
}
