//! A doubly linked list threaded through an array with one node per page.

use types::PageId;

const NONE: u32 = u32::MAX;
const OUTSIDE: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug)]
struct Node {
    /// The neighbour towards the front, `NONE` at the front, `OUTSIDE` where the page is in no list.
    before: u32,
    /// The neighbour towards the back, `NONE` at the back.
    after: u32,
}

/// Pages in an order: new ones enter at the front, old ones leave at the back.
///
/// Invariant: walking `after` from `front` visits exactly `len` nodes and ends at `back`.
#[derive(Clone, Debug)]
pub struct Ring {
    nodes: Vec<Node>,
    front: u32,
    back: u32,
    len: usize,
}

impl Default for Ring {
    fn default() -> Ring {
        Ring { nodes: Vec::new(), front: NONE, back: NONE, len: 0 }
    }
}

impl Ring {
    /// Makes room for pages below `pages`; never shrinks.
    pub fn grow(&mut self, pages: usize) {
        if self.nodes.len() < pages {
            self.nodes.resize(pages, Node { before: OUTSIDE, after: NONE });
        }
    }

    /// Number of pages in the list.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether `page` is in the list.
    #[inline]
    pub fn contains(&self, page: PageId) -> bool {
        self.nodes.get(page.index()).is_some_and(|node| node.before != OUTSIDE)
    }

    /// The page that has been in the list longest since it entered or moved to the front.
    #[inline]
    pub fn back(&self) -> Option<PageId> {
        (self.back != NONE).then_some(PageId(self.back))
    }

    /// Puts `page`, which must be outside, at the front.
    #[inline]
    pub fn push_front(&mut self, page: PageId) {
        debug_assert!(!self.contains(page), "page {} is already listed", page.0);
        self.nodes[page.index()] = Node { before: NONE, after: self.front };
        match self.front {
            NONE => self.back = page.0,
            front => self.nodes[front as usize].before = page.0,
        }
        self.front = page.0;
        self.len += 1;
    }

    /// Takes `page`, which must be in the list, out of it.
    #[inline]
    pub fn remove(&mut self, page: PageId) {
        let Node { before, after } = self.nodes[page.index()];
        debug_assert!(before != OUTSIDE, "page {} is not listed", page.0);
        match before {
            NONE => self.front = after,
            before => self.nodes[before as usize].after = after,
        }
        match after {
            NONE => self.back = before,
            after => self.nodes[after as usize].before = before,
        }
        self.nodes[page.index()].before = OUTSIDE;
        self.len -= 1;
    }

    /// Makes `page`, which must be in the list, the youngest.
    #[inline]
    pub fn move_to_front(&mut self, page: PageId) {
        if self.front != page.0 {
            self.remove(page);
            self.push_front(page);
        }
    }

    /// Takes out the oldest page.
    #[inline]
    pub fn pop_back(&mut self) -> Option<PageId> {
        let page = self.back()?;
        self.remove(page);
        Some(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn behaves_like_a_deque() {
        let mut ring = Ring::default();
        ring.grow(8);
        let mut model: VecDeque<u32> = VecDeque::new();
        let mut state = 7u64;
        for _ in 0..5_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let page = (state >> 33) as u32 % 8;
            let is_listed = model.contains(&page);
            assert_eq!(ring.contains(PageId(page)), is_listed);
            match (state >> 60) % 3 {
                0 if !is_listed => {
                    ring.push_front(PageId(page));
                    model.push_front(page);
                }
                1 if is_listed => {
                    ring.move_to_front(PageId(page));
                    model.retain(|&other| other != page);
                    model.push_front(page);
                }
                2 if is_listed => {
                    ring.remove(PageId(page));
                    model.retain(|&other| other != page);
                }
                _ => assert_eq!(ring.pop_back(), model.pop_back().map(PageId)),
            }
            assert_eq!(ring.len(), model.len());
            assert_eq!(ring.back(), model.back().copied().map(PageId));
        }
    }
}
