//! Performs single moves: copies data between the carrier, frames and buffers of the disk, and changes the map
//! once a move is done.

use linux::frames::FRAME_BYTES;
use policy::tiers::{Area, Move, Step};
use rustix::io::Errno;
use types::PageId;

use super::Engine;
use super::clusters::Kind;
use super::lanes::kind_of;
use super::orders::{BlockOfBuffer, Moving, NONE};
use super::timers::Due;
use crate::Error;
use crate::carrier::{Carrier, Operation, SLOT_BYTES};
use crate::emulation::Direction;
use crate::store::{Copies, Disk, Tier};

/// How often a page may find no room in the pool before its move fails: others that need less may be quicker.
const REFUSALS_MAX: u8 = 8;

impl<C: Carrier, D: Disk> Engine<C, D> {
    /// Begins the first move of a slot.
    pub(super) fn begin(&mut self, index: u32) -> Result<(), Error> {
        let Moving { step, slot, .. } = *self.orders.get(index);
        let copies = self.parts.fast.copies(slot);
        let is_on_disk = self.parts.fast_disk.is_some();
        self.demoting += u64::from(matches!(step, Step::Demote { .. }));
        match (step, copies.frame) {
            (Step::ReadFast, Some(_)) if is_on_disk => self.join(index, Tier::Fast),
            (Step::ReadFast, Some(frame)) => self.read_frame(index, frame),
            (Step::ReadFast, None) => self.end_move(index, Err(Errno::IO)),
            (Step::WriteFast, _) => self.write_frame(index),
            (Step::Promote, _) if self.orders.get(index).has_data => self.write_frame(index),
            // The read failed, so there is nothing to promote.
            (Step::Promote, _) => self.end_move(index, Ok(())),
            // The frame that failed had the only copy. The tiers know of a demotion that would have written the
            // slow one, but that waits behind this move.
            (Step::ReadSlow, _) if !copies.is_slow => {
                self.end_on(index, Tier::Fast, Err(Errno::IO))
            }
            (Step::ReadSlow | Step::WriteSlow, _) => self.join(index, Tier::Slow),
            (Step::Demote { writes }, Some(_)) if writes || !copies.is_slow => {
                self.join(index, if is_on_disk { Tier::Fast } else { Tier::Slow })
            }
            // Another copy is valid, or the slot lost its frame to a failure.
            (Step::Demote { .. }, _) | (Step::Free, _) => self.end_move(index, Ok(())),
        }
    }

    fn read_frame(&mut self, index: u32, frame: u32) -> Result<(), Error> {
        let Moving { slot, request, .. } = *self.orders.get(index);
        let open = self.requests.get(request);
        let target = &mut self.parts.carrier.data(open.request.tag)[open.bytes_of(slot)];
        let is_read = self.parts.fast.read(frame, target).is_ok();
        // After an error nothing uses what was read, unless the slow tier's copy replaces it.
        if !is_read || !self.parts.fast.is_right(slot, target) {
            self.parts.statistics.errors_checksum.add(1);
            return self.end_move(index, Err(Errno::IO));
        }
        self.end_fast(index, Direction::Read)
    }

    /// The frame that the slot of a move has, or that the move holds.
    fn held(&self, index: u32) -> Option<u32> {
        let Moving { slot, frame, .. } = *self.orders.get(index);
        self.parts.fast.copies(slot).frame.or((frame != NONE).then_some(frame))
    }

    /// Fills the slot's frame, or a free one.
    fn write_frame(&mut self, index: u32) -> Result<(), Error> {
        let Moving { step, slot, request, buffer, block, .. } = *self.orders.get(index);
        let mut frame = self.held(index);
        if frame.is_none() && self.wait_for_frame.is_empty() {
            frame = self.parts.fast.take();
            self.orders.get_mut(index).frame = frame.unwrap_or(NONE);
        }
        let Some(frame) = frame else {
            self.wait_for_frame.push_back(index);
            return Ok(());
        };
        if self.parts.fast_disk.is_some() {
            return self.join(index, Tier::Fast);
        }
        let fast = &mut self.parts.fast;
        let bytes_before = fast.pool_counts().map(|counts| counts.bytes);
        let is_written = if step == Step::Promote {
            let content = &self.parts.disk.buffer(buffer as usize)[block.bytes()];
            let is_written = fast.write(frame, content).is_ok();
            if is_written && self.parts.area == Area::Device {
                fast.set_checksum(slot, content);
            }
            is_written
        } else {
            let open = self.requests.get(request);
            let content = &self.parts.carrier.data(open.request.tag)[open.bytes_of(slot)];
            let is_written = fast.write(frame, content).is_ok();
            if is_written {
                fast.set_checksum(slot, content);
            }
            is_written
        };
        if !is_written {
            let moving = self.orders.get_mut(index);
            moving.refusals += 1;
            if moving.refusals > REFUSALS_MAX {
                return self.end_move(index, Err(Errno::NOSPC));
            }
            self.wait_for_frame.push_back(index);
            return Ok(());
        }
        if fast.pool_counts().map(|counts| counts.bytes) < bytes_before {
            // The page before took more room.
            self.hand_out_frames();
        }
        self.let_go(index, Tier::Slow)?;
        self.end_fast(index, Direction::Write)
    }

    /// Ends a move of a fast tier in memory, at once or when the emulated device would have.
    fn end_fast(&mut self, index: u32, direction: Direction) -> Result<(), Error> {
        if self.parts.emulated_fast.is_some() {
            let now_ns = self.now_ns();
            let device = self.parts.emulated_fast.as_mut();
            let due_ns = device.map_or(0, |device| device.ends_ns(now_ns, direction, 1));
            self.timers.add(due_ns, Due::Move(index));
            return Ok(());
        }
        self.end_move(index, Ok(()))
    }

    /// Adds a move to a request of a tier's disk, or lets it wait for a buffer.
    fn join(&mut self, index: u32, tier: Tier) -> Result<(), Error> {
        let kind = kind_of(self.orders.get(index).step, tier);
        let lane = &mut self.lanes[tier as usize];
        if !lane.waiting(kind).is_empty() {
            lane.waiting(kind).push_back(index);
            return Ok(());
        }
        if !self.try_join(index, tier)? {
            self.lanes[tier as usize].waiting(kind).push_back(index);
        }
        Ok(())
    }

    /// Adds a move to a request, and copies what will be written; returns whether a buffer was there for it.
    fn try_join(&mut self, index: u32, tier: Tier) -> Result<bool, Error> {
        let moving = *self.orders.get(index);
        let Moving { step, slot, request, .. } = moving;
        let copies = self.parts.fast.copies(slot);
        let block = match tier {
            Tier::Slow => slot,
            Tier::Fast => copies.frame.unwrap_or(moving.frame),
        };
        let kind = kind_of(step, tier);
        if kind == Kind::Demotion
            && self.parts.fast.is_compressed()
            && let Some(frame) = copies.frame
            && self.parts.fast.read(frame, &mut self.page[..]).is_err()
        {
            self.parts.statistics.errors_checksum.add(1);
            self.end_on(index, Tier::Fast, Err(Errno::IO))?;
            return Ok(true);
        }
        let (joined, closed) = self.lanes[tier as usize].clusters.join(kind, block, index);
        if closed != NONE {
            self.submit(tier, closed);
        }
        let Some((buffer, block)) = joined else { return Ok(false) };
        let (buffer, bytes) = (buffer as usize, block.bytes());
        let parts = &mut self.parts;
        match kind {
            Kind::Read if tier == Tier::Slow => self.requests.get_mut(request).was_slow = true,
            Kind::Read | Kind::Victim => {}
            Kind::Write if step == Step::Promote => {
                let content = &parts.disk.buffer(moving.buffer as usize)[moving.block.bytes()];
                let fast = parts.fast_disk.as_mut().expect("it has a buffer");
                fast.buffer_mut(buffer)[bytes].copy_from_slice(content);
                if parts.area == Area::Device {
                    parts.fast.set_checksum(slot, content);
                }
                self.let_go(index, Tier::Slow)?;
            }
            Kind::Write => {
                let open = self.requests.get(request);
                let content = &parts.carrier.data(open.request.tag)[open.bytes_of(slot)];
                let disk = match (tier, &mut parts.fast_disk) {
                    (Tier::Fast, Some(disk)) => disk,
                    _ => &mut parts.disk,
                };
                disk.buffer_mut(buffer)[bytes].copy_from_slice(content);
                parts.fast.set_checksum(slot, content);
            }
            Kind::Demotion => {
                let target = &mut parts.disk.buffer_mut(buffer)[bytes];
                match &parts.fast_disk {
                    Some(fast) => {
                        let content = &fast.buffer(moving.buffer as usize)[moving.block.bytes()];
                        target.copy_from_slice(content);
                        self.let_go(index, Tier::Fast)?;
                    }
                    None if parts.fast.is_compressed() => target.copy_from_slice(&self.page[..]),
                    None => {
                        let frame = copies.frame.expect("the move began with a frame");
                        let read = parts.fast.read(frame, target);
                        read.expect("only compressed pages can be damaged");
                    }
                }
            }
        }
        Ok(true)
    }

    /// Gives a cluster to its disk.
    pub(super) fn submit(&mut self, tier: Tier, buffer: u32) {
        let clusters = &self.lanes[tier as usize].clusters;
        let (direction, count) =
            (clusters.get(buffer).kind.direction(), clusters.get(buffer).count);
        let requests = match tier {
            Tier::Fast => &self.parts.statistics.fast_requests,
            Tier::Slow => &self.parts.statistics.slow_requests,
        };
        match direction {
            Direction::Read => requests.reads.add(1),
            Direction::Write => requests.writes.add(1),
        }
        let now_ns = self.now_ns();
        let device = self.parts.emulated(tier);
        let due_ns = device.map_or(0, |device| device.ends_ns(now_ns, direction, count));
        let clusters = &mut self.lanes[tier as usize].clusters;
        clusters.get_mut(buffer).due_ns = due_ns;
        clusters.submit(buffer, self.parts.disk(tier));
    }

    /// Ends the moves of a cluster.
    pub(super) fn end_cluster(&mut self, tier: Tier, buffer: u32) -> Result<(), Error> {
        let cluster = *self.lanes[tier as usize].clusters.get(buffer);
        for number in 0..cluster.count {
            let index = cluster.moves[number as usize];
            let block = BlockOfBuffer(number);
            let has_failed = cluster.failed & 1 << number != 0;
            match cluster.kind {
                _ if has_failed => self.end_on(index, tier, Err(cluster.error))?,
                Kind::Read => self.end_read(index, tier, buffer, block)?,
                Kind::Victim => {
                    self.keep(index, tier, buffer, block);
                    self.join(index, Tier::Slow)?;
                }
                Kind::Write | Kind::Demotion => self.end_move(index, Ok(()))?,
            }
        }
        self.release(tier, buffer)
    }

    /// Hands over what was read, and keeps it for the promotion behind.
    fn end_read(
        &mut self,
        index: u32,
        tier: Tier,
        buffer: u32,
        block: BlockOfBuffer,
    ) -> Result<(), Error> {
        let Moving { slot, request, event, .. } = *self.orders.get(index);
        let parts = &mut self.parts;
        let disk = match (tier, &parts.fast_disk) {
            (Tier::Fast, Some(disk)) => disk,
            _ => &parts.disk,
        };
        let content = &disk.buffer(buffer as usize)[block.bytes()];
        // Of a device, only content that has been in a frame has a checksum.
        let has_checksum = tier == Tier::Fast || parts.area != Area::Device;
        if has_checksum && !parts.fast.is_right(slot, content) {
            parts.statistics.errors_checksum.add(1);
            return self.end_move(index, Err(Errno::IO));
        }
        let open = self.requests.get(request);
        let bytes = open.bytes_of(slot);
        parts.carrier.data(open.request.tag)[bytes].copy_from_slice(content);
        let behind = self.orders.behind(index);
        if tier == Tier::Slow && behind != NONE {
            let Moving { step, event: cause, .. } = *self.orders.get(behind);
            if step == Step::Promote && cause == event {
                self.keep(behind, tier, buffer, block);
            }
        }
        self.end_move(index, Ok(()))
    }

    /// Keeps a buffer for a move that will copy what was read into it.
    fn keep(&mut self, index: u32, tier: Tier, buffer: u32, block: BlockOfBuffer) {
        let moving = self.orders.get_mut(index);
        (moving.buffer, moving.block, moving.has_data) = (buffer, block, true);
        self.lanes[tier as usize].clusters.get_mut(buffer).users += 1;
    }

    /// Ends a move's use of the buffer that was kept for it, if there is one.
    fn let_go(&mut self, index: u32, tier: Tier) -> Result<(), Error> {
        match std::mem::replace(&mut self.orders.get_mut(index).buffer, NONE) {
            NONE => Ok(()),
            buffer => self.release(tier, buffer),
        }
    }

    /// Ends a use of a buffer, and lets moves that wait for one go on.
    fn release(&mut self, tier: Tier, buffer: u32) -> Result<(), Error> {
        let clusters = &mut self.lanes[tier as usize].clusters;
        let kind = clusters.get(buffer).kind;
        if !clusters.release(buffer) {
            return Ok(());
        }
        loop {
            let Some(&index) = self.lanes[tier as usize].waiting(kind).front() else {
                return Ok(());
            };
            if !self.try_join(index, tier)? {
                return Ok(());
            }
            self.lanes[tier as usize].waiting(kind).pop_front();
        }
    }

    /// Ends the first move of its slot: changes the map and tells the tiers.
    pub(super) fn end_move(&mut self, index: u32, outcome: Result<(), Errno>) -> Result<(), Error> {
        // Reads and writes of frames, and promotions, fail in the fast tier only.
        let tier = match self.orders.get(index).step {
            Step::ReadFast | Step::WriteFast | Step::Promote => Tier::Fast,
            _ => Tier::Slow,
        };
        self.end_on(index, tier, outcome)
    }

    /// Ends a move, which fails on this tier if it does.
    fn end_on(&mut self, index: u32, tier: Tier, outcome: Result<(), Errno>) -> Result<(), Error> {
        let is_demotion = matches!(self.orders.get(index).step, Step::Demote { .. });
        self.demoting -= u64::from(is_demotion);
        match outcome {
            Ok(()) => self.end_done(index),
            Err(error) => self.end_failed(index, tier, error),
        }
    }

    fn end_done(&mut self, index: u32) -> Result<(), Error> {
        let Moving { step, slot, request, event, frame, has_data, .. } = *self.orders.get(index);
        let (fast, statistics) = (&mut self.parts.fast, &self.parts.statistics);
        let copies = fast.copies(slot);
        let held = copies.frame.or((frame != NONE).then_some(frame));
        let mut freed = None;
        match step {
            Step::ReadFast => statistics.fast.reads.add(1),
            Step::ReadSlow => statistics.slow.reads.add(1),
            Step::WriteFast => {
                statistics.fast.writes.add(1);
                statistics.promotions.add(u64::from(copies.frame.is_none() && copies.is_slow));
                fast.set_copies(slot, Copies { frame: held, ..Copies::NONE });
            }
            Step::WriteSlow => {
                statistics.slow.writes.add(1);
                freed = copies.frame;
                fast.set_copies(slot, Copies { is_slow: true, ..Copies::NONE });
            }
            Step::Promote if has_data => {
                statistics.fast.writes.add(1);
                statistics.promotions.add(1);
                fast.set_copies(slot, Copies { frame: held, ..copies });
            }
            Step::Promote => {}
            Step::Demote { writes } => {
                statistics.demotions.add(1);
                statistics.slow.writes.add(u64::from(writes));
                freed = copies.frame;
                if freed.is_some() {
                    fast.set_copies(slot, Copies { is_slow: true, ..Copies::NONE });
                }
            }
            Step::Free => {
                freed = copies.frame;
                let own = (request != NONE).then(|| self.requests.get(request).request.operation);
                let is_void = own == Some(Operation::Discard);
                // The frame of a block that is being written to the device moves nowhere.
                let is_rewritten = self.parts.area == Area::Device && own == Some(Operation::Write);
                let rest = Copies { frame: None, ..copies };
                statistics.demotions.add(u64::from(!is_void && !is_rewritten));
                fast.set_copies(slot, if is_void { Copies::NONE } else { rest });
            }
        }
        let moved = Move { step, page: PageId(slot) };
        self.parts.tiers.done(moved);
        if let Some(recorder) = &mut self.parts.recorder {
            recorder.ended(event, moved, true);
        }
        if let Some(frame) = freed {
            self.parts.fast.give(frame);
            self.hand_out_frames();
        }
        self.pop(index)
    }

    /// Gives free frames to the moves that wait for one. With compression, lets as many of the moves that wait go on as
    /// there is room for, and at least one: its page may need little.
    fn hand_out_frames(&mut self) {
        for _ in 0..self.parts.fast.room_beside_frames().max(1) {
            let Some(&index) = self.wait_for_frame.front() else { return };
            if self.held(index).is_none() {
                let Some(frame) = self.parts.fast.take() else { return };
                self.orders.get_mut(index).frame = frame;
            }
            self.wait_for_frame.pop_front();
            self.ready_moves.push_back(index);
        }
    }

    /// A frame that failed is never used again, except that a page which cannot be demoted keeps its own. A frame whose
    /// page found no room in the pool is free. Content without a valid copy is lost: reads of it fail.
    fn end_failed(&mut self, index: u32, tier: Tier, error: Errno) -> Result<(), Error> {
        let Moving { step, slot, request, event, frame, .. } = *self.orders.get(index);
        let (fast, statistics) = (&mut self.parts.fast, &self.parts.statistics);
        let copies = fast.copies(slot);
        let lost = Copies { is_lost: true, ..Copies::NONE };
        let without_frame = Copies { frame: None, ..copies };
        let held = copies.frame.or((frame != NONE).then_some(frame));
        let uses_frame = matches!(step, Step::ReadFast | Step::WriteFast | Step::Promote);
        let is_full = uses_frame && error == Errno::NOSPC && fast.is_compressed();
        match tier {
            // The failure of the frame was counted.
            Tier::Fast if step == Step::ReadSlow => {}
            Tier::Fast if is_full => statistics.compressed.refused_pages.add(1),
            Tier::Fast => statistics.errors_fast.add(1),
            Tier::Slow if step == Step::Free => {}
            Tier::Slow => statistics.failed_slow(slot),
        }
        match step {
            Step::ReadFast => {
                fast.set_copies(slot, if copies.is_slow { without_frame } else { lost });
            }
            // The disk has the old content or the new, as after any failed write.
            Step::WriteSlow if self.parts.area == Area::Device => {}
            Step::WriteFast | Step::WriteSlow => fast.set_copies(slot, lost),
            Step::Promote if copies.frame.is_some() => fast.set_copies(slot, without_frame),
            Step::Promote | Step::ReadSlow | Step::Demote { .. } | Step::Free => {}
        }
        match held.filter(|_| uses_frame) {
            Some(frame) if is_full => fast.give(frame),
            Some(frame) => fast.retire(frame),
            None => {}
        }
        let failed = Move { step, page: PageId(slot) };
        let moves = &mut self.decided;
        self.parts.tiers.failed(failed, moves);
        if let Some(recorder) = &mut self.parts.recorder {
            recorder.ended(event, failed, false);
            recorder.replaced(event, moves);
        }
        // A buffer that becomes free lets other moves go on, which may fail as well.
        let decided = self.decided;
        // A promotion without a frame still has what was read for it.
        self.let_go(index, Tier::Slow)?;
        if is_full {
            self.hand_out_frames();
        }
        let mut is_replaced = false;
        for &Move { step: next, page } in decided.iter() {
            if page.0 == slot && !is_replaced {
                let index = self.orders.replace(index, Moving::new(next, slot, request, event));
                self.ready_moves.push_back(index);
                is_replaced = true;
            } else {
                self.push(Moving::new(next, page.0, NONE, event));
            }
        }
        if is_replaced {
            return Ok(());
        }
        if request != NONE {
            self.requests.get_mut(request).error.get_or_insert(error);
        }
        self.pop(index)
    }
}

const _: () = assert!(FRAME_BYTES == SLOT_BYTES, "a frame holds the content of a slot");
