//! Frames: pages of memory that is populated and locked, with tables of words beside them. They lie in a memory
//! file, so that another process that gets its descriptor finds them after the end of this one.
//!
//! Contract: only one process reads and writes the file at a time. Who keeps the descriptor for a successor maps it
//! only as [`Kept`].
#![allow(unsafe_code, reason = "memory maps have no safe wrapper")]

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mlock, mmap, munmap};

use crate::Error;

/// The bytes of a frame.
pub const FRAME_BYTES: usize = 4096;

/// What a memory file has room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Words of 32 bits.
    pub words: usize,
    /// Words of 64 bits.
    pub double_words: usize,
    /// Frames.
    pub frames: usize,
}

impl Layout {
    /// Where the double words begin.
    fn double_words_begin(self) -> usize {
        (self.words * size_of::<AtomicU32>()).next_multiple_of(size_of::<AtomicU64>())
    }

    /// Where the frames begin.
    fn frames_begin(self) -> usize {
        let end = self.double_words_begin() + self.double_words * size_of::<AtomicU64>();
        end.next_multiple_of(FRAME_BYTES)
    }

    /// Bytes of the file.
    fn bytes(self) -> usize {
        self.frames_begin() + self.frames * FRAME_BYTES
    }
}

/// Tables of words and pages of memory in one locked memory file: first the words, then the double words, then the
/// frames from the next page boundary.
#[derive(Debug)]
pub struct Frames {
    file: OwnedFd,
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the mapping belongs to this value, as a `Vec` does, and no thread keeps a part of it elsewhere.
unsafe impl Send for Frames {}

impl Frames {
    /// A new memory file of zeros; every page is present and locked.
    ///
    /// # Errors
    /// The operating system refuses: too little memory, or more than RLIMIT_MEMLOCK without CAP_IPC_LOCK.
    pub fn new(name: &str, layout: Layout) -> Result<Frames, Error> {
        let file = memfd_create(name, MemfdFlags::CLOEXEC)
            .map_err(|error| Error::call("memfd_create", error))?;
        let bytes = layout.bytes() as u64;
        ftruncate(&file, bytes).map_err(|error| Error::call("ftruncate", error))?;
        Frames::of(file, layout)
    }

    /// The frames in a memory file that [`Frames::new`] made with the same layout, perhaps in another process.
    ///
    /// # Errors
    /// The file has another size; the operating system refuses.
    pub fn of(file: OwnedFd, layout: Layout) -> Result<Frames, Error> {
        let bytes = layout.bytes();
        let found = fstat(&file).map_err(|error| Error::call("fstat", error))?.st_size;
        if found as u64 != bytes as u64 {
            let what = format!("has {found} bytes where {bytes} were expected");
            return Err(Error::unexpected("the file of frames", what));
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the kernel chooses a free range for the new mapping.
        let start = unsafe { mmap(ptr::null_mut(), bytes.max(1), access, flags, &file, 0) };
        let start = start.map_err(|error| Error::call("mmap", error))?;
        let place = NonNull::new(start.cast()).expect("mmap returns a place or an error");
        let frames = Frames { file, start: place, layout };
        // SAFETY: the range is the mapping made above; locking changes none of its contents.
        unsafe { mlock(start, bytes) }.map_err(|error| Error::call("mlock", error))?;
        Ok(frames)
    }

    /// The table of words.
    pub fn words(&self) -> &[AtomicU32] {
        // SAFETY: `words` words are mapped from `start`, aligned to a page, until `drop`. The frames begin behind
        // them, so no `&mut` of a frame reaches them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.layout.words) }
    }

    /// The table of double words.
    pub fn double_words(&self) -> &[AtomicU64] {
        let begin = self.start.as_ptr().wrapping_add(self.layout.double_words_begin());
        // SAFETY: as in `words`, behind the words and aligned to a double word.
        unsafe { std::slice::from_raw_parts(begin.cast(), self.layout.double_words) }
    }

    /// The number of frames.
    pub fn count(&self) -> usize {
        self.layout.frames
    }

    fn place(&self, frame: usize) -> *mut [u8; FRAME_BYTES] {
        assert!(frame < self.layout.frames, "frame {frame} of {}", self.layout.frames);
        let begin = self.layout.frames_begin();
        self.start.as_ptr().wrapping_add(begin + frame * FRAME_BYTES).cast()
    }

    /// The content of a frame.
    pub fn frame(&self, frame: usize) -> &[u8; FRAME_BYTES] {
        // SAFETY: `place` is inside the mapping, which no other process maps; `frame_mut` needs `&mut self`.
        unsafe { &*self.place(frame) }
    }

    /// The content of a frame, to be changed.
    pub fn frame_mut(&mut self, frame: usize) -> &mut [u8; FRAME_BYTES] {
        // SAFETY: as in `frame`; `&mut self` excludes every other reference to a frame.
        unsafe { &mut *self.place(frame) }
    }
}

impl AsFd for Frames {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        let bytes = self.layout.bytes();
        // SAFETY: mapped by `of` with this length, and no reference outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), bytes.max(1)) };
    }
}

/// The pages of a memory file, which stay in memory even after the end of the process that locked them.
///
/// A lock ends with its process. Before a successor has its own, the kernel may write the pages to swap, from where a
/// server of swap could never read them.
#[derive(Debug)]
pub struct Kept {
    start: NonNull<u8>,
    bytes: usize,
}

impl Kept {
    /// Locks the pages of the memory file behind a descriptor of this process.
    ///
    /// # Errors
    /// There is no such descriptor; the operating system refuses.
    pub fn of_descriptor(number: i32) -> Result<Kept, Error> {
        let path = format!("/proc/self/fd/{number}");
        let file = File::open(&path).map_err(|error| Error::refused("open", &path, error))?;
        let bytes = fstat(&file).map_err(|error| Error::call("fstat", error))?.st_size as usize;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the kernel chooses a free range for the new mapping, through which nothing is read.
        let start =
            unsafe { mmap(ptr::null_mut(), bytes.max(1), ProtFlags::READ, flags, &file, 0) };
        let start = start.map_err(|error| Error::call("mmap", error))?;
        let place = NonNull::new(start.cast()).expect("mmap returns a place or an error");
        let kept = Kept { start: place, bytes };
        // SAFETY: the range is the mapping made above; locking changes none of its contents.
        unsafe { mlock(start, bytes) }.map_err(|error| Error::call("mlock", error))?;
        Ok(kept)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: mapped by `of_descriptor` with this length, and nothing refers to it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes.max(1)) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn a_successor_finds_words_and_frames() {
        let layout = Layout { words: 5, double_words: 2, frames: 3 };
        let mut frames = Frames::new("test", layout).unwrap();
        frames.words()[4].store(u32::MAX, Relaxed);
        frames.double_words()[0].store(1 << 40, Relaxed);
        frames.double_words()[1].store(u64::MAX, Relaxed);
        frames.frame_mut(0)[0] = 1;
        frames.frame_mut(2).fill(9);
        let file = frames.as_fd().try_clone_to_owned().unwrap();
        drop(frames);
        let found = Frames::of(file.try_clone().unwrap(), layout).unwrap();
        assert_eq!((found.words().len(), found.words()[4].load(Relaxed)), (5, u32::MAX));
        let double_words: Vec<u64> =
            found.double_words().iter().map(|word| word.load(Relaxed)).collect();
        assert_eq!(double_words, [1 << 40, u64::MAX]);
        assert_eq!((found.frame(0)[0], found.frame(1)[0], found.frame(2)), (1, 0, &[9; 4096]));
        let error = Frames::of(file, Layout { frames: 4, ..layout }).unwrap_err();
        assert!(error.to_string().contains("16384 bytes where 20480"), "{error}");
    }

    #[test]
    fn every_page_is_present_before_its_first_use() {
        let layout = Layout { words: 1, double_words: 0, frames: 64 };
        let frames = Frames::new("test-present", layout).unwrap();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let entry = maps.split("/memfd:test-present").nth(1).unwrap();
        let locked = entry.lines().find(|line| line.starts_with("Locked:")).unwrap();
        assert_eq!(locked.split_whitespace().nth(1), Some("260"), "{locked}");
        assert_eq!(frames.count(), 64);
    }

    #[test]
    fn the_pages_of_a_memory_file_stay_after_its_own_lock_has_ended() {
        let locked = |file: &str| -> u64 {
            let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let mappings = text.split("VmFlags:").filter(|mapping| mapping.contains(file));
            let lines =
                mappings.flat_map(str::lines).filter_map(|line| line.strip_prefix("Locked:"));
            lines.map(|size| size.trim().trim_end_matches(" kB").parse::<u64>().unwrap()).sum()
        };
        let frames =
            Frames::new("kept-pages", Layout { words: 1, double_words: 0, frames: 7 }).unwrap();
        let file = frames.as_fd().try_clone_to_owned().unwrap();
        let kept = Kept::of_descriptor(file.as_raw_fd()).unwrap();
        drop(frames);
        assert_eq!(locked("memfd:kept-pages"), 32);
        drop(kept);
        assert_eq!(locked("memfd:kept-pages"), 0);
        drop(file);
        assert!(Kept::of_descriptor(100_000).is_err());
    }
}
