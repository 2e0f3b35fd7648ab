//! `pagewise-agent record --allocations`: runs a command with the preload library and makes a recording of its logs.

use std::ffi::OsString;
use std::path::Path;

use linux::Root;
use recorder::RecordingOutcome;
use recorder::allocations::{self, Options};

use crate::ending::Ending;
use crate::exit::Exit;
use crate::preload;

/// The library of crates/allocations.
const LIBRARY: &str = "libpagewise_allocations.so";

/// Rebuilds the recording `output` from the logs that an interrupted run left in `folder`.
pub fn recover(root: &Root, folder: &Path, output: &Path) -> Result<RecordingOutcome, Exit> {
    Ok(allocations::recover(root, folder, output.to_owned())?)
}

/// Runs `command` under the preload library and records into `output`.
pub fn record(
    root: &Root,
    output: &Path,
    command: &[String],
    ending: &mut Ending,
) -> Result<RecordingOutcome, Exit> {
    if command.is_empty() {
        return Err(Exit::Usage(
            "--allocations records a command: write it after --, such as -- convert a.jpg b.png"
                .to_owned(),
        ));
    }
    let options = Options { output: output.to_owned(), command: command.to_vec() };
    let folder = options.folder();
    // An absolute path, because the command may change its working directory.
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    ending.environment = vec![
        (preload::VARIABLE, preload::value(&preload::library(LIBRARY)?)?),
        (allocations::VARIABLE, OsString::from(folder)),
    ];
    Ok(allocations::record(root, &options, ending)?)
}
