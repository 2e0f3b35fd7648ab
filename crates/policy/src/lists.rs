//! Lists of pages through one array of links: removing a page and joining two lists touch only
//! the neighbouring pages.

use types::{HugeVec, PageId, prefetch};

#[derive(Clone, Copy, Debug)]
struct Links {
    before: u32,
    after: u32,
}

/// A fixed number of lists, each a ring through a node of its own; the nodes of pages follow those.
///
/// Invariant: a page that is in no list links to itself.
#[derive(Clone, Debug)]
pub(crate) struct Lists {
    links: HugeVec<Links>,
    lists: usize,
    /// Nodes of pages that were read or changed; a test bounds the work of an event by it.
    #[cfg(test)]
    pub touched: std::cell::Cell<u64>,
}

impl Lists {
    /// Creates `lists` empty lists.
    pub fn new(lists: usize) -> Lists {
        let mut links = HugeVec::default();
        links.grow(lists, Links { before: 0, after: 0 });
        for (list, links) in links.iter_mut().enumerate() {
            *links = Links { before: list as u32, after: list as u32 };
        }
        Lists {
            links,
            lists,
            #[cfg(test)]
            touched: std::cell::Cell::new(0),
        }
    }

    /// Makes room for pages below `pages`.
    pub fn grow(&mut self, pages: usize) {
        let known = self.links.len();
        self.links.grow(self.lists + pages, Links { before: 0, after: 0 });
        for (node, links) in self.links.iter_mut().enumerate().skip(known) {
            *links = Links { before: node as u32, after: node as u32 };
        }
    }

    /// Whether `page` is in a list.
    #[inline(always)]
    pub fn contains(&self, page: PageId) -> bool {
        let node = self.lists + page.index();
        self.links[node].after as usize != node
    }

    /// Prefetches the links of a page that is used soon.
    #[inline(always)]
    pub fn prefetch(&self, page: PageId) {
        prefetch(&self.links, self.lists + page.index());
    }

    /// Appends `page`, which must be in no list, to `list`.
    #[inline(always)]
    pub fn push(&mut self, list: usize, page: PageId) {
        let node = self.lists + page.index();
        let last = std::mem::replace(&mut self.links[list].before, node as u32);
        self.touch([node as u32, last]);
        self.links[last as usize].after = node as u32;
        self.links[node] = Links { before: last, after: list as u32 };
    }

    /// Removes `page` from its list; it must be in one.
    #[inline(always)]
    pub fn remove(&mut self, page: PageId) {
        let node = self.lists + page.index();
        let Links { before, after } = self.links[node];
        self.touch([before, after]);
        self.links[before as usize].after = after;
        self.links[after as usize].before = before;
        self.links[node] = Links { before: node as u32, after: node as u32 };
    }

    /// The first page of `list`.
    #[inline(always)]
    pub fn first(&self, list: usize) -> Option<PageId> {
        let first = self.links[list].after as usize;
        first.checked_sub(self.lists).map(|page| PageId(page as u32))
    }

    /// Moves all pages of `front` before those of `list`; `front` is empty afterwards.
    pub fn prepend(&mut self, list: usize, front: usize) {
        let Links { before: last, after: first } = self.links[front];
        if first as usize == front {
            return;
        }
        let next = std::mem::replace(&mut self.links[list].after, first);
        self.touch([first, last]);
        self.touch([next, next]);
        self.links[first as usize].before = list as u32;
        self.links[last as usize].after = next;
        self.links[next as usize].before = last;
        self.links[front] = Links { before: front as u32, after: front as u32 };
    }

    #[cfg(test)]
    fn touch(&self, nodes: [u32; 2]) {
        let pages = nodes.iter().filter(|node| **node as usize >= self.lists).count();
        self.touched.set(self.touched.get() + pages as u64);
    }

    #[cfg(not(test))]
    #[inline(always)]
    fn touch(&self, _nodes: [u32; 2]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn behaves_like_deques() {
        const PAGES: usize = 12;
        let mut lists = Lists::new(3);
        lists.grow(PAGES / 2);
        lists.grow(PAGES);
        let mut model = vec![VecDeque::<u32>::new(); 3];
        let mut state = 5u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (page, list) = ((state >> 33) as u32 % PAGES as u32, (state >> 40) as usize % 3);
            if (state >> 60) == 0 {
                let front = (list + 1) % 3;
                lists.prepend(list, front);
                let mut pages = std::mem::take(&mut model[front]);
                pages.append(&mut model[list]);
                model[list] = pages;
            } else if let Some(at) = model.iter().position(|pages| pages.contains(&page)) {
                lists.remove(PageId(page));
                model[at].retain(|&other| other != page);
            } else {
                lists.push(list, PageId(page));
                model[list].push_back(page);
            }
            assert_eq!(
                lists.contains(PageId(page)),
                model.iter().any(|pages| pages.contains(&page))
            );
            for (list, pages) in model.iter().enumerate() {
                assert_eq!(lists.first(list), pages.front().copied().map(PageId));
            }
        }
    }
}
