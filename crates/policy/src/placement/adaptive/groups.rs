//! Groups of ages: neighbouring epochs of birth that are no longer distinguished.
//!
//! Every epoch begins a group, and two neighbours merge as soon as both fit into one age bin. So a page
//! never moves as it ages: its group does, and a merge joins the lists of two groups. The number
//! of groups depends neither on the pages nor on the epochs.

use super::ages::{EPOCHS, bin, bin_width};

/// Maximum number of groups at a time: eight of one epoch, at most five for each doubling of the age
/// up to `EPOCHS`, and those that wait for a neighbour.
pub(super) const GROUPS: usize = 64;

/// Two neighbouring groups that fit into one age bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Merge {
    /// Rank of the younger group in the order of age.
    pub rank: usize,
    /// Slot of the younger group, which remains.
    pub into: usize,
    /// Slot of the older group, which becomes free.
    pub from: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// Age of its youngest epoch.
    age: u32,
    /// Width in epochs.
    width: u32,
    slot: u8,
}

/// The groups, in the order of their ages; each keeps its slot.
///
/// Invariant: group 0 is the current epoch; a group begins where the one before ends.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    groups: [Group; GROUPS],
    len: usize,
    free_slots: u64,
}

impl Groups {
    /// A single group with the first epoch.
    pub fn new() -> Groups {
        let mut groups =
            Groups { groups: [Group::default(); GROUPS], len: 0, free_slots: u64::MAX };
        groups.begin();
        groups
    }

    /// Slot of the group with this rank.
    #[inline(always)]
    pub fn slot(&self, rank: usize) -> usize {
        usize::from(self.groups[rank].slot)
    }

    /// Age bin that contains the middle of the group with this rank.
    pub fn bin(&self, rank: usize) -> usize {
        let group = self.groups[rank];
        bin(group.age + group.width / 2)
    }

    /// Begins the next epoch, in a group of its own.
    pub fn begin_epoch(&mut self) {
        for group in &mut self.groups[..self.len] {
            group.age += 1;
        }
        self.begin();
    }

    /// The next pair of groups to merge, from rank `from` on.
    pub fn next_merge(&self, from: usize) -> Option<Merge> {
        let rank = (from..self.len.saturating_sub(1)).find(|rank| self.fits_one_bin(*rank))?;
        Some(Merge { rank, into: self.slot(rank), from: self.slot(rank + 1) })
    }

    /// Merges a pair that `next_merge` returned. No page may be left in the older group.
    pub fn merge(&mut self, merge: Merge) {
        let (younger, older) = (self.groups[merge.rank], self.groups[merge.rank + 1]);
        self.groups[merge.rank].width = (younger.width + older.width).min(EPOCHS);
        self.groups.copy_within(merge.rank + 2..self.len, merge.rank + 1);
        self.len -= 1;
        self.free_slots |= 1 << older.slot;
    }

    fn fits_one_bin(&self, rank: usize) -> bool {
        let (younger, older) = (self.groups[rank], self.groups[rank + 1]);
        younger.age >= EPOCHS || younger.width + older.width <= bin_width(bin(younger.age))
    }

    fn begin(&mut self) {
        let slot = self.free_slots.trailing_zeros();
        self.free_slots &= !(1 << slot);
        self.groups.copy_within(0..self.len, 1);
        self.groups[0] = Group { age: 0, width: 1, slot: slot as u8 };
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn groups_cover_all_ages_and_are_no_wider_than_their_bins() {
        let mut groups = Groups::new();
        for _ in 0..3 * EPOCHS {
            groups.begin_epoch();
            let mut rank = 0;
            while let Some(merge) = groups.next_merge(rank) {
                groups.merge(merge);
                rank = merge.rank + 1;
            }
            let all = &groups.groups[..groups.len];
            assert_eq!((all[0].age, all[0].width), (0, 1));
            for pair in all.windows(2) {
                assert_eq!(pair[0].age + pair[0].width, pair[1].age);
                assert!(pair[0].width <= bin_width(bin(pair[0].age)));
            }
            let slots: BTreeSet<u8> = all.iter().map(|group| group.slot).collect();
            let free = (0..GROUPS as u8).filter(|slot| groups.free_slots >> slot & 1 == 1);
            assert_eq!(slots.len(), groups.len);
            assert!(free.clone().all(|slot| !slots.contains(&slot)));
            assert_eq!(free.count() + groups.len, GROUPS);
        }
        assert!(groups.len < GROUPS - 8, "{} groups", groups.len);
    }
}
