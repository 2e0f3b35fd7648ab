//! The low-memory killer: it looks at memory, asks a policy of `policy::kill` who should die for it,
//! ends them so that their memory comes back first, and says why.
//!
//! One thread looks and kills, threads of ordinary priority take the memory of the dying (`reaper`),
//! others run hooks and answer on sockets. After its start the first two allocate nothing: when they
//! are needed there is no memory to ask for. What users set is told in docs/killd.md.

pub mod balloon;
mod choices;
mod config;
mod config_file;
mod driver;
mod error;
mod examine;
mod explain;
mod gauge;
mod hooks;
mod notes;
mod notify;
mod pace;
mod reaper;
mod rules;
mod scope;
mod sockets;
mod statistics;
mod table;
mod victims;
mod wake;

pub use choices::{DEFAULT_GRACE, Kills, Reclaim, Unit};
pub use config::Config;
pub use driver::{Control, Killer};
pub use error::Error;
pub use examine::{Examined, examine};
pub use explain::Output;
pub use gauge::Gauge;
pub use reaper::{Reaped, Reaper};
pub use rules::Rule;
pub use scope::Scope;
pub use statistics::Statistics;
