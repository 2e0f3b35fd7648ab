//! Reads and writes of one file or block device, many at a time, by io_uring (io_uring_setup(2)).
//!
//! Contract: data lies in buffers of the queue, which are populated, locked and registered with the kernel before
//! the first request. A buffer with a request in flight cannot be looked at. Requests may end in any order. No call
//! but [`DiskQueue::new`] allocates, and none waits for a request.
#![allow(unsafe_code, reason = "the kernel reads and writes memory while a request is in flight")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};

use io_uring::types::{Fixed, FsyncFlags};
use io_uring::{IoUring, opcode};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mlock, mmap_anonymous, munmap};

use crate::Error;

/// A part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The buffer.
    pub buffer: usize,
    /// First byte of the part.
    pub begin: usize,
    /// Bytes of the part.
    pub bytes: usize,
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// What the request was submitted with.
    pub token: u64,
    /// The bytes moved, or the error.
    pub result: Result<usize, Errno>,
}

/// A queue of requests for one file.
pub struct DiskQueue {
    ring: IoUring,
    buffers: Buffers,
    in_flight: Vec<InFlight>,
    free: Vec<usize>,
    // The kernel has it registered as file 0.
    _file: OwnedFd,
}

/// A request that the kernel has.
#[derive(Clone, Copy, Default)]
struct InFlight {
    token: u64,
    /// None for a sync.
    buffer: Option<usize>,
}

impl DiskQueue {
    /// A queue for `file` with a number of buffers of equal size, and room for `requests` in flight. `file` is open
    /// with O_DIRECT, or requests may wait for the page cache.
    ///
    /// # Errors
    /// The operating system refuses io_uring (`kernel.io_uring_disabled`, a filter of system calls), or the memory.
    pub fn new(
        file: OwnedFd,
        buffers: usize,
        buffer_bytes: usize,
        requests: usize,
    ) -> Result<DiskQueue, Error> {
        let refused = |error: io::Error| Error::call("io_uring", error);
        let entries = (requests as u32).next_power_of_two();
        let ring = IoUring::builder()
            // Ends of requests are reported at the next system call of this thread, without an interrupt.
            .setup_coop_taskrun()
            .setup_single_issuer()
            // The thread that enables the ring is its only user.
            .setup_r_disabled()
            .build(entries)
            .map_err(refused)?;
        let buffers = Buffers::new(buffers, buffer_bytes)?;
        let vectors: Vec<libc::iovec> = (0..buffers.count)
            .map(|buffer| libc::iovec {
                iov_base: buffers.place(buffer).cast(),
                iov_len: buffers.bytes,
            })
            .collect();
        let submitter = ring.submitter();
        // SAFETY: the vectors name memory of `buffers`, mapped until `self` drops; the kernel pins its pages, so
        // even a request that outlives the queue reaches no memory of others.
        unsafe { submitter.register_buffers(&vectors) }.map_err(refused)?;
        submitter.register_files(&[file.as_raw_fd()]).map_err(refused)?;
        let free = (0..requests).rev().collect();
        let in_flight = vec![InFlight::default(); requests];
        Ok(DiskQueue { ring, buffers, in_flight, free, _file: file })
    }

    /// Makes the calling thread the one that uses the queue from now on.
    ///
    /// # Errors
    /// The operating system refuses: another thread did so before.
    pub fn start(&mut self) -> Result<(), Error> {
        let refused = |error: io::Error| Error::call("io_uring", error);
        self.ring.submitter().register_enable_rings().map_err(refused)
    }

    /// The number of buffers.
    pub fn buffers(&self) -> usize {
        self.buffers.count
    }

    /// The content of a buffer without requests in flight.
    pub fn buffer(&self, buffer: usize) -> &[u8] {
        self.assert_idle(buffer);
        // SAFETY: `place` is inside the mapping, which `bytes` bytes follow; the kernel uses it only while a request
        // is in flight, and changing it needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.buffers.place(buffer), self.buffers.bytes) }
    }

    /// The content of a buffer without requests in flight, to be changed.
    pub fn buffer_mut(&mut self, buffer: usize) -> &mut [u8] {
        self.assert_idle(buffer);
        // SAFETY: as in `buffer`; `&mut self` excludes every other reference.
        unsafe { std::slice::from_raw_parts_mut(self.buffers.place(buffer), self.buffers.bytes) }
    }

    fn assert_idle(&self, buffer: usize) {
        assert!(self.buffers.users[buffer] == 0, "a request for buffer {buffer} is in flight");
    }

    /// Whether another request can be pushed.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Adds a read into `part` from byte `offset` of the file. It begins with the next [`DiskQueue::submit`].
    pub fn read(&mut self, token: u64, part: Part, offset: u64) {
        let place = self.buffers.part(part);
        let entry = opcode::ReadFixed::new(Fixed(0), place, part.bytes as u32, part.buffer as u16);
        self.push(token, Some(part.buffer), |slot| entry.offset(offset).build().user_data(slot));
    }

    /// Adds a write of `part` to byte `offset` of the file. It begins with the next [`DiskQueue::submit`].
    pub fn write(&mut self, token: u64, part: Part, offset: u64) {
        let place = self.buffers.part(part);
        let entry = opcode::WriteFixed::new(Fixed(0), place, part.bytes as u32, part.buffer as u16);
        self.push(token, Some(part.buffer), |slot| entry.offset(offset).build().user_data(slot));
    }

    /// Adds a sync (fdatasync(2)): once it has ended, writes that ended before it was added survive a loss of power. It
    /// begins with the next [`DiskQueue::submit`].
    pub fn sync(&mut self, token: u64) {
        let entry = opcode::Fsync::new(Fixed(0)).flags(FsyncFlags::DATASYNC);
        self.push(token, None, |slot| entry.build().user_data(slot));
    }

    fn push(
        &mut self,
        token: u64,
        buffer: Option<usize>,
        entry: impl FnOnce(u64) -> io_uring::squeue::Entry,
    ) {
        let slot = self.free.pop().expect("the caller asked has_room");
        self.in_flight[slot] = InFlight { token, buffer };
        if let Some(buffer) = buffer {
            self.buffers.users[buffer] += 1;
        }
        let entry = entry(slot as u64);
        // SAFETY: the memory, if any, is a registered buffer, mapped until `self` drops, and no reference to it can be made
        // until `ended` has seen the request.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the ring has an entry for each request in flight");
    }

    /// Gives the requests added since the last call to the kernel. Returns whether the kernel took all of them; if it
    /// lacks memory, the next call tries the others again.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn submit(&mut self) -> Result<bool, Error> {
        if self.ring.submission().is_empty() {
            return Ok(true);
        }
        match self.ring.submit() {
            Ok(_) => Ok(self.ring.submission().is_empty()),
            // The kernel lacks memory at the moment, or a signal came.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EAGAIN | libc::EBUSY | libc::EINTR)
                ) =>
            {
                Ok(false)
            }
            Err(error) => Err(Error::call("io_uring_enter", error)),
        }
    }

    /// Requests that have not ended.
    pub fn requests(&self) -> usize {
        self.in_flight.len() - self.free.len()
    }

    /// A request that has ended, if there is one.
    pub fn ended(&mut self) -> Option<Ended> {
        let entry = self.ring.completion().next()?;
        let slot = entry.user_data() as usize;
        let InFlight { token, buffer } = self.in_flight[slot];
        self.free.push(slot);
        if let Some(buffer) = buffer {
            self.buffers.users[buffer] -= 1;
        }
        let result = match entry.result() {
            bytes @ 0.. => Ok(bytes as usize),
            error => Err(Errno::from_raw_os_error(-error)),
        };
        Some(Ended { token, result })
    }
}

impl Drop for DiskQueue {
    /// The kernel ends a ring some time after its last descriptor is closed, and would keep the file open until then:
    /// a device that was opened exclusively could not be mounted yet.
    fn drop(&mut self) {
        let _ = self.ring.submitter().unregister_files();
    }
}

impl AsFd for DiskQueue {
    /// Readable when a request has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring keeps its descriptor open as long as `self`, from which this borrows.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}

/// Memory of equal parts.
struct Buffers {
    start: NonNull<u8>,
    count: usize,
    bytes: usize,
    /// Requests in flight for each buffer.
    users: Vec<u32>,
}

// SAFETY: the mapping belongs to this value, as a `Vec` does.
unsafe impl Send for Buffers {}

impl Buffers {
    fn new(count: usize, bytes: usize) -> Result<Buffers, Error> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: the kernel chooses a free range for the new mapping.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), count * bytes, access, flags) };
        let start = start.map_err(|error| Error::call("mmap", error))?;
        let place = NonNull::new(start.cast()).expect("mmap returns a place or an error");
        let buffers = Buffers { start: place, count, bytes, users: vec![0; count] };
        // SAFETY: the range is the mapping made above; locking changes none of its contents.
        unsafe { mlock(start, count * bytes) }.map_err(|error| Error::call("mlock", error))?;
        Ok(buffers)
    }

    fn place(&self, buffer: usize) -> *mut u8 {
        assert!(buffer < self.count, "buffer {buffer} of {}", self.count);
        self.start.as_ptr().wrapping_add(buffer * self.bytes)
    }

    fn part(&self, part: Part) -> *mut u8 {
        assert!(part.begin + part.bytes <= self.bytes, "{part:?} is beyond its buffer");
        self.place(part.buffer).wrapping_add(part.begin)
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; no reference outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.count * self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::polling::is_readable;

    fn queue(bytes: u64) -> DiskQueue {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        let mut queue = DiskQueue::new(file.into(), 3, 8192, 4).unwrap();
        queue.start().unwrap();
        queue
    }

    fn ended(queue: &mut DiskQueue) -> Ended {
        loop {
            if let Some(ended) = queue.ended() {
                return ended;
            }
            assert!(is_readable(queue.as_fd(), Duration::from_secs(60)));
        }
    }

    #[test]
    fn parts_of_a_buffer_reach_the_file_and_come_back() {
        let mut queue = queue(1 << 20);
        queue.buffer_mut(1)[4096..].fill(7);
        queue.write(11, Part { buffer: 1, begin: 4096, bytes: 4096 }, 8192);
        queue.submit().unwrap();
        assert_eq!(ended(&mut queue), Ended { token: 11, result: Ok(4096) });
        queue.read(12, Part { buffer: 0, begin: 0, bytes: 8192 }, 4096);
        queue.submit().unwrap();
        assert_eq!(ended(&mut queue), Ended { token: 12, result: Ok(8192) });
        assert_eq!((queue.buffer(0)[4095], queue.buffer(0)[4096]), (0, 7));
        assert_eq!((queue.requests(), queue.ended()), (0, None));
    }

    #[test]
    fn a_read_beyond_the_end_moves_fewer_bytes() {
        let mut queue = queue(4096);
        for (token, offset) in [(1, 0), (2, 4096)] {
            queue.read(token, Part { buffer: 2, begin: 0, bytes: 8192 }, offset);
            queue.submit().unwrap();
        }
        let mut found = [ended(&mut queue), ended(&mut queue)];
        found.sort_by_key(|ended| ended.token);
        assert_eq!(found.map(|ended| ended.result), [Ok(4096), Ok(0)]);
    }

    #[test]
    fn a_sync_ends_with_its_token_and_needs_no_buffer() {
        let mut queue = queue(4096);
        queue.write(1, Part { buffer: 0, begin: 0, bytes: 4096 }, 0);
        queue.sync(1 << 40);
        assert_eq!(queue.requests(), 2);
        queue.submit().unwrap();
        let mut found = [ended(&mut queue), ended(&mut queue)];
        found.sort_by_key(|ended| ended.token);
        assert_eq!(found.map(|ended| ended.result), [Ok(4096), Ok(0)]);
        assert_eq!((queue.requests(), found[1].token), (0, 1 << 40));
    }

    #[test]
    #[should_panic(expected = "in flight")]
    fn a_buffer_in_flight_cannot_be_changed() {
        let mut queue = queue(4096);
        queue.read(1, Part { buffer: 0, begin: 0, bytes: 4096 }, 0);
        queue.buffer_mut(0);
    }

    #[test]
    fn a_refusing_file_is_an_error_of_its_request() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let mut queue = DiskQueue::new(reader.into(), 1, 4096, 1).unwrap();
        queue.start().unwrap();
        queue.write(5, Part { buffer: 0, begin: 0, bytes: 4096 }, 0);
        assert!(!queue.has_room());
        queue.submit().unwrap();
        assert_eq!(ended(&mut queue), Ended { token: 5, result: Err(Errno::BADF) });
    }
}
