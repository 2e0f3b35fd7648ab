//! The killer itself: waits, looks, asks the policy, acts, and says why. One thread; after its start
//! it allocates nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use linux::cgroup::MemoryGroup;
use linux::held_process::HeldProcess;
use linux::{Root, system};
use policy::kill::{Decision, Kill, Memory, Ranked, Ranking, Snapshot, Stall};
use rustix::io::Errno;
use types::{Bytes, Nanos};

use crate::explain::{Output, put, put_words};
use crate::gauge::Gauge;
use crate::hooks::{HookRunner, Occasion};
use crate::notify::Notify;
use crate::pace::Pace;
use crate::reaper::Reapers;
use crate::sockets::Sockets;
use crate::table::{Table, own_pages};
use crate::wake::{Wake, Woken};
use crate::{Config, Error, Kills, Statistics, Unit};

mod said;

/// Victims of one decision.
const VICTIMS_MAX: usize = 32;
const REAPERS: usize = 2;
/// Looks before memory is locked.
const WARM_LOOKS: u32 = 5;
/// How often victims are looked at until their memory is back.
const SETTLE_EVERY: Duration = Duration::from_millis(1);
/// However slowly a victim gives back, the next is chosen then.
const SETTLE_MAX: Nanos = Nanos(10_000_000_000);
/// Memory is back when this part of what the victim had is left, one part in so many.
const REST: u64 = 10;
/// So long after the last page left a victim's count it is free: the kernel gathers up to 10,000 of them
/// first (mm/mmu_gather.c, MAX_GATHER_BATCH_COUNT).
const GATHERED: Nanos = Nanos(20_000_000);
/// How often processes are listed and measured: with memory to spare, near the threshold, beyond it.
/// Measuring 500 takes 10 ms, so the first is what an idle machine pays; who has idled that long is
/// missed half as much (`restart-cost`), and finer steps come with the second.
const REFRESH_FAR: Nanos = Nanos(60_000_000_000);
const REFRESH_NEAR: Nanos = Nanos(1_000_000_000);
const REFRESH_SHORT: Nanos = Nanos(50_000_000);
/// The threshold is near when less than one part in so many of all memory may still go.
const NEAR: u64 = 8;
/// How often it is said that nobody dies although memory is short, and who would in a dry run.
const SAY_AGAIN: Nanos = Nanos(1_000_000_000);

/// Whose memory is kept from running out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// The machine's.
    #[default]
    Machine,
    /// That of a memory cgroup, whose processes alone may be killed.
    Group(PathBuf),
}

/// What others tell the killer while it runs.
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// To end.
    pub is_over: Arc<AtomicBool>,
    /// To read its settings again.
    pub is_reload: Arc<AtomicBool>,
}

/// A killer that is ready. Dropped, its threads and sockets are gone.
pub struct Killer {
    root: Root,
    group: Option<MemoryGroup>,
    config: Config,
    policy: Box<dyn Kill>,
    ranking: Ranking,
    gauge: Gauge,
    table: Table,
    wake: Wake,
    reapers: Reapers,
    hooks: HookRunner,
    _sockets: Sockets,
    statistics: Arc<Statistics>,
    notify: Notify,
    output: Output,
    pace: Pace,
    victims: Vec<Victim>,
    began: Instant,
    is_near: bool,
    /// When the table was made anew last, and why nobody died when that was last said.
    refreshed: Option<Nanos>,
    spared: Option<(Nanos, &'static str)>,
    beaten: Nanos,
    quiet_until: Nanos,
}

/// One that was killed and whose memory is not back yet.
struct Victim {
    process: HeldProcess,
    name: [u8; 16],
    why: &'static str,
    killed: Nanos,
    /// What it had, the least seen since, and when that was.
    had: u64,
    least: u64,
    progressed: Nanos,
    /// What was available when it was killed.
    available: u64,
}

/// Why somebody dies, for the lines that say so.
#[derive(Clone, Copy)]
struct Cause {
    why: &'static str,
    woken: Woken,
    memory: Memory,
    now: Nanos,
}

impl Killer {
    /// Everything that is needed later, made now.
    ///
    /// # Errors
    /// What the operating system refuses; a group that is none.
    pub fn start(
        root: &Root,
        scope: &Scope,
        config: Config,
        mut output: Output,
    ) -> Result<Killer, Error> {
        let group = match scope {
            Scope::Machine => None,
            Scope::Group(path) => Some(MemoryGroup::at(root, path)?),
        };
        let wake = Wake::new(root, group.as_ref(), config.stalls, |what| output.say_absent(what))?;
        let statistics = Arc::new(Statistics::default());
        let rules = Arc::clone(&config.rules);
        Ok(Killer {
            policy: config.build_policy()?,
            ranking: Ranking::with_room(config.candidates_max),
            gauge: Gauge::open(root, group.as_ref())?,
            table: Table::new(root, group.as_ref(), rules, config.candidates_max)?,
            wake,
            reapers: Reapers::start(root, REAPERS)?,
            hooks: HookRunner::start(&config.hooks)?,
            _sockets: Sockets::start(&config.sockets, &statistics)?,
            statistics,
            notify: Notify::from_environment(),
            output,
            pace: Pace::new(config.poll.0, config.poll.1),
            victims: Vec::with_capacity(VICTIMS_MAX),
            began: Instant::now(),
            is_near: true,
            refreshed: None,
            spared: None,
            beaten: Nanos(0),
            quiet_until: Nanos(0),
            root: root.clone(),
            group,
            config,
        })
    }

    /// What it counts.
    pub fn statistics(&self) -> &Arc<Statistics> {
        &self.statistics
    }

    /// Runs until `control` says so or its group is gone. `reload` reads the settings again; where
    /// they are wrong, those in force stay. What fails while it runs is said and gone on without.
    pub fn run(&mut self, control: &Control, mut reload: impl FnMut() -> Result<Config, Error>) {
        // The first looks touch what later ones need.
        let mut wait = Some(Duration::ZERO);
        for _ in 0..WARM_LOOKS {
            wait = wait.and_then(|time| self.step(time.min(SETTLE_EVERY)));
        }
        if let Err(error) = linux::locking::lock_touched(&self.root) {
            self.output.say_absent(error);
        }
        self.notify.tell("READY=1");
        self.say_start();
        while let Some(time) = wait
            && !control.is_over.load(Relaxed)
        {
            if control.is_reload.swap(false, Relaxed) {
                self.notify.tell("RELOADING=1");
                let outcome = reload().and_then(|config| self.set(config));
                self.say_reload(outcome);
                self.notify.tell("READY=1");
            }
            wait = self.step(time);
        }
        if wait.is_none() {
            self.output.say(|line| put(line, "event", "group-gone"));
        }
        self.notify.tell("STOPPING=1");
    }

    /// Waits as long as `time` and looks once; how long to wait then. None once the group is gone.
    pub fn step(&mut self, time: Duration) -> Option<Duration> {
        let woken = self.wake.wait(time);
        let now = Nanos(self.began.elapsed().as_nanos() as i64);
        if let Some(every) = self.notify.watchdog
            && now.0 - self.beaten.0 >= every.as_nanos() as i64
        {
            self.beaten = now;
            self.notify.tell("WATCHDOG=1");
        }
        let memory = self.look(woken)?;
        if !self.victims.is_empty() {
            // When the last one is done with, this reading is older than what it gave back.
            let is_over = self.settle(now, &memory);
            return Some(if is_over { Duration::ZERO } else { SETTLE_EVERY });
        }
        let margin = self.policy.margin(&memory);
        self.is_near = margin.0 < memory.total.0 / NEAR;
        self.pace.note(now, memory.available);
        self.update(now, &memory, margin);
        self.decide(now, woken, memory);
        self.statistics.lines_lost.store(self.output.lost, Relaxed);
        Some(if self.victims.is_empty() { self.pace.wait(margin) } else { SETTLE_EVERY })
    }

    /// Asks the policy and acts: on one decision, or in batches until it spares the rest if what
    /// victims have counts as free.
    fn decide(&mut self, now: Nanos, woken: Woken, mut memory: Memory) {
        loop {
            let snapshot = Snapshot { time: now, memory, candidates: self.table.candidates() };
            let decision = self.policy.decide(&snapshot, &mut self.ranking);
            let (why, count) = match decision {
                _ if now < self.quiet_until => return,
                Decision::Kill { why, victims } => (why, victims),
                Decision::Spare { why } if self.policy.margin(&memory).0 == 0 => {
                    return self.say_spared(now, why, &memory);
                }
                Decision::Spare { .. } => {
                    self.spared = None;
                    return;
                }
            };
            let before = self.victims.len();
            self.act(Cause { why, woken, memory, now }, count);
            let freed: u64 = self.victims[before..].iter().map(|victim| victim.had).sum();
            // Whoever could not be killed would be named again.
            if self.config.kills == Kills::Serial || freed == 0 {
                return;
            }
            memory.free = Bytes((memory.free.0 + freed).min(memory.total.0));
            memory.available = Bytes((memory.available.0 + freed).min(memory.total.0));
        }
    }

    fn look(&mut self, woken: Woken) -> Option<Memory> {
        let stall = match woken {
            Woken::Kernel(stall) => stall,
            Woken::Time => Stall::None,
        };
        self.is_near |= stall > Stall::None;
        let mut memory = self.gauge.read(self.is_near)?;
        memory.stall = stall;
        self.statistics.note_memory(&memory);
        Some(memory)
    }

    /// Lists and measures processes, the more often the less memory is left.
    fn update(&mut self, now: Nanos, memory: &Memory, margin: Bytes) {
        let every = match margin.0 {
            // Whoever dies is chosen by what is true now; spared for another reason, such as swap that
            // is left, nobody is.
            0 if self.spared.is_none() => Nanos(0),
            0 => REFRESH_SHORT,
            _ if self.is_near => REFRESH_NEAR,
            _ => REFRESH_FAR,
        };
        if self.refreshed.is_some_and(|last| now.0 - last.0 < every.0) {
            return;
        }
        self.refreshed = Some(now);
        self.table.refresh(now, margin.0 == 0);
        self.table.measure(now, memory.swap_total.0 > 0);
        self.statistics.candidates.store(self.table.entries().len() as u64, Relaxed);
        self.statistics.overlooked.store(self.table.overlooked as u64, Relaxed);
    }

    /// Kills the first `count` of the ranking, and those in their groups where that is the unit.
    fn act(&mut self, cause: Cause, count: usize) {
        let mut places = [0; VICTIMS_MAX];
        let mut chosen = 0;
        let mut choose = |place: usize| {
            if chosen < VICTIMS_MAX && !places[..chosen].contains(&place) {
                places[chosen] = place;
                chosen += 1;
            }
        };
        let candidates = self.table.candidates();
        for Ranked { candidate: place, .. } in &self.ranking.ranked()[..count] {
            choose(*place);
            if self.config.unit == Unit::Group {
                let group = candidates[*place].group;
                let others = candidates.iter().enumerate();
                others
                    .filter(|(_, other)| other.group == group && other.is_eligible())
                    .for_each(|(other, _)| choose(other));
            }
        }
        for &place in &places[..chosen] {
            self.kill(place, cause);
        }
        // Whoever dies, the ranking is of a table that is over.
        self.refreshed = None;
        self.spared = None;
    }

    fn kill(&mut self, place: usize, cause: Cause) {
        if self.config.is_dry_run {
            return self.note_would_kill(place, cause);
        }
        if !self.table.confirm(place, cause.now) {
            return;
        }
        let occasion = self.occasion(place, cause.why);
        if !self.hooks.run(occasion) {
            self.output.say(|line| {
                put(line, "event", "hook-late")?;
                put(line, "process", occasion.process)
            });
        }
        let entry = &self.table.entries()[place];
        // A second descriptor for the reapers, a third to watch it by.
        let (sent, watched) = (entry.process.try_clone(), entry.process.try_clone());
        match entry.process.kill() {
            Ok(()) => {}
            Err(Errno::SRCH) => return,
            Err(error) => return self.note_refusal(place, cause.now, error),
        }
        if let Ok(process) = sent {
            let Config { reclaim, grace, .. } = self.config;
            self.reapers.send(process, entry.is_slow, reclaim, grace);
        }
        if let Ok(process) = watched {
            self.wait_for_memory_of(process, place, cause);
        }
        Statistics::add(&self.statistics.kills, 1);
        self.say_kill("kill", place, cause);
        self.table.doom(place, cause.now);
    }

    /// Looks at the memory of the one at `place`, which was killed now, until it is back.
    fn wait_for_memory_of(&mut self, process: HeldProcess, place: usize, cause: Cause) {
        if self.victims.len() == VICTIMS_MAX {
            return;
        }
        let had = self.table.candidates()[place].resident.0;
        let killed = Nanos(self.began.elapsed().as_nanos() as i64);
        self.victims.push(Victim {
            process,
            name: self.table.entries()[place].name_bytes(),
            why: cause.why,
            killed,
            had,
            least: had,
            progressed: killed,
            available: cause.memory.available.0,
        });
    }

    fn note_would_kill(&mut self, place: usize, cause: Cause) {
        Statistics::add(&self.statistics.would_kill, 1);
        self.say_kill("would-kill", place, cause);
        self.table.doom(place, cause.now);
        self.quiet_until = Nanos(cause.now.0 + SAY_AGAIN.0);
    }

    fn occasion(&self, place: usize, why: &'static str) -> Occasion {
        let entry = &self.table.entries()[place];
        let (process, name) = (entry.process.number(), entry.name_bytes());
        Occasion { is_before: true, process, name, why, freed_bytes: 0 }
    }

    fn note_refusal(&mut self, place: usize, now: Nanos, error: Errno) {
        Statistics::add(&self.statistics.refused, 1);
        let process = self.table.candidates()[place].process;
        self.table.refuse(place, now);
        self.output.say(|line| {
            put(line, "event", "refused")?;
            put(line, "process", process)?;
            put_words(line, "why", error)
        });
    }

    /// Looks at the victims; whether no memory is still to come back.
    fn settle(&mut self, now: Nanos, memory: &Memory) -> bool {
        let page = rustix::param::page_size() as u64;
        let timeout = self.config.kill_timeout.as_nanos() as i64;
        let Killer { victims, statistics, output, hooks, .. } = self;
        victims.retain_mut(|victim| {
            let left = victim.look(now, memory, page);
            let is_late =
                now.0 - victim.progressed.0 > timeout || now.0 - victim.killed.0 > SETTLE_MAX.0;
            if left > victim.had / REST && !is_late {
                return true;
            }
            let is_back = left <= victim.had / REST;
            let freed_bytes = victim.had.saturating_sub(left);
            let time_us = (now.0 - victim.killed.0) / 1000;
            if is_back {
                statistics.note_back(time_us as u64, freed_bytes);
            } else {
                Statistics::add(&statistics.late, 1);
            }
            let process = victim.process.number();
            output.say(|line| {
                put(line, "event", if is_back { "back" } else { "late" })?;
                put(line, "process", process)?;
                put(line, "at_ns", system::monotonic_ns())?;
                put(line, "freed_bytes", freed_bytes)?;
                put(line, "time_us", time_us)
            });
            let Victim { name, why, .. } = *victim;
            hooks.run(Occasion { is_before: false, process, name, why, freed_bytes });
            false
        });
        if self.victims.is_empty() {
            self.pace.forget();
        }
        self.victims.is_empty()
    }

    /// Other settings from now on, or none of them. Room and sockets stay as they were at the start.
    fn set(&mut self, config: Config) -> Result<(), Error> {
        let policy = config.build_policy()?;
        let hooks = HookRunner::start(&config.hooks)?;
        // What this kernel does not offer was said at the start.
        let wake = Wake::new(&self.root, self.group.as_ref(), config.stalls, |_| {})?;
        (self.policy, self.hooks, self.wake) = (policy, hooks, wake);
        self.table.set_rules(Arc::clone(&config.rules));
        self.pace = Pace::new(config.poll.0, config.poll.1);
        let Config { candidates_max, ref sockets, .. } = self.config;
        self.config = Config { candidates_max, sockets: sockets.clone(), ..config };
        self.refreshed = None;
        Ok(())
    }
}

impl Victim {
    /// Bytes that it may still have. Its own count falls before its pages are free, to none as soon as
    /// its last thread lets go of its memory, and it may end while somebody still frees them: it counts
    /// only what has become available, until a while after the last change.
    fn look(&mut self, now: Nanos, memory: &Memory, page: u64) -> u64 {
        let risen = memory.available.0.saturating_sub(self.available);
        let unseen = self.had.saturating_sub(risen);
        let left = match self.process.has_ended(Duration::ZERO) {
            true => 0,
            false => self.counted_bytes(page).unwrap_or(unseen),
        };
        if left < self.least {
            (self.least, self.progressed) = (left, now);
        }
        let is_gathering = now.0 - self.progressed.0 < GATHERED.0;
        if is_gathering { left.max(unseen) } else { left }
    }

    /// Bytes that its map counts; none where it has no map.
    fn counted_bytes(&self, page: u64) -> Option<u64> {
        let mut buffer = [0; 128];
        let statm = self.process.read(c"statm", &mut buffer).unwrap_or_default();
        let has_map = statm.first().is_some_and(|&byte| byte != b'0');
        own_pages(statm).filter(|_| has_map).map(|pages| pages * page)
    }
}
