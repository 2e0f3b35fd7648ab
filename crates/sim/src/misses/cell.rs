//! One cell of a grid of policies and sizes: its counter, and the sizes that it serves.

use super::arc_counter::ArcCounter;
use super::clock_counter::ClockCounter;
use super::lirs_counter::LirsCounter;
use super::lru_counter::LruCounter;
use super::timeline;
use super::{CountMisses, Room};
use crate::stack::Stack;
use policy::eviction::{Build, Choice, Future, OwnCounter, Replay, ReplayFuture, Residency};
use std::sync::Arc;
use types::PageId;

/// Number of sizes from which one stack is cheaper than a counter for each size.
const STACK_SIZES_MIN: usize = 12;

/// One policy with the sizes that one counter serves.
pub(super) struct CounterCell {
    policy: String,
    counter: Counter,
}

enum Counter {
    Policy { frames: u32, policy: Box<dyn Replay>, memory: Residency, misses: u64 },
    Future { frames: u32, policy: Box<dyn ReplayFuture>, pages: u64, misses: u64 },
    Own { frames: u32, counter: Box<dyn CountMisses> },
    Stack(Stack),
}

impl CounterCell {
    /// The cells of a policy that needs no future; none for a policy that does.
    pub(super) fn online(choice: &Choice, sizes: &[u32], room: Room) -> Vec<CounterCell> {
        let Build::Online(build) = &choice.build else {
            return Vec::new();
        };
        let cell = |counter| CounterCell { policy: choice.label.clone(), counter };
        match choice.row.own_counter {
            // A stack takes 13 bytes a page, and the counter of one size up to 52.
            Some(OwnCounter::Lru) if sizes.len() >= STACK_SIZES_MIN || room == Room::Scarce => {
                vec![cell(Counter::Stack(Stack::default()))]
            }
            own => sizes
                .iter()
                .map(|&frames| match own.and_then(|own| own_counter(own, frames)) {
                    Some(counter) => cell(Counter::Own { frames, counter }),
                    None => cell(Counter::new(frames, build)),
                })
                .collect(),
        }
    }

    /// The cells of a policy that knows the future; none for a policy that does not.
    pub(super) fn offline(
        choice: &Choice,
        sizes: &[u32],
        future: &Arc<Future>,
    ) -> Vec<CounterCell> {
        let Build::Offline(build) = choice.build else {
            return Vec::new();
        };
        let counter = |&frames: &u32| {
            let policy = build(frames.max(1), future.clone());
            Counter::Future { frames, policy, pages: future.pages(), misses: 0 }
        };
        let cell = |frames| CounterCell { policy: choice.label.clone(), counter: counter(frames) };
        sizes.iter().map(cell).collect()
    }

    /// Counts the misses of `requests`, whose pages are numbered below `bound`. Not for a policy
    /// that knows the future.
    pub(super) fn count(&mut self, requests: &[PageId], bound: usize) {
        match &mut self.counter {
            Counter::Policy { policy, memory, misses, .. } => {
                *misses += policy.replay(requests, bound, memory);
            }
            Counter::Future { .. } => unreachable!("an offline policy already has its requests"),
            Counter::Own { counter, .. } => counter.count(requests, bound),
            Counter::Stack(stack) => stack.push(requests, bound),
        }
    }

    /// Counts the misses of the next `requests`, for a policy that knows them.
    pub(super) fn count_known(&mut self, requests: usize) {
        match &mut self.counter {
            Counter::Future { frames: 0, misses, .. } => *misses += requests as u64,
            Counter::Future { policy, misses, .. } => *misses += policy.replay(requests),
            _ => unreachable!("an online policy does not have its requests"),
        }
    }

    /// Misses with this many frames; none if the cell counts for another policy or size.
    pub(super) fn misses(&self, policy: &str, size: u32) -> Option<u64> {
        if policy != self.policy {
            return None;
        }
        match &self.counter {
            Counter::Policy { frames, misses, .. } | Counter::Future { frames, misses, .. } => {
                (*frames == size).then_some(*misses)
            }
            Counter::Own { frames, counter } => (*frames == size).then(|| counter.misses()),
            Counter::Stack(stack) => Some(stack.misses(size)),
        }
    }

    /// Distinct pages requested.
    pub(super) fn pages(&self) -> u64 {
        match &self.counter {
            Counter::Policy { memory, .. } => memory.pages_seen(),
            Counter::Future { pages, .. } => *pages,
            Counter::Own { counter, .. } => counter.pages(),
            Counter::Stack(stack) => stack.pages(),
        }
    }
}

/// The faster form of a policy, if it serves this size.
fn own_counter(own: OwnCounter, frames: u32) -> Option<Box<dyn CountMisses>> {
    let is_for_timeline = (1..=timeline::FRAMES_MAX).contains(&frames);
    match own {
        OwnCounter::Lru => Some(Box::new(LruCounter::new(frames))),
        OwnCounter::Clock => (frames >= ClockCounter::FRAMES_MIN)
            .then(|| Box::new(ClockCounter::new(frames)) as Box<dyn CountMisses>),
        OwnCounter::Arc => {
            is_for_timeline.then(|| Box::new(ArcCounter::new(frames)) as Box<dyn CountMisses>)
        }
        OwnCounter::Lirs => {
            is_for_timeline.then(|| Box::new(LirsCounter::new(frames)) as Box<dyn CountMisses>)
        }
    }
}

impl Counter {
    fn new(frames: u32, build: impl Fn(u32) -> Box<dyn Replay>) -> Counter {
        // Without frames the residency decides by itself; the policy is never called.
        let policy = build(frames.max(1));
        Counter::Policy { frames, policy, memory: Residency::new(frames), misses: 0 }
    }
}
