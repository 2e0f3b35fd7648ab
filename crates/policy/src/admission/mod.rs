//! Who may enter the fast tier.

mod access_bit;
mod second_eviction;

pub use access_bit::AccessBit;
pub use second_eviction::SecondEviction;
