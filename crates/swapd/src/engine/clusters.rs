//! Disk requests of a tier: neighbouring blocks that are read or written together are one request, in one buffer of
//! the disk. If such a request fails, each block is tried by itself, so only a bad one fails. A block of the slow
//! tier is a slot; one of the fast tier is a frame.

use linux::disk_queue::{Ended, Part};
use rustix::io::Errno;

use super::orders::{BlockOfBuffer, NONE};
use crate::carrier::SLOT_BYTES;
use crate::emulation::Direction;
use crate::store::Disk;

/// Most slots of a disk request: as many as the largest request of a carrier has.
pub const CLUSTER_SLOTS: usize = 64;
/// Bytes of a buffer.
pub const CLUSTER_BYTES: usize = CLUSTER_SLOTS * SLOT_BYTES;

/// What a disk request is for. Only moves of the same kind share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Reads for requests of the carrier.
    Read,
    /// Writes for requests of the carrier.
    Write,
    /// Writes that make room in the fast tier.
    Demotion,
    /// Reads of what a demotion will write.
    Victim,
}

impl Kind {
    pub fn direction(self) -> Direction {
        if self.is_read() { Direction::Read } else { Direction::Write }
    }

    pub fn is_read(self) -> bool {
        matches!(self, Kind::Read | Kind::Victim)
    }
}

/// The blocks in a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cluster {
    pub kind: Kind,
    pub first: u32,
    pub count: u32,
    /// The moves that wait for it.
    pub moves: [u32; CLUSTER_SLOTS],
    /// Bit of each block that failed.
    pub failed: u64,
    pub error: Errno,
    /// Moves that still need the content after the end of the disk request.
    pub users: u32,
    /// When an emulated disk would have ended.
    pub due_ns: u64,
    /// The block that is tried by itself, or `NONE` for all together.
    single: u32,
}

/// The buffers of a disk. Reads and writes have buffers of their own, since a promotion holds a read's buffer until
/// a demotion has written.
pub(super) struct Clusters {
    list: Vec<Cluster>,
    free_reads: Vec<u32>,
    free_writes: Vec<u32>,
    /// Clusters that were not given to the disk yet, by kind; or `NONE`.
    open: [u32; 4],
    /// Disk requests that have not ended.
    in_flight: usize,
}

impl Clusters {
    /// The first half of `buffers` buffers is for reads.
    pub fn new(buffers: usize) -> Clusters {
        let cluster = Cluster {
            kind: Kind::Read,
            first: 0,
            count: 0,
            moves: [NONE; CLUSTER_SLOTS],
            failed: 0,
            error: Errno::IO,
            users: 0,
            due_ns: 0,
            single: NONE,
        };
        let half = buffers as u32 / 2;
        Clusters {
            list: vec![cluster; buffers],
            free_reads: (0..half).rev().collect(),
            free_writes: (half..buffers as u32).rev().collect(),
            open: [NONE; 4],
            in_flight: 0,
        }
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub fn get(&self, buffer: u32) -> &Cluster {
        &self.list[buffer as usize]
    }

    pub fn get_mut(&mut self, buffer: u32) -> &mut Cluster {
        &mut self.list[buffer as usize]
    }

    fn free(&mut self, kind: Kind) -> &mut Vec<u32> {
        if kind.is_read() { &mut self.free_reads } else { &mut self.free_writes }
    }

    /// Adds a move of a block to the open cluster of its kind, or to a new one in a free buffer. Returns the buffer
    /// and the number of the block in it; none if no buffer is free. The second value is a cluster that was closed for it, or `NONE`.
    pub fn join(
        &mut self,
        kind: Kind,
        block: u32,
        moving: u32,
    ) -> (Option<(u32, BlockOfBuffer)>, u32) {
        let open = self.open[kind as usize];
        if open != NONE {
            let cluster = &mut self.list[open as usize];
            if cluster.first + cluster.count == block && (cluster.count as usize) < CLUSTER_SLOTS {
                let block = BlockOfBuffer(cluster.count);
                cluster.moves[block.0 as usize] = moving;
                cluster.count += 1;
                return (Some((open, block)), NONE);
            }
        }
        let closed = std::mem::replace(&mut self.open[kind as usize], NONE);
        let Some(buffer) = self.free(kind).pop() else { return (None, closed) };
        let cluster = &mut self.list[buffer as usize];
        (cluster.kind, cluster.first, cluster.count) = (kind, block, 1);
        (cluster.failed, cluster.users, cluster.single) = (0, 1, NONE);
        cluster.moves[0] = moving;
        self.open[kind as usize] = buffer;
        (Some((buffer, BlockOfBuffer(0))), closed)
    }

    /// Takes an open cluster, to be given to the disk; with `only_reads`, one that reads.
    pub fn close(&mut self, only_reads: bool) -> Option<u32> {
        let list = &self.list;
        let is_wanted =
            |buffer: u32| buffer != NONE && (!only_reads || list[buffer as usize].kind.is_read());
        let open = self.open.iter_mut().find(|buffer| is_wanted(**buffer))?;
        Some(std::mem::replace(open, NONE))
    }

    /// Gives the cluster in `buffer` to the disk.
    pub fn submit(&mut self, buffer: u32, disk: &mut impl Disk) {
        self.in_flight += 1;
        let cluster = &self.list[buffer as usize];
        let (skipped, count) = match cluster.single {
            NONE => (0, cluster.count),
            single => (single, 1),
        };
        let part = Part {
            buffer: buffer as usize,
            begin: skipped as usize * SLOT_BYTES,
            bytes: count as usize * SLOT_BYTES,
        };
        let offset = u64::from(cluster.first + skipped) * SLOT_BYTES as u64;
        match cluster.kind {
            Kind::Read | Kind::Victim => disk.read(u64::from(buffer), part, offset),
            Kind::Write | Kind::Demotion => disk.write(u64::from(buffer), part, offset),
        }
    }

    /// Takes the end of a disk request. Returns the buffer once all its blocks are read or written, or failed.
    pub fn ended(&mut self, ended: Ended, disk: &mut impl Disk) -> Option<u32> {
        self.in_flight -= 1;
        let buffer = ended.token as u32;
        let cluster = &mut self.list[buffer as usize];
        let is_single = cluster.single != NONE;
        let count = if is_single { 1 } else { cluster.count };
        // Fewer bytes mean that the disk ends there.
        let is_done = ended.result == Ok(count as usize * SLOT_BYTES);
        if !is_done {
            cluster.error = ended.result.err().unwrap_or(Errno::IO);
        }
        match (is_single, is_done) {
            (false, true) => return Some(buffer),
            (false, false) if cluster.count == 1 => {
                cluster.failed = 1;
                return Some(buffer);
            }
            (false, false) => cluster.single = 0,
            (true, _) => {
                cluster.failed |= u64::from(!is_done) << cluster.single;
                cluster.single += 1;
                if cluster.single == cluster.count {
                    return Some(buffer);
                }
            }
        }
        self.submit(buffer, disk);
        None
    }

    /// Ends a use of `buffer`. Returns whether it is free now.
    pub fn release(&mut self, buffer: u32) -> bool {
        let cluster = &mut self.list[buffer as usize];
        cluster.users -= 1;
        let (kind, is_free) = (cluster.kind, cluster.users == 0);
        if is_free {
            self.free(kind).push(buffer);
        }
        is_free
    }
}
