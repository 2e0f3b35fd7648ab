//! Which events of larger pages count: those that begin a run, and few others.

use types::{Event, EventFlags, EventKind, PageId};

use crate::renumber::Renumber;

/// The runs of all larger pages so far.
#[derive(Default)]
pub struct Runs {
    numbers: PageNumbers,
    /// Of each recorded page the number of the run that it was last in.
    run_of: Vec<u32>,
    /// By larger page.
    runs: Vec<Run>,
    /// How often each process has ended.
    ends: Vec<u32>,
    /// The request that is going on.
    request: Option<(PageId, EventKind, u32, Option<i64>)>,
}

/// The latest run of one larger page.
#[derive(Clone, Copy)]
struct Run {
    /// Which run of its page it is, counted from 1; 0 before the first.
    number: u32,
    direction: Direction,
    /// A page-out of it was dirty.
    writes: bool,
    /// What a device did meanwhile: bits by kind.
    traffic: u8,
    /// The process that the page ends with, and how often it had ended when the run began.
    owner: u32,
    ends: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// Nothing has moved the page yet.
    Unknown,
    Out,
    In,
    Request,
}

/// Of a page that ends with no process.
const NOBODY: u32 = u32::MAX;

impl Run {
    const NONE: Run = Run {
        number: 0,
        direction: Direction::Unknown,
        writes: false,
        traffic: 0,
        owner: NOBODY,
        ends: 0,
    };
}

impl Runs {
    /// Larger pages so far.
    pub fn pages(&self) -> u32 {
        self.runs.len() as u32
    }

    /// The larger page of an event that counts, none where it belongs to another event. `key` is that
    /// of the larger page. What names no page always counts.
    pub fn keep(&mut self, event: Event, time_ns: Option<i64>, key: u64) -> Option<PageId> {
        if event.kind == EventKind::Exit {
            *slot(&mut self.ends, event.process.index(), 0) += 1;
            return Some(PageId(0));
        }
        let page = self.numbers.of(event.page, key);
        slot(&mut self.runs, page.index(), Run::NONE);
        slot(&mut self.run_of, event.page.index(), 0);
        let direction = match event.kind {
            EventKind::SwapOut | EventKind::Evict => Direction::Out,
            EventKind::SwapIn | EventKind::Request => Direction::In,
            EventKind::Read | EventKind::Write => Direction::Request,
            kind => return self.keep_traffic(page, kind).then_some(page),
        };
        let request = (page, event.kind, event.process.0, time_ns);
        let goes_on = direction != Direction::Request || self.request == Some(request);
        if direction == Direction::Request {
            self.request = Some(request);
        }
        (self.keep_move(page, event, direction, goes_on)).then_some(page)
    }

    fn keep_move(
        &mut self,
        page: PageId,
        event: Event,
        direction: Direction,
        goes_on: bool,
    ) -> bool {
        let is_anonymous = matches!(event.kind, EventKind::SwapOut | EventKind::SwapIn);
        let owner = if is_anonymous { event.process.0 } else { NOBODY };
        let ends = self.ends_of(owner);
        let writes = direction == Direction::Out && event.flags.contains(EventFlags::DIRTY);
        let run = &mut self.runs[page.index()];
        let run_of = &mut self.run_of[event.page.index()];
        let is_same = (run.direction, run.owner, run.ends) == (direction, owner, ends);
        if goes_on && is_same && *run_of != run.number {
            *run_of = run.number;
            let is_first_write = writes && !run.writes;
            run.writes |= writes;
            return is_first_write;
        }
        *run = Run { number: run.number + 1, direction, writes, traffic: 0, owner, ends };
        *run_of = run.number;
        true
    }

    fn keep_traffic(&mut self, page: PageId, kind: EventKind) -> bool {
        let ends = self.ends_of(self.runs[page.index()].owner);
        let run = &mut self.runs[page.index()];
        if run.ends != ends {
            // The page ended with its process.
            *run = Run { number: run.number, ..Run::NONE };
        }
        let bit = 1 << (kind == EventKind::DeviceWrite) as u8;
        let is_needless = run.direction == Direction::In && kind == EventKind::DeviceRead;
        let counts = !is_needless && run.traffic & bit == 0;
        run.traffic |= if is_needless { 0 } else { bit };
        counts
    }

    fn ends_of(&self, process: u32) -> u32 {
        self.ends.get(process as usize).copied().unwrap_or(0)
    }
}

/// The entry at `index`, which is made if it is not there.
fn slot<T: Clone>(entries: &mut Vec<T>, index: usize, empty: T) -> &mut T {
    if entries.len() <= index {
        entries.resize(index + 1, empty);
    }
    &mut entries[index]
}

/// Numbers of larger pages, looked up once for each recorded page.
struct PageNumbers {
    numbers: Renumber,
    /// Of each recorded page; `u32::MAX` before it is known.
    known: Vec<u32>,
    found: Vec<u32>,
}

impl Default for PageNumbers {
    fn default() -> PageNumbers {
        PageNumbers { numbers: Renumber::unlimited(), known: Vec::new(), found: Vec::new() }
    }
}

impl PageNumbers {
    fn of(&mut self, page: PageId, key: u64) -> PageId {
        let known = slot(&mut self.known, page.index(), u32::MAX);
        if *known == u32::MAX {
            self.found.clear();
            let numbered = self.numbers.number_batch(&[key], &mut self.found);
            numbered.expect("larger pages are fewer than those of the recording");
            *known = self.found[0];
        }
        PageId(*known)
    }
}
