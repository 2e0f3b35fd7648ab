//! Exact miss counts of a page-granular cache, for several policies and sizes in one pass.
//!
//! Every access counts, reads and writes alike; the cache starts empty, so first accesses (cold
//! misses) are included. On a swap trace the accesses are SwapOut and SwapIn. With zero
//! frames every access misses.

mod arc_counter;
mod cell;
mod clock_counter;
mod counts;
#[cfg(test)]
mod differential;
mod limited;
mod lirs_counter;
mod lru_counter;
mod sampled;
mod timeline;

pub use counts::{MissCounts, MissSample, PolicyMisses};
pub use limited::{bytes_per_page, run_within};
pub use sampled::run_sampled;

use crate::Error;
use crate::accesses::{Accesses, Batch};
use cell::CounterCell;
use policy::eviction::{Build, Choice, Future};
use rayon::prelude::*;
use std::sync::Arc;
use trace::Source;
use types::{PageId, Progress};

/// Requests given to an offline policy at a time, between two reports of progress.
const OFFLINE_BATCH: usize = 1 << 20;

/// Requests gathered for several cells: each cell then finds most of its memory in the processor's cache.
const GATHERED: usize = 1 << 19;

/// Counts the misses of each policy, `NAME` or `NAME:OPTION=VALUE,...`, with each number of frames.
///
/// Memory: a few bytes per page and cell; with `opt`, also 4 bytes per access.
///
/// # Errors
/// An unknown policy or option, no policy or no size, a trace too long for `opt`, a trace that
/// cannot be read, or a caller that stops.
pub fn run(
    source: &mut dyn Source,
    policies: &[&str],
    frames: &[u32],
    progress: &dyn Progress,
) -> Result<MissCounts, Error> {
    count(source, policies, frames, Room::Ample, progress)
}

/// Whether counters should take little memory, or little time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Ample,
    Scarce,
}

fn count(
    source: &mut dyn Source,
    policies: &[&str],
    frames: &[u32],
    room: Room,
    progress: &dyn Progress,
) -> Result<MissCounts, Error> {
    let choices = choose_all(policies)?;
    let mut accesses = Accesses::new(source, progress);
    let mut counting = Counting::new(&choices, frames, room, accesses.expected())?;
    while let Some(batch) = accesses.next()? {
        counting.add(&batch);
    }
    counting.finish(progress)
}

/// The counts of policies and sizes while a trace is read.
struct Counting<'a> {
    choices: &'a [Choice],
    frames: Vec<u32>,
    online: Online,
    /// All requests so far, if a policy knows the future.
    requests: Option<Vec<PageId>>,
    requests_count: u64,
}

impl<'a> Counting<'a> {
    /// Counts with each policy and each number of frames. The trace has about `requests_expected` requests.
    ///
    /// # Errors
    /// `Usage` for no policy or no size.
    fn new(
        choices: &'a [Choice],
        frames: &[u32],
        room: Room,
        requests_expected: u64,
    ) -> Result<Counting<'a>, Error> {
        let frames = without_repeats(frames);
        if choices.is_empty() || frames.is_empty() {
            return Err(Error::usage("misses needs at least one policy and one number of frames"));
        }
        let keeps_requests = choices.iter().any(|choice| matches!(choice.build, Build::Offline(_)));
        let requests = keeps_requests.then(|| Vec::with_capacity(requests_expected as usize));
        let cells = choices.iter().flat_map(|choice| CounterCell::online(choice, &frames, room));
        let online = Online::new(cells.collect());
        Ok(Counting { choices, frames, online, requests, requests_count: 0 })
    }

    fn add(&mut self, batch: &Batch) {
        self.requests_count += batch.pages.len() as u64;
        self.online.count(batch);
        if let Some(requests) = &mut self.requests {
            requests.extend_from_slice(batch.pages);
        }
    }

    /// The counts after all requests.
    fn finish(self, progress: &dyn Progress) -> Result<MissCounts, Error> {
        let Counting { choices, frames, online, requests, requests_count } = self;
        let (mut cells, bound) = online.finish();
        if let Some(requests) = requests {
            let future = look_ahead(requests, bound)?;
            cells.append(&mut count_offline(choices, &frames, &future, progress)?);
        }
        let pages = cells.first().map_or(0, CounterCell::pages);
        Ok(MissCounts::new(requests_count, pages, choices, &frames, &cells))
    }
}

/// Counts all misses of the policies that know the future, and returns their cells.
fn count_offline(
    choices: &[Choice],
    frames: &[u32],
    future: &Arc<Future>,
    progress: &dyn Progress,
) -> Result<Vec<CounterCell>, Error> {
    let mut cells: Vec<CounterCell> =
        choices.iter().flat_map(|choice| CounterCell::offline(choice, frames, future)).collect();
    for done in (0..future.requests()).step_by(OFFLINE_BATCH) {
        progress.advance(done as u64, future.requests() as u64)?;
        let batch = OFFLINE_BATCH.min(future.requests() - done);
        each(&mut cells, |cell| cell.count_known(batch));
    }
    Ok(cells)
}

/// Counts the misses of one policy at one size in a form of its own, faster than replaying the
/// policy. It never names the page that leaves, so no driver can check it: a test compares the counts
/// with those of the policy.
trait CountMisses: Send {
    /// Counts `requests`, whose pages are numbered below `bound`.
    fn count(&mut self, requests: &[PageId], bound: usize);
    /// Misses so far.
    fn misses(&self) -> u64;
    /// Distinct pages requested so far.
    fn pages(&self) -> u64;
}

/// The policies that the texts name, each once.
fn choose_all(texts: &[&str]) -> Result<Vec<Choice>, Error> {
    let mut choices: Vec<Choice> = Vec::with_capacity(texts.len());
    for text in texts {
        let choice = Choice::parse(text).map_err(Error::usage)?;
        if choices.iter().all(|known| known.label != choice.label) {
            choices.push(choice);
        }
    }
    Ok(choices)
}

fn without_repeats<T: Copy + PartialEq>(items: &[T]) -> Vec<T> {
    let mut kept = Vec::with_capacity(items.len());
    for &item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

/// The cells that count while the trace is read.
struct Online {
    cells: Vec<CounterCell>,
    gathered: Vec<PageId>,
    bound: usize,
}

impl Online {
    fn new(cells: Vec<CounterCell>) -> Online {
        Online { cells, gathered: Vec::new(), bound: 0 }
    }

    fn count(&mut self, batch: &Batch) {
        self.bound = self.bound.max(batch.bound);
        if self.cells.len() <= 1 {
            let bound = self.bound;
            return each(&mut self.cells, |cell| cell.count(batch.pages, bound));
        }
        self.gathered.extend_from_slice(batch.pages);
        if self.gathered.len() >= GATHERED {
            self.count_gathered();
        }
    }

    fn count_gathered(&mut self) {
        let (gathered, bound) = (&self.gathered, self.bound);
        each(&mut self.cells, |cell| cell.count(gathered, bound));
        self.gathered.clear();
    }

    /// Returns the cells after all counting, and a bound on the page numbers.
    fn finish(mut self) -> (Vec<CounterCell>, usize) {
        self.count_gathered();
        (self.cells, self.bound)
    }
}

/// Runs `count` on each cell, in the thread pool. A single cell would only pay for the pool.
fn each(cells: &mut [CounterCell], count: impl Fn(&mut CounterCell) + Send + Sync) {
    match cells {
        [] => {}
        [cell] => count(cell),
        cells => cells.par_iter_mut().for_each(count),
    }
}

fn look_ahead(requests: Vec<PageId>, bound: usize) -> Result<Arc<Future>, Error> {
    if requests.len() >= u32::MAX as usize {
        return Err(Error::usage("opt takes traces of fewer than 4,294,967,295 accesses"));
    }
    Ok(Arc::new(Future::new(requests, bound)))
}
