//! Things that are due at a time: moves and disk requests that an emulated device has not finished yet.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::store::Tier;

/// What becomes due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// The end of a move.
    Move(u32),
    /// The end of the disk request of a buffer.
    Buffer(Tier, u32),
}

/// Times in order. Equal times become due in the order in which they were added.
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(u64, u64, Due)>>,
    added: u64,
}

impl Timers {
    /// No times, with room for `count`.
    pub fn new(count: usize) -> Timers {
        Timers { heap: BinaryHeap::with_capacity(count), added: 0 }
    }

    /// Makes `due` due at `time_ns`.
    pub fn add(&mut self, time_ns: u64, due: Due) {
        debug_assert!(self.heap.len() < self.heap.capacity(), "more timers than moves and buffers");
        self.heap.push(Reverse((time_ns, self.added, due)));
        self.added += 1;
    }

    /// What is due at `now_ns`, earliest first.
    pub fn pop(&mut self, now_ns: u64) -> Option<Due> {
        let &Reverse((time_ns, _, due)) = self.heap.peek()?;
        (time_ns <= now_ns).then(|| {
            self.heap.pop();
            due
        })
    }

    /// The earliest time.
    pub fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|&Reverse((time_ns, _, _))| time_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_none_before_its_time() {
        let mut timers = Timers::new(3);
        for (time_ns, due) in
            [(50, Due::Move(1)), (20, Due::Buffer(Tier::Slow, 9)), (20, Due::Move(0))]
        {
            timers.add(time_ns, due);
        }
        assert_eq!((timers.next_ns(), timers.pop(19)), (Some(20), None));
        assert_eq!(
            [timers.pop(20), timers.pop(20)],
            [Some(Due::Buffer(Tier::Slow, 9)), Some(Due::Move(0))]
        );
        assert_eq!((timers.pop(49), timers.pop(60)), (None, Some(Due::Move(1))));
        assert_eq!(timers.next_ns(), None);
    }
}
