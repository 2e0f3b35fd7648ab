//! A run, from the first change of the machine until all changes are undone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use linux::cgroup::Version;
use linux::delays::Teller;
use linux::{Root, backing, groups};

use crate::application::{Application, Place};
use crate::balloon::Held;
use crate::changes::Changes;
use crate::killd::Killd;
use crate::killer::{self, Threshold};
use crate::lock::Lock;
use crate::plan::{Mode, Plan};
use crate::recording::RunningRecording;
use crate::relaunchd::Relaunchd;
use crate::results::{self, About, AboutMachine, AboutRun, Io, Visited};
use crate::schedule::Visit;
use crate::steps::{self, ChangeStep};
use crate::storage::{FileReads, Throttle};
use crate::tiers::Counters;
use crate::validity::{self, Observed, Recording, Validity};
use crate::waits::Waits;
use crate::watch::{Ended, Killer, Rules, Watch};
use crate::{Error, Preparation};

/// Reports the progress of a run.
pub trait Observer {
    /// Reports a step of the run.
    fn note(&mut self, what: &str);

    /// Reports the end of a visit, after which `left` visits remain; `why` is the reason if it was not answered.
    fn visited(&mut self, visit: &Visited, why: Option<&str>, left: usize);
}

/// The result of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// The completed visits.
    pub visits: Vec<Visited>,
    /// The duration of all visits together.
    pub duration: Duration,
    /// Whether the user ended it.
    pub is_interrupted: bool,
    /// The result of the recording, if there is one.
    pub recording: Option<recorder::RecordingOutcome>,
}

/// Runs a prepared plan; calls `is_interrupted` many times a second.
///
/// # Errors
/// The machine refuses. The results of completed visits are kept, and the changes are undone.
pub fn run(
    root: &Root,
    preparation: &Preparation,
    is_recorded: bool,
    is_interrupted: Arc<dyn Fn() -> bool + Send + Sync>,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, Error> {
    if let Some(refusal) = preparation.refusals(root)?.first() {
        return Err(Error::Refused(refusal.clone()));
    }
    let lock = Lock::take(root)?;
    let mut changes = Changes::begin(root)?;
    changes.guard(&lock)?;
    let folder = &preparation.folder;
    let make = |path: &Path| {
        fs::create_dir_all(path).map_err(|error| Error::file("created", path, &error))
    };
    make(folder)?;
    let place = Place {
        root,
        layout: preparation.layout.as_ref(),
        slowed: throttle(preparation).and_then(Throttle::entrance),
        lab: preparation.lab.clone(),
        data: folder.join("data"),
        logs: folder.join("logs"),
    };
    make(&place.logs)?;
    let begun = match begin(preparation, &place, is_recorded, &mut changes, observer) {
        Ok(begun) => begun,
        Err(error) => {
            drop(changes);
            // There was no visit yet, so remove the folders if they are empty.
            let _ = fs::remove_dir(&place.logs).and_then(|()| fs::remove_dir(folder));
            return Err(error);
        }
    };
    let outcome = tour(preparation, &place, begun, is_interrupted, observer);
    observer.note("undo all changes");
    changes.undo()?;
    outcome
}

/// Makes the visits, and writes the description of the run.
fn tour(
    preparation: &Preparation,
    place: &Place,
    begun: Begun,
    is_interrupted: Arc<dyn Fn() -> bool + Send + Sync>,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, Error> {
    let Begun { mut recording, balloon, killer, relaunchd, backed_bytes, file_reads, observed } =
        begun;
    let mut tour = Tour::new(preparation, place, killer, balloon, is_interrupted)?;
    tour.relaunchd = relaunchd;
    tour.about.backed_bytes = backed_bytes;
    tour.about.file_reads = file_reads;
    let toured = tour.make(observer);
    let seen = observed.end(place.root, place.layout.memory());
    // End the recording before the applications: their end is not part of the experiment.
    let recorded = recording.as_mut().map_or(Ok(None), RunningRecording::finish);
    let visits = std::mem::take(&mut tour.visits);
    let duration = tour.began.elapsed();
    let is_interrupted = toured.is_ok() && visits.len() < preparation.visits.len();
    let reason = match &toured {
        Err(error) => error.to_string(),
        Ok(()) if is_interrupted => "interrupted".to_owned(),
        Ok(()) => COMPLETE.to_owned(),
    };
    // Judging reads the whole recording; a run that is killed meanwhile is complete all the same.
    tour.describe(&visits, duration, &reason)?;
    let judged = seen.and_then(|seen| {
        let path = preparation.folder.join(RECORDING);
        let recording = match &recorded {
            Ok(None) => Recording::None,
            Ok(Some(made)) => Recording::Made { path: &path, lost: made.lost },
            Err(error) => Recording::Failed(error.to_string()),
        };
        let processes = tour.watch.processes().into_iter().map(|process| process.number).collect();
        let load = validity::load(place.root)?;
        Validity::of(seen, load, &recording, &processes, reason == COMPLETE)
    });
    tour.validity = judged.as_ref().ok().cloned();
    tour.describe(&visits, duration, &reason)?;
    drop(tour);
    toured?;
    judged?;
    Ok(RunOutcome { visits, duration, is_interrupted, recording: recorded? })
}

/// The reason for the end of a complete run.
const COMPLETE: &str = "complete";

/// The name of the recording in the folder of a run.
const RECORDING: &str = "recording.pgr";

/// The companions of the visits: recording, balloon, killer and relaunchd.
struct Begun {
    recording: Option<RunningRecording>,
    balloon: Option<Held>,
    killer: Option<Killer>,
    relaunchd: Option<Relaunchd>,
    backed_bytes: u64,
    file_reads: Option<FileReads>,
    /// The kernel's counters before the visits.
    observed: Observed,
}

/// How the run slows down reads of files.
fn throttle(preparation: &Preparation) -> Option<&Throttle> {
    preparation.steps.iter().find_map(|step| match step {
        ChangeStep::Slow { throttle, .. } => Some(throttle),
        _ => None,
    })
}

/// Makes the changes of the plan, and starts the companions of the visits.
fn begin(
    preparation: &Preparation,
    place: &Place,
    is_recorded: bool,
    changes: &mut Changes,
    observer: &mut dyn Observer,
) -> Result<Begun, Error> {
    changes.folder(&place.data)?;
    for step in &preparation.steps {
        observer.note(&step.to_string());
        changes.apply(step, place.layout)?;
    }
    let backed_bytes = steps::touched_bytes(&preparation.plan, &preparation.situation);
    if backed_bytes > 0 {
        backing::touch(usize::try_from(backed_bytes).unwrap_or(usize::MAX))?;
    }
    let file_reads = measured(preparation, place)?;
    if let Some(FileReads { wanted_us, measured_us, unslowed_us }) = file_reads {
        observer.note(&format!(
            "a read of 4 KiB of a file takes an application {measured_us:.0} us (wanted: {wanted_us:.0} us), and \
             other programs {unslowed_us:.0} us"
        ));
    }
    let load = validity::load(place.root)?;
    let recording = preparation.folder.join(RECORDING);
    let memory = place.layout.memory();
    let start = || RunningRecording::start(place.root, &recording, memory);
    let recording = is_recorded.then(start).transpose()?;
    let observed = Observed::begin(place.root, load)?;
    let Preparation { plan, folder, .. } = preparation;
    let balloon =
        plan.balloon.map(|balloon| balloon.fill(place.layout, &place.logs)).transpose()?;
    let killer = match plan.mode {
        Mode::Minfree => {
            let killd = Killd::start(&plan.minfree, place.layout, folder, &place.logs)?;
            Some(Killer::Killd(killd))
        }
        _ => Threshold::of(plan).map(Killer::Threshold),
    };
    let start = || Relaunchd::start(plan, place.layout, folder, &place.logs);
    let relaunchd = plan.prefetch.then(start).transpose()?;
    Ok(Begun { recording, balloon, killer, relaunchd, backed_bytes, file_reads, observed })
}

/// Reads of files as an application finds them, if the plan has storage.
fn measured(preparation: &Preparation, place: &Place) -> Result<Option<FileReads>, Error> {
    let (Some(storage), Some(throttle)) = (&preparation.plan.storage, throttle(preparation)) else {
        return Ok(None);
    };
    let Some(name) = preparation.plan.applications.keys().next() else { return Ok(None) };
    let entrances = throttle.entrances(place.layout, name);
    storage.measure(place.root, &place.data, &entrances).map(Some)
}

/// The visits of a run.
struct Tour<'run> {
    preparation: &'run Preparation,
    place: &'run Place<'run>,
    is_asked_to_end: Arc<dyn Fn() -> bool + Send + Sync>,
    watch: Watch,
    balloon: Option<Held>,
    applications: BTreeMap<&'run str, Application<'run>>,
    /// Ends after the applications, so that it thaws none that still runs.
    relaunchd: Option<Relaunchd>,
    visits: Vec<Visited>,
    /// The count of OOM kills in the group at the end of the last visit.
    oom_kills: Option<u64>,
    /// The source of applications' delays.
    teller: Option<Teller>,
    began: Instant,
    about: AboutRun,
    /// Whether the run can carry a verdict; None before its end.
    validity: Option<Validity>,
}

impl<'run> Tour<'run> {
    fn new(
        preparation: &'run Preparation,
        place: &'run Place<'run>,
        killer: Option<Killer>,
        balloon: Option<Held>,
        is_interrupted: Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> Result<Tour<'run>, Error> {
        let plan = &preparation.plan;
        let began = Instant::now();
        let about = AboutRun::begun_now(&preparation.steps);
        let rules = Rules {
            root: place.root.clone(),
            layout: Arc::clone(&preparation.layout),
            look_every: killer::look_every(plan),
            is_interrupted: Arc::clone(&is_interrupted),
            began,
        };
        let application = |(name, application)| {
            let name: &'run String = name;
            (name.as_str(), Application::new(name, application, place))
        };
        Ok(Tour {
            preparation,
            place,
            is_asked_to_end: is_interrupted,
            watch: Watch::start(rules, killer),
            balloon,
            applications: plan.applications.iter().map(application).collect(),
            relaunchd: None,
            visits: Vec::new(),
            oom_kills: Some(0),
            teller: Teller::open(place.root)?,
            began,
            about,
            validity: None,
        })
    }

    /// Makes all visits, unless the user interrupts.
    fn make(&mut self, observer: &mut dyn Observer) -> Result<(), Error> {
        let preparation = self.preparation;
        self.describe(&[], Duration::ZERO, "running")?;
        for (visit, made) in preparation.visits.iter().zip(1..) {
            if (self.is_asked_to_end)() {
                return Ok(());
            }
            let Some((visited, why)) = self.visit(visit)? else { return Ok(()) };
            observer.visited(&visited, why.as_deref(), preparation.visits.len() - made);
            self.visits.push(visited);
            // Written after each visit, so that a killed run keeps them.
            self.write_tables()?;
            self.check_companions()?;
        }
        Ok(())
    }

    fn write_tables(&self) -> Result<(), Error> {
        let Preparation { plan, folder, .. } = self.preparation;
        results::write_tables(folder, plan, &self.visits, &self.watch.processes())?;
        match plan.mode {
            Mode::Minfree => {
                results::write_kills(folder, &self.watch.kills(), self.about.monotonic_start_ns)
            }
            _ => Ok(()),
        }
    }

    /// Fails if the killer or the balloon has ended, because the run would measure something else without it.
    fn check_companions(&mut self) -> Result<(), Error> {
        if self.watch.has_lost_its_killer() {
            let what = "killd has ended during the run; killd.log has its last events";
            return Err(Error::Refused(what.to_owned()));
        }
        if self.relaunchd.as_mut().is_some_and(Relaunchd::has_ended) {
            let what = "relaunchd has ended during the run; relaunchd.log has its last events";
            return Err(Error::Refused(what.to_owned()));
        }
        if let Some(balloon) = &mut self.balloon
            && balloon.has_ended()
        {
            return Err(balloon.failure());
        }
        Ok(())
    }

    /// Makes a visit; None if the user interrupted it.
    fn visit(&mut self, visit: &Visit) -> Result<Option<(Visited, Option<String>)>, Error> {
        let Visit { round, application: name } = visit;
        let plan = &self.preparation.plan;
        let counters = || match plan.mode {
            Mode::Tiers => Counters::now().map(Some),
            _ => Ok(None),
        };
        let counters_before = counters()?;
        let page_bytes = self.preparation.situation.machine.page_bytes;
        let Place { root, layout, .. } = self.place;
        let application =
            self.applications.get_mut(name.as_str()).expect("the plan was checked for it");
        let before = Io::now(root, page_bytes)?;
        let folder = layout.programs().join(name);
        let waits_before = Waits::now(root, &folder, self.teller.as_ref())?;
        let free_bytes = || free_bytes(plan, self.place);
        let free_before = free_bytes()?;
        let is_running = self.watch.begin(name);
        let start = self.began.elapsed();
        let is_cold = !(is_running && application.is_alive());
        let relaunchd = self.relaunchd.as_ref();
        let outcome = launch(application, is_cold, *round, &plan.timeouts, &self.watch, relaunchd);
        let launched = self.began.elapsed() - start;
        let mut waits =
            Waits::now(root, &folder, self.teller.as_ref())?.since(waits_before, is_cold);
        waits.kills = self.watch.killing();
        let free_after = free_bytes()?;
        let prefetched_pages = relaunchd.and(outcome.as_ref().ok().copied());
        let mut result = match self.watch.settle() {
            Some(Ended::Interrupted) => return Ok(None),
            // The answer came, but the application was killed as late.
            Some(Ended::Late) if outcome.is_ok() => Err(LATE_ANSWER.to_owned()),
            _ => outcome.map(drop),
        };
        if result.is_ok() {
            self.watch.pause(plan.pause.visit);
        }
        let lives_on = leave(application, &mut result, self.relaunchd.as_ref());
        let oom_kills = groups::oom_kills(root, *layout)?;
        let oom_kills_before = std::mem::replace(&mut self.oom_kills, oom_kills);
        let visited = Visited {
            round: *round,
            application: name.clone(),
            is_cold,
            launch: result.is_ok().then_some(launched),
            start,
            end: self.began.elapsed(),
            killed: self.watch.finish(name, lives_on),
            oom_kills: oom_kills.zip(oom_kills_before).map(|(now, before)| now - before),
            io: Io::now(root, page_bytes)?.since(before),
            usage: groups::usage(root, *layout)?,
            free_bytes: (free_before, free_after),
            waits,
            prefetched_pages,
            tiers: counters()?.zip(counters_before).map(|(now, before)| now.since(before)),
        };
        Ok(Some((visited, result.err())))
    }

    /// Writes `run.toml`.
    fn describe(
        &mut self,
        visits: &[Visited],
        duration: Duration,
        reason: &str,
    ) -> Result<(), Error> {
        let Preparation { plan, situation, layout, folder, .. } = self.preparation;
        let cgroup_version = if layout.version() == Version::V1 { 1 } else { 2 };
        self.about.duration_s = duration.as_secs_f64();
        self.about.visits = visits.len();
        self.about.answered = visits.iter().filter(|visit| visit.launch.is_some()).count();
        self.about.finished = reason == COMPLETE;
        self.about.reason = reason.to_owned();
        let validity = self.validity.as_ref();
        let about = About {
            valid: validity.map(|validity| validity.invalid_because.is_empty()),
            invalid_because: validity.map_or(&[], |validity| &validity.invalid_because),
            plan,
            machine: AboutMachine::of(self.place.root, situation, cgroup_version)?,
            versions: BTreeMap::from([
                ("pagewise-agent", env!("CARGO_PKG_VERSION")),
                ("recording", "1"),
            ]),
            run: self.about.clone(),
            checks: validity.map(|validity| &validity.checks),
            counters: validity.map(|validity| &validity.counters),
        };
        results::write_about(folder, &about)
    }
}

/// Memory that is free for the applications: of the machine or, if that is less, of the budget.
fn free_bytes(plan: &Plan, place: &Place) -> Result<u64, Error> {
    let free = results::free_bytes(place.root)?;
    let Some(budget) = plan.limit() else { return Ok(free) };
    let used = groups::usage(place.root, place.layout)?.memory_bytes;
    Ok(free.min(budget.0.saturating_sub(used)))
}

/// Launches an application: from the request to the answer. Returns the number of pages that were prefetched.
fn launch(
    application: &mut Application,
    is_cold: bool,
    round: u32,
    timeouts: &crate::plan::Timeouts,
    watch: &Watch,
    relaunchd: Option<&Relaunchd>,
) -> Result<u64, String> {
    let mut prefetched = 0;
    let or_late = |late: &str, why: String| if watch.is_over() { late.to_owned() } else { why };
    if is_cold {
        watch.allow(timeouts.ready);
        application.start()?;
        let ready = application.wait_until_ready(&|| watch.is_over());
        ready.map_err(|why| or_late("not ready in time", why))?;
    } else if let Some(relaunchd) = relaunchd {
        prefetched = relaunchd.thaw(application.name())?;
    } else {
        application.thaw()?;
    }
    watch.allow(timeouts.answer);
    application.ask(round).map_err(|why| or_late(LATE_ANSWER, why))?;
    Ok(prefetched)
}

/// Freezes an application that has answered, and ends it otherwise; returns whether it lives on.
fn leave(
    application: &mut Application,
    result: &mut Result<(), String>,
    relaunchd: Option<&Relaunchd>,
) -> bool {
    let freeze = || match relaunchd {
        Some(relaunchd) => relaunchd.freeze(application.name()),
        None => application.freeze(),
    };
    let lives_on = result.is_ok() && freeze().is_ok();
    if !lives_on && let Err(error) = application.end() {
        *result = Err(error);
    }
    lives_on
}

const LATE_ANSWER: &str = "no answer in time";
