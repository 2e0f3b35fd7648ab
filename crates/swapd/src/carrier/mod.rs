//! Carriers: ways to put a block device of ours below the kernel's swap. A carrier takes the kernel's requests and
//! gives back answers; it must not know tiers, slots' contents or policies.

pub mod fuse;
pub mod granted;
pub mod nbd;
pub mod ublk;

use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::io::{Errno, pread};

use crate::Error;

/// The bytes of a slot: a page of swap.
pub const SLOT_BYTES: usize = 4096;

/// The place of a request in the table of its carrier. It belongs to the request until [`Carrier::finish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u16);

impl Tag {
    /// The place as an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// What the kernel asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Fill the data from the slots. A slot that was never written reads as zeros.
    Read,
    /// Keep the data in the slots.
    Write,
    /// Forget the slots: they are void, and read as zeros. It has no data.
    Discard,
    /// Make finished writes durable. It has neither slots nor data.
    Flush,
}

/// A request of the kernel for whole slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The place of the request in the carrier's table.
    pub tag: Tag,
    /// What the kernel asks for.
    pub operation: Operation,
    /// The first slot.
    pub first: u32,
    /// The number of slots, which follow each other.
    pub slots: u32,
}

/// Takes the kernel's requests for a block device. A request stays open until it is finished; requests may be
/// finished in any order.
pub trait Carrier {
    /// The block device that programs see.
    fn device(&self) -> &Path;

    /// The next request of the kernel, if there is one; never waits.
    ///
    /// # Errors
    /// The carrier has ended, or the operating system refuses.
    fn next(&mut self) -> Result<Option<Request>, Error>;

    /// The data of an open request: those of a write, or the place for a read's answer. It begins at a page, has
    /// `slots * 4096` bytes, and stays where it is until `finish`, so that the kernel may use it meanwhile.
    fn data(&mut self, tag: Tag) -> &mut [u8];

    /// Answers an open request; its tag is free afterwards.
    ///
    /// # Errors
    /// The operating system refuses.
    fn finish(&mut self, tag: Tag, outcome: Result<(), Errno>) -> Result<(), Error>;

    /// Readable when [`Carrier::next`] would return a request.
    fn descriptor(&self) -> BorrowedFd<'_>;
}

/// What a new device is like.
#[derive(Clone, Copy, Debug)]
pub struct NewDevice<'a> {
    /// The size of the device.
    pub slots: u32,
    /// The file that has its content from the start, and keeps it; none if the device is void.
    pub content: Option<BorrowedFd<'a>>,
}

impl NewDevice<'_> {
    /// Answers a request that comes before the device is served; other programs such as udev may read from it.
    fn answer_early(&self, carrier: &mut impl Carrier, request: Request) -> Result<(), Error> {
        let data = carrier.data(request.tag);
        let outcome = match (request.operation, self.content) {
            (Operation::Read, None) => {
                data.fill(0);
                Ok(())
            }
            (Operation::Read, Some(content)) => {
                let bytes = data.len();
                match pread(content, data, u64::from(request.first) * SLOT_BYTES as u64) {
                    Ok(read) if read == bytes => Ok(()),
                    Ok(_) => Err(Errno::IO),
                    Err(error) => Err(error),
                }
            }
            (Operation::Write, _) => Err(Errno::AGAIN),
            (Operation::Discard, Some(_)) => Err(Errno::OPNOTSUPP),
            // Nothing was written yet.
            (Operation::Discard | Operation::Flush, _) => Ok(()),
        };
        carrier.finish(request.tag, outcome)
    }
}

/// The slots of a range of bytes of a device: the first and their number. None if it is not whole slots of the device.
fn slots_of(device_slots: u32, offset: u64, bytes: u64) -> Option<(u32, u32)> {
    let slot_bytes = SLOT_BYTES as u64;
    if !offset.is_multiple_of(slot_bytes) || !bytes.is_multiple_of(slot_bytes) {
        return None;
    }
    let first = u32::try_from(offset / slot_bytes).ok()?;
    let slots = u32::try_from(bytes / slot_bytes).ok()?;
    (first.checked_add(slots)? <= device_slots).then_some((first, slots))
}
