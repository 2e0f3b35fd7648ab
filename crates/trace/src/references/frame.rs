//! A frame of steps as bytes, column by column, because similar values compress better together:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | `STEPS` |
//! | 4 | number of steps, at most [`STEPS_MAX`] |
//! | 3 x 8 | instructions, reads and writes since the trace began, up to the last step at least |
//! | 1 each | the kind; plus 4 if the block that left was written |
//! | 1 each | the slot |
//! | varint each | references since the step before |
//! | varint each | the difference to the block before, in separate streams for instructions and data; zigzag |

use types::{BLOCK_BYTES, ReferenceKind, ReferenceTotals};

use super::file::STEPS;
use super::slots::SlotStep;
use crate::varint::{put_varint, take_varint, unzigzag, zigzag};

/// Largest number of steps in a frame, and the most that a cut file loses.
pub(super) const STEPS_MAX: usize = 1 << 16;

/// Bytes before the columns.
const HEAD_BYTES: usize = 1 + 4 + 3 * 8;

/// Longest varint of 64 bits.
const VARINT_BYTES_MAX: usize = 10;

/// Largest size of a frame, unpacked.
pub(super) const FRAME_BYTES_MAX: usize = HEAD_BYTES + STEPS_MAX * (2 + 2 * VARINT_BYTES_MAX);

/// Added to the kind if the block that left was written.
const LEFT_WRITTEN: u8 = 4;

/// The last block of each stream; it persists from frame to frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Streams {
    instruction: u64,
    data: u64,
}

impl Streams {
    fn last(&mut self, kind: ReferenceKind) -> &mut u64 {
        if kind == ReferenceKind::Instruction { &mut self.instruction } else { &mut self.data }
    }
}

/// Replaces `bytes` by the frame of `steps`, which are at most `STEPS_MAX`.
pub(super) fn encode(
    steps: &[SlotStep],
    totals: ReferenceTotals,
    streams: &mut Streams,
    bytes: &mut Vec<u8>,
) {
    assert!(steps.len() <= STEPS_MAX, "a frame holds at most {STEPS_MAX} steps");
    bytes.clear();
    bytes.push(STEPS);
    bytes.extend((steps.len() as u32).to_le_bytes());
    for total in [totals.instructions, totals.reads, totals.writes] {
        bytes.extend(total.to_le_bytes());
    }
    bytes.extend(
        steps
            .iter()
            .map(|step| step.kind as u8 + if step.is_left_written { LEFT_WRITTEN } else { 0 }),
    );
    bytes.extend(steps.iter().map(|step| step.slot));
    for step in steps {
        put_varint(step.references, bytes);
    }
    for step in steps {
        let last = streams.last(step.kind);
        put_varint(zigzag(step.block.wrapping_sub(*last)), bytes);
        *last = step.block;
    }
}

/// Replaces `steps` by those of a frame. The error names what is wrong with the frame.
pub(super) fn decode(
    bytes: &[u8],
    streams: &mut Streams,
    steps: &mut Vec<SlotStep>,
) -> Result<ReferenceTotals, &'static str> {
    const SHORT: &str = "a frame that ends within a column";
    steps.clear();
    let (head, rest) =
        bytes.split_at_checked(HEAD_BYTES).ok_or("a frame that ends within its head")?;
    let number = |at: usize| {
        let eight = head.get(at..at + 8).and_then(|eight| eight.try_into().ok());
        u64::from_le_bytes(eight.unwrap_or_default())
    };
    let totals = ReferenceTotals { instructions: number(5), reads: number(13), writes: number(21) };
    let count = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if count > STEPS_MAX {
        return Err("a frame with more than 65536 steps");
    }
    let (kinds, rest) = rest.split_at_checked(count).ok_or(SHORT)?;
    let (slots, mut rest) = rest.split_at_checked(count).ok_or(SHORT)?;
    for (&kind, &slot) in kinds.iter().zip(slots) {
        let is_left_written = kind & LEFT_WRITTEN != 0;
        let kind = ReferenceKind::ALL.get(usize::from(kind & !LEFT_WRITTEN));
        let kind = *kind.ok_or("a step of an unknown kind")?;
        let references = take_varint(&mut rest).ok_or(SHORT)?;
        steps.push(SlotStep { references, kind, block: 0, slot, is_left_written });
    }
    for step in &mut *steps {
        let last = streams.last(step.kind);
        *last = last.wrapping_add(unzigzag(take_varint(&mut rest).ok_or(SHORT)?));
        if *last > u64::MAX / BLOCK_BYTES {
            return Err("a block beyond the end of memory");
        }
        step.block = *last;
    }
    if rest.is_empty() { Ok(totals) } else { Err("a frame with bytes after its columns") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn step() -> impl Strategy<Value = SlotStep> {
        let kind = proptest::sample::select(ReferenceKind::ALL.to_vec());
        let block = prop_oneof![0u64..1000, 0..=u64::MAX / BLOCK_BYTES];
        let references = prop_oneof![0u64..300, any::<u64>()];
        (references, kind, block, any::<u8>(), any::<bool>()).prop_map(
            |(references, kind, block, slot, is_left_written)| SlotStep {
                references,
                kind,
                block,
                slot,
                is_left_written,
            },
        )
    }

    proptest! {
        #[test]
        fn steps_are_read_back_and_every_cut_is_refused(
            steps in proptest::collection::vec(step(), 0..50),
            totals: (u64, u64, u64),
        ) {
            let (instructions, reads, writes) = totals;
            let totals = ReferenceTotals { instructions, reads, writes };
            let mut bytes = Vec::new();
            encode(&steps, totals, &mut Streams::default(), &mut bytes);
            let mut read = Vec::new();
            prop_assert_eq!(decode(&bytes, &mut Streams::default(), &mut read), Ok(totals));
            prop_assert_eq!(&read, &steps);
            for length in 0..bytes.len() {
                let cut = decode(&bytes[..length], &mut Streams::default(), &mut read);
                prop_assert!(cut.is_err());
            }
        }
    }
}
