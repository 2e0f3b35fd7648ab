//! `hybrid`: two equal swap devices with the access-bit filter (spec sheet S1.3 P1-P7).

use super::architecture::{Architecture, Role, Setup};
use super::options::{
    BIT, FLASH_COPY_ON_PROMOTION, INSERTED_BIT, OptionSpec, Profile, SLOT_ON_SWAPIN, Settings,
    Values,
};
use super::two_tiers::Rules;
use crate::placement::{Hybrid, HybridOptions, PromoteAt};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "hybrid",
    summary: "two equal devices: first page-out to the slow one, promotion by access bit, CLOCK \
              demotion",
    role: Role::System,
    decides_by_latency: false,
    options: &[
        OptionSpec {
            name: "entry_bit",
            default: "1",
            meaning: "the access bit of a page at its first page-out: 1 promotes at the first \
                      swap-in, 0 at the second",
            values: BIT,
        },
        OptionSpec {
            name: "promote_at",
            default: "fault",
            meaning: "when a promoted page is written to the fast tier",
            values: Values::Words(&[
                ("fault", "at the page fault that decides it"),
                ("swapout", "at the next page-out, which saves a write for pages modified since"),
            ]),
        },
        FLASH_COPY_ON_PROMOTION,
        INSERTED_BIT,
        OptionSpec {
            name: "bit_epoch",
            default: "never",
            meaning: "when access bits of pages outside the fast tier are cleared",
            values: Values::WordOrNumber(
                ("never", "only the hand of the fast tier clears bits"),
                "swap-ins between two clearings",
            ),
        },
        SLOT_ON_SWAPIN,
    ],
    profiles: &[
        Profile {
            name: "faithful",
            settings: Settings::Unsettled(&["entry_bit", "flash_copy_on_promotion"]),
        },
        Profile { name: "practical", settings: Settings::Fixed(&[("promote_at", "swapout")]) },
    ],
};

pub(super) fn build(setup: &Setup<'_>) -> (Hybrid, Rules) {
    let options = setup.options;
    let slot_on_swapin = setup.slot_on_swapin();
    let placement = Hybrid::new(HybridOptions {
        entry_bit: options.is("entry_bit", "1"),
        inserted_bit: options.is("inserted_bit", "1"),
        promote_at: if options.is("promote_at", "fault") {
            PromoteAt::Fault
        } else {
            PromoteAt::SwapOut
        },
        slot_on_swapin,
        bit_epoch: options.number("bit_epoch").map(|epoch| (epoch as u64).max(1)),
        hand: setup.hand(),
    });
    let keeps_slow_copy = options.is("flash_copy_on_promotion", "keep");
    (placement, Rules { slot_on_swapin, keeps_slow_copy, ..setup.rules() })
}
