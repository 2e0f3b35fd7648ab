//! Kills of processes: from lmkd's markers, from the kernel's events, and from lines of the log. One kill has
//! several of these, which become one.

use std::collections::{HashMap, HashSet};

use trace::system::android::{self, LMKD_KILL_COUNTER, lmkd_kill, lmkd_reason};
use trace::system::{Event, Kind, Name, Names};

use super::kill_texts::{LoggedKill, is_of_killers, logged_crash, logged_death, logged_kill};
use super::memory::Meminfo;
use super::tasks::{ProcessIndex, Tasks};

/// Kills that are kept.
const KILLS_MAX: usize = 4096;

/// Events of one process within this time are one kill.
const SAME_KILL_NS: i64 = 1_000_000_000;

/// The death of a process this long after its kill, as the log has it, is of that kill.
const DEATH_NS: i64 = 60_000_000_000;

/// Crashes that are remembered.
const CRASHES_MAX: usize = 4096;

/// The number of SIGKILL.
const SIGKILL: u32 = 9;

/// Who killed, from the least to the most certain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KilledBy {
    /// The process with this name sent the signal.
    Sender(String),
    /// Android's system_server.
    SystemServer,
    /// The kernel's out-of-memory killer.
    Oom,
    /// The former killer of Android in the kernel.
    Driver,
    /// Android's lmkd.
    Lmkd,
}

impl KilledBy {
    /// The killer as results name it.
    pub fn text(&self) -> &str {
        match self {
            KilledBy::Sender(name) if name.is_empty() => "unknown",
            KilledBy::Sender(name) => name,
            KilledBy::SystemServer => "system_server",
            KilledBy::Oom => "oom",
            KilledBy::Driver => "lowmemorykiller",
            KilledBy::Lmkd => "lmkd",
        }
    }
}

/// Another process that a killer could have chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spared {
    /// The process.
    pub process: ProcessIndex,
    /// oom_score_adj of the process.
    pub adj: i32,
    /// Resident and swapped bytes of the process.
    pub bytes: u64,
}

/// A kill, with the state of memory and processes at its first event.
#[derive(Clone, Debug)]
pub struct Killed {
    /// Time of the first event, in nanoseconds.
    pub time_ns: i64,
    /// The process; `None` if the trace has nothing else of it.
    pub process: Option<ProcessIndex>,
    /// Pid of the process.
    pub pid: u32,
    /// Name of the process in a line of the log; empty if there is none.
    pub name: Vec<u8>,
    /// oom_score_adj.
    pub adj: Option<i32>,
    /// The reason.
    pub reason: Option<String>,
    /// Who killed.
    pub killer: KilledBy,
    /// The marks and events that report the kill.
    pub sources: Vec<&'static str>,
    /// Free memory as the killer states it.
    pub free_bytes: Option<u64>,
    /// The last samples of memory before.
    pub memory: Meminfo,
    /// Resident and swapped bytes of the victim.
    pub resident_bytes: Option<u64>,
    /// Swapped bytes of the victim.
    pub swapped_bytes: Option<u64>,
    /// The process with the highest oom_score_adj above the victim's that had at least as much memory.
    pub better: Option<Spared>,
    /// Other processes whose oom_score_adj and memory are known.
    pub others: u64,
}

/// Finds the kills of a trace.
#[derive(Debug, Default)]
pub struct KillFinder {
    kills: Vec<Killed>,
    /// The last kill of each pid.
    by_pid: HashMap<u32, usize>,
    /// Processes that crashed by themselves.
    crashed: HashSet<u32>,
    left_out: u64,
    has_sources: bool,
}

impl KillFinder {
    /// The kills so far, in the order of the events.
    pub fn kills(&self) -> &[Killed] {
        &self.kills
    }

    /// Number of kills that were not kept.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Whether the trace would show kills, so that none means none: it has a marker or event of a kill, any signal, a
    /// log line of a program that kills, or a configuration that records kills.
    pub fn has_sources(&self) -> bool {
        self.has_sources
    }

    /// Notes that the trace's configuration records kills.
    pub fn expect(&mut self) {
        self.has_sources = true;
    }

    /// Takes an event; returns the number of a kill that begins with it.
    pub fn take(
        &mut self,
        event: &Event,
        names: &Names,
        tasks: &Tasks,
        memory: Meminfo,
    ) -> Option<usize> {
        match event.kind {
            Kind::Counter { name, value, .. } if names.bytes_of(name) == LMKD_KILL_COUNTER => {
                self.has_sources = true;
                let pid = u32::try_from(value).ok().filter(|&pid| pid != 0)?;
                let (number, _) =
                    self.at(event.time_ns, pid, KilledBy::Lmkd, "lmkd-counter", tasks, memory)?;
                self.is_new(number)
            }
            Kind::LowMemoryKill { pid, comm, free_bytes, .. } => {
                let (number, found) =
                    self.at(event.time_ns, pid, KilledBy::Driver, "lowmemory_kill", tasks, memory)?;
                found.free_bytes = u64::try_from(free_bytes).ok();
                if found.name.is_empty() {
                    found.name = names.bytes_of(comm).to_vec();
                }
                self.is_new(number)
            }
            Kind::OomVictim { pid } => {
                let (number, found) =
                    self.at(event.time_ns, pid, KilledBy::Oom, "mark_victim", tasks, memory)?;
                found.reason.get_or_insert_with(|| "out_of_memory".to_owned());
                self.is_new(number)
            }
            Kind::Signal { tid, signal, comm } => {
                self.has_sources = true;
                match signal {
                    SIGKILL => self.signal(event, tid, comm, names, tasks, memory),
                    _ => None,
                }
            }
            Kind::Log { tag, message, .. } => {
                let (tag, message) = (names.bytes_of(tag), names.bytes_of(message));
                self.has_sources |= is_of_killers(tag);
                if let Some(pid) = logged_crash(tag, message)
                    && self.crashed.len() < CRASHES_MAX
                {
                    self.crashed.insert(pid);
                }
                if let Some(kill) = logged_kill(tag, message) {
                    return self.line(event.time_ns, kill, tasks, memory);
                }
                self.death(event.time_ns, logged_death(tag, message)?, tasks, memory)
            }
            _ => {
                let (_, name) = android::mark(&event.kind)?;
                let kill = lmkd_kill(names.bytes_of(name))?;
                let (number, found) =
                    self.at(event.time_ns, kill.pid, KilledBy::Lmkd, "lmkd-slice", tasks, memory)?;
                found.adj = Some(kill.adj);
                found.reason = Some(lmkd_reason(kill.reason).to_owned());
                self.is_new(number)
            }
        }
    }

    fn signal(
        &mut self,
        event: &Event,
        tid: u32,
        comm: Name,
        names: &Names,
        tasks: &Tasks,
        memory: Meminfo,
    ) -> Option<usize> {
        let process = tasks.of_thread(tid);
        // A signal to a single thread of a process ends that process, too.
        let pid = if process == 0 { tid } else { tasks.process(process).pid };
        let sender = tasks.process(tasks.of_thread(event.tid)).text(names);
        let killer =
            if sender.ends_with("lmkd") { KilledBy::Lmkd } else { KilledBy::Sender(sender) };
        let (number, found) = self.at(event.time_ns, pid, killer, "sigkill", tasks, memory)?;
        if found.name.is_empty() && found.process.is_none() {
            found.name = names.bytes_of(comm).to_vec();
        }
        self.is_new(number)
    }

    fn line(
        &mut self,
        time_ns: i64,
        line: LoggedKill,
        tasks: &Tasks,
        memory: Meminfo,
    ) -> Option<usize> {
        let killer = match line.source {
            "lmkd-log" | "killinfo" => KilledBy::Lmkd,
            "died-log" | "am_proc_died" => KilledBy::Sender(String::new()),
            _ => KilledBy::SystemServer,
        };
        let (number, found) = self.at(time_ns, line.pid, killer, line.source, tasks, memory)?;
        if !line.name.is_empty() {
            found.name = line.name;
        }
        found.adj = line.adj.or(found.adj);
        found.free_bytes = found.free_bytes.or(line.free_bytes);
        found.resident_bytes = found.resident_bytes.or(line.resident_bytes);
        found.swapped_bytes = found.swapped_bytes.or(line.swapped_bytes);
        let stated = line.reason_number.map(|number| lmkd_reason(number).to_owned());
        let in_words =
            (!line.reason.is_empty()).then(|| String::from_utf8_lossy(&line.reason).into_owned());
        if found.reason.is_none() {
            found.reason = stated.or(in_words);
        }
        self.is_new(number)
    }

    /// A death in the log: of a kill before, of a crash, or else a kill by an unknown killer.
    fn death(
        &mut self,
        time_ns: i64,
        death: LoggedKill,
        tasks: &Tasks,
        memory: Meminfo,
    ) -> Option<usize> {
        if self.crashed.remove(&death.pid) {
            return None;
        }
        let known = self.by_pid.get(&death.pid).map(|&number| &mut self.kills[number]);
        if let Some(kill) = known.filter(|kill| time_ns.saturating_sub(kill.time_ns) <= DEATH_NS) {
            if !kill.sources.contains(&death.source) {
                kill.sources.push(death.source);
            }
            kill.adj = kill.adj.or(death.adj);
            return None;
        }
        self.line(time_ns, death, tasks, memory)
    }

    fn is_new(&self, number: usize) -> Option<usize> {
        (self.kills[number].sources.len() == 1).then_some(number)
    }

    /// The kill of a pid at this time: a known one, or a new one.
    fn at(
        &mut self,
        time_ns: i64,
        pid: u32,
        killer: KilledBy,
        source: &'static str,
        tasks: &Tasks,
        memory: Meminfo,
    ) -> Option<(usize, &mut Killed)> {
        self.has_sources = true;
        let known =
            self.by_pid.get(&pid).copied().filter(|&number| {
                time_ns.saturating_sub(self.kills[number].time_ns) <= SAME_KILL_NS
            });
        let number = match known {
            Some(number) => number,
            None if self.kills.len() == KILLS_MAX => {
                self.left_out += 1;
                return None;
            }
            None => {
                let kill = self.begin(time_ns, pid, killer.clone(), tasks, memory);
                self.kills.push(kill);
                self.by_pid.insert(pid, self.kills.len() - 1);
                self.kills.len() - 1
            }
        };
        let kill = &mut self.kills[number];
        kill.killer = kill.killer.clone().max(killer);
        if !kill.sources.contains(&source) {
            kill.sources.push(source);
        }
        Some((number, kill))
    }

    fn begin(
        &self,
        time_ns: i64,
        pid: u32,
        killer: KilledBy,
        tasks: &Tasks,
        memory: Meminfo,
    ) -> Killed {
        let process = tasks.of_pid(pid);
        let victim = process.map(|index| *tasks.process(index));
        let bytes_of = |process: &super::tasks::Process| {
            let swapped = process.swap_bytes.unwrap_or(0);
            process.resident_bytes().map(|resident| resident.saturating_add(swapped))
        };
        let adj = victim.and_then(|victim| victim.adj);
        let size = victim.as_ref().and_then(bytes_of);
        let is_killed =
            |index: ProcessIndex| self.kills.iter().any(|kill| kill.process == Some(index));
        let (mut better, mut others) = (None::<Spared>, 0);
        for (index, other) in tasks.all() {
            let (Some(other_adj), Some(bytes)) = (other.adj, bytes_of(other)) else { continue };
            if Some(index) == process || other.end_ns.is_some() || other_adj < 0 || bytes == 0 {
                continue;
            }
            others += 1;
            let is_better = adj.is_some_and(|adj| other_adj > adj)
                && size.is_some_and(|size| bytes >= size)
                && better.is_none_or(|best| (other_adj, bytes) > (best.adj, best.bytes));
            if is_better && !is_killed(index) {
                better = Some(Spared { process: index, adj: other_adj, bytes });
            }
        }
        Killed {
            time_ns,
            process,
            pid,
            name: Vec::new(),
            adj,
            reason: None,
            killer,
            sources: Vec::new(),
            free_bytes: None,
            memory,
            resident_bytes: victim.and_then(|victim| victim.resident_bytes()),
            swapped_bytes: victim.and_then(|victim| victim.swap_bytes),
            better,
            others,
        }
    }
}
