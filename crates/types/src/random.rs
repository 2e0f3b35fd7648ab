//! Seeded random numbers, with a stream for each named component, so that an additional draw in one
//! component shifts no other stream (splitmix64: Steele, Lea, Flood, OOPSLA 2014).

/// The constant of splitmix64: the golden ratio of 2^64, made odd.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash of `key`: one step of splitmix64 from this state. No two keys have the same hash.
#[inline(always)]
pub fn mixed(key: u64) -> u64 {
    let mut bits = key.wrapping_add(STEP);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// One component's stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream {
    state: u64,
}

impl Stream {
    /// The stream of the component `name` for `seed`.
    pub fn named(seed: u64, name: &str) -> Stream {
        // FNV-1a over the name, then one mixing step with the seed: streams start far apart.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let mut stream = Stream { state: hash ^ seed.wrapping_mul(STEP) };
        stream.next_bits();
        stream
    }

    /// The next 64 random bits.
    pub fn next_bits(&mut self) -> u64 {
        let bits = mixed(self.state);
        self.state = self.state.wrapping_add(STEP);
        bits
    }

    /// A number below `bound`, which must not be 0. The bias of the multiplication is below
    /// `bound` / 2^64.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next_bits()) * u128::from(bound)) >> 64) as u32
    }

    /// True with a probability of `percent` / 100.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// Shuffles `items` (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u32 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_depends_only_on_its_seed_and_name() {
        let draw = |seed, name| Stream::named(seed, name).next_bits();
        assert_eq!(draw(1, "touch"), draw(1, "touch"));
        assert_ne!(draw(1, "touch"), draw(2, "touch"));
        assert_ne!(draw(1, "touch"), draw(1, "write"));
    }

    #[test]
    fn a_chance_of_a_third_is_true_in_about_a_third_of_draws() {
        let mut stream = Stream::named(42, "test");
        let hits = (0..100_000).filter(|_| stream.chance(34)).count();
        assert!((33_000..35_000).contains(&hits), "{hits}");
    }
}
