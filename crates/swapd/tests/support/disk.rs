//! A disk in memory that ends requests late and in any order, fails for some slots, and stalls.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use linux::disk_queue::{Ended, Part};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use swapd::Error;
use swapd::carrier::SLOT_BYTES;
use swapd::engine::CLUSTER_BYTES;
use swapd::store::Disk;
use types::random::Stream;

#[derive(Clone, Copy)]
struct InFlight {
    token: u64,
    part: Part,
    offset: u64,
    is_write: bool,
    /// Looks until it ends.
    looks: u32,
    /// Whether the kernel took it; at once, unless it refuses some.
    is_taken: bool,
}

/// What a disk holds.
pub type Content = Arc<Mutex<Vec<u8>>>;

/// The disk.
pub struct TestDisk {
    content: Content,
    buffers: Vec<Vec<u8>>,
    in_flight: Vec<InFlight>,
    random: Stream,
    /// In percent of the slots: reads and writes of these fail.
    bad_reads: u32,
    bad_writes: u32,
    /// Slots whose reads fail as well.
    bad_slots: Vec<u64>,
    /// The slot of `bad_slots` that failed last.
    pub last_bad: Option<u64>,
    /// In percent of the slots: reads of these end well, with another content.
    wrong: u32,
    /// Ends nothing for this time once it has had this many requests.
    stall: Option<(u64, Duration)>,
    stalled_until: Option<Instant>,
    /// Requests end after at most this many looks.
    looks: u32,
    /// In percent: calls that take no request.
    refused_submits: u32,
    wake: OwnedFd,
    pub failed: u64,
    pub requests: u64,
    /// Tokens of syncs that have not ended.
    syncing: Vec<u64>,
    pub syncs: u64,
}

impl TestDisk {
    pub fn new(seed: u64, slots: u32, buffers: usize) -> TestDisk {
        TestDisk {
            content: Arc::new(Mutex::new(vec![0xee; slots as usize * SLOT_BYTES])),
            buffers: vec![vec![0; CLUSTER_BYTES]; buffers],
            in_flight: Vec::with_capacity(buffers),
            random: Stream::named(seed, "disk"),
            bad_reads: 0,
            bad_writes: 0,
            bad_slots: Vec::new(),
            last_bad: None,
            wrong: 0,
            stall: None,
            stalled_until: None,
            looks: 8,
            refused_submits: 0,
            wake: eventfd(1, EventfdFlags::CLOEXEC).unwrap(),
            failed: 0,
            requests: 0,
            syncing: Vec::with_capacity(256),
            syncs: 0,
        }
    }

    /// The disk with errors at some slots, in percent.
    pub fn failing(self, bad_reads: u32, bad_writes: u32) -> TestDisk {
        TestDisk { bad_reads, bad_writes, ..self }
    }

    /// The disk with reads that fail at these slots.
    pub fn failing_at(self, bad_slots: &[u64]) -> TestDisk {
        TestDisk { bad_slots: bad_slots.to_vec(), ..self }
    }

    /// The disk that ends no request for `time` once it has had this many.
    pub fn stalling(self, requests: u64, time: Duration) -> TestDisk {
        TestDisk { stall: Some((requests, time)), ..self }
    }

    /// The disk with another content at some slots, in percent, than was written.
    pub fn lying(self, wrong: u32) -> TestDisk {
        TestDisk { wrong, ..self }
    }

    /// The disk with a kernel that takes no request in this many calls of a hundred.
    pub fn refusing(self, refused_submits: u32) -> TestDisk {
        TestDisk { refused_submits, ..self }
    }

    /// What the disk has at a slot.
    pub fn at(&self, slot: u32) -> Vec<u8> {
        self.content.lock().unwrap()[slot as usize * SLOT_BYTES..][..SLOT_BYTES].to_vec()
    }

    /// All of it, which changes while the disk is in use.
    pub fn content(&self) -> Content {
        Arc::clone(&self.content)
    }

    fn is_bad(&self, slot: u64, is_write: bool) -> bool {
        let percent = if is_write { self.bad_writes } else { self.bad_reads };
        is_among(slot + 7 * u64::from(is_write), percent)
    }

    fn push(&mut self, request: InFlight) {
        let InFlight { part, offset, is_write, .. } = request;
        let range = |request: &InFlight| request.offset..request.offset + request.part.bytes as u64;
        for other in &self.in_flight {
            let (mine, theirs) = (range(&request), range(other));
            let meet = mine.start < theirs.end && theirs.start < mine.end;
            assert!(!meet || !(is_write || other.is_write), "requests race at byte {offset}");
            let is_shared = other.part.buffer == part.buffer;
            assert!(!is_shared, "two requests of one buffer");
        }
        assert!(offset.is_multiple_of(SLOT_BYTES as u64) && part.bytes.is_multiple_of(SLOT_BYTES));
        self.requests += 1;
        self.in_flight.push(request);
    }

    fn assert_idle(&self, buffer: usize) {
        let is_busy = self.in_flight.iter().any(|request| request.part.buffer == buffer);
        assert!(!is_busy, "buffer {buffer} is in flight");
    }
}

/// Whether a number is among the `percent` that are chosen.
fn is_among(number: u64, percent: u32) -> bool {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 100 < u64::from(percent)
}

impl Disk for TestDisk {
    fn buffers(&self) -> usize {
        self.buffers.len()
    }

    fn buffer(&self, buffer: usize) -> &[u8] {
        self.assert_idle(buffer);
        &self.buffers[buffer]
    }

    fn buffer_mut(&mut self, buffer: usize) -> &mut [u8] {
        self.assert_idle(buffer);
        &mut self.buffers[buffer]
    }

    fn read(&mut self, token: u64, part: Part, offset: u64) {
        let (looks, is_taken) = (self.random.below(self.looks), self.refused_submits == 0);
        self.push(InFlight { token, part, offset, is_write: false, looks, is_taken });
    }

    fn write(&mut self, token: u64, part: Part, offset: u64) {
        let (looks, is_taken) = (self.random.below(self.looks), self.refused_submits == 0);
        self.push(InFlight { token, part, offset, is_write: true, looks, is_taken });
    }

    fn sync(&mut self, token: u64) {
        self.syncing.push(token);
    }

    fn submit(&mut self) -> Result<bool, Error> {
        if self.refused_submits == 0 {
            return Ok(true);
        }
        let is_refused = self.random.below(100) < self.refused_submits;
        if !is_refused {
            self.in_flight.iter_mut().for_each(|request| request.is_taken = true);
        }
        Ok(!is_refused || self.in_flight.iter().all(|request| request.is_taken))
    }

    fn ended(&mut self) -> Option<Ended> {
        if let Some((_, time)) = self.stall.take_if(|(requests, _)| self.requests >= *requests) {
            self.stalled_until = Some(Instant::now() + time);
        }
        if self.stalled_until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        self.in_flight
            .iter_mut()
            .filter(|request| request.is_taken)
            .for_each(|request| request.looks = request.looks.saturating_sub(1));
        if let Some(token) = self.syncing.pop() {
            self.syncs += 1;
            return Some(Ended { token, result: Ok(0) });
        }
        let index =
            self.in_flight.iter().position(|request| request.looks == 0 && request.is_taken)?;
        let InFlight { token, part, offset, is_write, .. } = self.in_flight.swap_remove(index);
        let first = offset / SLOT_BYTES as u64;
        let slots = first..first + (part.bytes / SLOT_BYTES) as u64;
        let mut bad_slots = self.bad_slots.iter().filter(|slot| slots.contains(slot));
        if !is_write && let Some(&slot) = bad_slots.next_back() {
            self.last_bad = Some(slot);
            self.failed += 1;
            return Some(Ended { token, result: Err(Errno::IO) });
        }
        if slots.clone().any(|slot| self.is_bad(slot, is_write)) {
            self.failed += 1;
            return Some(Ended { token, result: Err(Errno::IO) });
        }
        let place = offset as usize..offset as usize + part.bytes;
        let in_buffer = part.begin..part.begin + part.bytes;
        let mut content = self.content.lock().unwrap();
        let (content, buffer) = (&mut content[place], &mut self.buffers[part.buffer][in_buffer]);
        if is_write {
            content.copy_from_slice(buffer);
        } else {
            buffer.copy_from_slice(content);
            for (page, slot) in buffer.chunks_exact_mut(SLOT_BYTES).zip(slots) {
                page[SLOT_BYTES / 2] ^= u8::from(is_among(slot + 3, self.wrong));
            }
        }
        Some(Ended { token, result: Ok(part.bytes) })
    }

    fn start(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
