//! What the end of a process frees: its weight as last measured, and its growth since then.

use linux::weight::Weighed;
use policy::kill::search::{Sharer, is_weight_valid};
use types::{Bytes, Nanos};

use super::Entry;

impl Entry {
    /// The memory that the end of the process frees: its own memory as last measured, and its growth since then.
    /// Without a weight, all of its anonymous memory, which is the maximum.
    pub(crate) fn own(&self) -> Bytes {
        Bytes(self.last_weighed().own(self.seen.anonymous))
    }

    pub(crate) fn own_swapped(&self) -> Bytes {
        Bytes(self.last_weighed().own_swapped(self.seen.swapped))
    }

    fn last_weighed(&self) -> Weighed {
        self.weighed.map(|(_, weighed)| weighed).unwrap_or_default()
    }

    /// How the process shares memory.
    pub(crate) fn sharer(&self, now: Nanos) -> Sharer {
        Sharer {
            parent: self.parent,
            process_group: self.process_group,
            name: self.name.0,
            mapped: Bytes(self.seen.resident),
            is_weighed: self.has_weight(),
            share: self.share().map(Bytes),
            shared: Bytes(self.shared_part()),
            is_borrowed: self.is_borrowed(),
            ending: Bytes(self.freeing(now)),
        }
    }

    /// The process's share of shared memory without a name.
    fn shared_part(&self) -> u64 {
        let weight = self.last_weighed().weight;
        weight.filter(|_| !self.is_borrowed()).map_or(0, |weight| weight.shared)
    }

    /// The proportional share of a process whose shared memory comes back with its last user.
    pub(crate) fn share(&self) -> Option<u64> {
        let Weighed { weight, anonymous, .. } = self.last_weighed();
        let weight = weight.filter(|_| !self.is_borrowed())?;
        let share = (self.seen.anonymous + weight.proportional).saturating_sub(anonymous);
        weight.is_shared().then_some(share)
    }

    /// Whether the process uses its parent's memory: it is between vfork and exec.
    pub(crate) fn is_borrowed(&self) -> bool {
        self.last_weighed().is_borrowed
    }

    /// Whether the process has a weight.
    pub(crate) fn has_weight(&self) -> bool {
        self.last_weighed().weight.is_some()
    }

    /// Whether the weight is valid: for a second in any case, and for `longest` while the size stays the same.
    pub(crate) fn is_weighed(&self, now: Nanos, longest: Nanos) -> bool {
        self.weighed.is_some_and(|(at, weighed)| {
            let age = Nanos(now.0 - at.0);
            is_weight_valid(
                age,
                longest,
                weighed.has_similar_size(self.seen.resident, self.seen.anonymous),
            )
        })
    }

    /// Stores the weigher's result.
    pub(crate) fn weigh(&mut self, now: Nanos, weighed: Weighed) {
        self.weighed = Some((now, weighed));
    }

    pub(crate) fn forget_weight(&mut self) {
        self.weighed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Context, Scale, Seen};
    use super::*;
    use linux::Root;
    use linux::held_process::open_processes;
    use linux::weight::Weight;

    const MIB: u64 = 1 << 20;

    /// This process, as if its map counted 100 MiB.
    fn entry() -> Entry {
        let processes = open_processes(&Root::system()).unwrap();
        let scale = Scale { tick: Nanos(1), page: 4096, has_swap: false };
        let context = Context { rules: &[], now: Nanos(0), scale };
        let mut entry = Entry::open(&processes, std::process::id(), 0, context).ok().unwrap();
        entry.seen = Seen { resident: 120 * MIB, anonymous: 100 * MIB, swapped: 10 * MIB };
        entry
    }

    #[test]
    fn growth_since_the_weight_is_own_memory() {
        let mut server = entry();
        assert_eq!(server.own(), Bytes(100 * MIB), "unknown: the most");
        let weight = Weight {
            own: 5 * MIB,
            proportional: 20 * MIB,
            shared_swapped: 4 * MIB,
            ..Weight::default()
        };
        server.weigh(Nanos(0), Weighed::new(Some(weight), [(120 * MIB, 100 * MIB); 2], false));
        assert_eq!((server.own(), server.share()), (Bytes(5 * MIB), Some(20 * MIB)));
        assert_eq!(server.own_swapped(), Bytes(6 * MIB));
        server.seen.anonymous += 7 * MIB;
        assert_eq!((server.own(), server.share()), (Bytes(12 * MIB), Some(27 * MIB)));
        server.seen.anonymous = MIB;
        assert_eq!(server.own(), Bytes(0));
        let second = |count: i64| Nanos(count * 1_000_000_000);
        assert!(server.is_weighed(Nanos(999_999_999), Nanos(0)));
        assert!(!server.is_weighed(second(1), second(10)), "it gave memory back");
        server.seen.anonymous = 101 * MIB;
        assert!(server.is_weighed(second(9), second(10)));
        assert!(!server.is_weighed(second(10), second(10)));

        // A hog that grows during the read.
        let mut hog = entry();
        let weight = Weight { own: 130 * MIB, proportional: 130 * MIB, ..Weight::default() };
        hog.weigh(
            Nanos(0),
            Weighed::new(Some(weight), [(120 * MIB, 100 * MIB), (160 * MIB, 140 * MIB)], false),
        );
        hog.seen.anonymous = 150 * MIB;
        assert_eq!((hog.own(), hog.share()), (Bytes(150 * MIB), None));
    }

    #[test]
    fn a_child_that_borrows_its_parents_memory_frees_nothing() {
        let mut child = entry();
        let weight = Weight { own: 100 * MIB, proportional: 100 * MIB, ..Weight::default() };
        child.weigh(Nanos(0), Weighed::new(Some(weight), [(120 * MIB, 100 * MIB); 2], true));
        assert_eq!((child.own(), child.own_swapped(), child.share()), (Bytes(0), Bytes(0), None));
        child.forget_weight();
        assert_eq!(child.own(), Bytes(100 * MIB));
    }
}
