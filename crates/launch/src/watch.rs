//! Watches a run from a separate thread: ends the visited application when its time is over or the user
//! interrupts, and kills the victims of the plan's killer.
//!
//! The end of an application wakes the code that waits for it, so that code needs no time limit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linux::groups::{self, Layout};
use linux::{Root, system};

use crate::killd::{self, Event, Killd};
use crate::killer::Threshold;

/// The longest sleep within a pause.
const DOZE: Duration = Duration::from_millis(50);

/// How many of the latest kills are checked for victims whose memory is not back yet.
const DYING_MAX: usize = 16;

/// The parameters of a watch.
pub(crate) struct Rules {
    pub(crate) root: Root,
    pub(crate) layout: Arc<dyn Layout>,
    /// How often the watch checks.
    pub(crate) look_every: Duration,
    /// Whether the user wants to end the run.
    pub(crate) is_interrupted: Arc<dyn Fn() -> bool + Send + Sync>,
    /// The start of the run.
    pub(crate) began: Instant,
}

/// A process of an application.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Process {
    pub(crate) application: String,
    pub(crate) number: u32,
    /// The time from the start of the run to when the process was first seen.
    pub(crate) seen: Duration,
}

/// A process that killd killed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kill {
    /// The present visit, or the next one.
    pub(crate) visit: u64,
    /// The application of the process; None if the process was not seen before.
    pub(crate) application: Option<String>,
    pub(crate) process: u32,
    /// CLOCK_MONOTONIC in nanoseconds.
    pub(crate) at_ns: u64,
    /// The freed bytes, and the time until killd stopped waiting; None while it waits.
    pub(crate) back: Option<(u64, Duration)>,
}

/// The killer of the plan.
pub(crate) enum Killer {
    /// The watch itself kills, above this threshold.
    Threshold(Threshold),
    /// The process killd kills.
    Killd(Killd),
}

/// A running watch. When dropped, it ends.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    rules: Rules,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Running applications, with the numbers of their last visits: the smallest was used longest ago.
    running: BTreeMap<String, u64>,
    visits: u64,
    visited: Option<String>,
    deadline: Option<Instant>,
    /// Why the visited application was ended.
    ended: Option<Ended>,
    /// None in modes without a killer.
    killer: Option<Killer>,
    /// Applications that the killer has killed since the end of the last visit, and the time that it took in
    /// this visit.
    killed: Vec<String>,
    killing: Duration,
    /// The time until which `killing` counts, in nanoseconds of CLOCK_MONOTONIC.
    counted_ns: u64,
    kills: Vec<Kill>,
    processes: BTreeMap<(String, u32), Duration>,
    is_over: bool,
}

/// Why the visited application was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Late,
    Interrupted,
}

impl Watch {
    pub(crate) fn start(rules: Rules, killer: Option<Killer>) -> Watch {
        let state = Mutex::new(State { killer, ..State::default() });
        let shared = Arc::new(Shared { rules, state });
        let looking = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            while looking.look() {
                std::thread::sleep(looking.rules.look_every);
            }
        });
        Watch { shared, thread: Some(thread) }
    }

    /// Begins a visit, from which on the killer spares the application; returns whether it runs.
    pub(crate) fn begin(&self, application: &str) -> bool {
        let mut state = self.shared.state();
        // First handle recent kills: a killed application must be started.
        self.shared.relieve(&mut state);
        state.visits += 1;
        state.visited = Some(application.to_owned());
        state.ended = None;
        state.killing = Duration::ZERO;
        state.counted_ns = system::monotonic_ns();
        let visits = state.visits;
        let is_running = state.running.insert(application.to_owned(), visits).is_some();
        if let Some(Killer::Killd(_)) = state.killer {
            let Rules { root, layout, .. } = &self.shared.rules;
            killd::rank(root, layout.as_ref(), &state.running);
        }
        is_running
    }

    /// Sets the deadline of the visited application.
    pub(crate) fn allow(&self, time: Duration) {
        // A time that the clock cannot represent means no deadline.
        self.shared.state().deadline = Instant::now().checked_add(time);
    }

    /// Waits for `time`, or until the visited application was ended.
    pub(crate) fn pause(&self, time: Duration) {
        let began = Instant::now();
        while let Some(left) = time.checked_sub(began.elapsed())
            && !self.is_over()
        {
            std::thread::sleep(left.min(DOZE));
        }
    }

    /// Whether the visited application was ended.
    pub(crate) fn is_over(&self) -> bool {
        self.shared.state().ended.is_some()
    }

    /// Removes the deadline after the answer; returns why the application was ended, if it was.
    pub(crate) fn settle(&self) -> Option<Ended> {
        let mut state = self.shared.state();
        state.deadline = None;
        state.ended
    }

    /// The time that the killer has taken in this visit so far.
    pub(crate) fn killing(&self) -> Duration {
        let mut state = self.shared.state();
        self.shared.relieve(&mut state);
        // A victim whose memory is not back yet has taken time, too.
        let is_dying = |kill: &&Kill| {
            kill.back.is_none()
                && linux::process::state(&self.shared.rules.root, kill.process).is_some()
        };
        let dying = state.kills.iter().rev().take(DYING_MAX).filter(is_dying);
        let since_ns = dying.map(|kill| kill.at_ns.max(state.counted_ns)).min();
        let dying_ns =
            since_ns.map_or(0, |since_ns| system::monotonic_ns().saturating_sub(since_ns));
        state.killing + Duration::from_nanos(dying_ns)
    }

    /// Whether killd has ended, although the run continues.
    pub(crate) fn has_lost_its_killer(&self) -> bool {
        match &mut self.shared.state().killer {
            Some(Killer::Killd(killd)) => killd.has_ended(),
            _ => false,
        }
    }

    /// All kills of killd so far.
    pub(crate) fn kills(&self) -> Vec<Kill> {
        self.shared.state().kills.clone()
    }

    /// Ends a visit; `is_running` is whether the application lives on. Returns the applications that were killed
    /// since the end of the last visit.
    pub(crate) fn finish(&self, application: &str, is_running: bool) -> Vec<String> {
        let mut state = self.shared.state();
        // Kills for memory that this visit allocated since the last check belong to this visit.
        self.shared.relieve(&mut state);
        state.visited = None;
        if !is_running {
            state.running.remove(application);
        }
        std::mem::take(&mut state.killed)
    }

    /// All processes seen so far.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let state = self.shared.state();
        let process = |((application, number), seen): (&(String, u32), &Duration)| Process {
            application: application.clone(),
            number: *number,
            seen: *seen,
        };
        state.processes.iter().map(process).collect()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    /// Checks once; returns false at the end.
    fn look(&self) -> bool {
        let mut state = self.state();
        if state.is_over {
            return false;
        }
        if let Some(visited) = state.visited.clone() {
            self.note_processes(&mut state, &visited);
            let is_late = state.deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if is_late || (self.rules.is_interrupted)() {
                state.ended.get_or_insert(if is_late { Ended::Late } else { Ended::Interrupted });
                // Repeated at each check, because it may have forked meanwhile.
                self.end(&visited);
            }
        }
        self.relieve(&mut state);
        true
    }

    fn note_processes(&self, state: &mut State, visited: &str) {
        let Rules { root, layout, began, .. } = &self.rules;
        let folder = layout.programs().join(visited);
        for number in groups::processes(root, &folder).unwrap_or_default() {
            state.processes.entry((visited.to_owned(), number)).or_insert_with(|| began.elapsed());
        }
    }

    /// Kills the threshold's victims, or notes killd's kills.
    fn relieve(&self, state: &mut State) {
        let Some(mut killer) = state.killer.take() else { return };
        match &mut killer {
            Killer::Threshold(threshold) => self.kill(state, *threshold),
            Killer::Killd(killd) => {
                killd.events().into_iter().for_each(|event| self.handle(state, event));
            }
        }
        state.killer = Some(killer);
    }

    /// Kills applications one after the other, each after the memory of the last is back.
    fn kill(&self, state: &mut State, threshold: Threshold) {
        loop {
            let Rules { root, layout, .. } = &self.rules;
            let usage = groups::usage(root, layout.as_ref()).unwrap_or_default();
            let visited = state.visited.as_deref();
            let Some(victim) = threshold.choose(usage, &state.running, visited) else { return };
            let began = Instant::now();
            self.end(&victim);
            state.killing += began.elapsed();
            state.running.remove(&victim);
            state.killed.push(victim);
        }
    }

    /// Handles an event of killd. An application that lost one of its processes counts as killed.
    fn handle(&self, state: &mut State, event: Event) {
        match event {
            Event::Kill { process, at_ns } => {
                let application = state.application_of(process);
                if let Some(name) = &application
                    && state.running.remove(name).is_some()
                {
                    state.killed.push(name.clone());
                }
                let visit = state.visits - u64::from(state.visited.is_some());
                state.kills.push(Kill { visit, application, process, at_ns, back: None });
            }
            Event::Back { process, at_ns, freed_bytes, time } => {
                // Overlapping times of several victims count once.
                let began_ns = at_ns.saturating_sub(time.as_nanos() as u64);
                let counted_ns = at_ns.saturating_sub(began_ns.max(state.counted_ns));
                state.killing += Duration::from_nanos(counted_ns);
                state.counted_ns = state.counted_ns.max(at_ns);
                let mut kills = state.kills.iter_mut();
                let Some(kill) = kills.rfind(|kill| kill.process == process) else { return };
                kill.back = Some((freed_bytes, time));
                // End the rest of the application, unless it runs again.
                if let Some(name) = &kill.application
                    && !state.running.contains_key(name)
                {
                    self.end(name);
                }
            }
        }
    }

    fn end(&self, application: &str) {
        // Removing the groups ends processes that do not end now.
        let _ = groups::end(&self.rules.root, self.rules.layout.as_ref(), application);
    }
}

impl State {
    /// The application that had the process last.
    fn application_of(&self, process: u32) -> Option<String> {
        let had = self.processes.iter().filter(|((_, number), _)| *number == process);
        had.max_by_key(|(_, seen)| **seen).map(|((application, _), _)| application.clone())
    }
}
