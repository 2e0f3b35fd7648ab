//! The rules of each architecture, in the terms of the specification sheets.

use super::machine::Machine;

impl Machine {
    fn has_room(&self) -> bool {
        self.fast.len() < self.replay.capacity
    }

    fn frees_slot(&self) -> bool {
        self.option_is("slot_on_swapin", "free")
    }

    /// Whether the copy of a page that leaves memory belongs in the fast tier.
    pub fn place_out(&mut self, page: u32, must_write: bool) -> bool {
        let is_fast = self.page(page).fast_copy;
        match self.replay.architecture.as_str() {
            "flash" => false,
            "priority" => is_fast || (must_write && self.has_room()),
            "hierarchical" => {
                if is_fast && self.is_lru() && self.option_is("swapout_refreshes", "yes") {
                    self.make_youngest(page);
                }
                is_fast || must_write || self.option_is("admit_clean", "yes")
            }
            "hybrid-clock" => is_fast || must_write || self.option_is("admit_clean", "yes"),
            "hybrid" => {
                let entry_bit = self.option_is("entry_bit", "1");
                let state = self.page(page);
                if !state.has_slot {
                    state.has_slot = true;
                    state.bit = entry_bit;
                }
                state.fast_copy || state.is_due || state.is_away
            }
            "nvm-cache" => self.nvm_cache_evicts(page, must_write),
            "adaptive" if must_write => self.adaptive.written(page),
            "adaptive" => is_fast,
            other => panic!("no naive model of {other}"),
        }
    }

    /// S0.4 E2.
    fn nvm_cache_evicts(&mut self, page: u32, must_write: bool) -> bool {
        if self.page(page).fast_copy {
            if self.option_is("overwritten_time", "now") {
                self.request(page);
            }
            return true;
        }
        if self.option_is("admit_at", "fault") {
            return false;
        }
        if !self.seen.contains(&page) {
            self.remember(page);
            return false;
        }
        if !must_write && self.option_is("admit_clean", "no") {
            return false;
        }
        if self.option_is("admitted_time", "now") {
            self.request(page);
        }
        true
    }

    /// Whether the copy of a page that is read from the fast tier stays there.
    pub fn keeps_after_hit(&mut self, page: u32) -> bool {
        self.note_swap_in();
        match self.replay.architecture.as_str() {
            "priority" => !self.frees_slot(),
            "hierarchical" if self.is_lru() => {
                self.make_youngest(page);
                true
            }
            "hierarchical" => {
                self.page(page).bit = true;
                true
            }
            "hybrid-clock" => {
                self.page(page).bit = true;
                !self.frees_slot()
            }
            "hybrid" => {
                let frees_slot = self.frees_slot();
                let state = self.page(page);
                state.bit = true;
                state.is_away = frees_slot;
                !frees_slot
            }
            "nvm-cache" => {
                self.request(page);
                let moves = self.option_is("on_hit", "move");
                if moves {
                    self.remember(page);
                }
                !moves
            }
            "adaptive" => self.adaptive.read(page),
            other => panic!("{other} has no fast tier"),
        }
    }

    /// Whether a page that is read from the slow tier enters the fast tier at once.
    pub fn fills_after_miss(&mut self, page: u32) -> bool {
        self.note_swap_in();
        let frees_slot = self.frees_slot();
        match self.replay.architecture.as_str() {
            "flash" | "priority" => false,
            "hierarchical" => self.option_is("fill_on_read_miss", "yes"),
            "hybrid-clock" => self.option_is("clock_reinsert", "fault") && !frees_slot,
            "hybrid" => {
                let waits = frees_slot || self.option_is("promote_at", "swapout");
                let state = self.page(page);
                let has_earned = state.bit;
                state.bit = true;
                state.has_slot = true;
                state.is_due |= has_earned && waits;
                has_earned && !waits
            }
            "nvm-cache" => {
                self.request(page);
                let is_read = self.option_is("admit_at", "fault");
                let was_seen = self.seen.contains(&page);
                if is_read && !was_seen {
                    self.remember(page);
                }
                is_read && was_seen
            }
            "adaptive" => self.adaptive.read(page),
            other => panic!("no naive model of {other}"),
        }
    }

    /// Updates the state after a page entered the fast tier.
    pub fn entered(&mut self, page: u32) {
        let inserted_bit = self.option_is("inserted_bit", "1");
        let state = self.page(page);
        state.is_due = false;
        if !std::mem::take(&mut state.is_away) {
            state.bit = inserted_bit;
        }
        self.seen.retain(|&other| other != page);
    }

    /// The page that leaves a full fast tier.
    pub fn take_victim(&mut self) -> u32 {
        match self.replay.architecture.as_str() {
            "hierarchical" if self.is_lru() => self.fast.remove(0),
            "nvm-cache" => {
                let last_request = |page: &u32| self.pages[page].last_request;
                let oldest = self.fast.iter().map(last_request).min().expect("the tier is full");
                let index = self.fast.iter().position(|page| last_request(page) == oldest);
                let victim = self.fast.remove(index.expect("the minimum is one of them"));
                if self.option_is("remember_victims", "yes") {
                    self.remember(victim);
                }
                victim
            }
            "adaptive" => {
                let victim = self.adaptive.take_victim();
                self.fast.retain(|&other| other != victim);
                victim
            }
            _ => loop {
                let under_hand = self.fast.remove(0);
                if !std::mem::take(&mut self.page(under_hand).bit) {
                    break under_hand;
                }
                self.fast.push(under_hand);
            },
        }
    }

    fn is_lru(&self) -> bool {
        self.option_is("eviction", "lru")
    }

    fn make_youngest(&mut self, page: u32) {
        self.fast.retain(|&other| other != page);
        self.fast.push(page);
    }

    fn request(&mut self, page: u32) {
        self.requests += 1;
        self.page(page).last_request = self.requests;
    }

    fn remember(&mut self, page: u32) {
        if self.seen.contains(&page) {
            return;
        }
        self.seen.push(page);
        if let Ok(multiple) = self.replay.options["ghost"].parse::<f64>() {
            let bound = (multiple * self.replay.capacity as f64) as usize;
            while self.seen.len() > bound {
                self.seen.remove(0);
            }
        }
    }

    /// Ages the access bits of hybrid if its option requires it.
    fn note_swap_in(&mut self) {
        self.swap_ins += 1;
        let Some(Ok(epoch)) = self.replay.options.get("bit_epoch").map(|text| text.parse::<f64>())
        else {
            return;
        };
        if self.swap_ins.is_multiple_of((epoch as u64).max(1)) {
            for page in self.pages.values_mut().filter(|page| !page.fast_copy) {
                page.bit = false;
            }
        }
    }
}
