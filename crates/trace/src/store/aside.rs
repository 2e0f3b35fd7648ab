//! A file that has no name until it is complete, so that whatever ends the program, SIGKILL
//! included, leaves nothing behind.
//!
//! Linux makes a file without a name (O_TMPFILE) and names it later (linkat, through /proc). Where
//! a file system or a sandbox has no such files, a hidden name beside the target stands in, which
//! goes away when the file is dropped.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags, linkat};
use tempfile::TempPath;

/// What a new file may be, before the user's umask.
const MODE: u32 = 0o666;

/// The way from the number of an open file to the file.
const OPEN_FILES: &str = "/proc/self/fd";

/// How names that stand in begin.
const PREFIX: &str = ".pagewise-";

/// A file beside its target that vanishes unless it is given the target's name.
pub(crate) struct Aside {
    file: File,
    folder: PathBuf,
    /// Its name, where a file must have one.
    stand_in: Option<TempPath>,
}

impl Aside {
    /// An empty file that can become `target`.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub(crate) fn create(target: &Path) -> Result<Aside, Error> {
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_owned();
        if !folder.is_dir() {
            let missing = format!("there is no folder {}", folder.display());
            return Err(Error::new(ErrorKind::NotFound, missing));
        }
        let unnamed = if Path::new(OPEN_FILES).is_dir() { unnamed(&folder).ok() } else { None };
        if let Some(file) = unnamed {
            return Ok(Aside { file, folder, stand_in: None });
        }
        Aside::named(folder)
    }

    fn named(folder: PathBuf) -> Result<Aside, Error> {
        let permissions = Permissions::from_mode(MODE);
        let mut builder = tempfile::Builder::new();
        let made = builder.prefix(PREFIX).permissions(permissions).tempfile_in(&folder);
        // Of the name that stands in nobody knows, so the error is told without it.
        let (file, path) = made.map_err(|error| Error::from(error.kind()))?.into_parts();
        Ok(Aside { file, folder, stand_in: Some(path) })
    }

    /// The file, to be read and written at any place.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file the name `target`, in the folder it was created for.
    ///
    /// # Errors
    /// `AlreadyExists` if there is one and it is not to be replaced, or what the operating system
    /// refuses.
    pub(crate) fn persist(self, target: &Path, replaces: bool) -> Result<(), Error> {
        let source = Path::new(OPEN_FILES).join(self.file.as_raw_fd().to_string());
        let link = |name: &Path| {
            linkat(CWD, &source, CWD, name, AtFlags::SYMLINK_FOLLOW).map_err(Error::from)
        };
        let stand_in = match self.stand_in {
            Some(path) => path,
            None if !replaces => return link(target),
            // A link replaces nothing, a rename does: the name is there for that moment alone.
            None => tempfile::Builder::new()
                .prefix(OsStr::new(PREFIX))
                .make_in(&self.folder, link)?
                .into_temp_path(),
        };
        let persisted =
            if replaces { stand_in.persist(target) } else { stand_in.persist_noclobber(target) };
        persisted.map_err(|failed| failed.error)
    }
}

/// Writes `bytes` to the file `path`, which appears whole or not; a file that is there is replaced.
///
/// # Errors
/// What the operating system refuses.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut aside = Aside::create(path)?;
    aside.write_all(bytes)?;
    aside.persist(path, true)
}

fn unnamed(folder: &Path) -> Result<File, Error> {
    let flags = OFlags::TMPFILE.bits() as i32;
    OpenOptions::new().read(true).write(true).mode(MODE).custom_flags(flags).open(folder)
}

impl Write for Aside {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn with(mut aside: Aside, text: &[u8]) -> Aside {
        aside.write_all(text).unwrap();
        aside
    }

    #[test]
    fn a_file_appears_when_it_is_complete_and_replaces_only_if_told() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        let named = |_: &Path| Aside::named(folder.path().to_owned()).unwrap();
        let best = |target: &Path| Aside::create(target).unwrap();
        for create in [&named as &dyn Fn(&Path) -> Aside, &best] {
            drop(with(create(&target), b"half"));
            assert_eq!(names(folder.path()), [""; 0]);
            with(create(&target), b"one").persist(&target, false).unwrap();
            let refused = with(create(&target), b"two").persist(&target, false).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
            assert_eq!(std::fs::read(&target).unwrap(), b"one");
            with(create(&target), b"two").persist(&target, true).unwrap();
            assert_eq!(std::fs::read(&target).unwrap(), b"two");
            assert_eq!(names(folder.path()), ["target"]);
            std::fs::remove_file(&target).unwrap();
        }
    }

    #[test]
    fn no_link_is_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let (link, other) = (folder.path().join("link"), folder.path().join("other"));
        std::fs::write(&other, "untouched").unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        write_whole(&link, b"new").unwrap();
        assert_eq!(std::fs::read(&link).unwrap(), b"new");
        assert_eq!(std::fs::read(&other).unwrap(), b"untouched");
        assert_eq!(names(folder.path()), ["link", "other"]);
    }

    #[test]
    fn what_is_refused_is_told_without_the_name_that_stands_in() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("absent");
        let refused = Aside::create(&absent.join("target")).err().unwrap();
        assert_eq!(refused.to_string(), format!("there is no folder {}", absent.display()));
        let refused = Aside::named(absent).err().unwrap();
        assert!(!refused.to_string().contains(PREFIX), "{refused}");
    }

    #[test]
    fn nothing_has_a_name_meanwhile_where_the_file_system_can() {
        let folder = tempfile::tempdir().unwrap();
        if unnamed(folder.path()).is_err() {
            testkit::skipped("this file system has no files without a name");
            return;
        }
        let aside = with(Aside::create(&folder.path().join("target")).unwrap(), b"half");
        assert_eq!(names(folder.path()), [""; 0]);
        drop(aside);
    }
}
