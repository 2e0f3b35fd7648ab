//! Contents of anonymous pages that are in memory, through `/proc/PID/mem`.
//!
//! Contract: a page that is in swap is not read, because the read would bring it back. The check comes right before the
//! read; a page that leaves memory between the two is brought back. A read counts as an access of the process
//! (`FOLL_TOUCH` in the kernel's mm/gup.c), so the kernel keeps the page a little longer.

use std::os::fd::OwnedFd;

use rustix::io::pread;

use super::pagemap::{self, Place};

/// The result of reading a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageRead {
    /// The page was read.
    Read,
    /// The page is in swap, and was not read.
    Swapped,
    /// The page is not anonymous memory any more, or is memory of a device, which has no contents to read.
    Unreadable,
}

/// Reads pages of an address space.
#[derive(Debug)]
pub struct PageContents<'space> {
    memory: OwnedFd,
    pagemap: &'space OwnedFd,
    page_bytes: u64,
}

impl PageContents<'_> {
    pub(super) fn new(memory: OwnedFd, pagemap: &OwnedFd, page_bytes: u64) -> PageContents<'_> {
        PageContents { memory, pagemap, page_bytes }
    }

    /// Reads the page with this number, the address divided by the size of a page, into `target`, of the size of a page.
    pub fn read(&self, page: u64, target: &mut [u8]) -> PageRead {
        match pagemap::place(self.pagemap, page) {
            Ok(Place::Memory) => {}
            Ok(Place::Swap) => return PageRead::Swapped,
            Ok(Place::None) | Err(_) => return PageRead::Unreadable,
        }
        let Some(address) = page.checked_mul(self.page_bytes) else { return PageRead::Unreadable };
        let wanted = target.len();
        match pread(&self.memory, target, address) {
            Ok(length) if length == wanted => PageRead::Read,
            Ok(_) | Err(_) => PageRead::Unreadable,
        }
    }
}
