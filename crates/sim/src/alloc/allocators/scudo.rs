//! A cache of whole mappings, as in scudo's secondary allocator (compiler-rt/lib/scudo/standalone/
//! secondary.h) with the settings of Android: 32 entries of at most 2 MiB, each for requests that waste
//! at most four pages of it. The frames of an entry are released once it is older than a second, which is
//! checked at each free.
//!
//! Departs from it: a full cache gives up its oldest entry, as newer versions do; no guard pages.

use super::{Allocator, Held, Placed, Row, Wanted};
use crate::alloc::kernel::Kernel;

pub const ROW: Row = Row {
    name: "scudo-like",
    summary: "cache of 32 mappings up to 2 MiB that fit within four pages, released after 1 s",
    build: |_| Box::new(Scudo { entries: Vec::new() }),
};

const ENTRIES: usize = 32;
const ENTRY_PAGES_MAX: u32 = 512;
const WASTE_PAGES_MAX: u32 = 4;
const RELEASE_AFTER_NS: u64 = 1_000_000_000;

struct Entry {
    first: u32,
    pages: u32,
    since: u64,
    is_released: bool,
}

/// Entries are in order of age, the oldest first.
pub struct Scudo {
    entries: Vec<Entry>,
}

impl Scudo {
    fn release_old(&mut self, kernel: &mut Kernel<'_>) {
        for entry in &mut self.entries {
            if !entry.is_released && kernel.now >= entry.since + RELEASE_AFTER_NS {
                kernel.discard(entry.first, entry.pages);
                entry.is_released = true;
            }
        }
    }
}

impl Allocator for Scudo {
    fn allocate(&mut self, wanted: Wanted, kernel: &mut Kernel<'_>) -> Placed {
        let fits = wanted.pages..=wanted.pages + WASTE_PAGES_MAX;
        let fitting = self.entries.iter().position(|entry| fits.contains(&entry.pages));
        let first = match fitting.filter(|_| !wanted.is_mapped) {
            None => kernel.map(wanted.pages),
            Some(place) => {
                let entry = self.entries.remove(place);
                // scudo keeps the excess pages mapped; here they are unmapped, which is cheaper.
                if entry.pages > wanted.pages {
                    let rest = entry.pages - wanted.pages;
                    kernel.unmap(entry.first + wanted.pages, rest);
                }
                if wanted.is_zeroed {
                    kernel.zero(entry.first, wanted.pages);
                }
                entry.first
            }
        };
        Placed { first, populated_pages: 0 }
    }

    fn free(&mut self, held: Held, kernel: &mut Kernel<'_>) {
        if held.is_mapped || held.pages > ENTRY_PAGES_MAX {
            return kernel.unmap(held.first, held.pages);
        }
        if self.entries.len() == ENTRIES {
            let oldest = self.entries.remove(0);
            kernel.unmap(oldest.first, oldest.pages);
        }
        let Held { first, pages, .. } = held;
        self.entries.push(Entry { first, pages, since: kernel.now, is_released: false });
        self.release_old(kernel);
    }

    fn resize(&mut self, held: Held, wanted: Wanted, kernel: &mut Kernel<'_>) -> Option<u32> {
        held.is_mapped.then(|| kernel.remap(held.first, held.pages, wanted.pages))
    }
}
