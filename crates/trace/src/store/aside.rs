//! A file that has no name until it is complete, so that no incomplete file remains after the program
//! ends, even by SIGKILL.
//!
//! Linux creates a file without a name (O_TMPFILE) and names it later (linkat, through /proc). If the
//! file system or sandbox does not support this, a temporary file with a hidden name beside the target
//! replaces it; dropping it removes the file.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags, linkat};
use tempfile::TempPath;

/// Mode of a new file, before the user's umask.
const MODE: u32 = 0o666;

/// Folder that maps the numbers of open files to files.
const OPEN_FILES: &str = "/proc/self/fd";

/// Prefix of temporary names.
const PREFIX: &str = ".pagewise-";

/// A file that vanishes unless it gets the name of its target.
pub(crate) struct Aside {
    file: File,
    folder: PathBuf,
    /// The temporary name, if the file system does not support unnamed files.
    stand_in: Option<TempPath>,
}

impl Aside {
    /// Creates an empty file that can become `target`.
    ///
    /// # Errors
    /// If the operating system refuses to create the file.
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
        // The user does not know the temporary name, so leave it out of the error.
        let (file, path) = made.map_err(|error| Error::from(error.kind()))?.into_parts();
        Ok(Aside { file, folder, stand_in: Some(path) })
    }

    /// The file, for reading and writing at any offset.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file the name `target`, in the folder it was created for.
    ///
    /// # Errors
    /// `AlreadyExists` if `target` exists and `replaces` is false; any error of the operating system.
    pub(crate) fn persist(self, target: &Path, replaces: bool) -> Result<(), Error> {
        let source = Path::new(OPEN_FILES).join(self.file.as_raw_fd().to_string());
        let link = |name: &Path| {
            linkat(CWD, &source, CWD, name, AtFlags::SYMLINK_FOLLOW).map_err(Error::from)
        };
        let stand_in = match self.stand_in {
            Some(path) => path,
            None if !replaces => return link(target),
            // A link replaces no file but a rename does, so the temporary name exists only for the
            // rename.
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

/// Writes `bytes` to the file `path`, which appears complete or not at all; an existing file is replaced.
///
/// # Errors
/// If the operating system refuses the write.
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
    fn a_file_appears_when_it_is_complete_and_replaces_only_if_requested() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        let named = |_: &Path| Aside::named(folder.path().to_owned()).unwrap();
        let best = |target: &Path| Aside::create(target).unwrap();
        for create in [&named as &dyn Fn(&Path) -> Aside, &best] {
            drop(with(create(&target), b"half"));
            assert_eq!(names(folder.path()), [""; 0]);
            with(create(&target), b"first").persist(&target, false).unwrap();
            let refused = with(create(&target), b"two").persist(&target, false).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
            assert_eq!(std::fs::read(&target).unwrap(), b"first");
            with(create(&target), b"two").persist(&target, true).unwrap();
            assert_eq!(std::fs::read(&target).unwrap(), b"two");
            assert_eq!(names(folder.path()), ["target"]);
            std::fs::remove_file(&target).unwrap();
        }
    }

    #[test]
    fn a_file_has_the_mode_of_any_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |name: &str| {
            std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777
        };
        File::create(folder.path().join("usual")).unwrap();
        let named = Aside::named(folder.path().to_owned()).unwrap();
        named.persist(&folder.path().join("named"), false).unwrap();
        write_whole(&folder.path().join("unnamed"), b"").unwrap();
        assert_eq!([mode("named"), mode("unnamed")], [mode("usual"); 2]);
    }

    #[test]
    fn a_symlink_is_replaced_and_not_followed() {
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
    fn errors_do_not_contain_the_temporary_name() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("absent");
        let refused = Aside::create(&absent.join("target")).err().unwrap();
        assert_eq!(refused.to_string(), format!("there is no folder {}", absent.display()));
        let refused = Aside::named(absent).err().unwrap();
        assert!(!refused.to_string().contains(PREFIX), "{refused}");
    }

    #[test]
    fn an_incomplete_file_has_no_name_if_the_file_system_supports_it() {
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
