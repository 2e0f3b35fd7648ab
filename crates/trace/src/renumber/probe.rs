//! The hot loop: finds the keys of a block at their home slots, with their numbers.

use super::table::Table;

/// Keys per pass of the loop: their numbers and positions stay in the cache until the pass over the rest.
pub(super) const BLOCK_KEYS: usize = 4096;

/// Distance of the prefetch in keys: 48 to 96 are equally fast, 24 is a tenth slower.
pub(super) const AHEAD: usize = 64;

#[cfg(target_arch = "x86_64")]
pub(super) use unchecked::settle;

#[cfg(not(target_arch = "x86_64"))]
pub(super) use checked::settle;

/// The loop in safe code: the fallback, and the oracle of `unchecked`.
#[cfg(any(test, not(target_arch = "x86_64")))]
pub(super) mod checked {
    use crate::renumber::table::{Table, hash, home};

    /// Appends one number per key to `out`, and puts the positions of those keys into `unsettled`
    /// that are not at their home slot; their numbers are arbitrary.
    pub(in crate::renumber) fn settle(
        table: &Table,
        keys: &[u64],
        out: &mut Vec<u32>,
        unsettled: &mut Vec<u32>,
    ) {
        let bits = table.bits();
        unsettled.clear();
        for (position, &key) in keys.iter().enumerate() {
            let hash = hash(key);
            let slot = table.slots()[home(hash, bits)];
            let number = (slot ^ (hash << bits)).wrapping_sub(1);
            out.push(number as u32);
            if number >= (1 << (bits - 1)) - 1 {
                unsettled.push(position as u32);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "unchecked stores double the speed")]
pub(super) mod unchecked {
    use types::prefetch;

    use super::{AHEAD, BLOCK_KEYS};
    use crate::renumber::table::{Table, hash, home};

    /// Appends one number per key to `out`, and puts the positions of those keys into `unsettled`
    /// that are not at their home slot; their numbers are arbitrary.
    ///
    /// # Panics
    /// When `keys` is longer than `BLOCK_KEYS`.
    pub(in crate::renumber) fn settle(
        table: &Table,
        keys: &[u64],
        out: &mut Vec<u32>,
        unsettled: &mut Vec<u32>,
    ) {
        assert!(keys.len() <= BLOCK_KEYS, "a block of keys has a bound");
        out.reserve(keys.len());
        unsettled.clear();
        unsettled.reserve(BLOCK_KEYS);
        let bits = table.bits();
        let slots = table.slots();
        assert!(slots.len() == 1 << bits && bits > 3, "every home of `bits` bits is an index");
        let numbers = 1u64 << (bits - 1);
        let base = slots.as_ptr();
        for &key in keys.iter().take(AHEAD) {
            prefetch(slots, home(hash(key), bits));
        }
        let out_base = out.spare_capacity_mut().as_mut_ptr();
        let unsettled_base = unsettled.spare_capacity_mut().as_mut_ptr();
        let mut unsettled_length = 0usize;
        let mut settle_key = |position: usize, key: u64| {
            let hash = hash(key);
            // SAFETY: `home` is a 64-bit hash shifted right by 64 - bits, so it is below 1 << bits.
            // Changing its lowest three bits keeps it below 1 << bits, which is a multiple of eight
            // and the length of `slots`, both asserted above. `position` counts the keys from 0, and
            // `out` has room for all of them. `unsettled_length` never exceeds `position`, which is
            // below BLOCK_KEYS, the room reserved in `unsettled`.
            unsafe {
                let slot = *base.add(home(hash, bits));
                let number = (slot ^ (hash << bits)).wrapping_sub(1);
                (*out_base.add(position)).write(number as u32);
                (*unsettled_base.add(unsettled_length)).write(position as u32);
                // Count without a branch: a miss is too rare and too random to predict.
                unsettled_length =
                    unsettled_length.wrapping_add(usize::from(number >= numbers - 1));
            }
        };
        let ahead = keys.get(AHEAD..).unwrap_or_default();
        for (position, (&key, &later)) in keys.iter().zip(ahead).enumerate() {
            prefetch(slots, home(hash(later), bits));
            settle_key(position, key);
        }
        for (position, &key) in keys.iter().enumerate().skip(ahead.len()) {
            settle_key(position, key);
        }
        // SAFETY: the two loops wrote a number for each key after the old length of `out`, and the first
        // `unsettled_length` positions of `unsettled`; both fit into the reserved room.
        unsafe {
            out.set_len(out.len() + keys.len());
            unsettled.set_len(unsettled_length);
        }
    }
}

/// Keeps the two variants' signatures equal.
const _: fn(&Table, &[u64], &mut Vec<u32>, &mut Vec<u32>) = settle;
