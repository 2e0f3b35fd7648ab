//! Every placement can decide inside a server of swap requests: after `grow` it allocates no memory.

use policy::placement::{CATALOG, PageIn, PageOut, Placement, Tier};
use testkit::counting::{Counting, allocations};
use testkit::generate::SplitMix;
use types::PageId;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PAGES: u64 = 20_000;
const FRAMES: u64 = 5_000;
const EVENTS: u64 = 500_000;

#[test]
fn no_placement_allocates_after_grow() {
    for row in CATALOG {
        for form in row.forms {
            let mut placement = form(FRAMES);
            placement.grow(PAGES as usize);
            let mut is_fast = vec![false; PAGES as usize];
            let before = allocations();
            replay(&mut *placement, &mut is_fast);
            assert_eq!(allocations() - before, 0, "{}", row.name);
        }
    }
}

/// Page-outs, page-ins and ends of pages, the low numbers most often.
fn replay(placement: &mut dyn Placement, is_fast: &mut [bool]) {
    let (mut random, mut used) = (SplitMix(4), 0);
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
}
