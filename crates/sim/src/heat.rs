//! Accesses by time and address, for each of the busiest address spaces, in bounded memory.

use std::cmp::Reverse;
use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::grid::{Rows, TIME_BITS, TimeBins};

/// Largest number of ranges of an address space.
const RANGES_MAX: usize = 64;

/// Address spaces whose accesses are counted, each in 33 KiB.
const SPACES_MAX: usize = 256;

/// Address spaces of the result: as many as a reader compares.
const SPACES_SHOWN: usize = 8;

/// Accesses by time and address; of references of a program those that missed the filter.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AccessHeat {
    /// Length of a bin of time, the first of which begins with the first event; null without a clock.
    pub bin_s: Option<f64>,
    /// Without a clock, the accesses of a bin, of all address spaces together, or all references; null with a clock.
    pub bin_accesses: Option<u64>,
    /// The busiest address spaces in descending order, at most eight: processes, with their own pages only, or
    /// devices.
    pub spaces: Vec<HeatSpace>,
    /// Accesses to other address spaces, and in a swap trace to pages of files.
    pub left_out: u64,
}

/// Accesses to one address space.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HeatSpace {
    /// Name and number of the process, or name of the device or of the captured program.
    pub name: String,
    /// Number of accesses.
    pub accesses: u64,
    /// Length of each range in bytes: a power of two.
    pub range_bytes: u64,
    /// Ranges of addresses with an access, in order; at most 64.
    pub ranges: Vec<AccessRange>,
}

/// A range of addresses and the accesses to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AccessRange {
    /// Address of the first byte, in hexadecimal.
    pub first: String,
    /// Address of the last byte, in hexadecimal.
    pub last: String,
    /// Accesses in each bin of time.
    pub accesses: Vec<u64>,
}

/// Counts accesses by address space, range and bin of time.
pub(crate) struct HeatCounts {
    is_timed: bool,
    bins: TimeBins,
    left_out: u64,
    places: HashMap<u32, usize>,
    spaces: Vec<Space>,
    /// Place of the latest address space: accesses come in runs.
    last: usize,
}

impl HeatCounts {
    /// Counts nothing yet. Times are nanoseconds, or without a clock numbers of accesses.
    pub(crate) fn new(is_timed: bool) -> HeatCounts {
        HeatCounts {
            is_timed,
            bins: TimeBins::new(if is_timed { TIME_BITS } else { 0 }),
            left_out: 0,
            places: HashMap::new(),
            spaces: Vec::new(),
            last: 0,
        }
    }

    /// Adds an access at a time since the first event. Times may decrease.
    pub(crate) fn add(&mut self, space: u32, address: u64, time: u64) {
        let spaces = &mut self.spaces;
        let bin =
            self.bins.bin(time, || spaces.iter_mut().for_each(|space| space.rows.double_time()));
        if self.spaces.get(self.last).is_none_or(|last| last.number != space) {
            let count = self.spaces.len();
            let known = self.places.get(&space).copied();
            match known {
                Some(place) => self.last = place,
                None if count == SPACES_MAX => return self.leave_out(),
                None => {
                    self.places.insert(space, count);
                    self.spaces.push(Space::new(space));
                    self.last = count;
                }
            }
        }
        self.spaces[self.last].add(address, bin);
    }

    /// Counts an access that no map shows.
    pub(crate) fn leave_out(&mut self) {
        self.left_out += 1;
    }

    /// The busiest address spaces; addresses were of pages of `page_bytes`.
    pub(crate) fn finish(mut self, page_bytes: u64, name: impl Fn(u32) -> String) -> AccessHeat {
        self.spaces.sort_by_key(|space| (Reverse(space.accesses), space.number));
        let beyond = self.spaces.iter().skip(SPACES_SHOWN).map(|space| space.accesses);
        let left_out = self.left_out + beyond.sum::<u64>();
        self.spaces.truncate(SPACES_SHOWN);
        let bins = self.bins.used();
        let described = |space: &Space| HeatSpace {
            name: name(space.number),
            accesses: space.accesses,
            range_bytes: u64::try_from(space.range_bytes(page_bytes)).unwrap_or(u64::MAX),
            ranges: space.ranges(bins, page_bytes),
        };
        AccessHeat {
            bin_s: self.is_timed.then(|| self.bins.length() as f64 / 1e9),
            bin_accesses: (!self.is_timed).then(|| self.bins.length()),
            spaces: self.spaces.iter().map(described).collect(),
            left_out,
        }
    }
}

/// The accesses of one address space, in rows of pages.
struct Space {
    number: u32,
    accesses: u64,
    rows: Rows<u64>,
}

impl Space {
    fn new(number: u32) -> Space {
        Space { number, accesses: 0, rows: Rows::new(0) }
    }

    fn add(&mut self, address: u64, bin: usize) {
        self.rows.add(0, address, bin, 1);
        self.accesses += 1;
        while self.rows.len() > RANGES_MAX {
            self.rows.double_addresses();
        }
    }

    fn range_bytes(&self, page_bytes: u64) -> u128 {
        u128::from(page_bytes) << self.rows.bits()
    }

    fn ranges(&self, bins: usize, page_bytes: u64) -> Vec<AccessRange> {
        let bytes = self.range_bytes(page_bytes);
        let ranges = self.rows.iter().map(|(_, row, counts)| {
            let first = u128::from(row) * bytes;
            AccessRange {
                first: format!("{first:x}"),
                last: format!("{:x}", first + bytes - 1),
                accesses: counts[..bins].to_vec(),
            }
        });
        ranges.collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::grid::BINS_MAX;

    fn heat(is_timed: bool, accesses: &[(u32, u64, u64)]) -> AccessHeat {
        let mut counts = HeatCounts::new(is_timed);
        accesses.iter().for_each(|&(space, address, time)| counts.add(space, address, time));
        counts.finish(4096, |space| space.to_string())
    }

    #[test]
    fn accesses_fall_into_their_bins_and_gaps_take_no_range() {
        let found = heat(true, &[(1, 16, 0), (1, 16, 5 << TIME_BITS), (2, 1 << 40, 3), (1, 18, 1)]);
        let brief: Vec<_> = found
            .spaces
            .iter()
            .map(|space| {
                let ranges = space.ranges.iter();
                let ranges = ranges.map(|range| (&range.first[..], &range.last[..]));
                (&space.name[..], space.accesses, ranges.collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(
            brief,
            [
                ("1", 3, vec![("10000", "10fff"), ("12000", "12fff")]),
                ("2", 1, vec![("10000000000000", "10000000000fff")]),
            ]
        );
        assert_eq!(found.spaces[0].ranges[0].accesses, [1, 0, 0, 0, 0, 1]);
        assert_eq!((found.spaces[0].range_bytes, found.bin_accesses), (4096, None));
        assert_eq!(found.bin_s, Some(0.001048576));
    }

    #[test]
    fn without_a_clock_accesses_are_the_time() {
        let accesses: Vec<_> = (0..200).map(|number| (0, number % 2, number)).collect();
        let found = heat(false, &accesses);
        assert_eq!((found.bin_s, found.bin_accesses), (None, Some(4)));
        assert_eq!(found.spaces[0].ranges[1].accesses, [2; 50]);
    }

    #[test]
    fn very_many_address_spaces_are_left_out() {
        let accesses: Vec<_> =
            (0..1000).flat_map(|space| [(space, u64::MAX, u64::MAX); 2]).collect();
        let found = heat(true, &accesses);
        assert_eq!(found.spaces.len(), SPACES_SHOWN);
        assert_eq!(found.left_out, 2000 - 2 * SPACES_SHOWN as u64);
    }

    proptest! {
        #[test]
        fn every_access_is_in_the_bin_of_its_time_and_the_range_of_its_address(
            accesses in proptest::collection::vec(
                (0u32..3, prop_oneof![0u64..300, any::<u64>()], 0u64..4_000_000_000), 1..300),
        ) {
            let found = heat(true, &accesses);
            let bin_ns = (found.bin_s.unwrap() * 1e9) as u64;
            prop_assert_eq!(found.left_out, 0);
            for space in &found.spaces {
                let number: u32 = space.name.parse().unwrap();
                prop_assert!(space.ranges.len() <= RANGES_MAX);
                let hexadecimal = |text: &str| u128::from_str_radix(text, 16).unwrap();
                for range in &space.ranges {
                    let bytes = hexadecimal(&range.first)..=hexadecimal(&range.last);
                    prop_assert!(range.accesses.len() <= BINS_MAX);
                    for (bin, &count) in range.accesses.iter().enumerate() {
                        let expected = accesses.iter().filter(|&&(of, address, time)| {
                            of == number
                                && bytes.contains(&(u128::from(address) * 4096))
                                && (time / bin_ns) as usize == bin
                        });
                        prop_assert_eq!(count, expected.count() as u64);
                    }
                }
                let sum: u64 = space.ranges.iter().flat_map(|range| &range.accesses).sum();
                prop_assert_eq!(sum, space.accesses);
            }
            let all: u64 = found.spaces.iter().map(|space| space.accesses).sum();
            prop_assert_eq!(all, accesses.len() as u64);
        }
    }
}
