//! Two tiers below memory as a machine without I/O: a request goes in, the moves that it causes come out.
//!
//! An architecture is one file here and one name in the list of `catalog`. Its decisions are a
//! [`crate::placement`]; [`TwoTiers`] keeps what each tier holds. A simulator counts the moves; a server of a
//! block device performs them and reports each as done or failed ([`Live`]).

mod adaptive;
mod architecture;
mod catalog;
mod flash;
mod hierarchical;
mod hybrid;
mod hybrid_clock;
mod live;
mod moves;
mod nvm_cache;
mod options;
mod priority;
mod state;
mod two_tiers;

pub use architecture::{Architecture, Role, Setup};
pub use catalog::{Build, CATALOG, build};
pub use live::{Area, Live, LiveRequest, Served, serve};
pub use moves::{Move, MoveSink, Moves, Request, Step};
pub use options::{Effective, OptionSpec, Profile, Settings, Values};
pub use state::PageState;
pub use two_tiers::{Rules, TwoTiers};
