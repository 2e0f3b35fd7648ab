//! Pages in the order in which they came to be what they are, and how old they are.
//!
//! Ages are counted in events and told apart in bins: one per event at first, then four per doubling.
//! Whatever happens to a page makes it young again, so an order by birth is a log that grows at one
//! end, and the pages of a bin are a stretch of it. Ageing moves the ends of stretches, not pages.

use types::PageId;

/// Age bins per doubling of the age, as a power of two.
const BINS_PER_OCTAVE_LOG2: u32 = 2;
/// Ages up to 2^24 events have bins of their own; older pages share the last.
pub(super) const BINS: usize = (25 << BINS_PER_OCTAVE_LOG2) as usize;
/// Entries a log always has room for, whatever the number of its pages.
const ENTRIES_MIN: usize = 64;

/// Number of an event, from 1, modulo 2^32: an age beyond 2^32 events is taken for a small one.
pub(super) type EventNumber = u32;

/// The bin of an age.
#[inline]
pub(super) fn bin(age: u32) -> usize {
    if age < 2 << BINS_PER_OCTAVE_LOG2 {
        return age as usize;
    }
    let octave = age.ilog2() - BINS_PER_OCTAVE_LOG2;
    (((octave << BINS_PER_OCTAVE_LOG2) + (age >> octave)) as usize).min(BINS - 1)
}

/// How many events wide a bin is.
pub(super) const fn bin_width(bin: usize) -> u32 {
    let bins_per_octave = 1 << BINS_PER_OCTAVE_LOG2;
    if bin < 2 * bins_per_octave { 1 } else { 1 << (bin / bins_per_octave - 1) }
}

/// A page and when it came to be what it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub page: PageId,
    pub born: EventNumber,
}

/// The least age of every bin.
const LEAST_AGES: [u32; BINS] = {
    let mut ages = [0; BINS];
    let mut bin = 1;
    while bin < BINS {
        ages[bin] = ages[bin - 1] + bin_width(bin - 1);
        bin += 1;
    }
    ages
};

/// Entries in the order of their births. An entry is stale once its page is something else; whoever
/// owns the log can tell.
///
/// Invariant: entries `ends[bin + 1]..ends[bin]` were in `bin` when the log was last aged, or came
/// since, for `bin` 0; `ends[0]` is the number of entries, and `ends[BINS]` is 0.
#[derive(Clone, Debug)]
pub(super) struct AgeLog {
    entries: Vec<Entry>,
    ends: [u32; BINS + 1],
    /// Entries of each bin before this one are known to be stale.
    oldest: [u32; BINS],
    /// Bins with an entry that is not known to be stale, as a set of bits.
    occupied: u128,
    /// No entry reaches the bin before this event.
    due: [EventNumber; BINS],
    aged: EventNumber,
}

impl Default for AgeLog {
    fn default() -> AgeLog {
        AgeLog {
            entries: Vec::with_capacity(ENTRIES_MIN),
            ends: [0; BINS + 1],
            oldest: [0; BINS],
            occupied: 0,
            due: [0; BINS],
            aged: 0,
        }
    }
}

impl AgeLog {
    /// `entry`, born after all others, joins them.
    #[inline]
    pub fn push(&mut self, entry: Entry, is_live: impl Fn(Entry) -> bool) {
        if self.entries.len() == self.entries.capacity() {
            self.drop_stale(is_live);
        }
        self.entries.push(entry);
        self.ends[0] = self.entries.len() as u32;
        self.occupied |= 1;
    }

    /// Every page is as old as it is `now`. Calls `enters` with each entry that leaves its bin and the
    /// one it is in from now on.
    pub fn age(&mut self, now: EventNumber, mut enters: impl FnMut(Entry, usize)) {
        self.aged = now;
        if self.entries.is_empty() {
            return;
        }
        // From the oldest bin on, so that an entry passes several bins in one step.
        let mut has_moved = false;
        for bin in (1..BINS).rev() {
            let has_older_moved = std::mem::take(&mut has_moved);
            if now.wrapping_sub(self.due[bin]) < 1 << 31 {
                let mut end = self.ends[bin].max(self.ends[bin + 1]);
                // Whatever comes later is younger than the event that is now.
                let mut next_born = now;
                while let Some(entry) = self.entries.get(end as usize) {
                    if now.wrapping_sub(entry.born) < LEAST_AGES[bin] {
                        next_born = entry.born;
                        break;
                    }
                    enters(*entry, bin);
                    end += 1;
                }
                self.due[bin] = next_born.wrapping_add(LEAST_AGES[bin]);
                has_moved = end > self.ends[bin];
                self.ends[bin] = end;
            }
            if has_moved || has_older_moved {
                self.stretch_changed(bin);
            }
        }
        self.stretch_changed(0);
    }

    /// An end of the stretch of `bin` moved.
    #[inline]
    fn stretch_changed(&mut self, bin: usize) {
        self.oldest[bin] = self.oldest[bin].max(self.ends[bin + 1]);
        let is_occupied = self.oldest[bin] < self.ends[bin];
        self.occupied = self.occupied & !(1 << bin) | u128::from(is_occupied) << bin;
    }

    /// The bins that may have a live entry, as a set of bits.
    #[inline]
    pub fn occupied(&self) -> u128 {
        self.occupied
    }

    /// The page in `bin` that was born first.
    #[inline]
    pub fn oldest(&mut self, bin: usize, is_live: impl Fn(Entry) -> bool) -> Option<PageId> {
        while self.oldest[bin] < self.ends[bin] {
            let entry = self.entries[self.oldest[bin] as usize];
            if is_live(entry) {
                return Some(entry.page);
            }
            self.oldest[bin] += 1;
        }
        self.occupied &= !(1 << bin);
        None
    }

    /// Makes room: a multiple of what the live entries take, so that each costs a constant.
    #[cold]
    #[inline(never)]
    fn drop_stale(&mut self, is_live: impl Fn(Entry) -> bool) {
        let AgeLog { mut entries, aged, .. } = std::mem::take(self);
        entries.retain(|entry| is_live(*entry));
        entries.reserve_exact(3 * entries.len() + ENTRIES_MIN);
        // Entries born after the last ageing are in the youngest bin whatever their age.
        let known = entries.partition_point(|entry| aged.wrapping_sub(entry.born) < 1 << 31);
        let younger = entries.split_off(known);
        self.ends[0] = known as u32;
        self.entries = entries;
        self.occupied = u128::from(known > 0);
        self.due = [aged; BINS];
        self.age(aged, |_, _| ());
        self.occupied |= u128::from(!younger.is_empty());
        self.entries.extend(younger);
        self.ends[0] = self.entries.len() as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn bins_follow_each_other_and_are_as_wide_as_they_say() {
        let (mut previous, mut width) = (0, 0);
        for age in 0..1u32 << 20 {
            let current = bin(age);
            assert!(current == previous || current == previous + 1, "age {age}");
            if current == previous {
                width += 1;
            } else {
                assert_eq!(bin_width(previous), width, "bin {previous}");
                (previous, width) = (current, 1);
            }
        }
        assert_eq!(bin(u32::MAX), BINS - 1);
    }

    #[test]
    fn the_oldest_of_every_bin_is_what_a_search_finds() {
        const PAGES: usize = 50;
        let mut log = AgeLog::default();
        let births = RefCell::new([0u32; PAGES]);
        let is_live = |entry: Entry| births.borrow()[entry.page.index()] == entry.born;
        let (mut aged, mut state) = (0, 7u64);
        for now in 1..60_000u32 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let page = PageId(((state >> 33) % PAGES as u64).pow(2) as u32 / PAGES as u32);
            if state >> 60 == 0 {
                births.borrow_mut()[page.index()] = 0;
            } else {
                births.borrow_mut()[page.index()] = now;
                log.push(Entry { page, born: now }, is_live);
            }
            if now % 97 == 0 {
                aged = now;
                log.age(now, |_, _| ());
            }
            if now % 13 == 0 {
                let occupied = log.occupied();
                for wanted in 0..BINS {
                    let births = births.borrow();
                    let pages = (0..PAGES).filter(|page| {
                        births[*page] > 0 && bin(aged.saturating_sub(births[*page])) == wanted
                    });
                    let expected = pages.min_by_key(|page| births[*page]);
                    let found =
                        log.oldest(wanted, |entry| births[entry.page.index()] == entry.born);
                    assert_eq!(found.map(PageId::index), expected, "event {now}, bin {wanted}");
                    assert!(expected.is_none() || occupied >> wanted & 1 == 1);
                }
            }
        }
        assert!(log.entries.len() <= 4 * PAGES + ENTRIES_MIN);
    }

    #[test]
    fn an_entry_that_leaves_its_bin_is_named_once() {
        let mut log = AgeLog::default();
        log.push(Entry { page: PageId(0), born: 1 }, |_| true);
        let mut reached = Vec::new();
        for now in [1, 2, 40, 41, 5000] {
            log.age(now, |_, bin| reached.push((now, bin)));
        }
        assert_eq!(reached, [(2, bin(1)), (40, bin(39)), (41, bin(40)), (5000, bin(4999))]);
    }
}
