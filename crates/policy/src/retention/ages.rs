//! Spans of one stage from the oldest to the youngest, linked through entries that the driver owns.

use super::{Span, Stage};
use types::Nanos;

/// State of a span. All zero bytes mean a span that is not retained.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Entry {
    /// When the span was deposited.
    since: Nanos,
    /// The next older and the next younger span of its stage, `NONE` at the ends.
    older: u32,
    younger: u32,
    pages: u32,
    stage: Stage,
}

const NONE: u32 = u32::MAX;

impl Entry {
    pub(super) fn stage_of(entries: &[Entry], span: Span) -> Stage {
        get(entries, span.0).map_or(Stage::Absent, |entry| entry.stage)
    }

    pub(super) fn pages_of(entries: &[Entry], span: Span) -> u32 {
        get(entries, span.0).map_or(0, |entry| entry.pages)
    }

    pub(super) fn set_pages(entries: &mut [Entry], span: Span, pages: u32) {
        if let Some(entry) = get_mut(entries, span.0) {
            entry.pages = pages;
        }
    }
}

/// A doubly linked list over the driver's entries; an entry is in it if it has the list's stage.
#[derive(Debug)]
pub(super) struct Ages {
    stage: Stage,
    oldest: u32,
    youngest: u32,
}

impl Ages {
    pub(super) const fn new(stage: Stage) -> Ages {
        Ages { stage, oldest: NONE, youngest: NONE }
    }

    /// The oldest span and when it was deposited.
    pub(super) fn oldest(&self, entries: &[Entry]) -> Option<(Span, Nanos)> {
        get(entries, self.oldest).map(|entry| (Span(self.oldest), entry.since))
    }

    /// Appends `span` as the youngest; false if it has no entry or is retained already.
    pub(super) fn append(
        &mut self,
        entries: &mut [Entry],
        span: Span,
        pages: u32,
        since: Nanos,
    ) -> bool {
        let entry = Entry { since, older: self.youngest, younger: NONE, pages, stage: self.stage };
        self.link(entries, span, entry)
    }

    /// Inserts `other` as the next younger of `span`, at its age; false as for `append`.
    pub(super) fn insert_after(
        &mut self,
        entries: &mut [Entry],
        span: Span,
        other: Span,
        pages: u32,
    ) -> bool {
        let Some(&Entry { since, younger, .. }) = get(entries, span.0) else { return false };
        let entry = Entry { since, older: span.0, younger, pages, stage: self.stage };
        self.link(entries, other, entry)
    }

    /// Removes `span`, which is in this list.
    pub(super) fn remove(&mut self, entries: &mut [Entry], span: Span) {
        let Some(entry) = get_mut(entries, span.0) else { return };
        let Entry { older, younger, .. } = *entry;
        *entry = Entry::default();
        self.join(entries, older, younger);
    }

    /// Gives the place of `span`, which is in this list, to `successor`, which is in none.
    pub(super) fn rename(&mut self, entries: &mut [Entry], span: Span, successor: Span) {
        let Some(&entry) = get(entries, span.0) else { return };
        self.remove(entries, span);
        self.link(entries, successor, entry);
    }

    /// Writes `entry` for `span` and links its neighbours to it.
    fn link(&mut self, entries: &mut [Entry], span: Span, entry: Entry) -> bool {
        let Some(place) = get_mut(entries, span.0) else { return false };
        if place.stage != Stage::Absent {
            debug_assert!(false, "{span:?} is retained already");
            return false;
        }
        *place = entry;
        self.join(entries, entry.older, span.0);
        self.join(entries, span.0, entry.younger);
        true
    }

    /// Makes `older` and `younger` neighbours, either of which may be the end of the list.
    fn join(&mut self, entries: &mut [Entry], older: u32, younger: u32) {
        match get_mut(entries, older) {
            Some(entry) => entry.younger = younger,
            None => self.oldest = younger,
        }
        match get_mut(entries, younger) {
            Some(entry) => entry.older = older,
            None => self.youngest = older,
        }
    }
}

fn get(entries: &[Entry], index: u32) -> Option<&Entry> {
    entries.get(index as usize)
}

fn get_mut(entries: &mut [Entry], index: u32) -> Option<&mut Entry> {
    entries.get_mut(index as usize)
}
