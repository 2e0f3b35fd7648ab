//! Which pages of a range the program has touched, as the kernel's page table says.

use core::ffi::c_int;

use crate::log::{self, flag, kind};
use crate::sizes::PAGE_BYTES;

/// Entries of the page table that are read at once.
const ENTRIES: usize = 256;

/// Page present, or in swap (Documentation/admin-guide/mm/pagemap.rst).
const IS_TOUCHED: u64 = 3 << 62;

/// Runs of one range that are written; the pages of later ones are counted alone.
const RUNS_MAX: u32 = 64;

/// Writes what is touched in a range, then a record of `kind`.
///
/// Touched pages that are the first of the range need no record of their own.
pub fn record(record_kind: u8, address: usize, bytes: usize, flags: u8) {
    let first = address & !(PAGE_BYTES - 1);
    let pages = (address + bytes).div_ceil(PAGE_BYTES) - first / PAGE_BYTES;
    let mut runs = Runs { first, total: 0, open: None, count: 0 };
    let is_known = read(first, pages, |page, is_touched| runs.take(page, is_touched));
    runs.take(pages, false);
    let unknown = if is_known { 0 } else { flag::UNKNOWN };
    log::event(record_kind, address, bytes, runs.total, flags | unknown);
}

struct Runs {
    first: usize,
    total: u32,
    /// First page of the run that has not ended.
    open: Option<usize>,
    count: u32,
}

impl Runs {
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

/// Tells of each page in order whether it is touched; false where the kernel does not say.
///
/// The file is opened each time: a program may close descriptors that it does not know.
fn read(first: usize, pages: usize, mut tell: impl FnMut(usize, bool)) -> bool {
    // SAFETY: the path ends in a zero.
    let file =
        unsafe { libc::open(c"/proc/self/pagemap".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return false;
    }
    let is_known = read_entries(file, first, pages, &mut tell);
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(file) };
    is_known
}

fn read_entries(
    file: c_int,
    first: usize,
    pages: usize,
    tell: &mut impl FnMut(usize, bool),
) -> bool {
    let mut entries = [0u64; ENTRIES];
    let mut page = 0;
    while page < pages {
        let bytes = (pages - page).min(ENTRIES) * size_of::<u64>();
        let offset = (first / PAGE_BYTES + page) * size_of::<u64>();
        // SAFETY: the array has at least so many bytes.
        let got = unsafe { libc::pread(file, entries.as_mut_ptr().cast(), bytes, offset as i64) };
        if got <= 0 {
            return false;
        }
        for entry in entries.iter().take(got as usize / size_of::<u64>()) {
            tell(page, entry & IS_TOUCHED != 0);
            page += 1;
        }
    }
    true
}
