//! SIEVE (Zhang et al., NSDI 2024).
//!
//! The hand walks from the oldest page to the newest, clears marks and evicts the first unmarked
//! page. The pages that it has passed and those ahead of it are two queues, so that the walk reads memory
//! in order and a page that stays costs one copy; the published form is a linked list.

use super::{NotedEviction, Notes};
use std::collections::VecDeque;
use types::PageId;

/// Evicts the first page after the hand that was not used since the hand last passed it.
pub struct Sieve {
    frames: usize,
    /// Pages that the hand passed in this sweep, from oldest to newest; all are older than `ahead`.
    passed: VecDeque<PageId>,
    /// Pages from the hand to the newest. Empty only while `passed` is empty.
    ahead: VecDeque<PageId>,
}

/// Note of a page that was used since the hand last passed it.
const VISITED: u8 = 1;

impl Sieve {
    pub fn new(frames: u32) -> Sieve {
        Sieve { frames: frames as usize, passed: VecDeque::new(), ahead: VecDeque::new() }
    }

    /// Moves a hand that has passed the newest page back to the oldest, before another page arrives.
    #[inline(always)]
    fn wrap(&mut self) {
        if self.ahead.is_empty() {
            std::mem::swap(&mut self.ahead, &mut self.passed);
        }
    }
}

impl NotedEviction for Sieve {
    #[inline(always)]
    fn hit(&mut self, page: PageId, mut notes: Notes) -> Option<PageId> {
        notes.set(page, VISITED);
        None
    }

    #[inline(always)]
    fn make_room(&mut self, _incoming: PageId, mut notes: Notes) -> Option<PageId> {
        if self.ahead.len() + self.passed.len() < self.frames {
            return None;
        }
        loop {
            let page = self.ahead.pop_front()?;
            let is_visited = notes.get(page) == VISITED;
            if is_visited {
                notes.set(page, 0);
                self.passed.push_back(page);
            }
            self.wrap();
            if !is_visited {
                return Some(page);
            }
        }
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId, _notes: Notes) {
        self.ahead.push_back(page);
    }
}
