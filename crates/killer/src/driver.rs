//! The killer itself: waits, measures, asks the policy, acts, and logs why. It is one thread, which allocates
//! nothing after its start.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use daemon::log::{put, put_words};
use daemon::sockets::{Sockets, taken};
use daemon::{Control, Notify, Output};
use linux::cgroup::MemoryGroup;
use linux::weigher::Weigher;
use linux::{Root, system};
use policy::kill::search::{Holder, HolderSearch, is_near};
use policy::kill::{Decision, KillPolicy, Memory, Ranking, Snapshot, Stall};
use types::{Bytes, Nanos};

use crate::examine::{Examined, build_policy, examine};
use crate::gauge::Gauge;
use crate::hooks::{HookRunner, Occasion};
use crate::notes::VictimNotes;
use crate::pace::Pace;
use crate::reaper::{self, Reapers};
use crate::scope::{Scope, VICTIMS_MAX};
use crate::sockets;
use crate::table::Table;
use crate::victims::{Settled, Victim, Victims};
use crate::wake::{Wake, Woken};
use crate::{Config, Error, Kills, Statistics};

mod act;
mod holder;
mod log;

const REAPERS: usize = 2;
/// The priority of the weigher's thread: that of the killer's thread, which waits for it.
const WEIGHER_NICE: i32 = -10;
/// Looks before memory is locked.
const WARM_LOOKS: u32 = 5;
/// How often victims are measured until their memory is back.
const SETTLE_EVERY: Duration = Duration::from_millis(1);
/// How often processes are listed and measured: with memory to spare, near the threshold, beyond it.
/// Measuring 500 processes takes 10 ms, so the first time bounds the cost on an idle machine. It is exact enough
/// for idle times: `restart-cost` needs an idle time of a minute to halve the cost of a process.
const REFRESH_FAR: Nanos = Nanos(60_000_000_000);
const REFRESH_NEAR: Nanos = Nanos(1_000_000_000);
const REFRESH_SHORT: Nanos = Nanos(50_000_000);
/// How often the killer logs that it kills nothing although memory is short.
const SAY_AGAIN: Nanos = Nanos(1_000_000_000);
/// How often a dry run logs its victim: it kills nothing, so memory stays short.
const WOULD_AGAIN: Nanos = Nanos(10_000_000_000);

/// A killer that is ready to run. When dropped, it ends its threads and removes its sockets.
pub struct Killer {
    root: Root,
    group: Option<MemoryGroup>,
    config: Config,
    policy: Box<dyn KillPolicy>,
    ranking: Ranking,
    gauge: Gauge,
    table: Table,
    wake: Wake,
    reapers: Reapers,
    notes: Option<Arc<VictimNotes>>,
    hooks: HookRunner,
    _sockets: Sockets,
    statistics: Arc<Statistics>,
    notify: Notify,
    output: Output,
    pace: Pace,
    victims: Victims,
    weigher: Weigher,
    search: HolderSearch,
    /// The holder that was logged last, and when.
    reconsidered: Option<(Nanos, Holder)>,
    began: Instant,
    is_near: bool,
    /// The time of the last refresh of the table, and the last logged reason to kill nothing.
    refreshed: Option<Nanos>,
    spared: Option<(Nanos, &'static str)>,
    /// When the number of processes without room was last logged, and that number.
    overlooked: (Nanos, usize),
    beaten: Nanos,
    quiet_until: Nanos,
}

/// The cause of a kill, for the log.
#[derive(Clone, Copy)]
struct Cause {
    why: &'static str,
    woken: Woken,
    memory: Memory,
    now: Nanos,
}

impl Killer {
    /// Opens and allocates all that the killer needs later.
    ///
    /// # Errors
    /// The operating system refuses, or the scope is not a memory cgroup.
    pub fn start(
        root: &Root,
        scope: &Scope,
        mut config: Config,
        mut output: Output,
    ) -> Result<Killer, Error> {
        let Examined { group, gauge, policy, room, running_at, absent } =
            examine(root, scope, &config)?;
        if let Some(path) = running_at.first() {
            return Err(taken(path));
        }
        config.candidates_max = room;
        absent.iter().for_each(|what| output.say_absent(what));
        let mut absent = |what| output.say_absent(what);
        let wake = Wake::new(root, group.as_ref(), config.stalls, &mut absent)?;
        let statistics = Arc::new(Statistics::default());
        let sockets = Sockets::start(sockets::answering(&config.sockets, &statistics), absent)?;
        let rules = Arc::clone(&config.rules);
        let notes = finish_notes(root, &mut output);
        Ok(Killer {
            notes,
            policy,
            ranking: Ranking::with_room(config.candidates_max),
            gauge,
            table: Table::new(root, group.as_ref(), rules, config.candidates_max)?,
            wake,
            reapers: Reapers::start(root, REAPERS)?,
            hooks: HookRunner::start(&config.hooks, &statistics)?,
            _sockets: sockets,
            statistics,
            notify: Notify::from_environment(),
            output,
            pace: Pace::new(config.poll.0, config.poll.1),
            victims: Victims::with_room(VICTIMS_MAX),
            weigher: Weigher::start(Some(WEIGHER_NICE))?,
            search: HolderSearch::with_room(config.candidates_max),
            reconsidered: None,
            began: Instant::now(),
            is_near: true,
            refreshed: None,
            spared: None,
            overlooked: (Nanos(0), 0),
            beaten: Nanos(0),
            quiet_until: Nanos(0),
            root: root.clone(),
            group,
            config,
        })
    }

    /// The killer's counters.
    pub fn statistics(&self) -> &Arc<Statistics> {
        &self.statistics
    }

    /// Runs until `control` ends it or its group is removed. `reload` reads the settings again; if they are
    /// invalid, the old ones stay in force. The killer logs failures and continues.
    pub fn run(&mut self, control: &Control, mut reload: impl FnMut() -> Result<Config, Error>) {
        // It may have been started through /proc/self/exe; this name shows in ps, and in traces of its kills.
        let _ = rustix::thread::set_name(c"killd");
        // The first looks touch what later ones need.
        let mut wait = Some(Duration::ZERO);
        for _ in 0..WARM_LOOKS {
            wait = wait.and_then(|time| self.step(time.min(SETTLE_EVERY)));
        }
        if let Err(error) = linux::own_memory::lock_touched(&self.root) {
            let advice = "raise the limit (ulimit -l, or LimitMEMLOCK= of the unit)";
            self.output.say_absent(format_args!("{error}: {advice}"));
        }
        self.notify.send("READY=1");
        self.say_start();
        while let Some(time) = wait
            && !control.is_over.load(Relaxed)
        {
            if control.is_reload.swap(false, Relaxed) {
                self.notify.send("RELOADING=1");
                let outcome = reload().and_then(|config| self.set(config));
                self.say_reload(outcome);
                self.notify.send("READY=1");
            }
            wait = self.step(time);
        }
        if wait.is_none() {
            self.output.say(|line| put(line, "event", "group-gone"));
        }
        self.notify.send("STOPPING=1");
    }

    /// Waits for up to `time`, then checks memory once; returns how long to wait next, or None once the
    /// group is removed.
    pub fn step(&mut self, time: Duration) -> Option<Duration> {
        let woken = self.wake.wait(time);
        let now = Nanos(self.began.elapsed().as_nanos() as i64);
        if let Some(every) = self.notify.watchdog
            && now.0 - self.beaten.0 >= every.as_nanos() as i64
        {
            self.beaten = now;
            self.notify.send("WATCHDOG=1");
        }
        let memory = self.look(woken)?;
        if !self.victims.is_empty() {
            // Once the last victim is settled, this reading is older than the memory that it freed.
            let is_over = self.settle(now)?;
            return Some(if is_over { Duration::ZERO } else { SETTLE_EVERY });
        }
        let margin = self.policy.margin(&memory);
        self.is_near = is_near(margin, &memory);
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
                Decision::Kill { .. } if let Some(why) = self.reason_to_spare(now) => {
                    return self.say_spared(now, why, &memory);
                }
                Decision::Kill { why, victims } => (why, victims),
                Decision::Spare { why } if self.policy.margin(&memory).0 == 0 => {
                    return self.say_spared(now, why, &memory);
                }
                Decision::Spare { .. } => {
                    self.spared = None;
                    return;
                }
            };
            memory = self.act(Cause { why, woken, memory, now }, count);
            // No victim is named again: each is dying, has ended, or may not be killed.
            let is_batch = self.config.kills == Kills::Batch && !self.victims.is_empty();
            if !is_batch || self.victims.is_full() {
                return;
            }
            // The stall that woke the killer was before these kills.
            memory.stall = Stall::None;
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
            // A victim is chosen by fresh measurements, but while the policy spares all for another reason,
            // such as free swap, old ones are enough.
            0 if self.spared.is_none() => Nanos(0),
            0 => REFRESH_SHORT,
            _ if self.is_near => REFRESH_NEAR,
            _ => REFRESH_FAR,
        };
        if self.refreshed.is_some_and(|last| now.0 - last.0 < every.0) {
            return;
        }
        self.refreshed = Some(now);
        self.table.refresh(now, margin.0 == 0, memory.swap_total.0 > 0);
        self.table.measure(now);
        self.statistics.candidates.store(self.table.len() as u64, Relaxed);
        self.statistics.overlooked.store(self.table.overlooked.0 as u64, Relaxed);
        self.say_overlooked(now);
        if margin.0 > 0 {
            self.search.end();
        }
        if self.is_near {
            self.weigh(now, memory, margin.0 == 0);
        }
    }

    /// The memory that kills add to: for a group the free part of its limit, for the machine the available memory.
    fn read_free(&mut self) -> Option<(Memory, u64)> {
        let memory = self.gauge.read(false)?;
        let free = if self.group.is_some() { memory.free } else { memory.available };
        Some((memory, free.0))
    }

    /// Measures the victims; returns whether all are settled, or None once the group is gone.
    fn settle(&mut self, now: Nanos) -> Option<bool> {
        self.victims.measure();
        let (memory, free) = self.read_free()?;
        let Killer { victims, statistics, output, hooks, config, .. } = self;
        victims.settle(now, free, config.kill_timeout, |victim, settled| {
            let Settled { is_back, freed_bytes, gained_bytes, time } = settled;
            let time_us = time.0 / 1000;
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
                put(line, "gained_bytes", gained_bytes)?;
                put(line, "time_us", time_us)
            });
            let Victim { name, why, .. } = *victim;
            hooks.run(Occasion { is_before: false, process, name, why, freed_bytes });
        });
        if self.victims.is_empty() {
            self.pace.forget();
            self.note_batch(&memory);
        }
        Some(self.victims.is_empty())
    }

    /// Applies new settings, all or none. Room and sockets stay as they were at the start.
    fn set(&mut self, config: Config) -> Result<(), Error> {
        let policy = build_policy(&config, &mut self.gauge)?;
        // The killer logged at the start what this kernel does not offer.
        let wake = Wake::new(&self.root, self.group.as_ref(), config.stalls, |_| {})?;
        self.hooks.set(&config.hooks)?;
        (self.policy, self.wake) = (policy, wake);
        self.table.set_rules(Arc::clone(&config.rules));
        self.pace = Pace::new(config.poll.0, config.poll.1);
        let Config { candidates_max, ref sockets, .. } = self.config;
        self.config = Config { candidates_max, sockets: sockets.clone(), ..config };
        self.refreshed = None;
        Ok(())
    }
}

/// Finishes the kills of earlier killers; returns the file for new notes, if there can be one.
fn finish_notes(root: &Root, output: &mut Output) -> Option<Arc<VictimNotes>> {
    let (notes, unfinished) = match VictimNotes::open(root) {
        Ok(opened) => opened,
        Err(error) => {
            output.say_absent(format_args!("notes for the next killd: {error}"));
            return None;
        }
    };
    for unfinished in unfinished {
        if reaper::finish(root, &unfinished) {
            output.say(|line| {
                put(line, "event", "finished")?;
                put(line, "process", unfinished.process)?;
                let why = "an earlier killd was killed before the victim was thawed and dead";
                put_words(line, "why", why)
            });
        }
    }
    Some(notes)
}
