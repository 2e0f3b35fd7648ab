//! A simulation in bounded memory, for `--memory-limit`: its replays run one after the other if they do not fit beside
//! each other.

use super::outcome::TraceFacts;
use super::slices::Sliced;
use super::{
    Marks, Outcome, Readahead, RequestCells, Role, SimulateRequest, find, refuse_other_traces,
    replay,
};
use crate::error::Error;
use crate::passes::InPass;
use trace::Source;
use types::{Nanos, Progress};

/// The most memory of a page in one replay of an architecture, if the number of pages is known beforehand;
/// crates/sim/tests/limited_memory.rs measures it.
fn bytes_of_a_replay(architecture: &str) -> u64 {
    match architecture {
        "flash" | "priority" => 12,
        "hierarchical" | "hybrid" | "hybrid-clock" => 24,
        "adaptive" => 32,
        _ => 64,
    }
}

/// The least memory of [`simulate_within`] for each page of a recording, in bytes.
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
    // An invalid option is refused before the recording is numbered, which may take minutes.
    RequestCells::start(request)?;
    Ok(bytes_of_a_replay(&request.architecture))
}

/// Replays the trace as [`super::simulate`] does, with at most `room` bytes for each page, or with
/// [`bytes_per_page`] if those are more. `open` opens the trace once for each pass; its header must know the number of
/// pages. Also returns the source that was read last.
///
/// # Errors
/// Errors of [`super::simulate`] and [`bytes_per_page`].
pub fn simulate_within(
    open: &mut dyn FnMut() -> Result<Box<dyn Source>, Error>,
    request: &SimulateRequest,
    room: u64,
    progress: &dyn Progress,
) -> Result<(Outcome, Box<dyn Source>), Error> {
    let at_once = (room / bytes_per_page(request)?).max(1) as usize;
    let RequestCells { options, mut cells, has_range } = RequestCells::start(request)?;
    let (passes, mut tallies) = (cells.len().div_ceil(at_once), Vec::new());
    let mut pass = 0;
    loop {
        let later = cells.split_off(at_once.min(cells.len()));
        let mut source = open()?;
        refuse_other_traces(request, source.header())?;
        let pages = source.header().pages.unwrap_or(0) as usize;
        cells.iter_mut().for_each(|cell| cell.expect(pages));
        let progress = InPass { progress, pass, passes };
        let mut at_work: Vec<&mut Sliced> = cells.iter_mut().collect();
        let timeline = replay(&mut *source, &mut at_work, &Marks::None, &progress)?;
        for cell in cells {
            let (tally, _) = cell.finish(&Marks::None, &progress)?;
            tallies.push(tally);
        }
        if later.is_empty() {
            let active = timeline.active_ns().map(Nanos);
            let facts = TraceFacts { header: source.header(), active };
            let outcome = Outcome::new(request, options, &tallies, has_range, &facts);
            return Ok((outcome, source));
        }
        (cells, pass) = (later, pass + 1);
    }
}
