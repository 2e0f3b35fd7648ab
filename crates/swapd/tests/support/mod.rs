//! A kernel, a disk and a model of all content, for tests of the engine.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod disk;
pub mod kernel;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use policy::placement::Latencies;
use policy::tiers::{Area, Live, LiveRequest, serve};
use swapd::engine::{Control, Engine, Parts, Settings};
use swapd::statistics::Statistics;
use swapd::store::{Algorithm, Disk, FastStore, FramesIn, Room};

use disk::Content;
use kernel::{Kernel, Load};

/// Frames beyond those that the placement fills.
pub const SPARE: usize = 4;

/// Tiers of an architecture for `slots` slots.
pub fn tiers(architecture: &str, frames: u64, slots: usize) -> Box<dyn Live> {
    tiers_of(Area::Swap, architecture, &[], frames, slots)
}

fn tiers_of(
    area: Area,
    architecture: &str,
    options: &[(&str, &str)],
    frames: u64,
    slots: usize,
) -> Box<dyn Live> {
    let options: BTreeMap<String, String> =
        options.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let request = LiveRequest {
        architecture,
        profile: None,
        options: &options,
        capacity: frames,
        latencies: Latencies { slow_read: 90e3, slow_write: 40e3, fast_read: 4e3, fast_write: 5e3 },
        area,
    };
    let mut tiers = serve(&request).unwrap().tiers;
    tiers.grow(slots);
    tiers
}

/// An engine that serves `load` with `frames` frames and few buffers.
pub fn parts<D: Disk>(
    architecture: &str,
    load: Load,
    frames: usize,
    disk: D,
    has_checksums: bool,
) -> (Parts<Kernel, D>, Arc<Control>) {
    parts_with(architecture, load, frames, (disk, None), has_checksums)
}

/// An engine whose fast tier may lie on the second disk, which has a block for each frame and spare frame.
pub fn parts_with<D: Disk>(
    architecture: &str,
    load: Load,
    frames: usize,
    (disk, fast_disk): (D, Option<D>),
    has_checksums: bool,
) -> (Parts<Kernel, D>, Arc<Control>) {
    let frames_in = if fast_disk.is_some() { FramesIn::Disk } else { FramesIn::Memory };
    parts_in(architecture, load, (frames, frames_in), (disk, fast_disk), has_checksums)
}

/// An engine whose fast tier is compressed, with the memory of `pages` pages.
pub fn parts_compressed<D: Disk>(
    architecture: &str,
    load: Load,
    (pages, algorithm): (usize, Algorithm),
    disk: D,
    has_checksums: bool,
) -> (Parts<Kernel, D>, Arc<Control>) {
    let frames = (4 * pages).min(load.slots as usize);
    let frames_in = FramesIn::Pool { algorithm, pages };
    parts_in(architecture, load, (frames, frames_in), (disk, None), has_checksums)
}

/// An engine that serves `device`, whose content it does not have from the start.
pub fn parts_of_device<D: Disk>(
    (architecture, options): (&str, &[(&str, &str)]),
    load: Load,
    (frames, frames_in): (usize, FramesIn),
    (disk, fast_disk): (D, Option<D>),
    device: Content,
) -> (Parts<Kernel, D>, Arc<Control>) {
    let disks = (disk, fast_disk);
    let (mut parts, control) = parts_in("hierarchical", load, (frames, frames_in), disks, true);
    parts.area = Area::Device;
    parts.fast.find_all_slow();
    parts.carrier.use_device(device);
    let slots = load.slots as usize;
    parts.tiers = tiers_of(Area::Device, architecture, options, frames as u64, slots);
    (parts, control)
}

fn parts_in<D: Disk>(
    architecture: &str,
    load: Load,
    (frames, frames_in): (usize, FramesIn),
    (disk, fast_disk): (D, Option<D>),
    has_checksums: bool,
) -> (Parts<Kernel, D>, Arc<Control>) {
    let slots = load.slots as usize;
    let room = Room { slots, frames, spare: SPARE, has_checksums, frames_in };
    let control = Arc::new(Control::new().unwrap());
    let parts = Parts {
        area: Area::Swap,
        carrier: Kernel::new(load, Arc::clone(&control)),
        disk,
        fast_disk,
        fast: FastStore::new(room).unwrap(),
        tiers: tiers(architecture, frames as u64, slots),
        emulated_fast: None,
        emulated_slow: None,
        statistics: Arc::new(Statistics::default()),
        recorder: None,
    };
    (parts, control)
}

/// Serves until every request of the load was answered. The settings leave little room, so that all waits occur.
pub fn run<D: Disk>(parts: Parts<Kernel, D>, control: &Control) -> Parts<Kernel, D> {
    let settings = Settings { poll: Duration::from_secs(3600), requests: 24, moves: 64 };
    let mut engine = Engine::new(parts, &settings);
    engine.serve(control).unwrap();
    let parts = engine.into_parts();
    assert_eq!(parts.tiers.in_flight(), 0, "the tiers know of moves that the engine forgot");
    parts
}
