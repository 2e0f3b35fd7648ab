//! The state of threads that are not victims: their process and name, their current call of kill, and
//! whether they reclaim memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::kill::Killer;

/// Largest number of threads: more than machines have.
const THREADS_MAX: usize = 1 << 20;

/// Largest number of calls of kill at the same time.
const CALLS_MAX: usize = 1 << 8;

/// Longest name; names of the kernel have 15 bytes.
const NAME_MAX: usize = 64;

/// Largest number of woken threads, and of functions, of a call.
const WOKEN_MAX: usize = 1 << 12;

/// A call that sends SIGKILL and has not yet returned.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// Start of the call or, in a call with several signals, the time of the signal before.
    pub since_ns: Option<u64>,
    /// Threads that it woke, with the time.
    pub woken: Vec<(u64, u32)>,
    /// Functions of the kernel that it ran, with the time.
    pub functions: Vec<(u64, String)>,
}

impl Call {
    fn since(time_ns: u64) -> Call {
        Call { since_ns: Some(time_ns), ..Call::default() }
    }
}

/// The state of all threads.
#[derive(Debug, Default)]
pub struct Senders {
    processes: HashMap<u32, u32>,
    names: HashMap<u32, String>,
    calls: HashMap<u32, Call>,
    /// Threads in reclaim; true if for their memory cgroup.
    reclaimers: BTreeMap<u32, bool>,
    /// Per thread: whether its last reclaim was for its memory cgroup. The OOM killer follows a reclaim.
    reclaimed: HashMap<u32, bool>,
    awake: BTreeSet<u32>,
}

impl Senders {
    /// Adds a thread of a process, with its name if that is known.
    pub fn know(&mut self, thread: u32, process: u32, name: Option<&str>) {
        insert(&mut self.processes, thread, process);
        if let Some(name) = name {
            let name: String = name.chars().take(NAME_MAX).collect();
            insert(&mut self.names, thread, name);
        }
    }

    /// Adds `thread`, created by `parent`. If the process of `parent` is unknown, that of `thread` is
    /// too.
    pub fn begin(&mut self, thread: u32, parent: u32, is_thread: bool) {
        self.names.remove(&thread);
        match (is_thread, self.process(parent)) {
            (false, _) => insert(&mut self.processes, thread, thread),
            (true, Some(process)) => insert(&mut self.processes, thread, process),
            (true, None) => drop(self.processes.remove(&thread)),
        }
    }

    /// The process of a thread, if it is known.
    pub fn process(&self, thread: u32) -> Option<u32> {
        self.processes.get(&thread).copied()
    }

    /// The name of a thread, if it is known.
    pub fn name(&self, thread: u32) -> Option<&str> {
        self.names.get(&thread).map(String::as_str)
    }

    /// The process and name of a thread.
    pub fn killer_of(&self, thread: u32) -> Killer {
        let comm = self.names.get(&thread).cloned();
        Killer { pid: self.process(thread).unwrap_or(thread), comm }
    }

    /// Begins a call of the thread that sends SIGKILL.
    pub fn call(&mut self, thread: u32, time_ns: u64) {
        if self.calls.len() < CALLS_MAX || self.calls.contains_key(&thread) {
            self.calls.insert(thread, Call::since(time_ns));
        }
    }

    /// Notes that the thread wakes another thread.
    pub fn wake(&mut self, thread: u32, time_ns: u64, other: u32) {
        if let Some(call) = self.calls.get_mut(&thread)
            && call.woken.len() < WOKEN_MAX
        {
            call.woken.push((time_ns, other));
        }
    }

    /// Notes a function of the kernel that the thread runs within a call.
    pub fn run(&mut self, thread: u32, time_ns: u64, function: &str) {
        if let Some(call) = self.calls.get_mut(&thread)
            && call.functions.len() < WOKEN_MAX
        {
            call.functions.push((time_ns, function.to_owned()));
        }
    }

    /// Returns the call that generated a signal of the thread. The call restarts, because it may send
    /// more signals.
    pub fn generate(&mut self, thread: u32, time_ns: u64) -> Call {
        let Some(call) = self.calls.get_mut(&thread) else { return Call::default() };
        std::mem::replace(call, Call::since(time_ns))
    }

    /// Ends the call of the thread.
    pub fn call_ends(&mut self, thread: u32) {
        self.calls.remove(&thread);
    }

    /// Begins or ends a reclaim of the thread.
    pub fn reclaim(&mut self, thread: u32, is_group: bool, begins: bool) {
        if begins && self.reclaimers.len() < THREADS_MAX {
            self.reclaimers.insert(thread, is_group);
        } else {
            self.reclaimers.remove(&thread);
        }
        insert(&mut self.reclaimed, thread, is_group);
    }

    /// Notes that kswapd, which is this thread, wakes up or goes to sleep.
    pub fn kswapd(&mut self, thread: u32, wakes: bool) {
        if wakes && self.awake.len() < THREADS_MAX {
            self.awake.insert(thread);
        } else {
            self.awake.remove(&thread);
        }
    }

    /// Whether a thread is kswapd and awake.
    pub fn is_kswapd(&self, thread: u32) -> bool {
        self.awake.contains(&thread)
    }

    /// Whether a thread is in reclaim.
    pub fn is_reclaiming(&self, thread: u32) -> bool {
        self.reclaimers.contains_key(&thread)
    }

    /// Whether the last reclaim of a thread was for its memory cgroup, not for the machine.
    pub fn reclaimed_for_group(&self, thread: u32) -> Option<bool> {
        self.reclaimed.get(&thread).copied()
    }

    /// The processes in reclaim.
    pub fn reclaiming(&self) -> Vec<Killer> {
        let threads: BTreeSet<u32> =
            self.awake.iter().chain(self.reclaimers.keys()).copied().collect();
        threads.into_iter().map(|thread| self.killer_of(thread)).collect()
    }
}

/// Inserts a value, unless the map is full: endless or hostile recordings need a bound.
fn insert<Value>(map: &mut HashMap<u32, Value>, thread: u32, value: Value) {
    if map.len() < THREADS_MAX || map.contains_key(&thread) {
        map.insert(thread, value);
    }
}
