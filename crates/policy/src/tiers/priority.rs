//! `priority`: stock Linux with two swap areas of different priority.

use super::architecture::{Architecture, Role, Setup};
use super::options::{Profile, SLOT_ON_SWAPIN, Settings};
use super::two_tiers::Rules;
use crate::placement::Priority;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "priority",
    summary: "stock Linux with two areas: fast until full, then slow, no demotion",
    role: Role::System,
    decides_by_latency: false,
    options: &[SLOT_ON_SWAPIN],
    profiles: &[
        Profile { name: "faithful", settings: Settings::Fixed(&[]) },
        Profile { name: "practical", settings: Settings::Fixed(&[]) },
    ],
};

pub(super) fn build(setup: &Setup<'_>) -> (Priority, Rules) {
    let slot_on_swapin = setup.slot_on_swapin();
    (Priority::new(slot_on_swapin), Rules { slot_on_swapin, ..setup.rules() })
}
