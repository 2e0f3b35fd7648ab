//! Locks memory of this process.
#![allow(unsafe_code, reason = "madvise has no safe wrapper")]

use rustix::mm::{Advice, MlockAllFlags, madvise, mlockall};

use crate::{Error, Root};

/// The kernel maps up to 16 pages of a file around a touched page (`do_fault_around` in mm/memory.c) and locks
/// them all, but none beyond the mapping. So advice splits mappings into pieces of this size.
const PIECE_BYTES: usize = 16 << 10;

/// Locks every page that this process has touched or will touch, but no pages that it maps and never touches.
/// Before that, drops the pages of its program that only its start needed.
///
/// # Errors
/// The operating system refuses: more than RLIMIT_MEMLOCK needs CAP_IPC_LOCK.
pub fn lock_touched(root: &Root) -> Result<(), Error> {
    let text = root.read("/proc/self/smaps")?.unwrap_or_default();
    for (start, length) in clean_file_ranges(&text) {
        // SAFETY: a private file mapping without modified pages is read from the file again, so
        // nothing is lost. The range stays mapped: the loader unmaps nothing meanwhile.
        let _ = unsafe { madvise(start as *mut _, length, Advice::LinuxDontNeed) };
        // Every other piece has different advice than its neighbours, so that the kernel does not merge them.
        for piece in (start..start + length).step_by(2 * PIECE_BYTES) {
            let length = PIECE_BYTES.min(start + length - piece);
            // SAFETY: this advice does not change the contents of the mapping.
            let _ = unsafe { madvise(piece as *mut _, length, Advice::Random) };
        }
    }
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    mlockall(flags).map_err(|error| Error::call("mlockall", error))
}

/// Read-only private file mappings in which this process has no modified page.
fn clean_file_ranges(smaps: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut current = None;
    for line in smaps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (Some(first), second) = (fields.next(), fields.next()) else { continue };
        if let Some((start, end)) = first.split_once('-') {
            let number = |text| usize::from_str_radix(text, 16).ok();
            let is_file = line.contains(" /");
            let is_private_read =
                second.is_some_and(|access| access.starts_with("r-") && access.ends_with('p'));
            current = number(start).zip(number(end)).filter(|_| is_file && is_private_read);
        } else if first == "Anonymous:"
            && let Some((start, end)) = current.take()
            && second == Some("0")
        {
            found.push((start, end - start));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clean_pages_of_files_are_dropped() {
        let smaps = "\
55d0-55d1 r--p 00000000 fe:00 12 /usr/bin/x\nAnonymous:  0 kB\n\
55d1-55d4 r-xp 00001000 fe:00 12 /usr/bin/x\nRss: 4 kB\nAnonymous:  0 kB\n\
55d4-55d5 r--p 00004000 fe:00 12 /usr/bin/x\nAnonymous:  4 kB\n\
55d5-55d6 rw-p 00005000 fe:00 12 /usr/bin/x\nAnonymous:  0 kB\n\
55d6-55d7 r--p 00000000 00:00 0\nAnonymous:  0 kB\n\
55d7-55d8 r--s 00000000 fe:00 12 /usr/share/x\nAnonymous:  0 kB\n";
        assert_eq!(clean_file_ranges(smaps), [(0x55d0, 1), (0x55d1, 3)]);
    }
}
