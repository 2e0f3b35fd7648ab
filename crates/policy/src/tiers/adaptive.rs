//! `adaptive`: ours. Places each page where its learned future costs least
//! (`policy::placement::Adaptive`); docs/architectures.md describes how, and its results.

use super::architecture::{Architecture, Role, Setup};
use super::options::{OptionSpec, Profile, Settings, Values};
use super::two_tiers::Rules;
use crate::placement::{Adaptive, AdaptiveOptions, Latencies};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "adaptive",
    summary: "ours: learns what pages do next and holds in the fast tier what saves most time",
    role: Role::System,
    decides_by_latency: true,
    options: &[
        OptionSpec {
            name: "victims_in_memory",
            default: "write",
            meaning: "what happens to a modified victim whose page is in memory",
            values: Values::Words(&[
                ("write", "it is written to the slow tier, as every other architecture does"),
                (
                    "drop",
                    "its frame is freed unwritten, and it is written late unless a page-out overwrites \
                     it; only a kernel can do that, not a block device",
                ),
            ]),
        },
        OptionSpec {
            name: "wear_price",
            default: "none",
            meaning: "what a write to the fast tier costs beyond its time",
            values: Values::WordOrNumber(("none", "nothing"), "as a multiple of a slow read"),
        },
    ],
    profiles: &[
        Profile { name: "faithful", settings: Settings::Fixed(&[]) },
        Profile { name: "practical", settings: Settings::Fixed(&[]) },
    ],
};

pub(super) fn build(setup: &Setup<'_>) -> (Adaptive, Rules) {
    let latencies = setup.latencies;
    let wear_price = setup.options.number("wear_price").unwrap_or(0.0) * latencies.slow_read;
    let fast_write = latencies.fast_write + wear_price;
    let latencies = Latencies { fast_write, ..latencies };
    let drops_in_memory = setup.options.is("victims_in_memory", "drop");
    let rules = Rules { drops_victims_in_memory: drops_in_memory, ..setup.rules() };
    let capacity = setup.capacity;
    let options = AdaptiveOptions { capacity, latencies, drops_in_memory };
    (Adaptive::new(options), rules)
}
