//! Replays of allocations against the naive model, and rules that hold for every allocator.

#![allow(clippy::unwrap_used, reason = "helpers of tests stop where tests do")]

use proptest::prelude::*;
use sim::alloc::{ALLOCATORS, AllocatorOutcome, Options, find, replay};
use testkit::allocations::{self as naive, Pool};
use trace::allocations::{Action, Block, History, PageExtent, ProcessHistory, StepParts};

/// Frames of a machine on which our pool holds 512 KiB hot: 1/16 of its memory.
const MACHINE_PAGES: u64 = 2048;
const HOT_PAGES: u64 = MACHINE_PAGES / 16;

/// Next action of a generated program.
#[derive(Clone, Debug)]
enum Deed {
    Allocate { pages: u32, is_zeroed: bool, touched: Vec<bool> },
    Free(usize),
}

fn deed() -> impl Strategy<Value = (u64, Deed)> {
    let pause_ns = prop_oneof![4 => 0..50_000_000u64, 1 => 0..7_000_000_000u64];
    let pages = prop_oneof![4 => 17..80u32, 1 => 80..2500u32];
    let allocate = (pages, any::<bool>(), prop::collection::vec(any::<bool>(), 1..40))
        .prop_map(|(pages, is_zeroed, touched)| Deed::Allocate { pages, is_zeroed, touched });
    let free = any::<usize>().prop_map(Deed::Free);
    (pause_ns, prop_oneof![allocate, free])
}

/// A program in the forms for the model and for the simulator.
fn program(deeds: Vec<(u64, Deed)>) -> (Vec<(u64, naive::Step)>, History) {
    let mut history = Hand::new(1).0;
    history.about.memory_bytes = MACHINE_PAGES * 4096;
    let (mut steps, mut live, mut time_ns) = (Vec::new(), Vec::new(), 0);
    for (pause_ns, deed) in deeds {
        time_ns += pause_ns;
        let step = |block, action| StepParts { time_ns, process: 0, block, action };
        match deed {
            Deed::Allocate { pages, is_zeroed, touched } => {
                let block = history.blocks.len() as u32;
                let bytes = u64::from(pages) * 4096;
                history.blocks.push(Block { bytes, pages, is_zeroed, is_mapped: false });
                // A pattern over the whole block, as extents and page by page.
                let is_touched =
                    |page: u32| touched[page as usize * touched.len() / pages as usize];
                let touched: Vec<u32> = (0..pages).filter(|&page| is_touched(page)).collect();
                let extents: Vec<PageExtent> =
                    touched.iter().map(|&first| PageExtent { first, pages: 1 }).collect();
                history.push(step(block, Action::Allocate), &extents);
                live.push((steps.len(), block));
                steps.push((time_ns, naive::Step::Allocate { pages, is_zeroed, touched }));
            }
            Deed::Free(which) if !live.is_empty() => {
                let (allocated_at, block) = live.remove(which % live.len());
                history.push(step(block, Action::Free), &[]);
                steps.push((time_ns, naive::Step::Free { allocated_at }));
            }
            Deed::Free(_) => {}
        }
    }
    (steps, history)
}

fn brief(outcome: &AllocatorOutcome) -> naive::Counts {
    let counts = outcome.counts;
    naive::Counts {
        faults: counts.faults,
        populated: counts.pages_populated,
        zeroed: counts.pages_zeroed,
        lazy_touches: counts.lazy_touches,
        reclaimed: counts.pages_reclaimed,
        resident_max: outcome.pages_resident_max,
        is_killed: counts.kills > 0,
    }
}

/// Asserts that each pool does with the program what its naive model does.
fn compare_pools(deeds: Vec<(u64, Deed)>, is_tight: bool) {
    let (steps, history) = program(deeds);
    let budget_pages = is_tight.then_some(MACHINE_PAGES);
    let lazy = Pool::Lazy { hot_pages: HOT_PAGES };
    for (name, pool) in [("no-pool", Pool::None), ("paper", Pool::Paper), ("lazy", lazy)] {
        let options = Options { budget_pages, ..Options::default() };
        let ours = brief(&replay(&history, find(name).unwrap(), options));
        let mut expected = naive::replay(&steps, pool, budget_pages);
        if expected.is_killed {
            // The simulator's timeline ends one step later; the model's ends with the kill.
            expected.resident_max = ours.resident_max;
        }
        assert_eq!(ours, expected, "{name}");
    }
}

#[test]
fn a_small_block_after_a_large_one_that_was_freed_is_served_as_by_the_naive_model() {
    let allocate = |pages| Deed::Allocate { pages, is_zeroed: false, touched: vec![true] };
    compare_pools(vec![(0, allocate(129)), (0, Deed::Free(0)), (0, allocate(17))], false);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    #[ignore = "slow"]
    fn pools_equal_the_naive_model(
        deeds in prop::collection::vec(deed(), 1..80),
        is_tight: bool,
    ) {
        compare_pools(deeds, is_tight);
    }

    #[test]
    #[ignore = "slow"]
    fn a_pool_above_its_limits_equals_the_naive_model(
        sizes in prop::collection::vec(1000..3000u32, 6..12),
        pause_ns in 0..700_000_000u64,
    ) {
        let allocate = |&pages| (0, Deed::Allocate { pages, is_zeroed: false, touched: vec![true] });
        let free = (0..sizes.len()).map(|_| (pause_ns, Deed::Free(0)));
        let again = sizes.iter().map(allocate);
        let (steps, history) = program(sizes.iter().map(allocate).chain(free).chain(again).collect());
        let ours = brief(&replay(&history, find("lazy").unwrap(), Options::default()));
        prop_assert_eq!(ours, naive::replay(&steps, Pool::Lazy { hot_pages: HOT_PAGES }, None));
    }

    #[test]
    #[ignore = "slow"]
    fn no_allocator_faults_more_than_none_and_none_is_killed_with_room(
        deeds in prop::collection::vec(deed(), 1..120),
    ) {
        let (_, history) = program(deeds);
        let baseline = replay(&history, find("no-pool").unwrap(), Options::default());
        for row in ALLOCATORS {
            let outcome = replay(&history, row, Options::default());
            prop_assert!(outcome.counts.faults <= baseline.counts.faults, "{}", row.name);
            prop_assert_eq!(outcome.counts.kills, 0);
            prop_assert!(outcome.pages_resident_max >= outcome.pages_live_max);
            prop_assert!(outcome.pages_live_max >= baseline.pages_live_max, "{}", row.name);
            prop_assert!(outcome.pages_resident_idle >= outcome.pages_live_idle);
            prop_assert_eq!(&outcome, &replay(&history, row, Options::default()));
        }
    }

    #[test]
    fn no_process_is_killed_while_the_kernel_can_take_a_page_from_a_pool(
        deeds in prop::collection::vec(deed(), 1..120),
        budget_pages in 100..3000u64,
    ) {
        let (_, history) = program(deeds);
        let options = Options { budget_pages: Some(budget_pages), hears_pressure: true };
        for name in ["paper", "paper-capped", "lazy"] {
            let outcome = replay(&history, find(name).unwrap(), options);
            prop_assert_eq!(outcome.counts.pages_pooled_at_kill, 0, "{}", name);
        }
    }
}

/// A history of one process, written by hand: blocks of 20 pages, all touched, times in seconds.
struct Hand(History);

impl Hand {
    fn new(processes: usize) -> Hand {
        let mut history = History::default();
        history.processes.resize(processes, ProcessHistory::default());
        Hand(history)
    }

    fn block(&mut self, pages: u32, is_zeroed: bool, is_mapped: bool) -> u32 {
        let bytes = u64::from(pages) * 4096;
        self.0.blocks.push(Block { bytes, pages, is_zeroed, is_mapped });
        self.0.blocks.len() as u32 - 1
    }

    fn step(&mut self, seconds: u64, process: u32, block: u32, action: Action) {
        let touched = match action {
            Action::Allocate => block,
            Action::Resize { to } => to,
            _ => u32::MAX,
        };
        let pages = self.0.blocks.get(touched as usize).map(|block| block.pages);
        let extents: Vec<PageExtent> =
            pages.into_iter().map(|pages| PageExtent { first: 0, pages }).collect();
        let time_ns = seconds * 1_000_000_000;
        self.0.push(StepParts { time_ns, process, block, action }, &extents);
    }

    fn run(&self, name: &str, budget_pages: Option<u64>) -> AllocatorOutcome {
        replay(&self.0, find(name).unwrap(), Options { budget_pages, ..Options::default() })
    }
}

/// Allocates and frees one block of 50 pages repeatedly, `pause_s` seconds apart.
fn churn(rounds: u64, is_zeroed: bool, pause_s: u64) -> Hand {
    let mut hand = Hand::new(1);
    for round in 0..rounds {
        let block = hand.block(50, is_zeroed, false);
        hand.step(pause_s * round, 0, block, Action::Allocate);
        hand.step(pause_s * round, 0, block, Action::Free);
    }
    hand
}

#[test]
fn a_loop_of_one_block_faults_once_if_the_block_is_kept() {
    let hand = churn(10, true, 0);
    let faults = |name| hand.run(name, None).counts.faults;
    assert_eq!(faults("no-pool"), 500);
    assert_eq!(faults("glibc-fixed"), 500);
    assert_eq!(faults("paper"), 0, "filled when mapped");
    assert_eq!(faults("lazy"), 50);
    assert_eq!(premapped_and_faulted("paper"), (300, 0));
    assert_eq!(premapped_and_faulted("paper-capped"), (256, 44));
    // glibc raises its threshold at the first free; the second block extends the heap.
    assert_eq!(faults("glibc"), 100);
    assert_eq!(faults("decay-like"), 500, "memory that must read as zero is discarded");
    assert_eq!(churn(10, false, 0).run("decay-like", None).counts.faults, 50);
    let lazy = hand.run("lazy", None);
    assert_eq!(lazy.counts.pages_zeroed, 450);
    assert_eq!(lazy.pages_resident_max, 50);
}

/// Pages filled ahead, and faults, for a block of 300 pages.
fn premapped_and_faulted(name: &str) -> (u64, u64) {
    let mut hand = Hand::new(1);
    let block = hand.block(300, false, false);
    hand.step(0, 0, block, Action::Allocate);
    let counts = hand.run(name, None).counts;
    (counts.pages_populated, counts.faults)
}

#[test]
fn after_a_second_ours_is_lazily_freed_and_after_five_discarded() {
    let counts = |pause_s| churn(10, false, pause_s).run("lazy", None).counts;
    assert_eq!((counts(0).faults, counts(0).lazy_touches), (50, 0));
    assert_eq!((counts(1).faults, counts(1).lazy_touches), (50, 450));
    // All pages of six blocks of 50; four more blocks are filled ahead except for a sixteenth.
    assert_eq!((counts(5).faults, counts(5).lazy_touches), (6 * 50 + 4 * 4, 0));
    assert_eq!(counts(5).pages_populated, 4 * 46);
}

#[test]
fn ours_gives_back_idle_memory_and_the_kernels_pool_keeps_it() {
    let mut hand = churn(2, false, 1);
    hand.step(2, 0, 0, Action::Exit);
    assert_eq!(hand.run("lazy", None).pages_resident_idle, 0);
    assert_eq!(hand.run("paper", None).pages_resident_idle, 50);
    assert_eq!(hand.run("no-pool", None).pages_resident_idle, 0);
}

#[test]
fn scudo_keeps_blocks_that_fit_within_four_pages() {
    let mut hand = Hand::new(1);
    for pages in [50, 46, 45, 600, 600] {
        let block = hand.block(pages, false, false);
        hand.step(0, 0, block, Action::Allocate);
        hand.step(0, 0, block, Action::Free);
    }
    // 46 fits into 50, and 45 into the remaining 46; 600 is more than 2 MiB.
    assert_eq!(hand.run("scudo-like", None).counts.faults, 50 + 1200);
}

#[test]
fn mapped_blocks_bypass_every_malloc_but_not_the_pools() {
    let mut hand = Hand::new(1);
    for _ in 0..4 {
        let block = hand.block(40, true, true);
        hand.step(0, 0, block, Action::Allocate);
        hand.step(0, 0, block, Action::Free);
    }
    for name in ["no-pool", "glibc-fixed", "glibc", "scudo-like", "decay-like"] {
        assert_eq!(hand.run(name, None).counts.faults, 160, "{name}");
    }
    assert_eq!(hand.run("lazy", None).counts.faults, 40);
}

#[test]
fn cut_discarded_and_resized_pages_are_counted_once() {
    let mut hand = Hand::new(1);
    let (small, large) = (hand.block(40, true, true), hand.block(60, true, true));
    let part = |first, pages| PageExtent { first, pages };
    hand.step(0, 0, small, Action::Allocate);
    let discard = Action::Discard { extent: part(0, 10), is_lazy: false };
    hand.step(1, 0, small, discard);
    hand.step(2, 0, small, Action::Resize { to: large });
    hand.step(3, 0, large, Action::Cut(part(50, 10)));
    hand.step(4, 0, large, Action::Free);
    for row in ALLOCATORS.iter().filter(|row| !row.name.starts_with("paper")) {
        let outcome = replay(&hand.0, row, Options::default());
        // 40 at first, then the 10 discarded ones and 20 more after the resize.
        assert_eq!(outcome.counts.faults, 70, "{}", row.name);
        assert_eq!(outcome.pages_live_max, 60, "{}", row.name);
    }
}

#[test]
fn a_pool_is_taken_before_a_process_is_killed() {
    let mut hand = Hand::new(2);
    let blocks: Vec<u32> = (0..3).map(|_| hand.block(100, false, false)).collect();
    hand.step(0, 0, blocks[0], Action::Allocate);
    hand.step(1, 0, blocks[0], Action::Free);
    hand.step(1, 1, blocks[1], Action::Allocate);
    hand.step(1, 1, blocks[2], Action::Allocate);
    // The program needs 200 pages at a time; a pool of 100 is held when the third block comes.
    let paper = hand.run("paper", Some(220));
    assert_eq!((paper.counts.kills, paper.counts.pages_reclaimed >= 80), (0, true));
    assert_eq!(paper.counts.pages_pooled_at_kill, 0);
    let decay = hand.run("decay-like", Some(220));
    assert_eq!(decay.counts.kills, 1, "the kernel cannot take what it keeps");
    assert_eq!(decay.counts.pages_pooled_at_kill, 100);
    assert_eq!(hand.run("no-pool", Some(220)).counts.kills, 0);
    assert_eq!(hand.run("no-pool", Some(150)).counts.kills, 1);
}
