//! Moves in flight, in order by slot: a move waits for the earlier ones of its slot, and a request for a slot waits
//! until the slot has none. All room is reserved at the start.

use std::ops::Range;

use policy::tiers::{Request as Event, Step};

use crate::carrier::SLOT_BYTES;

/// No index.
pub(super) const NONE: u32 = u32::MAX;

/// The number of a block in its buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockOfBuffer(pub u32);

impl BlockOfBuffer {
    /// The range of bytes that the block has in the buffer.
    pub fn bytes(self) -> Range<usize> {
        let begin = self.0 as usize * SLOT_BYTES;
        begin..begin + SLOT_BYTES
    }
}

/// A move in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moving {
    /// What happens.
    pub step: Step,
    /// The slot that it happens to.
    pub slot: u32,
    /// The request that waits for it, or `NONE`.
    pub request: u32,
    /// Number of the event that decided it.
    pub event: u64,
    /// The frame that it holds and no slot names yet, or `NONE`.
    pub frame: u32,
    /// The buffer with the data that it read, and the number of its block; or `NONE`. For a promotion, a buffer of the slow
    /// tier; for a demotion, one of the fast tier.
    pub buffer: u32,
    pub block: BlockOfBuffer,
    /// For a promotion: whether there is data to promote.
    pub has_data: bool,
    /// How often the page of this move found no room in the pool.
    pub refusals: u8,
    /// The next move of the slot, or `NONE`.
    next: u32,
}

/// The moves of a slot, and the requests that wait for their end.
#[derive(Clone, Copy, Debug)]
struct Order {
    first: u32,
    last: u32,
    first_waiter: u32,
    last_waiter: u32,
}

/// Whether the request that caused an event waits for this step of its own slot.
pub(super) fn is_waited_for(step: Step, event: Event) -> bool {
    match step {
        Step::ReadFast | Step::ReadSlow | Step::WriteFast | Step::WriteSlow => true,
        Step::Free => event == Event::Void,
        Step::Promote | Step::Demote { .. } => false,
    }
}

/// All moves in flight.
///
/// Invariant: `of_slot[slot]` is the slot's order plus one, or 0 if it has no move in flight.
pub(super) struct Orders {
    of_slot: Vec<u32>,
    orders: Vec<Order>,
    free_orders: Vec<u32>,
    moves: Vec<Moving>,
    free_moves: Vec<u32>,
    /// The next waiting request for each request, or `NONE`.
    next_waiter: Vec<u32>,
}

/// What remains of a slot after a move of it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// The next move, which may begin now.
    Next(u32),
    /// No move. The first of the requests that waited, or `NONE`; [`Orders::after`] has the others.
    Idle(u32),
}

impl Orders {
    pub fn new(slots: usize, moves: usize, requests: usize) -> Orders {
        let order = Order { first: NONE, last: NONE, first_waiter: NONE, last_waiter: NONE };
        Orders {
            of_slot: vec![0; slots],
            orders: vec![order; moves],
            free_orders: (0..moves as u32).rev().collect(),
            moves: vec![Moving::new(Step::Free, 0, NONE, 0); moves],
            free_moves: (0..moves as u32).rev().collect(),
            next_waiter: vec![NONE; requests],
        }
    }

    /// How many more moves there is room for.
    pub fn room(&self) -> usize {
        self.free_moves.len()
    }

    /// Moves in flight.
    pub fn count(&self) -> usize {
        self.moves.len() - self.free_moves.len()
    }

    pub fn is_busy(&self, slot: u32) -> bool {
        self.of_slot[slot as usize] != 0
    }

    pub fn get(&self, moving: u32) -> &Moving {
        &self.moves[moving as usize]
    }

    pub fn get_mut(&mut self, moving: u32) -> &mut Moving {
        &mut self.moves[moving as usize]
    }

    /// The move of the same slot behind `moving`, or `NONE`.
    pub fn behind(&self, moving: u32) -> u32 {
        self.moves[moving as usize].next
    }

    /// Adds a move behind the others of its slot. Returns its index, and whether it may begin now.
    pub fn push(&mut self, moving: Moving) -> (u32, bool) {
        let slot = moving.slot as usize;
        let index = self.free_moves.pop().expect("the caller asked for room");
        self.moves[index as usize] = moving;
        if self.of_slot[slot] == 0 {
            let order = self.free_orders.pop().expect("there are as many orders as moves");
            self.orders[order as usize] =
                Order { first: index, last: index, first_waiter: NONE, last_waiter: NONE };
            self.of_slot[slot] = order + 1;
            return (index, true);
        }
        let order = &mut self.orders[self.of_slot[slot] as usize - 1];
        self.moves[order.last as usize].next = index;
        order.last = index;
        (index, false)
    }

    /// Puts `moving` in the place of `failed`, which is the first move of its slot. Returns its index.
    pub fn replace(&mut self, failed: u32, moving: Moving) -> u32 {
        let next = self.moves[failed as usize].next;
        self.moves[failed as usize] = Moving { next, ..moving };
        failed
    }

    /// Removes the first move of its slot.
    pub fn pop(&mut self, moving: u32) -> Rest {
        let Moving { slot, next, .. } = self.moves[moving as usize];
        let order_of_slot = &mut self.of_slot[slot as usize];
        let order = &mut self.orders[*order_of_slot as usize - 1];
        debug_assert_eq!(order.first, moving, "a move ended before an earlier one of slot {slot}");
        self.free_moves.push(moving);
        if next != NONE {
            order.first = next;
            return Rest::Next(next);
        }
        self.free_orders.push(*order_of_slot - 1);
        *order_of_slot = 0;
        Rest::Idle(order.first_waiter)
    }

    /// Lets a request wait until its slot, which is busy, has no move in flight.
    pub fn wait(&mut self, slot: u32, request: u32) {
        let order = &mut self.orders[self.of_slot[slot as usize] as usize - 1];
        match order.last_waiter {
            NONE => order.first_waiter = request,
            last => self.next_waiter[last as usize] = request,
        }
        order.last_waiter = request;
        self.next_waiter[request as usize] = NONE;
    }

    /// The request that waited behind `request` for the same slot, or `NONE`.
    pub fn after(&self, request: u32) -> u32 {
        self.next_waiter[request as usize]
    }
}

impl Moving {
    pub fn new(step: Step, slot: u32, request: u32, event: u64) -> Moving {
        let (frame, buffer, block, next) = (NONE, NONE, BlockOfBuffer(0), NONE);
        let (has_data, refusals) = (false, 0);
        Moving { step, slot, request, event, frame, buffer, block, has_data, refusals, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_of_a_slot_follow_each_other_and_requests_wait_for_the_last() {
        let mut orders = Orders::new(10, 4, 3);
        let moving = |slot| Moving::new(Step::Free, slot, NONE, 0);
        let (first, begins) = orders.push(moving(7));
        assert!(begins && orders.is_busy(7) && !orders.is_busy(6));
        let (second, begins) = orders.push(moving(7));
        assert!(!begins);
        assert_eq!(orders.behind(first), second);
        assert!(orders.push(moving(6)).1);
        for request in [2, 0, 1] {
            orders.wait(7, request);
        }
        assert_eq!((orders.count(), orders.room()), (3, 1));
        assert_eq!(orders.pop(first), Rest::Next(second));
        let replaced = orders.replace(second, Moving::new(Step::WriteSlow, 7, 2, 9));
        assert_eq!(orders.get(replaced).step, Step::WriteSlow);
        assert_eq!(orders.pop(replaced), Rest::Idle(2));
        assert_eq!([orders.after(2), orders.after(0), orders.after(1)], [0, 1, NONE]);
        assert!(!orders.is_busy(7) && orders.is_busy(6));
    }
}
