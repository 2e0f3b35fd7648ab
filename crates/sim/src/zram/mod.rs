//! Replays swap traffic into a zram device whose capacity is what zram's is: a number of pages (`disksize`), and the bytes
//! that they take compressed (`mem_limit`). Each page has a size of its own, drawn from what was measured for its owner.
//!
//! Sources: drivers/block/zram/zram_drv.c and mm/page_io.c of Linux 6.18. The kernel frees a slot when it reads it, so a
//! page is compressed again each time it leaves. If all slots are taken, the next page goes to the next swap area. If the
//! pool is at its limit, the write fails and the page stays in memory. As with swap priorities, nothing moves between
//! the areas.

mod sizes;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trace::Source;
use types::{Cancelled, Event, EventFlags, EventKind, Events, PageId, ProcessId, Progress};

use crate::error::Error;
use crate::swap::owners::Owners;
use sizes::PageSizes;
pub use sizes::{Distribution, Sizes};

/// A zram device to replay.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZramDevice {
    /// Bytes of pages that it holds at most: `disksize`.
    pub disksize_bytes: u64,
    /// Bytes of memory that its pool takes at most: `mem_limit`; 0 for no limit.
    pub limit_bytes: u64,
    /// The algorithm, by its place in the list of the request.
    pub algorithm: usize,
}

/// What to replay.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZramRequest {
    /// The seed of the sizes of pages.
    pub seed: u64,
    /// The sizes of pages by each algorithm.
    pub algorithms: Vec<Sizes>,
    /// The devices.
    pub devices: Vec<ZramDevice>,
}

/// What a zram device did in a replay. Pages of zeros that the recording marks are left out: the kernel does not write
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ZramCounts {
    /// Pages that were compressed and stored.
    pub compressed: u64,
    /// Pages that were read and decompressed.
    pub decompressed: u64,
    /// Pages of equal words that were stored, which take no memory.
    pub same_filled: u64,
    /// Pages that went to the next swap area, because all slots were taken.
    pub slow_writes: u64,
    /// Pages that were read from the next swap area.
    pub slow_reads: u64,
    /// Pages that stayed in memory, because the pool was at its limit.
    pub refused: u64,
    /// The most bytes of pages that the device held at once.
    pub stored_bytes_max: u64,
    /// The most bytes of memory that the pool took at once.
    pub pool_bytes_max: u64,
}

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Memory,
    Zram,
    Slow,
}

/// A replay of one device.
struct Replay<'a> {
    device: ZramDevice,
    sizes: PageSizes<'a>,
    page_bytes: u64,
    places: Vec<Place>,
    stored: u64,
    pool: f64,
    counts: ZramCounts,
}

/// Replays a recording into each device of the request, in one pass; the results are in the order of the devices.
///
/// # Errors
/// `Usage` if the request is invalid or the trace is not of swap; errors of reading the trace; `Cancelled`.
pub fn simulate_zram(
    source: &mut dyn Source,
    request: &ZramRequest,
    progress: &dyn Progress,
) -> Result<Vec<ZramCounts>, Error> {
    if !source.header().is_of_swap() {
        return Err(Error::usage("the trace is not of swap, so no page of it goes to zram"));
    }
    let page_bytes = source.header().page_bytes;
    let start = |&device: &ZramDevice| {
        let sizes = request.algorithms.get(device.algorithm).ok_or_else(|| {
            let (number, count) = (device.algorithm, request.algorithms.len());
            Error::usage(format!("algorithm {number} of {count} is not in the request"))
        })?;
        Ok(Replay {
            device,
            sizes: PageSizes::new(sizes, request.seed, page_bytes).map_err(Error::usage)?,
            page_bytes,
            places: Vec::new(),
            stored: 0,
            pool: 0.0,
            counts: ZramCounts::default(),
        })
    };
    let mut replays: Vec<Replay<'_>> =
        request.devices.iter().map(start).collect::<Result<_, Error>>()?;
    let (mut owners, mut is_owned) = (Owners::default(), Vec::new());
    let (mut events, mut done, mut gone) = (Events::default(), 0, Vec::new());
    while source.next_batch(&mut events)? {
        grow(&mut owners, &mut is_owned, &mut replays, &events);
        let header = source.header();
        for replay in &mut replays {
            replay.sizes.name(header.processes.iter().map(|process| process.name));
        }
        // The owners are the same for every device, so they are found once.
        let mut steps = Vec::with_capacity(events.len());
        for event in events.iter() {
            if event.kind == EventKind::Exit {
                gone.clear();
                gone.extend(std::iter::from_fn(|| owners.take_page(event.process)));
                gone.iter().for_each(|page| is_owned[page.index()] = false);
                steps.extend(gone.iter().map(|&page| (ZramStep::Free, page, event.process)));
                continue;
            }
            let Some(step) = step_of(event) else { continue };
            if !std::mem::replace(&mut is_owned[event.page.index()], true) {
                owners.adopt(event.page, event.process, true);
            }
            steps.push((step, event.page, event.process));
        }
        replays.par_iter_mut().for_each(|replay| {
            steps.iter().for_each(|&(step, page, process)| replay.step(step, page, process));
        });
        done += events.len() as u64;
        progress.advance(done, header.events).map_err(|Cancelled| cancelled())?;
    }
    Ok(replays.into_iter().map(|replay| replay.counts).collect())
}

fn cancelled() -> Error {
    Error::new(crate::ErrorKind::Cancelled, "cancelled")
}

fn grow(
    owners: &mut Owners,
    is_owned: &mut Vec<bool>,
    replays: &mut [Replay<'_>],
    events: &Events,
) {
    let page_past = |event: Event| match event.kind {
        EventKind::Exit => 0,
        _ => event.page.index() + 1,
    };
    let pages = events.iter().map(page_past).max().unwrap_or(0);
    let processes = events.process.iter().max().map_or(0, |process| process.index() + 1);
    owners.grow(pages, processes);
    is_owned.resize(is_owned.len().max(pages), false);
    for replay in replays {
        if replay.places.len() < pages {
            replay.places.resize(pages, Place::Memory);
        }
    }
}

/// What an event does to a zram device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ZramStep {
    Out,
    In,
    Free,
}

fn step_of(event: Event) -> Option<ZramStep> {
    let is_zero = event.flags.contains(EventFlags::ZERO);
    match event.kind {
        EventKind::SwapOut | EventKind::SwapIn if is_zero => Some(ZramStep::Free),
        EventKind::SwapOut => Some(ZramStep::Out),
        EventKind::SwapIn => Some(ZramStep::In),
        EventKind::Void => Some(ZramStep::Free),
        _ => None,
    }
}

impl Replay<'_> {
    fn step(&mut self, step: ZramStep, page: PageId, process: ProcessId) {
        match step {
            ZramStep::Out => self.store(page, process),
            ZramStep::In => {
                // It left memory unrecorded: before the recording began, or unmodified.
                if self.places[page.index()] == Place::Memory {
                    self.store(page, process);
                }
                self.load(page, process);
            }
            ZramStep::Free => self.free(page, process),
        }
    }

    fn store(&mut self, page: PageId, process: ProcessId) {
        self.free(page, process);
        if self.stored + self.page_bytes > self.device.disksize_bytes {
            self.counts.slow_writes += 1;
            self.places[page.index()] = Place::Slow;
            return;
        }
        let size = self.sizes.of(page, process);
        let limit = self.device.limit_bytes;
        if limit > 0 && self.pool + size > limit as f64 {
            self.counts.refused += 1;
            return;
        }
        self.pool += size;
        self.stored += self.page_bytes;
        self.places[page.index()] = Place::Zram;
        let counts = &mut self.counts;
        if size > 0.0 {
            counts.compressed += 1;
        } else {
            counts.same_filled += 1;
        }
        counts.stored_bytes_max = counts.stored_bytes_max.max(self.stored);
        counts.pool_bytes_max = counts.pool_bytes_max.max(self.pool.ceil() as u64);
    }

    fn load(&mut self, page: PageId, process: ProcessId) {
        match self.places[page.index()] {
            Place::Memory => {}
            Place::Zram => {
                let is_compressed = self.sizes.of(page, process) > 0.0;
                self.counts.decompressed += u64::from(is_compressed);
                self.free(page, process);
            }
            Place::Slow => {
                self.counts.slow_reads += 1;
                self.places[page.index()] = Place::Memory;
            }
        }
    }

    fn free(&mut self, page: PageId, process: ProcessId) {
        if self.places[page.index()] == Place::Zram {
            self.stored -= self.page_bytes;
            // Sums of fractions: an empty pool takes nothing.
            self.pool -= self.sizes.of(page, process);
            if self.stored == 0 {
                self.pool = 0.0;
            }
        }
        self.places[page.index()] = Place::Memory;
    }
}

#[cfg(test)]
mod tests;
