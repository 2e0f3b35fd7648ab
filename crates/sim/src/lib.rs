//! The virtual device: replays recorded events against policies and storage.

pub mod devices;
mod error;
mod event_list;
pub mod scenario;
pub mod swap;

pub use error::{Error, ErrorKind};
pub use event_list::EventList;
