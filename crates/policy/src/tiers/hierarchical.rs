//! `hierarchical`: the fast tier as a cache in front of the slow one (spec sheet S1.3, baseline H).

use super::architecture::{Architecture, Role, Setup};
use super::options::{
    ADMIT_CLEAN_OFF, INSERTED_BIT, OptionSpec, Profile, Settings, Values, YES_NO,
};
use super::two_tiers::Rules;
use crate::placement::{Hierarchical, HierarchicalOptions, Replacement};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "hierarchical",
    summary: "fast tier as a cache: every written page enters it, reads from the slow tier fill it",
    role: Role::System,
    decides_by_latency: false,
    options: &[
        OptionSpec {
            name: "eviction",
            default: "lru",
            meaning: "which page leaves the fast tier",
            values: Values::Words(&[
                ("lru", "the least recently used"),
                ("clock", "the first without an access bit, as in the paper's experiments"),
            ]),
        },
        OptionSpec {
            name: "fill_on_read_miss",
            default: "yes",
            meaning: "whether a page read from the slow tier enters the fast tier",
            values: YES_NO,
        },
        OptionSpec {
            name: "swapout_refreshes",
            default: "yes",
            meaning: "lru: whether a page-out of a page in the fast tier counts as a use",
            values: YES_NO,
        },
        ADMIT_CLEAN_OFF,
        INSERTED_BIT,
    ],
    profiles: &[
        Profile { name: "faithful", settings: Settings::Fixed(&[("eviction", "clock")]) },
        Profile { name: "practical", settings: Settings::Fixed(&[]) },
    ],
};

pub(super) fn build(setup: &Setup<'_>) -> (Hierarchical, Rules) {
    let options = setup.options;
    let placement = Hierarchical::new(HierarchicalOptions {
        eviction: if options.is("eviction", "clock") {
            Replacement::Clock
        } else {
            Replacement::Lru
        },
        fill_on_read_miss: options.is("fill_on_read_miss", "yes"),
        admit_clean: options.is("admit_clean", "yes"),
        swapout_refreshes: options.is("swapout_refreshes", "yes"),
        inserted_bit: options.is("inserted_bit", "1"),
        hand: setup.hand(),
    });
    (placement, setup.rules())
}
