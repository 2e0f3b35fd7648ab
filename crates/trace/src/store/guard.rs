//! The boundary to the Parquet library: its errors and its panics become errors of this crate.
//!
//! The library checks most claims of a damaged file, but its decoders assert the rest. A reader must
//! never panic on its input, so every call that decodes goes through here. Only the reader is shared
//! across the boundary, and it is dropped after an error.

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

/// Converts an error of the library to an error of this crate.
pub(super) fn translate(path: &Path, error: ParquetError) -> Error {
    match error {
        ParquetError::External(cause) if cause.is::<std::io::Error>() => {
            Error::new(ErrorKind::Io, path, cause.to_string())
        }
        other => damaged(path, &other.to_string()),
    }
}

/// The error for a trace file that violates its layout.
pub(super) fn damaged(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::Corrupt, path, format!("damaged or truncated trace file: {why}"))
}
