//! Ids of a recording (u64) to dense page numbers (u32), in order of first appearance.
//!
//! Every simulator indexes arrays by page, so this runs once per access of every foreign trace and
//! decides how fast they are read. `table` holds the hash table in safe code; `probe` is its hot
//! loop: with prefetch and unchecked indexing on x86-64, and in safe code elsewhere and as the
//! oracle of the tests.

mod extents;
mod probe;
mod slots;
mod table;

#[cfg(test)]
mod tests;

use std::fmt;

pub use extents::Extent;
use extents::Part;
use table::Table;

/// The table would exceed its limit of bytes; the caller has to go on with raw ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many distinct ids for the memory allowed to renumber them")
    }
}

impl std::error::Error for Full {}

/// Numbers ids densely from 0 in order of first appearance.
#[derive(Debug)]
pub struct Renumber {
    table: Table,
    /// Positions of a batch whose id was not at its home slot; kept to spare an allocation.
    unsettled: Vec<u32>,
    /// The parts of a block of extents; kept as well.
    parts: Vec<Part>,
}

impl Renumber {
    /// A numbering whose table stays within `bytes`: 22 to 40 bytes per id,
    /// 9.4 M ids in 200 MiB. At least the smallest table is always allowed.
    pub fn with_limit(bytes: usize) -> Renumber {
        Renumber { table: Table::with_limit(bytes), unsettled: Vec::new(), parts: Vec::new() }
    }

    /// A numbering bounded only by the range of a page number (2^31 ids).
    pub fn unlimited() -> Renumber {
        Renumber::with_limit(usize::MAX)
    }

    /// Appends the number of each of `keys` to `out`. Batches of some thousand keys are fastest:
    /// the work on one key overlaps with fetching the table's memory for later ones.
    ///
    /// # Errors
    /// `Full` when a new id does not fit; `out` is then as it was, and ids seen up to that point
    /// keep their numbers.
    pub fn number_batch(&mut self, keys: &[u64], out: &mut Vec<u32>) -> Result<(), Full> {
        let start = out.len();
        out.reserve(keys.len());
        // Bounds the scratch memory and keeps it, the keys and the numbers in the second-level
        // cache between the two passes.
        for block in keys.chunks(probe::BLOCK_KEYS) {
            if self.number_block(block, out).is_err() {
                out.truncate(start);
                return Err(Full);
            }
        }
        Ok(())
    }

    /// Sets another limit on the bytes of the table, which may be less than it has.
    ///
    /// # Errors
    /// `Full` where it has more: then it should go.
    pub fn set_limit(&mut self, bytes: usize) -> Result<(), Full> {
        self.table.set_limit(bytes)
    }

    /// Memory that the table takes.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Number of distinct ids seen, which is the next number to be given.
    pub fn len(&self) -> usize {
        self.table.ids().len()
    }

    /// Whether no id was seen yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ids by their number: `ids()[number]` is the id that got it.
    pub fn ids(&self) -> &[u64] {
        self.table.ids()
    }

    /// First the ids at their home slot, which is nearly all of them and needs no branch; then the
    /// rest in order, so that new ids are numbered in order of appearance.
    fn number_block(&mut self, keys: &[u64], out: &mut Vec<u32>) -> Result<(), Full> {
        let start = out.len();
        probe::settle(&self.table, keys, out, &mut self.unsettled);
        for &position in &self.unsettled {
            let position = position as usize;
            out[start + position] = self.table.find_or_insert(keys[position])?;
        }
        Ok(())
    }
}
