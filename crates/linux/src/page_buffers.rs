//! Buffers of whole pages, locked in memory and touched, for I/O without the page cache.
#![allow(unsafe_code, reason = "memory of the kernel as slices")]

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::slice;

use rustix::mm::{MapFlags, ProtFlags, mlock, mmap_anonymous, munmap};

use crate::Error;

/// A number of buffers of the same size. Each begins at a page and never moves.
#[derive(Debug)]
pub struct PageBuffers {
    /// A mapping of `count * bytes`, which this value owns.
    memory: NonNull<u8>,
    bytes: usize,
    count: usize,
}

// SAFETY: the mapping belongs to this value and to no thread.
unsafe impl Send for PageBuffers {}

impl PageBuffers {
    /// Maps, touches and locks `count` buffers of `bytes`, a multiple of the page size.
    ///
    /// # Errors
    /// The operating system refuses: there is too little memory, or locking needs CAP_IPC_LOCK.
    ///
    /// # Panics
    /// If `bytes` is 0 or no multiple of the page size, or `count` is 0.
    pub fn new(count: usize, bytes: usize) -> Result<PageBuffers, Error> {
        let page_bytes = rustix::param::page_size();
        assert!(bytes > 0 && bytes.is_multiple_of(page_bytes) && count > 0, "whole pages");
        let length = bytes.checked_mul(count).expect("buffers fit into the address space");
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let memory = unsafe {
            mmap_anonymous(null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, flags)
        };
        let memory = memory.map_err(|error| Error::call("mmap", error))?;
        let memory = NonNull::new(memory.cast::<u8>()).expect("the kernel maps nothing at 0");
        let buffers = PageBuffers { memory, bytes, count };
        // SAFETY: the range is the mapping above.
        unsafe { mlock(memory.as_ptr().cast::<c_void>(), length) }
            .map_err(|error| Error::call("mlock", error))?;
        Ok(buffers)
    }

    /// The buffer with this number, from 0.
    ///
    /// # Panics
    /// If there is no such buffer.
    pub fn get(&self, number: usize) -> &[u8] {
        // SAFETY: `start` points to `bytes` initialised bytes of the mapping, which lives as long as `self`;
        // no `&mut` to them exists while `self` is borrowed.
        unsafe { slice::from_raw_parts(self.start(number), self.bytes) }
    }

    /// The buffer with this number, from 0, to be written.
    ///
    /// # Panics
    /// If there is no such buffer.
    pub fn get_mut(&mut self, number: usize) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.start(number), self.bytes) }
    }

    fn start(&self, number: usize) -> *mut u8 {
        assert!(number < self.count, "buffer {number} of {}", self.count);
        // SAFETY: `number < count`, so the result is inside the mapping of `count * bytes`.
        unsafe { self.memory.as_ptr().add(number * self.bytes) }
    }
}

impl Drop for PageBuffers {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to `self`, and no slice of it outlives `self`.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.bytes * self.count) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_apart_and_begin_at_a_page() {
        let page_bytes = rustix::param::page_size();
        let mut buffers = PageBuffers::new(3, page_bytes).unwrap();
        for number in 0..3 {
            buffers.get_mut(number).fill(number as u8 + 1);
        }
        for number in 0..3 {
            let buffer = buffers.get(number);
            assert_eq!((buffer.len(), buffer.as_ptr() as usize % page_bytes), (page_bytes, 0));
            assert!(buffer.iter().all(|&byte| byte == number as u8 + 1));
        }
    }
}
