//! `process_madvise(2)`: advice about ranges of another process.

use rustix::io::Errno;

use super::pages::PageRange;

/// Ranges of one call; the kernel accepts 1024 (UIO_MAXIOV).
const RANGES_MAX: usize = 512;
/// Bytes of one call: the kernel cuts a longer list at 2 GiB.
const CALL_BYTES_MAX: u64 = 256 << 20;

/// What to do with pages. No advice changes their content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryAdvice {
    /// Read them from swap, without waiting for the end of the reads.
    WillNeed,
    /// Reclaim them before other pages.
    Cold,
    /// Reclaim them now.
    PageOut,
}

/// The result of advice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advised {
    /// Pages in ranges that the kernel accepted.
    pub pages: u64,
    /// Ranges that the kernel refused.
    pub refused: u64,
}

pub(super) fn advise(
    handle: i32,
    ranges: &[PageRange],
    advice: MemoryAdvice,
    page_bytes: u64,
) -> Result<Advised, Errno> {
    let mut advised = Advised::default();
    let pieces = pieces(ranges, CALL_BYTES_MAX / page_bytes);
    let mut rest = &pieces[..];
    while !rest.is_empty() {
        let count = batch(rest, CALL_BYTES_MAX / page_bytes);
        match call(handle, &rest[..count], advice, page_bytes) {
            Ok(bytes) => {
                let taken = taken(&rest[..count], bytes / page_bytes);
                advised.pages += rest[..taken].iter().map(|range| range.pages()).sum::<u64>();
                rest = &rest[taken..];
                // The kernel ends the call at the first range that it refuses.
                if taken < count {
                    advised.refused += 1;
                    rest = &rest[1..];
                }
            }
            Err(Errno::INTR) => {}
            Err(error @ (Errno::SRCH | Errno::PERM | Errno::ACCESS | Errno::NOSYS)) => {
                return Err(error);
            }
            Err(_) => {
                advised.refused += 1;
                rest = &rest[1..];
            }
        }
    }
    Ok(advised)
}

/// The ranges, cut into pieces of at most `pages_max` pages.
fn pieces(ranges: &[PageRange], pages_max: u64) -> Vec<PageRange> {
    let mut found = Vec::with_capacity(ranges.len());
    for range in ranges {
        let mut first = range.first;
        while first < range.end {
            let end = range.end.min(first.saturating_add(pages_max));
            found.push(PageRange::new(first, end));
            first = end;
        }
    }
    found
}

/// The number of ranges that one call takes: at least one, and as many as have `pages_max` pages together.
fn batch(ranges: &[PageRange], pages_max: u64) -> usize {
    let mut pages = 0;
    let fits = |range: &&PageRange| {
        pages += range.pages();
        pages <= pages_max
    };
    ranges.iter().take(RANGES_MAX).take_while(fits).count().max(1)
}

/// The number of ranges that `pages` pages fill.
fn taken(ranges: &[PageRange], mut pages: u64) -> usize {
    let is_whole = |range: &&PageRange| {
        let is_whole = range.pages() <= pages;
        pages = pages.saturating_sub(range.pages());
        is_whole
    };
    ranges.iter().take_while(is_whole).count()
}

/// Returns the number of bytes that were advised.
fn call(
    handle: i32,
    ranges: &[PageRange],
    advice: MemoryAdvice,
    page_bytes: u64,
) -> Result<u64, Errno> {
    let number = match advice {
        MemoryAdvice::WillNeed => libc::MADV_WILLNEED,
        MemoryAdvice::Cold => libc::MADV_COLD,
        MemoryAdvice::PageOut => libc::MADV_PAGEOUT,
    };
    let vectors: Vec<libc::iovec> = ranges
        .iter()
        .map(|range| libc::iovec {
            iov_base: (range.first * page_bytes) as *mut libc::c_void,
            iov_len: (range.pages() * page_bytes) as usize,
        })
        .collect();
    // SAFETY: the kernel reads `vectors`, which outlives the call. Their addresses belong to the other process: this
    // advice neither reads nor changes the content of its pages.
    let result = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            handle,
            vectors.as_ptr(),
            vectors.len(),
            number,
            0_u64,
        )
    };
    u64::try_from(result)
        .map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(list: &[(u64, u64)]) -> Vec<PageRange> {
        list.iter().map(|&(first, end)| PageRange::new(first, end)).collect()
    }

    #[test]
    fn calls_have_a_limit_of_ranges_and_pages() {
        let cut = pieces(&ranges(&[(0, 3), (10, 25), (30, 30)]), 8);
        assert_eq!(cut, ranges(&[(0, 3), (10, 18), (18, 25)]));
        assert_eq!((batch(&cut, 8), batch(&cut[1..], 8), batch(&cut, 11)), (1, 1, 2));
        let many = vec![PageRange::new(0, 1); 2000];
        assert_eq!(batch(&many, u64::MAX), RANGES_MAX);
    }

    #[test]
    fn ranges_before_a_refused_one_are_taken() {
        let three = ranges(&[(0, 3), (5, 6), (8, 12)]);
        for (pages, expected) in [(0, 0), (2, 0), (3, 1), (4, 2), (7, 2), (8, 3)] {
            assert_eq!(taken(&three, pages), expected, "{pages}");
        }
    }
}
