//! The arena's page runs: their owners, the free spans and the state of each. No system call is made
//! here; the pool performs what this module decides.

use policy::retention::{Action, Entry, Foresight, Retention, Rules, Span};
use types::Nanos;

use crate::bits::PageBits;
use crate::chunks::CHUNK_PAGES;
use crate::huge_pages::HUGE_PAGES;
use crate::spans::{Free, FreeSpan, Place, Spans, Tag};

/// Owner of pages that are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// `malloc` and its relatives: freed as a whole.
    Block,
    /// `mmap`: any single page of it may be unmapped.
    Map,
}

/// Pages that were handed out, and their state before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub first: u32,
    pub pages: u32,
    /// The most volatile state among its pages that were not clean.
    pub held: Free,
    /// Number of pages that were not clean.
    pub kept: u32,
}

impl Grant {
    /// A grant of pages that were all in one state.
    pub fn of(first: u32, pages: u32, held: Free) -> Grant {
        Grant { first, pages, held, kept: if held == Free::Clean { 0 } else { pages } }
    }

    /// Adds pages that were in `state`.
    fn add(&mut self, state: Free, pages: u32) {
        if state != Free::Clean {
            self.held = if self.kept == 0 { state } else { self.held.max(state) };
            self.kept += pages;
        }
    }
}

/// A system call to make on a detached span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    LazilyFree(FreeSpan),
    Discard(FreeSpan),
}

/// Memory that lives as long as the program, with one element per page of the arena.
#[derive(Debug)]
pub struct Tables {
    pub tags: &'static mut [Tag],
    pub entries: &'static mut [Entry],
    pub bits: PageBits,
}

/// The pages of the process and their states, behind one lock.
///
/// # States of pages
///
/// | state | where it is recorded | the page |
/// |---|---|---|
/// | clean | span of [`Free::Clean`] | is free; has no memory and reads as zero |
/// | hot | span of [`Free::Hot`], hot list of `Retention` | is free and resident |
/// | lazy | span of [`Free::Lazy`], lazy list of `Retention` | is free and resident until the kernel takes it |
/// | detached | `detached` | is free; a thread makes a system call on it |
/// | block | tag of the block's first page | belongs to the program, by `malloc` |
/// | mapped | bit `mapped` | belongs to the program, by `mmap`, or lost its address to another mapping |
/// | unowned | nowhere | belongs to the thread that moves it between two other states |
/// | returned | bit `returned` | is unowned without memory, and becomes clean |
/// | claimed | bit `claimed` | is in a free span, but the program has mapped over it |
/// | released | bit `released`, or [`crate::retired`] for all | is the kernel's again, for good |
///
/// Adjacent free spans differ in state, except at the borders of chunks. The other bits of [`PageBits`] add to the
/// state: a free page is also `closed` if it is inaccessible, and `aside` if its memory is in the vault; a page of
/// the program's is also `tainted` if its mapping differs from the arena's.
///
/// | from | to | by | lock |
/// |---|---|---|---|
/// | nothing | clean | `grow` in `pool::obtain` | yes |
/// | clean, hot, lazy | block, mapped | `allocate`, `extend` in `pool::obtain` and `pool::extend` | yes |
/// | block | unowned | `disown_block` in `free` and `realloc` | yes |
/// | mapped | unowned | `disown_mapped` in `munmap` | yes |
/// | mapped | unowned | the bit, in `mremap`, `deferred::unmap` and `holes` | no |
/// | unowned | hot | `deposit` in `pool::give_back` of `Freed::Used` and `Freed::Closed` | yes |
/// | unowned | clean | `deposit_clean` in `pool::give_back` of `Freed::Tainted` and `Freed::Clean` | yes |
/// | unowned | returned | `deferred::return_clean`, if the lock stays taken | no |
/// | returned | clean | `deferred::settle` | yes |
/// | returned | mapped | `deferred::claim` | no |
/// | clean, hot, lazy | mapped, tainted | `deferred::own_free`, `holes::map`: the program maps over them | yes |
/// | clean, hot, lazy | claimed | `deferred::claim`, if the lock stays taken | no |
/// | claimed | mapped, tainted | `deferred::settle` | yes |
/// | claimed | clean, hot, lazy as before | `deferred::unmap` | no |
/// | hot, lazy | detached | `next_work` in `pool::work`, `oldest` before a fork | yes |
/// | detached | lazy, clean | `finish`; `deferred::finish` if the lock stays taken, then `settle` | yes |
/// | detached | hot | `recover` in the child of a fork | yes |
/// | hot, lazy | clean | `fork::find_clean` in the child of a fork | yes |
/// | clean, hot, lazy | released | `holes::open_below`, `retire::retire` | yes |
/// | block, mapped | released | `free`, `munmap` and `mremap` in the retired arena | no |
/// | unowned | unowned for good | `pool::give_back`, if the kernel refuses to map tainted pages again | no |
/// | block, mapped | mapped, tainted for good | `pool::refuse`, if the pages' addresses are lost | no |
///
/// # Rules of locks
///
/// Locks are taken in the order of this table. The holder of the arena's lock takes no other one; only in a fork,
/// libc takes its own locks after it.
///
/// | lock | who waits for it | what its holder may do |
/// |---|---|---|
/// | libc's list of streams ([`crate::streams`]) | `fork` | take the arena's lock |
/// | the helper's start or end (`waking::THREAD`) | `helper::end`, 0.1 s at most | join the helper |
/// | the end of moves (`vault::shut`) | `retire`, a bounded time | take the arena's lock |
/// | examination (`premap::IS_LOOKING`) | no thread: others skip it | make system calls |
/// | the arena's, by `locking::lock` | `malloc` and its relatives, `fork`, `retire`, the helper | see below |
/// | by `lock_briefly` | `mmap` and its relatives, some microseconds | see below |
/// | by `lock_patiently` | calls whose result must not depend on the helper, until it releases the lock | see below |
/// | by `lock_at_rest` | calls that map over free memory, until the detached span is back | see below |
///
/// - **What must never wait.** `mmap` and its relatives wait for no thread that a signal may have suspended: a
///   collector calls them while it has stopped the other threads at any instruction. They never use `lock`. If the
///   lock stays taken, they leave a note in the bits `returned` and `claimed`, and the next thread that takes the
///   lock settles the notes before anything else.
/// - **Signal handlers.** If this thread already holds the lock, all these functions return none, because a handler
///   may call `mmap` at any instruction.
/// - **System calls under the lock** are made only to reserve a chunk, to include new pages in core files, to exclude
///   clean ones from them (at most once a second, or once nothing is retained), to wake a thread, around a fork, where
///   the program maps over free memory, where the arena gives addresses up, and on tables once nothing is retained.
/// - **A free takes the lock once.** It takes the lock a second time only after system calls that come between the
///   check of the owner and the deposit: to examine fresh pages, to close pages, to map tainted pages again. Each
///   action of `pool::work` takes it once more, and so does the first reading of the available memory.
/// - **The detached span.** There is one at a time. Its thread blocks signals during the call, so no handler
///   suspends it, and `lock_at_rest` may wait for it.
/// - **Bits.** The owner of a page changes its bits without the lock, by atomic operations. [`Bits::take`] gives a
///   page that is `mapped`, `returned` or `claimed` to the thread that clears the bit first.
/// - **The helper** starts in `malloc` and `free` without the arena's lock, because `pthread_create` takes libc's
///   locks. It does not start in `mmap`, which signal handlers use.
///
/// [`Bits::take`]: crate::bits::Bits::take
#[derive(Debug)]
pub struct Arena {
    spans: Spans,
    entries: &'static mut [Entry],
    pub bits: PageBits,
    pub foresight: Foresight,
    retention: Retention,
    detached: Option<Work>,
    /// Pages up to the last that was ever handed out; the tables beyond them are unused.
    used: u32,
    /// Pages up to the last whose tables were reported as wanted.
    prepared: u32,
    /// Pages up to the last that was reported for core files.
    dumped: u32,
    /// How often pages became clean.
    cleanings: u32,
}

/// Pages whose tables are wanted at once, at most: 16 KiB of tags and 24 KiB of entries, in base pages.
const PREPARED_AHEAD: u32 = 1024;

/// Limit on spans above the limit whose parts may stay hot before a span goes whole.
const PASSED_MAX: u32 = 16;

/// Pages that core files include ahead of use, at most: 64 MiB.
const DUMPED_AHEAD: u32 = 16 << 10;

impl Arena {
    /// An arena without pages.
    pub const fn new(rules: Rules) -> Arena {
        Arena {
            spans: Spans::new(),
            entries: &mut [],
            bits: PageBits::new(&[]),
            foresight: Foresight::new(),
            retention: Retention::new(rules),
            detached: None,
            used: 0,
            prepared: 0,
            dumped: 0,
            cleanings: 0,
        }
    }

    pub fn rules(&self) -> Rules {
        *self.retention.rules()
    }

    /// Replaces the rules.
    pub fn set_rules(&mut self, rules: Rules) {
        self.retention.set_rules(rules);
    }

    /// Adds the chunk that begins at the page `first`; the tables keep their content and have
    /// zeros for the new pages.
    pub fn grow(&mut self, first: u32, tables: Tables) {
        self.spans.grow(tables.tags);
        self.entries = tables.entries;
        self.bits = tables.bits;
        self.spans.insert(FreeSpan { first, pages: CHUNK_PAGES, state: Free::Clean });
    }

    /// Hands out `pages` pages at a place that `placement` chooses; the first is a multiple of `alignment`
    /// (a power of two). None if no free memory fits.
    pub fn allocate(&mut self, pages: u32, alignment: u32, owner: Owner) -> Option<Grant> {
        let slack = alignment - 1;
        let place = self.spans.place(pages.checked_add(slack)?)?;
        let grant = self.take(place.span, (place.first + slack) & !slack, pages);
        self.own(grant.first, pages, owner);
        Some(grant)
    }

    /// Hands out pages that are clean and accessible, so that no system call is needed.
    pub fn allocate_open(&mut self, pages: u32, alignment: u32, owner: Owner) -> Option<Grant> {
        let place = |span: FreeSpan| {
            let mut stretches = self.bits.closed.runs(span.first, span.end(), false);
            stretches.find_map(|(from, to)| {
                let first = from.checked_next_multiple_of(alignment)?;
                (first < to && to - first >= pages).then_some((span, first))
            })
        };
        let (span, first) = self.spans.longest(Free::Clean).find_map(place)?;
        self.cut(span, first, pages);
        self.own(first, pages, owner);
        Some(Grant::of(first, pages, Free::Clean))
    }

    /// Removes pages from adjacent free spans, of which `span` is the first.
    fn take(&mut self, mut span: FreeSpan, first: u32, pages: u32) -> Grant {
        let mut grant = Grant { first, pages, held: Free::Clean, kept: 0 };
        let end = first + pages;
        loop {
            let (from, to) = (span.first.max(first), span.end().min(end));
            if from < to {
                self.cut(span, from, to - from);
                grant.add(span.state, to - from);
            }
            match self.spans.at(to) {
                Some(next) if to < end => span = next,
                _ => return grant,
            }
        }
    }

    /// Hands out the `pages` pages from `first` on to extend the memory before them, if they are free and
    /// in one chunk.
    pub fn extend(&mut self, first: u32, pages: u32) -> Option<Grant> {
        let end = first.checked_add(pages)?;
        if first.is_multiple_of(CHUNK_PAGES) || first / CHUNK_PAGES != (end - 1) / CHUNK_PAGES {
            return None;
        }
        let span = self.spans.at(first)?;
        let mut reached = span.end();
        while reached < end {
            reached = self.spans.at(reached)?.end();
        }
        Some(self.take(span, first, pages))
    }

    /// Removes the free pages among `pages` pages from `first` on, span by span; they are then
    /// unowned.
    pub fn carve(&mut self, first: u32, pages: u32) -> Option<Grant> {
        let end = first.saturating_add(pages);
        let span = self.spans.first_from(first, end)?;
        let (from, to) = (span.first.max(first), span.end().min(end));
        self.cut(span, from, to - from);
        Some(Grant::of(from, to - from, span.state))
    }

    /// Records the owner of the pages.
    pub fn own(&mut self, first: u32, pages: u32, owner: Owner) {
        debug_assert!(self.spans.first_from(first, first + pages).is_none(), "still free");
        match owner {
            Owner::Block => self.spans.set_block(first, pages),
            Owner::Map => self.bits.mapped.set(first, pages),
        }
    }

    /// Number of pages of the block that begins at `first`, if one does.
    pub fn block(&self, first: u32) -> Option<u32> {
        self.spans.block(first)
    }

    /// Ends the block at `first`: its pages become unowned. Returns their number; none if no
    /// block begins there.
    pub fn disown_block(&mut self, first: u32) -> Option<u32> {
        let pages = self.spans.block(first)?;
        self.spans.clear_block(first);
        Some(pages)
    }

    /// Makes the first run of mapped pages among `pages` from `first` on unowned; all of the run are
    /// tainted or none is. Returns the run.
    pub fn disown_mapped(&mut self, first: u32, pages: u32) -> Option<(u32, u32)> {
        let end = first.saturating_add(pages);
        let PageBits { mapped, tainted, .. } = self.bits;
        let mut page = first;
        loop {
            let from = mapped.next(page, end, true);
            if from == end {
                return None;
            }
            let to = mapped.next(from, end, false);
            let is_tainted = tainted.any(from, 1);
            let taken = mapped.take(from, tainted.next(from, to, !is_tainted));
            if taken > from {
                return Some((from, taken - from));
            }
            // Another thread unmaps the page without holding the lock.
            page = from + 1;
        }
    }

    /// Makes unowned pages a hot span.
    pub fn deposit(&mut self, first: u32, pages: u32, now: Nanos) {
        debug_assert!(
            !self.bits.mapped.any(first, pages),
            "{pages} pages from {first} on are mapped"
        );
        self.bits.dirty.set(first, pages);
        self.foresight.freed(first, pages);
        let span = self.joined(FreeSpan { first, pages, state: Free::Hot });
        self.spans.insert(span);
        self.retention.deposit(self.entries, Span(span.first), span.pages, now);
    }

    /// Makes unowned pages that have no memory a clean span.
    pub fn deposit_clean(&mut self, first: u32, pages: u32) {
        self.cleanings = self.cleanings.wrapping_add(1);
        self.bits.dirty.clear(first, pages);
        self.foresight.freed(first, pages);
        let span = self.joined(FreeSpan { first, pages, state: Free::Clean });
        self.spans.insert(span);
    }

    /// The next system call to make, on a span that stays detached until `finish`; none while another
    /// call is under way.
    pub fn next_work(&mut self, now: Nanos) -> Option<Work> {
        if self.detached.is_some() {
            return None;
        }
        let is_due = self.retention.due(self.entries).is_some_and(|time| time <= now);
        let mut passed = if is_due || self.is_pressed() { PASSED_MAX } else { 0 };
        self.detached = loop {
            break match self.retention.next_action(self.entries, now)? {
                Action::Split(span, pages) => {
                    self.split(span, pages);
                    continue;
                }
                Action::LazilyFree(span) => self.spans.remove(span.0).map(Work::LazilyFree),
                Action::Discard(span) => {
                    let Some(span) = self.spans.remove(span.0) else { break None };
                    if passed == PASSED_MAX {
                        break Some(Work::Discard(span));
                    }
                    passed += 1;
                    let whole = self.keep_ends(span, now);
                    if whole.pages == 0 {
                        continue;
                    }
                    Some(Work::Discard(whole))
                }
            };
        };
        self.detached
    }

    /// Chooses which part of a span above the limit to discard. The ends of the span that are parts of huge
    /// pages stay hot: otherwise the rest of such a huge page would come back base page by base page, each
    /// with a fault of its own.
    fn keep_ends(&mut self, span: FreeSpan, now: Nanos) -> FreeSpan {
        let first = span.first.next_multiple_of(HUGE_PAGES).min(span.end());
        let end = (span.end() / HUGE_PAGES * HUGE_PAGES).max(first);
        let mut whole = span;
        for (from, to) in [(span.first, first), (end, span.end())] {
            if from < to && self.bits.huge.any(from, 1) {
                let pages = to - from;
                whole.pages -= pages;
                whole.first = if from == span.first { to } else { whole.first };
                let kept = self.joined(FreeSpan { first: from, pages, state: Free::Hot });
                self.spans.insert(kept);
                self.retention.deposit(self.entries, Span(kept.first), kept.pages, now);
            }
        }
        whole
    }

    /// Splits the hot span; its first part of `pages` pages is detached next.
    fn split(&mut self, span: Span, pages: u32) {
        let Some(whole) = self.spans.remove(span.0) else { return };
        let end = whole.first + pages;
        let rest = FreeSpan { first: end, pages: whole.end() - end, ..whole };
        self.spans.insert(FreeSpan { pages, ..whole });
        self.spans.insert(rest);
        self.retention.split(self.entries, span, pages, Span(end), rest.pages);
    }

    /// Records that the system call on the detached span was made.
    pub fn finish(&mut self) {
        match self.detached.take() {
            Some(Work::Discard(span)) => self.deposit_clean(span.first, span.pages),
            Some(Work::LazilyFree(span)) => self.insert_lazy(span),
            None => {}
        }
    }

    /// Makes the detached span, if any, hot: the thread that makes its system call is not in this process.
    pub fn recover(&mut self, now: Nanos) {
        if let Some(Work::LazilyFree(span) | Work::Discard(span)) = self.detached.take() {
            self.retention.take(self.entries, Span(span.first));
            self.deposit(span.first, span.pages, now);
        }
    }

    /// Whether a span is detached.
    pub fn is_working(&self) -> bool {
        self.detached.is_some()
    }

    /// Detaches the span deposited first, to be discarded.
    pub fn oldest(&mut self) -> Option<Work> {
        if self.detached.is_some() {
            return None;
        }
        let span = self.retention.oldest(self.entries)?;
        self.retention.take(self.entries, span);
        self.detached = self.spans.remove(span.0).map(Work::Discard);
        self.detached
    }

    /// Marks everything freed until `now` for discarding, because memory is short.
    pub fn pressure(&mut self, now: Nanos) {
        self.retention.pressure(now);
    }

    /// See [`Retention::is_pressed`].
    pub fn is_pressed(&self) -> bool {
        self.retention.is_pressed(self.entries)
    }

    /// See [`Retention::due`].
    pub fn due(&self) -> Option<Nanos> {
        self.retention.due(self.entries)
    }

    /// Limit of hot pages.
    pub fn hot_pages_max(&self) -> u64 {
        self.retention.rules().hot_bytes.pages()
    }

    pub fn hot_pages(&self) -> u64 {
        self.retention.hot_pages()
    }

    pub fn lazy_pages(&self) -> u64 {
        self.retention.lazy_pages()
    }

    /// Pages up to the last that was ever handed out.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Pages that core files must include from now on, since some of them are in use: first page and number,
    /// reported once unless `set_dumped` takes them back. They extend ahead of the pages in use, to the end of a huge
    /// page.
    pub fn wanted_dump(&mut self) -> Option<(u32, u32)> {
        if self.used <= self.dumped {
            return None;
        }
        let ahead = (self.used / 4).clamp(HUGE_PAGES, DUMPED_AHEAD);
        let end = (self.used + ahead).next_multiple_of(HUGE_PAGES);
        let first = std::mem::replace(&mut self.dumped, end.min(self.entries.len() as u32));
        Some((first, self.dumped - first))
    }

    /// Pages up to the last that was reported for core files.
    pub fn dumped(&self) -> u32 {
        self.dumped
    }

    /// Pages from `dumped` on are reported again once they are used.
    pub fn set_dumped(&mut self, dumped: u32) {
        self.dumped = dumped;
    }

    /// A count that changes when pages become clean.
    pub fn cleanings(&self) -> u32 {
        self.cleanings
    }

    /// A bounded number of clean spans, roughly the longest first.
    pub fn clean_spans(&self) -> impl Iterator<Item = FreeSpan> {
        self.spans.longest(Free::Clean)
    }

    /// Number of free spans.
    pub fn free_spans(&self) -> u32 {
        self.spans.count()
    }

    /// A bounded number of free spans whose pages may be resident, roughly the longest first.
    pub fn kept_spans(&self) -> impl Iterator<Item = FreeSpan> {
        Free::KEPT.into_iter().flat_map(|state| self.spans.longest(state))
    }

    /// The free span that ends before `page`, which is not free.
    pub fn free_before(&self, page: u32) -> Option<FreeSpan> {
        self.spans.before(page)
    }

    /// The first free page from `first` to `end`; none if there is none, or if an unowned page precedes it.
    pub fn first_free(&self, first: u32, end: u32) -> Option<u32> {
        let PageBits { mapped, released, .. } = self.bits;
        let mut page = first;
        while page < end {
            let next = mapped.next(released.next(page, end, false), end, false);
            page = match next > page {
                true => next,
                false => match self.spans.place_of(page)? {
                    Place::Free => return Some(page),
                    Place::Block { end } => end,
                },
            };
        }
        None
    }

    /// Whether every page from `first` to `end` is free, or was given back to the kernel.
    pub fn is_free_or_released(&self, first: u32, end: u32) -> bool {
        let mut page = first;
        while page < end {
            page = match self.bits.released.any(page, 1) {
                true => self.bits.released.next(page, end, false),
                false => match self.spans.first_from(page, page + 1) {
                    Some(span) => span.end(),
                    None => return false,
                },
            };
        }
        true
    }

    /// Parts of the tables that are needed soon, reported once: address and bytes of
    /// each. They extend a quarter beyond what is in use, so that a program pays only for what it uses.
    pub fn wanted_tables(&mut self) -> Option<[(usize, usize); 2]> {
        if self.used <= self.prepared {
            return None;
        }
        let from = self.prepared.max(self.used.saturating_sub(PREPARED_AHEAD));
        let end = self.used + (self.used / 4).min(PREPARED_AHEAD);
        self.prepared = end.min(self.entries.len() as u32);
        let pages = from as usize..self.prepared as usize;
        let entries = self.entries.get(pages.clone()).unwrap_or_default();
        Some([extent_of(entries), extent_of(self.spans.tags(pages))])
    }

    /// Parts of the tables that may be given to the kernel, since they are all zeros: address and
    /// bytes of each. Empty while the arena retains anything.
    pub fn empty_tables(&mut self) -> impl Iterator<Item = (usize, usize)> {
        let is_held = self.hot_pages() + self.lazy_pages() > 0 || self.detached.is_some();
        let known = if is_held { 0 } else { self.used.max(std::mem::take(&mut self.prepared)) };
        let entries = self.entries.get(..known as usize).unwrap_or_default();
        std::iter::once(extent_of(entries)).chain(self.spans.empty_tags(known).map(extent_of))
    }

    /// Removes `pages` pages from `first` on from the free `span`; the rest stays free, at
    /// its age.
    fn cut(&mut self, span: FreeSpan, first: u32, pages: u32) {
        self.spans.remove(span.first);
        let left = FreeSpan { pages: first - span.first, ..span };
        let end = first + pages;
        self.used = self.used.max(end);
        let right = FreeSpan { first: end, pages: span.end() - end, ..span };
        for rest in [left, right].into_iter().filter(|rest| rest.pages > 0) {
            self.spans.insert(rest);
        }
        if span.state == Free::Clean {
            return;
        }
        let (whole, begin) = (Span(span.first), Span(right.first));
        match (left.pages, right.pages) {
            (0, 0) => {
                self.retention.take(self.entries, whole);
            }
            (0, rest) => self.retention.replace(self.entries, whole, begin, rest),
            (rest, 0) => self.retention.replace(self.entries, whole, whole, rest),
            (rest, other) => self.retention.split(self.entries, whole, rest, begin, other),
        }
    }

    /// Joins a span that was just lazily freed, and is retained as such, with its neighbours.
    fn insert_lazy(&mut self, span: FreeSpan) {
        let joined = self.joined(FreeSpan { state: Free::Lazy, ..span });
        let (before, after) = (Span(span.first), Span(joined.first));
        self.retention.replace(self.entries, before, after, joined.pages);
        self.spans.insert(joined);
    }

    /// The span joined with its free neighbours of the same state, which stop being separate spans.
    fn joined(&mut self, span: FreeSpan) -> FreeSpan {
        let mut joined = span;
        if !span.first.is_multiple_of(CHUNK_PAGES)
            && let Some(left) = self.spans.before(span.first)
            && left.state == span.state
        {
            self.absorb(left);
            joined = FreeSpan { first: left.first, pages: left.pages + joined.pages, ..joined };
        }
        if !span.end().is_multiple_of(CHUNK_PAGES)
            && let Some(right) = self.spans.at(span.end())
            && right.state == span.state
        {
            self.absorb(right);
            joined.pages += right.pages;
        }
        joined
    }

    fn absorb(&mut self, span: FreeSpan) {
        self.spans.remove(span.first);
        self.retention.take(self.entries, Span(span.first));
    }
}

/// Address and length in bytes.
fn extent_of<T>(part: &[T]) -> (usize, usize) {
    (part.as_ptr().addr(), size_of_val(part))
}

#[cfg(test)]
mod tests;
