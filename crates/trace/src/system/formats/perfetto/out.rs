//! Where the parts of the reader put what they read.

use crate::system::{Event, Names, Tally};

/// Where events, names and counts go.
pub struct Out<'out> {
    /// Events so far.
    pub events: &'out mut Vec<Event>,
    /// Texts.
    pub names: &'out mut Names,
    /// Counts.
    pub tally: &'out mut Tally,
}
