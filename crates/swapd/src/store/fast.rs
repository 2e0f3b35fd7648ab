//! The frames of the fast tier, and the map of all slots. The map lies in a locked memory file, and so do the frames
//! unless the fast tier has a disk: then a frame is a block of it. With compression a frame is the handle of a page in
//! the pool, which may hold several times as many pages as its memory has.
//!
//! A word of the map changes with a single store after the data that it names is in place, so a successor process
//! that finds the file in any state finds each slot before or after a move, never between.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, Release};

use linux::frames::{Frames, Layout};
use twox_hash::XxHash3_64;

use super::KEY_BYTES;
use super::codec::Algorithm;
use super::pool::{Damaged, Full, Pool, PoolCounts};
use crate::Error;

/// The valid copies of a slot's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// The frame with a copy.
    pub frame: Option<u32>,
    /// Whether the slow tier has a copy.
    pub is_slow: bool,
    /// Whether the content was lost, so that a read of the slot must fail.
    pub is_lost: bool,
}

impl Copies {
    /// No content: the slot was never written, or was discarded.
    pub const NONE: Copies = Copies { frame: None, is_slow: false, is_lost: false };

    const SLOW: u32 = 1 << 31;
    const LOST: u32 = 1 << 30;

    /// Whether the slot has no content.
    pub fn is_void(self) -> bool {
        self == Copies::NONE
    }

    fn of_word(word: u32) -> Copies {
        let frame = (word & (Copies::LOST - 1)).checked_sub(1);
        Copies { frame, is_slow: word & Copies::SLOW != 0, is_lost: word & Copies::LOST != 0 }
    }

    fn word(self) -> u32 {
        let frame = self.frame.map_or(0, |frame| frame + 1);
        let slow = if self.is_slow { Copies::SLOW } else { 0 };
        let lost = if self.is_lost { Copies::LOST } else { 0 };
        frame | slow | lost
    }
}

/// Words that describe the file.
const DESCRIPTION: usize = 4;
/// Words of the key of the slow tier.
const KEY: usize = KEY_BYTES / 4;
/// Words before the map.
const HEAD: usize = DESCRIPTION + KEY;
/// The largest reserve for moves in flight in a pool of compressed pages, as a part of its pages.
const RESERVE_PART: u64 = 16;
/// The first word; its last byte is the version of the layout.
const MAGIC: u32 = u32::from_be_bytes(*b"pgs\x03");

/// Where the content of the frames lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramesIn {
    /// In memory, each in a page of it.
    Memory,
    /// On a disk.
    Disk,
    /// In a pool of compressed pages with the memory of this many frames.
    Pool {
        /// The algorithm that compresses pages.
        algorithm: Algorithm,
        /// Pages of memory in the pool.
        pages: usize,
    },
}

/// What a store has room for.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Slots of the area.
    pub slots: usize,
    /// Frames that the placement fills.
    pub frames: usize,
    /// Frames beyond those, for moves in flight.
    pub spare: usize,
    /// Whether a checksum of each slot is kept.
    pub has_checksums: bool,
    /// Where the content of the frames lies.
    pub frames_in: FramesIn,
}

impl Room {
    /// Where the bits of the retired frames begin.
    fn retired(self) -> usize {
        HEAD + self.slots * if self.has_checksums { 2 } else { 1 }
    }

    fn all_frames(self) -> usize {
        self.frames + self.spare
    }

    fn layout(self) -> Layout {
        let (double_words, frames) = match self.frames_in {
            FramesIn::Memory => (0, self.all_frames()),
            FramesIn::Disk => (0, 0),
            FramesIn::Pool { pages, .. } => (self.all_frames(), pages),
        };
        let words = self.retired() + self.all_frames().div_ceil(u32::BITS as usize);
        Layout { words, double_words, frames }
    }

    fn head(self) -> [u32; DESCRIPTION] {
        let place = match self.frames_in {
            FramesIn::Memory => 0,
            FramesIn::Disk => 1,
            FramesIn::Pool { algorithm: Algorithm::Lz4, .. } => 2,
            FramesIn::Pool { algorithm: Algorithm::Zstd, .. } => 3,
        };
        let flags = u32::from(self.has_checksums) | place << 1;
        [MAGIC, self.slots as u32, self.all_frames() as u32, flags]
    }
}

/// Frames with their map.
///
/// Invariant: each frame is named by one slot of the map, free, retired, or held by one move in flight.
#[derive(Debug)]
pub struct FastStore {
    memory: Frames,
    room: Room,
    free: Vec<u32>,
    /// None without compression.
    pool: Option<Pool>,
}

impl FastStore {
    /// Empty frames.
    ///
    /// # Errors
    /// The operating system refuses the memory; the library of the compression refuses to start.
    pub fn new(room: Room) -> Result<FastStore, Error> {
        let memory = Frames::new("pagewise-swapd", room.layout())?;
        for (word, value) in memory.words().iter().zip(room.head()) {
            word.store(value, Relaxed);
        }
        FastStore::over(memory, room)
    }

    /// The frames and map that a process left in `file`.
    ///
    /// # Errors
    /// The file was made with other sizes, or is none of a swap server.
    pub fn of(file: OwnedFd, room: Room) -> Result<FastStore, Error> {
        let memory = Frames::of(file, room.layout())?;
        let head = memory.words().iter().map(|word| word.load(Relaxed));
        if !head.take(DESCRIPTION).eq(room.head()) {
            return Err(Error::Refused(
                "cannot take over: the frames are those of a server with other options".to_owned(),
            ));
        }
        FastStore::over(memory, room)
    }

    fn over(memory: Frames, room: Room) -> Result<FastStore, Error> {
        let mut is_named = vec![false; room.all_frames()];
        let retired = memory.words()[room.retired()..].iter().map(|word| word.load(Relaxed));
        let bits = retired.flat_map(|word| (0..u32::BITS).map(move |bit| word & 1 << bit != 0));
        let is_retired: Vec<bool> = bits.take(room.all_frames()).collect();
        for word in &memory.words()[HEAD..HEAD + room.slots] {
            let Some(frame) = Copies::of_word(word.load(Relaxed)).frame else { continue };
            let frame = frame as usize;
            match is_named.get_mut(frame) {
                Some(is_named) if !*is_named && !is_retired[frame] => *is_named = true,
                _ => {
                    let what = "cannot take over: the map of the frames is damaged";
                    return Err(Error::Refused(what.to_owned()));
                }
            }
        }
        let pool = match room.frames_in {
            FramesIn::Memory | FramesIn::Disk => None,
            FramesIn::Pool { algorithm, .. } => {
                Some(Pool::over(&memory, algorithm, |frame| is_named[frame])?)
            }
        };
        let mut free = Vec::with_capacity(room.all_frames());
        let is_free = |frame: &u32| !is_named[*frame as usize] && !is_retired[*frame as usize];
        free.extend((0..room.all_frames() as u32).rev().filter(is_free));
        Ok(FastStore { memory, room, free, pool })
    }

    /// Slots of the area.
    pub fn slots(&self) -> usize {
        self.room.slots
    }

    /// The memory file, which a successor needs.
    pub fn file(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.memory.as_fd()
    }

    /// Keeps the key of the slow tier for a successor.
    pub fn set_key(&self, key: &[u8; KEY_BYTES]) {
        let words = &self.memory.words()[DESCRIPTION..HEAD];
        for (word, bytes) in words.iter().zip(key.as_chunks().0) {
            word.store(u32::from_le_bytes(*bytes), Relaxed);
        }
    }

    /// The key of the slow tier; zeros if none was kept.
    pub fn key(&self) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        let words = &self.memory.words()[DESCRIPTION..HEAD];
        for (word, bytes) in words.iter().zip(key.as_chunks_mut().0) {
            *bytes = word.load(Relaxed).to_le_bytes();
        }
        key
    }

    fn map(&self, slot: u32) -> &AtomicU32 {
        assert!((slot as usize) < self.slots(), "slot {slot} of {}", self.slots());
        &self.memory.words()[HEAD + slot as usize]
    }

    /// The valid copies of a slot.
    pub fn copies(&self, slot: u32) -> Copies {
        Copies::of_word(self.map(slot).load(Relaxed))
    }

    /// Changes the valid copies of a slot. The caller owns the frame that they name no longer.
    pub fn set_copies(&self, slot: u32, copies: Copies) {
        self.map(slot).store(copies.word(), Release);
    }

    /// Gives every slot a valid copy in the slow tier: its content was there before.
    pub fn find_all_slow(&self) {
        for slot in 0..self.slots() as u32 {
            self.set_copies(slot, Copies { is_slow: true, ..Copies::NONE });
        }
    }

    /// A free frame.
    pub fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Makes a frame free that no slot names any more.
    pub fn give(&mut self, frame: u32) {
        if let Some(pool) = &mut self.pool {
            pool.free(&self.memory, frame);
        }
        self.free.push(frame);
    }

    /// Never hands out a frame again, nor does a successor. No slot names it.
    pub fn retire(&mut self, frame: u32) {
        let frames = self.room.all_frames();
        assert!((frame as usize) < frames, "frame {frame} of {frames}");
        if let Some(pool) = &mut self.pool {
            pool.lose(&self.memory, frame);
        }
        let word = &self.memory.words()[self.room.retired() + (frame / u32::BITS) as usize];
        word.fetch_or(1 << (frame % u32::BITS), Relaxed);
    }

    /// Frames that are free.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Copies the content of a frame in memory, compressed or not, to `target`.
    ///
    /// # Errors
    /// The compressed page is damaged.
    pub fn read(&mut self, frame: u32, target: &mut [u8]) -> Result<(), Damaged> {
        match &mut self.pool {
            Some(pool) => pool.get(&self.memory, frame, target),
            None => {
                target.copy_from_slice(self.memory.frame(frame as usize));
                Ok(())
            }
        }
    }

    /// Makes `page` the content of a frame in memory, compressed or not.
    ///
    /// # Errors
    /// The pool has no room for the compressed page; the frame keeps its content.
    pub fn write(&mut self, frame: u32, page: &[u8]) -> Result<(), Full> {
        match &mut self.pool {
            Some(pool) => pool.put(&mut self.memory, frame, page),
            None => {
                self.memory.frame_mut(frame as usize).copy_from_slice(page);
                Ok(())
            }
        }
    }

    /// Whether the pages are compressed.
    pub fn is_compressed(&self) -> bool {
        self.pool.is_some()
    }

    /// What the pool of compressed pages holds, if there is one.
    pub fn pool_counts(&self) -> Option<PoolCounts> {
        self.pool.as_ref().map(Pool::counts)
    }

    /// Pages of any content for which there is room beside free frames.
    pub fn room_beside_frames(&self) -> usize {
        self.pool.as_ref().map_or(usize::MAX, Pool::room)
    }

    /// The frames that the placement may fill: as many as pages of the present mean size fit into the pool, less a
    /// reserve for moves in flight. None without compression: then it is all of them.
    pub fn capacity(&self) -> Option<u64> {
        let fitting = self.pool.as_ref()?.fitting_pages();
        let reserve = (self.room.spare as u64).min(fitting / RESERVE_PART);
        Some((fitting - reserve).clamp(1, self.room.frames as u64))
    }

    /// Keeps the checksum of a slot's new content, if checksums are kept.
    pub fn set_checksum(&self, slot: u32, content: &[u8]) {
        if self.room.has_checksums {
            self.checksum(slot).store(checksum(content), Relaxed);
        }
    }

    /// Whether `content` is that of the slot, as far as checksums are kept.
    pub fn is_right(&self, slot: u32, content: &[u8]) -> bool {
        !self.room.has_checksums || self.checksum(slot).load(Relaxed) == checksum(content)
    }

    fn checksum(&self, slot: u32) -> &AtomicU32 {
        assert!((slot as usize) < self.slots(), "slot {slot} of {}", self.slots());
        &self.memory.words()[HEAD + self.slots() + slot as usize]
    }
}

fn checksum(content: &[u8]) -> u32 {
    XxHash3_64::oneshot(content) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(error: &Error, expected: &str) {
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn every_state_of_a_slot_survives_its_word() {
        for frame in [None, Some(0), Some((1 << 30) - 2)] {
            for (is_slow, is_lost) in [(false, false), (true, false), (false, true)] {
                let copies = Copies { frame, is_slow, is_lost };
                assert_eq!(Copies::of_word(copies.word()), copies);
                assert_eq!(copies.is_void(), copies.word() == 0);
            }
        }
    }

    const ROOM: Room =
        Room { slots: 10, frames: 2, spare: 1, has_checksums: true, frames_in: FramesIn::Memory };
    const PAGE: [u8; 4096] = [5; 4096];

    fn content(store: &mut FastStore, frame: u32) -> [u8; 4096] {
        let mut content = [0; 4096];
        store.read(frame, &mut content).unwrap();
        content
    }

    #[test]
    fn a_successor_finds_the_map_and_frees_what_no_slot_names() {
        let mut store = FastStore::new(ROOM).unwrap();
        let (first, second) = (store.take().unwrap(), store.take().unwrap());
        store.write(first, &PAGE).unwrap();
        store.set_checksum(9, &PAGE);
        store.set_copies(9, Copies { frame: Some(first), ..Copies::NONE });
        let key = std::array::from_fn(|byte| byte as u8);
        assert_eq!(store.key(), [0; KEY_BYTES]);
        store.set_key(&key);
        assert_eq!((first, second, store.free()), (0, 1, 1));
        let file = store.file().try_clone_to_owned().unwrap();
        drop(store);
        let of = |room: Room| FastStore::of(file.try_clone().unwrap(), room);
        is_refused(&of(Room { frames: 3, ..ROOM }).unwrap_err(), "bytes");
        let other = Room { slots: 20, has_checksums: false, ..ROOM };
        is_refused(&of(other).unwrap_err(), "options");
        let mut store = of(ROOM).unwrap();
        assert_eq!((store.copies(9).frame, store.free(), store.take()), (Some(0), 2, Some(1)));
        assert_eq!(store.key(), key);
        let found = content(&mut store, 0);
        assert!(store.is_right(9, &found) && !store.is_right(9, &[4; 4096]));
        store.set_copies(3, Copies { frame: Some(0), ..Copies::NONE });
        drop(store);
        is_refused(&of(ROOM).unwrap_err(), "damaged");
    }

    #[test]
    fn a_successor_does_not_use_retired_frames_of_a_disk() {
        let room = Room { frames: 69, frames_in: FramesIn::Disk, ..ROOM };
        let mut store = FastStore::new(room).unwrap();
        [0, 31, 32, 69].into_iter().for_each(|frame| store.retire(frame));
        let file = store.file().try_clone_to_owned().unwrap();
        drop(store);
        let mut store = FastStore::of(file, room).unwrap();
        let free: Vec<u32> = std::iter::from_fn(|| store.take()).collect();
        assert_eq!(
            free,
            (0..70).filter(|frame| ![0, 31, 32, 69].contains(frame)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_successor_finds_compressed_pages_and_frees_what_no_slot_names() {
        for algorithm in Algorithm::ALL {
            let frames_in = FramesIn::Pool { algorithm, pages: 2 };
            let room = Room { frames: 8, frames_in, ..ROOM };
            let mut store = FastStore::new(room).unwrap();
            assert!(store.capacity() == Some(1) && store.room_beside_frames() == 1);
            let text: [u8; 4096] = std::array::from_fn(|byte| (byte / 7) as u8);
            for (slot, page) in [(0, &PAGE), (1, &text), (2, &text)] {
                let frame = store.take().unwrap();
                store.write(frame, page).unwrap();
                if slot < 2 {
                    store.set_copies(slot, Copies { frame: Some(frame), ..Copies::NONE });
                }
            }
            // Three frames are in use, and the last was not named before the server was killed.
            let counts = store.pool_counts().unwrap();
            assert_eq!((counts.pages, counts.filled_pages, store.free()), (3, 1, 6));
            let file = store.file().try_clone_to_owned().unwrap();
            drop(store);
            let of = |room: Room| FastStore::of(file.try_clone().unwrap(), room);
            is_refused(&of(Room { frames_in: FramesIn::Memory, ..room }).unwrap_err(), "bytes");
            let other = Algorithm::ALL.into_iter().find(|other| *other != algorithm).unwrap();
            let other = FramesIn::Pool { algorithm: other, pages: 2 };
            is_refused(&of(Room { frames_in: other, ..room }).unwrap_err(), "options");
            let mut store = of(room).unwrap();
            let after = store.pool_counts().unwrap();
            assert_eq!((after.pages, after.filled_pages, store.free()), (2, 1, 7));
            assert!(after.bytes > 0 && after.bytes < counts.bytes);
            let [first, second] = [0, 1].map(|slot| store.copies(slot).frame.unwrap());
            assert_eq!((content(&mut store, first), content(&mut store, second)), (PAGE, text));
            // A frame that failed is gone, and so is its page.
            store.set_copies(1, Copies::NONE);
            store.retire(second);
            store.set_copies(0, Copies::NONE);
            store.give(first);
            drop(store);
            let store = of(room).unwrap();
            assert_eq!((store.free(), store.pool_counts()), (8, Some(PoolCounts::default())));
        }
    }
}
