//! Turns what an analysis found into its results.

use std::cmp::Reverse;
use std::collections::HashMap;

use trace::system::Names;

use super::analyzer::Analyzer;
use super::judge::KillEvidence;
use super::kills::Killed;
use super::launches::{Launched, Unfinished, is_comm_of};
use super::outcome::{
    About, Answers, Cause, FileReads, HeatRange, Interval, IntervalKind, Kills, Launches, Parts,
    PressureFound, ProcessSize, RegionHeat, ThreadTimes, TraceKill, TraceLaunch, UnfinishedLaunch,
};
use super::spans::{Amount, Amounts, BusySpan, PROCESSES_KEPT, Spans};
use super::split::Times;
use super::tasks::{Process, ProcessIndex};

/// The time before a launch in which kills count as before it.
const BEFORE_NS: i64 = 10_000_000_000;

/// A process that comes back within this time came back soon.
const SOON_S: f64 = 60.0;

/// Processes of the whole trace that are listed.
const CAUSES_KEPT: usize = 10;

/// Processes whose memory is listed.
const SIZES_KEPT: usize = 32;

impl Analyzer {
    /// The answers, once all events were taken.
    pub fn finish(mut self, names: &Names) -> Answers {
        self.launches.end(&self.tasks, names);
        let end_ns = self.last_ns.unwrap_or(0);
        let tasks = &self.tasks;
        self.pressure.end(end_ns, |tid| tasks.of_thread(tid));
        self.counted.end_sample();
        let replay = std::mem::take(&mut self.replay).finish();
        let begin_ns = self.begin_ns.or(self.first_ns).unwrap_or(0);
        // The command name of an app is a part of its package.
        let launched = self.launches.launched().iter();
        let packages = launched
            .filter_map(|launch| {
                Some((launch.process?, String::from_utf8_lossy(&launch.package).into_owned()))
            })
            .collect();
        let answers = Writer { found: &self, names, begin_ns, end_ns, packages };
        Answers {
            about: About {
                begin_ns,
                duration_s: seconds(end_ns.saturating_sub(begin_ns).max(0)),
                events: self.events,
                disordered: self.disordered,
                untracked: self.tasks.left_out() + self.evicted.left_out() + self.heat.left_out(),
            },
            launches: answers.launches(),
            kills: Kills { replay, ..answers.kills() },
            pressure: answers.pressure(),
        }
    }
}

struct Writer<'a> {
    found: &'a Analyzer,
    names: &'a Names,
    begin_ns: i64,
    end_ns: i64,
    /// The package of each process that was launched.
    packages: HashMap<ProcessIndex, String>,
}

impl Writer<'_> {
    fn at(&self, time_ns: i64) -> f64 {
        seconds(time_ns.saturating_sub(self.begin_ns))
    }

    fn name(&self, process: ProcessIndex) -> String {
        let package = self.packages.get(&self.found.tasks.joined(process));
        package.cloned().unwrap_or_else(|| self.found.tasks.process(process).text(self.names))
    }

    fn launches(&self) -> Launches {
        let (cancelled, left_out) = self.found.launches.counts();
        let unfinished = self.found.launches.unfinished();
        let (facts, schedule) = (self.found.facts, &self.found.schedule);
        let wanted = [
            (schedule.has_switches(), "sched_switch (running and waiting)"),
            (schedule.has_wakes(), "sched_waking or sched_wakeup (waits for a CPU)"),
            (schedule.has_reasons(), "sched_blocked_reason (waits for I/O)"),
            (facts.has_reclaim, "vmscan events (direct reclaim)"),
            (facts.has_reads, "mm_filemap_add_to_page_cache (page-cache misses)"),
            (facts.has_evictions, "mm_filemap_delete_from_page_cache (refaults)"),
            (facts.has_rss, "rss_stat (swap-in bytes)"),
            (
                facts.has_faults,
                "mm_event_record (time of swap-ins; only Android's kernels 4.9 to 4.19)",
            ),
            (
                self.found.kills.has_sources(),
                "markers of lmkd, kill signals or lines of the log (kills)",
            ),
        ];
        Launches {
            launches: self.found.launches.launched().iter().map(|each| self.launch(each)).collect(),
            unfinished: unfinished.len() as u64,
            unfinished_launches: unfinished.iter().map(|each| self.unfinished(each)).collect(),
            cancelled,
            left_out,
            lacks: lacking(&wanted),
        }
    }

    fn unfinished(&self, launch: &Unfinished) -> UnfinishedLaunch {
        let package = launch.package.as_ref();
        let package = package.map(|package| String::from_utf8_lossy(package).into_owned());
        let name = || launch.process.map(|index| self.name(index)).filter(|name| !name.is_empty());
        UnfinishedLaunch {
            process: package.or_else(name),
            pid: launch.process.map(|index| self.found.tasks.process(index).pid),
            start_s: self.at(launch.start_ns),
        }
    }

    fn launch(&self, launch: &Launched) -> TraceLaunch {
        let (facts, schedule) = (self.found.facts, &self.found.schedule);
        let process = launch.process.map(|index| self.found.tasks.process(index));
        let part = &launch.part;
        let class = launch.class.map(|class| class.name()).or_else(|| {
            let process = process?;
            let is_new = process.start_ns.is_some_and(|start| start >= launch.start_ns);
            let is_old = process.start_ns.unwrap_or(process.seen_ns) < launch.start_ns;
            match (is_new, is_old, part.steps.is_activity_made) {
                (true, ..) => Some("cold"),
                (false, true, true) => Some("warm"),
                (false, true, false) => Some("hot"),
                _ => None,
            }
        });
        let kills = self.found.kills.kills();
        let during = || {
            kills.iter().filter(|kill| (launch.start_ns..=launch.end_ns).contains(&kill.time_ns))
        };
        let from_ns = launch.start_ns.saturating_sub(BEFORE_NS);
        let is_before = |kill: &&Killed| (from_ns..launch.start_ns).contains(&kill.time_ns);
        let duration_ns = launch.end_ns.saturating_sub(launch.start_ns).max(0);
        let is_known = process.is_some();
        let times = part.main.plus(part.others);
        let given = |is_given: bool, time_ns: i64| (is_given && is_known).then(|| seconds(time_ns));
        let has_io = schedule.has_reasons() && schedule.has_switches();
        let ran_ns = times.running_ns.saturating_add(times.runnable_ns);
        let mut parts = Parts {
            kill_wait_s: self.kill_wait(launch),
            direct_reclaim_s: given(facts.has_reclaim, times.reclaim_ns),
            kswapd_s: schedule.has_switches().then(|| seconds(launch.kswapd_ns)),
            // Swap-ins are not taken out: in zram they are processor time, and no wait for I/O.
            refault_s: given(has_io, times.io_ns),
            swapin_s: given(facts.has_faults, part.swap_in_ns),
            cpu_s: given(schedule.has_switches() && schedule.has_wakes(), ran_ns),
            rest_s: 0.0,
        };
        let known = [
            parts.kill_wait_s,
            parts.direct_reclaim_s,
            parts.kswapd_s,
            parts.refault_s,
            parts.swapin_s,
            parts.cpu_s,
        ];
        parts.rest_s = seconds(duration_ns) - known.iter().flatten().sum::<f64>();
        let threads =
            |times: Times| (is_known && schedule.has_switches()).then(|| self.thread_times(times));
        let bytes = |is_given: bool, bytes: u64| (is_given && is_known).then_some(bytes);
        let drawn = part.steps.fully_drawn_ns;
        TraceLaunch {
            process: String::from_utf8_lossy(&launch.package).into_owned(),
            pid: process.map(|process| process.pid),
            class: class.map(str::to_owned),
            is_class_stated: launch.class.is_some(),
            start_s: self.at(launch.start_ns),
            duration_s: seconds(duration_ns),
            fully_drawn_s: drawn.map(|drawn| seconds(drawn.saturating_sub(launch.start_ns))),
            parts,
            main_thread: threads(part.main),
            other_threads: threads(part.others),
            cache_miss_bytes: bytes(facts.has_reads, part.cache_bytes),
            refault_bytes: bytes(facts.has_reads && facts.has_evictions, part.refault_bytes),
            files: launch.files.iter().map(file_reads).collect(),
            swap_in_bytes: bytes(facts.has_rss, part.swap_in_bytes),
            kills_before: self.counted(kills.iter().filter(is_before).count()),
            kills: self.counted(during().count()),
        }
    }

    fn thread_times(&self, times: Times) -> ThreadTimes {
        let (facts, schedule) = (self.found.facts, &self.found.schedule);
        ThreadTimes {
            running_s: seconds(times.running_ns),
            runnable_s: schedule.has_wakes().then(|| seconds(times.runnable_ns)),
            uninterruptible_s: seconds(times.io_ns.saturating_add(times.uninterruptible_ns)),
            io_s: schedule.has_reasons().then(|| seconds(times.io_ns)),
            sleeping_s: seconds(times.sleeping_ns),
            direct_reclaim_s: facts.has_reclaim.then(|| seconds(times.reclaim_ns)),
        }
    }

    /// Whether a process that came back would show.
    fn shows_begins(&self) -> bool {
        self.found.facts.has_begins || !self.found.launches.launched().is_empty()
    }

    /// A number of kills; `None` if the trace would not show them.
    fn counted(&self, kills: usize) -> Option<u64> {
        self.found.kills.has_sources().then_some(kills as u64)
    }

    /// The time of a launch in which a victim died: from its kill to the end of its last thread. `None` if the
    /// trace does not show kills, or the end of a victim.
    fn kill_wait(&self, launch: &Launched) -> Option<f64> {
        if !self.found.kills.has_sources() {
            return None;
        }
        let mut times = Vec::new();
        for kill in self.found.kills.kills() {
            let Some(end_ns) = self.death_ns(kill) else {
                if (launch.start_ns..=launch.end_ns).contains(&kill.time_ns) {
                    return None;
                }
                continue;
            };
            let (from, to) = (kill.time_ns.max(launch.start_ns), end_ns.min(launch.end_ns));
            if from < to {
                times.push((from, to));
            }
        }
        times.sort_unstable();
        let (mut sum, mut until) = (0, i64::MIN);
        for (from, to) in times {
            sum += to.saturating_sub(from.max(until)).max(0);
            until = until.max(to);
        }
        Some(seconds(sum))
    }

    /// When the last thread of a victim ended.
    fn death_ns(&self, kill: &Killed) -> Option<i64> {
        let process = self.found.tasks.process(kill.process?);
        process.end_ns.filter(|&end_ns| end_ns >= kill.time_ns)
    }

    fn kills(&self) -> Kills {
        let found = self.found;
        let returns = Returns::new(found, self.names);
        let evidence =
            KillEvidence { memory: &found.memory, direct_reclaim: self.direct_reclaim() };
        let now = found.memory.now();
        let has_sizes = found.tasks.all().any(|(_, process)| process.resident_bytes().is_some());
        let has_adj = found.tasks.all().any(|(_, process)| process.adj.is_some());
        let wanted = [
            (
                found.kills.has_sources(),
                "markers of lmkd, kill signals or lines of the log (kills)",
            ),
            (now.free.is_some(), "samples of /proc/meminfo (free memory)"),
            (!found.memory.stalls().is_empty(), "samples of memory pressure (PSI)"),
            (has_sizes, "memory of processes (process_stats, rss_stat)"),
            (has_adj, "oom_score_adj of processes"),
            (found.facts.has_exits, "sched_process_exit (when victims ended)"),
            (self.shows_begins(), "task_newtask or samples of processes (who came back)"),
        ];
        let mut kills: Vec<&Killed> = found.kills.kills().iter().collect();
        kills.sort_by_key(|kill| kill.time_ns);
        Kills {
            kills: kills.iter().map(|kill| self.kill(kill, &returns, &evidence)).collect(),
            shows_kills: found.kills.has_sources(),
            left_out: found.kills.left_out(),
            lacks: lacking(&wanted),
            replay: None,
        }
    }

    fn kill(&self, kill: &Killed, returns: &Returns<'_>, evidence: &KillEvidence<'_>) -> TraceKill {
        let name = if kill.name.is_empty() {
            kill.process.map(|process| self.name(process)).unwrap_or_default()
        } else {
            String::from_utf8_lossy(&kill.name).into_owned()
        };
        let came_back = returns.after(name.as_bytes(), kill.time_ns);
        let came_back_after_s =
            came_back.map(|time_ns| seconds(time_ns.saturating_sub(kill.time_ns)));
        TraceKill {
            time_s: self.at(kill.time_ns),
            process: name,
            pid: kill.pid,
            adj: kill.adj,
            reason: kill.reason.clone(),
            killer: kill.killer.text().to_owned(),
            sources: kill.sources.iter().map(|&source| source.to_owned()).collect(),
            free_bytes: kill.free_bytes.or(kill.memory.free),
            available_bytes: kill.memory.available,
            resident_bytes: kill.resident_bytes,
            swapped_bytes: kill.swapped_bytes,
            death_s: self.death_ns(kill).map(|end| seconds(end.saturating_sub(kill.time_ns))),
            came_back_after_s,
            came_back_soon: match came_back_after_s {
                Some(after_s) => Some(after_s <= SOON_S),
                None if self.shows_begins()
                    && seconds(self.end_ns.saturating_sub(kill.time_ns)) >= SOON_S =>
                {
                    Some(false)
                }
                None => None,
            },
            traced_for_s: seconds(self.end_ns.saturating_sub(kill.time_ns).max(0)),
            needless: evidence.needless(kill),
            late: evidence.late(kill),
            wrong_victim: evidence.wrong_victim(kill, |process| self.name(process)),
        }
    }

    /// The largest processes in descending order.
    fn sizes(&self) -> Vec<ProcessSize> {
        let mut all: Vec<_> = self.found.tasks.all().map(|(_, process)| process).collect();
        all.retain(|process| process.largest_bytes > 0);
        all.sort_by_key(|process| (Reverse(process.largest_bytes), process.seen_ns, process.pid));
        all.truncate(SIZES_KEPT);
        let size = |process: &Process| ProcessSize {
            process: process.text(self.names),
            pid: process.pid,
            largest_bytes: process.largest_bytes,
            last_bytes: process.size_bytes(),
            swapped_bytes: process.swap_bytes,
            is_proportional: process.resident_bytes().is_none(),
        };
        all.into_iter().map(size).collect()
    }

    fn heat(&self) -> Option<RegionHeat> {
        let heat = &self.found.heat;
        let ranges = heat.rows().map(|(target, first, last, cells)| HeatRange {
            target: target.to_string(),
            first: format!("{first:x}"),
            last: format!("{last:x}"),
            accesses: cells.iter().map(|cell| cell.accesses()).collect(),
        });
        Some(RegionHeat {
            start_s: self.at(heat.begin_ns()?),
            bin_s: seconds(heat.bin_ns()),
            regions: heat.regions(),
            ranges: ranges.collect(),
        })
    }

    fn pressure(&self) -> PressureFound {
        let (found, facts) = (self.found, self.found.facts);
        let pressure = &found.pressure;
        let thrashing = pressure.thrashing();
        let counted = &found.counted;
        let has_kswapd = facts.has_reclaim || found.schedule.has_switches();
        let has_refaults = facts.has_reads && facts.has_evictions;
        let kswapd = if has_kswapd { pressure.kswapd() } else { &counted.kswapd };
        let refaulted = if has_refaults { &pressure.refaults } else { &counted.refaults };
        let kinds = [
            (IntervalKind::DirectReclaim, self.direct_reclaim().all()),
            (IntervalKind::Kswapd, kswapd.all()),
            (IntervalKind::Compaction, pressure.compaction.all()),
            (IntervalKind::Refaults, refaulted.all()),
            (IntervalKind::Thrashing, &thrashing),
        ];
        let mut intervals: Vec<Interval> = kinds
            .iter()
            .flat_map(|(kind, spans)| spans.iter().map(|span| self.interval(*kind, span)))
            .collect();
        intervals.sort_by(|first, second| first.start_s.total_cmp(&second.start_s));
        let wanted = [
            (facts.has_reclaim, "vmscan events (direct reclaim and kswapd, how long and by whom)"),
            (
                has_refaults || counted.has_refaults(),
                "page-cache events, added and deleted, or samples of /proc/vmstat (refaults)",
            ),
            (pressure.has_stalls(), "samples of memory pressure (PSI)"),
            (found.schedule.has_switches(), "sched_switch (waits for pages)"),
        ];
        let thrashing_by =
            match (pressure.has_stalls(), has_refaults && found.schedule.has_switches()) {
                (true, _) => Some("psi"),
                (false, true) => Some("refault-waits"),
                (false, false) => None,
            };
        let refaults = refaulted.sum().bytes;
        PressureFound {
            direct_reclaim_s: facts
                .has_reclaim
                .then(|| seconds(pressure.direct_reclaim.sum().time_ns)),
            kswapd_s: has_kswapd.then(|| seconds(pressure.kswapd().sum().time_ns)),
            compaction_s: (!pressure.compaction.all().is_empty())
                .then(|| seconds(pressure.compaction.sum().time_ns)),
            refault_bytes: (has_refaults || counted.has_refaults()).then_some(refaults),
            refault_wait_s: (has_refaults && found.schedule.has_switches())
                .then(|| seconds(pressure.waits().sum().time_ns)),
            thrashing_by: thrashing_by.map(str::to_owned),
            swapped_in_bytes: counted.swapped_in(),
            swapped_out_bytes: counted.swapped_out(),
            least_free_bytes: found.memory.least_free(),
            least_available_bytes: found.memory.least_available(),
            sizes: self.sizes(),
            heat: self.heat(),
            intervals,
            processes: self.causes(&pressure.totals, CAUSES_KEPT),
            left_out: pressure.left_out() + counted.left_out(),
            lacks: lacking(&wanted),
        }
    }

    /// Intervals of direct reclaim: by events, or if the trace has none, by counters.
    fn direct_reclaim(&self) -> &Spans {
        let found = self.found;
        if found.facts.has_reclaim {
            &found.pressure.direct_reclaim
        } else {
            &found.counted.direct_reclaim
        }
    }

    fn interval(&self, kind: IntervalKind, span: &BusySpan) -> Interval {
        let sum = span.amounts.sum();
        Interval {
            kind,
            start_s: self.at(span.from_ns),
            end_s: self.at(span.to_ns),
            busy_s: (sum.time_ns > 0 || self.has_times(kind)).then(|| seconds(sum.time_ns)),
            bytes: sum.bytes,
            stalled_share: span.share,
            processes: self.causes(&span.amounts, PROCESSES_KEPT),
        }
    }

    /// Whether intervals of a kind are from events, whose times are known, and not from counters.
    fn has_times(&self, kind: IntervalKind) -> bool {
        let (facts, schedule) = (self.found.facts, &self.found.schedule);
        match kind {
            IntervalKind::DirectReclaim => facts.has_reclaim,
            IntervalKind::Kswapd => facts.has_reclaim || schedule.has_switches(),
            IntervalKind::Compaction => true,
            IntervalKind::Refaults => facts.has_reads && facts.has_evictions,
            IntervalKind::Thrashing => facts.has_reclaim || schedule.has_switches(),
        }
    }

    fn causes(&self, amounts: &Amounts, count: usize) -> Vec<Cause> {
        let tasks = &self.found.tasks;
        let cause = |(process, Amount { time_ns, bytes }): (ProcessIndex, Amount)| Cause {
            process: self.name(process),
            pid: tasks.process(process).pid,
            time_s: seconds(time_ns),
            bytes,
        };
        // kswapd's own time has no process.
        let largest = amounts.largest(count + 1, |process| tasks.joined(process));
        largest.into_iter().filter(|(process, _)| *process != 0).take(count).map(cause).collect()
    }
}

/// When processes of each name were made, and apps launched without one.
struct Returns<'a> {
    names: HashMap<&'a [u8], Vec<i64>>,
    comms: HashMap<&'a [u8], Vec<i64>>,
    launches: HashMap<&'a [u8], Vec<i64>>,
}

impl<'a> Returns<'a> {
    fn new(found: &'a Analyzer, names: &'a Names) -> Returns<'a> {
        let mut returns =
            Returns { names: HashMap::new(), comms: HashMap::new(), launches: HashMap::new() };
        for (_, process) in found.tasks.all().filter(|(_, process)| process.is_certain()) {
            let made_ns = process.start_ns.unwrap_or(process.seen_ns);
            returns.names.entry(names.bytes_of(process.name)).or_default().push(made_ns);
            returns.comms.entry(names.bytes_of(process.comm)).or_default().push(made_ns);
        }
        for launch in found.launches.launched() {
            let process = launch.process.map(|index| found.tasks.process(index));
            let is_new = process
                .and_then(|process| process.start_ns)
                .is_some_and(|start_ns| (launch.start_ns..=launch.end_ns).contains(&start_ns));
            if is_new || launch.class == Some(trace::system::android::LaunchClass::Cold) {
                returns.launches.entry(&launch.package).or_default().push(launch.start_ns);
            }
        }
        let all = [&mut returns.names, &mut returns.comms, &mut returns.launches];
        all.into_iter()
            .flat_map(|times| times.values_mut())
            .for_each(|times| times.sort_unstable());
        returns
    }

    /// The first return of a process of this name after a time.
    fn after(&self, name: &[u8], time_ns: i64) -> Option<i64> {
        if name.is_empty() {
            return None;
        }
        let first = |times: Option<&Vec<i64>>| {
            let times = times?;
            times.get(times.partition_point(|&time| time <= time_ns)).copied()
        };
        let cut = |length: usize| (&name[..length], &name[name.len() - length..]);
        let (beginning, end) = cut(name.len().min(15));
        debug_assert!(is_comm_of(beginning, name) && is_comm_of(end, name));
        let found = [
            first(self.names.get(name)),
            first(self.launches.get(name)),
            first(self.comms.get(beginning)),
            first(self.comms.get(end)),
        ];
        found.into_iter().flatten().min()
    }
}

fn file_reads(&(device, inode, bytes, refault_bytes): &(u32, u64, u64, u64)) -> FileReads {
    let device = format!("{}:{}", device >> 20, device & 0xf_ffff);
    FileReads { device, inode, bytes, refault_bytes }
}

/// The events that an answer needs and the trace lacks.
fn lacking(wanted: &[(bool, &str)]) -> Vec<String> {
    wanted.iter().filter(|(has, _)| !has).map(|&(_, what)| what.to_owned()).collect()
}

fn seconds(time_ns: i64) -> f64 {
    time_ns as f64 / 1e9
}
