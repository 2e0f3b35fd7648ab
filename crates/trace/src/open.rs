//! Opens any input of an analysis: a pagewise trace file, or a foreign recording, read directly.

use std::path::Path;

use types::{Events, PageId};

use crate::formats::{self, CsvColumns};
use crate::import::ImportOptions;
use crate::input::Input;
use crate::pipeline::{Pipeline, PipelineOptions};
use crate::store::{Reader, is_parquet};
use crate::{Error, Header, Rows, Source, allocations, references};

/// Opens `path` (`-` is standard input) for analysis: a trace file, or any recording that can be
/// imported. Nothing is written; the memory for numbering pages has no bound.
///
/// # Errors
/// If the input cannot be read or recognised, with its position; `Usage` if `options` describe a
/// recording but `path` is a trace file.
pub fn open(path: &Path, options: &ImportOptions) -> Result<Box<dyn Source>, Error> {
    if is_parquet(path) {
        options.refuse_trace_file(path)?;
        return Ok(Box::new(Reader::open(path)?));
    }
    let pipeline = Pipeline::open(&[path.to_owned()], &direct(options))?;
    Ok(Box::new(ForeignRecording { pipeline }))
}

/// An open recording, by its contents.
pub enum Opened {
    /// Events of pages.
    Events(Box<dyn Source>),
    /// Allocations of a program, for `allocations::read_input`.
    Allocations(Input),
    /// References to memory.
    References(Box<references::Reader>),
}

/// Opens `path` (`-` is standard input) once, by its first bytes, because a pipe cannot be read again.
/// If `options` name a format, a mapping or columns, the input has events.
///
/// # Errors
/// Errors of [`open`].
pub fn open_any(path: &Path, options: &ImportOptions) -> Result<Opened, Error> {
    if options.describe_recording() || is_parquet(path) {
        return Ok(Opened::Events(open(path, options)?));
    }
    let mut input = Input::open(path, false)?;
    if allocations::is_head(input.fill()?) {
        return Ok(Opened::Allocations(input));
    }
    if references::is_head(input.held()) {
        return Ok(Opened::References(Box::new(references::Reader::of_input(input)?)));
    }
    let pipeline = Pipeline::of_input(input, &direct(options))?;
    Ok(Opened::Events(Box::new(ForeignRecording { pipeline })))
}

/// The columns of the recording at `path`; `None` if its format names none that the caller may choose.
///
/// # Errors
/// If the recording cannot be read or recognised.
pub fn csv_columns(path: &Path, options: &ImportOptions) -> Result<Option<CsvColumns>, Error> {
    let mut input = Input::open(path, false)?;
    let format = match &options.format {
        Some(name) => formats::by_name(name),
        None => Some(formats::recognise(&mut input)?),
    };
    if !format.is_some_and(|format| format.has_columns) {
        return Ok(None);
    }
    formats::columns(input, options.mapping).map(Some)
}

fn direct(options: &ImportOptions) -> PipelineOptions {
    PipelineOptions { is_hashed: false, numbering_bytes_max: None, ..options.pipeline() }
}

/// A foreign recording as a source of events.
struct ForeignRecording {
    pipeline: Pipeline,
}

impl Source for ForeignRecording {
    fn header(&self) -> &Header {
        self.pipeline.header()
    }

    fn omit_numbering_and_count(&mut self) {
        self.pipeline.omit_numbering();
    }

    fn next_batch(&mut self, events: &mut Events) -> Result<bool, Error> {
        events.clear();
        let Some(rows) = self.pipeline.next_rows()? else {
            return Ok(false);
        };
        // Swap, so that the next batch reuses the caller's buffers.
        std::mem::swap(events, &mut rows.events);
        Ok(true)
    }

    fn next_rows(&mut self, rows: &mut Rows) -> Result<bool, Error> {
        rows.clear();
        let Some(next) = self.pipeline.next_rows()? else {
            return Ok(false);
        };
        std::mem::swap(rows, next);
        Ok(true)
    }

    fn next_accesses(&mut self, pages: &mut Vec<PageId>) -> Result<bool, Error> {
        self.pipeline.next_accesses(pages)
    }
}
