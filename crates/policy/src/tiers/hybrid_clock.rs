//! `hybrid-clock`: two equal swap devices without a filter (spec sheet S1.3, baseline C).

use super::architecture::{Architecture, Role, Setup};
use super::options::{
    ADMIT_CLEAN_OFF, FLASH_COPY_ON_PROMOTION, INSERTED_BIT, OptionSpec, Profile, SLOT_ON_SWAPIN,
    Settings, Values,
};
use super::two_tiers::Rules;
use crate::placement::{HybridClock, HybridClockOptions, Reinsertion};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "hybrid-clock",
    summary: "two equal devices, no filter: page-outs go to the fast one, CLOCK demotes",
    role: Role::System,
    decides_by_latency: false,
    options: &[
        OptionSpec {
            name: "clock_reinsert",
            default: "fault",
            meaning: "when a demoted page re-enters the fast tier",
            values: Values::Words(&[
                ("fault", "at the page fault that reads it"),
                ("swapout", "at the next page-out that writes it"),
            ]),
        },
        FLASH_COPY_ON_PROMOTION,
        ADMIT_CLEAN_OFF,
        INSERTED_BIT,
        SLOT_ON_SWAPIN,
    ],
    profiles: &[
        Profile { name: "faithful", settings: Settings::Fixed(&[]) },
        Profile { name: "practical", settings: Settings::Fixed(&[("clock_reinsert", "swapout")]) },
    ],
};

pub(super) fn build(setup: &Setup<'_>) -> (HybridClock, Rules) {
    let options = setup.options;
    let slot_on_swapin = setup.slot_on_swapin();
    let placement = HybridClock::new(HybridClockOptions {
        clock_reinsert: if options.is("clock_reinsert", "fault") {
            Reinsertion::Fault
        } else {
            Reinsertion::SwapOut
        },
        admit_clean: options.is("admit_clean", "yes"),
        inserted_bit: options.is("inserted_bit", "1"),
        slot_on_swapin,
        hand: setup.hand(),
    });
    let keeps_slow_copy = options.is("flash_copy_on_promotion", "keep");
    (placement, Rules { slot_on_swapin, keeps_slow_copy, ..setup.rules() })
}
