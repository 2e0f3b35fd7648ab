//! Which freed memory stays mapped for its next use, and until when (Lazy unmapping, S3).
//!
//! The driver owns address space, cuts it into spans of pages and gives each an index.
//! It reports spans that are freed ([`Retention::deposit`]) and handed out again
//! ([`Retention::take`]), then performs what [`Retention::next_action`] returns until that returns
//! none. A preload library and a simulator drive this same object.
//!
//! It runs inside `malloc`: nothing here allocates, and no index panics. The state of a span is
//! in an array of [`Entry`] that the driver owns; an entry of all zero bytes is empty. A span
//! beyond the array's end is not retained.

mod admission;
mod ages;
mod foresight;
mod rules;

pub use admission::Admission;
pub use ages::Entry;
pub use foresight::{Foresight, Stretch};
pub use rules::{
    CATALOG, HELD_BYTES_MAX, HOT_BYTES_MAX, HOT_SHARE_OF_MEMORY, Row, Rules, find, hot_bytes_for,
    lazy_bytes_for,
};

use ages::Ages;
use types::Nanos;

/// A span of free pages: an index into the driver's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Span(pub u32);

/// State of a retained span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// Not retained.
    #[default]
    Absent,
    /// Mapped and resident: its next use faults on no page.
    Hot,
    /// Lazily freed: the kernel may take its pages whenever memory is short.
    Lazy,
}

/// An action for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Split the span into two of its age: itself with this many pages, and the rest. The driver calls
    /// [`Retention::split`] at once; the first part is lazily freed next.
    Split(Span, u32),
    /// Call `madvise(MADV_FREE)`; the span stays retained, as [`Stage::Lazy`].
    LazilyFree(Span),
    /// Call `madvise(MADV_DONTNEED)`; the span is no longer retained, its pages read as zero.
    Discard(Span),
}

/// The retained spans, oldest first in both stages.
///
/// hot_pages = sum of pages over the hot list, at most `rules.hot_bytes` once no action is left;
/// lazy_pages = sum of pages over the lazy list, at most `rules.lazy_bytes`.
/// Entries of the lazy list are no younger than those of the hot one.
#[derive(Debug)]
pub struct Retention {
    rules: Rules,
    hot: Ages,
    lazy: Ages,
    hot_pages: u64,
    lazy_pages: u64,
    /// Time until which deposited spans are discarded, at any age.
    pressure_at: Option<Nanos>,
}

impl Retention {
    /// Creates an empty retention.
    pub const fn new(rules: Rules) -> Retention {
        Retention {
            rules,
            hot: Ages::new(Stage::Hot),
            lazy: Ages::new(Stage::Lazy),
            hot_pages: 0,
            lazy_pages: 0,
            pressure_at: None,
        }
    }

    /// The rules in force.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Replaces the rules: the available memory has changed.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Number of hot pages.
    pub fn hot_pages(&self) -> u64 {
        self.hot_pages
    }

    /// Number of lazily freed pages, whether or not the kernel has taken them.
    pub fn lazy_pages(&self) -> u64 {
        self.lazy_pages
    }

    /// Retains `span`, which was freed and is not retained: `pages` pages, assumed to be resident.
    pub fn deposit(&mut self, entries: &mut [Entry], span: Span, pages: u32, now: Nanos) {
        if self.hot.append(entries, span, pages, now) {
            self.hot_pages += u64::from(pages);
        }
    }

    /// Ends the retention of `span`, which is handed out or becomes part of another.
    /// Returns its stage.
    pub fn take(&mut self, entries: &mut [Entry], span: Span) -> Stage {
        let (stage, pages) = (Entry::stage_of(entries, span), Entry::pages_of(entries, span));
        match stage {
            Stage::Absent => {}
            Stage::Hot => {
                self.hot.remove(entries, span);
                self.hot_pages -= u64::from(pages);
            }
            Stage::Lazy => {
                self.lazy.remove(entries, span);
                self.lazy_pages -= u64::from(pages);
            }
        }
        stage
    }

    /// Continues the retained `span` as `successor` with `pages` pages, in its place and at its age: a
    /// part of it was handed out, or it grew by a neighbour.
    pub fn replace(&mut self, entries: &mut [Entry], span: Span, successor: Span, pages: u32) {
        self.resize(entries, span, pages);
        if successor != span && Entry::stage_of(entries, span) != Stage::Absent {
            self.ages_of(entries, span).rename(entries, span, successor);
        }
    }

    /// Splits the retained `span` into two of its age: itself with `pages` pages, and `other`, which
    /// is not retained, with `other_pages`.
    pub fn split(
        &mut self,
        entries: &mut [Entry],
        span: Span,
        pages: u32,
        other: Span,
        other_pages: u32,
    ) {
        self.resize(entries, span, pages);
        let stage = Entry::stage_of(entries, span);
        if stage != Stage::Absent
            && self.ages_of(entries, span).insert_after(entries, span, other, other_pages)
        {
            *self.pages_held(stage) += u64::from(other_pages);
        }
    }

    /// Discards everything deposited until `now`, because memory is short.
    pub fn pressure(&mut self, now: Nanos) {
        self.pressure_at = Some(now);
    }

    /// Whether spans deposited before the last report of memory pressure are still retained.
    pub fn is_pressed(&self, entries: &[Entry]) -> bool {
        self.pressure_at.is_some_and(|time| {
            let oldest = self.lazy.oldest(entries).or_else(|| self.hot.oldest(entries));
            oldest.is_some_and(|(_, since)| since <= time)
        })
    }

    /// Returns the next action and counts it as done; none if nothing is left to do at `now`.
    pub fn next_action(&mut self, entries: &mut [Entry], now: Nanos) -> Option<Action> {
        self.discard_oldest_lazy(entries, now).or_else(|| self.age_oldest_hot(entries, now))
    }

    /// Time of the next action if nothing else happens; none if there will be no action. Earlier than
    /// now if an action is due already.
    pub fn due(&self, entries: &[Entry]) -> Option<Nanos> {
        let lazy = self.lazy.oldest(entries).and_then(|(_, since)| self.rules.discards_at(since));
        let hot = self.hot.oldest(entries).and_then(|(_, since)| {
            let discards = self.rules.discards_at(since);
            [self.rules.lazily_frees_at(since), discards].into_iter().flatten().min()
        });
        [lazy, hot].into_iter().flatten().min()
    }

    /// The span deposited longest ago, which a kernel short of memory would take first.
    pub fn oldest(&self, entries: &[Entry]) -> Option<Span> {
        let oldest = self.lazy.oldest(entries).or_else(|| self.hot.oldest(entries));
        oldest.map(|(span, _)| span)
    }

    fn discard_oldest_lazy(&mut self, entries: &mut [Entry], now: Nanos) -> Option<Action> {
        let (span, since) = self.lazy.oldest(entries)?;
        let is_over = self.rules.is_too_much_lazy(self.lazy_pages, self.hot_pages);
        (is_over || self.is_discarded(since, now)).then(|| {
            self.take(entries, span);
            Action::Discard(span)
        })
    }

    fn age_oldest_hot(&mut self, entries: &mut [Entry], now: Nanos) -> Option<Action> {
        let (span, since) = self.hot.oldest(entries)?;
        if self.is_discarded(since, now) {
            self.take(entries, span);
            return Some(Action::Discard(span));
        }
        let pages = Entry::pages_of(entries, span);
        if self.rules.lazily_frees_at(since).is_none_or(|time| now < time) {
            let part = self.rules.part_over(self.hot_pages)?;
            if part < u64::from(pages) {
                return Some(Action::Split(span, part as u32));
            }
        }
        self.take(entries, span);
        if self.rules.is_too_much_lazy(self.lazy_pages + u64::from(pages), self.hot_pages) {
            return Some(Action::Discard(span));
        }
        self.lazy.append(entries, span, pages, since);
        self.lazy_pages += u64::from(pages);
        Some(Action::LazilyFree(span))
    }

    fn is_discarded(&self, since: Nanos, now: Nanos) -> bool {
        self.pressure_at.is_some_and(|time| since <= time)
            || self.rules.discards_at(since).is_some_and(|time| now >= time)
    }

    fn resize(&mut self, entries: &mut [Entry], span: Span, pages: u32) {
        let stage = Entry::stage_of(entries, span);
        if stage != Stage::Absent {
            let before = Entry::pages_of(entries, span);
            Entry::set_pages(entries, span, pages);
            let held = self.pages_held(stage);
            *held = *held - u64::from(before) + u64::from(pages);
        }
    }

    fn ages_of(&mut self, entries: &[Entry], span: Span) -> &mut Ages {
        match Entry::stage_of(entries, span) {
            Stage::Lazy => &mut self.lazy,
            Stage::Hot | Stage::Absent => &mut self.hot,
        }
    }

    fn pages_held(&mut self, stage: Stage) -> &mut u64 {
        match stage {
            Stage::Lazy => &mut self.lazy_pages,
            Stage::Hot | Stage::Absent => &mut self.hot_pages,
        }
    }
}
