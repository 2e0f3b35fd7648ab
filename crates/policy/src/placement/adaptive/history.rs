//! What happens to pages next, by their class and age, learned from a sample of them.

use super::ages::{AgeLog, BINS, Entry, EventNumber, bin};
use types::PageId;

/// Reads since the last page-out that are told apart: 0, 1, 2, 3 and more.
pub(super) const READS: usize = 4;
/// Pasts that are told apart; see `past`.
pub(super) const PASTS: usize = 5;
/// Classes: reads since the last page-out, and what went before it.
pub(super) const CLASSES: usize = READS * PASTS;
/// One page in this many feeds the frequencies.
const SAMPLING: usize = 4;
/// What remains of the frequencies at each revaluation.
const FADING: f64 = 0.98;
/// Birth of pages that nobody waits for.
const UNBORN: EventNumber = 0;

/// What went before a page's last page-out: the page was never written while it was known, or this was
/// its first page-out, or it came back 0, 1, 2 and more times between the last two page-outs.
mod past {
    pub(super) const NEVER_WRITTEN: u8 = 0;
    pub(super) const FIRST: u8 = 1;
    pub(super) const RETURNED_0: u8 = 2;
    pub(super) const RETURNED_MOST: u8 = 2;
}

/// What happened to a page lately, as a number below `CLASSES`: reads * PASTS + past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(u8);

impl Class {
    const UNKNOWN: Class = Class(u8::MAX);

    /// The class of this number.
    pub fn of(number: usize) -> Class {
        Class(number as u8)
    }

    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    fn reads(self) -> u8 {
        self.0 / PASTS as u8
    }

    fn past(self) -> u8 {
        self.0 % PASTS as u8
    }

    /// The class after a read.
    #[inline]
    pub fn after_read(self) -> Class {
        if self == Class::UNKNOWN {
            return Class(PASTS as u8 + past::NEVER_WRITTEN);
        }
        let is_last = usize::from(self.0) >= (READS - 1) * PASTS;
        if is_last { self } else { Class(self.0 + PASTS as u8) }
    }

    /// The class of pages in memory that were read once less, if there is one.
    pub fn before_read(self) -> Option<Class> {
        (self.reads() > 1).then(|| Class(self.0 - PASTS as u8))
    }

    /// The class after a page-out that writes.
    #[inline]
    pub fn after_write(self) -> Class {
        if self == Class::UNKNOWN || self.past() == past::NEVER_WRITTEN {
            return Class(past::FIRST);
        }
        Class(past::RETURNED_0 + self.reads().min(past::RETURNED_MOST))
    }

    /// Whether pages of the class came back between their last two page-outs.
    pub fn has_returned(self) -> bool {
        self.past() > past::RETURNED_0
    }

    /// Whether pages of the class are in memory: their last event was a read. Page-outs that write
    /// nothing pass unseen, so some of them have left it.
    pub fn is_in_memory(self) -> bool {
        self.reads() > 0
    }

    /// Whether pages of the class were never written while they were known.
    pub fn is_never_written(self) -> bool {
        self.past() == past::NEVER_WRITTEN
    }
}

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

/// Classes of all pages, frequencies from a sample of them.
#[derive(Clone, Debug)]
pub(super) struct History {
    now: EventNumber,
    /// When the logs were last aged.
    settled: EventNumber,
    classes: Vec<Class>,
    /// By number of the sampled page: its last event, `UNBORN` for a page that is not known.
    births: Vec<EventNumber>,
    /// Sampled pages by class.
    logs: Vec<AgeLog>,
    frequencies: Vec<Frequencies>,
}

impl Default for History {
    fn default() -> History {
        History {
            now: 0,
            settled: 0,
            classes: Vec::new(),
            births: Vec::new(),
            logs: vec![AgeLog::default(); CLASSES],
            frequencies: vec![Frequencies::default(); CLASSES * BINS],
        }
    }
}

impl History {
    pub fn grow(&mut self, pages: usize) {
        if self.classes.len() < pages {
            self.classes.resize(pages, Class::UNKNOWN);
            self.births.resize(pages.div_ceil(SAMPLING), UNBORN);
        }
    }

    /// Reads what is kept about pages that are about to be named.
    #[inline(always)]
    pub fn read_ahead(&self, pages: &[PageId]) {
        let read = pages.iter().fold(0, |read, page| read | self.classes[page.index()].0);
        std::hint::black_box(read);
    }

    /// Number of the current event.
    #[inline(always)]
    pub fn now(&self) -> EventNumber {
        self.now
    }

    /// The next event begins; returns its number.
    #[inline(always)]
    pub fn tick(&mut self) -> EventNumber {
        // 0 is no event's number.
        self.now = self.now.wrapping_add(1).max(1);
        self.now
    }

    /// The frequencies of `class`, by age bin.
    pub fn frequencies(&self, class: Class) -> &[Frequencies] {
        &self.frequencies[class.index() * BINS..(class.index() + 1) * BINS]
    }

    /// `page` is written somewhere. Returns its class from now on.
    #[inline]
    pub fn written(&mut self, page: PageId) -> Class {
        let next = self.classes[page.index()].after_write();
        self.change(page, next, |frequencies| &mut frequencies.written)
    }

    /// `page` is read from somewhere. Returns its class from now on.
    #[inline]
    pub fn read(&mut self, page: PageId) -> Class {
        let next = self.classes[page.index()].after_read();
        self.change(page, next, |frequencies| &mut frequencies.read)
    }

    /// `page` ceases to exist.
    pub fn dropped(&mut self, page: PageId) {
        if let Some(sampled) = sampled(page) {
            self.count(page, sampled, |frequencies| &mut frequencies.dropped);
            self.births[sampled] = UNBORN;
        }
        self.classes[page.index()] = Class::UNKNOWN;
    }

    /// Counts the sampled pages that are still waiting for their next event, so that long waits weigh
    /// before they end.
    pub fn settle(&mut self) {
        let settled = std::mem::replace(&mut self.settled, self.now);
        for (log, frequencies) in self.logs.iter_mut().zip(self.frequencies.chunks_mut(BINS)) {
            let (now, births) = (self.now, &self.births);
            log.age(now, |entry, bin| {
                if births[entry.page.index() / SAMPLING] == entry.born {
                    let counted = bin_then(entry.born, settled, now);
                    frequencies[counted + 1..bin + 1].iter_mut().for_each(|bin| bin.entered += 1.0);
                }
            });
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

    /// The page's age starts again, in its `next` class; a sampled page counts as having left the last.
    #[inline(always)]
    fn change(
        &mut self,
        page: PageId,
        next: Class,
        field: impl Fn(&mut Frequencies) -> &mut f64,
    ) -> Class {
        if let Some(sampled) = sampled(page) {
            self.count(page, sampled, field);
            self.births[sampled] = self.now;
            self.frequencies[next.index() * BINS].entered += 1.0;
            let births = &self.births;
            self.logs[next.index()].push(Entry { page, born: self.now }, |entry| {
                births[entry.page.index() / SAMPLING] == entry.born
            });
        }
        self.classes[page.index()] = next;
        next
    }

    /// Counts what ends the wait of a sampled page, and the bins it reached since the last settlement.
    fn count(
        &mut self,
        page: PageId,
        sampled: usize,
        field: impl Fn(&mut Frequencies) -> &mut f64,
    ) {
        let born = self.births[sampled];
        if born == UNBORN {
            return;
        }
        let class = self.classes[page.index()].index();
        let counted = bin_then(born, self.settled, self.now);
        let reached = bin(self.now.wrapping_sub(born));
        let frequencies = &mut self.frequencies[class * BINS..(class + 1) * BINS];
        for frequencies in &mut frequencies[counted + 1..reached + 1] {
            frequencies.entered += 1.0;
        }
        *field(&mut frequencies[reached]) += 1.0;
    }
}

/// The bin at event `then` of a page born at `born`: the youngest if that was later.
fn bin_then(born: EventNumber, then: EventNumber, now: EventNumber) -> usize {
    let is_older = now.wrapping_sub(born) > now.wrapping_sub(then);
    if is_older { bin(then.wrapping_sub(born)) } else { 0 }
}

/// The number of `page` among the sampled ones: one page of each group of neighbours, which one is
/// drawn from the group's number, so that neither a stride nor a run of pages escapes or fills the sample.
#[inline(always)]
fn sampled(page: PageId) -> Option<usize> {
    let group = page.index() / SAMPLING;
    let drawn = mix(group as u64) % SAMPLING as u64;
    (page.index() % SAMPLING == drawn as usize).then_some(group)
}

/// Spreads numbers (splitmix64's finaliser).
#[inline(always)]
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_page_of_every_group_is_sampled() {
        for group in 0..1000 {
            let pages = (group * SAMPLING..(group + 1) * SAMPLING).map(|page| PageId(page as u32));
            let numbers: Vec<usize> = pages.filter_map(sampled).collect();
            assert_eq!(numbers, [group]);
        }
    }

    #[test]
    fn a_sampled_page_is_counted_once_in_every_bin_it_reaches() {
        let page = (0..SAMPLING as u32).map(PageId).find(|page| sampled(*page).is_some());
        let page = page.expect("one page of a group is sampled");
        let mut history = History::default();
        history.grow(page.index() + 1);
        history.tick();
        let class = history.written(page);
        for _ in 0..100 {
            history.tick();
            if history.now() % 7 == 0 {
                history.settle();
            }
        }
        assert_eq!(history.read(page), class.after_read());
        history.settle();
        let reached = bin(100);
        for (bin, frequencies) in history.frequencies(class).iter().enumerate() {
            assert_eq!(frequencies.entered, f64::from(u8::from(bin <= reached)), "bin {bin}");
            assert_eq!(frequencies.read, f64::from(u8::from(bin == reached)), "bin {bin}");
        }
        assert_eq!(history.frequencies(class.after_read())[0].entered, 1.0);
    }

    #[test]
    fn the_past_remembers_how_often_the_page_came_back() {
        let mut history = History::default();
        history.grow(1);
        let page = PageId(0);
        assert!(history.read(page).is_never_written());
        assert_eq!(history.written(page), Class(past::FIRST));
        for reads in 0..4 {
            for read in 1..=reads {
                let class = history.read(page);
                assert_eq!(class.reads(), read);
                assert!(class.is_in_memory());
            }
            let class = history.written(page);
            assert_eq!(class, Class(past::RETURNED_0 + reads.min(2)));
            assert_eq!(class.has_returned(), reads > 0);
        }
        history.dropped(page);
        assert!(history.read(page).is_never_written());
    }
}
