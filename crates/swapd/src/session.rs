//! A server from its start to its end: checks, tiers, carrier, swap area, and back.
//!
//! Contract: everything that can be refused is asked for before the area is in use, and what was made until then
//! goes with this process. From then on the pages of programs are here, so the session ends only by [`Session::end`]
//! or with the process.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, ErrorKind};
use std::os::fd::OwnedFd;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use devices::{Device, Latency};
use linux::disk_queue::DiskQueue;
use linux::gauge::Gauge;
use linux::page_buffers::PageBuffers;
use linux::{Root, process, swap};
use policy::placement::Latencies;
use policy::tiers::{LiveRequest, Served as Built};
use rustix::io::{Errno, pread, pwrite};
use trace::recording::About as Head;

use crate::area::{self, ServedArea};
use crate::carrier::fuse::FuseCarrier;
use crate::carrier::{Carrier, SLOT_BYTES};
use crate::emulation::{Emulated, Figures};
use crate::engine::{CLUSTER_BYTES, Control, Engine, Parts, Settings};
use crate::record::{self, Entry, MovesFile, RecordingFile, RecordingThread, Sink};
use crate::statistics::{Serving as About, Statistics};
use crate::store::{FastStore, open_slow};
use crate::{Error, protection, undo};

/// Frames beyond those that the policy fills, for moves in flight.
const SPARE_FRAMES: usize = 256;
/// Buffers for requests to the slow tier.
const DISK_BUFFERS: usize = 32;
/// Requests to the slow tier in flight.
const DISK_REQUESTS: usize = 64;
/// Memory that has to stay available beside the fast tier.
const SPARE_BYTES: u64 = 64 << 20;
/// Reads and writes that measure the slow tier.
const PROBES: usize = 64;
/// A page copied within memory, for policies that weigh latencies.
const FAST_NS: f64 = 1000.0;

/// What to serve.
#[derive(Clone, Debug)]
pub struct AreaPlan {
    /// Slots of the area.
    pub slots: u32,
    /// Bytes of the fast tier.
    pub fast_bytes: u64,
    /// The file or block device of the slow tier.
    pub slow: PathBuf,
    /// The name of the policy.
    pub policy: String,
    /// The options of the policy.
    pub options: BTreeMap<String, String>,
    /// The priority of the area.
    pub priority: i32,
    /// Whether to check each page's checksum.
    pub has_checksums: bool,
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

/// The disk of the slow tier, the carrier of this kernel.
type Served = Parts<FuseCarrier, DiskQueue>;
/// The thread that serves.
type Serving = JoinHandle<Result<(), Error>>;

/// A server at work.
pub struct Session {
    area: ServedArea,
    control: Arc<Control>,
    serving: Serving,
    recording: Option<RecordingThread>,
    /// What is counted.
    pub statistics: Arc<Statistics>,
    /// What is served.
    pub about: About,
    /// The device that programs see.
    pub device: PathBuf,
    /// What the kernel refused; the server works without it.
    pub notes: Vec<String>,
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
    /// process call [`area::enable`] with the device, its bytes and the priority.
    ///
    /// # Errors
    /// The plan is invalid, or the operating system refuses; then there is no area, and nothing else is left.
    pub fn start(
        root: &Root,
        plan: &AreaPlan,
        enable: impl FnOnce(&Path, u64, i32) -> Result<(), Error>,
    ) -> Result<Session, Error> {
        let frames = frames(plan)?;
        // Names and options are checked before any work, so the latencies do not matter yet.
        let unknown =
            Latencies { slow_read: 1e5, slow_write: 1e5, fast_read: 1e3, fast_write: 1e3 };
        build(plan, frames, unknown)?;
        undo::left(root)?;
        check_machine(root, plan)?;
        let slow = open_slow(&plan.slow, plan.slots, false)?;
        let measured = probe(&slow.file, plan.slots)?;
        let [emulated_fast, emulated_slow] = emulations(&plan.emulated, measured)?;
        let latencies = weighed(&plan.weighed, weighed(&plan.emulated, measured));
        let built = build(plan, frames, latencies)?;
        let mut tiers = built.tiers;
        tiers.grow(plan.slots as usize);
        let options = built.options.into_iter().map(|(name, value)| (name.to_owned(), value));
        let about = About {
            through: "fuse".to_owned(),
            policy: plan.policy.clone(),
            options: options.collect(),
            size_bytes: u64::from(plan.slots) * SLOT_BYTES as u64,
            fast_bytes: frames * SLOT_BYTES as u64,
        };
        let slots = plan.slots as usize;
        let fast = FastStore::new(slots, frames as usize + SPARE_FRAMES, plan.has_checksums)?;
        let disk = DiskQueue::new(slow.file, DISK_BUFFERS, CLUSTER_BYTES, DISK_REQUESTS)?;
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
        let statistics = Arc::new(Statistics::default());
        let (carrier, area) =
            area::make(root, plan.slots).map_err(|error| area::no_carrier(&error))?;
        let device = carrier.device().to_owned();
        let parts = Parts {
            carrier,
            disk,
            fast,
            tiers,
            emulated_fast,
            emulated_slow,
            statistics: Arc::clone(&statistics),
            recorder,
        };
        let control = Arc::new(Control::new()?);
        let (notes, refused) = channel();
        let serving = serve(parts, Arc::clone(&control), notes)?;
        let mut notes = protection::of_process(root);
        // The thread has protected itself once it has sent this.
        notes.extend(refused.recv().unwrap_or_default());
        let mut session =
            Session { area, control, serving, recording, statistics, about, device, notes };
        match session.area.on(|device, bytes| enable(device, bytes, plan.priority)) {
            Ok(()) => Ok(session),
            Err(error) => {
                session.end_serving(swap_off)?;
                Err(error)
            }
        }
    }

    /// Whether the thread that serves has ended, which it does only after an error.
    pub fn has_failed(&self) -> bool {
        self.serving.is_finished()
    }

    /// Ends the session: disables the area by `swapoff`, which another process does (see [`ServedArea`]), and stops
    /// serving. If the area cannot be disabled, the session goes on.
    ///
    /// # Errors
    /// The area cannot be disabled now. After a failure of the thread that serves, its error.
    pub fn end(
        mut self,
        swapoff: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<(), (Option<Box<Session>>, Unended)> {
        if !self.has_failed() {
            match self.area.missing_bytes() {
                Ok(0) => {}
                Ok(bytes) => return Err((Some(Box::new(self)), Unended::Missing(bytes))),
                Err(error) => return Err((Some(Box::new(self)), Unended::Refused(error))),
            }
            if let Err(error) = self.area.off(swapoff) {
                return Err((Some(Box::new(self)), Unended::Refused(error)));
            }
            // Nothing is left to disable.
            return self.end_serving(|_| Ok(())).map_err(|error| (None, Unended::Refused(error)));
        }
        self.end_serving(swap_off).map_err(|error| (None, Unended::Refused(error)))
    }

    fn end_serving(
        mut self,
        swapoff: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let disabled = self.area.off(swapoff);
        self.control.end();
        let served = self.serving.join().unwrap_or_else(|panic| resume_unwind(panic));
        let recorded = self.recording.map_or(Ok(()), RecordingThread::finish);
        served.and(disabled).and(recorded)
    }
}

fn swap_off(device: &Path) -> Result<(), Error> {
    Ok(swap::off(device)?)
}

/// Frames of the fast tier.
fn frames(plan: &AreaPlan) -> Result<u64, Error> {
    let bytes = plan.fast_bytes;
    let frames = bytes / SLOT_BYTES as u64;
    match bytes % SLOT_BYTES as u64 {
        0 if (1..=u64::from(plan.slots)).contains(&frames) => Ok(frames),
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
    };
    policy::tiers::serve(&request).map_err(Error::Usage)
}

fn check_machine(root: &Root, plan: &AreaPlan) -> Result<(), Error> {
    if !process::is_root() {
        return Err(Error::Refused("swapd needs root: it makes a swap area".to_owned()));
    }
    if !plan.may_be_alone && !area::is_another_there(root)? {
        return Err(Error::Refused(ALONE.to_owned()));
    }
    protection::check_groups(root)?;
    let wanted = plan.fast_bytes + SPARE_BYTES;
    match Gauge::open(root, None)?.read(false) {
        Some(memory) if memory.available < wanted => Err(Error::Refused(format!(
            "a fast tier of {} MiB does not fit: {} MiB of memory are available, and {} MiB should stay; \
             choose a smaller --fast",
            plan.fast_bytes >> 20,
            memory.available >> 20,
            SPARE_BYTES >> 20
        ))),
        _ => Ok(()),
    }
}

/// Why an area is refused that would be the machine's only one.
const ALONE: &str = "this would be the machine's only swap area. Through fuse, the kernel needs memory to reach the \
    server: if no page is free and no other area takes pages, the machine can stall; and if the server is killed, \
    the pages it held are lost. Add another area (a swap file or zram), or accept this with --only-swap";

/// The median times of reads and writes of a page, spread over the slow tier. Its content is void.
fn probe(file: &OwnedFd, slots: u32) -> Result<Latencies, Error> {
    let mut page = PageBuffers::new(1, SLOT_BYTES)?;
    let refused = |error: Errno| Error::refused("measure the slow tier", error);
    let offset = |number: usize| {
        let step = (u64::from(slots) / PROBES as u64).max(1);
        (number as u64 * step % u64::from(slots)) * SLOT_BYTES as u64
    };
    let (mut reads, mut writes) = ([0.0; PROBES], [0.0; PROBES]);
    for number in 0..PROBES {
        let begun = Instant::now();
        pwrite(file, page.get(0), offset(number)).map_err(refused)?;
        writes[number] = begun.elapsed().as_nanos() as f64;
        let begun = Instant::now();
        pread(file, page.get_mut(0), offset(number)).map_err(refused)?;
        reads[number] = begun.elapsed().as_nanos() as f64;
    }
    let median = |times: &mut [f64; PROBES]| {
        times.sort_by(f64::total_cmp);
        times[PROBES / 2]
    };
    let (slow_read, slow_write) = (median(&mut reads), median(&mut writes));
    Ok(Latencies { slow_read, slow_write, fast_read: FAST_NS, fast_write: FAST_NS })
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
    control: Arc<Control>,
    notes: Sender<Vec<String>>,
) -> Result<Serving, Error> {
    let thread = thread::Builder::new().name("serve".to_owned());
    let serving = thread.spawn(move || {
        let _ = notes.send(protection::of_thread());
        let mut engine = Engine::new(parts, &Settings::default());
        engine.serve(&control)
    });
    serving.map_err(|error| Error::refused("start a thread", error))
}
