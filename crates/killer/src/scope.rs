//! Whom a killer watches, and how many processes and open files it has room for.

use std::path::PathBuf;

use linux::weigher::AT_ONCE;
pub(crate) use policy::kill::search::VICTIMS_MAX;

/// Descriptors besides those of candidates: two clones of two for each victim, one clone of two for each
/// candidate that is weighed, and other files that are open always or briefly.
pub(crate) const OWN_DESCRIPTORS: usize = 4 * VICTIMS_MAX + 2 * AT_ONCE + 96;

/// The memory that the killer keeps from running out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// The memory of the machine.
    #[default]
    Machine,
    /// The memory of a cgroup; only its processes may be killed.
    Group(PathBuf),
}
