//! `flash`: one slow device, the reference of every comparison.

use super::options::{Profile, SLOT_ON_SWAPIN, Settings};
use super::{Architecture, Role, Rules};
use policy::placement::Flash;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "flash",
    summary: "one slow device, no fast tier",
    role: Role::Baseline,
    decides_by_latency: false,
    options: &[SLOT_ON_SWAPIN],
    profiles: &[
        Profile { name: "faithful", settings: Settings::Fixed(&[]) },
        Profile { name: "practical", settings: Settings::Fixed(&[]) },
    ],
    build: |setup| {
        let rules = Rules { slot_on_swapin: setup.slot_on_swapin(), ..setup.rules() };
        setup.drive(Flash, rules)
    },
};
