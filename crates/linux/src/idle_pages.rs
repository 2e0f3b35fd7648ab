//! The kernel's idle bits: which pages no process has accessed for a while.
//!
//! Contract: the kernel clears a set bit when a process accesses the page through its page tables or by a system call,
//! and when the page is freed (Documentation/admin-guide/mm/idle_page_tracking.rst, CONFIG_IDLE_PAGE_TRACKING). Each
//! frame of memory has one bit, in words of 64. The kernel ignores zeros that are written, so setting one bit leaves
//! the others as they are. Of a large folio only the first frame has a bit; the others read as 0. Folios begin at a
//! multiple of their size.

use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, pread, pwrite};

use crate::Error;
use crate::root::{Root, open_at};

/// The file of the bits.
pub const BITMAP: &str = "/sys/kernel/mm/page_idle/bitmap";
const FLAGS: &str = "/proc/kpageflags";
const WORD_BYTES: u64 = 8;
/// `KPF_COMPOUND_HEAD` and `KPF_COMPOUND_TAIL` of linux/kernel-page-flags.h.
const IS_HEAD: u64 = 1 << 15;
const IS_TAIL: u64 = 1 << 16;
/// The largest folio, as a power of two of frames: 1 GiB of 4 KiB.
const ORDER_MAX: u32 = 18;

/// The idle bits of all frames of memory.
#[derive(Debug)]
pub struct IdleBits {
    bitmap: OwnedFd,
    flags: OwnedFd,
}

impl IdleBits {
    /// Opens the bits, which only root may.
    ///
    /// # Errors
    /// The kernel does not track idle pages, or the operating system refuses.
    pub fn open(root: &Root) -> Result<IdleBits, Error> {
        let bitmap = openat(CWD, root.path(BITMAP), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| Error::refused("open", BITMAP, error.into()))?;
        let flags = open_at(CWD, root.path(FLAGS), OFlags::empty())
            .map_err(|error| Error::refused("open", FLAGS, error.into()))?;
        Ok(IdleBits { bitmap, flags })
    }

    /// Marks the folio of a frame as idle. The kernel ignores this for memory that it does not reclaim.
    ///
    /// # Errors
    /// The operating system refuses, such as for a frame that does not exist.
    pub fn mark(&self, frame: u64) -> Result<(), Errno> {
        let first = self.first_of_folio(frame)?;
        let word = 1_u64 << (first % u64::from(u64::BITS));
        pwrite(&self.bitmap, &word.to_ne_bytes(), place(first)).map(|_| ())
    }

    /// Whether no process has accessed the folio of a frame since it was marked.
    ///
    /// # Errors
    /// The operating system refuses, such as for a frame that does not exist.
    pub fn is_idle(&self, frame: u64) -> Result<bool, Errno> {
        let first = self.first_of_folio(frame)?;
        let word = word(&self.bitmap, place(first))?;
        Ok(word >> (first % u64::from(u64::BITS)) & 1 == 1)
    }

    /// The first frame of the folio that a frame belongs to.
    fn first_of_folio(&self, frame: u64) -> Result<u64, Errno> {
        if self.flags_of(frame)? & IS_TAIL == 0 {
            return Ok(frame);
        }
        for order in 1..=ORDER_MAX {
            let first = frame >> order << order;
            // A smaller block than the folio begins with its head or with a tail, so the first head found is its own.
            if first != frame && self.flags_of(first)? & IS_HEAD != 0 {
                return Ok(first);
            }
        }
        Ok(frame)
    }

    fn flags_of(&self, frame: u64) -> Result<u64, Errno> {
        word(&self.flags, frame.saturating_mul(WORD_BYTES))
    }
}

/// Where the word with the bit of a frame is.
fn place(frame: u64) -> u64 {
    frame / u64::from(u64::BITS) * WORD_BYTES
}

fn word(file: &OwnedFd, place: u64) -> Result<u64, Errno> {
    let mut word = [0; WORD_BYTES as usize];
    match pread(file, &mut word, place)? {
        length if length == word.len() => Ok(u64::from_ne_bytes(word)),
        _ => Err(Errno::NXIO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folio_has_the_bit_of_its_first_frame() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        std::fs::create_dir_all(root.path("/sys/kernel/mm/page_idle")).unwrap();
        std::fs::create_dir_all(root.path("/proc")).unwrap();
        assert!(IdleBits::open(&root).unwrap_err().to_string().contains("page_idle/bitmap"));
        std::fs::write(root.path(BITMAP), [0_u8; 32]).unwrap();
        // Single frames, but for a folio of 4 frames at 4, one of 8 at 72 and one of 2 at 80.
        let mut flags = vec![0_u64; 256];
        for (first, frames) in [(4, 4), (72, 8), (80, 2)] {
            flags[first] = IS_HEAD;
            flags[first + 1..first + frames].fill(IS_TAIL);
        }
        let bytes: Vec<u8> = flags.iter().flat_map(|flags| flags.to_ne_bytes()).collect();
        std::fs::write(root.path(FLAGS), bytes).unwrap();
        let bits = IdleBits::open(&root).unwrap();
        for (frame, first) in [(3, 3), (4, 4), (7, 4), (71, 71), (79, 72), (73, 72), (81, 80)] {
            assert_eq!(bits.first_of_folio(frame), Ok(first), "{frame}");
        }
        assert_eq!(bits.is_idle(79), Ok(false));
        bits.mark(79).unwrap();
        for frame in 72..80 {
            assert_eq!(bits.is_idle(frame), Ok(true), "{frame}");
        }
        let written = std::fs::read(root.path(BITMAP)).unwrap();
        let words: Vec<u64> =
            written.as_chunks().0.iter().map(|&word| u64::from_ne_bytes(word)).collect();
        assert_eq!(words, [0, 1 << 8, 0, 0]);
        assert_eq!(bits.is_idle(80), Ok(false));
        assert_eq!(bits.is_idle(256), Err(Errno::NXIO));
    }
}
