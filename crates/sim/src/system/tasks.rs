//! Processes and threads of a system trace: who a thread belongs to, and what a process is called.
//!
//! A trace names threads by number, and numbers are used again. So every process has an index of its own
//! ([`ProcessIndex`]), which a new task with the same number does not share. A thread whose process the trace
//! has not said yet is a process by itself, until the trace says it: then both are joined.

use std::collections::{HashMap, HashSet};

use trace::system::{Event, Kind, MemoryPart, Name, Names, RssMember, TaskState};

/// Processes that have an index of their own. Further ones count as the process 0, which stands for unknown ones.
const PROCESSES_MAX: usize = 1 << 18;

/// Threads and address spaces that are remembered at a time; those beyond it count as unknown.
const THREADS_MAX: usize = 1 << 20;

/// Largest number of threads that are remembered between their exit and their last switch.
const ENDING_MAX: usize = 1 << 12;

/// A sample of a process that ended is late by at most this; later it is another process.
const LATE_SAMPLE_NS: i64 = 100_000_000;

/// The index of a process among those of the trace; 0 stands for unknown processes.
pub type ProcessIndex = u32;

/// What is known of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process {
    /// Pid of the process.
    pub pid: u32,
    /// Parent of the process; 0 if unknown.
    pub parent: u32,
    /// Command line up to the first argument; `NONE` if unknown.
    pub name: Name,
    /// Command name of the first thread; `NONE` if unknown.
    pub comm: Name,
    /// When the process was made; `None` if the trace does not have it.
    pub start_ns: Option<i64>,
    /// The first event of the process.
    pub seen_ns: i64,
    /// The end of its last thread so far, once its first thread ended.
    pub end_ns: Option<i64>,
    /// Last known oom_score_adj.
    pub adj: Option<i32>,
    /// Last known resident file pages, in bytes.
    pub file_bytes: Option<u64>,
    /// Last known resident anonymous pages, in bytes.
    pub anonymous_bytes: Option<u64>,
    /// Last known resident shared memory, in bytes.
    pub shared_bytes: Option<u64>,
    /// Last known swapped pages, in bytes.
    pub swap_bytes: Option<u64>,
    /// Last known resident pages by a sample, in bytes.
    pub rss_bytes: Option<u64>,
    /// Last known proportional size (PSS) by a sample, in bytes.
    pub pss_bytes: Option<u64>,
    /// The largest resident size so far, or proportional size if the trace has no other.
    pub largest_bytes: u64,
    /// The last address space that the process ran in.
    space: Option<u32>,
    /// The process that this one was found to be a thread of.
    joined: Option<ProcessIndex>,
    /// Whether the process may be only a thread of another.
    is_guess: bool,
}

impl Process {
    /// Whether the trace says that this is a process, and not only a thread.
    pub fn is_certain(&self) -> bool {
        !self.is_guess
    }

    /// Resident bytes; `None` if the trace does not have them.
    pub fn resident_bytes(&self) -> Option<u64> {
        let parts = [self.file_bytes, self.anonymous_bytes, self.shared_bytes];
        let of_parts = parts.iter().flatten().fold(0, |sum: u64, &part| sum.saturating_add(part));
        self.rss_bytes.or_else(|| parts.iter().any(Option::is_some).then_some(of_parts))
    }

    /// Resident bytes, or the proportional size if the trace has no other.
    pub fn size_bytes(&self) -> Option<u64> {
        self.resident_bytes().or(self.pss_bytes)
    }

    fn note_size(&mut self) {
        self.largest_bytes = self.largest_bytes.max(self.size_bytes().unwrap_or(0));
    }

    /// The name that results show: the command line, or the command name if that says more.
    pub fn text(&self, names: &Names) -> String {
        let name = names.bytes_of(self.name);
        let is_before_its_app = name.starts_with(b"zygote")
            || name.starts_with(b"usap")
            || name.starts_with(b"<pre-initialized>");
        let shown = if self.name == Name::NONE || (is_before_its_app && self.comm != Name::NONE) {
            self.comm
        } else {
            self.name
        };
        names.text(shown).into_owned()
    }
}

/// A thread.
#[derive(Clone, Copy, Debug)]
struct Thread {
    process: ProcessIndex,
    /// The last name of the thread.
    comm: Name,
    made_ns: i64,
    /// When the thread ended; it still runs for a moment then.
    end_ns: Option<i64>,
}

/// All processes of a trace.
#[derive(Debug)]
pub struct Tasks {
    processes: Vec<Process>,
    by_pid: HashMap<u32, ProcessIndex>,
    threads: HashMap<u32, Thread>,
    spaces: HashMap<u32, ProcessIndex>,
    /// Threads whose exit was seen, until the CPU leaves them for the last time.
    ending: HashSet<u32>,
    left_out: u64,
}

impl Default for Tasks {
    fn default() -> Tasks {
        Tasks {
            processes: vec![Process::default()],
            by_pid: HashMap::new(),
            threads: HashMap::new(),
            spaces: HashMap::new(),
            ending: HashSet::new(),
            left_out: 0,
        }
    }
}

impl Tasks {
    /// How many processes and threads did not fit.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// A process by its index, or the one that it was found to belong to.
    pub fn process(&self, index: ProcessIndex) -> &Process {
        &self.processes[self.joined(index) as usize]
    }

    /// The index of the process that `index` was found to belong to, or `index`.
    pub fn joined(&self, mut index: ProcessIndex) -> ProcessIndex {
        // A thread joins the process of its pid, which is no guess and joins none.
        while let Some(other) = self.processes[index as usize].joined {
            index = other;
        }
        index
    }

    /// Every process that joined no other one, with its index, in the order of appearance.
    pub fn all(&self) -> impl Iterator<Item = (ProcessIndex, &Process)> {
        let all = (0..).zip(&self.processes).skip(1);
        all.filter(|(_, process)| process.joined.is_none())
    }

    /// The living or last process with this pid.
    pub fn of_pid(&self, pid: u32) -> Option<ProcessIndex> {
        self.by_pid.get(&pid).map(|&index| self.joined(index))
    }

    /// The process of a thread; 0 if the thread is unknown.
    pub fn of_thread(&self, tid: u32) -> ProcessIndex {
        self.threads.get(&tid).map_or(0, |thread| self.joined(thread.process))
    }

    /// The last name of a thread.
    pub fn comm_of(&self, tid: u32) -> Name {
        self.threads.get(&tid).map_or(Name::NONE, |thread| thread.comm)
    }

    /// The process of a thread that shows itself at this time.
    pub fn see(&mut self, tid: u32, time_ns: i64) -> ProcessIndex {
        if tid == 0 {
            return 0;
        }
        let is_late = |end_ns: i64| time_ns.saturating_sub(end_ns) > LATE_SAMPLE_NS;
        if let Some(thread) = self.threads.get(&tid)
            && !thread.end_ns.is_some_and(is_late)
        {
            return self.joined(thread.process);
        }
        let known = self.by_pid.get(&tid).copied();
        let known = known.filter(|&index| self.processes[index as usize].end_ns.is_none());
        let process = known.unwrap_or_else(|| self.add(tid, time_ns, true));
        self.add_thread(tid, process, Name::NONE, time_ns);
        process
    }

    fn add(&mut self, pid: u32, time_ns: i64, is_guess: bool) -> ProcessIndex {
        if self.processes.len() >= PROCESSES_MAX {
            self.left_out += 1;
            return 0;
        }
        let index = self.processes.len() as ProcessIndex;
        self.processes.push(Process { pid, seen_ns: time_ns, is_guess, ..Process::default() });
        self.by_pid.insert(pid, index);
        index
    }

    fn add_thread(&mut self, tid: u32, process: ProcessIndex, comm: Name, time_ns: i64) {
        self.ending.remove(&tid);
        if self.threads.len() < THREADS_MAX || self.threads.contains_key(&tid) {
            self.threads.insert(tid, Thread { process, comm, made_ns: time_ns, end_ns: None });
        } else {
            self.left_out += 1;
        }
    }

    /// The process of a pid that a sample or a marker names, which a sample may name after its end.
    fn sampled(&mut self, pid: u32, time_ns: i64) -> ProcessIndex {
        match self.of_pid(pid) {
            Some(index) => {
                let end = self.processes[index as usize].end_ns;
                if end.is_some_and(|end| time_ns.saturating_sub(end) > LATE_SAMPLE_NS) {
                    self.threads.remove(&pid);
                    self.add(pid, time_ns, false)
                } else {
                    index
                }
            }
            None => self.add(pid, time_ns, false),
        }
    }

    fn at(&mut self, index: ProcessIndex) -> &mut Process {
        &mut self.processes[index as usize]
    }

    /// Learns from an event. Must see every event, before the analyses.
    pub fn take(&mut self, event: &Event) {
        let time_ns = event.time_ns;
        match event.kind {
            Kind::Switch(switch) => {
                self.still_runs(switch.next_tid, time_ns);
                let next = self.see(switch.next_tid, time_ns);
                self.name_thread(switch.next_tid, switch.next_comm, next);
                if let Some(prev) = switch.prev_tid {
                    self.still_runs(prev, time_ns);
                    let process = self.see(prev, time_ns);
                    self.name_thread(prev, switch.prev_comm, process);
                    if switch.prev_state == TaskState::Ended {
                        self.leaves(prev, process, time_ns);
                    }
                }
            }
            Kind::Process { pid, parent, name, .. } => {
                self.take_process(pid, parent, name, time_ns)
            }
            Kind::Thread { tid, pid, comm } => self.take_thread(tid, pid, comm, time_ns),
            Kind::NewTask { tid, comm, is_thread, adj } => {
                if is_thread {
                    let process = self.see(event.tid, time_ns);
                    self.add_thread(tid, process, comm, time_ns);
                } else {
                    self.begin(tid, comm, time_ns, false);
                    let index = self.of_thread(tid);
                    self.at(index).adj = Some(adj);
                }
            }
            Kind::Fork { tid, comm, .. } => {
                const SAME_TASK_NS: i64 = 10_000_000;
                let made = self.threads.get(&tid).map(|thread| thread.made_ns);
                if made.is_none_or(|made| time_ns.saturating_sub(made) > SAME_TASK_NS) {
                    self.begin(tid, comm, time_ns, true);
                }
            }
            Kind::Rename { tid, comm, adj } => {
                let process = self.see(tid, time_ns);
                self.name_thread(tid, comm, process);
                self.at(process).adj = Some(adj);
            }
            Kind::Exec { pid, .. } => {
                let process = self.see(pid, time_ns);
                self.at(process).name = Name::NONE;
            }
            Kind::Exit { tid, pid, .. } => {
                let process = match pid.and_then(|pid| self.of_pid(pid)) {
                    Some(process) => process,
                    None => self.see(tid, time_ns),
                };
                if let Some(thread) = self.threads.get_mut(&tid) {
                    thread.end_ns = Some(time_ns);
                    if self.ending.len() < ENDING_MAX {
                        self.ending.insert(tid);
                    }
                }
                let process = self.at(process);
                if tid == process.pid || process.end_ns.is_some() {
                    process.end_ns = Some(time_ns);
                }
            }
            Kind::OomScoreAdj { pid, comm, adj } => {
                let process = self.sampled(pid, time_ns);
                self.at(process).adj = Some(adj);
                if comm != Name::NONE {
                    self.at(process).comm = comm;
                }
            }
            Kind::ProcessMemory { pid, part, bytes } => {
                let process = self.sampled(pid, time_ns);
                let process = self.at(process);
                match part {
                    MemoryPart::Rss => process.rss_bytes = Some(bytes),
                    MemoryPart::Pss => process.pss_bytes = Some(bytes),
                    MemoryPart::Anonymous => process.anonymous_bytes = Some(bytes),
                    MemoryPart::File => process.file_bytes = Some(bytes),
                    MemoryPart::Shared => process.shared_bytes = Some(bytes),
                    MemoryPart::Swap => process.swap_bytes = Some(bytes),
                    MemoryPart::RssPeak => {}
                }
                process.note_size();
            }
            Kind::Rss { mm_id, is_current, member, bytes } => {
                self.take_rss(event, mm_id, is_current, member, bytes);
            }
            _ => {}
        }
    }

    /// The process whose address space a change of resident pages is of, if the trace says it.
    pub fn of_space(&self, tid: u32, mm_id: u32, is_current: Option<bool>) -> Option<ProcessIndex> {
        let found = match is_current {
            Some(true) => Some(self.of_thread(tid)),
            _ => self.spaces.get(&mm_id).map(|&index| self.joined(index)),
        };
        found.filter(|&index| index != 0)
    }

    /// Notes that a thread runs after its exit: since Linux 6.16, the event of the exit comes before the memory is
    /// freed.
    fn still_runs(&mut self, tid: u32, time_ns: i64) {
        if self.ending.contains(&tid)
            && let Some(thread) = self.threads.get_mut(&tid)
        {
            thread.end_ns = Some(time_ns);
        }
    }

    /// Notes that the CPU leaves a thread for the last time.
    fn leaves(&mut self, tid: u32, process: ProcessIndex, time_ns: i64) {
        if self.ending.remove(&tid) && self.at(process).end_ns.is_some() {
            self.at(process).end_ns = Some(time_ns);
        }
    }

    fn take_rss(
        &mut self,
        event: &Event,
        mm_id: u32,
        is_current: Option<bool>,
        member: RssMember,
        bytes: i64,
    ) {
        if is_current == Some(true) {
            let process = self.see(event.tid, event.time_ns);
            // Since its exec, the space that it had before may be that of another process.
            let before = self.at(process).space.replace(mm_id).filter(|&before| before != mm_id);
            if let Some(before) = before
                && self.spaces.get(&before).is_some_and(|&of| self.joined(of) == process)
            {
                self.spaces.remove(&before);
            }
            // The kernel prints 0 for every space until it has random numbers, early after boot.
            let has_room = self.spaces.len() < THREADS_MAX || self.spaces.contains_key(&mm_id);
            if mm_id != 0 && has_room {
                self.spaces.insert(mm_id, process);
            }
        }
        let Some(process) = self.of_space(event.tid, mm_id, is_current) else { return };
        let process = self.at(process);
        let bytes = Some(u64::try_from(bytes).unwrap_or(0));
        match member {
            RssMember::File => process.file_bytes = bytes,
            RssMember::Anonymous => process.anonymous_bytes = bytes,
            RssMember::Swap => process.swap_bytes = bytes,
            RssMember::Shared => process.shared_bytes = bytes,
            RssMember::Other(_) => return,
        }
        // The parts are newer than a sample.
        if member != RssMember::Swap {
            process.rss_bytes = None;
        }
        process.note_size();
    }

    /// A new process with this pid, whatever had the number before.
    fn begin(&mut self, pid: u32, comm: Name, time_ns: i64, is_guess: bool) {
        let index = self.add(pid, time_ns, is_guess);
        if index != 0 {
            let process = self.at(index);
            process.start_ns = Some(time_ns);
            process.comm = comm;
        }
        self.add_thread(pid, index, comm, time_ns);
    }

    fn name_thread(&mut self, tid: u32, comm: Name, process: ProcessIndex) {
        if comm == Name::NONE || tid == 0 {
            return;
        }
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.comm = comm;
        }
        let process = self.at(process);
        if process.pid == tid {
            process.comm = comm;
        }
    }

    fn take_process(&mut self, pid: u32, parent: u32, name: Name, time_ns: i64) {
        let mut index = self.sampled(pid, time_ns);
        let known = self.processes[index as usize];
        let is_other = known.parent != 0
            && parent != 0
            && known.parent != parent
            && known.name != Name::NONE
            && name != Name::NONE
            && known.name != name;
        if is_other {
            // The number was used again, and the trace has no events of that.
            self.threads.remove(&pid);
            index = self.add(pid, time_ns, false);
        }
        if index == 0 {
            return;
        }
        let process = self.at(index);
        process.is_guess = false;
        process.parent = parent;
        if name != Name::NONE {
            process.name = name;
        }
    }

    fn take_thread(&mut self, tid: u32, pid: u32, comm: Name, time_ns: i64) {
        let process = self.sampled(pid, time_ns);
        if process == 0 || tid == 0 {
            return;
        }
        if let Some(thread) = self.threads.get(&tid).copied() {
            let guess = thread.process;
            let is_guess = self.processes[guess as usize].is_guess && guess != 0;
            if is_guess && tid != pid && guess != process {
                self.processes[process as usize].is_guess = false;
                self.processes[guess as usize].joined = Some(process);
                self.by_pid.remove(&tid);
            }
        }
        let comm = if comm == Name::NONE { self.comm_of(tid) } else { comm };
        self.add_thread(tid, process, comm, time_ns);
        self.name_thread(tid, comm, process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time_ns: i64, tid: u32, kind: Kind) -> Event {
        Event { time_ns, cpu: None, tid, kind }
    }

    #[test]
    fn a_thread_counts_to_its_process_also_if_the_trace_says_it_later() {
        let mut tasks = Tasks::default();
        let early = tasks.see(51, 10);
        tasks.take(&event(20, 0, Kind::Process { pid: 50, parent: 1, name: Name(7), uid: None }));
        tasks.take(&event(21, 0, Kind::Thread { tid: 51, pid: 50, comm: Name(8) }));
        let process = tasks.of_pid(50).unwrap();
        assert_eq!(tasks.joined(early), process);
        assert_eq!(tasks.of_thread(51), process);
        assert_eq!(tasks.process(early).name, Name(7));
        assert_eq!(tasks.all().count(), 1);
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let mut tasks = Tasks::default();
        let made = Kind::NewTask { tid: 9, comm: Name(3), is_thread: false, adj: 0 };
        tasks.take(&event(1, 2, made));
        let first = tasks.of_pid(9).unwrap();
        tasks.take(&event(5, 9, Kind::Exit { tid: 9, pid: Some(9), comm: Name(3) }));
        tasks.take(&event(6, 2, made));
        let second = tasks.of_pid(9).unwrap();
        assert_ne!(first, second);
        assert_eq!(tasks.process(first).end_ns, Some(5));
        assert_eq!((tasks.process(second).start_ns, tasks.process(second).end_ns), (Some(6), None));
    }

    fn switch(time_ns: i64, prev: u32, prev_state: TaskState, next: u32) -> Event {
        let switch = trace::system::Switch {
            prev_tid: Some(prev),
            prev_comm: Name::NONE,
            prev_state,
            next_tid: next,
            next_comm: Name::NONE,
            prev_priority: 120,
            next_priority: 120,
        };
        event(time_ns, prev, Kind::Switch(switch))
    }

    #[test]
    fn a_process_ends_when_the_cpu_leaves_its_last_thread_and_not_at_its_exit() {
        // Since Linux 6.16, the event of the exit comes before the memory is freed.
        let mut tasks = Tasks::default();
        let made = Kind::NewTask { tid: 9, comm: Name(3), is_thread: false, adj: 0 };
        tasks.take(&event(1, 2, made));
        let process = tasks.of_pid(9).unwrap();
        tasks.take(&event(5, 9, Kind::Exit { tid: 9, pid: Some(9), comm: Name(3) }));
        for step in 1..=8 {
            tasks.take(&switch(step * 90_000_000, 9, TaskState::Preempted, 2));
            tasks.take(&switch(step * 90_000_000 + 1, 2, TaskState::Sleeping, 9));
        }
        assert_eq!(tasks.of_thread(9), process);
        tasks.take(&switch(800_000_000, 9, TaskState::Ended, 2));
        assert_eq!(tasks.process(process).end_ns, Some(800_000_000));
        // What has the number long after is another process.
        tasks.take(&switch(999_000_000, 2, TaskState::Sleeping, 9));
        assert_ne!(tasks.of_thread(9), process);
        assert_eq!(tasks.process(process).end_ns, Some(800_000_000));
    }

    #[test]
    fn an_address_space_that_a_process_left_is_no_longer_of_it() {
        let mut tasks = Tasks::default();
        let rss = |mm_id, is_current, bytes| Kind::Rss {
            mm_id,
            is_current: Some(is_current),
            member: RssMember::Anonymous,
            bytes,
        };
        tasks.take(&event(1, 50, rss(7, true, 4096)));
        let process = tasks.of_pid(50).unwrap();
        // It runs another program, and a fork of another process gets the old space.
        tasks.take(&event(2, 50, rss(8, true, 1 << 20)));
        tasks.take(&event(3, 60, rss(7, false, 8192)));
        assert_eq!(tasks.process(process).anonymous_bytes, Some(1 << 20));
        tasks.take(&event(4, 60, rss(8, false, 2 << 20)));
        assert_eq!(tasks.process(process).anonymous_bytes, Some(2 << 20));
        assert_eq!(tasks.process(process).largest_bytes, 2 << 20);
        // 0 is no identity.
        tasks.take(&event(5, 50, rss(0, true, 3 << 20)));
        tasks.take(&event(6, 60, rss(0, false, 4096)));
        assert_eq!(tasks.process(process).anonymous_bytes, Some(3 << 20));
    }

    #[test]
    fn threads_that_claim_each_other_do_not_hang() {
        let mut tasks = Tasks::default();
        for tid in [1, 2, 3] {
            tasks.see(tid, 0);
        }
        for (tid, pid) in [(1, 2), (2, 3), (3, 1), (2, 1), (1, 1)] {
            tasks.take(&event(1, 0, Kind::Thread { tid, pid, comm: Name::NONE }));
        }
        for tid in [1, 2, 3] {
            tasks.process(tasks.of_thread(tid));
        }
    }
}
