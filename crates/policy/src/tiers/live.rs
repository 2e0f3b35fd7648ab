//! Tiers for a server of swap requests: what a block device or zram can do, behind one type for every placement.

use super::architecture::Setup;
use super::catalog::{Build, CATALOG, build};
use super::moves::{Move, Moves, Request};
use super::options::Effective;
use super::two_tiers::{Rules, TwoTiers};
use crate::placement::{Latencies, Placement};
use std::collections::BTreeMap;
use types::PageId;

/// Tiers that serve requests. One thread owns them.
pub trait Live: Send {
    /// Makes room for slots below `slots`; nothing is allocated afterwards.
    fn grow(&mut self, slots: usize);
    /// Makes known which tiers hold a slot, before its first request: a server takes over from another.
    fn restore(&mut self, slot: PageId, has_frame: bool, is_slow: bool);
    /// Decides what a request moves; `moves` is replaced.
    fn on(&mut self, request: Request, slot: PageId, moves: &mut Moves);
    /// Reports that a move was done.
    fn done(&mut self, moved: Move);
    /// Reports that a move failed; `moves` is replaced by what must be done instead
    /// ([`TwoTiers::failed`]).
    fn failed(&mut self, failed: Move, moves: &mut Moves);
    /// Moves that were neither done nor failed yet.
    fn in_flight(&self) -> u64;
    /// Frames of the fast tier that hold a page.
    fn frames_used(&self) -> u64;
    /// Frames of the fast tier that may hold a page.
    fn capacity(&self) -> u64;
    /// Lets this many frames hold a page from now on, at most those that the tiers were built for
    /// ([`TwoTiers::set_capacity`]).
    fn set_capacity(&mut self, frames: u64);
}

/// What the tiers serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// A swap area on a block device: a slot keeps its content when it is read.
    Swap,
    /// A swap area on zram: a read frees the slot.
    Zram,
    /// The blocks of a device, which is the slow tier. Every write goes to it, so the fast tier holds only copies.
    Device,
}

/// What to build.
#[derive(Clone, Debug)]
pub struct LiveRequest<'a> {
    /// Name of the architecture.
    pub architecture: &'a str,
    /// Named set of options, if any.
    pub profile: Option<&'a str>,
    /// Options set by hand, by name.
    pub options: &'a BTreeMap<String, String>,
    /// Frames of the fast tier; the most, if [`Live::set_capacity`] changes them.
    pub capacity: u64,
    /// Time of each operation on a page, in nanoseconds; for architectures that decide by latency.
    pub latencies: Latencies,
    /// What the tiers serve.
    pub area: Area,
}

/// Tiers that serve requests, with every option in effect.
pub struct Served {
    /// Every option of the architecture with its value in effect.
    pub options: BTreeMap<&'static str, String>,
    /// The tiers.
    pub tiers: Box<dyn Live>,
}

/// Values of options that a block device cannot offer, with the reason.
const NEEDS_A_KERNEL: &[(&str, &str, &str)] = &[
    (
        "victims_in_memory",
        "drop",
        "the kernel may drop a page that it read and did not change, and read its slot again: the data \
         would be lost. Use write",
    ),
    (
        "slot_on_swapin",
        "free",
        "the kernel may read a slot again until it discards it, so no read may void a copy. Use keep",
    ),
    (
        "on_hit",
        "move",
        "the kernel may read a slot again until it discards it, so a read may not free the only copy. \
         Use keep",
    ),
];

/// Values of options that make no sense for a device whose content is the slow tier, with the reason.
const NEEDS_EVICTIONS: &[(&str, &str, &str)] = &[
    (
        "admit_at",
        "swapout",
        "a file system drops a clean page without a request, so no eviction is seen. Use fault",
    ),
    (
        "flash_copy_on_promotion",
        "free",
        "the device keeps every block, so its copy is never void. Use keep",
    ),
    (
        "fill_on_read_miss",
        "no",
        "only reads fill the fast tier, since every write goes to the device. Use yes",
    ),
    (
        "promote_at",
        "swapout",
        "only reads fill the fast tier, since every write goes to the device. Use fault",
    ),
    (
        "clock_reinsert",
        "swapout",
        "only reads fill the fast tier, since every write goes to the device. Use fault",
    ),
];

/// Values of options that an area cannot offer whose slots are freed by reads, with the reason. A page that is read is
/// in memory only, so it leaves its tier.
const NEEDS_KEPT_SLOTS: &[(&str, &str, &str)] = &[
    ("slot_on_swapin", "keep", "the kernel frees the slot of a page that it reads. Use free"),
    (
        "fill_on_read_miss",
        "yes",
        "a page that is read from the slow tier cannot enter the fast one, since the kernel frees its slot. Use no",
    ),
    (
        "clock_reinsert",
        "fault",
        "a page that is read from the slow tier cannot enter the fast one, since the kernel frees its slot. Use \
         swapout",
    ),
];

/// Architectures that know a page by its slot when it comes back.
const KNOWS_PAGES_BY_SLOT: &[&str] = &["hybrid", "nvm-cache", "adaptive"];

/// Builds tiers that a server of requests drives.
///
/// # Errors
/// An unknown architecture, option, value or profile; an architecture or value that the area cannot offer, with the
/// reason.
pub fn serve(request: &LiveRequest<'_>) -> Result<Served, String> {
    let name = request.architecture;
    let Some(architecture) = CATALOG.iter().find(|row| row.name == name) else {
        let names: Vec<&str> = CATALOG.iter().map(|row| row.name).collect();
        let names = names.join(", ");
        return Err(match name {
            "clairvoyant" => format!("clairvoyant must know the future; choose one of {names}"),
            _ => format!("no architecture '{name}'; known are {names}"),
        });
    };
    let (rows, profiles) = (architecture.options, architecture.profiles);
    let options = Effective::resolve(name, rows, profiles, request.profile, request.options)?;
    let LiveRequest { capacity, latencies, area, .. } = *request;
    let (below, refused) = match area {
        Area::Swap => ("a block device", NEEDS_A_KERNEL),
        Area::Device if name == "priority" => {
            return Err(
                "a served device cannot do priority: only writes fill its fast tier, and every write goes to the \
                 device. Use nvm-cache or hierarchical"
                    .to_owned(),
            );
        }
        Area::Device => ("a served device", NEEDS_EVICTIONS),
        Area::Zram if KNOWS_PAGES_BY_SLOT.contains(&name) => {
            return Err(format!(
                "zram cannot do {name}: it knows a page by its slot when the page comes back, and the kernel frees the \
                 slot of a page that it reads. Use hierarchical, hybrid-clock, priority or flash"
            ));
        }
        Area::Zram => ("zram", NEEDS_KEPT_SLOTS),
    };
    let of_kernel = if area == Area::Device { NEEDS_A_KERNEL } else { &[] };
    for (option, value, reason) in refused.iter().chain(of_kernel) {
        if options.has(option, value) {
            return Err(format!("{name}: {below} cannot do {option}={value}: {reason}"));
        }
    }
    let setup = Setup { capacity, latencies, options: &options, is_live: true };
    let tiers = build(name, &setup, Boxed { writes_through: area == Area::Device })
        .expect("the catalog has this name");
    Ok(Served { options: options.into_values(), tiers })
}

struct Boxed {
    writes_through: bool,
}

impl Build for Boxed {
    type Made = Box<dyn Live>;

    fn build<P: Placement + Send + 'static>(self, placement: P, rules: Rules) -> Box<dyn Live> {
        let rules = Rules { writes_through: self.writes_through, ..rules };
        Box::new(Counted { tiers: TwoTiers::new(placement, rules), in_flight: 0 })
    }
}

/// Tiers and the number of their moves in flight.
struct Counted<P> {
    tiers: TwoTiers<P>,
    in_flight: u64,
}

impl<P: Placement + Send> Live for Counted<P> {
    fn grow(&mut self, slots: usize) {
        self.tiers.grow(slots);
    }

    fn restore(&mut self, slot: PageId, has_frame: bool, is_slow: bool) {
        self.tiers.restore(slot, has_frame, is_slow);
    }

    fn on(&mut self, request: Request, slot: PageId, moves: &mut Moves) {
        self.tiers.on(request, slot, moves);
        self.in_flight += moves.len() as u64;
    }

    fn done(&mut self, _moved: Move) {
        self.in_flight -= 1;
    }

    fn failed(&mut self, failed: Move, moves: &mut Moves) {
        self.tiers.failed(failed, moves);
        self.in_flight = self.in_flight - 1 + moves.len() as u64;
    }

    fn in_flight(&self) -> u64 {
        self.in_flight
    }

    fn frames_used(&self) -> u64 {
        self.tiers.used()
    }

    fn capacity(&self) -> u64 {
        self.tiers.capacity()
    }

    fn set_capacity(&mut self, frames: u64) {
        self.tiers.set_capacity(frames);
    }
}
