//! A dying process: its events so far, and the row that it becomes.

use std::collections::BTreeMap;

use super::curve::Curve;
use super::kill::{Kill, KillStep, KillTrigger, Killer, microseconds};
use super::senders::Call;

/// A dying process.
#[derive(Clone, Debug)]
pub struct Victim {
    pub pid: u32,
    pub comm: String,
    /// The thread that sent the signal.
    pub sender: u32,
    pub killer: Killer,
    pub trigger: KillTrigger,
    pub reclaiming: Vec<Killer>,
    /// Time at which the signal was pending at all threads, and the call that sent it.
    pub generated_ns: u64,
    pub call: Call,
    /// The kernel's address of its memory.
    pub memory: Option<u64>,
    /// Resident bytes as reported by the OOM killer.
    pub rss_bytes: Option<u64>,
    pub curve: Curve,
    pub reaper: Option<ReaperWork>,
    threads: BTreeMap<u32, Thread>,
    functions: Vec<(u64, u32, String)>,
}

/// A reaper's work on a victim.
#[derive(Clone, Debug)]
pub struct ReaperWork {
    pub name: &'static str,
    pub thread: u32,
    pub since_ns: u64,
    pub until_ns: Option<u64>,
}

/// Events of a thread since the signal.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    delivered_ns: Option<u64>,
    ended_ns: Option<u64>,
    /// The last time it took the mmap lock for reading, and the first time after that when it asked for
    /// the lock for writing.
    looks_ns: Option<u64>,
    changes_ns: Option<u64>,
}

impl Victim {
    /// A process to which `sender` has just sent SIGKILL.
    pub fn new(pid: u32, comm: String, sender: u32, generated_ns: u64, call: Call) -> Victim {
        Victim {
            pid,
            comm,
            sender,
            killer: Killer { pid: sender, comm: None },
            trigger: KillTrigger::Kernel,
            reclaiming: Vec::new(),
            generated_ns,
            call,
            memory: None,
            rss_bytes: None,
            curve: Curve::default(),
            reaper: None,
            threads: BTreeMap::new(),
            functions: Vec::new(),
        }
    }

    /// Number of its threads and functions that are kept.
    pub fn size(&self) -> usize {
        self.threads.len() + self.functions.len()
    }

    /// Notes that a thread of the victim handles the signal.
    pub fn deliver(&mut self, thread: u32, time_ns: u64) {
        self.thread(thread).delivered_ns.get_or_insert(time_ns);
    }

    /// Notes that a thread of the victim has ended.
    pub fn end(&mut self, thread: u32, time_ns: u64) {
        if let Some(thread) = self.threads.get_mut(&thread) {
            thread.ended_ns.get_or_insert(time_ns);
        }
    }

    /// Notes that a thread of any process took the mmap lock for reading.
    pub fn look(&mut self, thread: u32, time_ns: u64) {
        let thread = self.thread(thread);
        (thread.looks_ns, thread.changes_ns) = (Some(time_ns), None);
    }

    /// Notes that a thread of any process asked for the mmap lock for writing.
    pub fn change(&mut self, thread: u32, time_ns: u64) {
        self.thread(thread).changes_ns.get_or_insert(time_ns);
    }

    /// Notes a function of the kernel that a thread runs.
    pub fn run(&mut self, thread: u32, time_ns: u64, function: String) {
        self.functions.push((time_ns, thread, function));
    }

    /// Whether a thread took part in the kill.
    pub fn concerns(&self, thread: u32) -> bool {
        thread == self.sender || self.threads.contains_key(&thread)
    }

    fn thread(&mut self, thread: u32) -> &mut Thread {
        self.threads.entry(thread).or_default()
    }

    /// The row of the kill. `last` is the time at which the memory was freed and the thread that freed
    /// it; `None` if this was not recorded.
    pub fn kill(self, last: Option<(u64, u32)>) -> Kill {
        let start_ns = self.call.since_ns.unwrap_or(self.generated_ns);
        let own =
            last.and_then(|(gone_ns, thread)| Some((gone_ns, thread, self.threads.get(&thread)?)));
        let phase =
            |from: Option<u64>, to: Option<u64>| Some(microseconds(to?.checked_sub(from?)?));
        let (gone_ns, looks_ns, changes_ns) = match own {
            Some((gone_ns, _, thread)) => (Some(gone_ns), thread.looks_ns, thread.changes_ns),
            None => (last.map(|(gone_ns, _)| gone_ns), None, None),
        };
        let delivered =
            self.threads.values().filter(|thread| thread.delivered_ns.is_some()).count();
        let since = |time_ns: u64| microseconds(time_ns.saturating_sub(start_ns));
        let curve = self.curve.points();
        Kill {
            pid: self.pid,
            comm: self.comm.clone(),
            threads: u32::try_from(delivered).ok().filter(|&count| count > 0),
            rss_bytes: self.rss_bytes.or_else(|| self.curve.first_bytes()),
            signal_us: phase(self.call.since_ns, Some(self.generated_ns)),
            threads_us: phase(Some(self.generated_ns), looks_ns),
            reclaim_us: phase(looks_ns, gone_ns),
            unmap_us: phase(looks_ns, changes_ns),
            pagetables_us: phase(changes_ns, gone_ns),
            total_us: phase(Some(start_ns), gone_ns),
            reaper_us: self
                .reaper
                .as_ref()
                .and_then(|reaper| phase(Some(reaper.since_ns), reaper.until_ns)),
            trigger: self.trigger,
            killer: Some(self.killer.clone()),
            reclaiming: self.reclaiming.clone(),
            start_ns,
            rss_curve: curve.into_iter().map(|(time_ns, bytes)| (since(time_ns), bytes)).collect(),
            steps: self.steps(start_ns, own.map(|(gone_ns, thread, _)| (gone_ns, thread))),
        }
    }

    /// The steps of the kill, in order.
    fn steps(&self, start_ns: u64, last: Option<(u64, u32)>) -> Vec<KillStep> {
        let mut steps = Steps { start_ns, steps: Vec::new() };
        steps.add("signal delivery", self.sender, start_ns, Some(self.generated_ns));
        for &(time_ns, thread) in &self.call.woken {
            steps.add(&format!("wakes {thread}"), self.sender, time_ns, Some(time_ns));
        }
        for (time_ns, function) in &self.call.functions {
            steps.add(function, self.sender, *time_ns, Some(*time_ns));
        }
        for (&number, thread) in &self.threads {
            let Some(delivered_ns) = thread.delivered_ns else { continue };
            let leaves_ns = thread.looks_ns.or(thread.ended_ns);
            steps.add("handles the signal", number, delivered_ns, leaves_ns);
        }
        if let Some((gone_ns, number)) = last
            && let Some(thread) = self.threads.get(&number)
            && let Some(looks_ns) = thread.looks_ns
        {
            steps.add("unmaps", number, looks_ns, Some(thread.changes_ns.unwrap_or(gone_ns)));
            if let Some(changes_ns) = thread.changes_ns {
                steps.add("frees page tables", number, changes_ns, Some(gone_ns));
            }
        }
        if let Some(reaper) = &self.reaper {
            steps.add(reaper.name, reaper.thread, reaper.since_ns, reaper.until_ns);
        }
        for (time_ns, thread, function) in &self.functions {
            steps.add(function, *thread, *time_ns, Some(*time_ns));
        }
        steps.steps.sort_by(|a, b| a.start_us.total_cmp(&b.start_us));
        steps.steps
    }
}

struct Steps {
    start_ns: u64,
    steps: Vec<KillStep>,
}

impl Steps {
    /// Adds a step that begins at `from_ns`; without a known end it is an instant.
    fn add(&mut self, name: &str, thread: u32, from_ns: u64, to_ns: Option<u64>) {
        self.steps.push(KillStep {
            name: name.to_owned(),
            thread,
            start_us: microseconds(from_ns.saturating_sub(self.start_ns)),
            duration_us: microseconds(to_ns.unwrap_or(from_ns).saturating_sub(from_ns)),
        });
    }
}
