//! `flash`: one slow device, the reference of every comparison.

use super::architecture::{Architecture, Role, Setup};
use super::options::{Profile, SLOT_ON_SWAPIN, Settings};
use super::two_tiers::Rules;
use crate::placement::Flash;

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
};

pub(super) fn build(setup: &Setup<'_>) -> (Flash, Rules) {
    let rules = Rules { slot_on_swapin: setup.slot_on_swapin(), ..setup.rules() };
    (Flash, rules)
}
