//! Ids that count up, numbered eight at a time.
//!
//! A group of eight ids has its home in one line of the cache (see `table::home`), so a request of
//! many pages asks once per line: whether all its pages are known there, or all are new there.
//! What is neither goes the exact way, id by id, and so does an id alone.

use super::table::{GROUP, hash, home};
use super::{Full, Renumber};
use types::prefetch;

/// Ids that count up from `first`, in the order in which they are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first id.
    pub first: u64,
    /// How many there are; `first + count` must fit.
    pub count: u32,
}

/// The ids of an extent that share a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Hash of the group's first id.
    pub(super) hash: u64,
    pub(super) first: u64,
    pub(super) count: usize,
}

/// Parts between asking for their memory and using it: they and their lines stay in the cache.
const BLOCK_PARTS: usize = 512;

impl Renumber {
    /// Appends the number of every id of `extents` to `out`, as [`Renumber::number_batch`] would.
    ///
    /// # Errors
    /// As `number_batch`.
    pub fn number_extents(
        &mut self,
        extents: impl Iterator<Item = Extent>,
        out: &mut Vec<u32>,
    ) -> Result<(), Full> {
        let start = out.len();
        let result = self.number_parts(extents, out);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    fn number_parts(
        &mut self,
        extents: impl Iterator<Item = Extent>,
        out: &mut Vec<u32>,
    ) -> Result<(), Full> {
        for Extent { first, count } in extents {
            let (mut id, mut rest) = (first, count as usize);
            while rest > 0 {
                let lane = (id % GROUP as u64) as usize;
                let count = rest.min(GROUP - lane);
                let hash = hash(id - lane as u64);
                prefetch(self.table.slots(), home(hash, self.table.bits()));
                self.parts.push(Part { hash, first: id, count });
                if self.parts.len() == BLOCK_PARTS {
                    self.settle_parts(out)?;
                }
                id = id.wrapping_add(count as u64);
                rest -= count;
            }
        }
        self.settle_parts(out)
    }

    fn settle_parts(&mut self, out: &mut Vec<u32>) -> Result<(), Full> {
        let mut parts = std::mem::take(&mut self.parts);
        let mut numbers = [0; GROUP];
        let result = parts.iter().try_for_each(|part| {
            if part.count > 1
                && (self.table.find_part(part, &mut numbers)
                    || self.table.insert_part(part, &mut numbers))
            {
                out.extend_from_slice(&numbers[..part.count]);
                return Ok(());
            }
            (0..part.count as u64).try_for_each(|place| {
                out.push(self.table.find_or_insert(part.first + place)?);
                Ok(())
            })
        });
        parts.clear();
        self.parts = parts;
        result
    }
}
