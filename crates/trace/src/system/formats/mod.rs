//! Formats of system traces: a file and a catalog row for each.

pub(crate) mod perfetto;

use crate::input::Input;
use crate::sniff::{Sniff, surest};
use crate::system::SystemReader;
use crate::{Error, ErrorKind, Position};

/// A format of system traces.
pub struct Format {
    /// Name of the format, in files and in docs.
    pub name: &'static str,
    /// Description of the format in one line.
    pub summary: &'static str,
    /// Judges by the first bytes how surely a file has this format.
    pub sniff: Sniff,
    /// Opens a reader on an input at its beginning.
    pub open: fn(Input) -> Result<Box<dyn SystemReader>, Error>,
}

/// Every format. If two formats are equally sure, the first is chosen.
pub const CATALOG: &[Format] = &[perfetto::FORMAT];

/// The format with this name.
pub fn by_name(name: &str) -> Option<&'static Format> {
    CATALOG.iter().find(|format| format.name == name)
}

/// The format of a system trace, by its content.
///
/// # Errors
/// `UnknownFormat` if no format recognises it.
pub fn recognise(input: &mut Input) -> Result<&'static Format, Error> {
    surest(input, CATALOG, |format| format.sniff)?.ok_or_else(|| {
        let names: Vec<&str> = CATALOG.iter().map(|format| format.name).collect();
        let message = format!("no system trace; formats of these are {}", names.join(", "));
        Error::new(ErrorKind::UnknownFormat, input.path(), message).at(Position::Byte(0))
    })
}
