//! Where the content of slots lies: frames of the fast tier in locked memory, and the slow tier on a disk. Stores
//! must not know requests, policies or the order of moves.

mod disk;
mod encrypted;
mod fast;
mod slow;

pub use disk::Disk;
pub use encrypted::{Encrypted, KEY_BYTES};
pub use fast::{Copies, FastStore};
pub use slow::{SlowStore, open as open_slow};
