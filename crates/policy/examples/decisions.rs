//! Decides 4.6 million requests in every architecture, for `tests/decision_instructions.c`, which counts the
//! instructions and addresses of each decision. Prints the name of each architecture, with the option that was set,
//! in order.

use policy::placement::Latencies;
use policy::tiers::{Area, CATALOG, Live, LiveRequest, Moves, Request, Values, serve};
use std::collections::BTreeMap;
use std::hint::black_box;
use testkit::generate::SplitMix;
use types::PageId;

/// 2 GiB of swap.
const SLOTS: u64 = 1 << 19;
/// 512 MiB of the fast tier.
const FRAMES: u64 = 1 << 17;

/// The counter finds these functions by their names.
#[inline(never)]
fn form_begins(name: &str) {
    println!("{name}");
    black_box(name);
}

#[inline(never)]
fn decision_begins(slot: u32) {
    black_box(slot);
}

/// Differs from `decision_begins`, or the compiler would make one function of both.
#[inline(never)]
fn decision_ends(slot: u32) {
    black_box(!slot);
}

fn decide(tiers: &mut dyn Live, request: Request, slot: u64, moves: &mut Moves) {
    let slot = black_box(slot as u32);
    decision_begins(slot);
    tiers.on(request, PageId(slot), moves);
    decision_ends(slot);
}

fn replay(tiers: &mut dyn Live) {
    let (out, mut moves) = (Request::Out { is_dirty: true }, Moves::default());
    let mut random = SplitMix(3);
    tiers.grow(SLOTS as usize);
    // All slots are written in order twice, then read in order, so that every bit in the fast tier is set.
    for request in [out, out, Request::In, out] {
        (0..SLOTS).for_each(|slot| decide(tiers, request, slot, &mut moves));
    }
    for _ in 0..SLOTS {
        let slot = random.below(SLOTS).min(random.below(SLOTS));
        let request = match random.below(40) {
            0 => Request::Void,
            1..20 => out,
            _ => Request::In,
        };
        decide(tiers, request, slot, &mut moves);
    }
    // Reads of the same part until all of it is in the fast tier, then writes elsewhere.
    for _ in 0..4 {
        (0..FRAMES).for_each(|slot| decide(tiers, Request::In, slot, &mut moves));
    }
    (FRAMES..SLOTS).for_each(|slot| decide(tiers, out, slot, &mut moves));
    // Fewer frames than are used, so that a request finds two victims, as with `--compress`.
    tiers.set_capacity(FRAMES / 2);
    for request in [out, Request::In] {
        (0..SLOTS).for_each(|slot| decide(tiers, request, slot, &mut moves));
    }
}

fn main() {
    let latencies =
        Latencies { slow_read: 90e3, slow_write: 40e3, fast_read: 4e3, fast_write: 5e3 };
    for row in CATALOG {
        let defaults = std::iter::once(None);
        let values = row.options.iter().flat_map(|option| {
            let number = matches!(option.values, Values::WordOrNumber(..)).then_some("5");
            let words = option.values.words().into_iter().chain(number);
            words.filter(|word| *word != option.default).map(|word| Some((option.name, word)))
        });
        for set in defaults.chain(values) {
            let options: BTreeMap<String, String> =
                set.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
            let request = LiveRequest {
                architecture: row.name,
                profile: None,
                options: &options,
                capacity: FRAMES,
                latencies,
                area: Area::Swap,
            };
            // A value that a block device cannot offer is refused.
            let Ok(mut served) = serve(&request) else { continue };
            let option = set.map_or(String::new(), |(name, value)| format!(" {name}={value}"));
            form_begins(&format!("{}{option}", row.name));
            replay(&mut *served.tiers);
        }
    }
    form_begins("end");
}
