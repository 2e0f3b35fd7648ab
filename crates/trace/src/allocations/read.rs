//! Reads the history of allocations from a recording.

use std::path::Path;

use types::Progress;

use super::builder::Builder;
use super::history::{History, SOURCE};
use crate::input::Input;
use crate::recording::{About, RecordingBlock, read_about};
use crate::{Error, ErrorKind, Loss};

/// Whether `path` is a recording of allocations; false also if it cannot be read.
pub fn is_allocations(path: &Path) -> bool {
    begins_so(Input::open(path, false))
}

/// Whether a file that begins with `head` is a recording of allocations.
pub fn is_head(head: &[u8]) -> bool {
    begins_so(Input::from_bytes("", head))
}

fn begins_so(input: Result<Input, Error>) -> bool {
    matches!(input.and_then(read_about), Ok(Some((about, _))) if has_allocations(&about))
}

fn has_allocations(about: &About) -> bool {
    about.sources.iter().any(|source| source == SOURCE)
}

/// Reads a recording of allocations into memory.
///
/// # Errors
/// If the file cannot be read or is no recording of allocations; `Cancelled` if `progress` asks to stop.
pub fn read(path: &Path, progress: &dyn Progress) -> Result<History, Error> {
    read_input(Input::open(path, false)?, progress)
}

/// Reads a recording of allocations from an open input at its beginning.
///
/// # Errors
/// As `read`.
pub fn read_input(input: Input, progress: &dyn Progress) -> Result<History, Error> {
    let (path, meter, total) = (input.path().to_owned(), input.meter(), input.file_bytes());
    let begun = read_about(input)?.filter(|(about, _)| has_allocations(about));
    let (about, mut reader) = begun.ok_or_else(|| {
        let expected = "expected a recording of allocations, as `pagewise-agent record \
                        --allocations` writes it";
        Error::new(ErrorKind::UnknownFormat, &path, expected)
    })?;
    let (mut builder, mut losses, mut has_ended) = (Builder::default(), Vec::new(), false);
    let mut lose = |what: &str, count: u64| {
        if count > 0 {
            losses.push(Loss { what: what.to_owned(), count });
        }
    };
    while let Some(block) = reader.read_block()? {
        match block {
            RecordingBlock::Records(records) => {
                records.iter().for_each(|record| builder.take(record))
            }
            RecordingBlock::Ending(ending) => {
                has_ended = true;
                lose("records dropped because the buffer was full", ending.lost);
            }
            RecordingBlock::CutShort(bytes) => lose("bytes of a block that was cut short", bytes),
            RecordingBlock::About(_)
            | RecordingBlock::Sample(_)
            | RecordingBlock::Moment(_)
            | RecordingBlock::Files(_)
            | RecordingBlock::Unknown(_) => {}
        }
        progress.advance(meter.bytes(), total).map_err(|_| Error::cancelled(&path))?;
    }
    if !has_ended {
        lose("the end of the recording: the recorder stopped early", 1);
    }
    Ok(History { about, is_cut: !has_ended, ..builder.finish(losses) })
}
