//! Values that are written to files of the kernel, as data: a caller can show them before it is done, and
//! note what undoes them.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use crate::{Error, Root};

/// A value for a file of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The file.
    pub path: PathBuf,
    /// What is written.
    pub value: String,
}

impl Setting {
    /// `value` for `path`.
    pub fn new(path: impl Into<PathBuf>, value: impl ToString) -> Setting {
        Setting { path: path.into(), value: value.to_string() }
    }

    /// Writes the value.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn apply(&self, root: &Root) -> Result<(), Error> {
        // Never creates: a file that the kernel does not offer is to be an error.
        let file = OpenOptions::new().write(true).open(root.path(&self.path));
        file.and_then(|mut file| file.write_all(self.value.as_bytes()))
            .map_err(|error| Error::refused(&format!("write {}", self.value), &self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_makes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let error = Setting::new("/none", 1).apply(&Root::at(folder.path())).unwrap_err();
        assert_eq!(error.io_kind(), Some(std::io::ErrorKind::NotFound));
    }
}
