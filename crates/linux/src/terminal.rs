//! The terminal on standard output.

use std::io::{IsTerminal, stdout};

use rustix::termios::tcgetwinsize;

/// Columns of a terminal that does not say how many it has.
const USUAL: u16 = 80;

/// Columns of the terminal on standard output; `None` if that is a file or a pipe.
pub fn columns() -> Option<usize> {
    if !stdout().is_terminal() {
        return None;
    }
    let columns = tcgetwinsize(stdout()).map_or(0, |size| size.ws_col);
    Some(usize::from(if columns == 0 { USUAL } else { columns }))
}
