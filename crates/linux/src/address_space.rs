//! The address space of another process: which anonymous pages are in memory and which in swap, and advice about them.
//!
//! Contract: an open page map belongs to the address space that the process had when it was opened, not to the process.
//! After `exec`, or once the process has ended, it reads as empty (`pagemap_read` in fs/proc/task_mmu.c takes no dead
//! address space), so an address space never counts as another one, whatever process has the PID. Advice goes to the
//! process: after an `exec` it may reach the new address space, which costs time but changes no content. Reading needs
//! the right to trace the process, and advice needs CAP_SYS_NICE too.
#![allow(unsafe_code, reason = "PAGEMAP_SCAN and process_madvise have no wrapper")]

use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::{Errno, pread};

use crate::held_process::HeldProcess;
use crate::system;

mod advice;
mod contents;
mod pagemap;
mod pages;
mod scan;

pub use advice::{Advised, MemoryAdvice};
pub use contents::{PageContents, PageRead};
pub use pages::{AnonymousPages, PageRange};

/// An address space with open descriptors.
#[derive(Debug)]
pub struct AddressSpace {
    process: HeldProcess,
    pagemap: OwnedFd,
    page_bytes: u64,
    /// Whether the kernel has PAGEMAP_SCAN (Linux 6.7).
    has_scan: bool,
}

impl AddressSpace {
    /// Holds the address space of the process with PID `number`; `processes` is `/proc`.
    ///
    /// # Errors
    /// The process has ended, descriptors ran out, or this program may not read its page map.
    pub fn open(processes: &OwnedFd, number: u32) -> Result<AddressSpace, Errno> {
        let process = HeldProcess::open(processes, number)?;
        let pagemap = process.open_file(c"pagemap")?;
        let page_bytes = system::page_bytes();
        let has_scan = scan::is_granted(&pagemap, page_bytes);
        let space = AddressSpace { process, pagemap, page_bytes, has_scan };
        // A kernel thread has a page map of no address space.
        if space.is_in_use() { Ok(space) } else { Err(Errno::SRCH) }
    }

    /// The PID of its process.
    pub fn number(&self) -> u32 {
        self.process.number()
    }

    /// Whether a process still uses it: false once its process has ended or has called `exec`.
    pub fn is_in_use(&self) -> bool {
        let mut entry = [0; 8];
        pread(&self.pagemap, &mut entry, 0) == Ok(entry.len())
    }

    /// Whether [`AddressSpace::anonymous`] uses PAGEMAP_SCAN.
    pub fn has_scan(&self) -> bool {
        self.has_scan
    }

    /// The anonymous pages, by PAGEMAP_SCAN if the kernel has it. Empty once the address space is not in use any more.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn anonymous(&self) -> Result<AnonymousPages, Errno> {
        let found = match self.has_scan {
            true => scan::anonymous(&self.pagemap, self.page_bytes),
            false => self.anonymous_by_entries(),
        };
        match found {
            Err(Errno::SRCH) => Ok(AnonymousPages::default()),
            found => found,
        }
    }

    /// The anonymous pages that the process has written. Before Linux 6.7 this includes pages that it only read,
    /// which are all the shared page of zeros. Empty once the address space is not in use any more.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn written(&self) -> Result<AnonymousPages, Errno> {
        let found = match self.has_scan {
            true => scan::written(&self.pagemap, self.page_bytes),
            false => self.anonymous_by_entries(),
        };
        match found {
            Err(Errno::SRCH) => Ok(AnonymousPages::default()),
            found => found,
        }
    }

    /// The frame of memory that holds the anonymous page with this number. None if the page is not in memory, or if
    /// this program lacks CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn frame(&self, page: u64) -> Result<Option<u64>, Errno> {
        pagemap::frame(&self.pagemap, page)
    }

    /// Opens the contents of its pages.
    ///
    /// # Errors
    /// The process has ended, or this program may not read its memory.
    pub fn contents(&self) -> Result<PageContents<'_>, Errno> {
        let memory = self.process.open_file(c"mem")?;
        Ok(PageContents::new(memory, &self.pagemap, self.page_bytes))
    }

    /// The anonymous pages, by every entry of the page map below mappings with anonymous pages: slow, but on every
    /// kernel.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn anonymous_by_entries(&self) -> Result<AnonymousPages, Errno> {
        let mut text = Vec::new();
        let smaps = std::fs::File::from(self.process.open_file(c"smaps")?);
        let read = (&smaps).read_to_end(&mut text);
        read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        pagemap::anonymous(&self.pagemap, &pagemap::mappings(&text, self.page_bytes))
    }

    /// Gives advice about pages, in calls of at most 512 ranges; ranges that the kernel refuses, such as unmapped ones,
    /// are skipped and counted.
    ///
    /// # Errors
    /// The process has ended, or this program may not advise it.
    pub fn advise(&self, ranges: &[PageRange], advice: MemoryAdvice) -> Result<Advised, Errno> {
        advice::advise(self.process.handle().as_raw_fd(), ranges, advice, self.page_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held_process::open_processes;
    use std::process::{Child, Command, Stdio};

    /// A program that writes to 64 pages of its own, and another one after a line of input.
    fn writer() -> Child {
        let script = "x=$(head -c 262144 /dev/zero | tr '\\0' x); echo; read a; exec cat";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    fn line_of(child: &mut Child) {
        let mut byte = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
    }

    #[test]
    fn both_ways_find_the_same_pages_until_exec_replaces_them() {
        let processes = open_processes(&crate::Root::system()).unwrap();
        let mut child = writer();
        line_of(&mut child);
        let space = AddressSpace::open(&processes, child.id()).unwrap();
        let entries = space.anonymous_by_entries().unwrap();
        let pages: u64 = entries.resident.iter().map(|range| range.pages()).sum();
        assert!(pages >= 64, "{entries:?}");
        assert_eq!(space.anonymous().unwrap(), entries);

        let written = space.written().unwrap();
        let written_pages: u64 = written.resident.iter().map(|range| range.pages()).sum();
        assert!((64..=pages).contains(&written_pages), "{written:?}");
        let contents = space.contents().unwrap();
        let mut page = vec![0; system::page_bytes() as usize];
        let mut count = 0;
        for number in written.resident.iter().flat_map(|range| range.first..range.end) {
            let is_filled = contents.read(number, &mut page) == PageRead::Read
                && page.iter().all(|&byte| byte == b'x');
            count += usize::from(is_filled);
        }
        assert!(count >= 63, "{count} pages of x");
        assert_eq!(contents.read(1, &mut page), PageRead::Unreadable);
        assert_eq!(space.frame(1), Ok(None));
        let frame = space.frame(written.resident[0].first).unwrap();
        assert_eq!(frame.is_some(), crate::process::is_root(), "{frame:?}");
        assert_eq!(contents.read(u64::MAX / 8, &mut page), PageRead::Unreadable);

        let cold = space.advise(&entries.resident, MemoryAdvice::Cold).unwrap();
        assert_eq!((cold.pages, cold.refused), (pages, 0));
        // A range that is not mapped does not keep the others from being advised.
        let mut holes = vec![PageRange::new(1, 2)];
        for &range in &entries.resident {
            // The first pages of every address space stay unmapped (vm.mmap_min_addr).
            holes.extend([range, PageRange::new(3, 4)]);
        }
        let cold = space.advise(&holes, MemoryAdvice::Cold).unwrap();
        assert!(cold.pages >= pages && cold.refused >= 1, "{cold:?}");

        assert!(space.is_in_use());
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"\nnext\n").unwrap();
        line_of(&mut child);
        assert!(!space.is_in_use(), "exec replaced the address space");
        assert_eq!(contents.read(written.resident[0].first, &mut page), PageRead::Unreadable);
        assert_eq!(space.anonymous().unwrap(), AnonymousPages::default());
        assert!(AddressSpace::open(&processes, child.id()).unwrap().is_in_use());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(space.anonymous().unwrap(), AnonymousPages::default());
        assert_eq!(space.advise(&entries.resident, MemoryAdvice::Cold), Err(Errno::SRCH));
        assert!(AddressSpace::open(&processes, u32::MAX).is_err());
    }
}
