//! Values for files of the kernel, as data: a caller can show a setting before it applies it, and store the
//! setting that undoes it.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use crate::{Error, Root};

/// A value for a file of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSetting {
    /// The file.
    pub path: PathBuf,
    /// The value to write.
    pub value: String,
}

impl KernelSetting {
    /// A setting of `value` for `path`.
    pub fn new(path: impl Into<PathBuf>, value: impl ToString) -> KernelSetting {
        KernelSetting { path: path.into(), value: value.to_string() }
    }

    /// Writes the value.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn apply(&self, root: &Root) -> Result<(), Error> {
        // Creates no file: a file that the kernel does not have is an error.
        let file = OpenOptions::new().write(true).open(root.path(&self.path));
        file.and_then(|mut file| file.write_all(self.value.as_bytes()))
            .map_err(|error| Error::refused(&format!("write {}", self.value), &self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_creates_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let error = KernelSetting::new("/none", 1).apply(&Root::at(folder.path())).unwrap_err();
        assert_eq!(error.io_kind(), Some(std::io::ErrorKind::NotFound));
    }
}
