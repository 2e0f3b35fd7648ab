//! A carrier that makes requests at random, several at a time, and checks every answer against a model.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use swapd::Error;
use swapd::carrier::{Carrier, Operation, Request, SLOT_BYTES, Tag};
use swapd::engine::Control;
use types::random::Stream;

use super::disk::Content;

/// Most slots of a request.
pub const SLOTS_MAX: u32 = 40;

/// The requests that a kernel makes.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub seed: u64,
    pub slots: u32,
    pub requests: u64,
    /// Requests open at a time.
    pub open: usize,
    /// Whether requests that are open at a time may name the same slot.
    pub overlaps: bool,
    /// Whether errors are possible.
    pub expects_errors: bool,
}

impl Load {
    pub fn new(seed: u64, slots: u32, requests: u64) -> Load {
        Load { seed, slots, requests, open: 12, overlaps: true, expects_errors: false }
    }
}

/// What a slot may contain: 0 is a page of zeros, and any other number a page made from it.
type Stamp = u64;

/// A read of a slot that fails.
const LOST: Stamp = u64::MAX;
/// What every slot of a served device has at the start.
const FIRST: Stamp = 1;

/// A write or discard of a slot that may be what the next read finds.
#[derive(Clone, Copy, Debug)]
struct Written {
    stamp: Stamp,
    begun: u64,
    /// `u64::MAX` while it is open.
    ended: u64,
}

struct Open {
    request: Request,
    begun: u64,
    stamp: Stamp,
}

/// The carrier. `has_failed(slot, operation)` says whether the disk may fail for a slot.
pub struct Kernel {
    load: Load,
    control: Arc<Control>,
    random: Stream,
    open: Vec<Option<Open>>,
    data: Vec<Vec<u8>>,
    /// What each slot may contain, the oldest first.
    model: Vec<Vec<Written>>,
    made: u64,
    clock: u64,
    wake: OwnedFd,
    /// The content of the served device, if it is none of a swap area: it has each write before its answer.
    device: Option<Content>,
    pub errors: u64,
    pub flushes: u64,
    pub slots_checked: u64,
    /// Stops the load after this many requests have begun, for tests that look at what is in flight.
    pub is_silent: bool,
    /// Makes every request a read.
    pub reads_only: bool,
}

impl Kernel {
    pub fn new(load: Load, control: Arc<Control>) -> Kernel {
        let unwritten = Written { stamp: 0, begun: 0, ended: 0 };
        Kernel {
            load,
            control,
            random: Stream::named(load.seed, "kernel"),
            open: (0..load.open).map(|_| None).collect(),
            // A `Vec` of bytes need not be aligned here: only a kernel needs it to be.
            data: vec![vec![0; SLOTS_MAX as usize * SLOT_BYTES]; load.open],
            model: (0..load.slots)
                .map(|_| {
                    let mut list = Vec::with_capacity(4 * load.open);
                    list.push(unwritten);
                    list
                })
                .collect(),
            made: 0,
            clock: 1,
            // Always readable, so that a sleeping engine wakes at once.
            wake: eventfd(1, EventfdFlags::CLOEXEC).unwrap(),
            device: None,
            errors: 0,
            flushes: 0,
            slots_checked: 0,
            is_silent: false,
            reads_only: false,
        }
    }

    /// Lets the requests be those to a device, which gets its first content.
    pub fn use_device(&mut self, device: Content) {
        let mut content = device.lock().unwrap();
        for (slot, page) in (0..).zip(content.chunks_exact_mut(SLOT_BYTES)) {
            fill(page, slot, FIRST);
            self.model[slot as usize][0].stamp = FIRST;
        }
        drop(content);
        self.device = Some(device);
    }

    /// A device takes no discards.
    fn is_refused(&self, operation: Operation) -> bool {
        operation == Operation::Discard && self.device.is_some()
    }

    fn begin(&mut self, tag: usize) -> Option<Request> {
        let Load { slots, overlaps, .. } = self.load;
        let operation = match self.random.below(100) {
            _ if self.reads_only => Operation::Read,
            0..45 => Operation::Read,
            45..92 => Operation::Write,
            92..99 => Operation::Discard,
            _ => Operation::Flush,
        };
        let count = match operation {
            Operation::Flush => 0,
            _ if self.random.chance(50) => 1,
            _ => 1 + self.random.below(SLOTS_MAX.min(slots)),
        };
        // Half of the requests go to a tenth of the slots.
        let within = if self.random.chance(50) { (slots / 10).max(1) } else { slots };
        let first = self.random.below(within).min(slots - count);
        let request = Request { tag: Tag(tag as u16), operation, first, slots: count };
        if !overlaps && self.open.iter().flatten().any(|open| meet(&open.request, &request)) {
            return None;
        }
        self.clock += 1;
        let stamp = match operation {
            Operation::Write => self.clock,
            _ => 0,
        };
        let written = Written { stamp, begun: self.clock, ended: u64::MAX };
        let changes = matches!(operation, Operation::Write | Operation::Discard);
        if changes && !self.is_refused(operation) {
            for slot in first..first + count {
                self.model[slot as usize].push(written);
            }
        }
        if operation == Operation::Write {
            let pages = self.data[tag].chunks_exact_mut(SLOT_BYTES);
            (first..first + count).zip(pages).for_each(|(slot, page)| fill(page, slot, stamp));
        } else {
            // What the engine leaves must be noticed.
            self.data[tag][..count as usize * SLOT_BYTES].fill(0xa5);
        }
        self.open[tag] = Some(Open { request, begun: self.clock, stamp });
        self.made += 1;
        Some(request)
    }

    fn end_write(&mut self, open: &Open, outcome: Result<(), Errno>) {
        let oldest = self.open.iter().flatten().map(|open| open.begun).min();
        let oldest = oldest.unwrap_or(u64::MAX).min(self.clock);
        let Request { first, slots, .. } = open.request;
        for slot in first..first + slots {
            let list = &mut self.model[slot as usize];
            let written = list.iter_mut().find(|written| written.begun == open.begun).unwrap();
            if outcome.is_err() && self.device.is_some() {
                // The device has the old content or the new one from now on.
                continue;
            }
            written.ended = self.clock;
            if outcome.is_err() {
                // Slots of the request that did not fail have the new content.
                let lost = Written { stamp: LOST, ..*written };
                list.push(lost);
            }
            let superseding =
                list.iter().filter(|written| written.ended < oldest).map(|written| written.begun);
            let begun = superseding.max().unwrap_or(0);
            list.retain(|written| written.ended >= begun);
        }
    }

    /// Checks that the device has what was written, or what another open or later write put there.
    fn check_device(&self, open: &Open) {
        let Some(device) = &self.device else { return };
        let content = device.lock().unwrap();
        for slot in open.request.first..open.request.first + open.request.slots {
            let found = stamp_of(&content[slot as usize * SLOT_BYTES..][..SLOT_BYTES], slot);
            let is_possible = self.model[slot as usize]
                .iter()
                .any(|written| found == Some(written.stamp) && written.ended >= open.begun);
            assert!(is_possible, "seed {}: slot {slot} has {found:?}", self.load.seed);
        }
    }

    fn check_read(&mut self, open: &Open, outcome: Result<(), Errno>) {
        let Request { tag, first, slots, .. } = open.request;
        if outcome.is_err() {
            return;
        }
        let pages = self.data[tag.index()].chunks_exact(SLOT_BYTES);
        for (slot, page) in (first..first + slots).zip(pages) {
            self.slots_checked += 1;
            let list = &self.model[slot as usize];
            let found = stamp_of(page, slot);
            // The last one that ended before the read began, those that were open then, and those that began later.
            let before = list.iter().filter(|written| written.ended < open.begun);
            let last_begun = before.map(|written| written.begun).max().unwrap_or(0);
            let is_possible = |stamp: Stamp| {
                list.iter().any(|written| written.stamp == stamp && written.ended >= last_begun)
            };
            assert!(
                found.is_some_and(is_possible),
                "seed {}, request {}, begun {}: slot {slot} has {found:?}, expected one of {list:?}",
                self.load.seed,
                self.made,
                open.begun
            );
        }
    }
}

/// Whether two requests name the same slot.
fn meet(first: &Request, second: &Request) -> bool {
    first.first < second.first + second.slots && second.first < first.first + first.slots
}

/// The first word tells slot and stamp. Some pages repeat one word of 32 bits, some compress well, some do not.
fn word(slot: u32, stamp: Stamp, number: usize) -> u64 {
    let plain = stamp << 32 ^ u64::from(slot) ^ (number as u64) << 50;
    match stamp % 4 {
        _ if stamp == 0 => 0,
        0 => u64::from((stamp as u32) << 12 ^ slot) * (1 << 32 | 1),
        1 if number > 0 => noise(plain ^ number as u64),
        2 if number > 100 => 0,
        _ => plain,
    }
}

/// A word of which every bit depends on every bit of another (the end of SplitMix64).
fn noise(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

fn fill(page: &mut [u8], slot: u32, stamp: Stamp) {
    for (number, bytes) in page.chunks_exact_mut(8).enumerate() {
        bytes.copy_from_slice(&word(slot, stamp, number).to_le_bytes());
    }
}

fn stamp_of(page: &[u8], slot: u32) -> Option<Stamp> {
    let first = u64::from_le_bytes(page[..8].try_into().unwrap());
    let repeated = u64::from((first as u32 ^ slot) >> 12);
    let stamp = if first == 0 { 0 } else { (first ^ u64::from(slot)) >> 32 };
    // A repeated word also looks like that of a stamp with more bits.
    [repeated, stamp].into_iter().find(|&stamp| {
        let mut words = page.chunks_exact(8).enumerate();
        words.all(|(number, bytes)| bytes == word(slot, stamp, number).to_le_bytes())
    })
}

impl Carrier for Kernel {
    fn device(&self) -> &Path {
        Path::new("/dev/none")
    }

    fn next(&mut self) -> Result<Option<Request>, Error> {
        if self.made >= self.load.requests {
            if self.open.iter().all(Option::is_none) {
                self.control.end();
            }
            return Ok(None);
        }
        if self.is_silent || self.random.chance(30) {
            return Ok(None);
        }
        let free = self.open.iter().position(Option::is_none);
        Ok(free.and_then(|tag| self.begin(tag)))
    }

    fn data(&mut self, tag: Tag) -> &mut [u8] {
        let open = self.open[tag.index()].as_ref().expect("the request is open");
        &mut self.data[tag.index()][..open.request.slots as usize * SLOT_BYTES]
    }

    fn finish(&mut self, tag: Tag, outcome: Result<(), Errno>) -> Result<(), Error> {
        let open = self.open[tag.index()].take().expect("a request is answered once");
        self.clock += 1;
        if self.is_refused(open.request.operation) {
            assert_eq!(outcome, Err(Errno::OPNOTSUPP));
            return Ok(());
        }
        self.errors += u64::from(outcome.is_err());
        assert!(outcome.is_ok() || self.load.expects_errors, "{:?}: {outcome:?}", open.request);
        match open.request.operation {
            Operation::Read => self.check_read(&open, outcome),
            Operation::Write | Operation::Discard => {
                self.end_write(&open, outcome);
                if outcome.is_ok() {
                    self.check_device(&open);
                }
            }
            Operation::Flush => self.flushes += 1,
        }
        Ok(())
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
