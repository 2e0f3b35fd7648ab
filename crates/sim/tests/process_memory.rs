//! Memory of the figures of processes, which docs/analyses.md promises and a limit bounds.

use sim::analysis::{analyze, analyze_within};
use testkit::counting::{Counting, bytes_held_most};
use trace::{Header, Source, TraceKind};
use types::{Event, EventFlags, EventKind, Events, NoProgress, PageId, ProcessId};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const BATCH: u64 = 1 << 12;
const SECOND_NS: u64 = 1_000_000_000;
const BYTES_PER_PAIR: u64 = 48;
const BYTES_PER_PROCESS: u64 = 2048;
const BYTES_PER_STEP: u64 = 160;
/// Batches and rows.
const BYTES_BESIDE: u64 = 1 << 20;

/// Each process reads each of its `pages_each` pages once, in a second of its own. Processes take pages from 0 if
/// they share them, and else the next ones.
struct Readers {
    header: Header,
    processes: u64,
    pages_each: u64,
    is_shared: bool,
    done: u64,
}

impl Readers {
    fn new(processes: u64, pages_each: u64, is_shared: bool) -> Readers {
        let pages = if is_shared { pages_each } else { processes * pages_each };
        let header = Header {
            has_clock: true,
            pages: Some(pages as u32),
            processes: (0..processes as u32).map(|pid| (pid, format!("reader {pid}"))).collect(),
            ..Header::new(TraceKind::Block, "test")
        };
        Readers { header, processes, pages_each, is_shared, done: 0 }
    }

    fn pairs(&self) -> u64 {
        self.processes * self.pages_each
    }
}

impl Source for Readers {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, events: &mut Events) -> Result<bool, trace::Error> {
        events.clear();
        let end = (self.done + BATCH).min(self.pairs());
        for number in self.done..end {
            let process = number / self.pages_each;
            let page = if self.is_shared { number % self.pages_each } else { number };
            events.time_ns.push((process * SECOND_NS) as i64);
            events.push(Event {
                kind: EventKind::Read,
                flags: EventFlags::default(),
                page: PageId(page as u32),
                process: ProcessId(process as u32),
            });
        }
        self.done = end;
        Ok(!events.is_empty())
    }
}

fn held_most(source: impl Fn() -> Readers, top_processes: Option<usize>) -> u64 {
    let mut source = source();
    let held = bytes_held_most(|| {
        analyze(&mut source, top_processes, &NoProgress).expect("the source is sound");
    });
    held as u64
}

// One test, because allocations of tests that run meanwhile would count.
#[test]
fn processes_take_the_memory_that_a_limit_counts() {
    // The second number of pairs is one at which the table has just doubled.
    for (processes, pages_each, is_shared) in [
        (8, 20_000, true),
        (1, 7 * (1 << 14) + 1, false),
        (16, 7 * (1 << 10), true),
        (20_000, 3, false),
    ] {
        let source = || Readers::new(processes, pages_each, is_shared);
        let more = held_most(source, Some(20)).saturating_sub(held_most(source, None));
        // A process reads within two steps.
        let bound = source().pairs() * BYTES_PER_PAIR
            + processes * (BYTES_PER_PROCESS + 2 * BYTES_PER_STEP)
            + BYTES_BESIDE;
        assert!(more <= bound, "{processes} processes: {more} bytes of {bound}");
        assert!(more > source().pairs() * BYTES_PER_PAIR / 4, "the bound is far too large");
    }
    // Without a spare byte, a page has room for one process.
    let found = analyze_within(&mut Readers::new(8, 20_000, true), Some(20), 0, &NoProgress);
    let message = found.unwrap_err().to_string();
    assert!(message.contains("larger --memory-limit"), "{message}");
    let spare = 7 * 20_000 * BYTES_PER_PAIR + 8 * (BYTES_PER_PROCESS + 2 * BYTES_PER_STEP);
    let exact = analyze(&mut Readers::new(8, 20_000, true), Some(20), &NoProgress).unwrap();
    let within = analyze_within(&mut Readers::new(8, 20_000, true), Some(20), spare, &NoProgress);
    assert_eq!(within.unwrap(), exact);
    // Processes without a row count only for the whole.
    analyze_within(&mut Readers::new(8, 20_000, true), None, 0, &NoProgress).unwrap();
}
