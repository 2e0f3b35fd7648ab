//! Every swap architecture that can be built, by name.

use super::architecture::{Architecture, Setup};
use super::two_tiers::Rules;
use super::{adaptive, flash, hierarchical, hybrid, hybrid_clock, nvm_cache, priority};
use crate::placement::Placement;

/// Receives the placement of an architecture as its own type, so that a driver is compiled for each.
pub trait Build {
    /// What is made of the placement.
    type Made;
    /// Makes it.
    fn build<P: Placement + Send + 'static>(self, placement: P, rules: Rules) -> Self::Made;
}

/// Lists the modules of all architectures once, for `CATALOG` and `build`: a function pointer in the row
/// could not return placements of different types.
macro_rules! architectures {
    ($($module:ident),*) => {
        /// Every architecture that can be built, in the order of lists.
        pub const CATALOG: &[Architecture] = &[$($module::ARCHITECTURE),*];

        /// Builds the placement of the architecture with this name; none if there is no such name.
        pub fn build<B: Build>(name: &str, setup: &Setup<'_>, builder: B) -> Option<B::Made> {
            match name {
                $(_ if name == $module::ARCHITECTURE.name => {
                    let (placement, rules) = $module::build(setup);
                    Some(builder.build(placement, rules))
                })*
                _ => None,
            }
        }
    };
}

architectures!(flash, priority, hierarchical, hybrid_clock, hybrid, nvm_cache, adaptive);
