//! Pools of freed spans under `policy::retention`, the object that the preload library drives: the
//! paper's (S3.4) and ours. Best fit, split, merged with neighbours of the same class.
//!
//! The paper's pool is in the kernel: its calls stay, every page handed out reads as zero, and the kernel
//! fills the pages of a miss at once, including holes. Ours is in the program, fills pages that it expects
//! to be touched, and clears only memory that must read as zero. Departs from the library: pages by which a
//! block grows are not filled ahead.

use policy::retention::{Action, Entry, Foresight, Retention, Rules, Span, Stretch, hot_bytes_for};
use types::Nanos;

use super::{Allocator, Held, Placed, Row, Wanted};
use crate::alloc::kernel::Kernel;
use crate::alloc::spans::{Class, FreeSpan, Spans};

pub const PAPER: Row = Row {
    name: "paper",
    summary: "S3's pool in the kernel: kept until memory is short, cleared at reuse, misses premapped",
    build: |_| Box::new(Pool::new(Rules::paper(), Some(u32::MAX))),
};

pub const CAPPED: Row = Row {
    name: "paper-capped",
    summary: "S3's pool that premaps at most the first MiB of a block",
    build: |_| Box::new(Pool::new(Rules::paper(), Some(PREMAP_PAGES_MAX))),
};

pub const DECAY: Row = Row {
    name: "lazy",
    summary: "our preload library: up to 32 MiB hot, lazily freed after 1 s, discarded after 5 s",
    build: |memory| Box::new(Pool::new(Rules::decay(hot_bytes_for(memory)), None)),
};

/// S3.4, practical: 1 MiB.
const PREMAP_PAGES_MAX: u32 = 256;

/// Memory above this is discarded instead of cleared: 8 MiB, as in the library.
const ZERO_PAGES_MAX: u32 = 2048;

/// Address space that our library reserves by one call: 1 GiB.
const CHUNK_PAGES: u64 = 1 << 18;

/// Pages that our library examines at the end of the part left unmapped.
const LOOKED_AT_MAX: u32 = 512;

pub struct Pool {
    retention: Retention,
    entries: Vec<Entry>,
    spans: Spans,
    /// Pages of a block to fill when it is given; none: the pool is in the program.
    premap_pages: Option<u32>,
    /// Address space that our library has reserved so far.
    reserved_pages: u64,
    foresight: Foresight,
    /// Whether a page of the space may have content, or was filled ahead; other pages of a block are fresh.
    known: Vec<bool>,
}

impl Pool {
    fn new(rules: Rules, premap_pages: Option<u32>) -> Pool {
        Pool {
            retention: Retention::new(rules),
            entries: Vec::new(),
            spans: Spans::default(),
            premap_pages,
            reserved_pages: 0,
            foresight: Foresight::new(),
            known: Vec::new(),
        }
    }

    fn is_in_kernel(&self) -> bool {
        self.premap_pages.is_some()
    }

    fn insert(&mut self, span: FreeSpan) -> u32 {
        let number = self.spans.insert(span);
        self.entries.resize(self.spans.numbers(), Entry::default());
        number
    }

    /// Removes a span from all lists.
    fn remove(&mut self, number: u32) -> Option<FreeSpan> {
        self.retention.take(&mut self.entries, Span(number));
        self.spans.remove(number)
    }

    /// Takes the front of a span; the rest keeps its age.
    fn cut(&mut self, number: u32, pages: u32) -> Option<FreeSpan> {
        let span = self.spans.get(number)?;
        let rest = span.pages.saturating_sub(pages);
        if rest == 0 {
            return self.remove(number);
        }
        let place = self.insert(FreeSpan { first: span.first + pages, pages: rest, ..span });
        self.retention.replace(&mut self.entries, Span(number), Span(place), rest);
        self.spans.remove(number);
        Some(FreeSpan { pages, ..span })
    }

    /// Adds a span, merged with neighbours of its class, which become as young as it is.
    fn add(&mut self, mut span: FreeSpan, now: u64) {
        for number in
            self.spans.neighbours(span.first, span.pages, span.class).into_iter().flatten()
        {
            if let Some(other) = self.remove(number) {
                span.first = span.first.min(other.first);
                span.pages += other.pages;
            }
        }
        let number = self.insert(span);
        if span.class != Class::Clean {
            let now = Nanos(now as i64);
            self.retention.deposit(&mut self.entries, Span(number), span.pages, now);
        }
    }

    /// Performs the actions that the rules demand by now.
    fn act(&mut self, kernel: &mut Kernel<'_>) {
        let now = Nanos(kernel.now as i64);
        while let Some(action) = self.retention.next_action(&mut self.entries, now) {
            match action {
                Action::Split(Span(number), pages) => {
                    let Some((rest, left)) = self.spans.split(number, pages) else { continue };
                    self.entries.resize(self.spans.numbers(), Entry::default());
                    let (span, rest) = (Span(number), Span(rest));
                    self.retention.split(&mut self.entries, span, pages, rest, left);
                }
                Action::LazilyFree(Span(number)) => {
                    let Some(span) = self.spans.get(number) else { continue };
                    match self.is_in_kernel() {
                        true => kernel.make_lazy(span.first, span.pages),
                        false => kernel.lazily_free(span.first, span.pages),
                    }
                    self.spans.set_class(number, Class::Lazy);
                }
                Action::Discard(Span(number)) => {
                    let Some(span) = self.spans.remove(number) else { continue };
                    kernel.discard(span.first, span.pages);
                    self.note_free(span.first, span.pages, false);
                    self.add(FreeSpan { class: Class::Clean, ..span }, kernel.now);
                }
            }
        }
    }

    /// A span of this many pages, from the pool if possible.
    fn take(&mut self, pages: u32, kernel: &mut Kernel<'_>) -> FreeSpan {
        if let Some(span) = self.spans.best(pages).and_then(|number| self.cut(number, pages)) {
            return span;
        }
        let before = self.reserved_pages.div_ceil(CHUNK_PAGES);
        self.reserved_pages += u64::from(pages);
        if !self.is_in_kernel() {
            kernel.counts.calls += self.reserved_pages.div_ceil(CHUNK_PAGES) - before;
        }
        FreeSpan { first: kernel.space.reserve(pages), pages, class: Class::Clean }
    }

    /// Pages of a fresh block to fill before their touch, from its first on.
    fn foreseen(&mut self, fresh: Stretch, kernel: &mut Kernel<'_>) -> u32 {
        if u64::from(fresh.pages) > self.retention.rules().hot_bytes.pages() {
            return 0;
        }
        if let Some(left) = self.foresight.awaited() {
            let touched = touched_of(left, kernel);
            if !Foresight::is_touched(left, touched) {
                return 0;
            }
            self.foresight.observe(left, touched);
        }
        let pages = self.foresight.mapped_ahead(fresh);
        if pages > 0 {
            kernel.counts.calls += 1;
            self.note_known(fresh.first, pages, true);
            self.foresight.mapped(fresh, pages);
        }
        pages
    }

    /// Learns whether the program touched the part left unmapped of a block that it frees.
    fn look_back(&mut self, first: u32, pages: u32, kernel: &mut Kernel<'_>) {
        let is_known = |&page: &u32| self.known.get(page as usize).copied().unwrap_or(false);
        let mut before_end = (first..first + pages).rev().skip_while(is_known);
        if let Some(last) = before_end.next() {
            let pages = 1 + before_end.take_while(|page| !is_known(page)).count() as u32;
            let left = Stretch { first: last + 1 - pages, pages };
            self.foresight.observe(left, touched_of(left, kernel));
        }
    }

    /// Records that pages are free; `is_known` if they may have content.
    fn note_free(&mut self, first: u32, pages: u32, is_known: bool) {
        self.note_known(first, pages, is_known);
        self.foresight.freed(first, pages);
    }

    fn note_known(&mut self, first: u32, pages: u32, is_known: bool) {
        let pages = first as usize..(first + pages) as usize;
        if self.known.len() < pages.end {
            self.known.resize(pages.end, false);
        }
        self.known[pages].fill(is_known);
    }

    fn clear(&self, span: FreeSpan, kernel: &mut Kernel<'_>) {
        let zeroed = if self.is_in_kernel() { span.pages } else { span.pages.min(ZERO_PAGES_MAX) };
        kernel.zero(span.first, zeroed);
        let (first, pages) = (span.first + zeroed, span.pages - zeroed);
        if kernel.resident(first, pages) > 0 {
            kernel.discard(first, pages);
        }
    }
}

impl Allocator for Pool {
    fn allocate(&mut self, wanted: Wanted, kernel: &mut Kernel<'_>) -> Placed {
        self.act(kernel);
        let span = self.take(wanted.pages, kernel);
        if self.is_in_kernel() {
            kernel.counts.calls += 1;
        }
        if (self.is_in_kernel() || wanted.is_zeroed) && span.class != Class::Clean {
            self.clear(span, kernel);
        }
        let fresh = Stretch { first: span.first, pages: wanted.pages };
        let populated_pages = match self.premap_pages {
            Some(pages) => pages.min(wanted.pages),
            None if span.class == Class::Clean => self.foreseen(fresh, kernel),
            None => 0,
        };
        Placed { first: span.first, populated_pages }
    }

    fn free(&mut self, held: Held, kernel: &mut Kernel<'_>) {
        if self.is_in_kernel() {
            kernel.counts.calls += 1;
            // The kernel knows at once which pages it may take, so that merging keeps them.
            kernel.make_lazy(held.first, held.pages);
        } else {
            self.look_back(held.first, held.pages, kernel);
            self.note_free(held.first, held.pages, true);
        }
        let class = if self.is_in_kernel() { Class::Lazy } else { Class::Hot };
        self.add(FreeSpan { first: held.first, pages: held.pages, class }, kernel.now);
        self.act(kernel);
    }

    /// Moves the pages to address space without frames; the old place is clean then.
    fn resize(&mut self, held: Held, wanted: Wanted, kernel: &mut Kernel<'_>) -> Option<u32> {
        let clean = self.spans.best_of(Class::Clean, wanted.pages);
        let first = match clean.and_then(|number| self.cut(number, wanted.pages)) {
            Some(span) => span.first,
            None => kernel.space.reserve(wanted.pages),
        };
        let kept = held.pages.min(wanted.pages);
        kernel.move_pages(held.first, first, kept);
        if kernel.resident(held.first + kept, held.pages - kept) > 0 {
            kernel.discard(held.first + kept, held.pages - kept);
        }
        self.note_free(held.first, held.pages, false);
        self.add(
            FreeSpan { first: held.first, pages: held.pages, class: Class::Clean },
            kernel.now,
        );
        Some(first)
    }

    fn pass_time(&mut self, kernel: &mut Kernel<'_>) {
        self.act(kernel);
    }

    fn pressure(&mut self, kernel: &mut Kernel<'_>) {
        if !self.is_in_kernel() {
            self.retention.pressure(Nanos(kernel.now as i64));
            self.act(kernel);
        }
    }
}

/// Estimates how many pages have a frame, from those at their end.
fn touched_of(left: Stretch, kernel: &mut Kernel<'_>) -> u32 {
    let looked_at = left.pages.min(LOOKED_AT_MAX);
    kernel.counts.calls += 1;
    let there = u64::from(kernel.resident(left.first + left.pages - looked_at, looked_at));
    (there * u64::from(left.pages) / u64::from(looked_at.max(1))) as u32
}
