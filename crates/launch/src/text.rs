//! Text files of the user: plans and usage logs.

use std::path::Path;

use crate::Error;

/// More than any plan or usage log holds.
const MEBIBYTES_MAX: u64 = 64;

/// The text of the file at `path`.
///
/// # Errors
/// It cannot be read, is no file, larger than 64 MiB or no UTF-8.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    linux::text_file::read(path, MEBIBYTES_MAX).map_err(|error| Error::file("read", path, &error))
}
