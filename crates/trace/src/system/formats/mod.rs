//! Formats of system traces: a file and a catalog row for each.

pub(crate) mod damo;
mod dumpsys;
pub(crate) mod ftrace;
pub(crate) mod logcat;
pub(crate) mod perfetto;
mod processes;
pub(crate) mod procfs;
pub(crate) mod tracedat;

use crate::input::Input;
use crate::sniff::{Sniff, surest};
use crate::system::{Sorted, SystemReader};
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
pub const CATALOG: &[Format] = &[
    perfetto::FORMAT,
    tracedat::FORMAT,
    ftrace::FORMAT,
    logcat::FORMAT,
    procfs::FORMAT,
    damo::FORMAT,
];

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
        let message = format!(
            "expected a system trace; formats are {}; to see what another file holds: pagewise info FILE",
            names.join(", ")
        );
        Error::new(ErrorKind::UnknownFormat, input.path(), message).at(Position::Byte(0))
    })
}

/// Opens a system trace of any format; its events are in the order of time.
///
/// # Errors
/// Errors of [`recognise`], or if the input cannot be read.
pub fn open(mut input: Input) -> Result<Sorted<Box<dyn SystemReader>>, Error> {
    let format = recognise(&mut input)?;
    Ok(Sorted::new((format.open)(input)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::Tally;

    #[test]
    fn a_trace_is_opened_by_its_content_and_other_files_are_refused() {
        for format in CATALOG {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
            let input = Input::open(&folder.join(format.name).join("small"), false).unwrap();
            let (mut events, mut tally) = (Vec::new(), Tally::default());
            let mut reader = open(input).unwrap();
            while reader.read(&mut events, &mut tally).unwrap() {}
            assert!(!events.is_empty() && events.is_sorted_by_key(|event| event.time_ns));
            assert_eq!(by_name(format.name).unwrap().summary, format.summary);
        }
        let error = open(Input::from_bytes("text", *b"hello\n").unwrap()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::UnknownFormat);
    }
}
