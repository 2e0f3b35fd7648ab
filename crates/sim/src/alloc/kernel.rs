//! The kernel's calls for an allocator, for one process; all counting is here.

use super::outcome::Counts;
use super::space::{Frames, Page, Space};

pub(super) struct Kernel<'a> {
    pub space: &'a mut Space,
    pub frames: &'a mut Frames,
    pub counts: &'a mut Counts,
    pub now: u64,
}

impl Kernel<'_> {
    /// `mmap` of anonymous memory.
    pub fn map(&mut self, pages: u32) -> u32 {
        self.counts.calls += 1;
        self.space.place(pages)
    }

    /// `munmap`.
    pub fn unmap(&mut self, first: u32, pages: u32) {
        self.counts.calls += 1;
        self.drop_frames(first, pages);
        self.space.forget(first, pages);
    }

    /// `madvise(MADV_DONTNEED)`, or a heap that shrinks.
    pub fn discard(&mut self, first: u32, pages: u32) {
        self.counts.calls += 1;
        self.drop_frames(first, pages);
    }

    /// `madvise(MADV_FREE)`.
    pub fn lazily_free(&mut self, first: u32, pages: u32) {
        self.counts.calls += 1;
        self.make_lazy(first, pages);
    }

    /// Lets the kernel take pages later, without a call.
    pub fn make_lazy(&mut self, first: u32, pages: u32) {
        for page in first..first + pages {
            if matches!(self.space.page(page), Page::Dirty | Page::Zero) {
                self.space.set(page, Page::Lazy, self.now, self.frames);
            }
        }
    }

    /// `mremap` to a new place; pages beyond the shorter length are dropped.
    pub fn remap(&mut self, first: u32, pages: u32, pages_wanted: u32) -> u32 {
        let to = self.space.place(pages_wanted);
        self.move_pages(first, to, pages.min(pages_wanted));
        self.drop_frames(first, pages);
        self.space.forget(first, pages);
        to
    }

    /// Moves frames to a place without frames, by one call.
    pub fn move_pages(&mut self, from: u32, to: u32, pages: u32) {
        self.counts.calls += 1;
        for page in 0..pages {
            let state = self.space.page(from + page);
            self.space.set(from + page, Page::Absent, self.now, self.frames);
            self.space.set(to + page, state, self.now, self.frames);
        }
    }

    /// Writes zeros over pages that are not known to be zero.
    pub fn zero(&mut self, first: u32, pages: u32) {
        for page in first..first + pages {
            if matches!(self.space.page(page), Page::Dirty | Page::Lazy) {
                self.counts.pages_zeroed += 1;
                self.space.set(page, Page::Zero, self.now, self.frames);
            }
        }
    }

    /// Number of pages of a range that have a frame.
    pub fn resident(&self, first: u32, pages: u32) -> u32 {
        let pages = first..first + pages;
        pages.filter(|&page| self.space.page(page) != Page::Absent).count() as u32
    }

    fn drop_frames(&mut self, first: u32, pages: u32) {
        for page in first..first + pages {
            if self.space.page(page) != Page::Absent {
                self.space.set(page, Page::Absent, self.now, self.frames);
            }
        }
    }
}
