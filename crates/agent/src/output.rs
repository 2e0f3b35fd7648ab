//! What commands print. That it cannot be printed is no reason to panic: the work is done by then.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use crate::exit::Exit;

/// A line of standard output.
///
/// # Errors
/// What the operating system refuses, as a full disk does. Nobody reading on, as after `head`, is none.
pub fn print(line: impl Display) -> Result<(), Exit> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Exit::Refused(format!("standard output: cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// A line of standard error, if anybody still reads it: a run of hours outlives its terminal.
pub fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
