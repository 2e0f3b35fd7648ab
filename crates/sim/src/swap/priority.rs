//! `priority`: stock Linux with two swap areas of different priority.

use super::options::{Profile, SLOT_ON_SWAPIN, Settings};
use super::{Architecture, Role, Rules};
use policy::placement::Priority;

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
    build: |setup| {
        let slot_on_swapin = setup.slot_on_swapin();
        setup.drive(Priority::new(slot_on_swapin), Rules { slot_on_swapin, ..setup.rules() })
    },
};
