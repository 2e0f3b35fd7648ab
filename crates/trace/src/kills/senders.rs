//! What is known of threads that are not victims: which process they belong to, what they are called,
//! which call to kill they are in, and who makes room.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::kill::Killer;

/// Threads that are remembered: more than machines have.
const THREADS_MAX: usize = 1 << 20;

/// Calls to kill that are under way at once and remembered.
const CALLS_MAX: usize = 1 << 8;

/// Letters of a name; the kernel's have 15.
const NAME_MAX: usize = 64;

/// Threads that a signal wakes, and functions that are run, that are remembered of one call.
const WOKEN_MAX: usize = 1 << 12;

/// A call to send SIGKILL, under way.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// When it began; for a signal to many, when the one before was sent.
    pub since_ns: Option<u64>,
    /// When it woke which thread.
    pub woken: Vec<(u64, u32)>,
    /// When it ran which function of the kernel.
    pub functions: Vec<(u64, String)>,
}

impl Call {
    fn since(time_ns: u64) -> Call {
        Call { since_ns: Some(time_ns), ..Call::default() }
    }
}

/// Everything that is remembered.
#[derive(Debug, Default)]
pub struct Senders {
    processes: HashMap<u32, u32>,
    names: HashMap<u32, String>,
    calls: HashMap<u32, Call>,
    /// Whether the thread makes room for its group.
    reclaimers: BTreeMap<u32, bool>,
    /// What it did last: the kernel's killer comes behind it.
    reclaimed: HashMap<u32, bool>,
    awake: BTreeSet<u32>,
}

impl Senders {
    /// A thread of a process, with its name where that is known.
    pub fn know(&mut self, thread: u32, process: u32, name: Option<&str>) {
        insert(&mut self.processes, thread, process);
        if let Some(name) = name {
            let name: String = name.chars().take(NAME_MAX).collect();
            insert(&mut self.names, thread, name);
        }
    }

    /// `thread` was made by `parent`; where that is unknown, so is this.
    pub fn begin(&mut self, thread: u32, parent: u32, is_thread: bool) {
        self.names.remove(&thread);
        match (is_thread, self.process(parent)) {
            (false, _) => insert(&mut self.processes, thread, thread),
            (true, Some(process)) => insert(&mut self.processes, thread, process),
            (true, None) => drop(self.processes.remove(&thread)),
        }
    }

    /// Which process a thread belongs to, if that is known.
    pub fn process(&self, thread: u32) -> Option<u32> {
        self.processes.get(&thread).copied()
    }

    /// What a thread is called, if that is known.
    pub fn name(&self, thread: u32) -> Option<&str> {
        self.names.get(&thread).map(String::as_str)
    }

    /// Names a thread by its process.
    pub fn who(&self, thread: u32) -> Killer {
        let comm = self.names.get(&thread).cloned();
        Killer { pid: self.process(thread).unwrap_or(thread), comm }
    }

    /// The thread calls the kernel to send SIGKILL.
    pub fn call(&mut self, thread: u32, time_ns: u64) {
        if self.calls.len() < CALLS_MAX || self.calls.contains_key(&thread) {
            self.calls.insert(thread, Call::since(time_ns));
        }
    }

    /// The thread wakes another one.
    pub fn wake(&mut self, thread: u32, time_ns: u64, other: u32) {
        if let Some(call) = self.calls.get_mut(&thread)
            && call.woken.len() < WOKEN_MAX
        {
            call.woken.push((time_ns, other));
        }
    }

    /// The thread runs a function of the kernel, which matters within a call.
    pub fn run(&mut self, thread: u32, time_ns: u64, function: &str) {
        if let Some(call) = self.calls.get_mut(&thread)
            && call.functions.len() < WOKEN_MAX
        {
            call.functions.push((time_ns, function.to_owned()));
        }
    }

    /// A signal of the thread is pending: what is known of how it came. A call that sends more begins
    /// anew.
    pub fn generate(&mut self, thread: u32, time_ns: u64) -> Call {
        let Some(call) = self.calls.get_mut(&thread) else { return Call::default() };
        std::mem::replace(call, Call::since(time_ns))
    }

    /// The thread is back from its call.
    pub fn call_ends(&mut self, thread: u32) {
        self.calls.remove(&thread);
    }

    /// The thread begins to make room, or has.
    pub fn reclaim(&mut self, thread: u32, is_group: bool, begins: bool) {
        if begins && self.reclaimers.len() < THREADS_MAX {
            self.reclaimers.insert(thread, is_group);
        } else {
            self.reclaimers.remove(&thread);
        }
        insert(&mut self.reclaimed, thread, is_group);
    }

    /// kswapd, on this thread, wakes or sleeps.
    pub fn kswapd(&mut self, thread: u32, wakes: bool) {
        if wakes && self.awake.len() < THREADS_MAX {
            self.awake.insert(thread);
        } else {
            self.awake.remove(&thread);
        }
    }

    /// Whether a thread is kswapd, and is awake.
    pub fn is_kswapd(&self, thread: u32) -> bool {
        self.awake.contains(&thread)
    }

    /// Whether a thread makes room now.
    pub fn is_reclaiming(&self, thread: u32) -> bool {
        self.reclaimers.contains_key(&thread)
    }

    /// Whether a thread made room for its group, not for the machine, when it last did.
    pub fn reclaimed_for_group(&self, thread: u32) -> Option<bool> {
        self.reclaimed.get(&thread).copied()
    }

    /// Who makes room now.
    pub fn reclaiming(&self) -> Vec<Killer> {
        let threads: BTreeSet<u32> =
            self.awake.iter().chain(self.reclaimers.keys()).copied().collect();
        threads.into_iter().map(|thread| self.who(thread)).collect()
    }
}

/// Bounds what a recording that never ends, or lies, can make us remember.
fn insert<Value>(map: &mut HashMap<u32, Value>, thread: u32, value: Value) {
    if map.len() < THREADS_MAX || map.contains_key(&thread) {
        map.insert(thread, value);
    }
}
