//! What every placement owes its driver: victims that are resident, no entry beyond capacity, nothing
//! remembered of a page that ceased to exist.

use policy::placement::{
    Adaptive, AdaptiveLatencies, AdaptiveOptions, Flash, Hierarchical, HierarchicalOptions, Hybrid,
    HybridClock, HybridClockOptions, HybridOptions, NvmCache, NvmCacheOptions, PageIn, PageOut,
    Placement, Priority, PromoteAt, Reinsertion, Replacement, RequestTime, SlotOnSwapIn, Tier,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use types::PageId;

const PAGES: u32 = 24;

fn placements(capacity: u64) -> Vec<(&'static str, Box<dyn Placement>)> {
    let hierarchical = |eviction| {
        Box::new(Hierarchical::new(HierarchicalOptions {
            eviction,
            fill_on_read_miss: true,
            admit_clean: true,
            swapout_refreshes: true,
            inserted_bit: true,
        }))
    };
    let latencies =
        AdaptiveLatencies { slow_read: 90e3, slow_write: 40e3, fast_read: 4e3, fast_write: 5e3 };
    vec![
        ("flash", Box::new(Flash)),
        ("priority", Box::new(Priority::new(SlotOnSwapIn::Keep))),
        ("hierarchical lru", hierarchical(Replacement::Lru)),
        ("hierarchical clock", hierarchical(Replacement::Clock)),
        (
            "hybrid-clock",
            Box::new(HybridClock::new(HybridClockOptions {
                clock_reinsert: Reinsertion::Fault,
                admit_clean: false,
                inserted_bit: false,
                slot_on_swapin: SlotOnSwapIn::Keep,
            })),
        ),
        (
            "hybrid",
            Box::new(Hybrid::new(HybridOptions {
                entry_bit: true,
                inserted_bit: false,
                promote_at: PromoteAt::Fault,
                slot_on_swapin: SlotOnSwapIn::Free,
                bit_epoch: Some(5),
            })),
        ),
        (
            "nvm-cache",
            Box::new(NvmCache::new(NvmCacheOptions {
                admit_clean: true,
                ghost_pages: Some(capacity),
                admitted_time: RequestTime::Last,
                overwritten_time: RequestTime::Last,
                keeps_hit: false,
                remembers_victims: true,
            })),
        ),
        (
            "adaptive",
            Box::new(Adaptive::new(AdaptiveOptions { capacity, latencies, drops_in_memory: true })),
        ),
    ]
}

/// A driver that knows nothing but the contract.
struct Checked<'a> {
    name: &'a str,
    placement: Box<dyn Placement>,
    capacity: usize,
    resident: BTreeSet<u32>,
    has_copy: BTreeMap<u32, bool>,
}

impl Checked<'_> {
    fn enter(&mut self, page: u32) {
        if self.resident.len() == self.capacity {
            let victim = self.placement.victim().0;
            assert!(self.resident.remove(&victim), "{}: victim {victim} not resident", self.name);
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
        for (name, mut placement) in placements(capacity) {
            placement.grow(PAGES as usize);
            let mut driver = Checked {
                name,
                placement,
                capacity: capacity as usize,
                resident: BTreeSet::new(),
                has_copy: BTreeMap::new(),
            };
            for (page, choice, is_dirty) in &events {
                match choice {
                    0 => driver.end(*page),
                    1..11 => driver.out(*page, *is_dirty),
                    _ => driver.read(*page),
                }
            }
            for page in 0..PAGES {
                driver.end(page);
            }
            // Nothing may linger: the tier takes a full load of new pages and gives up only those.
            for page in 0..PAGES {
                driver.out(page, true);
            }
        }
    }
}
