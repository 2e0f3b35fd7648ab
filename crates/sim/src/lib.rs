//! The virtual device: replays recorded events against policies and storage.

mod error;
pub mod scenario;

pub use error::{Error, ErrorKind};
