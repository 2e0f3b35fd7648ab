//! What the daemons of the agent share: settings from TOML files, a log of `key=value` lines, sockets that answer with
//! counters, and messages to systemd. This crate must not know what a daemon does.

mod control;
mod error;
pub mod log;
mod notify;
pub mod settings;
pub mod sockets;

pub use control::Control;
pub use error::Error;
pub use log::Output;
pub use notify::Notify;
