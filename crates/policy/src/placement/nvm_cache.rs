//! A small cache between memory and storage that admits a page from its second eviction on and drops
//! the page requested longest ago.
//!
//! Source: spec sheet S0.4 E2-E5 of the memory-thrashing paper. Below a file system no eviction is seen, since a clean
//! page leaves memory without a request; but a page that is read again was evicted meanwhile. So the cache can also
//! admit at the second read.

use super::request_order::RequestOrder;
use super::{PageIn, PageOut, Placement, PromoteAt, Tier};
use crate::admission::SecondEviction;
use types::PageId;

/// The request time that an eviction from memory gives a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestTime {
    /// The time of its last request: an eviction is not a request.
    Last,
    /// The current time: an eviction counts as a request.
    Now,
}

/// Choices that the paper leaves open.
#[derive(Clone, Copy, Debug)]
pub struct NvmCacheOptions {
    /// Frames of the cache.
    pub capacity: u64,
    /// Admission at a page's second eviction (`SwapOut`), or at its second read from the slow tier (`Fault`).
    pub admit_at: PromoteAt,
    /// Clean pages are admitted like dirty ones.
    pub admit_clean: bool,
    /// Bound on the ghosts outside the cache, oldest dropped first; none: no bound.
    pub ghost_pages: Option<u64>,
    /// The request time of a page at its admission.
    pub admitted_time: RequestTime,
    /// The request time of a page that is evicted from memory while it is in the cache.
    pub overwritten_time: RequestTime,
    /// Whether a hit leaves the copy in the cache; otherwise the slot is freed.
    pub keeps_hit: bool,
    /// Whether a page that leaves the cache becomes a ghost, so its next eviction admits it again.
    pub remembers_victims: bool,
}

/// Admission at the second eviction or read, least-recently-requested replacement.
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
        self.order.grow(pages, self.options.capacity as usize);
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
        if self.options.admit_at == PromoteAt::Fault {
            return Tier::Slow;
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
        if read.from == Tier::Slow && self.options.admit_at == PromoteAt::Fault {
            if self.filter.was_seen(read.page) {
                return Tier::Fast;
            }
            self.filter.remember(read.page);
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
        // The cache itself keeps the metadata of a page inside it; the page becomes a ghost again
        // when it leaves.
        self.filter.forget(page);
        self.order.insert(page);
    }

    fn forget(&mut self, page: PageId) {
        self.filter.forget(page);
        self.order.forget(page);
    }
}
