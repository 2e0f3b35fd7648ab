//! Free spans of a pool, each in one class, numbered so that a policy can name them.

use std::collections::{BTreeMap, BTreeSet};

/// State of a free span; fits of earlier classes are taken first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// With its frames.
    Hot,
    /// With frames that the kernel may take.
    Lazy,
    /// Without frames.
    Clean,
}

const CLASSES: [Class; 3] = [Class::Hot, Class::Lazy, Class::Clean];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FreeSpan {
    pub first: u32,
    pub pages: u32,
    pub class: Class,
}

/// Invariant: every span is in `by_place` and in the entry of `by_length` for its class.
#[derive(Debug, Default)]
pub(super) struct Spans {
    spans: Vec<Option<FreeSpan>>,
    unused: Vec<u32>,
    by_place: BTreeMap<u32, u32>,
    /// Number of pages, first page, and the span's number.
    by_length: [BTreeSet<(u32, u32, u32)>; 3],
}

impl Spans {
    pub fn insert(&mut self, span: FreeSpan) -> u32 {
        let number = self.unused.pop().unwrap_or_else(|| {
            self.spans.push(None);
            self.spans.len() as u32 - 1
        });
        self.spans[number as usize] = Some(span);
        self.by_place.insert(span.first, number);
        self.by_length[span.class as usize].insert((span.pages, span.first, number));
        number
    }

    pub fn remove(&mut self, number: u32) -> Option<FreeSpan> {
        let span = self.spans.get_mut(number as usize)?.take()?;
        self.by_place.remove(&span.first);
        self.by_length[span.class as usize].remove(&(span.pages, span.first, number));
        self.unused.push(number);
        Some(span)
    }

    pub fn get(&self, number: u32) -> Option<FreeSpan> {
        self.spans.get(number as usize).copied().flatten()
    }

    /// Shortens a span, which keeps its number, to `pages` pages. Returns the number of the rest and its
    /// pages.
    pub fn split(&mut self, number: u32, pages: u32) -> Option<(u32, u32)> {
        let span = self.spans.get_mut(number as usize)?.as_mut()?;
        let whole = *span;
        span.pages = pages;
        let lengths = &mut self.by_length[whole.class as usize];
        lengths.remove(&(whole.pages, whole.first, number));
        lengths.insert((pages, whole.first, number));
        let rest = FreeSpan { first: whole.first + pages, pages: whole.pages - pages, ..whole };
        Some((self.insert(rest), rest.pages))
    }

    /// Moves a span to another class; it keeps its number.
    pub fn set_class(&mut self, number: u32, class: Class) {
        if let Some(Some(span)) = self.spans.get_mut(number as usize) {
            self.by_length[span.class as usize].remove(&(span.pages, span.first, number));
            span.class = class;
            self.by_length[class as usize].insert((span.pages, span.first, number));
        }
    }

    /// Number of span numbers given so far.
    pub fn numbers(&self) -> usize {
        self.spans.len()
    }

    /// The shortest span with at least `pages` pages, in the first class that has one.
    pub fn best(&self, pages: u32) -> Option<u32> {
        CLASSES.iter().find_map(|&class| self.best_of(class, pages))
    }

    pub fn best_of(&self, class: Class, pages: u32) -> Option<u32> {
        let fits = self.by_length[class as usize].range((pages, 0, 0)..);
        fits.map(|&(_, _, number)| number).next()
    }

    /// The spans of a class adjacent to a range, before and after it.
    pub fn neighbours(&self, first: u32, pages: u32, class: Class) -> [Option<u32>; 2] {
        let before = self.by_place.range(..first).next_back().map(|(_, &number)| number);
        let behind = self.by_place.get(&(first + pages)).copied();
        let is_neighbour = |&number: &u32| {
            self.get(number).is_some_and(|span| {
                span.class == class && (span.first > first || span.first + span.pages == first)
            })
        };
        [before.filter(is_neighbour), behind.filter(is_neighbour)]
    }
}
