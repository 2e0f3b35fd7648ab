//! Imports foreign files of references into a trace, in a single pass and bounded memory.

use std::io::BufWriter;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use types::{Progress, ReferenceTotals};

use super::filter::Filter;
use super::formats::{self, Format};
use super::{Ending, Origin, Stop, Writer};
use crate::input::Input;
use crate::ledger::Ledger;
use crate::store::{Aside, refuse_existing, refuse_inputs};
use crate::{Error, ErrorKind, Loss, Position, Reject};

/// Options of an import.
#[derive(Clone, Debug, Default)]
pub struct ReferenceImportOptions {
    /// Catalog name of the format; `None` to recognise it by content.
    pub format: Option<String>,
    /// Whether an unreadable line is an error.
    pub strict: bool,
    /// Whether to replace an existing output.
    pub force: bool,
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReferenceImportReport {
    /// Catalog name of the format.
    pub format: String,
    /// All references.
    pub references: u64,
    /// Instructions fetched.
    pub instructions: u64,
    /// Data read.
    pub reads: u64,
    /// Data written, or modified by one instruction.
    pub writes: u64,
    /// Steps: references that the filter did not absorb.
    pub steps: u64,
    /// Threads whose references were read; absent if the format does not name threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u64>,
    /// Lines that could not be read.
    pub rejected: u64,
    /// The first ten of the unreadable lines.
    pub rejects: Vec<Reject>,
    /// What was lost.
    pub losses: Vec<Loss>,
}

impl ReferenceImportReport {
    fn new(
        format: &Format,
        totals: ReferenceTotals,
        steps: u64,
        threads: Option<u64>,
        ledger: &Ledger,
    ) -> Self {
        let ReferenceTotals { instructions, reads, writes } = totals;
        let (rejected, rejects) = ledger.rejects();
        ReferenceImportReport {
            format: format.name.to_owned(),
            references: instructions + reads + writes,
            instructions,
            reads,
            writes,
            steps,
            threads,
            rejected,
            rejects: rejects.to_vec(),
            losses: ledger.losses(),
        }
    }
}

/// Imports `path` (`-` is standard input) into the trace `output`, which appears only when it is
/// complete.
///
/// # Errors
/// If the input cannot be read or recognised, or the output cannot be written, with file and position;
/// `Corrupt` for a file without references; `Cancelled` if `progress` asks to stop. In all cases there is
/// no output.
pub fn import(
    path: &Path,
    output: &Path,
    options: &ReferenceImportOptions,
    progress: &dyn Progress,
) -> Result<ReferenceImportReport, Error> {
    let written = |error: std::io::Error| Error::new(ErrorKind::Io, output, error.to_string());
    refuse_inputs([path], output)?;
    refuse_existing(output, options.force)?;
    let mut input = Input::open(path, false)?;
    let format = choose(&mut input, options.format.as_deref())?;
    let (meter, file_bytes) = (input.meter(), input.file_bytes());

    let origin = Origin::new(format.name, vec![path.to_string_lossy().into_owned()]);
    let aside = Aside::create(output).map_err(written)?;
    let mut writer = Writer::new(BufWriter::new(aside), &origin).map_err(written)?;
    let mut source = (format.open)(input)?;
    let (mut filter, mut ledger) = (Filter::new(), Ledger::new(options.strict));
    let (mut references, mut steps, mut steps_written) = (Vec::new(), Vec::new(), 0);
    while source.read(&mut references, &mut ledger)? {
        for reference in references.drain(..) {
            filter.refer(reference, &mut steps);
        }
        writer.write(&steps, filter.totals()).map_err(written)?;
        steps_written += steps.len() as u64;
        steps.clear();
        progress.advance(meter.bytes(), file_bytes).map_err(|_| Error::cancelled(output))?;
    }
    let totals = filter.totals();
    if totals == ReferenceTotals::default() {
        return Err(nothing_read(path, format, &ledger));
    }
    let buffer = writer.finish(&Ending::new(totals, Stop::End, None)).map_err(written)?;
    let aside = buffer.into_inner().map_err(|error| written(error.into_error()))?;
    aside.persist(output, options.force).map_err(written)?;
    Ok(ReferenceImportReport::new(format, totals, steps_written, source.threads(), &ledger))
}

/// The error for a file without references, at its first bad line.
fn nothing_read(path: &Path, format: &Format, ledger: &Ledger) -> Error {
    let part = if format.has_lines { "line" } else { "entry" };
    let nothing = format!("no {part} is a reference of the format {}", format.name);
    match ledger.rejects().1 {
        [first, ..] => {
            let message = format!("{nothing}; expected {}", first.expected);
            Error::new(ErrorKind::Corrupt, path, message).at(Position::Line(first.line))
        }
        [] => Error::new(ErrorKind::Corrupt, path, nothing),
    }
}

fn choose(input: &mut Input, name: Option<&str>) -> Result<&'static Format, Error> {
    let Some(name) = name else { return formats::recognise(input) };
    formats::by_name(name).ok_or_else(|| {
        let names = formats::names();
        let message = format!("no format of references is called {name:?}; formats are {names}");
        Error::new(ErrorKind::Usage, input.path(), message)
    })
}
