//! The memory of this process: drops the pages that only its start needed, and locks the others.
#![allow(unsafe_code, reason = "madvise and malloc_trim have no safe wrapper")]

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
    drop_start(root)?;
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    mlockall(flags).map_err(|error| Error::call("mlockall", error))
}

/// Drops the pages of this process's program and libraries from its memory, and returns freed memory to the kernel.
/// The kernel maps a page of the program again when it is touched, with few of the pages around it.
///
/// # Errors
/// The operating system refuses to name the mappings.
pub fn drop_start(root: &Root) -> Result<(), Error> {
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
    #[cfg(target_env = "gnu")]
    // SAFETY: it frees only memory that the allocator holds and that is not in use.
    unsafe {
        libc::malloc_trim(0);
    }
    Ok(())
}

/// Read-only private file mappings in which this process never wrote a page: those that the kernel does not account
/// (`ac` of VmFlags in proc_pid_smaps(5)). The loader writes the addresses of functions into some mappings before it
/// makes them read-only; such pages may be in swap, so the counts alone do not show them.
fn clean_file_ranges(smaps: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut current = None;
    for line in smaps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let Some(first) = fields.next() else { continue };
        if let Some((start, end)) = first.split_once('-') {
            let number = |text| usize::from_str_radix(text, 16).ok();
            let access = fields.next().unwrap_or_default();
            let is_candidate =
                line.contains(" /") && access.starts_with("r-") && access.ends_with('p');
            current = number(start).zip(number(end)).filter(|_| is_candidate);
        } else if matches!(first, "Anonymous:" | "Swap:") {
            current = current.filter(|_| fields.next() == Some("0"));
        } else if first == "VmFlags:"
            && let Some((start, end)) = current.take()
            && !fields.any(|flag| flag == "ac")
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
    fn only_pages_of_files_that_were_never_written_are_dropped() {
        let smaps = "\
55d0-55d1 r--p 00000000 fe:00 12 /usr/bin/x\nAnonymous:  0 kB\nSwap:  0 kB\nVmFlags: rd mr mw me sd \n\
55d1-55d4 r-xp 00001000 fe:00 12 /usr/bin/x\nRss: 4 kB\nAnonymous:  0 kB\nSwap: 0 kB\nVmFlags: rd ex\n\
55d4-55d5 r--p 00004000 fe:00 12 /usr/bin/x\nAnonymous:  4 kB\nSwap:  0 kB\nVmFlags: rd mr\n\
55d5-55d6 r--p 00005000 fe:00 12 /usr/bin/x\nAnonymous:  0 kB\nSwap:  4 kB\nVmFlags: rd mr\n\
55d6-55d7 r--p 00006000 fe:00 12 /usr/bin/x\nAnonymous:  0 kB\nSwap:  0 kB\nVmFlags: rd mr ac\n\
55d7-55d8 rw-p 00007000 fe:00 12 /usr/bin/x\nAnonymous:  0 kB\nSwap:  0 kB\nVmFlags: rd wr\n\
55d8-55d9 r--p 00000000 00:00 0\nAnonymous:  0 kB\nSwap:  0 kB\nVmFlags: rd mr\n\
55d9-55da r--s 00000000 fe:00 12 /usr/share/x\nAnonymous:  0 kB\nSwap:  0 kB\nVmFlags: rd mr\n\
55da-55db r--p 00000000 fe:00 12 /usr/bin/x\nAnonymous:  0 kB\n";
        assert_eq!(clean_file_ranges(smaps), [(0x55d0, 1), (0x55d1, 3)]);
    }

    /// The mappings of this very program: code is among those that are dropped, and what the loader wrote is not.
    #[test]
    fn code_of_this_program_is_clean_and_its_relocated_data_is_not() {
        static FUNCTIONS: [fn(&str) -> Vec<(usize, usize)>; 1] = [clean_file_ranges];
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let ranges = clean_file_ranges(&smaps);
        let has = |place: usize| {
            ranges.iter().any(|(start, length)| (*start..start + length).contains(&place))
        };
        assert!(has(clean_file_ranges as fn(&str) -> _ as usize), "{smaps}");
        assert!(!has(std::hint::black_box(&FUNCTIONS).as_ptr() as usize), "{smaps}");
    }
}
