//! The entries of `/proc/PID/pagemap`, 64 bits for each page (Documentation/admin-guide/mm/pagemap.rst), and the mappings
//! of `/proc/PID/smaps` that can have anonymous pages.

use std::os::fd::OwnedFd;

use rustix::io::{Errno, pread};

use super::pages::{AnonymousPages, PageRange};
use crate::kernel_file;

const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// A page of a file or of shared memory.
const FILE: u64 = 1 << 61;
/// The number of the frame, which the kernel shows only with CAP_SYS_ADMIN.
const FRAME: u64 = (1 << 55) - 1;
const ENTRY_BYTES: usize = 8;
/// Entries that one call reads.
const ENTRIES: usize = 8192;

/// The mappings in the text of smaps that have anonymous pages, in memory or in swap.
pub(super) fn mappings(smaps: &[u8], page_bytes: u64) -> Vec<PageRange> {
    let mut found: Vec<PageRange> = Vec::new();
    let mut current = None;
    for line in smaps.split(|&byte| byte == b'\n') {
        if let Some(range) = range_of(line, page_bytes) {
            current = Some(range);
        } else if (line.starts_with(b"Anonymous:") || line.starts_with(b"Swap:"))
            && kernel_file::bytes(line, line.split(|&byte| byte == b':').next().unwrap_or(line))
                .is_some_and(|bytes| bytes > 0)
        {
            found.extend(current.take());
        }
    }
    found
}

/// The range of the first line of a mapping; None for its other lines.
fn range_of(line: &[u8], page_bytes: u64) -> Option<PageRange> {
    let text = std::str::from_utf8(line.split(|&byte| byte == b' ').next()?).ok()?;
    let (start, end) = text.split_once('-')?;
    let page = |text| Some(u64::from_str_radix(text, 16).ok()? / page_bytes);
    Some(PageRange::new(page(start)?, page(end)?))
}

/// The anonymous pages of mappings.
pub(super) fn anonymous(
    pagemap: &OwnedFd,
    mappings: &[PageRange],
) -> Result<AnonymousPages, Errno> {
    let mut found = AnonymousPages::default();
    let mut buffer = vec![0; ENTRIES * ENTRY_BYTES];
    for mapping in mappings {
        let mut page = mapping.first;
        while page < mapping.end {
            let wanted = mapping.end.saturating_sub(page).min(ENTRIES as u64) as usize;
            let place = page * ENTRY_BYTES as u64;
            let length = pread(pagemap, &mut buffer[..wanted * ENTRY_BYTES], place)?;
            let (entries, _) = buffer[..length].as_chunks::<ENTRY_BYTES>();
            if entries.is_empty() {
                // The address space is gone.
                return Ok(found);
            }
            for entry in entries {
                note(&mut found, page, u64::from_ne_bytes(*entry));
                page += 1;
            }
        }
    }
    Ok(found)
}

/// Where an anonymous page is.
pub(super) enum Place {
    Memory,
    Swap,
    /// Nowhere, or the page is not anonymous.
    None,
}

/// The entry of the page with this number; 0 beyond the address space.
fn entry(pagemap: &OwnedFd, page: u64) -> Result<u64, Errno> {
    let mut entry = [0; ENTRY_BYTES];
    match pread(pagemap, &mut entry, page * ENTRY_BYTES as u64)? {
        ENTRY_BYTES => Ok(u64::from_ne_bytes(entry)),
        _ => Ok(0),
    }
}

/// The frame of memory that holds an anonymous page. None if the page is not in memory, or without CAP_SYS_ADMIN.
pub(super) fn frame(pagemap: &OwnedFd, page: u64) -> Result<Option<u64>, Errno> {
    let entry = entry(pagemap, page)?;
    let is_in_memory = entry & PRESENT != 0 && entry & FILE == 0;
    Ok(Some(entry & FRAME).filter(|&frame| is_in_memory && frame != 0))
}

/// Where the page with this number is.
pub(super) fn place(pagemap: &OwnedFd, page: u64) -> Result<Place, Errno> {
    Ok(match entry(pagemap, page)? {
        entry if entry & FILE != 0 => Place::None,
        entry if entry & SWAPPED != 0 => Place::Swap,
        entry if entry & PRESENT != 0 => Place::Memory,
        _ => Place::None,
    })
}

fn note(found: &mut AnonymousPages, page: u64, entry: u64) {
    let list = match entry {
        _ if entry & FILE != 0 => return,
        _ if entry & SWAPPED != 0 => &mut found.swapped,
        _ if entry & PRESENT != 0 => &mut found.resident,
        _ => return,
    };
    match list.last_mut().filter(|last| last.end == page) {
        Some(last) => last.end += 1,
        None => list.push(PageRange::new(page, page + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mappings_with_anonymous_pages_are_read() {
        let smaps = b"1000-3000 r--p 0 fe:00 1 /bin/a-b\nAnonymous:  0 kB\nSwap:  0 kB\n\
            5000-7000 rw-p 0 00:00 0\nAnonymous:  4 kB\nSwap:  8 kB\n\
            7000-9000 rw-p 0 00:00 0 [heap]\nAnonymous:  0 kB\nSwap:  4 kB\nSwapPss: 4 kB\n";
        assert_eq!(mappings(smaps, 4096), [PageRange::new(5, 7), PageRange::new(7, 9)]);
        assert_eq!(mappings(b"", 4096), []);
    }

    #[test]
    fn entries_become_ranges() {
        let mut found = AnonymousPages::default();
        let entries = [SWAPPED, SWAPPED | 77, PRESENT, PRESENT | FILE, 0, PRESENT, SWAPPED];
        for (page, entry) in entries.into_iter().enumerate() {
            note(&mut found, page as u64, entry);
        }
        let ranges = |list: &[(u64, u64)]| -> Vec<PageRange> {
            list.iter().map(|&(first, end)| PageRange::new(first, end)).collect()
        };
        assert_eq!(found.swapped, ranges(&[(0, 2), (6, 7)]));
        assert_eq!(found.resident, ranges(&[(2, 3), (5, 6)]));
    }
}
