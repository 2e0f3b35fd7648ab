//! The phone at work: one clock for launches, the background reclaimer, the killer and its victims.
//!
//! Order of events: a touch of an absent page first makes room, then brings in the page. The storage
//! time is settled in batches. Every step of the clock frees pages of dying victims, runs the background
//! reclaimer, and calls the killer.

use super::apps::{Layout, Touch};
use super::dying::{Deaths, Phases};
use super::killer::{Choice, Killer, Running, adj, longest_ago};
use super::memory::{Brought, Memory, Reclaimed, Watermarks};
use super::outcome::{LaunchKind, Parts, SimulatedKill, Trigger, Visit};
use super::phone::{KillOrder, Phone, nanos};
use super::seen::Seen;
use super::stalls::Stalls;
use super::storage::Storage;
use crate::Error;
use crate::page_lists::BATCH;
use crate::regions::{MIB_PAGES, RUN_PAGES};
use crate::swap::SimulateRequest;
use policy::kill::Stall;
use std::collections::BTreeMap;
use types::Bytes;

/// Reads after which storage time is settled: often enough while a victim dies, since the freed pages
/// decide what else is reclaimed.
const SETTLE_READS: usize = 256;
const SETTLE_READS_DYING: usize = 16;

/// Shortest time between two calls of the killer by reclaim.
const RECONSIDER_NS: u64 = 1_000_000;

/// Reason of the kernel's kills.
const NOTHING_LEFT: &str = "nothing is left to reclaim";

/// The kernel had to kill the app itself.
struct OutOfMemory;

/// Sums over one visit.
#[derive(Clone, Copy, Default)]
struct VisitSums {
    parts: Parts,
    kills: u64,
    oom_kills: u64,
    swap_ins: u64,
    file_reads: u64,
    file_refaults: u64,
    background_ns: u64,
}

/// Start of each running app's life, in visits and time; none for an app that does not run.
#[derive(Clone, Copy)]
struct Use {
    visit: u64,
    at_ns: u64,
}

/// A phone between and during visits.
pub(super) struct Machine<'a> {
    phone: &'a Phone,
    layout: Layout,
    memory: Memory,
    storage: Storage,
    killer: Killer,
    deaths: Deaths,
    stalls: Stalls,
    marks: Watermarks,
    frames: usize,
    clock_ns: u64,
    /// When the background reclaimer's next batch is due; none while it sleeps.
    reclaimer_ns: Option<u64>,
    /// Pages that it judged since its last eviction.
    fruitless: u64,
    next_look_ns: u64,
    reconsider_ns: u64,
    running: Vec<Option<Use>>,
    visited: Option<u32>,
    visits: u64,
    /// Reads to be settled, and how many of them are first reads and refaults of files.
    unsettled: usize,
    unsettled_first: u64,
    unsettled_refaults: u64,
    sums: VisitSums,
    kills: Vec<SimulatedKill>,
}

impl<'a> Machine<'a> {
    /// A phone on which nothing runs yet.
    ///
    /// # Errors
    /// `Usage`, as for `live`.
    pub(super) fn new(phone: &'a Phone, below: &SimulateRequest) -> Result<Machine<'a>, Error> {
        let frames = frames_left(phone, below)?;
        let slots = phone.swap_mib as usize * MIB_PAGES as usize;
        let mut memory = Memory::new(frames, slots, phone.tiers_hold_files);
        let layout = Layout::new(phone, &mut memory);
        let files_process = phone.apps.len() + 1;
        let storage = Storage::new(below, files_process, phone.costs.file_read_ns_per_page)?;
        let poll_ns = nanos(phone.killer.poll_ms);
        let killer = Killer::new(phone, frames)?;
        Ok(Machine {
            layout,
            memory,
            storage,
            deaths: Deaths::new(phone.cores, phone.busy_threads, &phone.costs),
            stalls: Stalls::default(),
            marks: if phone.is_machine {
                Watermarks::of_machine(frames)
            } else {
                Watermarks::OF_GROUP
            },
            frames,
            clock_ns: 0,
            reclaimer_ns: None,
            fruitless: 0,
            next_look_ns: if killer.looks() { poll_ns } else { u64::MAX },
            killer,
            reconsider_ns: 0,
            running: vec![None; phone.apps.len()],
            visited: None,
            visits: 0,
            unsettled: 0,
            unsettled_first: 0,
            unsettled_refaults: 0,
            sums: VisitSums::default(),
            kills: Vec::new(),
            phone,
        })
    }

    /// Frames of the phone, and slots of its swap area.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.frames, self.memory.swap().0)
    }

    /// Free frames at which apps reclaim directly, the background reclaimer wakes, and sleeps.
    pub(super) fn watermarks(&self) -> [u64; 3] {
        [self.marks.min, self.marks.low, self.marks.high].map(|frames| frames as u64)
    }

    /// The kills, the storage accesses of every page, and the options in effect.
    pub(super) fn into_results(
        self,
    ) -> (Vec<SimulatedKill>, Vec<u32>, BTreeMap<&'static str, String>) {
        let traffic = self.memory.traffic().to_vec();
        (self.kills, traffic, self.storage.into_options())
    }

    /// Opens `app` for the user, who uses it.
    pub(super) fn visit(&mut self, app: u32) -> Visit {
        self.settle();
        self.sums = VisitSums::default();
        self.deaths.worked_ns = 0;
        let before = self.storage.traffic();
        let began_ns = self.clock_ns;
        self.visited = Some(app);
        self.wait_until_gone(app);
        let is_cold = self.running[app as usize].is_none();
        self.running[app as usize] = Some(Use { visit: self.visits, at_ns: self.clock_ns });
        let touches = self.layout.launch(app, is_cold);
        let spec = &self.phone.apps[app as usize];
        let own_ns = nanos(if is_cold { spec.cold_ms } else { spec.warm_ms });
        let launched = self.touch_all(&touches, own_ns, true);
        self.settle();
        self.lose_to_background();
        let launch_ns = launched.is_ok().then_some(self.clock_ns - began_ns);
        let mut visit = self.row(app, is_cold, launch_ns);
        if launched.is_err() || self.be_used(&touches).is_err() {
            self.kill(app, Trigger::OutOfMemory, NOTHING_LEFT);
        }
        self.settle();
        if let Some(used) = &mut self.running[app as usize] {
            used.at_ns = self.clock_ns;
        }
        self.visits += 1;
        let now = self.storage.traffic();
        visit.fast_reads = now.fast_reads - before.fast_reads;
        visit.fast_writes = now.fast_writes - before.fast_writes;
        visit.slow_reads = now.slow_reads - before.slow_reads;
        visit.slow_writes = now.slow_writes - before.slow_writes;
        self.close(&mut visit);
        visit
    }

    fn row(&self, app: u32, is_cold: bool, launch_ns: Option<u64>) -> Visit {
        let VisitSums { parts, swap_ins, file_reads, .. } = self.sums;
        Visit {
            app,
            kind: match (is_cold, swap_ins + file_reads) {
                (true, _) => LaunchKind::Cold,
                (false, 0) => LaunchKind::Hot,
                (false, _) => LaunchKind::Warm,
            },
            launch_ns,
            parts,
            kills: 0,
            oom_kills: 0,
            swap_ins: 0,
            file_reads: 0,
            file_refaults: 0,
            fast_reads: 0,
            fast_writes: 0,
            slow_reads: 0,
            slow_writes: 0,
            background_ns: 0,
            free_pages: 0,
            anonymous_pages: 0,
        }
    }

    /// Records the sums of the whole visit, its use included.
    fn close(&self, visit: &mut Visit) {
        let sums = &self.sums;
        visit.kills = sums.kills;
        visit.oom_kills = sums.oom_kills;
        visit.swap_ins = sums.swap_ins;
        visit.file_reads = sums.file_reads;
        visit.file_refaults = sums.file_refaults;
        visit.background_ns = sums.background_ns;
        visit.free_pages = self.memory.free() as u64;
        visit.anonymous_pages = self.memory.anonymous() as u64;
    }

    /// Touches what the launch touched once more; the user may wait for reads, but no launch does.
    fn be_used(&mut self, touches: &[Touch]) -> Result<(), OutOfMemory> {
        let use_ns = nanos(self.phone.use_ms);
        if self.phone.is_use_reading {
            return self.touch_all(touches, use_ns, false);
        }
        for touch in touches {
            if self.memory.is_resident(touch.page) {
                self.memory.touch(touch.page, false);
            }
        }
        self.advance(use_ns);
        Ok(())
    }

    /// Touches everything in turn while `own_ns` of the app's own time passes.
    fn touch_all(
        &mut self,
        touches: &[Touch],
        own_ns: u64,
        writes: bool,
    ) -> Result<(), OutOfMemory> {
        let runs = touches.chunks(RUN_PAGES as usize);
        let count = runs.len().max(1) as u64;
        let mut passed_ns = 0;
        for (index, run) in (1..).zip(runs) {
            for touch in run {
                self.touch(touch.page, writes && touch.is_write)?;
            }
            let due_ns = (u128::from(own_ns) * index as u128 / u128::from(count)) as u64;
            self.advance(due_ns - passed_ns);
            passed_ns = due_ns;
        }
        self.advance(own_ns - passed_ns);
        self.sums.parts.own_ns += own_ns;
        Ok(())
    }

    fn touch(&mut self, page: u32, is_write: bool) -> Result<(), OutOfMemory> {
        if self.memory.is_resident(page) {
            self.memory.touch(page, is_write);
            return Ok(());
        }
        self.make_room()?;
        match self.memory.bring(page, is_write) {
            Brought::New => return Ok(()),
            Brought::Swap => self.sums.swap_ins += 1,
            Brought::File { is_refault } => {
                self.sums.file_reads += 1;
                self.sums.file_refaults += u64::from(is_refault);
                self.stalls.file_refaults += u64::from(is_refault);
                self.unsettled_refaults += u64::from(is_refault);
                self.unsettled_first += u64::from(!is_refault);
                if !self.phone.tiers_hold_files {
                    self.storage.read_file();
                }
            }
        }
        self.unsettled += 1;
        let most = if self.deaths.is_empty() { SETTLE_READS } else { SETTLE_READS_DYING };
        if self.unsettled >= most {
            self.settle();
        }
        Ok(())
    }

    /// Advances the clock by the time of the reads since the last call.
    fn settle(&mut self) {
        let waited = self.storage.settle(&mut self.memory);
        let (first, refaults) = (self.unsettled_first, self.unsettled_refaults);
        (self.unsettled, self.unsettled_first, self.unsettled_refaults) = (0, 0, 0);
        let refault_ns = waited.file_ns * refaults / (first + refaults).max(1);
        self.sums.parts.swap_in_ns += waited.swap_ns;
        self.sums.parts.file_refault_ns += refault_ns;
        self.sums.parts.file_first_ns += waited.file_ns - refault_ns;
        self.stalls.add(self.clock_ns, waited.swap_ns + refault_ns);
        self.advance(waited.swap_ns + waited.file_ns);
    }

    /// Makes sure that a frame is free, or reports that none can be.
    fn make_room(&mut self) -> Result<(), OutOfMemory> {
        while self.memory.free() <= self.marks.min {
            if self.look_again() {
                let signal_ns = self.look(Trigger::Direct);
                self.wait(signal_ns);
            }
            if self.reclaim_directly() || self.wait_for_victim() {
                continue;
            }
            match longest_ago(&self.known()) {
                Some(app) => self.kill(app, Trigger::OutOfMemory, NOTHING_LEFT),
                None if self.memory.free() > 0 => break,
                None => return Err(OutOfMemory),
            };
        }
        if self.memory.free() <= self.marks.low && self.reclaimer_ns.is_none() {
            self.reclaimer_ns = Some(self.clock_ns);
            self.fruitless = 0;
        }
        Ok(())
    }

    /// Lets the allocating app reclaim until a page is evicted; returns whether one was.
    fn reclaim_directly(&mut self) -> bool {
        let mut all = Reclaimed::default();
        while all.evicted == 0 && all.judged <= 2 * self.memory.candidates() as u64 {
            let batch = self.memory.reclaim();
            if batch.judged == 0 {
                break;
            }
            all.judged += batch.judged;
            all.evicted += batch.evicted;
        }
        let cost_ns = self.cost_ns(all);
        self.stalls.scanned_directly += all.judged;
        self.stalls.add(self.clock_ns, cost_ns);
        self.sums.parts.direct_reclaim_ns += cost_ns;
        self.advance(cost_ns);
        all.evicted > 0
    }

    fn cost_ns(&self, done: Reclaimed) -> u64 {
        let costs = &self.phone.costs;
        done.judged * costs.judge_ns_per_page + done.evicted * costs.evict_ns_per_page
    }

    /// Waits for the next pages of a victim; false if no victim is dying.
    fn wait_for_victim(&mut self) -> bool {
        if self.deaths.is_empty() {
            return false;
        }
        self.wait(self.deaths.next_ns(self.clock_ns));
        true
    }

    /// Delays the launch of a dying app until the app has ended.
    fn wait_until_gone(&mut self, app: u32) {
        while self.deaths.has(app) {
            self.wait_for_victim();
        }
    }

    fn wait(&mut self, ns: u64) {
        self.sums.parts.kill_wait_ns += ns;
        self.stalls.add(self.clock_ns, ns);
        self.advance(ns);
    }

    /// Charges a launch that could use every processor with the background work meanwhile.
    fn lose_to_background(&mut self) {
        let worked_ns = self.sums.background_ns + self.deaths.worked_ns;
        if self.phone.busy_threads < self.phone.cores {
            return;
        }
        let lost_ns = worked_ns / u64::from(self.phone.cores);
        self.sums.parts.contention_ns += lost_ns;
        self.advance(lost_ns);
    }

    /// Advances time: frees memory of victims, runs the background reclaimer, calls the killer.
    fn advance(&mut self, ns: u64) {
        let from_ns = self.clock_ns;
        self.clock_ns += ns;
        if !self.deaths.is_empty() {
            for gone in self.deaths.go_on(from_ns, self.clock_ns, &mut self.memory) {
                self.kills[gone.row].reclaim_ns = Some(self.clock_ns - gone.ready_ns);
            }
        }
        while self.reclaimer_ns.is_some_and(|due_ns| due_ns <= self.clock_ns) {
            self.reclaim_in_background();
        }
        if self.next_look_ns <= self.clock_ns {
            let poll_ns = nanos(self.phone.killer.poll_ms).max(1);
            self.next_look_ns = self.clock_ns + poll_ns;
            self.look(Trigger::Poll);
        }
    }

    fn reclaim_in_background(&mut self) {
        if self.look_again() {
            self.look(Trigger::Background);
        }
        let done = self.memory.reclaim();
        let cost_ns = self.cost_ns(done).max(1);
        self.stalls.scanned_in_background += done.judged;
        self.sums.background_ns += cost_ns;
        self.fruitless = if done.evicted > 0 { 0 } else { self.fruitless + done.judged };
        let is_hopeless = done.judged == 0 || self.fruitless > 2 * self.memory.candidates() as u64;
        let is_enough = self.memory.free() >= self.marks.high;
        let due_ns = self.reclaimer_ns.map(|due_ns| due_ns + cost_ns);
        self.reclaimer_ns = due_ns.filter(|_| !is_hopeless && !is_enough);
    }

    /// Whether reclaim may call the killer again.
    fn look_again(&mut self) -> bool {
        let is_time = self.killer.looks() && self.clock_ns >= self.reconsider_ns;
        if is_time {
            self.reconsider_ns = self.clock_ns + RECONSIDER_NS;
        }
        is_time
    }

    /// Calls the killer and kills its victims; returns the time to deliver the kills.
    fn look(&mut self, trigger: Trigger) -> u64 {
        let order = self.phone.killer.order;
        if order != KillOrder::Impatient && !self.deaths.is_empty() {
            return 0;
        }
        let is_batch = order == KillOrder::Batch;
        let mut stall = self.stalls.recent(self.clock_ns);
        let mut signal_ns = 0;
        loop {
            let choice = self.choose(stall);
            let most = if is_batch { choice.apps.len() } else { 1 };
            for &app in choice.apps.iter().take(most) {
                signal_ns += self.kill(app, trigger, choice.why);
            }
            if !is_batch || choice.apps.is_empty() {
                return signal_ns;
            }
            // The event that woke the killer came before these died.
            stall = Stall::None;
        }
    }

    /// The killer's choice now.
    fn choose(&mut self, stall: Stall) -> Choice {
        let mut seen = Seen::of(&self.memory, self.marks, &self.deaths);
        if self.phone.killer.order == KillOrder::Batch {
            seen = seen.once_back();
        }
        let memory = seen.for_policy(self.size(), self.marks, &self.stalls, self.clock_ns);
        let memory = (policy::kill::Memory { stall, ..memory }, seen.anonymous_pages);
        let running = self.known();
        self.killer.choose(self.phone, self.clock_ns, memory, &running)
    }

    /// Every app that runs.
    fn known(&self) -> Vec<Running> {
        let apps = (0..).zip(&self.running);
        apps.filter_map(|(app, used)| {
            let used = (*used)?;
            let owned = self.memory.owned(app);
            Some(Running {
                app,
                used: used.visit,
                used_ns: used.at_ns,
                resident: u64::from(owned.resident),
                slots: u64::from(owned.slots),
                is_visited: self.visited == Some(app),
            })
        })
        .collect()
    }

    fn resident(&self, app: u32) -> u64 {
        u64::from(self.memory.owned(app).resident)
    }

    /// Kills `app`, which stops running; returns the time to deliver the kill.
    fn kill(&mut self, app: u32, trigger: Trigger, why: &'static str) -> u64 {
        let order = self.phone.killer.order;
        let threads = self.phone.apps[app as usize].threads;
        let phases = Phases::of(threads, &self.phone.costs);
        let others_dying = self.deaths.len() as u64;
        let used = self.running[app as usize].map_or(0, |used| used.visit);
        let adj = adj(&self.known(), used);
        self.running[app as usize] = None;
        match trigger {
            Trigger::OutOfMemory => self.sums.oom_kills += 1,
            _ => self.sums.kills += 1,
        }
        self.kills.push(SimulatedKill {
            visit: self.visits,
            app,
            trigger,
            why,
            adj,
            seen: Seen::of(&self.memory, self.marks, &self.deaths),
            at_ns: self.clock_ns,
            resident_pages: self.resident(app),
            threads,
            signal_ns: phases.signal_ns,
            exit_ns: if order == KillOrder::ReclaimFirst { 0 } else { phases.exit_ns },
            reclaim_ns: None,
            others_dying,
        });
        let row = self.kills.len() - 1;
        let pages = self.layout.heap(app);
        self.deaths.add(app, row, pages, phases, (self.clock_ns, order));
        phases.signal_ns
    }
}

/// The phone's frames, less those of a full fast tier in memory.
fn frames_left(phone: &Phone, below: &SimulateRequest) -> Result<usize, Error> {
    let frames = phone.memory_mib as usize * MIB_PAGES as usize;
    let taken = below.fast.compression.as_ref().map_or(0, |compression| {
        (Bytes(below.fast_bytes).pages() as f64 / compression.typical).ceil() as usize
    });
    if frames <= taken + 2 * Watermarks::of_machine(frames).high + BATCH {
        return Err(Error::usage(format!(
            "phone: a fast tier of {} MiB in memory leaves too little of {} MiB",
            below.fast_bytes >> 20,
            phone.memory_mib
        )));
    }
    Ok(frames - taken)
}
