//! What the engine needs of the slow tier's disk. Tests put a disk behind it that fails and delays.

use std::os::fd::{AsFd, BorrowedFd};

use linux::disk_queue::{DiskQueue, Ended, Part};

use crate::Error;

/// A disk with buffers, which takes many requests at a time; see [`DiskQueue`] for each method.
pub trait Disk {
    /// The number of buffers.
    fn buffers(&self) -> usize;
    /// The content of a buffer without requests in flight.
    fn buffer(&self, buffer: usize) -> &[u8];
    /// The content of a buffer without requests in flight, to be changed.
    fn buffer_mut(&mut self, buffer: usize) -> &mut [u8];
    /// Adds a read of `part` from byte `offset`.
    fn read(&mut self, token: u64, part: Part, offset: u64);
    /// Adds a write of `part` to byte `offset`.
    fn write(&mut self, token: u64, part: Part, offset: u64);
    /// Adds a sync: once it has ended, writes that ended before it was added are durable.
    fn sync(&mut self, token: u64);
    /// Begins the requests added since the last call. Returns whether all have begun.
    ///
    /// # Errors
    /// The operating system refuses.
    fn submit(&mut self) -> Result<bool, Error>;
    /// A request that has ended, if there is one.
    fn ended(&mut self) -> Option<Ended>;
    /// Makes the calling thread the one that uses the disk from now on.
    ///
    /// # Errors
    /// The operating system refuses.
    fn start(&mut self) -> Result<(), Error>;
    /// Readable when a request has ended.
    fn descriptor(&self) -> BorrowedFd<'_>;
}

impl Disk for DiskQueue {
    fn buffers(&self) -> usize {
        self.buffers()
    }

    fn buffer(&self, buffer: usize) -> &[u8] {
        self.buffer(buffer)
    }

    fn buffer_mut(&mut self, buffer: usize) -> &mut [u8] {
        self.buffer_mut(buffer)
    }

    fn read(&mut self, token: u64, part: Part, offset: u64) {
        self.read(token, part, offset);
    }

    fn write(&mut self, token: u64, part: Part, offset: u64) {
        self.write(token, part, offset);
    }

    fn sync(&mut self, token: u64) {
        self.sync(token);
    }

    fn submit(&mut self) -> Result<bool, Error> {
        Ok(self.submit()?)
    }

    fn ended(&mut self) -> Option<Ended> {
        self.ended()
    }

    fn start(&mut self) -> Result<(), Error> {
        Ok(self.start()?)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}
