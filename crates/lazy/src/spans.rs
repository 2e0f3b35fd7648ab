//! The free spans of the arena, found by length and by neighbourhood. The data about a span
//! is beside the arena, never in its pages: a lazily freed page may turn to zeros at any time.

use crate::bins::{Bins, NONE};

/// State of a free span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Free {
    /// A span whose pages are resident.
    Hot,
    /// A span whose pages are resident unless the kernel took them.
    Lazy,
    /// A span without pages, which reads as zero.
    Clean,
}

impl Free {
    pub const COUNT: usize = 3;
    /// States whose pages may be resident, in the order in which they are handed out.
    pub const KEPT: [Free; 2] = [Free::Hot, Free::Lazy];
}

/// Role of a page in the order of spans. A page of zero bytes is inside a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
enum Role {
    #[default]
    Inside,
    /// The first page of memory that `malloc` and its relatives handed out.
    Block,
    /// The last page of a free span of several pages.
    End,
    /// The first page of a free span.
    Hot,
    Lazy,
    Clean,
}

impl Role {
    const fn of(state: Free) -> Role {
        match state {
            Free::Hot => Role::Hot,
            Free::Lazy => Role::Lazy,
            Free::Clean => Role::Clean,
        }
    }

    const fn free(self) -> Option<Free> {
        match self {
            Role::Hot => Some(Free::Hot),
            Role::Lazy => Some(Free::Lazy),
            Role::Clean => Some(Free::Clean),
            Role::Inside | Role::Block | Role::End => None,
        }
    }
}

/// Data about a page. A page has the role of a free state exactly if it is the first of a free
/// span, and both ends of a span have its length: no page inside can be mistaken for the start of a span,
/// even among spans of equal length. The first page also has its neighbours in its bin.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Tag {
    pub pages: u32,
    pub(crate) next: u32,
    pub(crate) previous: u32,
    role: Role,
}

/// A free span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeSpan {
    pub first: u32,
    pub pages: u32,
    pub state: Free,
}

impl FreeSpan {
    /// The page after its last.
    pub fn end(self) -> u32 {
        self.first + self.pages
    }
}

/// What contains a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A free span.
    Free,
    /// A block, and the page after its last.
    Block { end: u32 },
}

/// Tags per page.
const TAGS_OF_PAGE: usize = crate::chunks::PAGE / size_of::<Tag>();

#[derive(Debug)]
pub struct Spans {
    tags: &'static mut [Tag],
    bins: Bins,
    count: u32,
}

impl Spans {
    pub const fn new() -> Spans {
        Spans { tags: &mut [], bins: Bins::new(), count: 0 }
    }

    /// Number of free spans.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Moves the spans to a longer array, which begins with the former tags.
    pub fn grow(&mut self, tags: &'static mut [Tag]) {
        self.tags = tags;
    }

    /// Makes the span free, without joining it to others.
    pub fn insert(&mut self, span: FreeSpan) {
        debug_assert!(self.is_unowned(span), "{span:?} has an owner");
        let end = Tag { pages: span.pages, next: NONE, previous: NONE, role: Role::End };
        self.set(span.end() - 1, end);
        self.set(span.first, Tag { role: Role::of(span.state), ..end });
        self.bins.push(self.tags, span.first, span.state);
        self.count = self.count.wrapping_add(1);
    }

    /// Removes the free span that begins at `first`; its pages are unowned then.
    pub fn remove(&mut self, first: u32) -> Option<FreeSpan> {
        let span = self.at(first)?;
        debug_assert!(self.before(span.end()) == Some(span), "{span:?} ends elsewhere");
        self.bins.remove(self.tags, first, span.state);
        self.count = self.count.wrapping_sub(1);
        self.set(first, Tag::default());
        self.set(span.end() - 1, Tag::default());
        Some(span)
    }

    /// The free span that begins at `first`.
    pub fn at(&self, first: u32) -> Option<FreeSpan> {
        let tag = self.tags.get(first as usize)?;
        let state = tag.role.free()?;
        Some(FreeSpan { first, pages: tag.pages, state })
    }

    /// The free span that ends before `page`, which is not free.
    pub fn before(&self, page: u32) -> Option<FreeSpan> {
        let last = page.checked_sub(1)?;
        let tag = self.tags.get(last as usize)?;
        self.at(if tag.role == Role::End { page.checked_sub(tag.pages)? } else { last })
    }

    /// The free span that contains `page`, or else the first one that begins after it and before
    /// `end`. Walks page by page, for rare calls.
    pub fn first_from(&self, page: u32, end: u32) -> Option<FreeSpan> {
        self.around(page).or_else(|| (page..end).find_map(|page| self.at(page)))
    }

    /// What contains `page`; none if the page is mapped or unowned.
    pub fn place_of(&self, page: u32) -> Option<Place> {
        let nearest = self.nearest_role(page)?;
        match self.block(nearest) {
            Some(pages) if nearest + pages > page => Some(Place::Block { end: nearest + pages }),
            Some(_) => None,
            None => self.around(page).map(|_| Place::Free),
        }
    }

    /// The page with a role that is `page` or the nearest before it.
    fn nearest_role(&self, page: u32) -> Option<u32> {
        let has_role = |&page: &u32| {
            let tag = self.tags.get(page as usize);
            tag.is_some_and(|tag| tag.role != Role::Inside)
        };
        (0..=page).rev().find(has_role)
    }

    /// The free span that contains `page`.
    fn around(&self, page: u32) -> Option<FreeSpan> {
        let nearest = self.nearest_role(page)?;
        let span = if nearest == page { self.before(page + 1) } else { self.at(nearest) };
        span.filter(|span| span.end() > page)
    }

    /// The first page of roughly the shortest free span of `state` with at least `pages` pages that
    /// `is_wanted`.
    pub fn find(
        &self,
        state: Free,
        pages: u32,
        is_wanted: impl Fn(FreeSpan) -> bool,
    ) -> Option<FreeSpan> {
        let first = self
            .bins
            .find(self.tags, state, pages, |first| self.at(first).is_some_and(&is_wanted))?;
        self.at(first)
    }

    /// A bounded number of free spans of `state`, roughly the longest first.
    pub fn longest(&self, state: Free) -> impl Iterator<Item = FreeSpan> {
        self.bins.longest(self.tags, state).filter_map(|first| self.at(first))
    }

    /// Records that `malloc` handed out `pages` pages from `first` on.
    pub fn set_block(&mut self, first: u32, pages: u32) {
        self.set(first, Tag { pages, next: NONE, previous: NONE, role: Role::Block });
    }

    /// Number of pages of the block that begins at `first`, if one does.
    pub fn block(&self, first: u32) -> Option<u32> {
        let tag = self.tags.get(first as usize)?;
        (tag.role == Role::Block).then_some(tag.pages)
    }

    /// Forgets the block that begins at `first`.
    pub fn clear_block(&mut self, first: u32) {
        self.set(first, Tag::default());
    }

    /// The tags of these pages.
    pub fn tags(&self, pages: std::ops::Range<usize>) -> &[Tag] {
        self.tags.get(pages).unwrap_or_default()
    }

    /// Pages of tags for the arena's first `count` pages that are all zeros: tags inside spans are zero.
    pub fn empty_tags(&self, count: u32) -> impl Iterator<Item = &[Tag]> {
        let tags = self.tags.chunks_exact(TAGS_OF_PAGE);
        let used = tags.take((count as usize).div_ceil(TAGS_OF_PAGE));
        used.filter(|tags| tags.iter().all(|tag| tag.role == Role::Inside))
    }

    /// Whether none of these pages has a role.
    fn is_unowned(&self, span: FreeSpan) -> bool {
        let tags = self.tags(span.first as usize..span.end() as usize);
        tags.len() == span.pages as usize && tags.iter().all(|tag| tag.role == Role::Inside)
    }

    fn set(&mut self, page: u32, tag: Tag) {
        if let Some(place) = self.tags.get_mut(page as usize) {
            *place = tag;
        }
    }
}
