//! A server from its start to its end: checks, tiers, carrier, swap area, and back.
//!
//! Contract: everything that can be refused is asked for before the area is in use, and what was made until then
//! goes with this process. From then on the pages of programs are here, so the session ends only by [`Session::end`]
//! or with the process.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use devices::{Device, Latency};
use linux::disk_queue::DiskQueue;
use linux::gauge::Gauge;
use linux::{Root, process, swap};
use policy::placement::Latencies;
use policy::tiers::{Area, Live, LiveRequest, Served as Built};
use rustix::rand::{GetRandomFlags, getrandom};
use trace::recording::About as Head;
use types::PageId;

use crate::area::{self, ServedArea};
use crate::carrier::granted::{CarrierKind, GrantedCarrier};
use crate::carrier::{Carrier, NewDevice, SLOT_BYTES};
use crate::emulation::{Emulated, Figures};
use crate::engine::{CLUSTER_BYTES, Control, Engine, Parts, Settings};
use crate::guard::Guard;
use crate::handover::{self, Descriptors, Files, Handover, Inherited};
use crate::record::{self, Entry, MovesFile, Recorder, RecordingFile, RecordingThread, Sink};
use crate::statistics::{Serving as About, Statistics, Wanted};
use crate::store::{self, Algorithm, Encrypted, FastStore, FramesIn, KEY_BYTES, Room, Tier};
use crate::{Error, fresh_counts, probe, protection, undo};

/// Frames beyond those that the policy fills, for moves in flight.
const SPARE_FRAMES: usize = 256;
/// Frames of a compressed fast tier for each page of its memory: it holds at most this many times as many pages.
const FRAMES_PER_PAGE: u64 = 4;
/// What a compressed fast tier takes beside its memory, as a part of it: words of the frames and lists of what is free.
const COMPRESSED_PART: u64 = 16;
/// What the map, the orders, checksums and the policy of a served device take for each block at most: some devices are
/// large.
const SLOT_STATE_BYTES: u64 = 48;
/// Buffers for requests to a tier on a disk.
const DISK_BUFFERS: usize = 32;
/// Requests to a tier on a disk in flight: one for each buffer, and a sync for each request of the carrier.
const DISK_REQUESTS: usize = DISK_BUFFERS + 256;
/// Memory that has to stay available beside the fast tier.
const SPARE_BYTES: u64 = 64 << 20;
/// Latencies below those of every device.
const UNMEASURED: Latencies =
    Latencies { slow_read: 0.0, slow_write: 0.0, fast_read: 0.0, fast_write: 0.0 };
/// A page copied within memory, for policies that weigh latencies.
const FAST_NS: f64 = 1000.0;
/// Reading and writing a page of compressed memory (docs/swapd-tiers.md).
const LZ4_NS: [f64; 2] = [2_500.0, 7_000.0];
const ZSTD_NS: [f64; 2] = [6_500.0, 15_500.0];

/// What to serve.
#[derive(Clone, Debug)]
pub struct AreaPlan {
    /// A swap area, or a device: then the slow tier has its content.
    pub area: Area,
    /// Slots of the area.
    pub slots: u32,
    /// Bytes of the fast tier.
    pub fast_bytes: u64,
    /// The file or block device of the fast tier; none if it is memory.
    pub fast_on: Option<PathBuf>,
    /// How the fast tier is compressed, if it is.
    pub compress: Option<Algorithm>,
    /// The file or block device of the slow tier; of a served device, the one with its content.
    pub slow: PathBuf,
    /// The name of the policy.
    pub policy: String,
    /// The options of the policy.
    pub options: BTreeMap<String, String>,
    /// The priority of the area.
    pub priority: i32,
    /// Whether to check each page's checksum.
    pub has_checksums: bool,
    /// Whether to encrypt what lies on a disk.
    pub is_encrypted: bool,
    /// The carriers to try, in order.
    pub through: Vec<CarrierKind>,
    /// How long to poll for another request before sleeping.
    pub poll: Duration,
    /// Whether the area may be the only one of the machine.
    pub may_be_alone: bool,
    /// A file for the moves.
    pub moves: Option<PathBuf>,
    /// A file for the recording.
    pub record: Option<PathBuf>,
    /// The device that each tier behaves like, if it should not behave like itself.
    pub emulated: TierDevices,
    /// The devices whose latencies the policy weighs; by default the emulated ones, or those measured.
    pub weighed: TierDevices,
}

/// A device for each tier, if one was named.
#[derive(Clone, Debug, Default)]
pub struct TierDevices {
    /// The fast tier.
    pub fast: Option<Device>,
    /// The slow tier.
    pub slow: Option<Device>,
}

/// The disks of the tiers, the carrier of this kernel.
type Served = Parts<GrantedCarrier, Encrypted<DiskQueue>>;
/// The thread that serves.
pub(crate) type Serving = JoinHandle<Result<(), Error>>;

/// A server at work.
pub struct Session {
    pub(crate) serves: Area,
    pub(crate) area: ServedArea,
    pub(crate) control: Arc<Control>,
    pub(crate) serving: Serving,
    pub(crate) recording: Option<RecordingThread>,
    /// None if it could not be started; the pages of a killed server are lost then, unless the kernel serves them.
    pub(crate) guard: Option<Guard>,
    /// What is counted.
    pub statistics: Arc<Statistics>,
    /// What is served.
    pub about: About,
    /// The device that programs see.
    pub device: PathBuf,
}

/// Why a session did not end.
#[derive(Debug)]
pub enum Unended {
    /// Memory has no room for the pages of the area; this many bytes are missing.
    Missing(u64),
    /// The kernel refuses to disable the area.
    Refused(Error),
}

impl Session {
    /// Checks the plan, undoes what killed servers left, and puts the area into use by `enable`, which lets another
    /// process call [`area::enable`], or [`area::show`] for a served device, and returns the time of the way through the
    /// carrier if it has measured that.
    ///
    /// # Errors
    /// The plan is invalid, or the operating system refuses; then there is no area, and nothing else is left.
    pub fn start(
        root: &Root,
        plan: &AreaPlan,
        start_guard: &dyn Fn(&Handover) -> Result<Guard, Error>,
        enable: impl FnOnce(&Path, &AreaPlan) -> Result<Option<Duration>, Error>,
    ) -> Result<Session, Error> {
        let frames = frames(plan)?;
        // Names and options are checked before any work, so the latencies do not matter yet.
        let unknown =
            Latencies { slow_read: 1e5, slow_write: 1e5, fast_read: 1e3, fast_write: 1e3 };
        build(plan, frames, unknown)?;
        undo::left(root)?;
        check_machine(root, plan)?;
        let slots = u64::from(plan.slots);
        let slow = match plan.area {
            Area::Device => store::open_content(root, &plan.slow, plan.slots)?,
            Area::Swap | Area::Zram => store::open(root, &plan.slow, slots, Tier::Slow)?,
        };
        let fast_file = plan.fast_on.as_ref();
        let fast_file =
            fast_file.map(|path| store::open(root, path, frames + SPARE_FRAMES as u64, Tier::Fast));
        let fast_file = fast_file.transpose()?;
        let in_memory = in_memory(plan.compress);
        let measured = measured(plan, &slow, fast_file.as_ref(), frames, in_memory)?;
        let emulated = emulations(&plan.emulated, measured)?;
        let latencies = weighed(&plan.weighed, weighed(&plan.emulated, measured));
        let (tiers, about) = tiers(plan, frames, latencies)?;
        let fast = FastStore::new(room(plan, frames))?;
        if plan.area == Area::Device {
            fast.find_all_slow();
        }
        if plan.is_encrypted {
            fast.set_key(&random_key()?);
        }
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        if let Some(path) = &plan.moves {
            sinks.push(named(path, moves_file(path)?));
        }
        if let Some(path) = &plan.record {
            let head = record::about(root, &about, latencies)?;
            sinks.push(named(path, recording_file(path, &head)?));
        }
        let (recorder, recording) = match sinks.is_empty() {
            false => {
                record::begin(sinks).map(|(recorder, thread)| (Some(recorder), Some(thread)))?
            }
            true => (None, None),
        };
        let content = (plan.area == Area::Device).then_some(slow.as_fd());
        let shape = NewDevice { slots: plan.slots, content };
        let (carrier, area) = area::make(root, shape, &plan.through)?;
        let beginning = Beginning {
            carrier,
            area,
            slow,
            fast_file,
            fast,
            tiers,
            about,
            latencies,
            emulated,
            recorder,
            recording,
            takeovers: 0,
            is_encrypted: plan.is_encrypted,
            poll: plan.poll,
            serves: plan.area,
        };
        let mut session = beginning.serve(root, start_guard)?;
        let (control, statistics) = (Arc::clone(&session.control), Arc::clone(&session.statistics));
        let enable = |device: &Path| {
            if let Some(way) = enable(device, plan)? {
                let way_ns = way.as_nanos() as u64;
                control.set_carrier_ns(way_ns);
                statistics.carrier_ns.set(way_ns);
            }
            Ok(())
        };
        let enabled = match plan.area {
            Area::Device => session.area.show(enable),
            Area::Swap | Area::Zram => session.area.on(enable),
        };
        match (enabled, plan.area) {
            (Ok(()), _) => Ok(session),
            (Err(error), Area::Device) => {
                session.end_serving(|_| Ok(()))?;
                Err(error)
            }
            (Err(error), _) => {
                session.end_serving(swap_off)?;
                Err(error)
            }
        }
    }

    /// Goes on with the area of a server that was killed: this process is its guard, and has inherited what
    /// `handover` names. The area stays in use meanwhile.
    ///
    /// # Errors
    /// The plan is not that of the server, or the operating system refuses; then the area's pages are lost.
    pub fn take_over(
        root: &Root,
        plan: &AreaPlan,
        handover: &Handover,
        start_guard: &dyn Fn(&Handover) -> Result<Guard, Error>,
    ) -> Result<Session, Error> {
        let frames = frames(plan)?;
        let inherited = handover.take(root, plan.slots)?;
        // After an error the carrier goes before its device.
        let Inherited { area, carrier, latencies, .. } = inherited;
        let (slow, fast_file) = (inherited.slow, inherited.fast);
        let fast = FastStore::of(inherited.frames, room(plan, frames))?;
        let (mut tiers, about) = tiers(plan, frames, latencies)?;
        for slot in 0..plan.slots {
            let copies = fast.copies(slot);
            if copies.frame.is_some() || copies.is_slow {
                tiers.restore(PageId(slot), copies.frame.is_some(), copies.is_slow);
            }
        }
        // The real device was measured against the emulated one at the first start.
        let emulated = emulations(&plan.emulated, UNMEASURED)?;
        let beginning = Beginning {
            carrier,
            area,
            slow,
            fast_file,
            fast,
            tiers,
            about,
            latencies,
            emulated,
            recorder: None,
            recording: None,
            takeovers: handover.takeovers,
            is_encrypted: plan.is_encrypted,
            poll: plan.poll,
            serves: plan.area,
        };
        beginning.serve(root, start_guard)
    }

    /// Tells the guard which command this server runs.
    pub fn say_command(&mut self, process: u32, start: u64) {
        if let Some(guard) = &mut self.guard {
            guard.say_command(process, start);
        }
    }

    /// Whether the thread that serves has ended, which it does only after an error.
    pub fn has_failed(&self) -> bool {
        self.serving.is_finished()
    }

    /// Ends the session: disables the area by `swapoff`, which another process does (see [`ServedArea`]), and stops
    /// serving. If the area cannot be disabled, the session goes on. For a served device, `swapoff` makes sure that
    /// nothing uses it ([`area::check_unused`]).
    ///
    /// # Errors
    /// The area cannot be disabled now. After a failure of the thread that serves, its error.
    pub fn end(
        mut self,
        swapoff: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<(), (Option<Box<Session>>, Unended)> {
        if !self.has_failed() {
            let missing = match self.serves {
                Area::Device => Ok(0),
                Area::Swap | Area::Zram => self.area.missing_bytes(),
            };
            match missing {
                Ok(0) => {}
                Ok(bytes) => return Err((Some(Box::new(self)), Unended::Missing(bytes))),
                Err(error) => return Err((Some(Box::new(self)), Unended::Refused(error))),
            }
            if let Err(error) = self.off(swapoff) {
                return Err((Some(Box::new(self)), Unended::Refused(error)));
            }
            // Nothing is left to disable.
            return self.end_serving(|_| Ok(())).map_err(|error| (None, Unended::Refused(error)));
        }
        self.end_failed().map_err(|error| (None, Unended::Refused(error)))
    }

    /// Ends a session whose thread has failed: its pages are lost. The guard ends first, and with it what keeps the
    /// connection to the kernel, so that requests fail rather than wait.
    fn end_failed(mut self) -> Result<(), Error> {
        if let Some(guard) = self.guard.take() {
            guard.finish();
        }
        let served = self.serving.join().unwrap_or_else(|panic| resume_unwind(panic));
        let disabled = self.area.off_without_server();
        let recorded = self.recording.map_or(Ok(()), RecordingThread::finish);
        served.and(disabled).and(recorded)
    }

    /// Disables the area. The guard ends before the loop device is closed, so that it keeps neither.
    fn off(&mut self, swapoff: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
        let guard = &mut self.guard;
        self.area.off(|device| {
            swapoff(device)?;
            if let Some(guard) = guard.take() {
                guard.finish();
            }
            Ok(())
        })
    }

    pub(crate) fn end_serving(
        mut self,
        swapoff: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let disabled = self.off(swapoff);
        if let Some(guard) = self.guard.take() {
            guard.finish();
        }
        self.control.end();
        let served = self.serving.join().unwrap_or_else(|panic| resume_unwind(panic));
        let recorded = self.recording.map_or(Ok(()), RecordingThread::finish);
        served.and(disabled).and(recorded)
    }
}

/// What a session needs to begin to serve.
struct Beginning {
    carrier: GrantedCarrier,
    area: ServedArea,
    slow: OwnedFd,
    /// The disk of the fast tier, if it has one.
    fast_file: Option<OwnedFd>,
    fast: FastStore,
    tiers: Box<dyn Live>,
    about: About,
    latencies: Latencies,
    emulated: [Option<Emulated>; 2],
    recorder: Option<Recorder>,
    recording: Option<RecordingThread>,
    takeovers: u64,
    is_encrypted: bool,
    poll: Duration,
    serves: Area,
}

impl Beginning {
    /// Starts the guard, and then the thread that serves.
    fn serve(
        self,
        root: &Root,
        start_guard: &dyn Fn(&Handover) -> Result<Guard, Error>,
    ) -> Result<Session, Error> {
        let queue = |file: &OwnedFd| {
            let file = file.try_clone();
            let file = file.map_err(|error| Error::refused("copy a descriptor", error))?;
            DiskQueue::new(file, DISK_BUFFERS, CLUSTER_BYTES, DISK_REQUESTS).map_err(Error::from)
        };
        let disk = queue(&self.slow)?;
        let fast_disk = self.fast_file.as_ref().map(queue).transpose()?;
        let control = Arc::new(Control::new()?);
        let files = Files {
            carrier: &self.carrier,
            area: &self.area,
            frames: self.fast.file(),
            slow: self.slow.as_fd(),
            fast: self.fast_file.as_ref().map(AsFd::as_fd),
        };
        let descriptors = Descriptors::of(&files, self.latencies, self.takeovers)?;
        // Started last: after an error before that, no guard would take over.
        let guard = start_guard(&descriptors.handover);
        let ready = descriptors.close();
        let device = self.carrier.device().to_owned();
        let through = self.carrier.kind().name().to_owned();
        let statistics = Arc::new(Statistics::default());
        statistics.takeovers.set(self.takeovers);
        let [emulated_fast, emulated_slow] = self.emulated;
        let key = self.is_encrypted.then(|| self.fast.key());
        let parts = Parts {
            area: self.serves,
            carrier: self.carrier,
            disk: Encrypted::new(disk, Tier::Slow, key.as_ref()),
            fast_disk: fast_disk.map(|disk| Encrypted::new(disk, Tier::Fast, key.as_ref())),
            fast: self.fast,
            tiers: self.tiers,
            emulated_fast,
            emulated_slow,
            statistics: Arc::clone(&statistics),
            recorder: self.recorder,
        };
        let (notes, refused) = channel();
        let serving = match serve(parts, self.poll, Arc::clone(&control), notes) {
            Ok(serving) => serving,
            Err(error) => {
                if let Ok(guard) = guard {
                    guard.finish();
                }
                return Err(error);
            }
        };
        let mut notes = protection::of_process(root);
        // The thread has protected itself once it has sent this.
        notes.extend(refused.recv().unwrap_or_default());
        let guard = guard.map_err(|error| notes.push(format!("a guard: {error}"))).ok();
        // The thread already serves, so the guard's start may wait for pages of an area that is in use.
        if guard.is_some() && !handover::is_kept(ready) {
            notes.push("a guard that keeps the fast tier in memory: if swapd is killed, the pages may be lost".to_owned());
        }
        if self.serves == Area::Swap {
            notes.extend(fresh_counts::keep(root, &statistics));
        }
        let (area, recording, serves) = (self.area, self.recording, self.serves);
        let about = About { through, refused: notes, ..self.about };
        Ok(Session { serves, area, control, serving, recording, guard, statistics, about, device })
    }
}

fn room(plan: &AreaPlan, frames: u64) -> Room {
    Room {
        slots: plan.slots as usize,
        frames: frames as usize,
        spare: SPARE_FRAMES,
        has_checksums: plan.has_checksums,
        frames_in: match (&plan.fast_on, plan.compress) {
            (Some(_), _) => FramesIn::Disk,
            (None, None) => FramesIn::Memory,
            (None, Some(algorithm)) => {
                let pages = plan.fast_bytes / SLOT_BYTES as u64;
                FramesIn::Pool { algorithm, pages: pages as usize }
            }
        },
    }
}

/// A key that no other server has.
fn random_key() -> Result<[u8; KEY_BYTES], Error> {
    let mut key = [0; KEY_BYTES];
    let refused = |error| Error::refused("take a random key", error);
    match getrandom(&mut key, GetRandomFlags::empty()).map_err(refused)? {
        KEY_BYTES => Ok(key),
        bytes => Err(Error::refused("take a random key", format!("only {bytes} bytes"))),
    }
}

/// The tiers of a plan, and what they serve.
pub(crate) fn tiers(
    plan: &AreaPlan,
    frames: u64,
    latencies: Latencies,
) -> Result<(Box<dyn Live>, About), Error> {
    let built = build(plan, frames, latencies)?;
    let mut tiers = built.tiers;
    tiers.grow(plan.slots as usize);
    let options = built.options.into_iter().map(|(name, value)| (name.to_owned(), value));
    let about = About {
        // Named once the carrier is granted.
        through: String::new(),
        policy: plan.policy.clone(),
        options: options.collect(),
        size_bytes: u64::from(plan.slots) * SLOT_BYTES as u64,
        fast_bytes: plan.fast_bytes,
        compress: plan.compress.map(|algorithm| algorithm.name().to_owned()),
        frames: plan.compress.map(|_| frames),
        fast_on: plan.fast_on.as_ref().map(|path| path.display().to_string()),
        serves: (plan.area == Area::Device).then(|| plan.slow.display().to_string()),
        emulated: wanted(&plan.emulated),
        refused: Vec::new(),
    };
    Ok((tiers, about))
}

fn wanted(devices: &TierDevices) -> BTreeMap<&'static str, Wanted> {
    let tiers = [("fast", &devices.fast), ("slow", &devices.slow)];
    tiers
        .into_iter()
        .filter_map(|(tier, device)| Some((tier, Wanted::of(device.as_ref()?))))
        .collect()
}

fn swap_off(device: &Path) -> Result<(), Error> {
    Ok(swap::off(device)?)
}

/// Frames of the fast tier; the most that it may use, if it is compressed.
pub(crate) fn frames(plan: &AreaPlan) -> Result<u64, Error> {
    let (bytes, slots) = (plan.fast_bytes, u64::from(plan.slots));
    let pages = bytes / SLOT_BYTES as u64;
    if plan.compress.is_some() && plan.fast_on.is_some() {
        let what =
            "--compress: a fast tier on a disk is not compressed; drop --compress or --fast-on";
        return Err(Error::Usage(what.to_owned()));
    }
    match bytes % SLOT_BYTES as u64 {
        0 if (1..=slots).contains(&pages) => Ok(match plan.compress {
            Some(_) => (pages * FRAMES_PER_PAGE).min(slots),
            None => pages,
        }),
        _ => Err(Error::Usage(format!(
            "a fast tier of {bytes} bytes: expected a multiple of {SLOT_BYTES}, at most the size of the area"
        ))),
    }
}

fn build(plan: &AreaPlan, frames: u64, latencies: Latencies) -> Result<Built, Error> {
    let request = LiveRequest {
        architecture: &plan.policy,
        profile: None,
        options: &plan.options,
        capacity: frames,
        latencies,
        area: plan.area,
    };
    policy::tiers::serve(&request).map_err(Error::Usage)
}

fn check_machine(root: &Root, plan: &AreaPlan) -> Result<(), Error> {
    if plan.fast_on.as_ref().is_some_and(|fast| store::is_same(fast, &plan.slow)) {
        return Err(Error::Usage(format!(
            "{}: both tiers are here; --fast-on and --slow need a device or file each",
            plan.slow.display()
        )));
    }
    if !process::is_root() {
        return Err(Error::Refused("swapd needs root: it makes a block device".to_owned()));
    }
    if plan.area == Area::Swap && !plan.may_be_alone && !area::is_another_there(root)? {
        return Err(Error::Refused(ALONE.to_owned()));
    }
    protection::check_groups(root)?;
    let fast_bytes = if plan.fast_on.is_some() { 0 } else { plan.fast_bytes };
    let beside = plan.compress.map_or(0, |_| fast_bytes / COMPRESSED_PART);
    let map = if plan.area == Area::Device { u64::from(plan.slots) * SLOT_STATE_BYTES } else { 0 };
    let wanted = fast_bytes + beside + map + SPARE_BYTES;
    match Gauge::open(root, None)?.read(false) {
        Some(memory) if memory.available < wanted => Err(Error::Refused(format!(
            "a fast tier of {} MiB and {} MiB beside it do not fit: {} MiB of memory are available, and {} MiB should \
             stay; choose a smaller --fast{}",
            fast_bytes >> 20,
            (beside + map) >> 20,
            memory.available >> 20,
            SPARE_BYTES >> 20,
            if map > fast_bytes { ", or a smaller device" } else { "" }
        ))),
        _ => Ok(()),
    }
}

/// Why an area is refused that would be the machine's only one.
const ALONE: &str = "this would be the machine's only swap area, and the kernel needs memory to reach its server: if no \
    page is free and no other area takes pages, the machine can stall; and if the server and its guard are both \
    killed, the pages they held are lost. Add another area (a swap file or zram), or accept this with --only-swap";

/// The times to read and write a page of a fast tier in memory.
fn in_memory(compress: Option<Algorithm>) -> [f64; 2] {
    match compress {
        None => [FAST_NS; 2],
        Some(Algorithm::Lz4) => LZ4_NS,
        Some(Algorithm::Zstd) => ZSTD_NS,
    }
}

/// The times of both tiers; `in_memory` without a disk of the fast tier.
fn measured(
    plan: &AreaPlan,
    slow: &OwnedFd,
    fast: Option<&OwnedFd>,
    frames: u64,
    in_memory: [f64; 2],
) -> Result<Latencies, Error> {
    let may_write = plan.area != Area::Device;
    let [slow_read, slow_write] =
        probe::times_ns(slow, plan.slots.into(), may_write, 0.5, "the slow tier")?;
    let [fast_read, fast_write] = match fast {
        Some(file) => probe::times_ns(file, frames, true, 0.5, "the fast tier")?,
        None => in_memory,
    };
    Ok(Latencies { slow_read, slow_write, fast_read, fast_write })
}

/// Each tier as slow as the device that was named for it.
fn emulations(devices: &TierDevices, measured: Latencies) -> Result<[Option<Emulated>; 2], Error> {
    let emulated = |device: &Option<Device>, tier: &str, read_ns: f64, write_ns: f64| {
        let Some(device) = device else { return Ok::<_, Error>(None) };
        let figures = Figures::of(device);
        figures.check(&format!("the {tier} tier"), read_ns as u64, write_ns as u64)?;
        Ok(Some(Emulated::new(figures, tier)))
    };
    let Latencies { slow_read, slow_write, fast_read, fast_write } = measured;
    let fast = emulated(&devices.fast, "fast", fast_read, fast_write)?;
    Ok([fast, emulated(&devices.slow, "slow", slow_read, slow_write)?])
}

/// The latencies of the named devices, and `others` of tiers without one.
fn weighed(devices: &TierDevices, others: Latencies) -> Latencies {
    let typical = |latency: &Latency| latency.typical_ns as f64;
    let mut latencies = others;
    if let Some(fast) = &devices.fast {
        (latencies.fast_read, latencies.fast_write) = (typical(&fast.read), typical(&fast.write));
    }
    if let Some(slow) = &devices.slow {
        (latencies.slow_read, latencies.slow_write) = (typical(&slow.read), typical(&slow.write));
    }
    latencies
}

fn moves_file(path: &Path) -> Result<MovesFile<BufWriter<File>>, Error> {
    MovesFile::new(new_file(path)?).map_err(|error| refused_file(path, &error))
}

fn recording_file(path: &Path, head: &Head) -> Result<RecordingFile<BufWriter<File>>, Error> {
    RecordingFile::new(new_file(path)?, head).map_err(|error| refused_file(path, &error))
}

/// Adds the file's name to the errors of its writes.
struct Named<S> {
    path: PathBuf,
    sink: S,
}

fn named<S: Sink + 'static>(path: &Path, sink: S) -> Box<dyn Sink> {
    Box::new(Named { path: path.to_owned(), sink })
}

impl<S> Named<S> {
    fn name(&self, error: &std::io::Error) -> std::io::Error {
        std::io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
    }
}

impl<S: Sink> Sink for Named<S> {
    fn take(&mut self, entry: Entry) -> std::io::Result<()> {
        self.sink.take(entry).map_err(|error| self.name(&error))
    }

    fn finish(&mut self) -> std::io::Result<()> {
        self.sink.finish().map_err(|error| self.name(&error))
    }
}

/// A file that did not exist: nothing of the user's is overwritten.
fn new_file(path: &Path) -> Result<BufWriter<File>, Error> {
    let file = File::create_new(path).map_err(|error| refused_file(path, &error))?;
    Ok(BufWriter::new(file))
}

fn refused_file(path: &Path, error: &std::io::Error) -> Error {
    let advice = match error.kind() {
        ErrorKind::AlreadyExists => "; choose another name, or move it",
        _ => "",
    };
    Error::Refused(format!("{}: {error}{advice}", path.display()))
}

/// Serves in a thread of its own, which sends what the kernel refused it before its first request.
fn serve(
    parts: Served,
    poll: Duration,
    control: Arc<Control>,
    notes: Sender<Vec<String>>,
) -> Result<Serving, Error> {
    let thread = thread::Builder::new().name("serve".to_owned());
    let serving = thread.spawn(move || {
        let _ = notes.send(protection::of_thread());
        let mut engine = Engine::new(parts, &Settings { poll, ..Settings::default() });
        engine.serve(&control)
    });
    serving.map_err(|error| Error::refused("start a thread", error))
}
