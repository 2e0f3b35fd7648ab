//! Memory references of a program over every page size at once: TLB misses and page faults.
//!
//! One pass over a filtered trace gives the exact LRU stack distances (Mattson et al., IBM Systems
//! Journal 1970) of thirteen page sizes, and from them the misses of every TLB and the faults of
//! every memory. The filter hides only references to its own blocks, whose pages are among the
//! `FILTER_BLOCKS` used last at every page size, and blocks leave it in the order of their last
//! use: a page is below the filter from the moment its last block leaves. So everything is exact
//! from `FILTER_BLOCKS` entries or frames up, and below that a lower bound. One page size is
//! Kaplan's reduction of traces (SIGMETRICS 1999); all sizes from one trace is the step beyond.

mod curve;
#[cfg(test)]
mod differential;
mod faults;
mod limited;
mod lru_generations;
mod mappings;
#[cfg(test)]
mod naive_faults;
mod pages;
mod policies;
mod questions;
mod read_ahead;
mod stack;
mod tlb;
mod trees;

pub use curve::Curve;
pub use faults::{Enabled, MinorFaults};
pub use limited::{Limit, LimitedFaults, limited_faults};
pub use policies::PolicyFaults;
pub use questions::{Answers, Questions, SizeAnswer, run};
pub use read_ahead::{ReadAhead, ReadAheadCounts};
pub use tlb::{TlbGeometry, TlbMisses};

use crate::Error;
use pages::Pages;
use types::{BLOCK_BYTES, ReferenceKind, ReferenceStep};

/// Number of page sizes: each is twice the one before, from one block up.
pub const PAGE_SIZES: usize = trees::LEVELS;

/// The page sizes in bytes, smallest first.
pub fn page_sizes() -> impl Iterator<Item = u64> {
    (0..PAGE_SIZES).map(|level| BLOCK_BYTES << level)
}

/// A count for each [`ReferenceKind`], in the order of its number.
pub type ByKind = [u64; ReferenceKind::ALL.len()];

/// TLBs to count beside the curves.
#[derive(Clone, Debug, Default)]
pub struct Tlbs {
    /// First TLBs.
    pub first: Vec<TlbGeometry>,
    /// TLBs behind the first of `first`.
    pub second: Vec<TlbGeometry>,
}

/// Stack distances of a filtered trace at every page size up to a largest one.
///
/// Memory: per distinct page of each size a few words, and a tree of 64 pages per 32 KiB and per
/// 2 MiB that the program used.
pub struct Curves {
    pages: Pages,
}

impl Curves {
    /// Curves of every page size up to `page_bytes_max`, and these TLBs beside them.
    ///
    /// # Errors
    /// A size that is not one of [`page_sizes`], or a second TLB without a first.
    pub fn new(page_bytes_max: u64, tlbs: &Tlbs) -> Result<Curves, Error> {
        if tlbs.first.is_empty() && !tlbs.second.is_empty() {
            return Err(Error::usage("a second TLB needs a first"));
        }
        let pages = Pages::new(level(page_bytes_max)? + 1, tlbs);
        Ok(Curves { pages })
    }

    /// Counts the next steps of the trace.
    ///
    /// # Errors
    /// Steps that no filter makes: a block enters that it holds, or leaves that it does not.
    pub fn push(&mut self, steps: &[ReferenceStep]) -> Result<(), Error> {
        self.pages.push(steps)
    }

    /// The curve of one page size.
    ///
    /// # Errors
    /// A size that is not one of [`page_sizes`], or larger than the largest asked for.
    pub fn curve(&self, page_bytes: u64) -> Result<Curve, Error> {
        self.pages.curve(level(page_bytes)?).ok_or_else(|| too_large(page_bytes))
    }

    /// Misses of each first TLB.
    ///
    /// # Errors
    /// As for `curve`.
    pub fn first_tlb_misses(&self, page_bytes: u64) -> Result<Vec<TlbMisses>, Error> {
        self.pages.first_tlb_misses(level(page_bytes)?).ok_or_else(|| too_large(page_bytes))
    }

    /// Misses of the first of the first TLBs and of each second TLB. Only close if the misses of that first
    /// TLB are a lower bound, because a second TLB does not see the others.
    ///
    /// # Errors
    /// As for `curve`.
    pub fn second_tlb_misses(&self, page_bytes: u64) -> Result<Vec<ByKind>, Error> {
        self.pages.second_tlb_misses(level(page_bytes)?).ok_or_else(|| too_large(page_bytes))
    }
}

/// Index of a page size in [`page_sizes`].
fn level(page_bytes: u64) -> Result<usize, Error> {
    page_sizes().position(|size| size == page_bytes).ok_or_else(|| {
        let (smallest, largest) = (BLOCK_BYTES, BLOCK_BYTES << (PAGE_SIZES - 1));
        Error::usage(format!(
            "no page size of {page_bytes} bytes; there are the powers of two from {smallest} to \
             {largest}"
        ))
    })
}

fn too_large(page_bytes: u64) -> Error {
    Error::usage(format!("pages of {page_bytes} bytes were not asked for when reading"))
}
