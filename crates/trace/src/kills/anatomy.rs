//! Turns events into kills: a state machine without clock or files. A kill begins with the signal and
//! ends when the process's memory is freed.
//!
//! The last thread that uses a victim's memory frees it (`exit_mmap`). It takes the mmap lock for reading
//! and unmaps, takes the lock for writing and frees page tables, and reports the end. Only the address of
//! the memory identifies it, because this thread may belong to another process that read the memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::event::{Event, What};
use super::kill::{Kill, KillTrigger};
use super::senders::Senders;
use super::victim::{ReaperWork, Victim};

/// Limits for victims at the same time and for kills. Excess victims and kills are counted.
const VICTIMS_MAX: usize = 1 << 12;
const KILLS_MAX: usize = 1 << 16;

/// Threads whose last lock or signal is kept: more than machines have.
const THREADS_MAX: usize = 1 << 20;

/// Limit for the threads and functions of all victims, and for the steps and points of all kills. Excess
/// details are dropped.
const DETAILS_MAX: usize = 1 << 20;

/// Number of events between counts of the details; each event adds at most two.
const COUNT_EVERY: u64 = 1 << 10;

/// `si_code` of a signal that the kernel sends by itself.
const SI_KERNEL: i32 = 0x80;

/// The processes whose kills count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All processes.
    #[default]
    All,
    /// The process with this pid.
    Process(u32),
    /// The member processes and their children.
    Members(BTreeSet<u32>),
}

/// The state between events.
#[derive(Default)]
pub struct Anatomy {
    pub senders: Senders,
    pub scope: Scope,
    /// Whether this kernel reports calls of kill. If so, a signal without a call comes from the kernel.
    tells_calls: bool,
    /// Names of functions by start address.
    functions: BTreeMap<u64, String>,
    victims: BTreeMap<u32, Victim>,
    /// Threads that handle SIGKILL, with the time at which they began.
    delivered: HashMap<u32, u64>,
    /// Per thread: the memory whose lock it took last.
    locked: HashMap<u32, u64>,
    releasing: HashMap<u32, u64>,
    kills: Vec<Kill>,
    /// Events so far, and threads and functions of all victims at the last count.
    taken: u64,
    remembered: usize,
    /// Steps and points of `kills`.
    kept: usize,
    dropped: u64,
}

impl Anatomy {
    /// The state before the first event.
    pub fn new(scope: Scope, tells_calls: bool, functions: BTreeMap<u64, String>) -> Anatomy {
        Anatomy { scope, tells_calls, functions, ..Anatomy::default() }
    }

    /// Adds the next event; events must be ordered by time.
    pub fn take(&mut self, event: &Event) {
        let Event { time_ns, thread, what } = *event;
        if self.taken.is_multiple_of(COUNT_EVERY) {
            self.remembered = self.victims.values().map(Victim::size).sum();
        }
        self.taken += 1;
        if self.remembered >= DETAILS_MAX && !matches!(what, What::MemoryGone { .. }) {
            self.dropped += 1;
            return;
        }
        match what {
            What::KillCall => self.senders.call(thread, time_ns),
            What::KillCallEnds => self.senders.call_ends(thread),
            What::Wakes { thread: other } => self.senders.wake(thread, time_ns, other),
            What::SignalGenerated { target, name, code } => {
                self.begin(thread, time_ns, target, name, code);
            }
            What::SignalDelivered => self.deliver(thread, time_ns),
            What::ThreadEnds { .. } => self.end_thread(thread, time_ns),
            What::LockWanted { memory, is_write } => {
                if is_write && let Some(victim) = self.by_memory(memory) {
                    victim.change(thread, time_ns);
                }
            }
            What::LockTaken { memory, is_write } => self.lock(thread, time_ns, memory, is_write),
            What::MemoryGone { memory } => self.gone(thread, time_ns, memory),
            What::Resident { member, bytes } => {
                if let Some(&memory) = self.locked.get(&thread)
                    && let Some(victim) = self.by_memory(memory)
                {
                    victim.curve.push(time_ns, member, bytes);
                }
            }
            What::ReleaseCall => remember(&mut self.releasing, thread, time_ns),
            What::ReleaseCallEnds => self.release_ends(thread, time_ns),
            What::Chosen { target, rss_bytes } => self.choose(thread, target, rss_bytes),
            What::ReaperBegins { target } => {
                self.reap(
                    target,
                    ReaperWork { name: "oom_reaper", thread, since_ns: time_ns, until_ns: None },
                );
            }
            What::ReaperEnds { .. } => self.reaper_ends(thread, time_ns),
            What::ReclaimBegins { is_group } => self.senders.reclaim(thread, is_group, true),
            What::ReclaimEnds { is_group } => self.senders.reclaim(thread, is_group, false),
            What::KswapdWakes => self.senders.kswapd(thread, true),
            What::KswapdSleeps => self.senders.kswapd(thread, false),
            What::NewTask { thread: new, is_thread } => self.new_task(thread, new, is_thread),
            What::Function { address } => self.function(thread, time_ns, address),
        }
    }

    /// Finished kills, in the order of their ends.
    pub fn kills(&self) -> &[Kill] {
        &self.kills
    }

    /// Whether any process is dying.
    pub fn is_dying(&self) -> bool {
        !self.victims.is_empty()
    }

    /// Every kill, those without a recorded end last, and the number of kills beyond the limits.
    pub fn finish(mut self) -> (Vec<Kill>, u64) {
        for (_, victim) in std::mem::take(&mut self.victims) {
            self.keep(victim.kill(None));
        }
        (self.kills, self.dropped)
    }

    fn begin(&mut self, sender: u32, time_ns: u64, target: u32, name: [u8; 16], code: i32) {
        let pid = self.senders.process(target).unwrap_or(target);
        let call = self.senders.generate(sender, time_ns);
        let is_wanted = match &self.scope {
            Scope::All => true,
            Scope::Process(process) => *process == pid,
            Scope::Members(members) => members.contains(&pid),
        };
        if !is_wanted || self.victims.contains_key(&pid) {
            return;
        }
        if self.victims.len() >= VICTIMS_MAX {
            self.dropped += 1;
            return;
        }
        let trigger = self.trigger(sender, code, call.since_ns.is_some());
        let mut victim = Victim::new(pid, text(&name), sender, time_ns, call);
        victim.trigger = trigger;
        victim.killer = self.senders.killer_of(sender);
        victim.reclaiming = self.senders.reclaiming();
        self.victims.insert(pid, victim);
    }

    /// The trigger of a signal that does not come from the kernel's OOM killer.
    fn trigger(&self, sender: u32, code: i32, is_called: bool) -> KillTrigger {
        if is_called || (!self.tells_calls && code != SI_KERNEL) {
            KillTrigger::User
        } else if self.senders.is_kswapd(sender) {
            KillTrigger::Kswapd
        } else if self.senders.is_reclaiming(sender) {
            KillTrigger::DirectReclaim
        } else {
            KillTrigger::Kernel
        }
    }

    /// The OOM killer's choice, which the kernel reports after the signal.
    fn choose(&mut self, thread: u32, target: u32, rss_bytes: Option<u64>) {
        let trigger = match self.senders.reclaimed_for_group(thread) {
            Some(true) => KillTrigger::MemcgOom,
            Some(false) => KillTrigger::GlobalOom,
            None => KillTrigger::Oom,
        };
        let pid = self.senders.process(target).unwrap_or(target);
        if let Some(victim) = self.victims.get_mut(&pid) {
            victim.trigger = trigger;
            victim.rss_bytes = rss_bytes;
        }
    }

    fn deliver(&mut self, thread: u32, time_ns: u64) {
        remember(&mut self.delivered, thread, time_ns);
        let pid = self.senders.process(thread).unwrap_or(thread);
        if let Some(victim) = self.victims.get_mut(&pid) {
            victim.deliver(thread, time_ns);
        }
    }

    fn end_thread(&mut self, thread: u32, time_ns: u64) {
        for victim in self.victims.values_mut().filter(|victim| victim.concerns(thread)) {
            victim.end(thread, time_ns);
        }
    }

    fn lock(&mut self, thread: u32, time_ns: u64, memory: u64, is_write: bool) {
        // Reclaim locks the memory of any process whose pages it looks at (mm/vmscan.c).
        if self.senders.is_reclaiming(thread) {
            return;
        }
        let pid = self.senders.process(thread).unwrap_or(thread);
        let delivered_ns = self.delivered.get(&thread).copied();
        // Outside of reclaim, a thread that handles SIGKILL locks only the memory of its own process.
        if delivered_ns.is_some()
            && let Some(victim) = self.victims.get_mut(&pid)
        {
            victim.memory.get_or_insert(memory);
        }
        let released_ns = self.releasing.get(&thread).copied();
        let Some(victim) = self.by_memory(memory) else {
            self.locked.remove(&thread);
            return;
        };
        if let Some(delivered_ns) = delivered_ns {
            victim.deliver(thread, delivered_ns);
        }
        if let Some(since_ns) = released_ns {
            let name = "process_mrelease";
            victim.reaper.get_or_insert(ReaperWork { name, thread, since_ns, until_ns: None });
        }
        if !is_write {
            victim.look(thread, time_ns);
        }
        remember(&mut self.locked, thread, memory);
    }

    fn gone(&mut self, thread: u32, time_ns: u64, memory: Option<u64>) {
        self.delivered.remove(&thread);
        let Some(memory) = memory.or_else(|| self.locked.get(&thread).copied()) else { return };
        self.locked.remove(&thread);
        let found = self.victims.iter().find(|(_, victim)| victim.memory == Some(memory));
        if let Some((&pid, _)) = found
            && let Some(victim) = self.victims.remove(&pid)
        {
            self.keep(victim.kill(Some((time_ns, thread))));
        }
    }

    fn reap(&mut self, target: u32, reaper: ReaperWork) {
        let pid = self.senders.process(target).unwrap_or(target);
        if let Some(victim) = self.victims.get_mut(&pid) {
            victim.reaper.get_or_insert(reaper);
        }
    }

    fn release_ends(&mut self, thread: u32, time_ns: u64) {
        self.releasing.remove(&thread);
        self.reaper_ends(thread, time_ns);
    }

    fn reaper_ends(&mut self, thread: u32, time_ns: u64) {
        for victim in self.victims.values_mut() {
            if let Some(reaper) = &mut victim.reaper
                && reaper.thread == thread
            {
                reaper.until_ns.get_or_insert(time_ns);
            }
        }
    }

    fn new_task(&mut self, parent: u32, new: u32, is_thread: bool) {
        self.senders.begin(new, parent, is_thread);
        self.delivered.remove(&new);
        self.locked.remove(&new);
        let process = self.senders.process(parent);
        if let Scope::Members(members) = &mut self.scope
            && !is_thread
            && process.is_some_and(|process| members.contains(&process))
        {
            members.insert(new);
        }
    }

    fn function(&mut self, thread: u32, time_ns: u64, address: u64) {
        let Some((_, name)) = self.functions.range(..=address).next_back() else { return };
        self.senders.run(thread, time_ns, name);
        for victim in self.victims.values_mut().filter(|victim| victim.concerns(thread)) {
            victim.run(thread, time_ns, name.clone());
        }
    }

    fn by_memory(&mut self, memory: u64) -> Option<&mut Victim> {
        self.victims.values_mut().find(|victim| victim.memory == Some(memory))
    }

    fn keep(&mut self, mut kill: Kill) {
        self.kept += kill.steps.len() + kill.rss_curve.len();
        if self.kept > DETAILS_MAX {
            (kill.steps, kill.rss_curve) = (Vec::new(), Vec::new());
        }
        match self.kills.len() < KILLS_MAX {
            true => self.kills.push(kill),
            false => self.dropped += 1,
        }
    }
}

/// Inserts a value, unless the map is full: endless or hostile recordings need a bound.
fn remember(map: &mut HashMap<u32, u64>, thread: u32, value: u64) {
    if map.len() < THREADS_MAX || map.contains_key(&thread) {
        map.insert(thread, value);
    }
}

/// A name without the kernel's padding.
fn text(name: &[u8; 16]) -> String {
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}
