//! The next events of pages by class and age, learned from a sample.

use super::ages::{BINS, Clock, EPOCHS, LEAST_AGES, bin};
use super::class::{CLASSES, Class};
use super::page::Page;
use types::PageId;

/// One page in this many feeds the frequencies.
const SAMPLING: usize = 4;

/// A number for each class.
pub(super) type ByClass = [f64; CLASSES];

/// How pages leave the age bins, by bin and class. Fractions, because old observations fade.
#[derive(Clone, Debug)]
pub(super) struct Frequencies {
    /// Pages that reached the bin.
    pub entered: [ByClass; BINS],
    /// Pages read within it.
    pub read: [ByClass; BINS],
    /// Pages written again within it.
    pub written: [ByClass; BINS],
    /// Pages whose process ended within it.
    pub dropped: [ByClass; BINS],
}

impl Frequencies {
    const NONE: Frequencies = Frequencies {
        entered: [[0.0; CLASSES]; BINS],
        read: [[0.0; CLASSES]; BINS],
        written: [[0.0; CLASSES]; BINS],
        dropped: [[0.0; CLASSES]; BINS],
    };
}

/// Frequencies from a sample of the pages.
///
/// Invariant: a sampled page is counted in `entered` of its class for every bin up to that of its age.
#[derive(Clone, Debug)]
pub(super) struct AgeHistory {
    /// Share of the frequencies that remains after an epoch.
    remaining: f64,
    /// Sampled pages that wait for their next event, by the epoch of their last event and their class.
    waiting: Vec<[u32; CLASSES]>,
    frequencies: Box<Frequencies>,
}

impl AgeHistory {
    /// An empty history whose frequencies keep a share of `remaining` after an epoch.
    pub fn new(remaining: f64) -> AgeHistory {
        AgeHistory {
            remaining,
            waiting: vec![[0; CLASSES]; EPOCHS as usize],
            frequencies: Box::new(Frequencies::NONE),
        }
    }

    /// The frequencies so far.
    pub fn frequencies(&self) -> &Frequencies {
        &self.frequencies
    }

    /// Records a write of `page`, which gives it a new class.
    #[inline(always)]
    pub fn written(&mut self, id: PageId, page: Page, clock: &Clock) -> Page {
        let next = page.class.after_write();
        self.changed(id, page, next, clock, |frequencies| &mut frequencies.written)
    }

    /// Records a read of `page`, which gives it a new class.
    #[inline(always)]
    pub fn read(&mut self, id: PageId, page: Page, clock: &Clock) -> Page {
        let next = page.class.after_read();
        self.changed(id, page, next, clock, |frequencies| &mut frequencies.read)
    }

    /// Records that `page` ceases to exist.
    pub fn dropped(&mut self, id: PageId, page: Page, clock: &Clock) {
        if is_sampled(id) {
            self.count(page, clock, |frequencies| &mut frequencies.dropped);
        }
    }

    /// Begins an epoch: counts each waiting page in the bin that it reaches, so that long waits
    /// weigh before they end.
    pub fn begin_epoch(&mut self, clock: &Clock) {
        for (age, entered) in LEAST_AGES.iter().zip(&mut self.frequencies.entered).skip(1) {
            let reached = clock.epoch().wrapping_sub(*age) % EPOCHS;
            for (entered, waiting) in entered.iter_mut().zip(&self.waiting[reached as usize]) {
                *entered += f64::from(*waiting);
            }
        }
        self.waiting[(clock.epoch() % EPOCHS) as usize] = [0; CLASSES];
    }

    /// Reduces the weight of old observations.
    pub fn fade(&mut self) {
        let Frequencies { entered, read, written, dropped } = &mut *self.frequencies;
        for by_bin in [entered, read, written, dropped] {
            by_bin.as_flattened_mut().iter_mut().for_each(|count| *count *= self.remaining);
        }
    }

    /// Restarts the page's age in its `next` class; a sampled page counts as having left its last class.
    #[inline(always)]
    fn changed(
        &mut self,
        id: PageId,
        page: Page,
        next: Class,
        clock: &Clock,
        field: impl Fn(&mut Frequencies) -> &mut [ByClass; BINS],
    ) -> Page {
        if is_sampled(id) {
            self.count(page, clock, field);
            self.waiting[(clock.epoch() % EPOCHS) as usize][next.index()] += 1;
            self.frequencies.entered[0][next.index()] += 1.0;
        }
        Page { class: next, last_event: clock.now(), ..page }
    }

    /// Counts the event that ends the wait of a sampled page.
    fn count(
        &mut self,
        page: Page,
        clock: &Clock,
        field: impl Fn(&mut Frequencies) -> &mut [ByClass; BINS],
    ) {
        if page.class == Class::UNKNOWN {
            return;
        }
        let age = clock.age(page.last_event);
        field(&mut self.frequencies)[bin(age)][page.class.index()] += 1.0;
        if age < EPOCHS {
            let epoch = clock.epoch().wrapping_sub(age) % EPOCHS;
            self.waiting[epoch as usize][page.class.index()] -= 1;
        }
    }
}

/// Whether a page feeds the frequencies: one page of each group of neighbours, drawn from the
/// group's number, so that neither a stride nor a run of pages escapes or fills the sample.
#[inline(always)]
fn is_sampled(page: PageId) -> bool {
    let group = page.index() / SAMPLING;
    let drawn = mix(group as u64) % SAMPLING as u64;
    page.index() % SAMPLING == drawn as usize
}

/// Mixes the bits of a number (splitmix64's finaliser).
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
            assert_eq!(pages.filter(|page| is_sampled(*page)).count(), 1);
        }
    }

    #[test]
    fn a_sampled_page_is_counted_once_in_every_bin_it_reaches() {
        const AGE: u32 = 100;
        let id = (0..SAMPLING as u32).map(PageId).find(|page| is_sampled(*page));
        let id = id.expect("one page of a group is sampled");
        let (mut clock, mut history) = (Clock::new(0), AgeHistory::new(1.0));
        let mut page = Page::UNKNOWN;
        page = history.written(id, page, &clock);
        let written = page.class;
        let mut pass = |history: &mut AgeHistory, epochs: u32| {
            for _ in 0..epochs * clock.epoch_events() {
                if clock.tick() {
                    history.begin_epoch(&clock);
                }
            }
            clock
        };
        let clock = pass(&mut history, AGE);
        page = history.read(id, page, &clock);
        assert_eq!(page.class, written.after_read());
        let clock = pass(&mut history, AGE);
        for (class, last) in [(written, 1.0), (page.class, 0.0)] {
            for at in 0..BINS {
                let entered = history.frequencies().entered[at][class.index()];
                assert_eq!(entered, f64::from(u8::from(at <= bin(AGE))), "bin {at}");
                let read = history.frequencies().read[at][class.index()];
                assert_eq!(read, if at == bin(AGE) { last } else { 0.0 }, "bin {at}");
            }
        }
        history.dropped(id, page, &clock);
        assert_eq!(history.frequencies().dropped[bin(AGE)][page.class.index()], 1.0);
    }
}
