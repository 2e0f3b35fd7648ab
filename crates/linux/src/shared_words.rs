//! Memory that this process shares with the kernel, such as a BPF array map.
#![allow(unsafe_code, reason = "shared memory has no safe wrapper")]

use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::Error;

/// Mapped words, which the kernel or this process may change at any time.
#[derive(Debug)]
pub struct SharedWords {
    start: NonNull<AtomicU64>,
    count: usize,
}

impl SharedWords {
    /// Maps the first `count` words of `file`; `count` is at least one.
    ///
    /// # Errors
    /// The operating system refuses: `file` is shorter, or cannot be mapped.
    pub fn of(file: impl AsFd, count: usize) -> Result<SharedWords, Error> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a free range for the new mapping.
        let start = unsafe {
            mmap(ptr::null_mut(), count * size_of::<u64>(), access, MapFlags::SHARED, file, 0)
        };
        let start = start.map_err(|error| Error::call("mmap", error))?;
        let start = NonNull::new(start.cast()).expect("mmap returns a place or an error");
        Ok(SharedWords { start, count })
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: `count` words are mapped from `start`, aligned to a page, until `drop`. Others may
        // change them at any time, so they are atomics.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        let bytes = self.count * size_of::<u64>();
        // SAFETY: mapped by `of` with this length, and no reference outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), bytes) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn words_are_those_of_the_file() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7u64.to_ne_bytes(), 8u64.to_ne_bytes()].concat()).unwrap();
        let words = SharedWords::of(&file, 2).unwrap();
        assert_eq!((words.len(), words[1].load(Ordering::Relaxed)), (2, 8));
        words[0].store(9, Ordering::Relaxed);
        drop(words);
        std::io::Seek::rewind(&mut file).unwrap();
        let mut first = [0; 8];
        file.read_exact(&mut first).unwrap();
        assert_eq!(u64::from_ne_bytes(first), 9);
    }

    #[test]
    fn a_file_that_cannot_be_mapped_is_refused() {
        let (pipe, _) = std::io::pipe().unwrap();
        assert!(SharedWords::of(&pipe, 1).unwrap_err().to_string().contains("mmap was refused"));
    }
}
