//! The naive model of `adaptive`: a map with the history of every page, and a search through all
//! residents for a victim.
//!
//! The computation is that of docs/architectures.md, with tables of classes and bins and without logs of
//! ages. Sums and products have the same order as in `policy::placement::Adaptive`, so that both results
//! have the same bits; nothing else is shared.

use std::collections::{BTreeMap, BTreeSet};

const BINS: usize = 45;
/// Older pages share the last bin.
const AGE_MAX: u64 = 4096;
const PASTS: usize = 5;
const CLASSES: usize = 4 * PASTS;

/// Cost of an operation on a page, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Latencies {
    /// Reading a page from the slow tier.
    pub slow_read: f64,
    /// Writing a page to the slow tier.
    pub slow_write: f64,
    /// Reading a page from the fast tier.
    pub fast_read: f64,
    /// Writing a page to the fast tier, with its wear.
    pub fast_write: f64,
}

/// The history of a page.
struct Story {
    /// Reads since the last page-out, at most 3.
    reads: usize,
    /// 0 never written, 1 written once; 2, 3, 4: read 0, 1, more times between its last two page-outs.
    past: usize,
    last_event: u64,
}

impl Story {
    fn class(&self) -> usize {
        self.reads * PASTS + self.past
    }
}

#[derive(Clone, Copy, Default)]
struct Seen {
    entered: f64,
    read: f64,
    written: f64,
    dropped: f64,
}

#[derive(Clone, Copy, Default)]
struct Value {
    dirty: f64,
    clean: f64,
    given_up: f64,
}

struct Values {
    by_bin: [[Value; BINS]; CLASSES],
    free: [f64; CLASSES],
}

/// Counts of operations on both tiers.
#[derive(Clone, Copy, Default)]
struct Operations {
    slow_reads: u64,
    slow_writes: u64,
    fast_reads: u64,
    fast_writes: u64,
}

impl Operations {
    fn cost(&self, latencies: &Latencies) -> f64 {
        self.slow_reads as f64 * latencies.slow_read
            + self.slow_writes as f64 * latencies.slow_write
            + self.fast_reads as f64 * latencies.fast_read
            + self.fast_writes as f64 * latencies.fast_write
    }
}

/// The decisions of `adaptive`.
pub(super) struct Adaptive {
    capacity: usize,
    latencies: Latencies,
    drops: bool,
    /// Events per epoch.
    epoch_events: u64,
    now: u64,
    stories: BTreeMap<u32, Story>,
    /// Pages in the fast tier, and whether the slow tier has a copy too.
    residents: BTreeMap<u32, bool>,
    seen: [[Seen; BINS]; CLASSES],
    /// Groups of neighbouring ages: the smallest age, and the number of ages.
    groups: Vec<(u64, u64)>,
    keep: Values,
    enter: Values,
    price: f64,
    contested: u64,
    idle: u64,
    victim: Option<u32>,
    /// Own operations; pages that were dropped while in memory, each counted as written.
    own: Operations,
    owed: BTreeSet<u32>,
    /// Operations of the shadow of `priority`, and its residents.
    simplest: Operations,
    simplest_fast: BTreeSet<u32>,
    asked_return: f64,
}

impl Adaptive {
    pub fn new(capacity: usize, latencies: Latencies, drops: bool) -> Adaptive {
        let values =
            || Values { by_bin: [[Value::default(); BINS]; CLASSES], free: [0.0; CLASSES] };
        let epoch_events = (capacity as u64 / 16).clamp(512, 4096);
        let mut adaptive = Adaptive {
            capacity,
            latencies,
            drops,
            epoch_events,
            now: 0,
            stories: BTreeMap::new(),
            residents: BTreeMap::new(),
            seen: [[Seen::default(); BINS]; CLASSES],
            groups: vec![(0, 1)],
            keep: values(),
            enter: values(),
            price: 0.5 * latencies.slow_read * epoch_events as f64 / capacity.max(1) as f64,
            contested: 0,
            idle: 0,
            victim: None,
            own: Operations::default(),
            owed: BTreeSet::new(),
            simplest: Operations::default(),
            simplest_fast: BTreeSet::new(),
            asked_return: 0.0,
        };
        adaptive.revalue(true);
        adaptive
    }

    /// Writes a page; returns whether to the fast tier.
    pub fn written(&mut self, page: u32) -> bool {
        self.tick();
        self.count(page, |seen| &mut seen.written);
        let past = match self.stories.get(&page) {
            Some(story) if story.past > 0 => 2 + story.reads.min(2),
            _ => 1,
        };
        self.begin(page, 0, past);
        let saved = self.latencies.slow_write - self.latencies.fast_write;
        let is_fast = if self.residents.contains_key(&page) {
            self.has_room() || self.keep.by_bin[past][0].dirty + saved >= 0.0
        } else {
            self.has_room() || self.displaces(self.enter.by_bin[past][0].dirty + saved, -saved)
        };
        if is_fast {
            self.residents.insert(page, false);
            self.own.fast_writes += 1;
        } else {
            self.residents.remove(&page);
            self.own.slow_writes += 1;
        }
        if self.owed.remove(&page) {
            self.own.slow_writes -= 1;
        }
        if self.simplest_fast.contains(&page) || self.simplest_fast.len() < self.capacity {
            self.simplest_fast.insert(page);
            self.simplest.fast_writes += 1;
        } else {
            self.simplest.slow_writes += 1;
        }
        is_fast
    }

    /// Reads a page; returns whether it is in the fast tier afterwards.
    pub fn read(&mut self, page: u32) -> bool {
        self.tick();
        self.count(page, |seen| &mut seen.read);
        let (reads, past) =
            self.stories.get(&page).map_or((0, 0), |story| (story.reads, story.past));
        self.begin(page, (reads + 1).min(3), past);
        self.owed.remove(&page);
        if self.simplest_fast.contains(&page) {
            self.simplest.fast_reads += 1;
        } else {
            self.simplest.slow_reads += 1;
        }
        if self.residents.contains_key(&page) {
            self.own.fast_reads += 1;
            return true;
        }
        self.own.slow_reads += 1;
        let class = self.stories[&page].class();
        let value =
            if self.has_room() { self.keep.free[class] } else { self.enter.by_bin[class][0].clean };
        let spending = self.latencies.fast_write;
        let gain = value - spending;
        let fills = gain > 0.0
            && if self.has_room() {
                gain >= self.asked_return * spending
            } else {
                self.displaces(gain, spending)
            };
        if fills {
            self.residents.insert(page, true);
            self.own.fast_writes += 1;
        }
        fills
    }

    /// The page that the last admission evicted.
    pub fn take_victim(&mut self) -> u32 {
        self.victim.take().expect("the admission chose a victim")
    }

    /// Forgets a page that no longer exists.
    pub fn dropped(&mut self, page: u32) {
        self.count(page, |seen| &mut seen.dropped);
        self.stories.remove(&page);
        self.residents.remove(&page);
        self.owed.remove(&page);
        self.simplest_fast.remove(&page);
    }

    fn has_room(&self) -> bool {
        self.residents.len() < self.capacity
    }

    /// Searches all residents and evicts the cheapest if its value is below `gain` by at least the
    /// required return on `spending`.
    fn displaces(&mut self, gain: f64, spending: f64) -> bool {
        if gain <= 0.0 {
            self.idle += 1;
            return false;
        }
        let candidates = self.residents.iter().map(|(page, is_clean)| {
            let story = &self.stories[page];
            let age = self.age(story);
            let group = self.groups.iter().rposition(|(least, _)| *least <= age);
            let group = group.expect("the first is of age 0");
            let (least, width) = self.groups[group];
            let value = &self.keep.by_bin[story.class()][bin(least + width / 2)];
            let worth = if *is_clean { value.clean } else { value.dirty - value.given_up };
            (worth, (story.class(), *is_clean, group, story.last_event), *page)
        });
        let cheapest =
            candidates.min_by(|left, right| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)));
        let Some((worth, _, page)) = cheapest else { return false };
        if worth <= 0.0 {
            self.idle += 1;
        } else if gain > worth {
            self.contested += 1;
        }
        let is_only_copy = !self.residents[&page];
        let spending = spending + if is_only_copy { self.latencies.slow_write } else { 0.0 };
        if gain <= worth || gain - worth < self.asked_return * spending {
            return false;
        }
        if is_only_copy {
            self.own.slow_writes += 1;
            if self.drops && self.stories[&page].reads > 0 {
                self.owed.insert(page);
            }
        }
        self.residents.remove(&page);
        self.victim = Some(page);
        true
    }

    fn tick(&mut self) {
        self.now += 1;
        if self.now.is_multiple_of(self.epoch_events) {
            self.count_waiting();
            self.age_groups();
            self.ask();
            self.revalue(self.has_room());
        }
    }

    /// Epochs since the page's last event.
    fn age(&self, story: &Story) -> u64 {
        self.now / self.epoch_events - story.last_event / self.epoch_events
    }

    /// Sets the required return on spending. It rises when the own cost, from 3 % below that of
    /// `priority` on, approaches the credit.
    fn ask(&mut self) {
        let simplest = self.simplest.cost(&self.latencies);
        let regret = self.own.cost(&self.latencies) - (1.0 - 0.03) * simplest;
        let left = self.capacity as f64 * self.latencies.fast_write + 0.03 * simplest - regret;
        self.asked_return = match regret {
            regret if regret <= 0.0 => 0.0,
            regret if regret >= 3.0 * left => 3.0,
            regret => regret / left,
        };
    }

    /// Ages the groups and merges neighbours that fit into a bin, the youngest first.
    fn age_groups(&mut self) {
        self.groups.iter_mut().for_each(|(age, _)| *age += 1);
        self.groups.insert(0, (0, 1));
        let mut index = 0;
        while index + 1 < self.groups.len() {
            let (age, epochs) = self.groups[index];
            let together = epochs + self.groups[index + 1].1;
            if age >= AGE_MAX || together <= width(bin(age)) {
                self.groups[index].1 = together;
                self.groups.remove(index + 1);
            }
            index += 1;
        }
    }

    /// Begins a new wait of a page.
    fn begin(&mut self, page: u32, reads: usize, past: usize) {
        let story = Story { reads, past, last_event: self.now };
        if is_sampled(page) {
            self.seen[story.class()][0].entered += 1.0;
        }
        self.stories.insert(page, story);
    }

    /// Counts the sampled pages that reach a bin in this epoch.
    fn count_waiting(&mut self) {
        let mut reached = [[0; BINS]; CLASSES];
        for (_, story) in self.stories.iter().filter(|(page, _)| is_sampled(**page)) {
            let age = self.age(story);
            if bin(age) != bin(age - 1) {
                reached[story.class()][bin(age)] += 1;
            }
        }
        for (seen, reached) in self.seen.iter_mut().flatten().zip(reached.iter().flatten()) {
            seen.entered += f64::from(*reached);
        }
    }

    /// Counts the event that ends the wait of a sampled page.
    fn count(&mut self, page: u32, field: impl Fn(&mut Seen) -> &mut f64) {
        if let Some(story) = self.stories.get(&page).filter(|_| is_sampled(page)) {
            let bin = bin(self.age(story));
            *field(&mut self.seen[story.class()][bin]) += 1.0;
        }
    }

    fn revalue(&mut self, has_room: bool) {
        let epochs_per_tier = self.epoch_events as f64 * 16.0 / self.capacity.max(1) as f64;
        let pace = epochs_per_tier.min(1.0);
        let step = 1.0 + 0.25 * pace;
        if self.contested > self.idle {
            self.price *= step;
        } else if self.idle > 0 || has_room {
            self.price /= step;
        }
        (self.contested, self.idle) = (0, 0);
        let unit =
            self.latencies.slow_read * self.epoch_events as f64 / self.capacity.max(1) as f64;
        self.price = self.price.clamp(unit / 1e3, unit * 1e3);
        let terms = Terms { latencies: self.latencies, drops: self.drops, price: self.price };
        value(&mut self.enter, &self.seen, &terms, 0.022);
        value(&mut self.keep, &self.seen, &terms, 1.0 / 32.0);
        let remaining = 1.0 - 0.02 * pace;
        for seen in self.seen.iter_mut().flatten() {
            seen.entered *= remaining;
            seen.read *= remaining;
            seen.written *= remaining;
            seen.dropped *= remaining;
        }
    }
}

struct Terms {
    latencies: Latencies,
    drops: bool,
    price: f64,
}

fn value(values: &mut Values, seen: &[[Seen; BINS]; CLASSES], terms: &Terms, prior_read: f64) {
    let Latencies { slow_read, slow_write, fast_read, fast_write } = terms.latencies;
    let saved = slow_read - fast_read;
    for _ in 0..2 {
        for class in (0..CLASSES).rev() {
            let (reads, past) = (class / PASTS, class % PASTS);
            let next = (reads + 1).min(3) * PASTS + past;
            let (next_value, next_free) = (values.by_bin[next][0], values.free[next]);
            let refill = (next_value.clean - fast_write).max(0.0);
            let prior_reads = prior_reads(class, seen, prior_read);
            let mut later = Value { dirty: -slow_write, clean: 0.0, given_up: -slow_write };
            let mut free = 0.0;
            for bin in (0..BINS).rev() {
                let seen = &seen[class][bin];
                let pages = seen.entered + 4.0;
                let read = chance_of_read(seen, prior_reads[bin]);
                let written = (seen.written / pages).min(1.0 - read);
                let dropped = ((seen.dropped + 4.0 / 32.0) / pages).min(1.0 - read - written);
                let stays = 1.0 - read - written - dropped;
                let rent = terms.price * width(bin) as f64 * (0.5 + 0.5 * stays);
                if terms.drops && reads > 0 {
                    later.given_up = stays * later.given_up - (read + dropped) * slow_write;
                }
                let after_read = saved + next_value.dirty - refill;
                let dirty = read * after_read + stays * later.dirty - rent;
                later.dirty = dirty.max(later.given_up);
                let after_read = saved + next_value.clean - refill;
                later.clean = (read * after_read + stays * later.clean - rent).max(0.0);
                let after_read = saved + next_free - (next_free - fast_write).max(0.0);
                free = read * after_read + stays * free;
                values.by_bin[class][bin] = later;
            }
            values.free[class] = free;
        }
    }
}

/// Prior chances of a read by age bin. The chance after several reads is at least that after one read
/// less.
fn prior_reads(class: usize, seen: &[[Seen; BINS]; CLASSES], prior_read: f64) -> Vec<f64> {
    let past = class % PASTS;
    let mut prior = if past > 2 { 2.0 * prior_read } else { prior_read };
    let mut priors = Vec::new();
    for seen in &seen[class] {
        priors.push(prior);
        if past == 0 {
            let pages = seen.entered + 4.0;
            prior += (chance_of_read(seen, prior) - prior) * 0.125 * seen.entered / pages;
        }
    }
    if class / PASTS > 1 {
        let before = class - PASTS;
        let priors_before = prior_reads(before, seen, prior_read);
        for (bin, prior) in priors.iter_mut().enumerate() {
            *prior = prior.max(chance_of_read(&seen[before][bin], priors_before[bin]));
        }
    }
    priors
}

fn chance_of_read(seen: &Seen, prior: f64) -> f64 {
    ((seen.read + 4.0 * prior) / (seen.entered + 4.0)).min(1.0)
}

/// Width of a bin: one epoch up to age 8, then four bins per doubling.
fn width(bin: usize) -> u64 {
    if bin < 8 { 1 } else { 1 << (bin / 4 - 1) }
}

fn bin(age: u64) -> usize {
    let mut least_age = 0;
    for bin in 0..BINS - 1 {
        least_age += width(bin);
        if age < least_age {
            return bin;
        }
    }
    BINS - 1
}

/// Whether the page is the sampled one of its four neighbours, chosen by splitmix64.
fn is_sampled(page: u32) -> bool {
    let mut mixed = u64::from(page / 4).wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    u64::from(page % 4) == (mixed ^ (mixed >> 31)) % 4
}
