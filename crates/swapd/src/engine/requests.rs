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

/// Requests with slots to decide. Reads come first, since a program waits for them.
pub(super) struct ReadyRequests {
    reads: VecDeque<u32>,
    others: VecDeque<u32>,
}

impl ReadyRequests {
    pub fn new(requests: usize) -> ReadyRequests {
        let queue = || VecDeque::with_capacity(requests);
        ReadyRequests { reads: queue(), others: queue() }
    }

    pub fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.others.is_empty()
    }

    fn queue(&mut self, operation: Operation) -> &mut VecDeque<u32> {
        if operation == Operation::Read { &mut self.reads } else { &mut self.others }
    }

    pub fn push_back(&mut self, request: u32, operation: Operation) {
        self.queue(operation).push_back(request);
    }

    pub fn push_front(&mut self, request: u32, operation: Operation) {
        self.queue(operation).push_front(request);
    }

    /// The first read.
    pub fn pop_read(&mut self) -> Option<u32> {
        self.reads.pop_front()
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
