//! Notes the order in which visits take pages out of swap, from the faults that a thread of its own receives.
//!
//! Order of events: the thread passes on faults until relaunchd ends it, and sleeps between. During a visit it wakes
//! every [`VISIT_EVERY`], otherwise every [`IDLE_EVERY`]. [`Uses::settle`] wakes it at once and waits until all faults that
//! happened before have been noted. Faults are noted only for watched processes; a process is watched from the freeze on,
//! so that its first faults after a thaw by any program are noted.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use linux::system;

use crate::ranges::Key;

/// How often faults are taken during a visit.
const VISIT_EVERY: Duration = Duration::from_millis(20);
/// How often faults are taken while no application is visited.
const IDLE_EVERY: Duration = Duration::from_secs(1);
/// How long a caller waits for the thread. The kernel verifies BPF programs when they start.
const START_WITHIN: Duration = Duration::from_secs(20);
const SETTLE_WITHIN: Duration = Duration::from_millis(500);
/// The most pages of all applications that are noted: about 16 bytes each.
const PAGES_MAX: usize = 1 << 18;

/// A fault that took a page out of swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapIn {
    /// When, by CLOCK_MONOTONIC in nanoseconds.
    pub time_ns: u64,
    /// The process.
    pub process: u32,
    /// The number of the page in its address space, in pages of 4 KiB.
    pub page: u64,
}

/// Faults that a [`Follow`] passes on.
#[derive(Clone, Copy, Debug)]
pub struct Drained<'a> {
    /// The faults since the last call, oldest first.
    pub swap_ins: &'a [SwapIn],
    /// Faults that were lost since the start.
    pub lost: u64,
    /// Where the faults come from, in one word.
    pub source: &'static str,
}

/// Takes faults, waits until the next ones are wanted, and returns whether to continue.
pub type Take<'a> = dyn FnMut(Drained<'_>) -> bool + 'a;

/// Passes faults of all processes to [`Take`] until that returns false. The first call has none: from then on no fault is
/// missed. An error says why the kernel refuses.
pub type Follow = fn(&mut Take<'_>) -> Result<(), String>;

/// The thread that notes faults. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Uses {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    source: &'static str,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Wakes the thread.
    asked: Condvar,
    /// Wakes those that wait for the thread.
    answered: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Where the faults come from, once the thread receives them.
    source: Option<&'static str>,
    /// Why the thread has ended.
    ended: Option<String>,
    is_over: bool,
    /// Number of requests to take all faults, and of those carried out.
    asked: u64,
    answered: u64,
    notes: Notes,
}

/// The faults of watched processes so far.
#[derive(Debug, Default)]
struct Notes {
    watched: BTreeMap<u32, Watched>,
    /// Pages that are noted for all processes.
    count: usize,
    /// The number of the next page in the order of use.
    next: u64,
    lost: u64,
}

#[derive(Debug)]
struct Watched {
    key: Key,
    since_ns: u64,
    is_visited: bool,
    /// Each page with its number in the order of first use.
    pages: HashMap<u64, u64>,
}

impl Uses {
    /// Starts the thread.
    ///
    /// # Errors
    /// The reason for which the kernel refuses, or that it does not answer within 20 seconds.
    pub(crate) fn start(follow: Follow) -> Result<Uses, String> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let body = move || of_thread.run(follow);
        let thread = std::thread::Builder::new().name("faults".to_owned()).spawn(body);
        let thread = thread.map_err(|error| error.to_string())?;
        let waits = |state: &mut State| state.source.is_none() && state.ended.is_none();
        let state = shared.wait(START_WITHIN, waits);
        let (source, ended) = (state.source, state.ended.clone());
        drop(state);
        let mut uses = Uses { shared, thread: Some(thread), source: source.unwrap_or_default() };
        match (source, ended) {
            (_, Some(why)) => Err(why),
            (Some(_), None) => Ok(uses),
            (None, None) => {
                // The kernel still works at it: the thread ends as soon as it returns.
                uses.thread = None;
                Err(format!("the kernel does not answer within {} s", START_WITHIN.as_secs()))
            }
        }
    }

    /// Where the faults come from.
    pub(crate) fn source(&self) -> &'static str {
        self.source
    }

    /// Why no more faults come.
    pub(crate) fn ended(&self) -> Option<String> {
        self.shared.lock().ended.clone()
    }

    /// Waits until all faults up to now are noted, at most half a second.
    pub(crate) fn settle(&self) {
        let mut state = self.shared.lock();
        state.asked += 1;
        let mine = state.asked;
        drop(state);
        self.shared.asked.notify_all();
        drop(
            self.shared.wait(SETTLE_WITHIN, |state| state.answered < mine && state.ended.is_none()),
        );
    }

    /// Faults that were lost so far.
    pub(crate) fn lost(&self) -> u64 {
        self.shared.lock().notes.lost
    }

    /// Watches these processes in place of `before`, which are those of the same application. What is noted for one that
    /// is in both stays. `is_visited` is whether they run now.
    pub(crate) fn watch(&self, before: &[(u32, Key)], now: &[(u32, Key)], is_visited: bool) {
        let mut state = self.shared.lock();
        state.notes.watch(before, now, is_visited, system::monotonic_ns());
        drop(state);
        // A visit begins: the thread wakes more often from now on.
        self.shared.asked.notify_all();
    }

    /// The pages that these processes took out of swap, in the order of first use; their notes are empty then.
    pub(crate) fn take(&self, processes: &[(u32, Key)]) -> Vec<(Key, u64)> {
        self.shared.lock().notes.take(processes)
    }
}

impl Drop for Uses {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.asked.notify_all();
        if let Some(thread) = self.thread.take() {
            // It has no panic to report: it sets `ended` whatever happens.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the thread while `waits`, at most for `time`.
    fn wait(&self, time: Duration, waits: impl FnMut(&mut State) -> bool) -> MutexGuard<'_, State> {
        let waited = self.answered.wait_timeout_while(self.lock(), time, waits);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// The thread.
    fn run(&self, follow: Follow) {
        // The request that the next faults answer: they are taken after it.
        let mut answering = 0;
        let followed = follow(&mut |drained| {
            let mut state = self.lock();
            state.source = Some(drained.source);
            state.notes.lost = drained.lost;
            drained.swap_ins.iter().for_each(|swap_in| state.notes.note(*swap_in));
            state.answered = answering;
            self.answered.notify_all();
            let every = if state.notes.is_visited() { VISIT_EVERY } else { IDLE_EVERY };
            if state.asked == answering && !state.is_over {
                let waited = self.asked.wait_timeout(state, every);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            answering = state.asked;
            !state.is_over
        });
        let why = followed.err().unwrap_or_else(|| "the faults ended".to_owned());
        self.lock().ended = Some(why);
        self.answered.notify_all();
    }
}

impl Notes {
    fn is_visited(&self) -> bool {
        self.watched.values().any(|watched| watched.is_visited)
    }

    fn watch(
        &mut self,
        before: &[(u32, Key)],
        now: &[(u32, Key)],
        is_visited: bool,
        since_ns: u64,
    ) {
        for (process, _) in before.iter().filter(|known| !now.contains(known)) {
            let gone = self.watched.remove(process);
            self.count -= gone.map_or(0, |gone| gone.pages.len());
        }
        for &(process, key) in now {
            let new = || Watched { key, since_ns, is_visited, pages: HashMap::new() };
            self.watched.entry(process).or_insert_with(new).is_visited = is_visited;
        }
    }

    fn note(&mut self, swap_in: SwapIn) {
        let Some(watched) = self.watched.get_mut(&swap_in.process) else { return };
        if swap_in.time_ns < watched.since_ns
            || self.count >= PAGES_MAX
            || watched.pages.contains_key(&swap_in.page)
        {
            return;
        }
        watched.pages.insert(swap_in.page, self.next);
        self.next += 1;
        self.count += 1;
    }

    fn take(&mut self, processes: &[(u32, Key)]) -> Vec<(Key, u64)> {
        let mut found: Vec<(u64, Key, u64)> = Vec::new();
        for (process, key) in processes {
            let watched = self.watched.get_mut(process).filter(|watched| watched.key == *key);
            let pages = watched.map(|watched| std::mem::take(&mut watched.pages));
            let pages = pages.into_iter().flatten();
            found.extend(pages.map(|(page, number)| (number, *key, page)));
        }
        self.count -= found.len();
        found.sort_unstable();
        found.into_iter().map(|(_, key, page)| (key, page)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swap_in(time_ns: u64, process: u32, page: u64) -> SwapIn {
        SwapIn { time_ns, process, page }
    }

    #[test]
    fn the_first_fault_of_each_page_counts() {
        let mut notes = Notes::default();
        let both = [(7, Key(1)), (8, Key(2))];
        notes.watch(&[], &both, true, 100);
        for (time, process, page) in
            [(99, 7, 1), (100, 8, 5), (101, 7, 9), (102, 6, 3), (103, 8, 5), (104, 7, 2)]
        {
            notes.note(swap_in(time, process, page));
        }
        assert_eq!(notes.take(&both), [(Key(2), 5), (Key(1), 9), (Key(1), 2)]);
        assert_eq!((notes.take(&both), notes.count), (vec![], 0));
    }

    #[test]
    fn another_process_with_the_same_number_has_no_notes() {
        let mut notes = Notes::default();
        let first = [(7, Key(1))];
        notes.watch(&[], &first, true, 0);
        notes.note(swap_in(1, 7, 1));
        notes.watch(&first, &first, false, 5);
        assert!(!notes.is_visited());
        notes.note(swap_in(2, 7, 2));
        let second = [(7, Key(2))];
        notes.watch(&first, &second, true, 10);
        notes.note(swap_in(9, 7, 3));
        assert_eq!((notes.take(&first), notes.take(&second), notes.count), (vec![], vec![], 0));
        notes.note(swap_in(10, 7, 4));
        notes.watch(&second, &[], false, 11);
        assert_eq!((notes.count, notes.watched.len()), (0, 0));
    }

    #[test]
    fn memory_is_bounded() {
        let mut notes = Notes::default();
        let only = [(7, Key(1))];
        notes.watch(&[], &only, true, 0);
        (0..PAGES_MAX as u64 + 5).for_each(|page| notes.note(swap_in(1, 7, page)));
        assert_eq!(notes.count, PAGES_MAX);
        let taken = notes.take(&only);
        assert_eq!((taken.len(), taken[0], notes.count), (PAGES_MAX, (Key(1), 0), 0));
    }

    /// A source of one fault a call, of process 7.
    fn counting(take: &mut Take<'_>) -> Result<(), String> {
        let mut page = 0;
        let mut drained: Vec<SwapIn> = Vec::new();
        while take(Drained { swap_ins: &drained, lost: page, source: "test" }) {
            page += 1;
            drained = vec![swap_in(u64::MAX, 7, page)];
        }
        Ok(())
    }

    #[test]
    fn all_faults_before_a_request_are_noted_and_the_thread_ends() {
        let uses = Uses::start(counting).unwrap();
        let only = [(7, Key(1))];
        uses.watch(&[], &only, true);
        uses.settle();
        uses.settle();
        let taken = uses.take(&only);
        assert!(taken.len() >= 2 && uses.lost() >= 2, "{taken:?}");
        let pages: Vec<u64> = taken.iter().map(|(_, page)| *page).collect();
        assert!(pages.is_sorted() && taken.iter().all(|(key, _)| *key == Key(1)));
        assert_eq!((uses.source(), uses.ended()), ("test", None));
    }

    #[test]
    fn a_refusal_has_its_reason() {
        let refused = Uses::start(|_| Err("no BTF".to_owned())).unwrap_err();
        assert_eq!(refused, "no BTF");
    }

    #[test]
    fn a_source_that_fails_later_ends_the_waits() {
        let uses = Uses::start(|take| {
            take(Drained { swap_ins: &[], lost: 0, source: "test" });
            Err("gone".to_owned())
        });
        let uses = uses.unwrap();
        uses.settle();
        uses.settle();
        assert_eq!(uses.ended().as_deref(), Some("gone"));
    }
}
