//! Simulates: replays recorded events against policies and storage.

mod accesses;
pub mod alloc;
pub mod analysis;
mod error;
mod event_list;
mod grid;
pub mod heat;
pub mod kills;
pub mod lifecycle;
mod marks;
pub mod misses;
mod page_lists;
mod passes;
pub mod refs;
mod regions;
mod sample;
pub mod scenario;
mod shares;
pub mod stack;
pub mod swap;
pub mod system;
pub mod zram;

pub use devices;
pub use error::{Error, ErrorKind};
pub use event_list::EventList;
pub use sample::Sample;
