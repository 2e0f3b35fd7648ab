//! `nvm-cache`: a small cache between memory and storage that admits pages from their second eviction
//! on (spec sheet S0.4).

use super::architecture::{Architecture, Role, Setup};
use super::options::{OptionSpec, Profile, Settings, Values, YES_NO};
use super::two_tiers::Rules;
use crate::placement::{NvmCache, NvmCacheOptions, PromoteAt, RequestTime};

const REQUEST_TIME: Values = Values::Words(&[
    ("last", "that of the page's last request: an eviction is not a request"),
    ("now", "now: an eviction counts as a request"),
]);

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "nvm-cache",
    summary: "cache that admits from the second eviction on and drops the page requested longest \
              ago",
    role: Role::System,
    decides_by_latency: false,
    options: &[
        OptionSpec {
            name: "admit_at",
            default: "swapout",
            meaning: "when a page is admitted",
            values: Values::Words(&[
                ("swapout", "at its second eviction from memory, as in the paper"),
                ("fault", "at its second read from the slow tier; what is written goes there too"),
            ]),
        },
        OptionSpec {
            name: "admit_clean",
            default: "yes",
            meaning: "whether clean pages are admitted like dirty ones",
            values: YES_NO,
        },
        OptionSpec {
            name: "ghost",
            default: "unbounded",
            meaning: "how many evicted pages are remembered; the oldest is forgotten first",
            values: Values::WordOrNumber(
                ("unbounded", "all of them"),
                "as a multiple of the fast tier's pages",
            ),
        },
        OptionSpec {
            name: "admitted_time",
            default: "last",
            meaning: "the request time of a page that is admitted",
            values: REQUEST_TIME,
        },
        OptionSpec {
            name: "overwritten_time",
            default: "last",
            meaning: "the request time of a page evicted from memory while the cache holds it",
            values: REQUEST_TIME,
        },
        OptionSpec {
            name: "on_hit",
            default: "keep",
            meaning: "what happens to the copy that a request finds",
            values: Values::Words(&[
                ("keep", "it stays: a later clean eviction costs nothing"),
                ("move", "its frame is freed"),
            ]),
        },
        OptionSpec {
            name: "remember_victims",
            default: "yes",
            meaning: "whether a page that leaves the cache is admitted again at its next eviction",
            values: YES_NO,
        },
    ],
    profiles: &[
        Profile { name: "faithful", settings: Settings::Fixed(&[]) },
        Profile { name: "practical", settings: Settings::Fixed(&[("ghost", "1")]) },
    ],
};

pub(super) fn build(setup: &Setup<'_>) -> (NvmCache, Rules) {
    let options = setup.options;
    let time = |name| {
        if options.is(name, "now") { RequestTime::Now } else { RequestTime::Last }
    };
    let capacity = setup.capacity;
    let ghosts = |multiple| (multiple * capacity as f64) as u64;
    let placement = NvmCache::new(NvmCacheOptions {
        capacity,
        admit_at: if options.is("admit_at", "fault") {
            PromoteAt::Fault
        } else {
            PromoteAt::SwapOut
        },
        admit_clean: options.is("admit_clean", "yes"),
        ghost_pages: options.number("ghost").map(ghosts),
        admitted_time: time("admitted_time"),
        overwritten_time: time("overwritten_time"),
        keeps_hit: options.is("on_hit", "keep"),
        remembers_victims: options.is("remember_victims", "yes"),
    });
    (placement, setup.rules())
}
