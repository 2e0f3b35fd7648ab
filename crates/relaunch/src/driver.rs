//! The daemon itself: waits for requests and for notices of the kernel, asks [`Application`] what to do, and does it. It
//! is one thread, so what it does for one application is never mixed with another.
//!
//! It never leaves an application frozen that it froze: dropping it thaws them all, and the next one thaws what a killed
//! one left ([`FrozenNotes`]).
//!
//! [`Application`]: crate::application::Application

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use daemon::log::{put, put_words};
use daemon::sockets::{Answering, Sockets};
use daemon::{Control, Notify, Output};
use linux::Root;
use linux::file_changes::FileChanges;
use linux::freezer::Freezer;
use linux::polling;

use crate::config::Watched;
use crate::control::{Answer, ControlSocket, Request};
use crate::notes::FrozenNotes;
use crate::statistics::{Report, SCHEMA, Statistics};
use crate::uses::{Follow, Uses};
use crate::{Config, Error, Order};

mod app;
mod log;

use app::App;

/// How often groups that appear or disappear are noticed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A relaunchd that is ready to run. When dropped, it thaws what it froze, and removes its sockets.
pub struct Relauncher {
    control: ControlSocket,
    _sockets: Sockets,
    notify: Notify,
    beaten: Instant,
    core: Core,
}

/// The index of an application in [`Core::apps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AppIndex(usize);

/// What requests work on.
struct Core {
    root: Root,
    config: Config,
    apps: Vec<App>,
    notes: FrozenNotes,
    changes: FileChanges,
    statistics: Arc<Statistics>,
    output: Output,
    follow: Follow,
    /// The notes of the order of use; None if the settings have no use for them, or the kernel refuses.
    uses: Option<Uses>,
    /// Why pages are not read in the order of use although the settings have it.
    order_refused: Option<String>,
    /// Until then nothing is paged out.
    quiet_until: Instant,
    looked: Instant,
}

impl Relauncher {
    /// Opens all that is needed, and thaws what an earlier relaunchd left frozen. `follow` passes on the faults that show
    /// the order of use; if it refuses, pages are read by address.
    ///
    /// # Errors
    /// Another relaunchd watches a group or listens at the control socket, or the operating system refuses.
    pub fn start(
        root: &Root,
        config: Config,
        mut output: Output,
        follow: Follow,
    ) -> Result<Relauncher, Error> {
        let control = ControlSocket::open(&config.sockets.control)?;
        let (notes, left) = FrozenNotes::open(root)?;
        let changes =
            FileChanges::new().map_err(|error| Error::refused("watch files (inotify)", error))?;
        let mut apps = Vec::new();
        for watched in &config.apps {
            apps.push(App::new(root, watched.clone(), &changes)?);
        }
        for path in left {
            thaw_left(root, &path, &mut output);
        }
        let statistics = Arc::new(Statistics::default());
        let sockets = Sockets::start(answering(&config, &statistics), |what| {
            output.say_absent(what);
        })?;
        let now = Instant::now();
        let mut core = Core {
            root: root.clone(),
            config,
            apps,
            notes,
            changes,
            statistics,
            output,
            follow,
            uses: None,
            order_refused: None,
            quiet_until: now,
            looked: now,
        };
        core.set_order();
        core.indices().for_each(|index| core.say_attached(index));
        core.publish();
        let notify = Notify::from_environment();
        Ok(Relauncher { control, _sockets: sockets, notify, beaten: now, core })
    }

    /// The counters.
    pub fn statistics(&self) -> &Arc<Statistics> {
        &self.core.statistics
    }

    /// Runs until `control` ends it. `reload` reads the settings again; if they are invalid, the old ones stay in
    /// force.
    pub fn run(&mut self, control: &Control, mut reload: impl FnMut() -> Result<Config, Error>) {
        self.notify.send("READY=1");
        self.core.say_start("start");
        while !control.is_over.load(Relaxed) {
            if control.is_reload.swap(false, Relaxed) {
                self.notify.send("RELOADING=1");
                let outcome = reload().and_then(|config| self.core.set(config));
                self.core.say_reload(&outcome);
                self.notify.send("READY=1");
            }
            self.step(LOOK_EVERY);
        }
        self.notify.send("STOPPING=1");
    }

    /// Waits for up to `time` for a request or a notice, and handles it.
    pub fn step(&mut self, time: Duration) {
        let time = self.core.wait_at_most(time);
        let files = self.control.files().chain([self.core.changes.as_fd()]);
        polling::wait_for_any(files, time);
        let core = &mut self.core;
        let mut is_asked = false;
        self.control.answer(|request| {
            is_asked = true;
            core.carry_out(&request)
        });
        let is_noticed = core.changes.take();
        core.follow(is_noticed);
        core.learn();
        if !is_asked && !is_noticed {
            core.reclaim();
        }
        core.check_order();
        core.publish();
        if let Some(every) = self.notify.watchdog
            && self.beaten.elapsed() >= every
        {
            self.beaten = Instant::now();
            self.notify.send("WATCHDOG=1");
        }
    }
}

impl Core {
    /// The index of each application.
    fn indices(&self) -> impl Iterator<Item = AppIndex> + use<> {
        (0..self.apps.len()).map(AppIndex)
    }

    /// Carries out a request.
    fn carry_out(&mut self, request: &Request) -> Answer {
        let (Request::Freeze(name) | Request::Thaw(name)) = request;
        let Some(index) = self.indices().find(|index| self.apps[index.0].watched.name == *name)
        else {
            let names: Vec<&str> = self.apps.iter().map(|app| &*app.watched.name).collect();
            return Answer::refused(format!(
                "there is no application {name:?}; there are {}",
                names.join(", ")
            ));
        };
        let done = match request {
            Request::Freeze(_) => self.freeze(index),
            Request::Thaw(_) => self.thaw(index),
        };
        let answer = done.unwrap_or_else(Answer::refused);
        let app = &self.apps[index.0];
        Answer { app: Some(name.clone()), is_frozen: app.is_frozen, ..answer }
    }

    /// Freezes an application; its visit ends.
    fn freeze(&mut self, index: AppIndex) -> Result<Answer, Error> {
        let Core { root, apps, notes, changes, .. } = self;
        let app = &mut apps[index.0];
        app.attach(root, changes)?;
        let folder = app.group()?.folder.clone();
        if app.group()?.is_frozen(root)? {
            app.note_frozen();
            let why = app.note.is_none().then(|| "it was already frozen".to_owned());
            return Ok(Answer { ok: true, why, ..Answer::default() });
        }
        if let Some(note) = app.note.take() {
            // Another program has thawed it since.
            notes.clear(note);
        }
        app.note = Some(notes.add(&folder)?);
        let frozen = app.group()?.freeze(root);
        if !matches!(frozen, Ok(true)) {
            self.release(index);
            frozen?;
            let what = "some of its tasks did not stop in time, so it runs again: ask again later";
            return Err(Error::refused(&format!("freeze {}", folder.display()), what));
        }
        app.note_frozen();
        Ok(Answer { ok: true, ..Answer::default() })
    }

    /// Prefetches for an application and thaws it; its visit begins.
    fn thaw(&mut self, index: AppIndex) -> Result<Answer, Error> {
        self.learn();
        let Core { root, apps, changes, .. } = self;
        let app = &mut apps[index.0];
        app.attach(root, changes)?;
        if !app.group()?.is_frozen(root)? {
            let why = Some("it was not frozen, so nothing was prefetched".to_owned());
            return Ok(Answer { ok: true, why, ..Answer::default() });
        }
        app.is_frozen = true;
        let begun = self.begin_visit(index, "command");
        let app = &mut self.apps[index.0];
        app.group()?.thaw(&self.root)?;
        app.note.take().into_iter().for_each(|note| self.notes.clear(note));
        (app.is_frozen, app.is_thawing) = (false, true);
        Ok(begun)
    }

    /// Reads what the application is expected to use, as far as memory allows.
    fn begin_visit(&mut self, index: AppIndex, by: &str) -> Answer {
        let Core { root, config, apps, uses, .. } = self;
        self.quiet_until = Instant::now() + config.page_out_delay;
        let app = &mut apps[index.0];
        let begun = app.begin_visit(root, config, uses.as_ref());
        self.say_thawed(index, by, &begun);
        Answer {
            ok: true,
            predicted_pages: begun.predicted_pages,
            prefetched_pages: begun.prefetched_pages,
            prefetch_s: begun.time.as_secs_f64(),
            why: begun.why,
            ..Answer::default()
        }
    }

    /// Follows groups that the kernel froze or thawed without a request, and, once in a while, those that appeared or
    /// disappeared.
    fn follow(&mut self, is_noticed: bool) {
        let is_due = self.looked.elapsed() >= LOOK_EVERY;
        if is_due {
            self.looked = Instant::now();
        }
        for index in self.indices() {
            if is_due {
                let Core { root, apps, changes, uses, .. } = self;
                apps[index.0].is_thawing = false;
                if apps[index.0].freezer.is_none() {
                    apps[index.0].forget_notes(uses.as_ref());
                }
                if let Err(error) = apps[index.0].attach(root, changes) {
                    self.say_refused_group(index, &error);
                }
                self.say_attached(index);
            }
            if is_noticed || is_due {
                self.follow_group(index);
            }
        }
    }

    /// Compares the state of a group with the last known one. A group of version 1 is followed only where a request
    /// failed to: it has no notices, and what happened in between is unknown.
    fn follow_group(&mut self, index: AppIndex) {
        let Core { root, apps, .. } = self;
        let app = &mut apps[index.0];
        let Some(group) = app.freezer.as_ref().filter(|group| group.notices().is_some()) else {
            return;
        };
        match (app.is_frozen, group.is_frozen(root)) {
            (false, Ok(true)) if !app.is_thawing => app.note_frozen(),
            (true, Ok(false)) => {
                if app.is_to_learn {
                    self.learn();
                }
                self.begin_visit(index, "kernel");
                let app = &mut self.apps[index.0];
                app.is_frozen = false;
                app.note.take().into_iter().for_each(|note| self.notes.clear(note));
            }
            (false, Ok(false)) => app.is_thawing = false,
            _ => {}
        }
    }

    /// Learns from visits that have ended.
    fn learn(&mut self) {
        for index in self.indices() {
            if std::mem::take(&mut self.apps[index.0].is_to_learn) {
                let Core { root, config, apps, uses, .. } = self;
                let ended = apps[index.0].end_visit(root, config, uses.as_ref());
                self.say_frozen(index, &ended);
            }
        }
    }

    /// Carries out one piece of what frozen applications are to lose. Page-outs wait while an application may still
    /// launch; making pages cold takes no device, and does not wait.
    fn reclaim(&mut self) {
        let is_quiet = Instant::now() >= self.quiet_until;
        let waiting = self.apps.iter_mut().find(|app| app.has_work(is_quiet));
        waiting.into_iter().for_each(App::work);
    }

    /// How long to wait if there is work.
    fn wait_at_most(&self, time: Duration) -> Duration {
        let quiet_in = self.quiet_until.saturating_duration_since(Instant::now());
        if self.apps.iter().any(|app| app.has_work(quiet_in.is_zero())) {
            return Duration::ZERO;
        }
        match self.apps.iter().any(|app| app.has_work(true)) {
            true => time.min(quiet_in),
            false => time,
        }
    }

    /// Thaws an application that this relaunchd froze.
    fn release(&mut self, index: AppIndex) {
        let Core { root, apps, notes, .. } = self;
        let app = &mut apps[index.0];
        let Some(note) = app.note.take() else { return };
        let thawed = app.freezer.as_ref().map_or(Ok(()), |group| group.thaw(root));
        match thawed {
            Err(error) if app.freezer.as_ref().is_some_and(|group| group.exists(root)) => {
                // The note stays, so that the next relaunchd tries again.
                self.output.say_absent(format_args!("thawing {}: {error}", app.watched.name));
            }
            _ => notes.clear(note),
        }
        app.is_frozen = false;
    }

    /// Applies new settings, all or none. The sockets stay as they were at the start.
    fn set(&mut self, config: Config) -> Result<(), Error> {
        let mut added = Vec::new();
        let is_known = |watched: &Watched| self.apps.iter().any(|app| app.watched == *watched);
        for watched in config.apps.iter().filter(|watched| !is_known(watched)) {
            added.push(App::new(&self.root, watched.clone(), &self.changes)?);
        }
        for index in self.indices() {
            if !config.apps.contains(&self.apps[index.0].watched) {
                let was_frozen = self.apps[index.0].note.is_some();
                self.release(index);
                if was_frozen {
                    self.say_released(index, "it is no longer in the settings");
                }
            }
        }
        let mut apps = std::mem::take(&mut self.apps);
        for watched in &config.apps {
            let of = |app: &App| app.watched == *watched;
            if let Some(place) = apps.iter().position(of) {
                self.apps.push(apps.swap_remove(place));
            } else if let Some(place) = added.iter().position(of) {
                self.apps.push(added.swap_remove(place));
                self.say_attached(AppIndex(self.apps.len() - 1));
            }
        }
        for mut app in apps {
            app.forget_notes(self.uses.as_ref());
            app.detach(&self.changes);
        }
        let sockets = self.config.sockets.clone();
        self.config = Config { sockets, ..config };
        self.set_order();
        Ok(())
    }

    /// Begins or ends to note the order of use, as the settings have it.
    fn set_order(&mut self) {
        let is_by_use = self.config.order == Order::Use && self.config.prefetch;
        if is_by_use && self.uses.is_none() {
            match Uses::start(self.follow) {
                Ok(uses) => (self.uses, self.order_refused) = (Some(uses), None),
                Err(why) => self.order_refused = Some(why),
            }
            self.say_order_refused();
        } else if !is_by_use {
            (self.uses, self.order_refused) = (None, None);
            self.apps.iter_mut().for_each(App::forget_order);
        }
    }

    /// Goes on without the order of use if its faults have ended.
    fn check_order(&mut self) {
        if let Some(why) = self.uses.as_ref().and_then(Uses::ended) {
            (self.uses, self.order_refused) = (None, Some(why));
            self.apps.iter_mut().for_each(App::forget_order);
            self.say_order_refused();
        }
    }

    /// The order in which pages are read.
    fn order(&self) -> Order {
        if self.uses.is_some() { Order::Use } else { Order::Address }
    }

    /// Where the faults come from that show the order of use.
    fn source(&self) -> Option<&'static str> {
        self.uses.as_ref().map(Uses::source)
    }

    fn publish(&self) {
        let applications = self.apps.iter().map(App::counters).collect();
        self.statistics.publish(Report {
            schema: SCHEMA,
            dry_run: self.config.is_dry_run,
            order: self.order().name(),
            order_source: self.source(),
            order_refused: self.order_refused.clone(),
            applications,
        });
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        for index in self.indices() {
            if self.apps[index.0].note.is_some() {
                self.release(index);
                self.say_released(index, "relaunchd ends, and had frozen it");
            }
        }
    }
}

/// The sockets of the settings, and what they answer.
fn answering(config: &Config, statistics: &Arc<Statistics>) -> Vec<Answering> {
    let (all, metrics) = (Arc::clone(statistics), Arc::clone(statistics));
    let json = config
        .sockets
        .statistics
        .as_ref()
        .map(|path| Answering::json(path, Arc::new(move |text: &mut String| all.json(text))));
    let open_metrics = config.sockets.metrics.as_ref().map(|path| {
        Answering::open_metrics(path, Arc::new(move |text: &mut String| metrics.open_metrics(text)))
    });
    json.into_iter().chain(open_metrics).collect()
}

/// Thaws a group that an earlier relaunchd froze and left.
fn thaw_left(root: &Root, path: &std::path::Path, output: &mut Output) {
    let thawed = Freezer::at(root, path)
        .and_then(|group| group.map_or(Ok(false), |group| group.thaw(root).map(|()| true)));
    output.say(|line| {
        put(line, "event", "released")?;
        put_words(line, "cgroup", path.display())?;
        match &thawed {
            Ok(true) => {
                put_words(line, "why", "an earlier relaunchd was killed and left it frozen")
            }
            Ok(false) => put_words(line, "why", "its group is gone"),
            Err(error) => put_words(line, "why", error),
        }
    });
}
