//! Opens a system trace of any format, with its events in the order of time.

use std::path::Path;
use std::sync::Arc;

use super::{Sorted, SystemReader, formats};
use crate::Error;
use crate::input::{Input, Meter};

/// A system trace that is being read.
pub struct OpenedSystem {
    /// The events in the order of time.
    pub reader: Sorted<Box<dyn SystemReader>>,
    /// Bytes of the file read so far.
    pub meter: Arc<Meter>,
    /// Size of the file in bytes; 0 if unknown.
    pub file_bytes: u64,
}

/// Opens the system trace at `path`.
///
/// # Errors
/// `UnknownFormat` if no format recognises it; `Io` if it cannot be read.
pub fn open(path: &Path) -> Result<OpenedSystem, Error> {
    let input = Input::open(path, false)?;
    let (meter, file_bytes) = (input.meter(), input.file_bytes());
    Ok(OpenedSystem { reader: formats::open(input)?, meter, file_bytes })
}
