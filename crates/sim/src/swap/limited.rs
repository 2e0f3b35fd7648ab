//! The memory of a simulation, where the pages of the recording are all that it depends on.

use super::{Readahead, RequestCells, Role, SimulateRequest, find};
use crate::error::Error;

/// Memory of a page in one replay, at most, with any architecture; tests/test_memory_bounds.py measures it.
const PAGE_BYTES_OF_A_REPLAY: u64 = 64;

/// The bytes that the replays of a request take for each page of a recording, at most.
///
/// # Errors
/// `Usage` for what also takes memory for each event, and for an unknown architecture or option.
pub fn bytes_per_page(request: &SimulateRequest) -> Result<u64, Error> {
    let by_event = |what: &str| {
        Err(Error::usage(format!(
            "{what} takes memory for each event; leave it out, or leave out the limit"
        )))
    };
    if find(&request.architecture)?.role == Role::Bound {
        return by_event(&request.architecture);
    }
    if request.readahead == Readahead::Kernel {
        return by_event("readahead=kernel");
    }
    if request.queueing {
        return by_event("queueing=yes");
    }
    Ok(RequestCells::start(request)?.cells.len() as u64 * PAGE_BYTES_OF_A_REPLAY)
}
