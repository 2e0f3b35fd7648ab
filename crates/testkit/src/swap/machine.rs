//! Pages, their copies, and counts of their moves; common to every architecture.

use super::adaptive::Adaptive;
use super::{Outcome, Replay};
use std::collections::{BTreeMap, BTreeSet};

/// Counts of page operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pages read from the fast tier.
    pub fast_reads: u64,
    /// Pages written to the fast tier.
    pub fast_writes: u64,
    /// Pages read from the slow tier.
    pub slow_reads: u64,
    /// Pages written to the slow tier.
    pub slow_writes: u64,
    /// Known pages that entered the fast tier.
    pub promotions: u64,
    /// Pages that lost their frame to another page.
    pub demotions: u64,
}

/// A page.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub owner: u32,
    pub is_file: bool,
    pub fast_copy: bool,
    pub slow_copy: bool,
    pub is_in_memory: bool,
    /// The access bit.
    pub bit: bool,
    /// The page was swapped out or in before, so its access bit is settled.
    pub has_slot: bool,
    /// A fault promoted the page; the write waits for its swap-out.
    pub is_due: bool,
    /// The page's slot in the fast tier was freed when it was swapped in.
    pub is_away: bool,
    /// Number of the page's last request; 0 without a request.
    pub last_request: u64,
}

/// The state of a replay.
pub(super) struct Machine {
    pub replay: Replay,
    pub pages: BTreeMap<u32, Page>,
    /// Pages in the fast tier: in order of age for CLOCK and LRU, of insertion for nvm-cache.
    pub fast: Vec<u32>,
    /// Ghosts of nvm-cache: evicted pages, oldest first.
    pub seen: Vec<u32>,
    pub requests: u64,
    pub swap_ins: u64,
    pub outcome: Outcome,
    /// Pages read ahead and not used since.
    pub ahead: BTreeSet<u32>,
    /// The next page-in finds its page in memory.
    pub is_read: bool,
    pub adaptive: Adaptive,
}

impl Machine {
    pub fn new(replay: Replay) -> Machine {
        let drops = replay.options.get("victims_in_memory").is_some_and(|value| value == "drop");
        let mut latencies = replay.latencies;
        if let Some(Ok(wear_price)) =
            replay.options.get("wear_price").map(|text| text.parse::<f64>())
        {
            latencies.fast_write += wear_price * latencies.slow_read;
        }
        Machine {
            adaptive: Adaptive::new(replay.capacity, latencies, drops),
            replay,
            pages: BTreeMap::new(),
            fast: Vec::new(),
            seen: Vec::new(),
            requests: 0,
            swap_ins: 0,
            outcome: Outcome::default(),
            ahead: BTreeSet::new(),
            is_read: false,
        }
    }

    pub fn option_is(&self, name: &str, value: &str) -> bool {
        self.replay.options.get(name).is_some_and(|set| set == value)
    }

    pub fn account(&mut self, process: u32) -> &mut Counts {
        self.outcome.processes.entry(process).or_default()
    }

    pub fn page(&mut self, page: u32) -> &mut Page {
        self.pages.get_mut(&page).expect("the event's page was created")
    }

    fn create(&mut self, page: u32, owner: u32, is_file: bool, slow_copy: bool) {
        let page_state = Page {
            owner,
            is_file,
            fast_copy: false,
            slow_copy,
            is_in_memory: false,
            bit: false,
            has_slot: false,
            is_due: false,
            is_away: false,
            last_request: 0,
        };
        self.pages.insert(page, page_state);
    }

    /// A page is read ahead, from the fast tier if that has it.
    pub fn read_ahead(&mut self, page: u32, process: u32) {
        if self.pages.get(&page).is_some_and(|state| state.fast_copy) {
            self.account(process).fast_reads += 1;
            self.outcome.readahead.0 += 1;
        } else {
            self.account(process).slow_reads += 1;
            self.outcome.readahead.1 += 1;
        }
        self.ahead.insert(page);
    }

    /// A page leaves memory.
    pub fn page_out(&mut self, page: u32, process: u32, is_dirty: bool, is_file: bool) {
        self.ahead.remove(&page);
        let is_known = self.pages.contains_key(&page);
        if !is_known {
            // A file page is on the slow tier from the start; an anonymous page has no copy.
            self.create(page, process, is_file, is_file);
        }
        let must_write = {
            let state = self.page(page);
            state.is_in_memory = false;
            is_dirty || !(state.fast_copy || state.slow_copy)
        };
        let was_fast = self.page(page).fast_copy;
        let goes_fast = self.place_out(page, must_write) && (was_fast || self.replay.capacity > 0);
        if goes_fast && was_fast {
            if must_write {
                self.account(process).fast_writes += 1;
                self.page(page).slow_copy = false;
            }
        } else if goes_fast {
            self.enter_fast(page, false);
            self.account(process).fast_writes += 1;
            self.account(process).promotions += u64::from(is_known);
            if must_write {
                self.page(page).slow_copy = false;
            }
        } else {
            if was_fast {
                self.fast.retain(|&other| other != page);
                self.page(page).fast_copy = false;
                self.account(process).demotions += 1;
            }
            if must_write {
                self.account(process).slow_writes += 1;
                self.page(page).slow_copy = true;
            }
        }
    }

    /// Before a swap-in: with `infers_clean`, a page that is still in memory left clean before.
    pub fn infer_page_out(&mut self, page: u32, process: u32, is_file: bool) {
        let is_in_memory = self.pages.get(&page).is_some_and(|state| state.is_in_memory);
        if self.replay.infers_clean && is_in_memory {
            self.page_out(page, process, false, is_file);
        }
    }

    /// A page returns to memory.
    pub fn page_in(&mut self, page: u32, process: u32, is_file: bool) {
        if !self.pages.contains_key(&page) {
            self.create(page, process, is_file, true);
        } else {
            let state = self.page(page);
            if !(state.fast_copy || state.slow_copy) {
                // The page was swapped out without an event and had to be written at an unknown time.
                state.slow_copy = true;
                self.account(process).slow_writes += 1;
            }
        }
        if self.page(page).fast_copy {
            self.account(process).fast_reads += u64::from(!self.is_read);
            if !self.keeps_after_hit(page) {
                self.fast.retain(|&other| other != page);
                self.page(page).fast_copy = false;
            }
        } else {
            self.account(process).slow_reads += u64::from(!self.is_read);
            if self.fills_after_miss(page) && self.replay.capacity > 0 {
                self.enter_fast(page, true);
                self.account(process).fast_writes += 1;
                self.account(process).promotions += 1;
                self.outcome.fast_writes_stalling += 1;
            }
        }
        if self.option_is("slot_on_swapin", "free") {
            self.page(page).slow_copy = false;
        }
        self.page(page).is_in_memory = true;
    }

    /// `page` takes a frame of the fast tier, demoting a victim if none is free.
    fn enter_fast(&mut self, page: u32, is_in_fault: bool) {
        if self.fast.len() == self.replay.capacity {
            let victim = self.take_victim();
            let drops = self.drops_victims_in_memory();
            let state = self.page(victim);
            state.fast_copy = false;
            let is_dropped = drops && state.is_in_memory;
            let (owner, must_write) = (state.owner, !state.slow_copy && !is_dropped);
            state.slow_copy |= must_write;
            self.account(owner).demotions += 1;
            if must_write {
                self.account(owner).slow_writes += 1;
                self.outcome.slow_writes_stalling += u64::from(is_in_fault);
            }
        }
        self.fast.push(page);
        self.entered(page);
        let frees_slow_copy = self.option_is("flash_copy_on_promotion", "free");
        let state = self.page(page);
        state.fast_copy = true;
        if frees_slow_copy {
            state.slow_copy = false;
        }
    }

    /// Marks a page as zeros: it exists, without any other state.
    pub fn holds_zeros(&mut self, page: u32, process: u32) {
        let owner = self.pages.get(&page).map_or(process, |state| state.owner);
        self.forget(page);
        self.create(page, owner, false, false);
    }

    /// The slot of a page was discarded: its copies are void, and the page has a new life.
    pub fn void(&mut self, page: u32) {
        self.ahead.remove(&page);
        if self.pages.contains_key(&page) {
            let Page { owner, is_file, .. } = *self.page(page);
            self.charge_late_write(page);
            self.forget(page);
            self.create(page, owner, is_file, false);
        }
    }

    fn forget(&mut self, page: u32) {
        self.ahead.remove(&page);
        self.adaptive.dropped(page);
        self.pages.remove(&page);
        self.fast.retain(|&other| other != page);
        self.seen.retain(|&other| other != page);
    }

    /// A process ends: its anonymous pages and their copies are void.
    pub fn exit(&mut self, process: u32) {
        let gone: Vec<u32> = self
            .pages
            .iter()
            .filter(|(_, page)| page.owner == process && !page.is_file)
            .map(|(number, _)| *number)
            .collect();
        for page in gone {
            self.charge_late_write(page);
            self.forget(page);
        }
    }

    /// The trace ends.
    pub fn end(&mut self) {
        let pages: Vec<u32> = self.pages.keys().copied().collect();
        pages.into_iter().for_each(|page| self.charge_late_write(page));
    }

    fn drops_victims_in_memory(&self) -> bool {
        self.option_is("victims_in_memory", "drop")
    }

    /// Counts a write for a page whose only copy was dropped while it was in memory and which may have
    /// left memory unmodified since.
    fn charge_late_write(&mut self, page: u32) {
        let drops = self.drops_victims_in_memory();
        let Page { owner, is_in_memory, fast_copy, slow_copy, .. } = *self.page(page);
        if drops && is_in_memory && !fast_copy && !slow_copy {
            self.account(owner).slow_writes += 1;
        }
    }
}
