//! What happens to pages next, by their class and age, learned from a sample of them.

use types::PageId;

/// Age bins per doubling of the age, as a power of two.
const BINS_PER_OCTAVE_LOG2: u32 = 2;
/// Ages up to 2^24 events have bins of their own; older pages share the last.
pub(super) const BINS: usize = (25 << BINS_PER_OCTAVE_LOG2) as usize;
/// Reads since the last page-out that are told apart: 0, 1, 2, 3 and more.
pub(super) const READS: usize = 4;
/// Pasts that are told apart; see `Past`.
pub(super) const PASTS: usize = 5;
/// Classes: reads since the last page-out, and what went before it.
pub(super) const CLASSES: usize = READS * PASTS;
/// One page in this many feeds the frequencies.
const SAMPLING: u64 = 8;
/// What remains of the frequencies at each revaluation.
const FADING: f64 = 0.98;

const NONE: u32 = u32::MAX;

/// What went before a page's last page-out, as a small number: the page was never written while it
/// was known, or this was its first page-out, or it came back 0, 1, 2 and more times between the
/// last two page-outs.
mod past {
    pub(super) const NEVER_WRITTEN: u8 = 0;
    pub(super) const FIRST: u8 = 1;
    pub(super) const RETURNED_0: u8 = 2;
    pub(super) const RETURNED_MOST: u8 = 2;
}

/// One page's recent history.
#[derive(Clone, Copy, Debug)]
struct Memory {
    /// Number of the page's last event.
    born: u32,
    /// Place in the list of sampled pages; `NONE` outside.
    sample: u32,
    is_known: bool,
    reads: u8,
    past: u8,
    /// First age bin the page has not been counted in yet.
    next_bin: u8,
}

const UNKNOWN: Memory = Memory {
    born: 0,
    sample: NONE,
    is_known: false,
    reads: 0,
    past: past::NEVER_WRITTEN,
    next_bin: 0,
};

/// How pages of one class left one age bin. Fractions, because old observations fade.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frequencies {
    /// Pages that reached the bin.
    pub entered: f64,
    /// Pages read within it.
    pub read: f64,
    /// Pages written again within it.
    pub written: f64,
    /// Pages whose process ended within it.
    pub dropped: f64,
}

/// Class and age of a page: where its values are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub class: usize,
    pub bin: usize,
}

/// Memories of all pages, frequencies from a sample of them.
#[derive(Clone, Debug)]
pub(super) struct History {
    now: u64,
    memories: Vec<Memory>,
    sampled: Vec<PageId>,
    frequencies: Vec<Frequencies>,
    /// Changes of `entered` from one bin to the next since the last settlement; one extra bin per
    /// class, so that a span of bins costs two additions.
    entered_changes: Vec<f64>,
}

impl Default for History {
    fn default() -> History {
        History {
            now: 0,
            memories: Vec::new(),
            sampled: Vec::new(),
            frequencies: vec![Frequencies::default(); CLASSES * BINS],
            entered_changes: vec![0.0; CLASSES * (BINS + 1)],
        }
    }
}

impl History {
    pub fn grow(&mut self, pages: usize) {
        if self.memories.len() < pages {
            self.memories.resize(pages, UNKNOWN);
        }
    }

    /// Number of the current event.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The next event begins; returns its number.
    pub fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// Class and age of `page`.
    #[inline]
    pub fn state(&self, page: PageId) -> State {
        let memory = &self.memories[page.index()];
        State { class: class(memory), bin: bin(self.age(memory)) }
    }

    /// The frequencies of `class`, by age bin.
    pub fn frequencies(&self, class: usize) -> &[Frequencies] {
        &self.frequencies[class * BINS..(class + 1) * BINS]
    }

    /// `page` is written somewhere.
    pub fn written(&mut self, page: PageId) {
        let is_new = self.meet(page);
        if !is_new {
            self.count(page, |frequencies| frequencies.written += 1.0);
        }
        let memory = &mut self.memories[page.index()];
        memory.past = if is_new || memory.past == past::NEVER_WRITTEN {
            past::FIRST
        } else {
            past::RETURNED_0 + memory.reads.min(past::RETURNED_MOST)
        };
        memory.reads = 0;
        self.restart(page);
    }

    /// `page` is read from somewhere.
    pub fn read(&mut self, page: PageId) {
        if !self.meet(page) {
            self.count(page, |frequencies| frequencies.read += 1.0);
        }
        let memory = &mut self.memories[page.index()];
        memory.reads = (memory.reads + 1).min(READS as u8 - 1);
        self.restart(page);
    }

    /// `page` ceases to exist.
    pub fn dropped(&mut self, page: PageId) {
        self.count(page, |frequencies| frequencies.dropped += 1.0);
        let memory = std::mem::replace(&mut self.memories[page.index()], UNKNOWN);
        if memory.sample != NONE {
            self.sampled.swap_remove(memory.sample as usize);
            if let Some(moved) = self.sampled.get(memory.sample as usize) {
                self.memories[moved.index()].sample = memory.sample;
            }
        }
    }

    /// Counts the sampled pages that are still waiting for their next event, so that long waits weigh
    /// before they end.
    pub fn settle(&mut self) {
        for index in 0..self.sampled.len() {
            let page = self.sampled[index];
            let bin = bin(self.age(&self.memories[page.index()]));
            self.count_entered(page, bin);
        }
        for class in 0..CLASSES {
            let changes = &mut self.entered_changes[class * (BINS + 1)..(class + 1) * (BINS + 1)];
            let mut entered = 0.0;
            for (bin, change) in changes[..BINS].iter().enumerate() {
                entered += change;
                self.frequencies[class * BINS + bin].entered += entered;
            }
            changes.fill(0.0);
        }
    }

    /// Lets old observations weigh less.
    pub fn fade(&mut self) {
        for frequencies in &mut self.frequencies {
            frequencies.entered *= FADING;
            frequencies.read *= FADING;
            frequencies.written *= FADING;
            frequencies.dropped *= FADING;
        }
    }

    /// Makes `page` known; true if it was not.
    fn meet(&mut self, page: PageId) -> bool {
        let memory = &mut self.memories[page.index()];
        let is_new = !memory.is_known;
        if is_new {
            memory.is_known = true;
            if hash(page).is_multiple_of(SAMPLING) {
                memory.sample = self.sampled.len() as u32;
                self.sampled.push(page);
            }
        }
        is_new
    }

    fn age(&self, memory: &Memory) -> u32 {
        // Wraps after 2^32 events without one of the page: an age of zero once in a lifetime.
        (self.now as u32).wrapping_sub(memory.born)
    }

    /// The page changed its class: its age starts again.
    fn restart(&mut self, page: PageId) {
        let memory = &mut self.memories[page.index()];
        memory.born = self.now as u32;
        memory.next_bin = 0;
    }

    /// Counts what happens to `page` now, if it is in the sample.
    fn count(&mut self, page: PageId, add: impl Fn(&mut Frequencies)) {
        let memory = &self.memories[page.index()];
        if memory.sample == NONE {
            return;
        }
        let (class, bin) = (class(memory), bin(self.age(memory)));
        self.count_entered(page, bin);
        add(&mut self.frequencies[class * BINS + bin]);
    }

    /// Counts `page` in every bin up to `bin` that it was not counted in yet.
    fn count_entered(&mut self, page: PageId, bin: usize) {
        let memory = &mut self.memories[page.index()];
        let first = memory.next_bin as usize;
        if bin >= first {
            let changes = class(memory) * (BINS + 1);
            self.entered_changes[changes + first] += 1.0;
            self.entered_changes[changes + bin + 1] -= 1.0;
            memory.next_bin = bin as u8 + 1;
        }
    }
}

#[inline]
fn class(memory: &Memory) -> usize {
    memory.reads as usize * PASTS + memory.past as usize
}

/// Whether pages of `class` came back between their last two page-outs.
pub(super) fn has_returned(class: usize) -> bool {
    class % PASTS > past::RETURNED_0 as usize
}

/// Whether pages of `class` are in memory: their last event was a read.
pub(super) fn is_in_memory(class: usize) -> bool {
    class >= PASTS
}

/// Whether pages of `class` were never written while they were known.
pub(super) fn is_never_written(class: usize) -> bool {
    class % PASTS == past::NEVER_WRITTEN as usize
}

/// The class a page of `class` has after a read.
pub(super) fn class_after_read(class: usize) -> usize {
    (class / PASTS + 1).min(READS - 1) * PASTS + class % PASTS
}

/// The bin of an age: one per event at first, then four per doubling.
#[inline]
fn bin(age: u32) -> usize {
    if age < 2 << BINS_PER_OCTAVE_LOG2 {
        return age as usize;
    }
    let octave = age.ilog2() - BINS_PER_OCTAVE_LOG2;
    (((octave << BINS_PER_OCTAVE_LOG2) + (age >> octave)) as usize).min(BINS - 1)
}

/// How many events wide a bin is.
pub(super) fn bin_width(bin: usize) -> f64 {
    let bins_per_octave = 1 << BINS_PER_OCTAVE_LOG2;
    if bin < 2 * bins_per_octave { 1.0 } else { (1u64 << (bin / bins_per_octave - 1)) as f64 }
}

/// Spreads page numbers, so that the sample does not follow their order (splitmix64's finaliser).
fn hash(page: PageId) -> u64 {
    let mut mixed = u64::from(page.0).wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_follow_each_other_and_are_as_wide_as_they_say() {
        let (mut previous, mut width) = (0, 0u64);
        for age in 0..1u32 << 20 {
            let current = bin(age);
            assert!(current == previous || current == previous + 1, "age {age}");
            if current == previous {
                width += 1;
            } else {
                assert_eq!(bin_width(previous), width as f64, "bin {previous}");
                (previous, width) = (current, 1);
            }
        }
        assert_eq!(bin(u32::MAX), BINS - 1);
    }

    #[test]
    fn a_sampled_page_is_counted_once_in_every_bin_it_reaches() {
        let page = (0..100).map(PageId).find(|page| hash(*page).is_multiple_of(SAMPLING));
        let page = page.expect("one page in eight is sampled");
        let mut history = History::default();
        history.grow(page.index() + 1);
        history.tick();
        history.written(page);
        for _ in 0..100 {
            history.tick();
            history.settle();
        }
        let class = history.state(page).class;
        history.read(page);
        history.settle();
        let reached = bin(100);
        for (bin, frequencies) in history.frequencies(class).iter().enumerate() {
            assert_eq!(frequencies.entered, f64::from(u8::from(bin <= reached)), "bin {bin}");
            assert_eq!(frequencies.read, f64::from(u8::from(bin == reached)), "bin {bin}");
        }
        assert_eq!(history.state(page), State { class: class_after_read(class), bin: 0 });
    }

    #[test]
    fn the_past_remembers_how_often_the_page_came_back() {
        let mut history = History::default();
        history.grow(1);
        let page = PageId(0);
        history.read(page);
        assert!(is_never_written(history.state(page).class));
        history.written(page);
        assert_eq!(history.state(page).class, past::FIRST as usize);
        for reads in 0..4 {
            for _ in 0..reads {
                history.read(page);
            }
            history.written(page);
            let class = history.state(page).class;
            assert_eq!(class, past::RETURNED_0 as usize + reads.min(2));
            assert_eq!(has_returned(class), reads > 0);
        }
        history.dropped(page);
        assert_eq!(history.state(page).class, past::NEVER_WRITTEN as usize);
    }
}
