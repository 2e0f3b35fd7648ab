//! Numbers consecutive ids eight at a time.
//!
//! A group of eight ids has its home in a single cache line (see `table::home`), so a request of many
//! pages looks once per line whether all its pages there are known, or all are new. All other cases,
//! and single ids, take the exact path, id by id.

use super::table::{GROUP, hash, home};
use super::{Full, Renumber};
use types::prefetch;

/// Consecutive ids from `first`, in the order of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyExtent {
    /// The first id.
    pub first: u64,
    /// Number of ids; `first + count` must not overflow.
    pub count: u32,
}

/// The ids of an extent that share a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Hash of the first id of the group.
    pub(super) hash: u64,
    pub(super) first: u64,
    pub(super) count: usize,
}

/// Parts between the prefetch and the use of their memory: they and their lines stay in the cache.
const BLOCK_PARTS: usize = 512;

impl Renumber {
    /// Appends the number of every id of `extents` to `out`, like [`Renumber::number_batch`].
    ///
    /// # Errors
    /// Errors of [`Self::number_batch`].
    pub fn number_extents(
        &mut self,
        extents: impl Iterator<Item = KeyExtent>,
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
        extents: impl Iterator<Item = KeyExtent>,
        out: &mut Vec<u32>,
    ) -> Result<(), Full> {
        for KeyExtent { first, count } in extents {
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
