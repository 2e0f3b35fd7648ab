//! The lock of the launch lab: a machine has one run at a time.

use std::fs::{self, File, OpenOptions};
use std::io;

use linux::Root;
use linux::private_folder::lock;

use crate::Error;

/// The folder of the lock and of the undo log.
pub(crate) const FOLDER: &str = "/run/pagewise";

/// The lock that permits only one run at a time on a machine.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Takes the lock, which is held while this value or a shared handle lives.
    ///
    /// # Errors
    /// Another run holds the lock.
    pub fn take(root: &Root) -> Result<Lock, Error> {
        let folder = root.path(FOLDER);
        let path = folder.join("launch.lock");
        fs::create_dir_all(&folder).map_err(|error| Error::file("created", &folder, &error))?;
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|error| Error::file("opened", &path, &error))?;
        match lock(&file) {
            Ok(true) => Ok(Lock(file)),
            Ok(false) => Err(Error::Refused(
                "another launch is running on this machine, and two would disturb each other: wait \
                 until it ends"
                    .to_owned(),
            )),
            Err(error) => Err(Error::file("locked", &path, &error)),
        }
    }

    /// A handle that holds the lock for another process.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn share(&self) -> io::Result<File> {
        self.0.try_clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_at_a_time_has_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let lock = Lock::take(&root).unwrap();
        let shared = lock.share().unwrap();
        drop(lock);
        assert!(Lock::take(&root).unwrap_err().to_string().contains("another launch"));
        drop(shared);
        Lock::take(&root).unwrap();
    }
}
