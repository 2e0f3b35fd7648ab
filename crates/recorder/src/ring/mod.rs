//! A recording that keeps the last minutes in memory, and writes them to a file when something happens.
//!
//! Order of events: a trigger begins a copy of the ring. A part of it is written after each look at the buffer, so that
//! no event is lost while the disk is slow. The copy continues with new events for the time `after`, longer if more
//! triggers follow. Then the ring forgets what the file has. So an event is in one file at most, and the disk gets no
//! more bytes than by a recording without a ring.

mod folder;
mod stalls;
mod triggers;

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use linux::{Root, system};
use trace::recording::{About, KeptPart, Mark, Missing, Ring, Writer};

use crate::backend::Backend;
use crate::session::{self, Meter, Options, RecordingOutcome, SAMPLE_EVERY, Stop};
use crate::{Error, bpf, sampler};
use folder::Folder;
use stalls::Stalls;
use triggers::Triggers;

pub use triggers::{Cause, PressureShare, RingTrigger};

/// Bytes that are copied between two looks at the buffer: at 20 looks a second, 40 MB a second.
const COPY_BYTES: usize = 2 << 20;

/// A kept file has at most as many bytes as the ring, and as many again for what comes after the trigger.
const FILE_PART: u64 = 2;

/// The last minutes: how many, and when they are kept.
#[derive(Clone, Debug)]
pub struct RingOptions {
    /// The time that the ring holds.
    pub length: Duration,
    /// The most bytes of memory for events.
    pub bytes: usize,
    /// What makes the ring keep its events.
    pub triggers: Vec<RingTrigger>,
    /// How long a kept file continues after the last trigger; it ends at the latest `length` after its first trigger.
    pub after: Duration,
    /// The most files of this run. After a new one, the oldest is removed.
    pub files_max: usize,
    /// Bytes that must stay free on the disk.
    pub free_bytes: u64,
}

/// The caller's side of a ring.
pub trait RingStop: Stop {
    /// Whether the user has asked to keep the events since the last call.
    fn asks_to_keep(&mut self) -> bool;

    /// Called once when the ring begins, and then when a file begins, is complete or removed, or could not be written.
    fn report(&mut self, news: &News);
}

/// What happens to kept files.
#[derive(Clone, Debug)]
pub enum News {
    /// All events are enabled. The text is the reason if the kernel's OOM killer does not spare the recorder.
    Started(Option<String>),
    /// The kernel does not report something that a trigger was to look at.
    Missing(Missing),
    /// A file was begun because of this.
    Begun(PathBuf, Cause),
    /// A file is complete.
    Kept(KeptFile),
    /// The events could not be kept, for this reason.
    NotKept(Cause, String),
    /// A file of this run was removed, because there were more than allowed.
    Removed(PathBuf),
}

/// A kept file.
#[derive(Clone, Debug)]
pub struct KeptFile {
    /// The file.
    pub path: PathBuf,
    /// What happened first.
    pub cause: Cause,
    /// Nanoseconds since 1970 of the cause.
    pub realtime_ns: i64,
    /// Nanoseconds from the beginning of the file to its cause.
    pub before_ns: u64,
    /// Nanoseconds from the cause to the end of the file.
    pub after_ns: u64,
    /// Records in the file.
    pub records: u64,
    /// Records that were lost meanwhile.
    pub lost: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Why the file ended early; what was written can be read.
    pub failure: Option<String>,
}

/// Records into a ring until `stop` is over. `options.output` is the folder of the kept files. The path of the
/// outcome and its bytes are those of no file: the ring's last events are forgotten, unless a file was being written.
///
/// # Errors
/// The kernel refuses, the folder does not exist, or the command cannot be run.
pub fn record(
    root: &Root,
    options: &Options,
    ring: &RingOptions,
    stop: &mut dyn RingStop,
) -> Result<RecordingOutcome, Error> {
    let folder = Folder::open(&options.output, ring.files_max)?;
    let triggers = Triggers::new(&ring.triggers);
    let group = options.filter.group.as_ref();
    let stalls = triggers.wants_pressure().then(|| Stalls::open(root, group)).transpose()?;
    let missing = stalls.as_ref().and_then(|stalls| stalls.missing().cloned());
    let mut object = bpf::object();
    let mut backend = session::attach(options, &mut object)?;
    let ring_ns = ring.length.as_nanos() as u64;
    // Each file has a description of its own.
    let writer =
        Writer::new(Ring::new(ring.bytes, ring_ns), &About::default()).map_err(Error::Write)?;
    session::drop_start(root);
    stop.ready(backend.absent());
    let meter = Meter::start();
    let mut session = Session {
        root,
        options,
        ring,
        backend: &mut backend,
        writer,
        triggers,
        stalls,
        folder,
        keeping: None,
        silent_until_ns: 0,
    };
    let ended = session.run(stop);
    session.end_file(None, None, stop);
    let recorded = session.writer.recorded();
    let (exit_status, failure) = match ended {
        Err(error @ Error::Command(..)) => return Err(error),
        Ok(exit_status) => (exit_status, None),
        Err(error) => (None, Some(error.to_string())),
    };
    Ok(RecordingOutcome {
        recorded,
        lost: backend.lost(),
        bytes: 0,
        duration: meter.duration(),
        cpu: meter.cpu(),
        exit_status,
        backend: backend.name(),
        absent: backend.absent().iter().cloned().chain(missing).collect(),
        failure,
    })
}

/// A ring that is recorded into.
struct Session<'a, 'object> {
    root: &'a Root,
    options: &'a Options,
    ring: &'a RingOptions,
    backend: &'a mut Backend<'object>,
    writer: Writer<Ring<File>>,
    triggers: Triggers,
    /// The stalls for memory, if a trigger needs them.
    stalls: Option<Stalls>,
    folder: Folder,
    keeping: Option<Keeping>,
    /// After a failure, triggers are ignored up to this time: a burst of kills tries only once.
    silent_until_ns: u64,
}

/// A file that is being written.
struct Keeping {
    path: PathBuf,
    /// Another handle of the file, to cut off an incomplete block.
    file: File,
    cause: Cause,
    begins_ns: u64,
    until_ns: u64,
}

impl Session<'_, '_> {
    /// Moves events from the buffer to the ring until `stop` is over; returns the exit status of the command.
    fn run(&mut self, stop: &mut dyn RingStop) -> Result<Option<i32>, Error> {
        let (root, options) = (self.root, self.options);
        self.begin_segment()?;
        session::start(stop, &options.command)?;
        stop.report(&News::Started(spare(root).err().map(|error| error.to_string())));
        if let Some(missing) = self.stalls.as_ref().and_then(Stalls::missing) {
            stop.report(&News::Missing(missing.clone()));
        }
        let group = options.filter.group.as_ref();
        let mut scene = session::watched(root, options);
        let mut next_sample = Instant::now() + SAMPLE_EVERY;
        loop {
            let over = stop.is_over();
            // Before the records, which may take long: the measurement belongs to the notices.
            if let Some(scene) = &mut scene {
                scene.look(root, self.backend.notices()?, over.is_some());
            }
            let triggers = &mut self.triggers;
            let see = |records: &[trace::recording::Record]| triggers.see_events(records);
            session::drain(self.backend, &mut self.writer, see)?;
            if let Some(scene) = &mut scene {
                scene.write(root, self.backend.notices()?, &mut self.writer)?;
            }
            let now = Instant::now();
            if over.is_some() || now >= next_sample {
                self.writer.sample(&sampler::sample(root, group)).map_err(Error::Write)?;
                if let Some(found) = self.stalls.as_mut().and_then(|stalls| stalls.read(root)) {
                    self.triggers.see_pressure(system::monotonic_ns(), &found);
                }
                next_sample = now + SAMPLE_EVERY;
            }
            if stop.asks_to_keep() {
                self.triggers.ask(system::monotonic_ns());
            }
            self.turn(stop)?;
            match over {
                Some(exit_status) => {
                    self.end_file(exit_status, None, stop);
                    return Ok(exit_status);
                }
                None => self.backend.wait()?,
            }
        }
    }

    /// Begins a segment of the ring with the processes that run now.
    fn begin_segment(&mut self) -> Result<(), Error> {
        self.writer.flush().map_err(Error::Write)?;
        let now = self.mark();
        self.writer.output_mut().begin(now);
        // A removed group has no processes.
        for record in session::names(self.root, &self.options.filter).unwrap_or_default() {
            self.writer.push(record).map_err(Error::Write)?;
        }
        self.writer.flush().map_err(Error::Write)?;
        let named = self.writer.recorded() - now.recorded;
        self.writer.output_mut().end_snapshot(named);
        let sample = sampler::sample(self.root, self.options.filter.group.as_ref());
        self.writer.sample(&sample).map_err(Error::Write)
    }

    fn mark(&self) -> Mark {
        let (recorded, lost) = (self.writer.recorded(), self.backend.lost());
        Mark { time_ns: system::monotonic_ns(), recorded, lost }
    }

    /// Forgets what is too old, and begins, continues or ends a file.
    fn turn(&mut self, stop: &mut dyn RingStop) -> Result<(), Error> {
        let now_ns = system::monotonic_ns();
        if self.writer.output_mut().is_due(now_ns) {
            self.begin_segment()?;
        }
        self.writer.output_mut().expire(now_ns);
        if let Some(cause) = self.triggers.take() {
            self.see_cause(cause, now_ns, stop);
        }
        let Some(keeping) = &self.keeping else { return Ok(()) };
        let is_late = now_ns >= keeping.until_ns;
        let ring = self.writer.output_mut();
        let copied = ring.copy(COPY_BYTES);
        let is_large = ring.copied_bytes() >= FILE_PART * self.ring.bytes as u64;
        let is_over = match copied {
            Ok(is_whole) => is_large || (is_whole && is_late),
            // The end of the file says why.
            Err(_) => true,
        };
        let early = (!self.has_room(0)).then(|| self.too_full());
        if (is_over || early.is_some()) && self.end_file(None, early, stop) {
            // The file has everything up to now, so the ring begins again.
            self.begin_segment()?;
            self.writer.output_mut().forget();
        }
        Ok(())
    }

    /// Begins a file because of `cause`, or goes on with the present one for longer.
    fn see_cause(&mut self, cause: Cause, now_ns: u64, stop: &mut dyn RingStop) {
        let until_ns = now_ns + self.ring.after.as_nanos() as u64;
        if let Some(keeping) = &mut self.keeping {
            let end_ns = keeping.cause.time_ns + self.ring.length.as_nanos() as u64;
            keeping.until_ns = keeping.until_ns.max(until_ns.min(end_ns));
            return;
        }
        if now_ns < self.silent_until_ns && cause.trigger != triggers::SIGNAL {
            return;
        }
        match self.begin_file(&cause, until_ns) {
            Ok(keeping) => {
                stop.report(&News::Begun(keeping.path.clone(), cause));
                self.keeping = Some(keeping);
            }
            Err(why) => {
                self.silent_until_ns = until_ns;
                stop.report(&News::NotKept(cause, why));
            }
        }
    }

    fn begin_file(&mut self, cause: &Cause, until_ns: u64) -> Result<Keeping, String> {
        let held = self.writer.output_mut().bytes() as u64;
        if !self.has_room(held) {
            return Err(self.too_full());
        }
        let about = self.about(cause).map_err(|error| error.to_string())?;
        let begins_ns = self.writer.output_mut().begins_ns().unwrap_or(cause.time_ns);
        let (path, file) = self.folder.create(cause).map_err(|error| error.to_string())?;
        let begun =
            file.try_clone().and_then(|output| self.writer.output_mut().begin_copy(output, &about));
        if let Err(error) = begun {
            // Without a header the file cannot be read.
            self.folder.discard_last();
            return Err(format!("{}: {error}", path.display()));
        }
        Ok(Keeping { path, file, cause: cause.clone(), begins_ns, until_ns })
    }

    /// Whether the disk has room for `bytes` and what must stay free. An unknown number is room enough.
    fn has_room(&self, bytes: u64) -> bool {
        let needed = self.ring.free_bytes.saturating_add(bytes);
        self.folder.free_bytes().map_or(true, |free| free >= needed)
    }

    fn too_full(&self) -> String {
        let bytes = self.ring.free_bytes;
        format!(
            "less than {bytes} bytes would stay free on the disk; free some space, or lower --leave-free"
        )
    }

    /// The header of a file that is kept because of `cause`.
    fn about(&mut self, cause: &Cause) -> Result<About, Error> {
        let mut about = session::about(self.root, self.options, self.backend)?;
        let ring = self.writer.output_mut();
        about.kept = Some(Box::new(KeptPart {
            begins_ns: ring.begins_ns().unwrap_or(cause.time_ns),
            trigger_ns: cause.time_ns,
            trigger: cause.trigger.to_owned(),
            process: cause.process,
            ring_ns: self.ring.length.as_nanos() as u64,
        }));
        about.absent.extend(self.stalls.as_ref().and_then(|stalls| stalls.missing().cloned()));
        if ring.names_forgotten() > 0 {
            about.absent.push(Missing {
                what: format!("paths of {} files", ring.names_forgotten()),
                why: "the ring has no room for the names of more files; give a larger --ring-bytes"
                    .to_owned(),
            });
        }
        Ok(about)
    }

    /// Ends the file that is being written, if there is one, with everything up to now; returns whether it is whole.
    /// `early` is the reason why it ends before its time.
    fn end_file(
        &mut self,
        exit_status: Option<i32>,
        early: Option<String>,
        stop: &mut dyn RingStop,
    ) -> bool {
        let Some(keeping) = self.keeping.take() else { return false };
        // Into memory, which does not fail.
        let _ = self.writer.flush();
        let now = self.mark();
        let (ending, bytes, ended) = self.writer.output_mut().end_copy(now, exit_status);
        let is_whole = ended.is_ok();
        if !is_whole || early.is_some() {
            self.silent_until_ns = now.time_ns + self.ring.after.as_nanos() as u64;
        }
        let failure = ended.err().map(|error| {
            // An incomplete block would count as a loss of its bytes.
            let _ = keeping.file.set_len(bytes);
            error.to_string()
        });
        let cause = keeping.cause;
        stop.report(&News::Kept(KeptFile {
            path: keeping.path,
            realtime_ns: cause.time_ns as i64 + system::realtime_offset_ns(),
            before_ns: cause.time_ns.saturating_sub(keeping.begins_ns),
            after_ns: ending.time_ns.saturating_sub(cause.time_ns),
            records: ending.recorded,
            lost: ending.lost,
            bytes,
            failure: failure.or(early),
            cause,
        }));
        for path in self.folder.remove_oldest() {
            stop.report(&News::Removed(path));
        }
        is_whole
    }
}

/// Asks the kernel's OOM killer to spare the recorder, which takes bounded memory and has the answer to what happens.
///
/// # Errors
/// The operating system refuses: it needs CAP_SYS_RESOURCE.
fn spare(root: &Root) -> std::io::Result<()> {
    std::fs::write(root.path("/proc/self/oom_score_adj"), "-1000")
}
