//! The seam to the Parquet library: its errors and its panics become errors of this crate.
//!
//! The library checks most of what a damaged file can claim, but not all of it, and its decoders
//! assert the rest. A reader must never panic on its input, so every call that decodes goes
//! through here. Nothing is shared across the seam but a reader that is dropped after an error.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::errors::ParquetError;

use crate::{Error, ErrorKind};

/// Runs a call into the library on the file at `path`.
pub(super) fn decoding<T>(
    path: &Path,
    call: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, Error> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|error| translate(path, error)),
        Err(_) => Err(damaged(path, "its Parquet data contradict themselves")),
    }
}

/// What the library refused, as an error of this crate.
pub(super) fn translate(path: &Path, error: ParquetError) -> Error {
    match error {
        ParquetError::External(cause) if cause.is::<std::io::Error>() => {
            Error::new(ErrorKind::Io, path, cause.to_string())
        }
        other => damaged(path, &other.to_string()),
    }
}

/// A trace file that is not what its layout demands.
pub(super) fn damaged(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::Corrupt, path, format!("damaged or truncated trace file: {why}"))
}
