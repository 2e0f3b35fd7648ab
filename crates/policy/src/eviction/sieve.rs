//! SIEVE (Zhang et al., NSDI 2024).
//!
//! The hand walks from the oldest page to the newest, clears marks and evicts the first unmarked
//! page. What it has passed and what lies before it are two queues, so that the walk reads memory
//! in order and a page that stays costs one copy; the published form is a linked list.

use super::Eviction;
use crate::PageSet;
use std::collections::VecDeque;
use types::PageId;

/// Evicts the first page after the hand that was not used since the hand last passed it.
pub struct Sieve {
    frames: usize,
    /// Pages that the hand passed in this sweep, from oldest to newest; all older than `ahead`.
    passed: VecDeque<PageId>,
    /// Pages between the hand and the newest. Empty only while `passed` is too.
    ahead: VecDeque<PageId>,
    visited: PageSet,
}

impl Sieve {
    pub fn new(frames: u32) -> Sieve {
        Sieve {
            frames: frames as usize,
            passed: VecDeque::new(),
            ahead: VecDeque::new(),
            visited: PageSet::default(),
        }
    }

    /// A hand that has passed the newest page starts again at the oldest, before another arrives.
    #[inline(always)]
    fn wrap(&mut self) {
        if self.ahead.is_empty() {
            std::mem::swap(&mut self.ahead, &mut self.passed);
        }
    }
}

impl Eviction for Sieve {
    fn grow(&mut self, pages: usize) {
        self.visited.grow(pages);
    }

    #[inline(always)]
    fn hit(&mut self, page: PageId) -> Option<PageId> {
        self.visited.insert(page);
        None
    }

    #[inline(always)]
    fn make_room(&mut self, _incoming: PageId) -> Option<PageId> {
        if self.ahead.len() + self.passed.len() < self.frames {
            return None;
        }
        loop {
            let page = self.ahead.pop_front()?;
            let is_visited = self.visited.remove(page);
            if is_visited {
                self.passed.push_back(page);
            }
            self.wrap();
            if !is_visited {
                return Some(page);
            }
        }
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId) {
        self.ahead.push_back(page);
    }
}
