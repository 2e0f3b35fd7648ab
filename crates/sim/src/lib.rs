//! The virtual device: replays recorded events against policies and storage.

pub mod devices;
mod error;
pub mod scenario;
pub mod swap;

pub use error::{Error, ErrorKind};
