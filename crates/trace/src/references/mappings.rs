//! Changes of a program's mappings, which a capture records between the steps. As a frame:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | `MAPPINGS` |
//! | varint | number of changes, at most [`CHANGES_MAX`] |
//! | for each change: varint | steps of the trace before it, less those before the change before |
//! | 1 | the change |
//! | varint | the difference to the first page of the change before; zigzag |
//! | varint | number of pages |

use super::file::MAPPINGS;
use crate::varint::{put_varint, take_varint, unzigzag, zigzag};

/// Largest number of changes in a frame.
pub(super) const CHANGES_MAX: usize = 1 << 15;

/// Bytes of the pages in which changes are given.
pub const MAPPED_PAGE_BYTES: u64 = 4096;

/// What happens to a range of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Change {
    /// Private memory without a file is mapped, for which the program's `malloc` can request huge pages.
    Heap = 0,
    /// Other private memory without a file is mapped: stacks, reserved areas, what the loader maps.
    Anonymous = 1,
    /// Pages of a file are mapped, or memory that processes share.
    File = 2,
    /// The range is unmapped.
    Removed = 3,
    /// The content is dropped, and the mapping stays.
    Discarded = 4,
    /// The kernel wrote to the range, in a system call.
    Filled = 5,
    /// The pages move to the range of the next change, which is [`Change::MovedTo`].
    MovedFrom = 6,
    /// The pages of the change before are here now.
    MovedTo = 7,
    /// Huge pages are requested for the range.
    Requested = 8,
}

impl Change {
    /// Every change, ordered by number.
    pub const ALL: [Change; 9] = [
        Change::Heap,
        Change::Anonymous,
        Change::File,
        Change::Removed,
        Change::Discarded,
        Change::Filled,
        Change::MovedFrom,
        Change::MovedTo,
        Change::Requested,
    ];
}

/// A change of a range of pages of [`MAPPED_PAGE_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingChange {
    /// Steps of the trace before the change.
    pub steps: u64,
    /// What happens.
    pub change: Change,
    /// Address of the first page divided by [`MAPPED_PAGE_BYTES`].
    pub first: u64,
    /// Number of pages.
    pub pages: u64,
}

impl MappingChange {
    /// Whether the range ends within 64 bits of addresses.
    pub(super) fn is_in_memory(&self) -> bool {
        let end = self.first.checked_add(self.pages);
        end.is_some_and(|end| end <= u64::MAX / MAPPED_PAGE_BYTES + 1)
    }
}

/// Replaces `bytes` by the frame of `changes`, which are at most `CHANGES_MAX`, in order.
pub(super) fn encode(changes: &[MappingChange], bytes: &mut Vec<u8>) {
    assert!(changes.len() <= CHANGES_MAX, "a frame holds at most {CHANGES_MAX} changes");
    bytes.clear();
    bytes.push(MAPPINGS);
    put_varint(changes.len() as u64, bytes);
    let (mut steps, mut first) = (0, 0);
    for change in changes {
        put_varint(change.steps - steps, bytes);
        bytes.push(change.change as u8);
        put_varint(zigzag(change.first.wrapping_sub(first)), bytes);
        put_varint(change.pages, bytes);
        (steps, first) = (change.steps, change.first);
    }
}

/// Appends the changes of a frame. The error names what is wrong with the frame.
pub(super) fn decode(bytes: &[u8], changes: &mut Vec<MappingChange>) -> Result<(), &'static str> {
    const SHORT: &str = "a frame of mappings that ends within a change";
    let mut rest = bytes.get(1..).ok_or(SHORT)?;
    let count = take_varint(&mut rest).ok_or(SHORT)?;
    if count > CHANGES_MAX as u64 {
        return Err("a frame with more than 32768 changes of mappings");
    }
    let (mut steps, mut first) = (0_u64, 0_u64);
    for _ in 0..count {
        let more = take_varint(&mut rest).ok_or(SHORT)?;
        steps = steps.checked_add(more).ok_or("more steps than 64 bits can count")?;
        let (&number, after) = rest.split_first().ok_or(SHORT)?;
        rest = after;
        let change = Change::ALL.get(usize::from(number)).ok_or("an unknown change")?;
        first = first.wrapping_add(unzigzag(take_varint(&mut rest).ok_or(SHORT)?));
        let pages = take_varint(&mut rest).ok_or(SHORT)?;
        let change = MappingChange { steps, change: *change, first, pages };
        if !change.is_in_memory() {
            return Err("a mapping beyond the end of memory");
        }
        changes.push(change);
    }
    if rest.is_empty() { Ok(()) } else { Err("a frame with bytes after its changes") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn change() -> impl Strategy<Value = MappingChange> {
        let change = proptest::sample::select(Change::ALL.to_vec());
        let place = prop_oneof![0_u64..1000, 0_u64..1 << 51];
        (0_u64..1 << 40, change, place, 0_u64..1 << 51)
            .prop_map(|(steps, change, first, pages)| MappingChange { steps, change, first, pages })
    }

    proptest! {
        #[test]
        fn changes_are_read_back_and_every_cut_is_refused(
            mut changes in proptest::collection::vec(change(), 0..30),
        ) {
            changes.sort_by_key(|change| change.steps);
            let mut bytes = Vec::new();
            encode(&changes, &mut bytes);
            let mut read = Vec::new();
            prop_assert_eq!(decode(&bytes, &mut read), Ok(()));
            prop_assert_eq!(&read, &changes);
            for length in 0..bytes.len() {
                prop_assert!(decode(&bytes[..length], &mut Vec::new()).is_err());
            }
        }
    }
}
