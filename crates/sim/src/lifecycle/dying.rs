//! Victims that die (spec sheet S2.6): the signal is delivered, the threads exit, and only then the pages
//! are freed, one after the other, at the rate that the idle processors allow.

use super::memory::Memory;
use super::phone::{Costs, KillOrder};
use std::ops::Range;

/// One victim.
#[derive(Clone, Debug)]
pub(super) struct Dying {
    pub(super) app: u32,
    /// Row of the kill in the results.
    pub(super) row: usize,
    /// Time at which freeing of its pages begins.
    pub(super) ready_ns: u64,
    pages: Range<u32>,
    /// Time spent on freeing that did not suffice for one more page.
    credit_ns: u64,
}

/// Durations of the phases before freeing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Phases {
    pub(super) signal_ns: u64,
    pub(super) exit_ns: u64,
}

impl Phases {
    pub(super) fn of(threads: u32, costs: &Costs) -> Phases {
        Phases {
            signal_ns: u64::from(threads) * costs.signal_ns_per_thread,
            exit_ns: u64::from(threads) * costs.exit_ns_per_thread,
        }
    }

    /// When freeing begins: with the last thread's exit, or at once if the killer frees.
    fn ready_ns(self, now_ns: u64, order: KillOrder) -> u64 {
        let exit_ns = if order == KillOrder::ReclaimFirst { 0 } else { self.exit_ns };
        now_ns + self.signal_ns + exit_ns
    }
}

/// Every victim that has not ended yet, in the order of the kills.
#[derive(Debug, Default)]
pub(super) struct Deaths {
    dying: Vec<Dying>,
    /// Processors that no launch needs, at least one.
    idle_cores: u64,
    free_ns_per_page: u64,
    /// Processor time spent on freeing.
    pub(super) worked_ns: u64,
}

impl Deaths {
    pub(super) fn new(cores: u32, busy_threads: u32, costs: &Costs) -> Deaths {
        Deaths {
            idle_cores: u64::from(cores.saturating_sub(busy_threads)).max(1),
            free_ns_per_page: costs.free_ns_per_page,
            ..Deaths::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.dying.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.dying.len()
    }

    pub(super) fn has(&self, app: u32) -> bool {
        self.dying.iter().any(|dying| dying.app == app)
    }

    /// The dying apps.
    pub(super) fn apps(&self) -> impl Iterator<Item = u32> + '_ {
        self.dying.iter().map(|dying| dying.app)
    }

    /// Adds `app`, whose memory is `pages` and which is killed now.
    pub(super) fn add(
        &mut self,
        app: u32,
        row: usize,
        pages: Range<u32>,
        phases: Phases,
        (now_ns, order): (u64, KillOrder),
    ) {
        let ready_ns = phases.ready_ns(now_ns, order);
        self.dying.push(Dying { app, row, ready_ns, pages, credit_ns: 0 });
    }

    /// Time until the next pages are freed if no other app is killed.
    pub(super) fn next_ns(&self, now_ns: u64) -> u64 {
        let slowed = self.free_ns_per_page * self.slowdown();
        let next = |dying: &Dying| dying.ready_ns.saturating_sub(now_ns) + BATCH * slowed;
        self.dying.iter().map(next).min().unwrap_or(0).max(1)
    }

    /// Advances time from `from_ns` to `to_ns` and frees pages to `memory`. Returns the victims that ended.
    pub(super) fn go_on(&mut self, from_ns: u64, to_ns: u64, memory: &mut Memory) -> Vec<Dying> {
        let slowdown = self.slowdown();
        for dying in &mut self.dying {
            let worked_ns = to_ns.saturating_sub(dying.ready_ns.max(from_ns)) / slowdown;
            self.worked_ns += worked_ns;
            dying.credit_ns += worked_ns;
            if to_ns < dying.ready_ns {
                continue;
            }
            while dying.credit_ns >= self.free_ns_per_page {
                let Some(page) = dying.pages.next() else { break };
                // Pages in the swap area are freed at no cost.
                if memory.release(page) {
                    dying.credit_ns -= self.free_ns_per_page;
                }
            }
        }
        let gone = |dying: &mut Dying| dying.pages.is_empty() && dying.ready_ns <= to_ns;
        let gone: Vec<Dying> = self.dying.extract_if(.., gone).collect();
        gone.iter().for_each(|dying| memory.record_exit(dying.app));
        gone
    }

    /// Slowdown of victims that die at the same time and share the idle processors.
    fn slowdown(&self) -> u64 {
        (self.dying.len() as u64).div_ceil(self.idle_cores).max(1)
    }
}

/// Pages awaited at a time: reclaim's batch (SWAP_CLUSTER_MAX).
const BATCH: u64 = crate::page_lists::BATCH as u64;

#[cfg(test)]
mod tests {
    use super::super::memory::Content;
    use super::*;

    const COSTS: Costs = Costs {
        signal_ns_per_thread: 3,
        exit_ns_per_thread: 20,
        free_ns_per_page: 10,
        judge_ns_per_page: 0,
        evict_ns_per_page: 0,
        file_read_ns_per_page: None,
    };

    /// Kills `victims` apps of 100 pages and ten threads at once; returns when each had ended.
    fn gone_ns(victims: u32, order: KillOrder) -> Vec<u64> {
        let mut memory = Memory::new(1000, 0, false);
        let mut deaths = Deaths::new(4, 2, &COSTS);
        for app in 0..victims {
            let first = memory.map(app, 100, Content::Anonymous);
            for page in first..first + 100 {
                memory.bring(page, true);
            }
            let phases = Phases::of(10, &COSTS);
            deaths.add(app, 0, first..first + 100, phases, (0, order));
        }
        let mut gone = Vec::new();
        for now_ns in (0..1_000_000).step_by(10) {
            let ended = deaths.go_on(now_ns, now_ns + 10, &mut memory);
            gone.extend(ended.iter().map(|_| now_ns + 10));
        }
        assert!(deaths.is_empty() && memory.anonymous() == 0);
        gone
    }

    #[test]
    fn memory_is_freed_after_the_last_thread_or_at_once() {
        assert_eq!(gone_ns(1, KillOrder::Serial), [30 + 200 + 1000]);
        assert_eq!(gone_ns(1, KillOrder::ReclaimFirst), [30 + 1000]);
    }

    #[test]
    fn victims_share_the_idle_processors() {
        assert_eq!(gone_ns(2, KillOrder::Batch), [1230, 1230], "two of four are idle");
        let many = gone_ns(4, KillOrder::Batch);
        assert!(many.iter().all(|&ns| ns > 2000), "four on two: {many:?}");
    }
}
