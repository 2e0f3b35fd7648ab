//! Inputs for tests, computed only with integers, so that every machine and language makes the same
//! inputs.

use types::PageId;

/// The splitmix64 generator (Steele, Lea and Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct SplitMix(pub u64);

impl SplitMix {
    /// The next 64 random bits.
    pub fn next_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, slightly favouring small ones as every remainder does.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_bits() % bound
    }
}

/// The raw ids of `synth1`, whose miss counts are golden: 200,000 requests, 25,901 distinct ids;
/// 60 % to a skewed hot set, 30 % to a uniform warm set, 10 % to a cyclic scan.
pub fn synth1() -> Vec<u32> {
    let mut random = SplitMix(1);
    let mut scanned = 0;
    (0..200_000)
        .map(|_| {
            let id = match random.below(10) {
                0..6 => random.below(2000) * random.below(2000) / 2000,
                6..9 => 10_000 + random.below(20_000),
                _ => {
                    scanned += 1;
                    100_000 + (scanned - 1) % 5000
                }
            };
            id as u32
        })
        .collect()
}

/// The ids numbered densely in order of first appearance, and the number of distinct ids.
pub fn renumber(ids: &[u32]) -> (Vec<PageId>, u32) {
    let mut numbers = std::collections::HashMap::new();
    let pages = ids
        .iter()
        .map(|&id| {
            let next = numbers.len() as u32;
            PageId(*numbers.entry(id).or_insert(next))
        })
        .collect();
    (pages, numbers.len() as u32)
}
