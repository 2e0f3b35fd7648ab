//! Numbers of few bits, side by side.

/// Values per miniblock.
pub(super) const MINIBLOCK_VALUES: usize = 32;

/// Appends the lowest `width` bits of each value, least significant first. Higher bits must be zero.
///
/// Neighbours are joined while two fit into a word, in loops that the compiler vectorizes; only the
/// remaining values are shifted one by one.
///
/// # Panics
/// If `width` exceeds 64.
pub(super) fn pack(values: &[u64; MINIBLOCK_VALUES], width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let mut joined = *values;
    let (mut count, mut bits) = (MINIBLOCK_VALUES, width);
    while bits <= u32::BITS && count > 1 {
        let (pairs, _) = joined.as_chunks::<2>();
        let mut next = [0; MINIBLOCK_VALUES];
        for (place, [low, high]) in next.iter_mut().zip(pairs) {
            *place = low | high << bits;
        }
        joined = next;
        count /= 2;
        bits *= 2;
    }
    let mut sink = Sink { held: 0, bits: 0 };
    out.reserve(MINIBLOCK_VALUES * size_of::<u64>());
    for &value in &joined[..count] {
        sink.put(value, bits, out);
    }
    // 32 values of `width` bits end at a multiple of 32 bits, but not always of 64 bits.
    if sink.bits > 0 {
        out.extend_from_slice(&(sink.held as u32).to_le_bytes());
    }
}

/// Fewer than 64 pending bits.
struct Sink {
    held: u64,
    bits: u32,
}

impl Sink {
    #[inline(always)]
    fn put(&mut self, value: u64, width: u32, out: &mut Vec<u8>) {
        self.held |= value << self.bits;
        let bits = self.bits + width;
        if bits >= u64::BITS {
            out.extend_from_slice(&self.held.to_le_bytes());
            // If the value fits exactly, no bits are left, and `checked_shr` by 64 is `None`.
            self.held = value.checked_shr(u64::BITS - self.bits).unwrap_or(0);
            self.bits = bits - u64::BITS;
        } else {
            self.bits = bits;
        }
    }
}
