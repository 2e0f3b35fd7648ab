//! `adaptive`: ours. Places each page where its learned future costs least
//! (`policy::placement::Adaptive`); docs/architectures.md says how and what it reaches.

use super::Architecture;
use super::options::{OptionSpec, Profile, Settings, Values};
use policy::placement::{Adaptive, AdaptiveLatencies};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "adaptive",
    summary: "ours: learns what pages do next and holds in the fast tier what saves most time",
    options: &[OptionSpec {
        name: "wear_price",
        default: "none",
        meaning: "what a write to the fast tier is deemed to cost beside its time",
        values: Values::WordOrNumber(("none", "its time only"), "nanoseconds per page written"),
    }],
    profiles: &[
        Profile { name: "faithful", settings: Settings::Fixed(&[]) },
        Profile { name: "practical", settings: Settings::Fixed(&[]) },
    ],
    build: |setup| {
        let (fast, slow) = (&setup.request.fast, &setup.request.slow);
        let wear_price = setup.options.number("wear_price").unwrap_or(0.0);
        let latencies = AdaptiveLatencies {
            slow_read: slow.read.typical_ns as f64,
            slow_write: slow.write.typical_ns as f64,
            fast_read: fast.read.typical_ns as f64,
            fast_write: fast.write.typical_ns as f64 + wear_price,
        };
        setup.drive(Adaptive::new(setup.capacity(), latencies), setup.rules())
    },
};
