//! CLOCK-Pro: the whole list in order, from the page at HAND_hot to the head of the list. HAND_cold and
//! HAND_test point to the page of their kind that came to the head longest ago.

use super::Model;
use types::PageId;

pub struct ClockPro {
    frames: usize,
    cold_target: usize,
    now: u64,
    has_evicted: bool,
    list: Vec<Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    page: PageId,
    kind: Kind,
    is_referenced: bool,
    is_in_test: bool,
    /// Time when the page came to the head or became cold.
    since: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Hot,
    Cold,
    Gone,
}

use Kind::{Cold, Gone, Hot};

impl ClockPro {
    pub fn new(frames: usize) -> ClockPro {
        ClockPro { frames, cold_target: 1, now: 0, has_evicted: false, list: Vec::new() }
    }

    fn count(&self, kind: Kind) -> usize {
        self.list.iter().filter(|entry| entry.kind == kind).count()
    }

    fn find(&self, page: PageId) -> Option<usize> {
        self.list.iter().position(|entry| entry.page == page)
    }

    /// Index of the oldest page of this kind.
    fn first(&self, kind: Kind) -> usize {
        let of_kind = (0..self.list.len()).filter(|&place| self.list[place].kind == kind);
        of_kind
            .min_by_key(|&place| self.list[place].since)
            .expect("the list has a page of this kind")
    }

    fn push_head(&mut self, page: PageId, kind: Kind) {
        self.now += 1;
        let is_in_test = kind == Cold;
        let entry = Entry { page, kind, is_referenced: false, is_in_test, since: self.now };
        self.list.push(entry);
    }

    fn promote(&mut self, page: PageId) {
        self.cold_target = (self.cold_target + 1).min(self.frames);
        self.push_head(page, Hot);
        self.hand_hot();
    }

    fn failed_test(&mut self) {
        self.cold_target = (self.cold_target - 1).max(1);
    }

    /// Moves the first page of the list to its end, until the first page is hot and the number of hot
    /// pages is within its limit.
    fn hand_hot(&mut self) {
        while self.count(Hot) > 0 {
            let has_too_many = self.count(Hot) > self.frames - self.cold_target;
            if self.list[0].kind == Hot && !has_too_many {
                return;
            }
            let mut entry = self.list.remove(0);
            if entry.kind == Hot && entry.is_referenced {
                entry.is_referenced = false;
            } else if entry.kind == Hot {
                self.now += 1;
                entry = Entry { kind: Cold, since: self.now, ..entry };
            } else {
                if entry.is_in_test && !entry.is_referenced {
                    self.failed_test();
                }
                entry.is_in_test = false;
            }
            if entry.kind != Gone {
                self.list.push(entry);
            }
        }
    }

    fn hand_cold(&mut self) {
        loop {
            let place = self.first(Cold);
            let entry = self.list[place];
            if entry.is_referenced {
                self.list.remove(place);
                if entry.is_in_test {
                    self.promote(entry.page);
                } else {
                    self.push_head(entry.page, Cold);
                }
            } else if entry.is_in_test {
                self.list[place].kind = Gone;
                return;
            } else {
                self.list.remove(place);
                return;
            }
        }
    }

    fn hand_test(&mut self) {
        while self.count(Gone) > self.frames {
            let place = self.first(Gone);
            self.list.remove(place);
            self.failed_test();
        }
    }

    fn bring(&mut self, page: PageId) {
        if self.count(Hot) + self.count(Cold) == self.frames {
            self.has_evicted = true;
            self.hand_cold();
            self.hand_test();
        }
        if let Some(place) = self.find(page) {
            self.list.remove(place);
            self.promote(page);
        } else if !self.has_evicted && self.count(Hot) < self.frames - self.cold_target {
            self.push_head(page, Hot);
        } else {
            self.push_head(page, Cold);
        }
    }
}

impl Model for ClockPro {
    fn holds(&self, page: PageId) -> bool {
        self.find(page).is_some_and(|place| self.list[place].kind != Gone)
    }

    fn request(&mut self, page: PageId) -> bool {
        let is_hit = self.holds(page);
        if is_hit && let Some(place) = self.find(page) {
            self.list[place].is_referenced = true;
        } else {
            self.bring(page);
        }
        is_hit
    }
}
