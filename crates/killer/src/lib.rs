//! The low-memory killer: it watches memory, asks a policy of `policy::kill` for victims, kills them, reclaims
//! their memory, and logs why.
//!
//! One thread watches and kills, threads of ordinary priority reclaim the memory of victims (`reaper`), and
//! others run hooks and answer on sockets. After the start the first two allocate nothing: when they act,
//! memory is short. docs/killd.md describes the settings.

pub mod balloon;
mod choices;
mod config;
mod config_file;
mod driver;
mod examine;
mod gauge;
mod hooks;
mod notes;
mod pace;
mod reaper;
mod rules;
mod scope;
mod sockets;
mod statistics;
mod table;
mod victims;
mod wake;

pub use daemon::{Control, Error, Output};

pub use choices::{DEFAULT_GRACE, Kills, Reclaim, Victims};
pub use config::Config;
pub use driver::Killer;
pub use examine::{Examined, examine};
pub use gauge::Gauge;
pub use reaper::{Reaped, Reaper};
pub use rules::Rule;
pub use scope::Scope;
pub use statistics::Statistics;
