//! Which resident page leaves when a frame is needed.

mod arc;
mod choice;
mod clock;
mod clock_pro;
mod fifo;
mod ghosts;
mod larc;
mod lirs;
mod lru;
mod lru_k;
mod opt;
pub(crate) mod queues;
mod random;
mod replay;
mod residency;
mod s3_fifo;
mod sieve;
mod sketch;
mod time_set;
mod tinylfu;
mod two_list;
mod two_queue;

pub use choice::Choice;
pub use opt::{Future, ReplayFuture};
pub use replay::Replay;
pub use residency::{Notes, Residency};

use crate::options::{OptionRow, Values};
use std::sync::Arc;
use types::PageId;

/// Chooses victims among the resident pages of one memory.
///
/// The driver's contract, per request: the driver reports a resident page by `hit`, and evicts the
/// page that `hit` returns, if any. It reports a missing page by `miss`; if that returns true, it
/// evicts every page that `make_room` returns until it returns none, then calls `insert`.
pub trait Eviction {
    /// Makes room for pages numbered below `pages`. Never takes pages away.
    fn grow(&mut self, pages: usize);
    /// Prefetches what the policy keeps about pages that are about to be requested, so that the waits
    /// for scattered memory overlap. Changes nothing.
    #[inline(always)]
    fn read_ahead(&self, _pages: &[PageId]) {}
    /// A resident page was requested. Returns a page to evict on this occasion; most policies return
    /// none.
    fn hit(&mut self, page: PageId) -> Option<PageId>;
    /// A page that is not resident was requested. Returns whether it should become resident.
    fn miss(&mut self, _page: PageId) -> bool {
        true
    }
    /// The next page to evict before `incoming` fits; the policy no longer counts it as resident.
    fn make_room(&mut self, incoming: PageId) -> Option<PageId>;
    /// `page` is resident from now on.
    fn insert(&mut self, page: PageId);
}

/// [`Eviction`] for a policy that keeps six bits per page in the driver's own byte: a note costs no
/// further read of scattered memory. The contract is that of [`Eviction`], and every `Eviction` is a
/// `NotedEviction` that uses no notes.
pub trait NotedEviction {
    /// Makes room for pages numbered below `pages`. Never takes pages away.
    fn grow(&mut self, _pages: usize) {}
    /// Prefetches what the policy keeps about pages that are about to be requested.
    #[inline(always)]
    fn read_ahead(&self, _pages: &[PageId]) {}
    /// A resident page was requested. Returns a page to evict on this occasion.
    fn hit(&mut self, page: PageId, notes: Notes) -> Option<PageId>;
    /// A page that is not resident was requested. Returns whether it should become resident.
    #[inline(always)]
    fn miss(&mut self, _page: PageId, _notes: Notes) -> bool {
        true
    }
    /// The next page to evict before `incoming` fits.
    fn make_room(&mut self, incoming: PageId, notes: Notes) -> Option<PageId>;
    /// `page` is resident from now on.
    fn insert(&mut self, page: PageId, notes: Notes);
}

impl<Policy: Eviction> NotedEviction for Policy {
    fn grow(&mut self, pages: usize) {
        Eviction::grow(self, pages);
    }

    #[inline(always)]
    fn read_ahead(&self, pages: &[PageId]) {
        Eviction::read_ahead(self, pages);
    }

    #[inline(always)]
    fn hit(&mut self, page: PageId, _notes: Notes) -> Option<PageId> {
        Eviction::hit(self, page)
    }

    #[inline(always)]
    fn miss(&mut self, page: PageId, _notes: Notes) -> bool {
        Eviction::miss(self, page)
    }

    #[inline(always)]
    fn make_room(&mut self, incoming: PageId, _notes: Notes) -> Option<PageId> {
        Eviction::make_room(self, incoming)
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId, _notes: Notes) {
        Eviction::insert(self, page);
    }
}

/// Constructor of a policy with its options set, for at least one frame.
pub enum Build {
    /// Takes the number of frames.
    Online(Box<dyn Fn(u32) -> Box<dyn Replay> + Send + Sync>),
    /// Takes the number of frames and every request to come.
    Offline(fn(frames: u32, future: Arc<Future>) -> Box<dyn ReplayFuture>),
}

/// A faster form of a policy, which counts misses and names no victim. `sim::misses` has one for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnCounter {
    /// For `arc`.
    Arc,
    /// For `clock`.
    Clock,
    /// For `lirs`.
    Lirs,
    /// For `lru`.
    Lru,
}

/// One policy of the catalog.
pub struct Row {
    /// Name on the command line, in Python and in results.
    pub name: &'static str,
    /// One line that says what the policy does.
    pub summary: &'static str,
    /// Options that users may set.
    pub options: &'static [OptionRow],
    /// The faster form that counts its misses; none where the policy itself is replayed.
    pub own_counter: Option<OwnCounter>,
    make: fn(&Values<'_>) -> Result<Build, String>,
}

impl Row {
    /// Builds the policy with the given options; the others keep [`OptionRow::default`].
    ///
    /// # Errors
    /// An unknown option or an invalid value.
    pub fn build(&self, given: &[(&str, &str)]) -> Result<Build, String> {
        (self.make)(&Values::new(self.name, self.options, given)?)
    }
}

/// Wraps the constructor of a policy that does not need the future.
fn online<Policy: Replay + 'static>(
    new: impl Fn(u32) -> Policy + Send + Sync + 'static,
) -> Result<Build, String> {
    Ok(Build::Online(Box::new(move |frames| Box::new(new(frames)))))
}

/// Every eviction policy, in the order in which lists show them.
pub const CATALOG: &[Row] = &[
    Row {
        name: "fifo",
        summary: "first in, first out",
        options: &[],
        own_counter: None,
        make: |_| online(fifo::Fifo::new),
    },
    Row {
        name: "lru",
        summary: "least recently used",
        options: &[],
        own_counter: Some(OwnCounter::Lru),
        make: |_| online(lru::Lru::new),
    },
    Row {
        name: "clock",
        summary: "FIFO with a second chance for pages used since the hand last passed",
        options: &[],
        own_counter: Some(OwnCounter::Clock),
        make: |_| online(clock::Clock::new),
    },
    Row {
        name: "sieve",
        summary: "a hand that keeps used pages in place and evicts the first unused one",
        options: &[],
        own_counter: None,
        make: |_| online(sieve::Sieve::new),
    },
    Row {
        name: "s3-fifo",
        summary: "a small queue on probation, a main queue, and ghosts that skip the probation",
        options: &[],
        own_counter: None,
        make: |_| online(s3_fifo::S3Fifo::new),
    },
    Row {
        name: "two-list",
        summary: "the active and inactive lists of Linux: a page used while inactive stays",
        options: &[],
        own_counter: None,
        make: |_| online(two_list::TwoList::new),
    },
    Row {
        name: "two-queue",
        summary: "2Q: FIFO for pages seen once, LRU for pages that came back",
        options: &[],
        own_counter: None,
        make: |_| online(two_queue::TwoQueue::new),
    },
    Row {
        name: "arc",
        summary: "LRU of pages seen once and of pages seen again, balanced by ghost hits",
        options: &[],
        own_counter: Some(OwnCounter::Arc),
        make: |_| online(arc::Arc::new),
    },
    Row {
        name: "lirs",
        summary: "keeps the pages whose last two uses lie closest together",
        options: &[],
        own_counter: Some(OwnCounter::Lirs),
        make: |_| online(lirs::Lirs::new),
    },
    Row {
        name: "larc",
        summary: "LRU that a page enters at its second miss within a self-tuned time",
        options: &[],
        own_counter: None,
        make: |_| online(larc::Larc::new),
    },
    Row {
        name: "lru-k",
        summary: "the page whose k-th last request is oldest leaves",
        options: lru_k::OPTIONS,
        own_counter: None,
        make: lru_k::make,
    },
    Row {
        name: "clock-pro",
        summary: "CLOCK by reuse distance: a page that comes back within its test period stays",
        options: &[],
        own_counter: None,
        make: |_| online(clock_pro::ClockPro::new),
    },
    Row {
        name: "tinylfu",
        summary: "W-TinyLFU: past a window, a page enters that was used more often than the one to go",
        options: tinylfu::OPTIONS,
        own_counter: None,
        make: tinylfu::make,
    },
    Row {
        name: "random",
        summary: "a page drawn at random leaves",
        options: random::OPTIONS,
        own_counter: None,
        make: random::make,
    },
    Row {
        name: "opt",
        summary: "Belady's optimum: the page needed latest leaves (knows the future)",
        options: &[],
        own_counter: None,
        make: |_| Ok(Build::Offline(|frames, future| Box::new(opt::Opt::new(frames, future)))),
    },
];

/// The policy with this name.
///
/// # Errors
/// An unknown name; the message lists the known ones.
pub fn find(name: &str) -> Result<&'static Row, String> {
    CATALOG.iter().find(|row| row.name == name).ok_or_else(|| {
        let known: Vec<&str> = CATALOG.iter().map(|row| row.name).collect();
        format!("no policy {name:?}; there are {}", known.join(", "))
    })
}
