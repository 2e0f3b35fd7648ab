//! Pages in memory on two lists, active and inactive, with one reference bit each, as in the Linux
//! kernel (mm/vmscan.c of 6.18, without its generations). The lists are linked through the pages
//! themselves; the owner of the pages decides the effect of an eviction.

/// Pages reclaimed at a time (the kernel's SWAP_CLUSTER_MAX).
pub(crate) const BATCH: usize = 32;
pub(crate) const NONE: u32 = u32::MAX;

/// Place of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// Not in memory.
    #[default]
    Absent,
    /// In memory and on no list: it cannot be evicted.
    Held,
    Inactive,
    Active,
}

/// State of one page for the lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    pub(crate) place: Place,
    pub(crate) is_referenced: bool,
    newer: u32,
    older: u32,
}

impl Listed {
    /// State of a page that is not in memory.
    pub(crate) const ABSENT: Listed =
        Listed { place: Place::Absent, is_referenced: false, newer: NONE, older: NONE };
}

/// A page that can be on a list.
pub(crate) trait ListPage {
    fn listed(&self) -> &Listed;
    fn listed_mut(&mut self) -> &mut Listed;
}

/// Pages from newest to oldest.
#[derive(Debug)]
struct List {
    place: Place,
    newest: u32,
    oldest: u32,
    pages: usize,
}

impl List {
    fn new(place: Place) -> List {
        List { place, newest: NONE, oldest: NONE, pages: 0 }
    }

    fn push<P: ListPage>(&mut self, pages: &mut [P], page: u32) {
        let listed = pages[page as usize].listed_mut();
        listed.place = self.place;
        listed.newer = NONE;
        listed.older = self.newest;
        match self.newest {
            NONE => self.oldest = page,
            newest => pages[newest as usize].listed_mut().newer = page,
        }
        self.newest = page;
        self.pages += 1;
    }

    fn remove<P: ListPage>(&mut self, pages: &mut [P], page: u32) {
        let Listed { newer, older, .. } = *pages[page as usize].listed();
        match newer {
            NONE => self.newest = older,
            newer => pages[newer as usize].listed_mut().older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => pages[older as usize].listed_mut().newer = newer,
        }
        pages[page as usize].listed_mut().place = Place::Absent;
        self.pages -= 1;
    }
}

/// The active and the inactive list.
///
/// Invariant: a page has the place of its list exactly if it is on that list.
#[derive(Debug)]
pub(crate) struct Lists {
    inactive: List,
    active: List,
}

impl Lists {
    pub(crate) fn new() -> Lists {
        Lists { inactive: List::new(Place::Inactive), active: List::new(Place::Active) }
    }

    /// Pages on both lists.
    pub(crate) fn pages(&self) -> usize {
        self.inactive.pages + self.active.pages
    }

    /// Makes a page that was on no list the newest inactive one.
    pub(crate) fn insert<P: ListPage>(&mut self, pages: &mut [P], page: u32) {
        self.inactive.push(pages, page);
    }

    /// Makes a page that was on no list the newest active one.
    pub(crate) fn activate<P: ListPage>(&mut self, pages: &mut [P], page: u32) {
        self.active.push(pages, page);
    }

    /// Removes a page from its list.
    pub(crate) fn remove<P: ListPage>(&mut self, pages: &mut [P], page: u32) {
        match pages[page as usize].listed().place {
            Place::Inactive => self.inactive.remove(pages, page),
            Place::Active => self.active.remove(pages, page),
            Place::Absent | Place::Held => {}
        }
    }

    /// Judges the oldest inactive page: a referenced page becomes active, any other leaves the
    /// lists. None if no page is inactive.
    pub(crate) fn judge_oldest<P: ListPage>(&mut self, pages: &mut [P]) -> Option<Judged> {
        let page = self.inactive.oldest;
        if page == NONE {
            return None;
        }
        self.inactive.remove(pages, page);
        let listed = pages[page as usize].listed_mut();
        if !listed.is_referenced {
            return Some(Judged::Leaves(page));
        }
        listed.is_referenced = false;
        self.active.push(pages, page);
        Some(Judged::Stays)
    }

    /// Keeps a third of the pages on the inactive list, so that a page has a while to be referenced
    /// again before it is judged. Pages leave the active list unjudged.
    pub(crate) fn balance<P: ListPage>(&mut self, pages: &mut [P]) {
        while self.inactive.pages < self.pages() / 3 + BATCH && self.active.pages > 0 {
            let page = self.active.oldest;
            self.active.remove(pages, page);
            pages[page as usize].listed_mut().is_referenced = false;
            self.inactive.push(pages, page);
        }
    }
}

/// Result of judging a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    Stays,
    Leaves(u32),
}
