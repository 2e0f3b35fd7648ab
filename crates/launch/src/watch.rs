//! Looks at a run many times a second, beside it: ends the visited application when its time is
//! over or the user interrupts, and kills whom the killer of the plan names.
//!
//! Whoever waits for an application is woken by its end, so nothing else needs a time limit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linux::Root;
use linux::groups::{self, Layout};

use crate::killer::{self, Killer};

/// How long a pause is slept through at a time.
const DOZE: Duration = Duration::from_millis(50);

/// What is watched, and by which rules.
pub(crate) struct Rules {
    pub(crate) root: Root,
    pub(crate) layout: Arc<dyn Layout>,
    /// How often the watch looks.
    pub(crate) look_every: Duration,
    /// Bytes of a page.
    pub(crate) page_bytes: u64,
    /// Whether the user wants to end.
    pub(crate) is_interrupted: Arc<dyn Fn() -> bool + Send + Sync>,
    /// The start of the run.
    pub(crate) began: Instant,
}

/// A process that an application had.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Process {
    pub(crate) application: String,
    pub(crate) number: u32,
    /// When it was first seen, since the start of the run.
    pub(crate) seen: Duration,
}

/// A watch that runs. Dropped, it ends.
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
    /// Applications that run, with the number of their last visit: the least was used longest ago.
    running: BTreeMap<String, u64>,
    visits: u64,
    visited: Option<String>,
    deadline: Option<Instant>,
    /// Why the visited application was ended.
    ended: Option<Ended>,
    /// Who names victims; none in modes without one.
    killer: Option<Killer>,
    /// Those that the killer ended since the last visit's end, and how long that took in this visit.
    killed: Vec<String>,
    killing: Duration,
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

    /// Begins a visit; the killer spares the application from now on. Whether it runs.
    pub(crate) fn begin(&self, application: &str) -> bool {
        let mut state = self.shared.state();
        state.visits += 1;
        state.visited = Some(application.to_owned());
        state.ended = None;
        state.killing = Duration::ZERO;
        let visits = state.visits;
        state.running.insert(application.to_owned(), visits).is_some()
    }

    /// Gives the visited application this much time from now on.
    pub(crate) fn allow(&self, time: Duration) {
        // A time beyond what the clock can count never ends.
        self.shared.state().deadline = Instant::now().checked_add(time);
    }

    /// Waits as long as `time`, or until the visited application was ended.
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

    /// The request is answered or given up: no more deadline. Why it was ended, if it was.
    pub(crate) fn settle(&self) -> Option<Ended> {
        let mut state = self.shared.state();
        state.deadline = None;
        state.ended
    }

    /// How long the killer took over its victims of this visit so far.
    pub(crate) fn killing(&self) -> Duration {
        self.shared.state().killing
    }

    /// Ends a visit; `is_running` says whether the application lives on. Those that were killed
    /// since the end of the visit before.
    pub(crate) fn finish(&self, application: &str, is_running: bool) -> Vec<String> {
        let mut state = self.shared.state();
        // What this visit has allocated since the last look makes room at its own cost.
        self.shared.relieve(&mut state);
        state.visited = None;
        if !is_running {
            state.running.remove(application);
        }
        std::mem::take(&mut state.killed)
    }

    /// Every process seen so far.
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

    /// Looks once; false at the end.
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
                // Again at each look: what it had forked meanwhile must end as well.
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

    /// Kills whom the killer names, one after the other, each when the memory of the last is back.
    fn relieve(&self, state: &mut State) {
        let Rules { root, layout, page_bytes, .. } = &self.rules;
        let Some(mut killer) = state.killer.take() else { return };
        loop {
            let usage = groups::usage(root, layout.as_ref()).unwrap_or_default();
            let visited = state.visited.as_deref();
            let running =
                || killer::running(root, layout.as_ref(), *page_bytes, &state.running, visited);
            let Some(victim) = killer.choose(usage, running) else { break };
            let began = Instant::now();
            self.end(&victim);
            state.killing += began.elapsed();
            state.running.remove(&victim);
            state.killed.push(victim);
        }
        state.killer = Some(killer);
    }

    fn end(&self, application: &str) {
        // What does not end now is ended when the groups are removed.
        let _ = groups::end(&self.rules.root, self.rules.layout.as_ref(), application);
    }
}
