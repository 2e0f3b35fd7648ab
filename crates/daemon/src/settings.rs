//! Settings from TOML files: finds and reads the files, and reports an invalid entry with its line.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use linux::local_socket::PATH_MAX as SOCKET_PATH_MAX;
use linux::text_file;
use serde::de::DeserializeOwned;
use toml::Spanned;

use crate::Error;

/// The largest file of settings that is read.
const MEBIBYTES_MAX: u64 = 1;

/// The files that these paths name, in this order: each is a file, or a folder of files named `*.toml`, in the order
/// of their names.
///
/// # Errors
/// A folder that cannot be listed.
pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            found.extend(inside(path)?);
        } else {
            found.push(path.clone());
        }
    }
    Ok(found)
}

/// The files `*.toml` in `folder`, in the order of their names.
fn inside(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = std::fs::read_dir(folder)
        .map_err(|error| Error::config(folder, 0, format!("cannot be listed: {error}")))?;
    let mut inside: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    inside.retain(|file| file.extension().is_some_and(|end| end == "toml"));
    inside.sort();
    Ok(inside)
}

/// Reads the text of a file of settings.
///
/// # Errors
/// The file cannot be read.
pub fn read(path: &Path) -> Result<String, Error> {
    text_file::read(path, MEBIBYTES_MAX)
        .map_err(|error| Error::config(path, 0, format!("cannot be read: {error}")))
}

/// A file and its text, from which an error gets its line number.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The file.
    pub path: &'a Path,
    /// The text of the file.
    pub text: &'a str,
}

impl Source<'_> {
    /// Parses the whole text.
    ///
    /// # Errors
    /// The first entry that does not fit, with its line.
    pub fn parse<File: DeserializeOwned>(&self) -> Result<File, Error> {
        toml::from_str(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.error(at, error.message().to_owned())
        })
    }

    /// The error for an entry that begins at byte `at` of the text.
    pub fn error(&self, at: usize, what: impl Into<String>) -> Error {
        let line_ends = self.text.bytes().take(at).filter(|&byte| byte == b'\n').count();
        Error::config(self.path, line_ends + 1, what)
    }

    /// The value of the entry `name`.
    ///
    /// # Errors
    /// The number is not in `range`.
    pub fn within(
        &self,
        name: &str,
        value: &Spanned<i64>,
        range: RangeInclusive<i64>,
    ) -> Result<u64, Error> {
        match range.contains(value.get_ref()) {
            true => Ok(value.get_ref().unsigned_abs()),
            false => {
                let (low, high) = (range.start(), range.end());
                let what = format!("{name} is {}, expected from {low} to {high}", value.get_ref());
                Err(self.error(value.span().start, what))
            }
        }
    }
}

/// Checks that a socket can have this path.
///
/// # Errors
/// The path is relative, or too long.
pub fn socket_path(path: PathBuf) -> Result<PathBuf, String> {
    let length = path.as_os_str().len();
    if !path.is_absolute() {
        return Err(format!("{path:?}: expected an absolute path, such as /run/pagewise/a.sock"));
    }
    if length > SOCKET_PATH_MAX {
        return Err(format!("a socket's path has at most {SOCKET_PATH_MAX} bytes, not {length}"));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_folder_are_read_in_order_and_errors_have_lines() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.toml", "a.toml", "README"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let other = PathBuf::from("/no/such.toml");
        let found = files(&[folder.path().to_owned(), other.clone()]).unwrap();
        let expected = ["a.toml", "b.toml"].map(|name| folder.path().join(name));
        assert_eq!(found, [&expected[0], &expected[1], &other].map(PathBuf::clone));
        assert!(read(&other).unwrap_err().to_string().starts_with("/no/such.toml: cannot be read"));
        let source = Source { path: Path::new("/x"), text: "a = 1\nb = \n" };
        let error = source.parse::<toml::Table>().unwrap_err().to_string();
        assert!(error.starts_with("/x:2: "), "{error}");
        let value = Spanned::new(6..7, 9);
        let error = source.within("b", &value, 1..=5).unwrap_err().to_string();
        assert_eq!(error, "/x:2: b is 9, expected from 1 to 5");
    }

    #[test]
    fn a_socket_has_a_short_absolute_path() {
        assert!(socket_path(PathBuf::from("/run/a")).is_ok());
        assert!(socket_path(PathBuf::from("a")).unwrap_err().contains("an absolute path"));
        let long = format!("/{}", "x".repeat(SOCKET_PATH_MAX));
        assert!(socket_path(PathBuf::from(long)).unwrap_err().contains("has at most 107 bytes"));
    }
}
