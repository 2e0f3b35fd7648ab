//! Requests that the carrier waits for. All room is reserved at the start.

use std::collections::VecDeque;

use rustix::io::Errno;

use crate::carrier::{Operation, Request};

/// A request in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenRequest {
    /// What the carrier asked for.
    pub request: Request,
    /// Slots for which the tiers have decided.
    pub decided: u32,
    /// How often the request waited for a slot.
    pub waits: u8,
    /// What the answer waits for: moves, and the decision of all slots.
    pub pending: u32,
    /// The first error.
    pub error: Option<Errno>,
    /// When the request arrived.
    pub arrived_ns: u64,
    /// Whether the slow tier was read for it.
    pub was_slow: bool,
    /// Whether a tier was read or written for it.
    pub was_moved: bool,
}

/// The table of requests in progress.
pub(super) struct Requests {
    open: Vec<OpenRequest>,
    free: Vec<u32>,
}

impl Requests {
    pub fn new(requests: usize) -> Requests {
        let tag = crate::carrier::Tag(0);
        let request = Request { tag, operation: Operation::Flush, first: 0, slots: 0 };
        Requests {
            open: vec![OpenRequest::new(request, 0); requests],
            free: (0..requests as u32).rev().collect(),
        }
    }

    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.free.len() == self.open.len()
    }

    /// Adds a request, which there must be room for. Returns its index.
    pub fn push(&mut self, open: OpenRequest) -> u32 {
        let index = self.free.pop().expect("the caller asked for room");
        self.open[index as usize] = open;
        index
    }

    pub fn remove(&mut self, request: u32) {
        self.free.push(request);
    }

    pub fn get(&self, request: u32) -> &OpenRequest {
        &self.open[request as usize]
    }

    pub fn get_mut(&mut self, request: u32) -> &mut OpenRequest {
        &mut self.open[request as usize]
    }
}

/// How often reads of its slots may overtake a request that waits for them.
const OVERTAKEN_MAX: u8 = 4;

/// Requests with slots to decide: first those that were overtaken too often, then reads, since a program waits for them.
pub(super) struct ReadyRequests {
    overdue: VecDeque<u32>,
    reads: VecDeque<u32>,
    others: VecDeque<u32>,
}

impl ReadyRequests {
    pub fn new(requests: usize) -> ReadyRequests {
        let queue = || VecDeque::with_capacity(requests);
        ReadyRequests { overdue: queue(), reads: queue(), others: queue() }
    }

    pub fn is_empty(&self) -> bool {
        self.overdue.is_empty() && self.reads.is_empty() && self.others.is_empty()
    }

    fn queue(&mut self, open: &OpenRequest) -> &mut VecDeque<u32> {
        match open.request.operation {
            _ if open.waits > OVERTAKEN_MAX => &mut self.overdue,
            Operation::Read => &mut self.reads,
            _ => &mut self.others,
        }
    }

    pub fn push_back(&mut self, request: u32, open: &OpenRequest) {
        self.queue(open).push_back(request);
    }

    pub fn push_front(&mut self, request: u32, open: &OpenRequest) {
        self.queue(open).push_front(request);
    }

    /// The first overdue request, or else the first read.
    pub fn pop_urgent(&mut self) -> Option<u32> {
        self.overdue.pop_front().or_else(|| self.reads.pop_front())
    }

    /// The first request of another kind.
    pub fn pop_other(&mut self) -> Option<u32> {
        self.others.pop_front()
    }
}

impl OpenRequest {
    pub fn new(request: Request, arrived_ns: u64) -> OpenRequest {
        OpenRequest {
            request,
            decided: 0,
            waits: 0,
            pending: 1,
            error: None,
            arrived_ns,
            was_slow: false,
            was_moved: false,
        }
    }

    /// The bytes of `slot` in the data of the request.
    pub fn bytes_of(&self, slot: u32) -> std::ops::Range<usize> {
        let begin = (slot - self.request.first) as usize * crate::carrier::SLOT_BYTES;
        begin..begin + crate::carrier::SLOT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_reads_overtook_too_often_comes_before_them() {
        let open = |operation, waits| OpenRequest {
            waits,
            ..OpenRequest::new(
                Request { tag: crate::carrier::Tag(0), operation, first: 5, slots: 1 },
                0,
            )
        };
        let mut ready = ReadyRequests::new(8);
        ready.push_back(1, &open(Operation::Write, OVERTAKEN_MAX));
        ready.push_back(2, &open(Operation::Read, 1));
        ready.push_back(3, &open(Operation::Write, OVERTAKEN_MAX + 1));
        ready.push_front(4, &open(Operation::Read, 0));
        let urgent: Vec<u32> = std::iter::from_fn(|| ready.pop_urgent()).collect();
        assert_eq!((urgent, ready.pop_other()), (vec![3, 4, 2], Some(1)));
        assert!(ready.is_empty());
    }
}
