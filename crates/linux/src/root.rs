//! The root folder below which the kernel's files are read.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::Error;

/// The folder that stands for `/`: the real root, or a folder of a test.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// The running system.
    pub fn system() -> Root {
        Root(PathBuf::from("/"))
    }

    /// A folder laid out like a system.
    pub fn at(folder: impl Into<PathBuf>) -> Root {
        Root(folder.into())
    }

    /// The real path of the absolute `path`.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Reads the text of the absolute `path`; None if there is no such file.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Option<String>, Error> {
        match fs::read(self.path(&path)) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::refused("read", path, error)),
        }
    }

    /// The names of entries in the absolute `folder`, in order; empty if there is no such folder.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn list(&self, folder: impl AsRef<Path>) -> Result<Vec<String>, Error> {
        let entries = match fs::read_dir(self.path(&folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::refused("list", folder, error)),
        };
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// Opens the absolute `folder`, so that its entries can be read without allocating.
    ///
    /// # Errors
    /// The folder does not exist, or the operating system refuses.
    pub fn open_folder(&self, folder: impl AsRef<Path>) -> Result<OwnedFd, Error> {
        open_at(CWD, self.path(&folder), OFlags::DIRECTORY)
            .map_err(|error| Error::refused("open", folder, error.into()))
    }

    /// The absolute `path` with all links resolved, absolute below this root. None if it does not exist, or a link
    /// leads out of the root.
    pub fn resolve(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        let real = self.path(path).canonicalize().ok()?;
        let below = real.strip_prefix(self.0.canonicalize().ok()?).ok()?;
        Some(Path::new("/").join(below))
    }

    /// Whether this is the running system.
    pub fn is_system(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// Whether the absolute `path` exists.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }
}

/// Opens `name` below `folder` for reading.
pub(crate) fn open_at(folder: impl AsFd, name: impl Arg, flags: OFlags) -> Result<OwnedFd, Errno> {
    openat(folder, name, OFlags::RDONLY | OFlags::CLOEXEC | flags, Mode::empty())
}

/// Decodes a path in which the kernel wrote blanks and newlines as a backslash and three octal digits.
pub(crate) fn unescape(path: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, others)) = rest.split_first() {
        let code = rest.get(1..4).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) if byte == b'\\' => {
                bytes.push(code);
                rest = &rest[4..];
            }
            _ => {
                bytes.push(byte);
                rest = others;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}
