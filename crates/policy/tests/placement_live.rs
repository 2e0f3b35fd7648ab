//! `adaptive` can decide inside a server of swap requests: after `grow` it allocates no memory.

use policy::placement::{Adaptive, AdaptiveOptions, Latencies, PageIn, PageOut, Placement, Tier};
use testkit::counting::{Counting, allocations};
use testkit::generate::SplitMix;
use types::PageId;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PAGES: u64 = 20_000;
const FRAMES: u64 = 5_000;
const EVENTS: u64 = 1_000_000;

#[test]
fn adaptive_allocates_nothing_after_grow() {
    let latencies =
        Latencies { slow_read: 90e3, slow_write: 40e3, fast_read: 4e3, fast_write: 5e3 };
    let options = AdaptiveOptions { capacity: FRAMES, latencies, drops_in_memory: false };
    let mut placement = Adaptive::new(options);
    placement.grow(PAGES as usize);
    let (mut is_fast, mut used) = (vec![false; PAGES as usize], 0);
    let mut random = SplitMix(4);
    let before = allocations();
    for _ in 0..EVENTS {
        let number = random.below(PAGES).min(random.below(PAGES));
        let (page, is_resident) = (PageId(number as u32), is_fast[number as usize]);
        let has_room = used < FRAMES;
        let tier = match random.below(100) {
            0 => {
                placement.forget(page);
                Tier::Slow
            }
            1..50 => placement.place_out(PageOut { page, must_write: true, is_resident, has_room }),
            _ => {
                let from = if is_resident { Tier::Fast } else { Tier::Slow };
                placement.place_in(PageIn { page, from, has_room })
            }
        };
        if tier == Tier::Fast && !is_resident {
            if used == FRAMES {
                is_fast[placement.victim().index()] = false;
                used -= 1;
            }
            placement.insert(page);
        }
        is_fast[number as usize] = tier == Tier::Fast;
        used = used + u64::from(tier == Tier::Fast) - u64::from(is_resident);
    }
    assert_eq!(allocations() - before, 0);
}
