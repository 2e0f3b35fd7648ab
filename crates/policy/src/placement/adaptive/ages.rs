//! The age of a page: epochs since its last event, grouped in bins.
//!
//! Each small age has its own bin; larger ages have four bins per doubling.

/// Epochs per as many events as the fast tier has frames, unless the bounds below apply.
const EPOCHS_PER_TIER: u64 = 16;
/// Lower bound: fewer events would be too small a sample.
const EPOCH_EVENTS_MIN: u64 = 512;
/// Upper bound: with more events a large tier would learn too late.
const EPOCH_EVENTS_MAX: u64 = 4096;
/// Age bins per doubling of the age, as a power of two.
const BINS_PER_OCTAVE_LOG2: u32 = 2;
/// Age from which pages share the last bin.
pub(super) const EPOCHS: u32 = 4096;
/// Number of age bins.
pub(super) const BINS: usize = bin(EPOCHS) + 1;

/// Number of an event. Numbers restart below 2^32, so an older age appears as a small one.
pub(super) type EventNumber = u32;

/// The bin of an age in epochs.
#[inline]
pub(super) const fn bin(age: u32) -> usize {
    let age = if age < EPOCHS { age } else { EPOCHS };
    if age < 2 << BINS_PER_OCTAVE_LOG2 {
        return age as usize;
    }
    let octave = age.ilog2() - BINS_PER_OCTAVE_LOG2;
    ((octave << BINS_PER_OCTAVE_LOG2) + (age >> octave)) as usize
}

/// Width of a bin in epochs.
pub(super) const fn bin_width(bin: usize) -> u32 {
    let bins_per_octave = 1 << BINS_PER_OCTAVE_LOG2;
    if bin < 2 * bins_per_octave { 1 } else { 1 << (bin / bins_per_octave - 1) }
}

/// The least age of every bin, in epochs.
pub(super) const LEAST_AGES: [u32; BINS] = {
    let mut ages = [0; BINS];
    let mut bin = 1;
    while bin < BINS {
        ages[bin] = ages[bin - 1] + bin_width(bin - 1);
        bin += 1;
    }
    ages
};

/// Numbers events and cuts them into epochs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    epoch_events: u32,
    /// Epochs after which numbers restart: below 2^32 events, and at a multiple of `EPOCHS`, so
    /// that an epoch's number modulo `EPOCHS` follows the last one's.
    epochs: u32,
    now: EventNumber,
    epoch: u32,
    events_left: u32,
}

impl Clock {
    /// A clock before the first event, for a fast tier of `capacity` frames.
    pub fn new(capacity: u64) -> Clock {
        let events = (capacity / EPOCHS_PER_TIER).clamp(EPOCH_EVENTS_MIN, EPOCH_EVENTS_MAX);
        let epoch_events = events as u32;
        let epochs = u32::MAX / epoch_events / EPOCHS * EPOCHS;
        Clock { epoch_events, epochs, now: 0, epoch: 0, events_left: epoch_events }
    }

    /// Begins the next event. Returns whether an epoch begins with it.
    #[inline(always)]
    pub fn tick(&mut self) -> bool {
        self.now += 1;
        self.events_left -= 1;
        let begins = self.events_left == 0;
        if begins {
            self.begin_epoch();
        }
        begins
    }

    #[cold]
    fn begin_epoch(&mut self) {
        self.events_left = self.epoch_events;
        self.epoch += 1;
        if self.epoch == self.epochs {
            (self.epoch, self.now) = (0, 0);
        }
    }

    /// Number of the current event.
    #[inline(always)]
    pub fn now(&self) -> EventNumber {
        self.now
    }

    /// Epochs from the epoch of an event to the current one.
    #[inline(always)]
    pub fn age(&self, event: EventNumber) -> u32 {
        let epoch = event / self.epoch_events;
        if epoch <= self.epoch { self.epoch - epoch } else { self.epoch + self.epochs - epoch }
    }

    /// Number of the current epoch.
    #[inline(always)]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Share of a change due once per `EPOCHS_PER_TIER`th of a tier that is due in one epoch.
    pub fn pace(&self, capacity: u64) -> f64 {
        (f64::from(self.epoch_events) * EPOCHS_PER_TIER as f64 / capacity.max(1) as f64).min(1.0)
    }

    /// Events per epoch.
    pub fn epoch_events(&self) -> u32 {
        self.epoch_events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_follow_each_other_and_are_as_wide_as_they_say() {
        for age in 0..EPOCHS {
            let bin = bin(age);
            assert!(LEAST_AGES[bin] <= age && age < LEAST_AGES[bin] + bin_width(bin), "age {age}");
        }
        assert_eq!(LEAST_AGES[BINS - 1], EPOCHS);
        assert_eq!(bin(u32::MAX), BINS - 1);
    }

    #[test]
    fn ages_are_counted_across_the_end_of_the_numbers() {
        let mut clock = Clock::new(0);
        clock.epoch = clock.epochs - 1;
        clock.now = clock.epoch * clock.epoch_events;
        let before = clock.now;
        assert!(clock.epochs.is_multiple_of(EPOCHS));
        let begun = (0..2 * clock.epoch_events).filter(|_| clock.tick()).count();
        assert_eq!((begun, clock.age(before), clock.now()), (2, 2, clock.epoch_events));
    }

    #[test]
    fn a_large_tier_changes_less_per_epoch() {
        let pace = |capacity| Clock::new(capacity).pace(capacity);
        assert_eq!([pace(0), pace(8192), pace(1 << 16), pace(1 << 18)], [1.0, 1.0, 1.0, 0.25]);
    }
}
