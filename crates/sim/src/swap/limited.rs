//! Memory of a simulation for each page of the recording, for `--memory-limit`.

use super::{Readahead, RequestCells, Role, SimulateRequest, find};
use crate::error::Error;

/// The most memory of a page in one replay, with any architecture; crates/sim/tests/cell_memory.rs measures it.
const PAGE_BYTES_OF_A_REPLAY: u64 = 64;

/// The most bytes that the replays of a request take for each page of a recording.
///
/// # Errors
/// `Usage` for a request that also takes memory for each event, and for an unknown architecture or option.
pub fn bytes_per_page(request: &SimulateRequest) -> Result<u64, Error> {
    let by_event = |what: &str, instead: &str| {
        let why =
            format!("{what} takes memory for each event; {instead}, or leave out --memory-limit");
        Err(Error::usage(why))
    };
    if find(&request.architecture)?.role == Role::Bound {
        return by_event(&request.architecture, "choose another architecture");
    }
    if request.readahead == Readahead::Kernel {
        return by_event("readahead=kernel", "leave it out");
    }
    if request.queueing {
        return by_event("queueing=yes", "leave it out");
    }
    Ok(RequestCells::start(request)?.cells.len() as u64 * PAGE_BYTES_OF_A_REPLAY)
}
