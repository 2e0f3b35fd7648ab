//! The contract of every placement with its driver: victims are resident, no entry exceeds the capacity,
//! no page that ceased to exist lingers, and the decisions do not depend on whether the driver asks for
//! the next victim.

use policy::placement::{CATALOG, MadeFor, PageIn, PageOut, Placement, Tier};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use types::PageId;

const PAGES: u32 = 24;

/// A driver that knows only the contract.
struct Checked<'a> {
    name: &'a str,
    placement: Box<dyn Placement>,
    capacity: usize,
    /// Whether the placement asks for the next victim after each step.
    asks_for_next: bool,
    resident: BTreeSet<u32>,
    has_copy: BTreeMap<u32, bool>,
    victims: Vec<u32>,
}

impl<'a> Checked<'a> {
    fn new(name: &'a str, form: MadeFor, capacity: u64, asks_for_next: bool) -> Checked<'a> {
        let mut placement = form(capacity);
        placement.grow(PAGES as usize);
        Checked {
            name,
            placement,
            capacity: capacity as usize,
            asks_for_next,
            resident: BTreeSet::new(),
            has_copy: BTreeMap::new(),
            victims: Vec::new(),
        }
    }

    fn replay(&mut self, events: &[(u32, u32, bool)]) {
        for (page, choice, is_dirty) in events {
            match choice {
                0 => self.end(*page),
                1..11 => self.out(*page, *is_dirty),
                _ => self.read(*page),
            }
        }
        for page in 0..PAGES {
            self.end(page);
        }
        // Nothing may linger: the tier takes a full load of new pages and gives up only those.
        for page in 0..PAGES {
            self.out(page, true);
        }
    }

    fn enter(&mut self, page: u32) {
        if self.resident.len() == self.capacity {
            let victim = self.placement.victim().0;
            assert!(self.resident.remove(&victim), "{}: victim {victim} not resident", self.name);
            self.victims.push(victim);
            if self.asks_for_next
                && let Some(PageId(next)) = self.placement.next_victim()
            {
                assert!(self.resident.contains(&next), "{}: next {next} not resident", self.name);
            }
        }
        self.placement.insert(PageId(page));
        assert!(self.resident.insert(page));
    }

    fn settle(&mut self, page: u32, tier: Tier) {
        match (tier, self.resident.contains(&page)) {
            (Tier::Fast, false) => self.enter(page),
            (Tier::Slow, true) => assert!(self.resident.remove(&page)),
            _ => {}
        }
    }

    fn out(&mut self, page: u32, is_dirty: bool) {
        let out = PageOut {
            page: PageId(page),
            must_write: is_dirty || !self.has_copy.get(&page).copied().unwrap_or(false),
            is_resident: self.resident.contains(&page),
            has_room: self.resident.len() < self.capacity,
        };
        let tier = self.placement.place_out(out);
        self.settle(page, tier);
        self.has_copy.insert(page, true);
    }

    fn read(&mut self, page: u32) {
        let is_resident = self.resident.contains(&page);
        let read = PageIn {
            page: PageId(page),
            from: if is_resident { Tier::Fast } else { Tier::Slow },
            has_room: self.resident.len() < self.capacity,
        };
        let tier = self.placement.place_in(read);
        self.settle(page, tier);
        self.has_copy.insert(page, true);
    }

    fn end(&mut self, page: u32) {
        self.placement.forget(PageId(page));
        self.resident.remove(&page);
        self.has_copy.remove(&page);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_placement_keeps_the_contract(
        events in prop::collection::vec((0..PAGES, 0..20u32, any::<bool>()), 1..400),
        capacity in 1u64..12,
    ) {
        let forms = CATALOG.iter().flat_map(|row| row.forms.iter().map(|form| (row.name, form)));
        for (name, form) in forms {
            let run = |asks_for_next| {
                let mut driver = Checked::new(name, *form, capacity, asks_for_next);
                driver.replay(&events);
                driver.victims
            };
            prop_assert_eq!(run(true), run(false), "{}", name);
        }
    }
}
