//! Freed extents whose pages decay, as in jemalloc 5.3 (src/decay.c): of the pages that become unused in
//! one of 200 epochs, a share stays that falls from all to none over ten seconds by a smooth step; pages
//! above that share go, the oldest first. Decay advances only when something is allocated or freed.
//!
//! As in jemalloc, blocks of 8 MiB and more go at once, memory that must read as zero is discarded rather
//! than cleared, and address space is never given back.

use std::collections::BTreeSet;

use super::{Allocator, Held, Placed, Row, Wanted};
use crate::alloc::kernel::Kernel;
use crate::alloc::spans::{Class, FreeSpan, Spans};

pub const ROW: Row = Row {
    name: "decay-like",
    summary: "extents that decay over 10 s, as jemalloc's; zeroed ones are discarded",
    build: |_| Box::new(Decay::new()),
};

const EPOCHS: usize = 200;
const EPOCH_NS: u64 = 10_000_000_000 / EPOCHS as u64;
/// oversize_threshold: 8 MiB.
const OVERSIZE_PAGES: u32 = 2048;

/// Invariant: dirty_pages = pages of all spans of class `Hot`.
pub struct Decay {
    spans: Spans,
    /// Hot spans by age: a running number, and the span's number.
    by_age: BTreeSet<(u64, u32)>,
    ages: Vec<u64>,
    deposits: u64,
    dirty_pages: u64,
    /// Pages that became dirty in each epoch, the current epoch last.
    backlog: [u64; EPOCHS],
    epoch: u64,
    /// Dirty pages at the start of the current epoch.
    dirty_before: u64,
}

impl Decay {
    fn new() -> Decay {
        Decay {
            spans: Spans::default(),
            by_age: BTreeSet::new(),
            ages: Vec::new(),
            deposits: 0,
            dirty_pages: 0,
            backlog: [0; EPOCHS],
            epoch: 0,
            dirty_before: 0,
        }
    }

    fn insert(&mut self, span: FreeSpan, age: u64) {
        let number = self.spans.insert(span);
        self.ages.resize(self.spans.numbers(), 0);
        if span.class == Class::Hot {
            self.ages[number as usize] = age;
            self.by_age.insert((age, number));
            self.dirty_pages += u64::from(span.pages);
        }
    }

    fn remove(&mut self, number: u32) -> Option<(FreeSpan, u64)> {
        let span = self.spans.remove(number)?;
        let age = self.ages[number as usize];
        if span.class == Class::Hot {
            self.by_age.remove(&(age, number));
            self.dirty_pages -= u64::from(span.pages);
        }
        Some((span, age))
    }

    /// Adds a span, merged with neighbours of its class.
    fn add(&mut self, mut span: FreeSpan) {
        for number in
            self.spans.neighbours(span.first, span.pages, span.class).into_iter().flatten()
        {
            if let Some((other, _)) = self.remove(number) {
                span.first = span.first.min(other.first);
                span.pages += other.pages;
            }
        }
        self.deposits += 1;
        self.insert(span, self.deposits);
    }

    fn tick(&mut self, kernel: &mut Kernel<'_>) {
        let epoch = kernel.now / EPOCH_NS;
        let passed = (epoch - self.epoch).min(EPOCHS as u64) as usize;
        if passed == 0 {
            return;
        }
        self.epoch = epoch;
        self.backlog.rotate_left(passed);
        self.backlog[EPOCHS - passed..].fill(0);
        self.backlog[EPOCHS - 1] = self.dirty_pages.saturating_sub(self.dirty_before);
        let limit = self.limit();
        while self.dirty_pages > limit
            && let Some(&(_, number)) = self.by_age.first()
            && let Some((span, _)) = self.remove(number)
        {
            kernel.discard(span.first, span.pages);
            self.add(FreeSpan { class: Class::Clean, ..span });
        }
        self.dirty_before = self.dirty_pages;
    }

    /// Limit of dirty pages: of each epoch's pages the share that its age leaves.
    fn limit(&self) -> u64 {
        /// 6 x^5 - 15 x^4 + 10 x^3 of x = step / `EPOCHS`, times `EPOCHS`^5.
        fn smooth_step(step: u128) -> u128 {
            let all = EPOCHS as u128;
            (6 * step * step + 10 * all * all - 15 * all * step) * step * step * step
        }
        let whole = smooth_step(EPOCHS as u128);
        let shares = self.backlog.iter().zip(1u128..);
        let kept: u128 = shares.map(|(&pages, step)| u128::from(pages) * smooth_step(step)).sum();
        (kept / whole) as u64
    }
}

impl Allocator for Decay {
    fn allocate(&mut self, wanted: Wanted, kernel: &mut Kernel<'_>) -> Placed {
        if wanted.is_mapped {
            return Placed { first: kernel.map(wanted.pages), populated_pages: 0 };
        }
        self.tick(kernel);
        let best = self.spans.best(wanted.pages).and_then(|number| self.remove(number));
        let first = match best {
            None => kernel.map(wanted.pages),
            Some((span, age)) => {
                let rest = span.pages - wanted.pages;
                if rest > 0 {
                    let rest = FreeSpan { first: span.first + wanted.pages, pages: rest, ..span };
                    self.insert(rest, age);
                }
                if wanted.is_zeroed && span.class == Class::Hot {
                    kernel.discard(span.first, wanted.pages);
                }
                span.first
            }
        };
        Placed { first, populated_pages: 0 }
    }

    fn free(&mut self, held: Held, kernel: &mut Kernel<'_>) {
        if held.is_mapped {
            return kernel.unmap(held.first, held.pages);
        }
        let is_oversize = held.pages >= OVERSIZE_PAGES;
        if is_oversize {
            kernel.discard(held.first, held.pages);
        }
        let class = if is_oversize { Class::Clean } else { Class::Hot };
        self.add(FreeSpan { first: held.first, pages: held.pages, class });
        self.tick(kernel);
    }

    fn resize(&mut self, held: Held, wanted: Wanted, kernel: &mut Kernel<'_>) -> Option<u32> {
        held.is_mapped.then(|| kernel.remap(held.first, held.pages, wanted.pages))
    }
}
