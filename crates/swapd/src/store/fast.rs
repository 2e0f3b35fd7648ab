//! The fast tier in locked memory, and the map of all slots beside it in the same memory file.
//!
//! A word of the map changes with a single store after the data that it names is in place, so a successor process
//! that finds the file in any state finds each slot before or after a move, never between.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, Release};

use linux::frames::{FRAME_BYTES, Frames};
use twox_hash::XxHash3_64;

use super::KEY_BYTES;
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
/// The first word; its last byte is the version of the layout.
const MAGIC: u32 = u32::from_be_bytes(*b"pgs\x02");

/// Frames with their map.
///
/// Invariant: each frame is named by one slot of the map, free, retired, or held by one move in flight.
#[derive(Debug)]
pub struct FastStore {
    frames: Frames,
    slots: usize,
    has_checksums: bool,
    free: Vec<u32>,
}

impl FastStore {
    /// Empty frames for an area of `slots` slots, with room for a checksum of each slot if asked.
    ///
    /// # Errors
    /// The operating system refuses the memory.
    pub fn new(slots: usize, frames: usize, has_checksums: bool) -> Result<FastStore, Error> {
        let words = words(slots, has_checksums);
        let store = Frames::new("pagewise-swapd", words, frames)?;
        let head = [MAGIC, slots as u32, frames as u32, u32::from(has_checksums)];
        for (word, value) in store.words().iter().zip(head) {
            word.store(value, Relaxed);
        }
        FastStore::over(store, slots, has_checksums)
    }

    /// The frames and map that a process left in `file`.
    ///
    /// # Errors
    /// The file was made with other sizes, or is none of a swap server.
    pub fn of(
        file: OwnedFd,
        slots: usize,
        frames: usize,
        has_checksums: bool,
    ) -> Result<FastStore, Error> {
        let store = Frames::of(file, words(slots, has_checksums), frames)?;
        let expected = [MAGIC, slots as u32, frames as u32, u32::from(has_checksums)];
        let head = store.words().iter().map(|word| word.load(Relaxed));
        if !head.take(DESCRIPTION).eq(expected) {
            return Err(Error::Refused(
                "cannot take over: the frames are those of a server with other options".to_owned(),
            ));
        }
        FastStore::over(store, slots, has_checksums)
    }

    fn over(frames: Frames, slots: usize, has_checksums: bool) -> Result<FastStore, Error> {
        let mut is_used = vec![false; frames.count()];
        for word in &frames.words()[HEAD..HEAD + slots] {
            let Some(frame) = Copies::of_word(word.load(Relaxed)).frame else { continue };
            match is_used.get_mut(frame as usize) {
                Some(is_used) if !*is_used => *is_used = true,
                _ => {
                    let what = "cannot take over: the map of the frames is damaged";
                    return Err(Error::Refused(what.to_owned()));
                }
            }
        }
        let mut free = Vec::with_capacity(frames.count());
        free.extend((0..frames.count() as u32).rev().filter(|&frame| !is_used[frame as usize]));
        Ok(FastStore { frames, slots, has_checksums, free })
    }

    /// Slots of the area.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The memory file, which a successor needs.
    pub fn file(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.frames.as_fd()
    }

    /// Keeps the key of the slow tier for a successor.
    pub fn set_key(&self, key: &[u8; KEY_BYTES]) {
        let words = &self.frames.words()[DESCRIPTION..HEAD];
        for (word, bytes) in words.iter().zip(key.as_chunks().0) {
            word.store(u32::from_le_bytes(*bytes), Relaxed);
        }
    }

    /// The key of the slow tier; zeros if none was kept.
    pub fn key(&self) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        let words = &self.frames.words()[DESCRIPTION..HEAD];
        for (word, bytes) in words.iter().zip(key.as_chunks_mut().0) {
            *bytes = word.load(Relaxed).to_le_bytes();
        }
        key
    }

    fn map(&self, slot: u32) -> &AtomicU32 {
        assert!((slot as usize) < self.slots, "slot {slot} of {}", self.slots);
        &self.frames.words()[HEAD + slot as usize]
    }

    /// The valid copies of a slot.
    pub fn copies(&self, slot: u32) -> Copies {
        Copies::of_word(self.map(slot).load(Relaxed))
    }

    /// Changes the valid copies of a slot. The caller owns the frame that they name no longer.
    pub fn set_copies(&self, slot: u32, copies: Copies) {
        self.map(slot).store(copies.word(), Release);
    }

    /// A free frame.
    pub fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Makes a frame free that no slot names any more.
    pub fn give(&mut self, frame: u32) {
        self.free.push(frame);
    }

    /// Frames that are free.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// The content of a frame.
    pub fn frame(&self, frame: u32) -> &[u8; FRAME_BYTES] {
        self.frames.frame(frame as usize)
    }

    /// The content of a frame, to be changed.
    pub fn frame_mut(&mut self, frame: u32) -> &mut [u8; FRAME_BYTES] {
        self.frames.frame_mut(frame as usize)
    }

    /// Keeps the checksum of a slot's new content, if checksums are kept.
    pub fn set_checksum(&self, slot: u32, content: &[u8]) {
        if self.has_checksums {
            self.checksum(slot).store(checksum(content), Relaxed);
        }
    }

    /// Whether `content` is that of the slot, as far as checksums are kept.
    pub fn is_right(&self, slot: u32, content: &[u8]) -> bool {
        !self.has_checksums || self.checksum(slot).load(Relaxed) == checksum(content)
    }

    fn checksum(&self, slot: u32) -> &AtomicU32 {
        assert!((slot as usize) < self.slots, "slot {slot} of {}", self.slots);
        &self.frames.words()[HEAD + self.slots + slot as usize]
    }
}

fn words(slots: usize, has_checksums: bool) -> usize {
    HEAD + slots * if has_checksums { 2 } else { 1 }
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

    #[test]
    fn a_successor_finds_the_map_and_frees_what_no_slot_names() {
        let mut store = FastStore::new(10, 3, true).unwrap();
        let (first, second) = (store.take().unwrap(), store.take().unwrap());
        store.frame_mut(first).fill(5);
        store.set_checksum(9, &[5; 4096]);
        store.set_copies(9, Copies { frame: Some(first), ..Copies::NONE });
        let key = std::array::from_fn(|byte| byte as u8);
        assert_eq!(store.key(), [0; KEY_BYTES]);
        store.set_key(&key);
        assert_eq!((first, second, store.free()), (0, 1, 1));
        let file = store.file().try_clone_to_owned().unwrap();
        drop(store);
        is_refused(&FastStore::of(file.try_clone().unwrap(), 10, 4, true).unwrap_err(), "bytes");
        is_refused(&FastStore::of(file.try_clone().unwrap(), 20, 3, false).unwrap_err(), "options");
        let mut store = FastStore::of(file.try_clone().unwrap(), 10, 3, true).unwrap();
        assert_eq!((store.copies(9).frame, store.free(), store.take()), (Some(0), 2, Some(1)));
        assert_eq!(store.key(), key);
        assert!(store.is_right(9, store.frame(0)) && !store.is_right(9, &[4; 4096]));
        store.set_copies(3, Copies { frame: Some(0), ..Copies::NONE });
        drop(store);
        is_refused(&FastStore::of(file, 10, 3, true).unwrap_err(), "damaged");
    }
}
