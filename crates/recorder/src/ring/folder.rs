//! The folder of kept recordings: names that are never reused, a bound on the number of files, and room on the disk.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use linux::system;
use rustix::fs::{Access, access, statvfs};

use super::triggers::Cause;
use crate::Error;

/// The files with the same time and trigger, at most.
const SAME_NAME_MAX: u32 = 1000;

/// The folder, and the files that this run keeps in it.
pub struct Folder {
    path: PathBuf,
    files_max: usize,
    /// Files of this run, oldest first, each with its device and inode: a file of another program may have taken the
    /// name meanwhile.
    own: VecDeque<(PathBuf, (u64, u64))>,
}

impl Folder {
    /// The folder at `path`, of which this run keeps the last `files_max` of its files.
    ///
    /// # Errors
    /// There is no such folder, or no file can be created there.
    pub fn open(path: &Path, files_max: usize) -> Result<Folder, Error> {
        let shown = path.display();
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                return Err(Error::Usage(format!(
                    "-o {shown}: with --ring, name a folder for the recordings; this is a file"
                )));
            }
            Err(error) => {
                return Err(Error::Usage(format!(
                    "-o {shown}: with --ring, name a folder for the recordings: {error}; to create \
                     it: mkdir -p {shown}"
                )));
            }
        }
        access(path, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
            Error::Usage(format!("-o {shown}: no file can be created in this folder: {error}"))
        })?;
        Ok(Folder { path: path.to_owned(), files_max, own: VecDeque::new() })
    }

    /// Bytes that the disk has left for files of this user.
    ///
    /// # Errors
    /// The folder was removed.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let found = statvfs(&self.path)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Creates a file that is named by the time and the trigger, such as `20261128T021503Z-oom-kill.pgr`.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn create(&mut self, cause: &Cause) -> io::Result<(PathBuf, File)> {
        let realtime_ns = cause.time_ns as i64 + system::realtime_offset_ns();
        let name = format!("{}-{}", time_name(realtime_ns.max(0) as u64), cause.trigger);
        for number in 1..=SAME_NAME_MAX {
            let name = match number {
                1 => format!("{name}.pgr"),
                _ => format!("{name}-{number}.pgr"),
            };
            let path = self.path.join(name);
            match File::options().append(true).create_new(true).open(&path) {
                Ok(file) => {
                    let found = file.metadata()?;
                    self.own.push_back((path.clone(), (found.dev(), found.ino())));
                    return Ok((path, file));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!("{name}.pgr: all names are taken"),
        ))
    }

    /// Removes the file that was created last, because nothing could be written to it.
    pub fn discard_last(&mut self) {
        if let Some((path, identity)) = self.own.pop_back() {
            remove_if_same(&path, identity);
        }
    }

    /// Removes the oldest files of this run if there are more than allowed; returns their paths.
    pub fn remove_oldest(&mut self) -> Vec<PathBuf> {
        let mut removed = Vec::new();
        while self.own.len() > self.files_max
            && let Some((path, identity)) = self.own.pop_front()
        {
            if remove_if_same(&path, identity) {
                removed.push(path);
            }
        }
        removed
    }
}

/// Removes the file at `path` if it is still the file with this device and inode; returns whether it did.
fn remove_if_same(path: &Path, identity: (u64, u64)) -> bool {
    let found = std::fs::symlink_metadata(path);
    let is_same = found.is_ok_and(|found| (found.dev(), found.ino()) == identity);
    is_same && std::fs::remove_file(path).is_ok()
}

/// A time in UTC without colons, which `scp` and some file systems do not take: `20261128T021503Z`.
fn time_name(realtime_ns: u64) -> String {
    let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(realtime_ns);
    humantime::format_rfc3339_seconds(time).to_string().replace(['-', ':'], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kill(time_ns: u64) -> Cause {
        Cause { trigger: "kill", time_ns, process: Some(7) }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let name = |entry: io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<String> =
            entries.map(name).map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_time_is_written_without_colons() {
        assert_eq!(time_name(1_795_832_103_999_999_999), "20261128T021503Z");
        assert_eq!(time_name(0), "19700101T000000Z");
    }

    #[test]
    fn a_folder_that_is_absent_or_a_file_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("absent");
        let message = |path: &Path| Folder::open(path, 1).err().unwrap().to_string();
        assert!(message(&absent).contains("mkdir -p"), "{}", message(&absent));
        std::fs::write(&absent, "").unwrap();
        assert!(message(&absent).contains("this is a file"), "{}", message(&absent));
        assert!(Folder::open(folder.path(), 1).unwrap().free_bytes().unwrap() > 0);
    }

    #[test]
    fn no_file_is_overwritten_and_only_own_files_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(place.path(), 2).unwrap();
        let (first, _) = folder.create(&kill(0)).unwrap();
        std::fs::write(&first, "first").unwrap();
        let mut earlier = Folder::open(place.path(), 0).unwrap();
        let (foreign, _) = earlier.create(&kill(0)).unwrap();
        assert_eq!(std::fs::read(&first).unwrap(), b"first");
        let (second, _) = folder.create(&kill(0)).unwrap();
        assert_eq!(folder.remove_oldest(), [] as [PathBuf; 0]);
        let (third, _) = folder.create(&kill(0)).unwrap();
        assert!(third.to_str().unwrap().ends_with("-kill-4.pgr"), "{}", third.display());
        assert_eq!(folder.remove_oldest(), [first]);
        assert_eq!(names(place.path()).len(), 3);
        // Another program replaces the second file.
        std::fs::rename(&foreign, &second).unwrap();
        folder.create(&kill(0)).unwrap();
        assert_eq!(folder.remove_oldest(), [] as [PathBuf; 0]);
        assert!(second.exists());
        folder.discard_last();
        assert_eq!(names(place.path()).len(), 2);
    }

    #[test]
    fn a_folder_that_was_removed_gives_an_error() {
        let place = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(place.path(), 2).unwrap();
        drop(place);
        assert!(folder.create(&kill(0)).is_err() && folder.free_bytes().is_err());
    }
}
