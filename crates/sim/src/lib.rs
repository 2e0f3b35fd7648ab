//! The virtual device: replays recorded events against policies and storage.

mod error;

pub use error::{Error, ErrorKind};
