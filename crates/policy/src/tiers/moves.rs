//! What a driver asks of the tiers, and the moves of data that they answer.

use types::PageId;

/// What happens to a page, or to the slot of a block device that stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The page leaves memory. Unless `is_dirty`, a valid copy on a tier still has its content.
    Out {
        /// Whether the page changed since it was last written.
        is_dirty: bool,
    },
    /// The page is read back into memory.
    In,
    /// The page ceases to exist, so its copies are void.
    Void,
}

/// One movement of data. The page that the request names moves, except in `Demote`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Read the page from its frame in the fast tier.
    ReadFast,
    /// Read the page from the slow tier.
    ReadSlow,
    /// Write the page to the fast tier: into its frame if it has one, else into a free one.
    WriteFast,
    /// Write the page to the slow tier.
    WriteSlow,
    /// Write the page, which was just read from the slow tier, into a free frame.
    Promote,
    /// Free the frame of another page, to make room. With `writes` the frame has the only valid copy,
    /// which is first written to the slow tier.
    Demote {
        /// Whether the slow tier is written.
        writes: bool,
    },
    /// Free the page's frame; its content is void.
    Free,
}

impl Step {
    /// Name in files of moves.
    pub const fn name(self) -> &'static str {
        match self {
            Step::ReadFast => "read_fast",
            Step::ReadSlow => "read_slow",
            Step::WriteFast => "write_fast",
            Step::WriteSlow => "write_slow",
            Step::Promote => "promote",
            Step::Demote { writes: true } => "demote_write",
            Step::Demote { writes: false } => "demote",
            Step::Free => "free",
        }
    }

    /// The step with this name.
    pub fn from_name(name: &str) -> Option<Step> {
        Step::ALL.into_iter().find(|step| step.name() == name)
    }

    /// Every step.
    pub const ALL: [Step; 8] = [
        Step::ReadFast,
        Step::ReadSlow,
        Step::WriteFast,
        Step::WriteSlow,
        Step::Promote,
        Step::Demote { writes: true },
        Step::Demote { writes: false },
        Step::Free,
    ];
}

/// A step and the page that it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// What happens.
    pub step: Step,
    /// The page, or the slot that stands for it.
    pub page: PageId,
}

/// Receives the moves that follow from one request, in the order in which they take effect.
pub trait MoveSink {
    /// Receives the next move.
    fn push(&mut self, step: Step, page: PageId);
}

/// Most moves that follow from one request: a read, two demotions and a promotion.
const MOVES_MAX: usize = 4;

/// The moves that follow from one request, in the order in which they take effect. Holds them in place,
/// so a driver allocates nothing.
#[derive(Clone, Copy, Debug)]
pub struct Moves {
    moves: [Move; MOVES_MAX],
    length: usize,
}

impl Default for Moves {
    fn default() -> Moves {
        let unused = Move { step: Step::Free, page: PageId(0) };
        Moves { moves: [unused; MOVES_MAX], length: 0 }
    }
}

impl Moves {
    /// Removes all moves.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.length = 0;
    }
}

impl MoveSink for Moves {
    #[inline(always)]
    fn push(&mut self, step: Step, page: PageId) {
        self.moves[self.length] = Move { step, page };
        self.length += 1;
    }
}

impl std::ops::Deref for Moves {
    type Target = [Move];

    #[inline(always)]
    fn deref(&self) -> &[Move] {
        &self.moves[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_found_by_its_own_name() {
        for step in Step::ALL {
            assert_eq!(Step::from_name(step.name()), Some(step));
        }
        assert_eq!(Step::from_name("read"), None);
    }
}
