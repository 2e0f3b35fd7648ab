//! In which of two tiers a page's copy belongs, and which page makes room.
//!
//! A placement answers questions about single pages. It does not know the cost of moves, whether a copy
//! is valid, or how often it was called: residency and counting are the driver's.

mod adaptive;
mod clock;
mod flash;
mod hierarchical;
mod hybrid;
mod hybrid_clock;
mod nvm_cache;
mod priority;
mod request_order;
mod ring;

pub use adaptive::{Adaptive, AdaptiveOptions, Latencies};
pub use clock::Hand;
pub use flash::Flash;
pub use hierarchical::{Hierarchical, HierarchicalOptions, Replacement};
pub use hybrid::{Hybrid, HybridOptions};
pub use hybrid_clock::{HybridClock, HybridClockOptions, Reinsertion};
pub use nvm_cache::{NvmCache, NvmCacheOptions, RequestTime};
pub use priority::Priority;

use types::PageId;

/// One of the two places below memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// The small, quick tier: NVM, compressed memory.
    Fast,
    /// The large, slow tier: flash, disk.
    Slow,
}

/// What happens to the swap copy of a page when the page comes back to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotOnSwapIn {
    /// The copy stays valid until the page is written out again, as in Linux's swap cache.
    Keep,
    /// The slot is freed at once, so every later swap-out writes.
    Free,
}

/// When a page that earned the fast tier is written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromoteAt {
    /// At the page fault that decided it.
    Fault,
    /// At the page's next swap-out.
    SwapOut,
}

/// A page leaves memory.
#[derive(Clone, Copy, Debug)]
pub struct PageOut {
    /// The page.
    pub page: PageId,
    /// Whether no tier holds a valid copy, so the page must be written.
    pub must_write: bool,
    /// Whether the page has a frame in the fast tier.
    pub is_resident: bool,
    /// Whether the fast tier has a free frame.
    pub has_room: bool,
}

/// A page was read back into memory.
#[derive(Clone, Copy, Debug)]
pub struct PageIn {
    /// The page.
    pub page: PageId,
    /// The tier that was read; `Fast` exactly if the page has a frame there.
    pub from: Tier,
    /// Whether the fast tier has a free frame.
    pub has_room: bool,
}

/// Decides where pages go.
///
/// The driver's contract: `grow` comes before any page it covers. The tier that `place_out` or
/// `place_in` returns is where the page's copy belongs afterwards. If that is `Fast` for a page that
/// had no frame, the driver calls `victim` while no frame is free, then `insert`. If it is `Slow` for
/// a page that had a frame, the placement no longer counts it as resident. A driver without any
/// fast frame may put a page into the slow tier for either answer.
pub trait Placement {
    /// Makes room for the state of pages below `pages`.
    fn grow(&mut self, pages: usize);
    /// Prefetches what the placement keeps about a page that is used some events later. Changes nothing,
    /// and accepts any number.
    #[inline(always)]
    fn prefetch(&self, _page: PageId) {}
    /// The tier for the copy of a page that leaves memory.
    fn place_out(&mut self, out: PageOut) -> Tier;
    /// The tier for the copy of a page that came back to memory.
    fn place_in(&mut self, read: PageIn) -> Tier;
    /// The page that must leave the fast tier; the placement no longer counts it as resident. Called only
    /// when the fast tier is full.
    fn victim(&mut self) -> PageId;
    /// The next victim if it is already known, so that the driver can prefetch what it keeps about that
    /// page. Decides nothing.
    fn next_victim(&mut self) -> Option<PageId> {
        None
    }
    /// Gives `page` a frame in the fast tier.
    fn insert(&mut self, page: PageId);
    /// Removes `page`, which ceased to exist, from either tier.
    fn forget(&mut self, page: PageId);
    /// The fast tier has this many frames from now on, at most as many as the placement was made for. More may be
    /// used than that: the driver calls `victim` for some of them at each later entry.
    fn set_capacity(&mut self, _frames: u64) {}
}

/// Constructor of a placement for a number of frames.
pub type MadeFor = fn(u64) -> Box<dyn Placement + Send>;

/// One placement of the catalog.
pub struct Row {
    /// Name: that of the architecture which drives it.
    pub name: &'static str,
    /// One line that says what the placement does.
    pub summary: &'static str,
    /// Constructor of each form, with the options that exercise most of it.
    pub forms: &'static [MadeFor],
}

/// Every placement, in the order in which lists show architectures.
pub const CATALOG: &[Row] = &[
    Row {
        name: "flash",
        summary: "everything belongs in the slow tier",
        forms: &[|_| Box::new(Flash)],
    },
    Row {
        name: "priority",
        summary: "the fast tier while it has room",
        forms: &[|_| Box::new(Priority::new(SlotOnSwapIn::Keep))],
    },
    Row {
        name: "hierarchical",
        summary: "a cache of the slow tier, by LRU or CLOCK",
        forms: &[|_| hierarchical(Replacement::Lru), |_| hierarchical(Replacement::Clock)],
    },
    Row {
        name: "hybrid-clock",
        summary: "either tier, by CLOCK without a filter",
        forms: &[|_| {
            Box::new(HybridClock::new(HybridClockOptions {
                clock_reinsert: Reinsertion::Fault,
                admit_clean: false,
                inserted_bit: false,
                slot_on_swapin: SlotOnSwapIn::Keep,
                hand: Hand::SHORT,
            }))
        }],
    },
    Row {
        name: "hybrid",
        summary: "either tier, by access bits that filter who enters",
        forms: &[|_| {
            Box::new(Hybrid::new(HybridOptions {
                entry_bit: true,
                inserted_bit: false,
                promote_at: PromoteAt::Fault,
                slot_on_swapin: SlotOnSwapIn::Free,
                bit_epoch: Some(5),
                hand: Hand::SHORT,
            }))
        }],
    },
    Row {
        name: "nvm-cache",
        summary: "the fast tier at the second eviction or read, the oldest request leaves",
        forms: &[
            |frames| nvm_cache(frames, PromoteAt::SwapOut),
            |frames| nvm_cache(frames, PromoteAt::Fault),
        ],
    },
    Row {
        name: "adaptive",
        summary: "where the page is worth most, by when pages of its kind came back",
        forms: &[|frames| {
            Box::new(Adaptive::new(AdaptiveOptions {
                capacity: frames,
                latencies: Latencies {
                    slow_read: 90e3,
                    slow_write: 40e3,
                    fast_read: 4e3,
                    fast_write: 5e3,
                },
                drops_in_memory: true,
                is_live: true,
            }))
        }],
    },
];

fn hierarchical(eviction: Replacement) -> Box<dyn Placement + Send> {
    Box::new(Hierarchical::new(HierarchicalOptions {
        eviction,
        fill_on_read_miss: true,
        admit_clean: true,
        swapout_refreshes: true,
        inserted_bit: true,
        hand: Hand::SHORT,
    }))
}

fn nvm_cache(frames: u64, admit_at: PromoteAt) -> Box<dyn Placement + Send> {
    Box::new(NvmCache::new(NvmCacheOptions {
        capacity: frames,
        admit_at,
        admit_clean: true,
        ghost_pages: Some(frames),
        admitted_time: RequestTime::Last,
        overwritten_time: RequestTime::Last,
        keeps_hit: false,
        remembers_victims: true,
    }))
}
