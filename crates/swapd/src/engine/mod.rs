//! Serves a carrier's requests from two tiers: asks the placement what each slot moves, performs the moves, and
//! answers.
//!
//! One thread does all of it and owns the placement. Reads are decided before writes and discards, of which each turn
//! decides one, so a program that waits for a page waits for one of them at most. Otherwise decisions are made in the
//! order in which requests are taken. Moves end in any order, except that those of one slot follow each other, and a
//! request waits until its slot has no move in flight. So a decision may name data that is still on its way. A request
//! is answered once its own reads or writes are done; promotions and demotions go on afterwards.
//!
//! Nothing waits forever: a move waits only for an earlier one of its slot, for a buffer that an ended move gives
//! back, or for a frame ([`lanes`] says why no two buffers wait for each other). The fast tier has spare frames beyond what the placement fills, so while a move waits for
//! a frame, some slot without a move holds none, or a demotion is in flight. If failed demotions use up the spare
//! frames, the move fails, and the placement puts the slot elsewhere. With compression a move waits and fails in the
//! same way if the pool has no room, and before each event the placement gets the number of pages that fit.
//!
//! After a request the thread polls on for a while before it sleeps, since waking a halted processor takes longer
//! than the answer. It allocates nothing while it serves.

mod clusters;
mod control;
mod lanes;
mod orders;
mod perform;
mod requests;
mod timers;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use policy::tiers::{Area, Live, Move, Moves, Request as Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use types::PageId;

use crate::Error;
use crate::carrier::{Carrier, Operation, SLOT_BYTES};
use crate::emulation::Emulated;
use crate::record::Recorder;
use crate::statistics::Statistics;
use crate::store::{Copies, Disk, FastStore, Tier};
pub use clusters::{CLUSTER_BYTES, CLUSTER_SLOTS};
pub use control::Control;
use lanes::Lane;
use orders::{Moving, NONE, Orders, Rest, is_waited_for};
use requests::{OpenRequest, ReadyRequests, Requests};
use timers::{Due, Timers};

/// Bit of the tokens of syncs; the others are of buffers.
const SYNC: u64 = 1 << 63;
/// Moves for which room must be left before a decision: its own, and those that replace failed ones.
const ROOM_FOR_DECISION: usize = 8;
/// Slots of one request that are decided before other requests get their turn.
const SLOTS_PER_TURN: u32 = 256;
/// Requests taken from the carrier before disk requests begin.
const REQUESTS_PER_TURN: usize = 32;
/// Turns in which writes to neighbouring slots may gather while more requests wait.
const TURNS_TO_GATHER: u32 = 16;
/// The placement gets another capacity if that differs by more than this part.
const CAPACITY_PART: u64 = 64;
/// How long before a time the thread wakes to meet it.
const WAKE_BEFORE: Duration = Duration::from_micros(60);
/// How many times as long the thread polls while a disk has requests: a quick disk's read takes a little more than
/// the time to poll by default, and waking as much again.
const POLLS_FOR_DISK: u64 = 3;

/// How an engine serves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long to poll for another request before sleeping.
    pub poll: Duration,
    /// Requests that can be open at a time.
    pub requests: usize,
    /// Moves that can be in flight at a time.
    pub moves: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { poll: Duration::from_micros(100), requests: 256, moves: 4096 }
    }
}

/// What an engine works with.
pub struct Parts<C, D> {
    /// What is served. A device has all its content in the slow tier from the start ([`FastStore::find_all_slow`]).
    pub area: Area,
    /// Where requests come from.
    pub carrier: C,
    /// The slow tier.
    pub disk: D,
    /// The disk of the fast tier; none if its frames are memory.
    pub fast_disk: Option<D>,
    /// The fast tier: its map, and its frames unless a disk has them. It has more frames than `tiers` fill.
    pub fast: FastStore,
    /// Decides what moves; grown to the slots of `fast`.
    pub tiers: Box<dyn Live>,
    /// The device that the fast tier is slowed to.
    pub emulated_fast: Option<Emulated>,
    /// The device that the slow tier is slowed to.
    pub emulated_slow: Option<Emulated>,
    /// What is counted.
    pub statistics: Arc<Statistics>,
    /// Where events and moves are recorded.
    pub recorder: Option<Recorder>,
}

impl<C, D: Disk> Parts<C, D> {
    /// The disk of a tier that has one.
    fn disk(&mut self, tier: Tier) -> &mut D {
        match tier {
            Tier::Slow => &mut self.disk,
            Tier::Fast => self.fast_disk.as_mut().expect("only a fast tier on a disk has requests"),
        }
    }

    fn emulated(&mut self, tier: Tier) -> Option<&mut Emulated> {
        match tier {
            Tier::Slow => self.emulated_slow.as_mut(),
            Tier::Fast => self.emulated_fast.as_mut(),
        }
    }
}

/// Serves requests of a carrier.
pub struct Engine<C, D> {
    parts: Parts<C, D>,
    poll_ns: u64,
    begun: Instant,
    /// Number of the next event.
    event: u64,
    requests: Requests,
    orders: Orders,
    /// By [`Tier`].
    lanes: [Lane; 2],
    timers: Timers,
    decided: Moves,
    /// Requests with slots to decide.
    ready_requests: ReadyRequests,
    /// Whether requests were left for the next turn, although they could be decided.
    has_more: bool,
    /// Turns since the last one in which every cluster was closed.
    turns_gathered: u32,
    /// Moves that may begin, in order.
    ready_moves: VecDeque<u32>,
    wait_for_frame: VecDeque<u32>,
    /// Demotions that have begun and not ended.
    demoting: u64,
    /// A page on its way from a frame in memory to the slow tier.
    page: Box<[u8; SLOT_BYTES]>,
}

impl<C: Carrier, D: Disk> Engine<C, D> {
    /// Reserves all memory. `settings.moves` is at least 16.
    pub fn new(parts: Parts<C, D>, settings: &Settings) -> Engine<C, D> {
        let moves = settings.moves.max(2 * ROOM_FOR_DECISION);
        let (slow_buffers, fast_buffers) =
            (parts.disk.buffers(), parts.fast_disk.as_ref().map_or(0, Disk::buffers));
        let queue = || VecDeque::with_capacity(moves);
        Engine {
            poll_ns: settings.poll.as_nanos() as u64,
            begun: Instant::now(),
            event: 0,
            requests: Requests::new(settings.requests),
            orders: Orders::new(parts.fast.slots(), moves, settings.requests),
            lanes: [Lane::new(fast_buffers, moves), Lane::new(slow_buffers, moves)],
            timers: Timers::new(moves + fast_buffers + slow_buffers),
            decided: Moves::default(),
            ready_requests: ReadyRequests::new(settings.requests),
            has_more: false,
            turns_gathered: 0,
            ready_moves: queue(),
            wait_for_frame: queue(),
            demoting: 0,
            page: Box::new([0; SLOT_BYTES]),
            parts,
        }
    }

    /// Serves until [`Control::end`], and then answers what was taken and waits for all moves.
    ///
    /// # Errors
    /// The carrier ended or refused; the disk refuses to take requests.
    pub fn serve(&mut self, control: &Control) -> Result<(), Error> {
        for tier in self.disks() {
            self.parts.disk(*tier).start()?;
        }
        let mut last_work_ns = self.now_ns();
        loop {
            if self.turn()? {
                self.parts.statistics.wake_follower();
                last_work_ns = self.now_ns();
                continue;
            }
            if control.is_ending() && self.is_idle() {
                return Ok(());
            }
            let now_ns = self.now_ns();
            let polls = if self.in_flight() > 0 { POLLS_FOR_DISK } else { 1 };
            if now_ns - last_work_ns < polls * self.poll_ns {
                std::hint::spin_loop();
                continue;
            }
            self.sleep(control, now_ns)?;
        }
    }

    /// What the engine worked with, after it has ended.
    pub fn into_parts(self) -> Parts<C, D> {
        self.parts
    }

    /// The tiers that have a disk.
    fn disks(&self) -> &'static [Tier] {
        if self.parts.fast_disk.is_some() { &Tier::ALL } else { &[Tier::Slow] }
    }

    /// Disk requests that have not ended.
    fn in_flight(&self) -> usize {
        self.lanes.iter().map(|lane| lane.clusters.in_flight()).sum()
    }

    /// Whether the content outlives this server.
    fn is_durable(&self) -> bool {
        self.parts.area == Area::Device
    }

    /// Whether nothing is in progress.
    fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.orders.count() == 0
    }

    fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// Does what can be done now; returns whether there was anything.
    fn turn(&mut self) -> Result<bool, Error> {
        let mut has_worked = std::mem::take(&mut self.has_more);
        has_worked |= self.take_ended()?;
        has_worked |= self.take_due()?;
        has_worked |= self.take_requests()?;
        if has_worked {
            self.work()?;
        }
        Ok(has_worked)
    }

    /// Sleeps until the carrier, the disk or another thread wakes it, or a time is near.
    fn sleep(&mut self, control: &Control, now_ns: u64) -> Result<(), Error> {
        let wake_ns = self.timers.next_ns().map(|next_ns| {
            next_ns.saturating_sub(now_ns).saturating_sub(WAKE_BEFORE.as_nanos() as u64)
        });
        if wake_ns == Some(0) {
            std::hint::spin_loop();
            return Ok(());
        }
        let time = wake_ns.map(|wake_ns| Timespec {
            tv_sec: (wake_ns / 1_000_000_000) as i64,
            tv_nsec: (wake_ns % 1_000_000_000) as i64,
        });
        // Without room for its requests the carrier would wake in vain.
        let carrier_flags =
            if self.requests.has_room() { PollFlags::IN } else { PollFlags::empty() };
        let carrier = self.parts.carrier.descriptor();
        let slow = self.parts.disk.descriptor();
        // Without a disk of its own, the fast tier adds nothing to wait for.
        let fast = self.parts.fast_disk.as_ref().map_or(slow, Disk::descriptor);
        let mut files = [
            PollFd::from_borrowed_fd(control.descriptor(), PollFlags::IN),
            PollFd::from_borrowed_fd(carrier, carrier_flags),
            PollFd::from_borrowed_fd(slow, PollFlags::IN),
            PollFd::from_borrowed_fd(fast, PollFlags::IN),
        ];
        self.parts.statistics.sleeps.add(1);
        match poll(&mut files, time.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Error::refused("wait for requests", error)),
        }
        if !files[0].revents().is_empty() {
            control.clear();
            let devices = [&mut self.parts.emulated_fast, &mut self.parts.emulated_slow];
            for device in devices.into_iter().flatten() {
                device.set_carrier_ns(control.carrier_ns());
            }
        }
        Ok(())
    }

    /// Takes requests up to the first read, which is then answered first.
    fn take_requests(&mut self) -> Result<bool, Error> {
        for taken in 0..REQUESTS_PER_TURN {
            if !self.requests.has_room() {
                return Ok(taken > 0);
            }
            let Some(request) = self.parts.carrier.next()? else { return Ok(taken > 0) };
            let mut open = OpenRequest::new(request, self.now_ns());
            let end = u64::from(request.first) + u64::from(request.slots);
            let is_flush = request.operation == Operation::Flush;
            if is_flush && self.is_durable() {
                // The sync answers it as well.
                open.pending += 1;
            } else if is_flush {
                // No program reads the slots after a restart of the machine, so nothing need be durable.
                open.decided = request.slots;
            } else if request.operation == Operation::Discard && self.is_durable() {
                // The kernel may expect zeros afterwards, and the disk promises none.
                (open.decided, open.error) = (request.slots, Some(Errno::OPNOTSUPP));
            } else if end > self.parts.fast.slots() as u64 {
                (open.decided, open.error) = (request.slots, Some(Errno::INVAL));
            }
            let index = self.requests.push(open);
            self.ready_requests.push_back(index, &open);
            if is_flush && self.is_durable() {
                self.parts.disk.sync(SYNC | u64::from(index));
            }
            if request.operation == Operation::Read {
                return Ok(true);
            }
        }
        Ok(true)
    }

    fn take_ended(&mut self) -> Result<bool, Error> {
        let mut has_worked = false;
        for &tier in self.disks() {
            while let Some(ended) = self.parts.disk(tier).ended() {
                has_worked = true;
                if ended.token & SYNC != 0 {
                    self.end_sync((ended.token & !SYNC) as u32, ended.result)?;
                    continue;
                }
                let clusters = &mut self.lanes[tier as usize].clusters;
                let Some(buffer) = clusters.ended(ended, self.parts.disk(tier)) else { continue };
                let due_ns = clusters.get(buffer).due_ns;
                if due_ns > self.now_ns() {
                    self.timers.add(due_ns, Due::Buffer(tier, buffer));
                } else {
                    self.end_cluster(tier, buffer)?;
                }
            }
        }
        Ok(has_worked)
    }

    fn end_sync(&mut self, request: u32, result: Result<usize, Errno>) -> Result<(), Error> {
        if let Err(error) = result {
            self.parts.statistics.errors_slow.add(1);
            self.requests.get_mut(request).error.get_or_insert(error);
        }
        self.end_part(request)
    }

    fn take_due(&mut self) -> Result<bool, Error> {
        if self.timers.next_ns().is_none() {
            return Ok(false);
        }
        let (now_ns, mut has_worked) = (self.now_ns(), false);
        while let Some(due) = self.timers.pop(now_ns) {
            has_worked = true;
            match due {
                Due::Move(moving) => self.end_move(moving, Ok(()))?,
                Due::Buffer(tier, buffer) => self.end_cluster(tier, buffer)?,
            }
        }
        Ok(has_worked)
    }

    /// Begins every move that need not wait, decides all reads and one other request, and gives the disk its requests.
    /// Writes to neighbouring slots gather in the buffers of the disk until no request is left, or for some turns.
    fn work(&mut self) -> Result<(), Error> {
        let mut has_other = false;
        loop {
            self.begin_moves()?;
            let has_room = self.orders.room() >= ROOM_FOR_DECISION;
            if has_room && let Some(request) = self.ready_requests.pop_urgent() {
                self.decide(request)?;
                continue;
            }
            if has_room
                && !has_other
                && let Some(request) = self.ready_requests.pop_other()
            {
                has_other = true;
                self.decide(request)?;
                continue;
            }
            self.has_more = has_room && !self.ready_requests.is_empty();
            self.turns_gathered = if self.has_more { self.turns_gathered + 1 } else { 0 };
            let only_reads = self.has_more && !self.turns_gathered.is_multiple_of(TURNS_TO_GATHER);
            for &tier in self.disks() {
                while let Some(buffer) = self.lanes[tier as usize].clusters.close(only_reads) {
                    self.submit(tier, buffer);
                }
            }
            if self.has_more || !self.fail_without_frames()? {
                break;
            }
        }
        self.parts.statistics.fast_pages_used.set(self.parts.tiers.frames_used());
        if let Some(counts) = self.parts.fast.pool_counts() {
            self.parts.statistics.compressed.set(counts);
        }
        for &tier in self.disks() {
            // The next turn tries again what the kernel did not take.
            self.has_more |= !self.parts.disk(tier).submit()?;
        }
        Ok(())
    }

    fn begin_moves(&mut self) -> Result<(), Error> {
        while let Some(moving) = self.ready_moves.pop_front() {
            self.begin(moving)?;
        }
        Ok(())
    }

    /// If moves wait for frames, or for room in the pool, and nothing is in flight that could free any, lets the first
    /// of them fail. In a pool a page that is written again may need more room without a demotion of another, so only
    /// demotions in flight count there.
    fn fail_without_frames(&mut self) -> Result<bool, Error> {
        let has_hope = match self.parts.fast.is_compressed() {
            true => self.demoting > 0,
            false => self.in_flight() > 0 || self.timers.next_ns().is_some(),
        };
        if has_hope {
            return Ok(false);
        }
        let Some(moving) = self.wait_for_frame.pop_front() else { return Ok(false) };
        self.end_move(moving, Err(Errno::NOSPC))?;
        Ok(true)
    }

    /// Decides the next slots of a request, until one must wait.
    fn decide(&mut self, request: u32) -> Result<(), Error> {
        for _ in 0..SLOTS_PER_TURN {
            let open = *self.requests.get(request);
            if open.decided == open.request.slots {
                return self.end_part(request);
            }
            let slot = open.request.first + open.decided;
            if self.orders.is_busy(slot) {
                self.orders.wait(slot, request);
                let waits = &mut self.requests.get_mut(request).waits;
                *waits = waits.saturating_add(1);
                return Ok(());
            }
            if self.orders.room() < ROOM_FOR_DECISION {
                self.ready_requests.push_front(request, &open);
                return Ok(());
            }
            self.requests.get_mut(request).decided += 1;
            self.decide_slot(request, slot);
            self.begin_moves()?;
        }
        self.ready_requests.push_back(request, self.requests.get(request));
        Ok(())
    }

    fn decide_slot(&mut self, request: u32, slot: u32) {
        let copies = self.parts.fast.copies(slot);
        let open = self.requests.get_mut(request);
        let event = match open.request.operation {
            Operation::Read if copies.is_lost => {
                open.error.get_or_insert(Errno::IO);
                return;
            }
            // A new device, or a discarded slot.
            Operation::Read if copies.is_void() => {
                let bytes = open.bytes_of(slot);
                self.parts.carrier.data(open.request.tag)[bytes].fill(0);
                return;
            }
            Operation::Read => Event::In,
            Operation::Write => Event::Out { is_dirty: true },
            Operation::Discard if copies.is_void() => return,
            Operation::Discard => Event::Void,
            Operation::Flush => return,
        };
        self.fit_capacity();
        let number = self.event;
        self.event += 1;
        self.parts.tiers.on(event, PageId(slot), &mut self.decided);
        if let Some(recorder) = &mut self.parts.recorder {
            recorder.decided(number, event, slot, &self.decided);
        }
        if event == Event::Void {
            self.parts.statistics.voids.add(1);
            if self.decided.is_empty() {
                self.parts.fast.set_copies(slot, Copies::NONE);
            }
        }
        for index in 0..self.decided.len() {
            let Move { step, page } = self.decided[index];
            let is_own = page.0 == slot && is_waited_for(step, event);
            let moving = Moving::new(step, page.0, if is_own { request } else { NONE }, number);
            self.push(moving);
        }
    }

    /// Gives the placement the number of compressed pages that fit, if that has changed.
    fn fit_capacity(&mut self) {
        let Some(frames) = self.parts.fast.capacity() else { return };
        let before = self.parts.tiers.capacity();
        if frames.abs_diff(before) <= before / CAPACITY_PART {
            return;
        }
        self.parts.tiers.set_capacity(frames);
        if let Some(recorder) = &mut self.parts.recorder {
            recorder.capacity(self.event, frames);
        }
    }

    /// Adds a move; it begins when the earlier ones of its slot have ended.
    fn push(&mut self, moving: Moving) {
        if moving.request != NONE {
            let open = self.requests.get_mut(moving.request);
            (open.pending, open.was_moved) = (open.pending + 1, true);
        }
        let (index, begins) = self.orders.push(moving);
        if begins {
            self.ready_moves.push_back(index);
        }
    }

    /// Removes an ended move, and lets what waited for it go on.
    fn pop(&mut self, moving: u32) -> Result<(), Error> {
        let request = self.orders.get(moving).request;
        match self.orders.pop(moving) {
            Rest::Next(next) => self.ready_moves.push_back(next),
            Rest::Idle(mut waiter) => {
                while waiter != NONE {
                    self.ready_requests.push_back(waiter, self.requests.get(waiter));
                    waiter = self.orders.after(waiter);
                }
            }
        }
        if request == NONE {
            return Ok(());
        }
        self.end_part(request)
    }

    /// Ends one of the things that the answer to a request waits for.
    fn end_part(&mut self, request: u32) -> Result<(), Error> {
        let open = self.requests.get_mut(request);
        open.pending -= 1;
        if open.pending > 0 {
            return Ok(());
        }
        let open = *open;
        if open.request.operation == Operation::Read && open.was_moved && open.error.is_none() {
            let statistics = &self.parts.statistics;
            let waited = if open.was_slow { &statistics.wait_slow } else { &statistics.wait_fast };
            waited.add(self.now_ns() - open.arrived_ns);
        }
        self.requests.remove(request);
        self.parts.carrier.finish(open.request.tag, open.error.map_or(Ok(()), Err))
    }
}
