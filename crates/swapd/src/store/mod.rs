//! Where the content of slots lies: frames of the fast tier in locked memory, compressed or not, or on a disk, and the
//! slow tier on a disk. Stores must not know requests, policies or the order of moves.

mod codec;
mod disk;
mod encrypted;
mod fast;
mod file;
mod pool;

pub use codec::Algorithm;
pub use disk::Disk;
pub use encrypted::{Encrypted, KEY_BYTES};
pub use fast::{Copies, FastStore, FramesIn, Room};
pub use file::{content_slots, is_same, open, open_content};
pub use pool::{Damaged, Full, PoolCounts};

/// A tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// What the policy fills first.
    Fast,
    /// Where everything else goes.
    Slow,
}

impl Tier {
    /// Both tiers.
    pub const ALL: [Tier; 2] = [Tier::Fast, Tier::Slow];

    /// The name in options and messages.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Fast => "fast",
            Tier::Slow => "slow",
        }
    }

    /// The option for the size.
    fn size_option(self) -> &'static str {
        match self {
            Tier::Fast => "--fast",
            Tier::Slow => "--size",
        }
    }
}
