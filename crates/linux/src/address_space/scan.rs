//! PAGEMAP_SCAN (Documentation/admin-guide/mm/pagemap.rst, Linux 6.7): the kernel walks the page tables, skips holes, and
//! returns ranges of pages of the same kind.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;

use super::pages::{AnonymousPages, PageRange};

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::Ioctl = 0xC060_6610_u32 as libc::Ioctl;
const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
/// The page of zeros that all processes share, which a read of untouched memory maps.
const IS_ZERO_PAGE: u64 = 1 << 5;

/// Ranges that one call returns.
const REGIONS: usize = 4096;
/// The largest and the smallest address space that a processor has, as powers of two.
const ADDRESS_BITS: std::ops::RangeInclusive<u32> = 31..=57;

/// `struct page_region` of linux/fs.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct Arguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// Whether the kernel has the call.
pub(super) fn is_granted(pagemap: &OwnedFd, page_bytes: u64) -> bool {
    let mut regions = [Region::default()];
    call(pagemap, IS_FILE, 0, page_bytes, &mut regions).is_ok()
}

/// All anonymous pages of an address space.
pub(super) fn anonymous(pagemap: &OwnedFd, page_bytes: u64) -> Result<AnonymousPages, Errno> {
    without(pagemap, page_bytes, IS_FILE)
}

/// The anonymous pages of an address space that were written: without the shared page of zeros.
pub(super) fn written(pagemap: &OwnedFd, page_bytes: u64) -> Result<AnonymousPages, Errno> {
    without(pagemap, page_bytes, IS_FILE | IS_ZERO_PAGE)
}

/// The pages in memory or in swap that are in none of these categories.
fn without(pagemap: &OwnedFd, page_bytes: u64, categories: u64) -> Result<AnonymousPages, Errno> {
    let mut found = AnonymousPages::default();
    let mut regions = vec![Region::default(); REGIONS];
    let (mut start, end) = (0, last_address(pagemap, page_bytes)?);
    while start < end {
        let (count, walked) = call(pagemap, categories, start, end, &mut regions)?;
        let mut seen = start;
        for region in &regions[..count] {
            // Where a call ends because its list is full, the kernel may name an address within its last region, so the
            // next call returns a part of it again.
            let range =
                PageRange::new(region.start.max(seen) / page_bytes, region.end / page_bytes);
            seen = seen.max(region.end);
            if range.first >= range.end {
                continue;
            }
            let list = match region.categories & IS_SWAPPED {
                0 => &mut found.resident,
                _ => &mut found.swapped,
            };
            // A range may be cut where the call ended.
            match list.last_mut().filter(|last| last.end == range.first) {
                Some(last) => last.end = range.end,
                None => list.push(range),
            }
        }
        let next = walked.max(seen);
        if next <= start {
            break;
        }
        start = next;
    }
    Ok(found)
}

/// The end of the addresses that this program may name: the kernel refuses a larger one with EFAULT.
fn last_address(pagemap: &OwnedFd, page_bytes: u64) -> Result<u64, Errno> {
    let mut regions = [Region::default()];
    for bits in ADDRESS_BITS.rev() {
        let end = (1 << bits) - page_bytes;
        match call(pagemap, IS_FILE, end - page_bytes, end, &mut regions) {
            Err(Errno::FAULT) => {}
            Err(error) => return Err(error),
            Ok(_) => return Ok(end),
        }
    }
    Err(Errno::FAULT)
}

/// Returns the number of regions that were filled, and the address up to which the kernel walked.
fn call(
    pagemap: &OwnedFd,
    without: u64,
    start: u64,
    end: u64,
    regions: &mut [Region],
) -> Result<(usize, u64), Errno> {
    let mut arguments = Arguments {
        size: size_of::<Arguments>() as u64,
        start,
        end,
        vec: regions.as_mut_ptr() as u64,
        vec_len: regions.len() as u64,
        category_inverted: without,
        category_mask: without,
        category_anyof_mask: IS_PRESENT | IS_SWAPPED,
        return_mask: IS_PRESENT | IS_SWAPPED,
        ..Arguments::default()
    };
    // SAFETY: the kernel writes at most `vec_len` regions to `vec`, which `regions` owns, and `walk_end` of the
    // arguments; both outlive the call and have the layout of linux/fs.h.
    let result = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut arguments) };
    match usize::try_from(result) {
        Ok(count) => Ok((count.min(regions.len()), arguments.walk_end)),
        Err(_) => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}
