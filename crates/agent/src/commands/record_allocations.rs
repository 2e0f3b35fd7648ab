//! `pagewise-agent record --allocations`: a command under the preload library, to a recording.

use std::ffi::OsString;

use linux::Root;
use recorder::Outcome;
use recorder::allocations::{self, Options};

use super::record::{Arguments, Ending};
use crate::exit::Exit;
use crate::preload;

/// Built by crates/allocations.
const LIBRARY: &str = "libpagewise_allocations.so";

pub fn record(root: &Root, arguments: &Arguments, ending: &mut Ending) -> Result<Outcome, Exit> {
    let output = arguments.output.clone();
    if let Some(folder) = &arguments.recover {
        return Ok(allocations::recover(root, folder, output)?);
    }
    if arguments.command.is_empty() {
        return Err(Exit::Usage(
            "--allocations records a command: write it behind --, such as -- convert a.jpg b.png"
                .to_owned(),
        ));
    }
    let options = Options { output, command: arguments.command.clone() };
    let folder = options.folder();
    // What the command makes of its current folder must not matter.
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    ending.environment = vec![
        (preload::VARIABLE, preload::value(&preload::library(LIBRARY)?)?),
        (allocations::VARIABLE, OsString::from(folder)),
    ];
    Ok(allocations::record(root, &options, ending)?)
}
