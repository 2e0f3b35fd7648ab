//! Compressed pages in locked memory: the content of each frame is a blob in a chain of pieces. A page that repeats one
//! word takes no piece, and a page that compresses badly is stored as it is.
//!
//! The pieces fill the frames of a memory file, and a double word for each frame says where its blob is. It changes
//! with a single store after the pieces that it names are written, and before those of the blob before are free. So a
//! successor process that finds the file in any state finds each blob before or after a change, never between. What is
//! free is not in the file: a successor finds it by following the chains.

use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::atomic::compiler_fence;

use linux::frames::{FRAME_BYTES, Frames};

use super::codec::{Algorithm, Codec, PACKED_BYTES};
use crate::Error;
use crate::carrier::SLOT_BYTES;

/// Bytes of a piece: the number of the next one, and a part of a blob.
const PIECE_BYTES: usize = 128;
/// Bytes of a blob in each piece.
const PART_BYTES: usize = PIECE_BYTES - size_of::<u32>();
const PIECES_PER_FRAME: usize = FRAME_BYTES / PIECE_BYTES;
/// Pieces of a page that is stored as it is, which is the most that a page takes.
const PIECES_MAX: usize = SLOT_BYTES.div_ceil(PART_BYTES);
/// The largest compressed page that is stored so: a larger one would save less than an eighth.
const PACKED_MAX: usize = (PIECES_MAX - PIECES_MAX / 8) * PART_BYTES;
/// No next piece.
const END: u32 = u32::MAX;
/// Pages that do not compress which the mean size counts beside those that are stored, so that a few pages at the start
/// do not decide it.
const PRIOR_PAGES: u64 = 16;

/// The content of a frame, and its double word: 32 bits of the first piece or the repeated word, 16 bits of the bytes,
/// and the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blob {
    /// None was stored.
    None,
    /// The page repeats this word.
    Filled(u32),
    /// The page as it is, in the chain that begins with this piece.
    Raw { first: u32 },
    /// The compressed page.
    Packed { first: u32, bytes: u16 },
}

impl Blob {
    fn word(self) -> u64 {
        let word = |kind: u64, bytes: u16, value: u32| {
            kind << 48 | u64::from(bytes) << 32 | u64::from(value)
        };
        match self {
            Blob::None => 0,
            Blob::Filled(value) => word(1, 0, value),
            Blob::Raw { first } => word(2, SLOT_BYTES as u16, first),
            Blob::Packed { first, bytes } => word(3, bytes, first),
        }
    }

    /// The blob of a double word; none if no blob has it.
    fn of_word(word: u64) -> Option<Blob> {
        let (value, bytes) = (word as u32, (word >> 32) as u16);
        let blob = match word >> 48 {
            0 => Blob::None,
            1 => Blob::Filled(value),
            2 => Blob::Raw { first: value },
            _ => Blob::Packed { first: value, bytes },
        };
        let is_size =
            !matches!(blob, Blob::Packed { bytes, .. } if usize::from(bytes) > PACKED_MAX);
        (is_size && blob.word() == word).then_some(blob)
    }

    /// The first piece of the blob, and the bytes in its chain; none if it has no piece.
    fn chain(self) -> Option<(u32, usize)> {
        match self {
            Blob::None | Blob::Filled(_) => None,
            Blob::Raw { first } => Some((first, SLOT_BYTES)),
            Blob::Packed { first, bytes } => Some((first, usize::from(bytes))),
        }
    }
}

/// The page cannot be stored: too few pieces are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The content of a frame cannot be read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

/// What a pool holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounts {
    /// Bytes of the pieces in use.
    pub bytes: u64,
    /// Pages.
    pub pages: u64,
    /// Pages that repeat one word, which take no piece.
    pub filled_pages: u64,
    /// Pages that are stored as they are.
    pub raw_pages: u64,
}

/// The blobs of all frames.
///
/// Invariant: each piece is in one blob's chain, free, or lost with a frame that failed.
pub(super) struct Pool {
    codec: Codec,
    pieces: usize,
    free: Vec<u32>,
    /// A compressed page.
    packed: Box<[u8; PACKED_BYTES]>,
    /// Without the bytes.
    counts: PoolCounts,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl Pool {
    /// The pool of a memory file. Only the frames that `is_named` have a blob that counts; those of other frames are
    /// of a move that a killed server did not end.
    ///
    /// # Errors
    /// A chain is damaged; the library of the algorithm refuses to start.
    pub fn over(
        memory: &Frames,
        algorithm: Algorithm,
        is_named: impl Fn(usize) -> bool,
    ) -> Result<Pool, Error> {
        let pieces = memory.count() * PIECES_PER_FRAME;
        let mut pool = Pool {
            codec: Codec::new(algorithm)?,
            pieces,
            free: Vec::with_capacity(pieces),
            packed: Box::new([0; PACKED_BYTES]),
            counts: PoolCounts::default(),
        };
        let mut is_used = vec![false; pieces];
        for (frame, word) in memory.double_words().iter().enumerate() {
            if !is_named(frame) {
                word.store(Blob::None.word(), Relaxed);
                continue;
            }
            let blob = Blob::of_word(word.load(Relaxed)).filter(|blob| *blob != Blob::None);
            let is_whole = blob.is_some_and(|blob| take_chain(memory, blob, &mut is_used));
            if !is_whole {
                let what = "cannot take over: the compressed pages are damaged";
                return Err(Error::Refused(what.to_owned()));
            }
            pool.count(blob.unwrap_or(Blob::None), 1);
        }
        // The first pieces are taken first.
        pool.free.extend((0..pieces as u32).rev().filter(|&piece| !is_used[piece as usize]));
        Ok(pool)
    }

    /// Stores a page as the content of a frame, in place of the one before.
    pub fn put(&mut self, memory: &mut Frames, frame: u32, page: &[u8]) -> Result<(), Full> {
        let blob = self.write(memory, page)?;
        self.name(memory, frame, blob);
        Ok(())
    }

    /// Writes the pieces of a page.
    fn write(&mut self, memory: &mut Frames, page: &[u8]) -> Result<Blob, Full> {
        if let Some(word) = repeated_word(page) {
            return Ok(Blob::Filled(word));
        }
        let packed = self.codec.pack(page, &mut self.packed[..]);
        let packed = packed.filter(|&bytes| bytes <= PACKED_MAX);
        let content = packed.map_or(page, |bytes| &self.packed[..bytes]);
        let count = content.len().div_ceil(PART_BYTES);
        let begin = self.free.len().checked_sub(count).ok_or(Full)?;
        let chain = &self.free[begin..];
        let mut next = END;
        // Backwards, since each piece names the next one. The order of the chain is the one in which pieces are freed
        // and taken, so the pieces of a blob tend to be neighbours.
        for (part, &piece) in content.chunks(PART_BYTES).rev().zip(chain) {
            let target = piece_of_mut(memory, piece);
            target[..size_of::<u32>()].copy_from_slice(&next.to_le_bytes());
            target[size_of::<u32>()..][..part.len()].copy_from_slice(part);
            next = piece;
        }
        self.free.truncate(begin);
        Ok(match packed {
            Some(bytes) => Blob::Packed { first: next, bytes: bytes as u16 },
            None => Blob::Raw { first: next },
        })
    }

    /// Makes a blob the content of a frame, and frees the one before.
    fn name(&mut self, memory: &Frames, frame: u32, blob: Blob) {
        let before = self.replace(memory, frame, blob);
        self.free_pieces(memory, before);
        self.count(blob, 1);
    }

    fn replace(&mut self, memory: &Frames, frame: u32, blob: Blob) -> Blob {
        let word = &memory.double_words()[frame as usize];
        let before = Blob::of_word(word.load(Relaxed)).unwrap_or(Blob::None);
        word.store(blob.word(), Release);
        // The pieces of the blob before are written again only after that.
        compiler_fence(SeqCst);
        self.count(before, -1);
        before
    }

    fn free_pieces(&mut self, memory: &Frames, blob: Blob) {
        let Some((mut piece, bytes)) = blob.chain() else { return };
        let (begin, count) = (self.free.len(), bytes.div_ceil(PART_BYTES));
        for _ in 0..count {
            // A damaged chain loses its rest.
            if piece as usize >= self.pieces || self.free.len() == self.pieces {
                break;
            }
            self.free.push(piece);
            piece = next(piece_of(memory, piece));
        }
        self.free[begin..].reverse();
    }

    /// Frees the content of a frame, which nothing names any more.
    pub fn free(&mut self, memory: &Frames, frame: u32) {
        let before = self.replace(memory, frame, Blob::None);
        self.free_pieces(memory, before);
    }

    /// Forgets the content of a frame that failed. Its pieces are lost until a successor takes over, since the chain
    /// may be damaged.
    pub fn lose(&mut self, memory: &Frames, frame: u32) {
        self.replace(memory, frame, Blob::None);
    }

    /// Gets the content of a frame.
    pub fn get(&mut self, memory: &Frames, frame: u32, target: &mut [u8]) -> Result<(), Damaged> {
        let word = memory.double_words()[frame as usize].load(Relaxed);
        match Blob::of_word(word).ok_or(Damaged)? {
            Blob::None => Err(Damaged),
            Blob::Filled(word) => {
                target.as_chunks_mut::<4>().0.fill(word.to_ne_bytes());
                Ok(())
            }
            Blob::Raw { first } => gather(memory, first, target),
            Blob::Packed { first, bytes } => {
                let packed = &mut self.packed[..usize::from(bytes)];
                gather(memory, first, packed)?;
                if self.codec.unpack(packed, target) { Ok(()) } else { Err(Damaged) }
            }
        }
    }

    /// Counts a blob, or takes it from the counts.
    fn count(&mut self, blob: Blob, change: i64) {
        let PoolCounts { pages, filled_pages, raw_pages, .. } = &mut self.counts;
        let add = |count: &mut u64| *count = count.wrapping_add_signed(change);
        match blob {
            Blob::None => return,
            Blob::Filled(_) => add(filled_pages),
            Blob::Raw { .. } => add(raw_pages),
            Blob::Packed { .. } => {}
        }
        add(pages);
    }

    /// What the pool holds.
    pub fn counts(&self) -> PoolCounts {
        let bytes = ((self.pieces - self.free.len()) * PIECE_BYTES) as u64;
        PoolCounts { bytes, ..self.counts }
    }

    /// Pages of any content for which there is room.
    pub fn room(&self) -> usize {
        self.free.len() / PIECES_MAX
    }

    /// Pages that fit if all are as large as those that are stored are in the mean.
    pub fn fitting_pages(&self) -> u64 {
        let used = (self.pieces - self.free.len()) as u64 + PRIOR_PAGES * PIECES_MAX as u64;
        self.pieces as u64 * (self.counts.pages + PRIOR_PAGES) / used
    }
}

/// Takes the pieces of a blob; returns whether they are there, no other blob has them, and the chain ends.
fn take_chain(memory: &Frames, blob: Blob, is_used: &mut [bool]) -> bool {
    let Some((first, bytes)) = blob.chain() else { return true };
    let mut piece = first;
    for _ in 0..bytes.div_ceil(PART_BYTES) {
        match is_used.get_mut(piece as usize) {
            Some(is_used) if !*is_used => *is_used = true,
            _ => return false,
        }
        piece = next(piece_of(memory, piece));
    }
    piece == END
}

/// Copies what a chain holds.
fn gather(memory: &Frames, first: u32, target: &mut [u8]) -> Result<(), Damaged> {
    let (pieces, mut piece) = (memory.count() * PIECES_PER_FRAME, first);
    for part in target.chunks_mut(PART_BYTES) {
        if piece as usize >= pieces {
            return Err(Damaged);
        }
        let content = piece_of(memory, piece);
        part.copy_from_slice(&content[size_of::<u32>()..][..part.len()]);
        piece = next(content);
    }
    if piece == END { Ok(()) } else { Err(Damaged) }
}

/// The word that a page repeats, if it does.
fn repeated_word(page: &[u8]) -> Option<u32> {
    let words = page.as_chunks::<4>().0;
    let first = words.first()?;
    // Most pages differ in their first words or in their last one.
    let is_repeated = words.last() == Some(first) && words.iter().all(|word| word == first);
    is_repeated.then(|| u32::from_ne_bytes(*first))
}

fn next(piece: &[u8]) -> u32 {
    let (number, _) = piece.split_first_chunk().expect("a piece begins with a number");
    u32::from_le_bytes(*number)
}

fn place(piece: u32) -> (usize, std::ops::Range<usize>) {
    let piece = piece as usize;
    let begin = piece % PIECES_PER_FRAME * PIECE_BYTES;
    (piece / PIECES_PER_FRAME, begin..begin + PIECE_BYTES)
}

fn piece_of(memory: &Frames, piece: u32) -> &[u8] {
    let (frame, bytes) = place(piece);
    &memory.frame(frame)[bytes]
}

fn piece_of_mut(memory: &mut Frames, piece: u32) -> &mut [u8] {
    let (frame, bytes) = place(piece);
    &mut memory.frame_mut(frame)[bytes]
}

#[cfg(test)]
mod tests;
