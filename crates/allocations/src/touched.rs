//! The touched pages of a range, from the kernel's page table.

use core::ffi::c_int;

use crate::log::{self, flag, kind};
use crate::sizes::PAGE_BYTES;

/// Entries of the page table per read.
const ENTRIES: usize = 256;

/// Bits of a page that is present or in swap (Documentation/admin-guide/mm/pagemap.rst).
const IS_TOUCHED: u64 = 3 << 62;

/// Largest number of extents recorded per range; the pages of further extents are only counted.
const RUNS_MAX: u32 = 64;

/// Writes records of the touched pages of a range, then a record of `record_kind`.
///
/// An extent at the beginning of the range needs no separate record.
pub fn record(record_kind: u8, address: usize, bytes: usize, flags: u8) {
    let first = address & !(PAGE_BYTES - 1);
    let pages = (address + bytes).div_ceil(PAGE_BYTES) - first / PAGE_BYTES;
    let mut extents = TouchedExtents { first, total: 0, open: None, count: 0 };
    let is_known = read(first, pages, |page, is_touched| extents.take(page, is_touched));
    extents.take(pages, false);
    let unknown = if is_known { 0 } else { flag::UNKNOWN };
    log::event(record_kind, address, bytes, extents.total, flags | unknown);
}

/// Records extents of touched pages: each has a first page and a last one.
struct TouchedExtents {
    first: usize,
    total: u32,
    /// First page of the current extent.
    open: Option<usize>,
    count: u32,
}

impl TouchedExtents {
    fn take(&mut self, page: usize, is_touched: bool) {
        match self.open {
            None if is_touched => self.open = Some(page),
            Some(start) if !is_touched => self.close(start, page),
            _ => {}
        }
    }

    fn close(&mut self, start: usize, end: usize) {
        self.open = None;
        self.total += (end - start) as u32;
        if start > 0 && self.count < RUNS_MAX {
            self.count += 1;
            let (address, bytes) = (self.first + start * PAGE_BYTES, (end - start) * PAGE_BYTES);
            log::event(kind::TOUCHED, address, bytes, 0, 0);
        }
    }
}

/// Calls `take` for each page in order, with whether it is touched; false if the page table is not
/// readable.
///
/// It opens the file each time, because a program may close unknown descriptors.
fn read(first: usize, pages: usize, mut take: impl FnMut(usize, bool)) -> bool {
    // SAFETY: the path ends in a zero.
    let file =
        unsafe { libc::open(c"/proc/self/pagemap".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return false;
    }
    let is_known = read_entries(file, first, pages, &mut take);
    // SAFETY: this function opened the descriptor.
    unsafe { libc::close(file) };
    is_known
}

fn read_entries(
    file: c_int,
    first: usize,
    pages: usize,
    take: &mut impl FnMut(usize, bool),
) -> bool {
    let mut entries = [0u64; ENTRIES];
    let mut page = 0;
    while page < pages {
        let bytes = (pages - page).min(ENTRIES) * size_of::<u64>();
        let offset = (first / PAGE_BYTES + page) * size_of::<u64>();
        // SAFETY: the array has at least `bytes` bytes.
        let got = unsafe { libc::pread(file, entries.as_mut_ptr().cast(), bytes, offset as i64) };
        if got <= 0 {
            return false;
        }
        for entry in entries.iter().take(got as usize / size_of::<u64>()) {
            take(page, entry & IS_TOUCHED != 0);
            page += 1;
        }
    }
    true
}
