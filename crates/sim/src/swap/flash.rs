//! `flash`: one slow device, the reference of every comparison.

use super::options::{Profile, SLOT_ON_SWAPIN, Settings};
use super::{Architecture, Rules};
use policy::placement::Flash;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "flash",
    summary: "one slow device, no fast tier",
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
