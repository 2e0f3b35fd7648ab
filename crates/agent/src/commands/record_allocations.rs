//! `pagewise-agent record --allocations`: runs a command with the preload library and makes a recording of its logs.

use std::ffi::OsString;

use linux::Root;
use recorder::Outcome;
use recorder::allocations::{self, Options};

use super::record::{Arguments, Ending};
use crate::exit::Exit;
use crate::preload;

/// The library of crates/allocations.
const LIBRARY: &str = "libpagewise_allocations.so";

pub fn record(root: &Root, arguments: &Arguments, ending: &mut Ending) -> Result<Outcome, Exit> {
    let output = arguments.output.clone();
    if let Some(folder) = &arguments.recover {
        return Ok(allocations::recover(root, folder, output)?);
    }
    if arguments.command.is_empty() {
        return Err(Exit::Usage(
            "--allocations records a command: write it after --, such as -- convert a.jpg b.png"
                .to_owned(),
        ));
    }
    let options = Options { output, command: arguments.command.clone() };
    let folder = options.folder();
    // An absolute path, because the command may change its working directory.
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    ending.environment = vec![
        (preload::VARIABLE, preload::value(&preload::library(LIBRARY)?)?),
        (allocations::VARIABLE, OsString::from(folder)),
    ];
    Ok(allocations::record(root, &options, ending)?)
}
