//! Parquet's DELTA_BINARY_PACKED encoding, written for columns that hardly change.
//!
//! Blocks of 128 differences in four miniblocks, each packed in as many bits as its largest
//! difference to the block's least needs, so a constant costs no bits. The library's own encoder
//! takes 5 ns a value whatever the values are, seven columns of it half of an import's time; its
//! decoder is the oracle of the tests in `chunk`.

const BLOCK_VALUES: usize = 128;
const MINIBLOCKS: usize = 4;
const MINIBLOCK_VALUES: usize = BLOCK_VALUES / MINIBLOCKS;

/// A number that Parquet stores: arithmetic wraps in its own width, as the format demands.
pub(super) trait Number: Copy + Ord {
    const ZERO: Self;
    fn minus(self, other: Self) -> Self;
    /// Its bits, zero-extended.
    fn bits(self) -> u64;
    fn widened(self) -> i64;
}

impl Number for i32 {
    const ZERO: i32 = 0;
    #[inline(always)]
    fn minus(self, other: i32) -> i32 {
        self.wrapping_sub(other)
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        u64::from(self as u32)
    }
    fn widened(self) -> i64 {
        i64::from(self)
    }
}

impl Number for i64 {
    const ZERO: i64 = 0;
    #[inline(always)]
    fn minus(self, other: i64) -> i64 {
        self.wrapping_sub(other)
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self as u64
    }
    fn widened(self) -> i64 {
        self
    }
}

/// Appends the encoding of `values` to `out`.
pub(super) fn encode<T: Number>(values: &[T], out: &mut Vec<u8>) {
    put_varint(BLOCK_VALUES as u64, out);
    put_varint(MINIBLOCKS as u64, out);
    put_varint(values.len() as u64, out);
    put_zigzag(values.first().map_or(0, |first| first.widened()), out);
    let mut start = 1;
    while start < values.len() {
        let end = (start + BLOCK_VALUES).min(values.len());
        // One value before the block: what its first difference is to.
        encode_block(&values[start - 1..end], out);
        start = end;
    }
}

fn encode_block<T: Number>(values: &[T], out: &mut Vec<u8>) {
    let count = values.len() - 1;
    let mut differences = [T::ZERO; BLOCK_VALUES];
    for (difference, (&value, &before)) in
        differences.iter_mut().zip(values[1..].iter().zip(values))
    {
        *difference = value.minus(before);
    }
    // Constants and steady counts are most of what is written, and this finds them in a fraction
    // of the time that the rest takes.
    let varying = differences[..count]
        .iter()
        .fold(0, |varying, difference| varying | (difference.bits() ^ differences[0].bits()));
    if varying == 0 {
        put_zigzag(differences[0].widened(), out);
        return out.extend([0; MINIBLOCKS]);
    }
    let differences = &mut differences[..];
    let least = differences[..count].iter().copied().fold(differences[0], T::min);
    // What pads the last block does not widen it.
    differences[count..].fill(least);
    put_zigzag(least.widened(), out);
    let mut packed = [0; BLOCK_VALUES];
    for (packed, &difference) in packed.iter_mut().zip(&*differences) {
        *packed = difference.minus(least).bits();
    }
    let (miniblocks, _) = packed.as_chunks::<MINIBLOCK_VALUES>();
    let widths = miniblocks.iter().map(|miniblock| {
        let all = miniblock.iter().fold(0, |all, value| all | value);
        u64::BITS - all.leading_zeros()
    });
    out.extend(widths.clone().map(|width| width as u8));
    // Miniblocks that hold no value are left out.
    let used = count.div_ceil(MINIBLOCK_VALUES);
    for (miniblock, width) in miniblocks.iter().zip(widths).take(used) {
        pack(miniblock, width, out);
    }
}

/// Appends the lowest `width` bits of each value, least significant first.
fn pack(values: &[u64; MINIBLOCK_VALUES], width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    // 32 values of `width` bits fill `width` words of 32 bits, so nothing is left at the end.
    let mut word = Word { held: 0, bits: 0 };
    let narrow = width.min(u32::BITS);
    for &value in values {
        word.put(value & u64::from(u32::MAX), narrow, out);
        if width > u32::BITS {
            word.put(value >> u32::BITS, width - u32::BITS, out);
        }
    }
}

/// Fewer than 32 bits that wait for more.
struct Word {
    held: u64,
    bits: u32,
}

impl Word {
    /// Takes `width` bits, at most 32, and passes full words on.
    #[inline(always)]
    fn put(&mut self, value: u64, width: u32, out: &mut Vec<u8>) {
        self.held |= value << self.bits;
        self.bits += width;
        if self.bits >= u32::BITS {
            out.extend_from_slice(&(self.held as u32).to_le_bytes());
            self.held >>= u32::BITS;
            self.bits -= u32::BITS;
        }
    }
}

fn put_zigzag(value: i64, out: &mut Vec<u8>) {
    put_varint(((value << 1) ^ (value >> 63)) as u64, out);
}

fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
