//! A small cache between memory and storage that takes a page from its second eviction on and drops
//! the page requested longest ago.
//!
//! Source: spec sheet S0.4 E2-E5 of the memory-thrashing paper.

use super::request_order::RequestOrder;
use super::{PageIn, PageOut, Placement, Tier};
use crate::admission::SecondEviction;
use types::PageId;

/// Which request time a page carries after an eviction from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestTime {
    /// That of its last request: an eviction is not a request.
    Last,
    /// Now: an eviction counts as one.
    Now,
}

/// What the paper leaves open.
#[derive(Clone, Copy, Debug)]
pub struct NvmCacheOptions {
    /// Clean pages are admitted like dirty ones.
    pub admit_clean: bool,
    /// Pages remembered outside the cache, oldest memory lost first; none: all of them.
    pub ghost_pages: Option<u64>,
    /// The request time a page is admitted with.
    pub admitted_time: RequestTime,
    /// The request time of a page that is evicted from memory while it is in the cache.
    pub overwritten_time: RequestTime,
    /// A hit leaves the copy in the cache; otherwise the slot is freed.
    pub keeps_hit: bool,
    /// A page that leaves the cache is still remembered, so its next eviction admits it again.
    pub remembers_victims: bool,
}

/// Second-eviction admission, least-recently-requested replacement.
pub struct NvmCache {
    options: NvmCacheOptions,
    filter: SecondEviction,
    order: RequestOrder,
}

impl NvmCache {
    /// An empty cache.
    pub fn new(options: NvmCacheOptions) -> NvmCache {
        NvmCache {
            options,
            filter: SecondEviction::new(options.ghost_pages),
            order: RequestOrder::default(),
        }
    }
}

impl Placement for NvmCache {
    fn grow(&mut self, pages: usize) {
        self.filter.grow(pages);
        self.order.grow(pages);
    }

    #[inline(always)]
    fn prefetch(&self, page: PageId) {
        self.order.prefetch(page);
    }

    #[inline(always)]
    fn place_out(&mut self, out: PageOut) -> Tier {
        if out.is_resident {
            if self.options.overwritten_time == RequestTime::Now {
                self.order.request(out.page);
            }
            return Tier::Fast;
        }
        if !self.filter.was_seen(out.page) {
            self.filter.remember(out.page);
            return Tier::Slow;
        }
        if !out.must_write && !self.options.admit_clean {
            return Tier::Slow;
        }
        if self.options.admitted_time == RequestTime::Now {
            self.order.request(out.page);
        }
        Tier::Fast
    }

    #[inline(always)]
    fn place_in(&mut self, read: PageIn) -> Tier {
        self.order.request(read.page);
        if read.from == Tier::Fast && !self.options.keeps_hit {
            self.order.remove(read.page);
            self.filter.remember(read.page);
            return Tier::Slow;
        }
        read.from
    }

    #[inline(always)]
    fn victim(&mut self) -> PageId {
        let victim = self.order.victim().expect("a full fast tier holds a page");
        if self.options.remembers_victims {
            self.filter.remember(victim);
        }
        victim
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId) {
        // The metadata of a page inside the cache is the cache's own; it returns to the ghost when
        // the page leaves.
        self.filter.forget(page);
        self.order.insert(page);
    }

    fn forget(&mut self, page: PageId) {
        self.filter.forget(page);
        self.order.forget(page);
    }
}
