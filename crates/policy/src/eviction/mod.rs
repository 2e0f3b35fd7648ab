//! Which resident page leaves when a frame is needed.

mod arc;
mod clock;
mod fifo;
mod ghosts;
mod larc;
mod lirs;
mod lru;
mod opt;
pub(crate) mod queues;
mod replay;
mod residency;
mod s3_fifo;
mod sieve;
mod time_set;
mod two_list;
mod two_queue;

pub use opt::{Future, ReplayFuture};
pub use replay::Replay;
pub use residency::{Notes, Residency};

use std::sync::Arc;
use types::PageId;

/// Chooses victims among the resident pages of one memory.
///
/// The driver's contract, per request: a resident page is reported by `hit`, and the page it names,
/// if any, leaves. A missing page is reported by `miss`; if that says so, the driver drops every
/// page `make_room` names until it names none, then calls `insert`.
pub trait Eviction {
    /// Pages numbered below `pages` may be named from now on. Never takes pages away.
    fn grow(&mut self, pages: usize);
    /// These pages are about to be requested: a chance to read what the policy keeps about them, so
    /// that the waits for scattered memory overlap. Changes nothing.
    #[inline(always)]
    fn read_ahead(&self, _pages: &[PageId]) {}
    /// A resident page was requested. Names a page that leaves on this occasion, in most policies
    /// none.
    fn hit(&mut self, page: PageId) -> Option<PageId>;
    /// A page that is not resident was requested: whether it should become resident at all.
    fn miss(&mut self, _page: PageId) -> bool {
        true
    }
    /// The next page that must leave before `incoming` fits, already forgotten as resident.
    fn make_room(&mut self, incoming: PageId) -> Option<PageId>;
    /// `page` is resident from now on.
    fn insert(&mut self, page: PageId);
}

/// The same for a policy to which six bits per page suffice, or help: the driver keeps them beside
/// its own, where they cost no further read of scattered memory. What is not said here is as in
/// [`Eviction`], and each of those is one of these that notes nothing.
pub trait NotedEviction {
    /// Pages numbered below `pages` may be named from now on. Never takes pages away.
    fn grow(&mut self, _pages: usize) {}
    /// These pages are about to be requested.
    #[inline(always)]
    fn read_ahead(&self, _pages: &[PageId]) {}
    /// A resident page was requested. Names a page that leaves on this occasion.
    fn hit(&mut self, page: PageId, notes: Notes) -> Option<PageId>;
    /// A page that is not resident was requested: whether it should become resident at all.
    #[inline(always)]
    fn miss(&mut self, _page: PageId, _notes: Notes) -> bool {
        true
    }
    /// The next page that must leave before `incoming` fits.
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

/// How a policy of the catalog is made, for at least one frame.
#[derive(Clone, Copy)]
pub enum Build {
    /// From the number of frames.
    Online(fn(frames: u32) -> Box<dyn Replay>),
    /// From the number of frames and every request that will come.
    Offline(fn(frames: u32, future: Arc<Future>) -> Box<dyn ReplayFuture>),
}

/// One policy of the catalog.
pub struct Row {
    /// Its name on the command line, in Python and in results.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// How it is made.
    pub build: Build,
}

/// Every eviction policy, in the order in which lists show them.
pub const CATALOG: &[Row] = &[
    Row {
        name: "fifo",
        summary: "first in, first out",
        build: Build::Online(|frames| Box::new(fifo::Fifo::new(frames))),
    },
    Row {
        name: "lru",
        summary: "least recently used",
        build: Build::Online(|frames| Box::new(lru::Lru::new(frames))),
    },
    Row {
        name: "clock",
        summary: "FIFO with a second chance for pages used since the hand last passed",
        build: Build::Online(|frames| Box::new(clock::Clock::new(frames))),
    },
    Row {
        name: "sieve",
        summary: "a hand that keeps used pages in place and evicts the first unused one",
        build: Build::Online(|frames| Box::new(sieve::Sieve::new(frames))),
    },
    Row {
        name: "s3-fifo",
        summary: "a small queue on probation, a main queue, and ghosts that skip the probation",
        build: Build::Online(|frames| Box::new(s3_fifo::S3Fifo::new(frames))),
    },
    Row {
        name: "two-list",
        summary: "the active and inactive lists of Linux: a page used while inactive stays",
        build: Build::Online(|frames| Box::new(two_list::TwoList::new(frames))),
    },
    Row {
        name: "two-queue",
        summary: "2Q: FIFO for pages seen once, LRU for pages that came back",
        build: Build::Online(|frames| Box::new(two_queue::TwoQueue::new(frames))),
    },
    Row {
        name: "arc",
        summary: "LRU of pages seen once and of pages seen again, balanced by ghost hits",
        build: Build::Online(|frames| Box::new(arc::Arc::new(frames))),
    },
    Row {
        name: "lirs",
        summary: "keeps the pages whose last two uses lie closest together",
        build: Build::Online(|frames| Box::new(lirs::Lirs::new(frames))),
    },
    Row {
        name: "larc",
        summary: "LRU that a page enters at its second miss within a self-tuned time",
        build: Build::Online(|frames| Box::new(larc::Larc::new(frames))),
    },
    Row {
        name: "opt",
        summary: "Belady's optimum: the page needed latest leaves (knows the future)",
        build: Build::Offline(|frames, future| Box::new(opt::Opt::new(frames, future))),
    },
];

/// The policy with this name, or none.
pub fn find(name: &str) -> Option<&'static Row> {
    CATALOG.iter().find(|row| row.name == name)
}
