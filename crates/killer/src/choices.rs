//! Settings with a few values each, which the files of settings, the killer and its reapers share.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A victim that dies this fast needs no help: on idle processors help costs more than it brings.
pub const DEFAULT_GRACE: Duration = Duration::from_millis(2);

/// The victims of one decision; the kernel's killer chooses likewise by `memory.oom.group`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Victims {
    /// Only the process that the policy chose.
    #[default]
    Process,
    /// The process that the policy chose, and every other of its memory cgroup that may be killed.
    Group,
}

/// How many decisions are carried out before the memory of the first victim is back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kills {
    /// One.
    #[default]
    Serial,
    /// Several, until the policy spares the rest if the memory of the victims so far counts as free.
    Batch,
}

/// When the killer reclaims the memory of victims with `process_mrelease`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reclaim {
    /// At once after the kill.
    First,
    /// After the grace in which they may die by themselves; at once if they cannot.
    #[default]
    Late,
    /// Never: the memory comes back when their last thread exits.
    Never,
}
