//! Reads text files of the user: plans and usage logs.

use std::path::Path;

use crate::Error;

/// The largest plan or usage log.
const MEBIBYTES_MAX: u64 = 64;

/// Reads the text of the file at `path`.
///
/// # Errors
/// The file cannot be read, is not a regular file, is larger than 64 MiB, or is not UTF-8.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    linux::text_file::read(path, MEBIBYTES_MAX).map_err(|error| Error::file("read", path, &error))
}
