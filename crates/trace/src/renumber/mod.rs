//! Maps ids of a recording (u64) to dense page numbers (u32), in order of first appearance.
//!
//! Every simulator indexes arrays by page, so this runs once per access of every foreign trace and
//! decides how fast they are read. `table` is the hash table, in safe code. `probe` is its hot loop: with
//! prefetch and unchecked indexing on x86-64, and in safe code elsewhere and as the oracle of the tests.

mod extents;
mod probe;
mod slots;
mod table;

#[cfg(test)]
mod tests;

use std::fmt;

pub use extents::KeyExtent;
use extents::Part;
use table::Table;

/// The table would exceed its limit of bytes; the caller must continue with raw ids.
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
    /// Positions of a batch whose id was not at its home slot; kept to save an allocation.
    unsettled: Vec<u32>,
    /// The parts of a block of extents; kept to save an allocation.
    parts: Vec<Part>,
}

impl Renumber {
    /// A numbering whose table stays within `bytes`: 22 to 40 bytes per id,
    /// 9.4 M ids in 200 MiB. The smallest table is always allowed.
    pub fn with_limit(bytes: usize) -> Renumber {
        Renumber { table: Table::with_limit(bytes), unsettled: Vec::new(), parts: Vec::new() }
    }

    /// A numbering bounded only by the range of a page number (2^31 ids).
    pub fn unlimited() -> Renumber {
        Renumber::with_limit(usize::MAX)
    }

    /// Appends the number of each of `keys` to `out`. Batches of several thousand keys are fastest,
    /// because the work on a key overlaps with the prefetch for later keys.
    ///
    /// # Errors
    /// `Full` if a new id does not fit; `out` is then unchanged, and ids seen up to that point keep their
    /// numbers.
    pub fn number_batch(&mut self, keys: &[u64], out: &mut Vec<u32>) -> Result<(), Full> {
        let start = out.len();
        out.reserve(keys.len());
        // Blocks bound the scratch memory, and keep it, the keys and the numbers in the second-level
        // cache between the two passes.
        for block in keys.chunks(probe::BLOCK_KEYS) {
            if self.number_block(block, out).is_err() {
                out.truncate(start);
                return Err(Full);
            }
        }
        Ok(())
    }

    /// Sets a new limit on the bytes of the table, which may be below its size.
    ///
    /// # Errors
    /// `Full` if the table is larger than the limit: the caller should then drop it.
    pub fn set_limit(&mut self, bytes: usize) -> Result<(), Full> {
        self.table.set_limit(bytes)
    }

    /// Bytes of memory that the table takes.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Number of distinct ids seen, which is the next number to be given.
    pub fn len(&self) -> usize {
        self.table.ids().len()
    }

    /// Whether no id was seen so far.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ids by number: `ids()[number]` is the id with this number.
    pub fn ids(&self) -> &[u64] {
        self.table.ids()
    }

    /// Numbers first the ids at their home slot, which are nearly all and need no branch; then the
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
