//! Notices of changed files (inotify(7)). The kernel also sends them for `cgroup.events`
//! (Documentation/admin-guide/cgroup-v2.rst).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init, remove_watch};
use rustix::io::Errno;

/// Files that are watched.
#[derive(Debug)]
pub struct FileChanges(OwnedFd);

/// A watched file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch(i32);

impl FileChanges {
    /// No files yet.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn new() -> io::Result<FileChanges> {
        Ok(FileChanges(init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?))
    }

    /// Watches the file at `path`.
    ///
    /// # Errors
    /// The operating system refuses, or there is no such file.
    pub fn watch(&self, path: &Path) -> io::Result<Watch> {
        Ok(Watch(add_watch(&self.0, path, WatchFlags::MODIFY)?))
    }

    /// Watches a file no more. The kernel does this by itself for a removed file.
    pub fn forget(&self, watch: Watch) {
        let _ = remove_watch(&self.0, watch.0);
    }

    /// Takes all notices; returns whether there were any.
    pub fn take(&self) -> bool {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.0, &mut buffer);
        let mut is_any = false;
        loop {
            match reader.next() {
                Ok(_) => is_any = true,
                Err(Errno::INTR) => {}
                Err(_) => return is_any,
            }
        }
    }
}

impl AsFd for FileChanges {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::polling::is_readable;
    use std::time::Duration;

    #[test]
    fn a_written_file_is_noticed_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cgroup.events");
        let changes = FileChanges::new().unwrap();
        assert!(changes.watch(&path).is_err());
        std::fs::write(&path, "frozen 0\n").unwrap();
        let watch = changes.watch(&path).unwrap();
        assert!(!changes.take());
        std::fs::write(&path, "frozen 1\n").unwrap();
        assert!(is_readable(&changes, Duration::from_secs(60)));
        assert!(changes.take() && !changes.take());
        changes.forget(watch);
        changes.take();
        std::fs::write(&path, "frozen 0\n").unwrap();
        assert!(!changes.take());
    }
}
