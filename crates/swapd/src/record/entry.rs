//! What is recorded, and its packed form in the ring.

use policy::tiers::{Move, Request as Event, Step};
use types::PageId;

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The tiers were asked about a slot.
    Event {
        /// CLOCK_MONOTONIC, in nanoseconds.
        time_ns: u64,
        /// Running number.
        number: u64,
        /// What happened to the slot.
        event: Event,
        /// The slot.
        slot: u32,
    },
    /// The tiers got another number of frames.
    Capacity {
        /// Number of the event before which it took effect.
        number: u64,
        /// The frames.
        frames: u32,
    },
    /// A move was decided because of an event.
    Decided {
        /// Number of the event.
        number: u64,
        /// The move.
        moved: Move,
    },
    /// A move ended.
    Ended {
        /// Number of the event that decided it.
        number: u64,
        /// The move.
        moved: Move,
        /// Whether the move was done; if not, it failed.
        is_done: bool,
    },
}

/// The kind of an entry in its packed form; a step is added to the last three.
mod code {
    pub const OUT: u64 = 0;
    pub const IN: u64 = 1;
    pub const VOID: u64 = 2;
    pub const CAPACITY: u64 = 3;
    pub const DECIDED: u64 = 16;
    pub const DONE: u64 = 32;
    pub const FAILED: u64 = 48;
}

impl Entry {
    pub(super) fn pack(self) -> [u64; 3] {
        let of_step = |moved: Move| {
            let step = Step::ALL.iter().position(|step| *step == moved.step);
            (step.expect("every step is listed") as u64, moved.page.0)
        };
        let (time_ns, number, code, slot) = match self {
            Entry::Event { time_ns, number, event, slot } => {
                let code = match event {
                    Event::Out { .. } => code::OUT,
                    Event::In => code::IN,
                    Event::Void => code::VOID,
                };
                (time_ns, number, code, slot)
            }
            Entry::Capacity { number, frames } => (0, number, code::CAPACITY, frames),
            Entry::Decided { number, moved } => {
                let (step, slot) = of_step(moved);
                (0, number, code::DECIDED + step, slot)
            }
            Entry::Ended { number, moved, is_done } => {
                let (step, slot) = of_step(moved);
                (0, number, if is_done { code::DONE } else { code::FAILED } + step, slot)
            }
        };
        [time_ns, number, code << 32 | u64::from(slot)]
    }

    pub(super) fn unpack([time_ns, number, rest]: [u64; 3]) -> Entry {
        let (code, slot) = (rest >> 32, rest as u32);
        let event = |event| Entry::Event { time_ns, number, event, slot };
        let moved = || Move { step: Step::ALL[(code % 16) as usize], page: PageId(slot) };
        match code {
            code::OUT => event(Event::Out { is_dirty: true }),
            code::IN => event(Event::In),
            code::VOID => event(Event::Void),
            code::CAPACITY => Entry::Capacity { number, frames: slot },
            code if code < code::DONE => Entry::Decided { number, moved: moved() },
            code => Entry::Ended { number, moved: moved(), is_done: code < code::FAILED },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_survives_its_words() {
        let moved = |step| Move { step, page: PageId(u32::MAX) };
        for step in Step::ALL {
            for entry in [
                Entry::Decided { number: 7, moved: moved(step) },
                Entry::Ended { number: 1 << 40, moved: moved(step), is_done: true },
                Entry::Ended { number: 0, moved: moved(step), is_done: false },
            ] {
                assert_eq!(Entry::unpack(entry.pack()), entry);
            }
        }
        for event in [Event::Out { is_dirty: true }, Event::In, Event::Void] {
            let entry = Entry::Event { time_ns: 5, number: 6, event, slot: 7 };
            assert_eq!(Entry::unpack(entry.pack()), entry);
        }
        let entry = Entry::Capacity { number: 1 << 40, frames: u32::MAX };
        assert_eq!(Entry::unpack(entry.pack()), entry);
    }
}
