//! glibc's malloc for large blocks (malloc/malloc.c, 2.36): a block above the threshold is a mapping of
//! its own, others are in a heap that grows at its top and shrinks when much of its top is free.
//!
//! Departs from it: one heap for all threads, nothing below 64 KiB in it, resizing in the heap always
//! copies, and calloc in the heap clears only pages that were written.

use super::{Allocator, Held, Placed, Row, Wanted};
use crate::alloc::kernel::Kernel;
use crate::alloc::ranges::Ranges;
use crate::alloc::space::HEAP;

pub const FIXED: Row = Row {
    name: "glibc-fixed",
    summary: "glibc with MALLOC_MMAP_THRESHOLD_ at 128 KiB, which then stays there",
    build: |_| Box::new(Glibc::new(false)),
};

pub const DYNAMIC: Row = Row {
    name: "glibc",
    summary: "glibc as it is: the threshold rises to the largest block freed, up to 32 MiB",
    build: |_| Box::new(Glibc::new(true)),
};

/// DEFAULT_MMAP_THRESHOLD, DEFAULT_TRIM_THRESHOLD and DEFAULT_TOP_PAD: 128 KiB each.
const THRESHOLD_PAGES: u32 = 32;
const TOP_PAD_PAGES: u32 = 32;

/// DEFAULT_MMAP_THRESHOLD_MAX: 32 MiB.
const THRESHOLD_PAGES_MAX: u32 = 8192;

/// The heap is from `HEAP` to `end`. Free ranges below `top` are in `free`; everything from `top` on is free.
pub struct Glibc {
    is_dynamic: bool,
    threshold_pages: u32,
    trim_pages: u32,
    free: Ranges,
    top: u32,
    end: u32,
}

impl Glibc {
    fn new(is_dynamic: bool) -> Glibc {
        Glibc {
            is_dynamic,
            threshold_pages: THRESHOLD_PAGES,
            trim_pages: THRESHOLD_PAGES,
            free: Ranges::default(),
            top: HEAP,
            end: HEAP,
        }
    }

    fn carve(&mut self, pages: u32, kernel: &mut Kernel<'_>) -> u32 {
        if let Some(first) = self.free.take_best(pages) {
            return first;
        }
        if self.end - self.top < pages {
            kernel.counts.calls += 1;
            self.end = self.top + pages + TOP_PAD_PAGES;
        }
        self.top += pages;
        self.top - pages
    }

    fn give_back(&mut self, first: u32, pages: u32, kernel: &mut Kernel<'_>) {
        let (first, pages) = self.free.insert(first, pages);
        if first + pages < self.top {
            return;
        }
        self.free.remove(first, pages);
        self.top = first;
        if self.end - self.top > self.trim_pages {
            let end = self.top + TOP_PAD_PAGES;
            kernel.discard(end, self.end - end);
            self.end = end;
        }
    }
}

impl Allocator for Glibc {
    fn allocate(&mut self, wanted: Wanted, kernel: &mut Kernel<'_>) -> Placed {
        let first = if wanted.is_mapped || wanted.pages > self.threshold_pages {
            kernel.map(wanted.pages)
        } else {
            let first = self.carve(wanted.pages, kernel);
            if wanted.is_zeroed {
                kernel.zero(first, wanted.pages);
            }
            first
        };
        Placed { first, populated_pages: 0 }
    }

    fn free(&mut self, held: Held, kernel: &mut Kernel<'_>) {
        if held.first >= HEAP {
            return self.give_back(held.first, held.pages, kernel);
        }
        kernel.unmap(held.first, held.pages);
        let raises = self.threshold_pages + 1..=THRESHOLD_PAGES_MAX;
        if self.is_dynamic && !held.is_mapped && raises.contains(&held.pages) {
            self.threshold_pages = held.pages;
            self.trim_pages = 2 * held.pages;
        }
    }

    fn resize(&mut self, held: Held, wanted: Wanted, kernel: &mut Kernel<'_>) -> Option<u32> {
        (held.first < HEAP).then(|| kernel.remap(held.first, held.pages, wanted.pages))
    }
}
