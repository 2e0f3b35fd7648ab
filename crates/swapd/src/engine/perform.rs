//! Performs single moves: copies data between the carrier, frames and buffers of the disk, and changes the map
//! once a move is done.

use linux::frames::FRAME_BYTES;
use policy::tiers::{Move, Step};
use rustix::io::Errno;
use types::PageId;

use super::Engine;
use super::clusters::Kind;
use super::orders::{Moving, NONE};
use super::timers::Due;
use crate::Error;
use crate::carrier::{Carrier, Operation, SLOT_BYTES};
use crate::emulation::Direction;
use crate::store::{Copies, Disk};

fn bytes_at(place: u32) -> std::ops::Range<usize> {
    place as usize * SLOT_BYTES..(place as usize + 1) * SLOT_BYTES
}

impl<C: Carrier, D: Disk> Engine<C, D> {
    /// Begins the first move of a slot.
    pub(super) fn begin(&mut self, index: u32) -> Result<(), Error> {
        let Moving { step, slot, .. } = *self.orders.get(index);
        let frame = self.parts.fast.copies(slot).frame;
        match (step, frame) {
            (Step::ReadFast, Some(frame)) => self.read_frame(index, frame),
            (Step::ReadFast, None) => self.end_move(index, Err(Errno::IO)),
            (Step::WriteFast, _) => self.write_frame(index),
            (Step::Promote, _) if self.orders.get(index).buffer != NONE => self.write_frame(index),
            // The read failed, so there is nothing to promote.
            (Step::Promote, _) => self.end_move(index, Ok(())),
            (Step::ReadSlow, _) => self.join(index, Kind::Read),
            (Step::WriteSlow, _) => self.join(index, Kind::Write),
            (Step::Demote { writes }, Some(_)) => {
                if writes || !self.parts.fast.copies(slot).is_slow {
                    return self.join(index, Kind::Demotion);
                }
                self.end_move(index, Ok(()))
            }
            // The slot lost its frame to a failure.
            (Step::Demote { .. }, None) | (Step::Free, _) => self.end_move(index, Ok(())),
        }
    }

    fn read_frame(&mut self, index: u32, frame: u32) -> Result<(), Error> {
        let Moving { slot, request, .. } = *self.orders.get(index);
        let content = self.parts.fast.frame(frame);
        if !self.parts.fast.is_right(slot, content) {
            self.parts.statistics.errors_checksum.add(1);
            return self.end_move(index, Err(Errno::IO));
        }
        let open = self.requests.get(request);
        let bytes = open.bytes_of(slot);
        self.parts.carrier.data(open.request.tag)[bytes].copy_from_slice(content);
        self.end_fast(index, Direction::Read)
    }

    /// Fills the slot's frame, or a free one.
    fn write_frame(&mut self, index: u32) -> Result<(), Error> {
        let Moving { step, slot, request, frame, buffer, place, .. } = *self.orders.get(index);
        let mut frame = self.parts.fast.copies(slot).frame.or((frame != NONE).then_some(frame));
        if frame.is_none() && self.wait_for_frame.is_empty() {
            frame = self.parts.fast.take();
            self.orders.get_mut(index).frame = frame.unwrap_or(NONE);
        }
        let Some(frame) = frame else {
            self.wait_for_frame.push_back(index);
            return Ok(());
        };
        let target = self.parts.fast.frame_mut(frame);
        if step == Step::Promote {
            let content = &self.parts.disk.buffer(buffer as usize)[bytes_at(place)];
            target.copy_from_slice(content);
            self.release(buffer)?;
        } else {
            let open = self.requests.get(request);
            let bytes = open.bytes_of(slot);
            let content = &self.parts.carrier.data(open.request.tag)[bytes];
            target.copy_from_slice(content);
            self.parts.fast.set_checksum(slot, content);
        }
        self.end_fast(index, Direction::Write)
    }

    /// Ends a move of the fast tier, at once or when the emulated device would have.
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

    /// Adds a move to a request of the disk, or lets it wait for a buffer.
    fn join(&mut self, index: u32, kind: Kind) -> Result<(), Error> {
        let waiting = self.waiting(kind);
        if !waiting.is_empty() {
            waiting.push_back(index);
            return Ok(());
        }
        if !self.try_join(index, kind) {
            self.waiting(kind).push_back(index);
        }
        Ok(())
    }

    fn waiting(&mut self, kind: Kind) -> &mut std::collections::VecDeque<u32> {
        if kind == Kind::Read { &mut self.wait_for_read } else { &mut self.wait_for_write }
    }

    fn try_join(&mut self, index: u32, kind: Kind) -> bool {
        let Moving { slot, request, .. } = *self.orders.get(index);
        let (joined, closed) = self.clusters.join(kind, slot, index);
        if closed != NONE {
            self.submit(closed);
        }
        let Some((buffer, place)) = joined else { return false };
        let parts = &mut self.parts;
        match kind {
            Kind::Read => self.requests.get_mut(request).was_slow = true,
            Kind::Write => {
                let open = self.requests.get(request);
                let content = &parts.carrier.data(open.request.tag)[open.bytes_of(slot)];
                parts.disk.buffer_mut(buffer as usize)[bytes_at(place)].copy_from_slice(content);
                parts.fast.set_checksum(slot, content);
            }
            Kind::Demotion => {
                let frame = parts.fast.copies(slot).frame.expect("the move began with a frame");
                let target = &mut parts.disk.buffer_mut(buffer as usize)[bytes_at(place)];
                target.copy_from_slice(parts.fast.frame(frame));
            }
        }
        true
    }

    /// Gives a cluster to the disk.
    pub(super) fn submit(&mut self, buffer: u32) {
        let cluster = self.clusters.get(buffer);
        let (direction, count) = (cluster.kind.direction(), cluster.count);
        let requests = &self.parts.statistics.slow_requests;
        match direction {
            Direction::Read => requests.reads.add(1),
            Direction::Write => requests.writes.add(1),
        }
        let now_ns = self.now_ns();
        let device = self.parts.emulated_slow.as_mut();
        let due_ns = device.map_or(0, |device| device.ends_ns(now_ns, direction, count));
        self.clusters.get_mut(buffer).due_ns = due_ns;
        self.clusters.submit(buffer, &mut self.parts.disk);
    }

    /// Ends the moves of a cluster.
    pub(super) fn end_cluster(&mut self, buffer: u32) -> Result<(), Error> {
        let cluster = *self.clusters.get(buffer);
        for place in 0..cluster.count {
            let index = cluster.moves[place as usize];
            let has_failed = cluster.failed & 1 << place != 0;
            let outcome = if has_failed { Err(cluster.error) } else { Ok(()) };
            match cluster.kind {
                Kind::Read if outcome.is_ok() => self.end_read(index, buffer, place)?,
                _ => self.end_move(index, outcome)?,
            }
        }
        self.release(buffer)
    }

    /// Hands over what was read, and keeps it for the promotion behind.
    fn end_read(&mut self, index: u32, buffer: u32, place: u32) -> Result<(), Error> {
        let Moving { slot, request, event, .. } = *self.orders.get(index);
        let content = &self.parts.disk.buffer(buffer as usize)[bytes_at(place)];
        if !self.parts.fast.is_right(slot, content) {
            self.parts.statistics.errors_checksum.add(1);
            return self.end_move(index, Err(Errno::IO));
        }
        let open = self.requests.get(request);
        let bytes = open.bytes_of(slot);
        self.parts.carrier.data(open.request.tag)[bytes].copy_from_slice(content);
        let behind = self.orders.behind(index);
        if behind != NONE {
            let behind = self.orders.get_mut(behind);
            if behind.step == Step::Promote && behind.event == event {
                (behind.buffer, behind.place) = (buffer, place);
                self.clusters.get_mut(buffer).users += 1;
            }
        }
        self.end_move(index, Ok(()))
    }

    /// Ends a use of a buffer, and lets moves that wait for one go on.
    fn release(&mut self, buffer: u32) -> Result<(), Error> {
        if !self.clusters.release(buffer) {
            return Ok(());
        }
        let is_read = self.clusters.get(buffer).kind == Kind::Read;
        loop {
            let waiting = if is_read { &mut self.wait_for_read } else { &mut self.wait_for_write };
            let Some(&index) = waiting.front() else { return Ok(()) };
            let kind = match self.orders.get(index).step {
                Step::ReadSlow => Kind::Read,
                Step::WriteSlow => Kind::Write,
                _ => Kind::Demotion,
            };
            if !self.try_join(index, kind) {
                return Ok(());
            }
            self.waiting(kind).pop_front();
        }
    }

    /// Ends the first move of its slot: changes the map and tells the tiers.
    pub(super) fn end_move(&mut self, index: u32, outcome: Result<(), Errno>) -> Result<(), Error> {
        match outcome {
            Ok(()) => self.end_done(index),
            Err(error) => self.end_failed(index, error),
        }
    }

    fn end_done(&mut self, index: u32) -> Result<(), Error> {
        let Moving { step, slot, request, event, frame, buffer, .. } = *self.orders.get(index);
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
            Step::Promote if buffer != NONE => {
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
                let is_void = request != NONE
                    && self.requests.get(request).request.operation == Operation::Discard;
                let rest = Copies { frame: None, ..copies };
                statistics.demotions.add(u64::from(!is_void));
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

    /// Gives free frames to the moves that wait for one.
    fn hand_out_frames(&mut self) {
        while let Some(&index) = self.wait_for_frame.front() {
            let Some(frame) = self.parts.fast.take() else { return };
            self.wait_for_frame.pop_front();
            self.orders.get_mut(index).frame = frame;
            self.ready_moves.push_back(index);
        }
    }

    /// A frame that failed is never used again. Content without a valid copy is lost: reads of it fail.
    fn end_failed(&mut self, index: u32, error: Errno) -> Result<(), Error> {
        let Moving { step, slot, request, event, buffer, .. } = *self.orders.get(index);
        let (fast, statistics) = (&mut self.parts.fast, &self.parts.statistics);
        let copies = fast.copies(slot);
        let lost = Copies { is_lost: true, ..Copies::NONE };
        match step {
            Step::ReadFast => {
                statistics.errors_fast.add(1);
                let slow = Copies { frame: None, ..copies };
                fast.set_copies(slot, if copies.is_slow { slow } else { lost });
            }
            Step::WriteFast => {
                statistics.errors_fast.add(1);
                fast.set_copies(slot, lost);
            }
            Step::Promote => statistics.errors_fast.add(1),
            Step::ReadSlow | Step::Demote { .. } => statistics.failed_slow(slot),
            Step::WriteSlow => {
                statistics.failed_slow(slot);
                fast.set_copies(slot, lost);
            }
            Step::Free => {}
        }
        let failed = Move { step, page: PageId(slot) };
        let moves = &mut self.decided;
        self.parts.tiers.failed(failed, moves);
        if let Some(recorder) = &mut self.parts.recorder {
            recorder.ended(event, failed, false);
            recorder.replaced(event, moves);
        }
        if step == Step::Promote && buffer != NONE {
            self.release(buffer)?;
        }
        let mut is_replaced = false;
        for number in 0..self.decided.len() {
            let Move { step: next, page } = self.decided[number];
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
