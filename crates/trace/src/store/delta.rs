//! An encoder of Parquet's DELTA_BINARY_PACKED, optimized for columns that rarely change.
//!
//! A block has 128 differences in four miniblocks. Each miniblock is packed with the bits that its
//! largest difference to the minimum of the block needs, so a constant costs no bits. The library's
//! own encoder takes 5 ns per value, which for seven columns is half of an import's time. This encoder
//! takes whole runs of values, each in a few nanoseconds at any length. The library's decoder is the
//! oracle of the tests in `chunk`.

mod number;
mod pack;

use pack::{MINIBLOCK_VALUES, pack};

use crate::varint::{put_varint, zigzag};

pub(super) use number::Number;

const BLOCK_VALUES: usize = 128;
const MINIBLOCKS: usize = BLOCK_VALUES / MINIBLOCK_VALUES;

/// Encodes a page of a column as its values arrive.
///
/// Invariant: `block[filled..]` is zero, and so is all of it unless `is_varying`.
pub(super) struct Encoder<T> {
    /// Difference between successive values of a run: 0 or 1.
    step: T,
    first: T,
    last: T,
    count: usize,
    /// The differences of the current block, each less `step`.
    block: [T; BLOCK_VALUES],
    filled: usize,
    is_varying: bool,
    /// The encoded blocks.
    body: Vec<u8>,
}

impl<T: Number> Encoder<T> {
    /// An encoder of runs whose values are equal or, with `counts_up`, count up by one.
    pub(super) fn new(counts_up: bool) -> Encoder<T> {
        let zero = T::default();
        Encoder {
            step: T::small(counts_up),
            first: zero,
            last: zero,
            count: 0,
            block: [zero; BLOCK_VALUES],
            filled: 0,
            is_varying: false,
            body: Vec::new(),
        }
    }

    /// Number of values in the page so far.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The value `offset` places into a run that begins with `value`.
    pub(super) fn value_in_run(&self, value: T, offset: usize) -> T {
        value.advanced(self.step, offset)
    }

    /// The last value, if a run of it may simply continue: not at the start of a page, and not if values
    /// count up.
    pub(super) fn constant(&self) -> Option<T> {
        (self.count > 0 && self.step == T::default()).then_some(self.last)
    }

    /// Appends a run of `count` values, at least one, that begins with `value`.
    pub(super) fn push_run(&mut self, value: T, count: usize) {
        self.extend([(value, count)].into_iter(), count);
    }

    /// Appends runs, each given by its first value and its length of at least one; `rows` is their total
    /// number of values.
    #[inline]
    pub(super) fn extend(&mut self, mut runs: impl Iterator<Item = (T, usize)>, rows: usize) {
        if self.count == 0
            && let Some((value, count)) = runs.next()
        {
            self.first = value;
            self.fill(count - 1);
            self.last = value.advanced(self.step, count - 1);
        }
        // Keep these in registers until the block ends.
        let (mut last, mut filled, mut varying) = (self.last, self.filled, 0);
        for (value, count) in runs {
            let difference = value.minus(last).minus(self.step);
            self.block[filled] = difference;
            varying |= difference.bits();
            last = value.advanced(self.step, count - 1);
            filled += count;
            if filled >= BLOCK_VALUES {
                self.is_varying |= varying != 0;
                self.filled = filled - count;
                self.fill(count);
                (filled, varying) = (self.filled, 0);
            }
        }
        (self.last, self.filled) = (last, filled);
        self.is_varying |= varying != 0;
        self.count += rows;
    }

    /// Advances by `count` values whose differences are already in the block or zero.
    fn fill(&mut self, mut count: usize) {
        while self.filled + count >= BLOCK_VALUES {
            count -= BLOCK_VALUES - self.filled;
            self.filled = BLOCK_VALUES;
            self.end_block();
        }
        self.filled += count;
    }

    /// Ends the page: appends it to `out` and begins the next.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        if self.filled > 0 {
            self.end_block();
        }
        put_varint(BLOCK_VALUES as u64, out);
        put_varint(MINIBLOCKS as u64, out);
        put_varint(self.count as u64, out);
        put_varint(zigzag(self.first.widened() as u64), out);
        out.append(&mut self.body);
        self.count = 0;
    }

    fn end_block(&mut self) {
        let filled = std::mem::take(&mut self.filled);
        if !self.is_varying {
            put_varint(zigzag(self.step.widened() as u64), &mut self.body);
            return self.body.extend([0; MINIBLOCKS]);
        }
        let differences = &mut self.block;
        let least = differences[..filled].iter().copied().fold(differences[0], T::min);
        // Pad the last block with its minimum, which does not widen it.
        differences[filled..].fill(least);
        put_varint(zigzag(least.advanced(self.step, 1).widened() as u64), &mut self.body);
        let mut packed = [0; BLOCK_VALUES];
        for (packed, &difference) in packed.iter_mut().zip(&*differences) {
            *packed = difference.minus(least).bits();
        }
        let (miniblocks, _) = packed.as_chunks::<MINIBLOCK_VALUES>();
        let widths = miniblocks.iter().map(|miniblock| {
            let all = miniblock.iter().fold(0, |all, value| all | value);
            u64::BITS - all.leading_zeros()
        });
        self.body.extend(widths.clone().map(|width| width as u8));
        // Miniblocks without values are left out.
        let used = filled.div_ceil(MINIBLOCK_VALUES);
        for (miniblock, width) in miniblocks.iter().zip(widths).take(used) {
            pack(miniblock, width, &mut self.body);
        }
        differences.fill(T::default());
        self.is_varying = false;
    }
}
