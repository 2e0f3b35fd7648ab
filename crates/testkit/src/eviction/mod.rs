//! A naive model of each eviction policy: lists are searched from end to end, without optimizations.
//!
//! Models with golden counts follow libCacheSim's reading of the published algorithm (version 0.3.5),
//! which is the source of the counts; a file that departs from that reading documents it. The other
//! models follow the paper that the policy's own file names.

mod arc;
mod clock;
mod clock_pro;
mod fifo;
mod larc;
mod lirs;
mod lru;
mod lru_k;
mod opt;
mod random;
mod s3_fifo;
mod sieve;
mod tinylfu;
mod two_list;
mod two_queue;

use std::collections::VecDeque;
use types::PageId;

/// A memory of a fixed number of frames under one policy.
pub trait Model {
    /// Whether `page` is resident.
    fn holds(&self, page: PageId) -> bool;
    /// Requests `page` and returns whether it was resident.
    fn request(&mut self, page: PageId) -> bool;
}

/// The model of a policy, `NAME` or `NAME:OPTION=VALUE,...`, for a memory of `frames` (at least one) and
/// the requests `trace`; `None` if the policy has no model.
pub fn model(policy: &str, frames: usize, trace: &[PageId]) -> Option<Box<dyn Model>> {
    let (name, options) = policy.split_once(':').unwrap_or((policy, ""));
    let options = Options(options);
    Some(match name {
        "fifo" => Box::new(fifo::Fifo::new(frames)),
        "lru" => Box::new(lru::Lru::new(frames)),
        "clock" => Box::new(clock::Clock::new(frames)),
        "sieve" => Box::new(sieve::Sieve::new(frames)),
        "s3-fifo" => Box::new(s3_fifo::S3Fifo::new(frames)),
        "two-list" => Box::new(two_list::TwoList::new(frames)),
        "two-queue" => Box::new(two_queue::TwoQueue::new(frames)),
        "arc" => Box::new(arc::Arc::new(frames)),
        "lirs" => Box::new(lirs::Lirs::new(frames)),
        "larc" => Box::new(larc::Larc::new(frames)),
        "random" => Box::new(random::Random::new(frames, &options)),
        "lru-k" => Box::new(lru_k::LruK::new(frames, &options)),
        "tinylfu" => Box::new(tinylfu::TinyLfu::new(frames, &options)),
        "clock-pro" => Box::new(clock_pro::ClockPro::new(frames)),
        "opt" => Box::new(opt::Opt::new(frames, trace)),
        _ => return None,
    })
}

/// The given options of a policy: `OPTION=VALUE,...`.
struct Options<'a>(&'a str);

impl Options<'_> {
    /// The value of option `name`, or `default`.
    fn number(&self, name: &str, default: u64) -> u64 {
        let mut set = self.0.split(',').filter_map(|option| option.split_once('='));
        let found = set.find(|(key, _)| *key == name);
        found.map_or(default, |(_, value)| value.parse().expect("tests set numbers"))
    }
}

/// Pages from oldest (front) to newest (back).
#[derive(Default)]
struct Order(VecDeque<PageId>);

impl Order {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn contains(&self, page: PageId) -> bool {
        self.0.contains(&page)
    }

    fn push(&mut self, page: PageId) {
        self.0.push_back(page);
    }

    fn pop(&mut self) -> Option<PageId> {
        self.0.pop_front()
    }

    fn oldest(&self) -> Option<PageId> {
        self.0.front().copied()
    }

    /// Removes `page` from any position; false if it is not in the list.
    fn take(&mut self, page: PageId) -> bool {
        let place = self.0.iter().position(|&other| other == page);
        place.is_some_and(|place| self.0.remove(place).is_some())
    }

    /// Makes `page` the newest; false if it is not in the list.
    fn refresh(&mut self, page: PageId) -> bool {
        let found = self.take(page);
        if found {
            self.push(page);
        }
        found
    }
}
