//! Prints the output of commands. A failed write never panics: the command's work is done by then.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use crate::exit::Exit;

/// Writes a line to standard output.
///
/// # Errors
/// The line cannot be written, such as on a full disk. A closed pipe, as after `head`, is no error.
pub fn print(line: impl Display) -> Result<(), Exit> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Exit::Refused(format!("standard output: cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a line to standard error and ignores failures: a run of hours can outlive its terminal.
pub fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
