//! Settings with a few values each, which the files of settings, the killer and its reapers share.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A victim that dies this fast needs no help: on idle processors help costs more than it brings.
pub const DEFAULT_GRACE: Duration = Duration::from_millis(2);

/// How many die for one decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// The process that was chosen.
    #[default]
    Process,
    /// It and everybody in its memory cgroup who may be killed.
    Group,
}

/// How many decisions are acted on before the memory of the first victim is back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kills {
    /// One.
    #[default]
    Serial,
    /// As many as are made when what victims have counts as free.
    Batch,
}

/// Whether the killer takes the memory of victims ahead of their threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reclaim {
    /// At once.
    First,
    /// Once they had the grace to die by themselves; at once where they cannot.
    #[default]
    Late,
    /// Not at all: it comes back with the exit of their last thread.
    Never,
}
