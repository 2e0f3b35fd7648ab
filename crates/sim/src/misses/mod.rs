//! Exact miss counts of a page-granular cache, for several policies and sizes in one pass.
//!
//! Every access counts, reads and writes alike; the cache starts empty, so first accesses (cold
//! misses) are among the misses. On a swap trace the accesses are SwapOut and SwapIn. A cache
//! without frames is accepted: everything misses.

mod cell;
mod counts;
mod lru_counter;

pub use counts::{MissCounts, PolicyMisses};

use crate::Error;
use crate::accesses::Accesses;
use cell::Cell;
use policy::eviction::{self, Build, Future, Row};
use rayon::prelude::*;
use std::sync::Arc;
use trace::Source;
use types::{PageId, Progress};

/// Requests handed to an offline policy at a time, between two reports of progress.
const OFFLINE_BATCH: usize = 1 << 20;

/// Counts the misses of each policy with each number of frames.
///
/// Memory: a few bytes per page and cell; with `opt`, also 8 bytes per access.
///
/// # Errors
/// A policy that is not in the catalog, no policy or no size, a trace too long for `opt`, one that
/// cannot be read, or a caller that stops.
pub fn run(
    source: &mut dyn Source,
    policies: &[&str],
    frames: &[u32],
    progress: &dyn Progress,
) -> Result<MissCounts, Error> {
    let rows = find_all(policies)?;
    let frames = without_repeats(frames);
    if rows.is_empty() || frames.is_empty() {
        return Err(Error::usage("misses needs at least one policy and one number of frames"));
    }
    let keeps_requests = rows.iter().any(|row| matches!(row.build, Build::Offline(_)));
    let mut cells: Vec<Cell> = rows.iter().flat_map(|row| Cell::online(row, &frames)).collect();

    let mut accesses = Accesses::new(source, progress);
    let mut requests = Vec::new();
    if keeps_requests {
        requests.reserve(accesses.expected() as usize);
    }
    let mut requests_count = 0;
    let mut bound = 0;
    while let Some(batch) = accesses.next()? {
        requests_count += batch.pages.len() as u64;
        bound = bound.max(batch.bound);
        count(&mut cells, batch.pages, bound);
        if keeps_requests {
            requests.extend_from_slice(batch.pages);
        }
    }
    if keeps_requests {
        let future = look_ahead(requests, bound)?;
        let mut offline: Vec<Cell> =
            rows.iter().flat_map(|row| Cell::offline(row, &frames, &future)).collect();
        let total = requests_count.max(1);
        for (index, batch) in future.requests().chunks(OFFLINE_BATCH).enumerate() {
            progress.advance((index * OFFLINE_BATCH) as u64, total)?;
            count(&mut offline, batch, bound);
        }
        cells.append(&mut offline);
    }
    let pages = cells.first().map_or(0, Cell::pages);
    Ok(MissCounts::new(requests_count, pages, &rows, &frames, &cells))
}

fn find_all(names: &[&str]) -> Result<Vec<&'static Row>, Error> {
    without_repeats(names)
        .into_iter()
        .map(|name| {
            eviction::find(name).ok_or_else(|| {
                let known: Vec<&str> = eviction::CATALOG.iter().map(|row| row.name).collect();
                Error::usage(format!("no policy {name:?}; there are {}", known.join(", ")))
            })
        })
        .collect()
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

fn count(cells: &mut [Cell], requests: &[PageId], bound: usize) {
    match cells {
        // A lone cell gains nothing from the pool of threads and would pay for it.
        [cell] => cell.count(requests, bound),
        cells => cells.par_iter_mut().for_each(|cell| cell.count(requests, bound)),
    }
}

fn look_ahead(requests: Vec<PageId>, bound: usize) -> Result<Arc<Future>, Error> {
    if requests.len() >= u32::MAX as usize {
        return Err(Error::usage("opt takes traces of fewer than 4,294,967,295 accesses"));
    }
    Ok(Arc::new(Future::new(requests, bound)))
}
