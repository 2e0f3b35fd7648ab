//! What threads do over time, from the switches and wakeups of a trace: run, wait for a CPU, wait for the disk,
//! sleep.

use std::collections::HashMap;

use trace::system::{Event, Kind, Switch, TaskState};

/// Threads and CPUs that are followed at a time.
const THREADS_MAX: usize = 1 << 20;
const CPUS_MAX: usize = 1 << 12;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Runs on a CPU.
    Running,
    /// Could run, but has no CPU.
    Runnable,
    /// Waits uninterruptibly for I/O (sched_blocked_reason says so).
    Io,
    /// Waits uninterruptibly, and not for I/O.
    Uninterruptible,
    /// Waits uninterruptibly, and the trace does not say for what.
    Unexplained,
    /// Sleeps interruptibly, is stopped or idle.
    Sleeping,
}

/// A time in which a thread was in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The thread.
    pub tid: u32,
    /// What the thread did.
    pub state: State,
    /// Begin, in nanoseconds.
    pub from_ns: i64,
    /// End, in nanoseconds, after the begin.
    pub to_ns: i64,
}

/// What a thread does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Now {
    Running,
    Runnable,
    Uninterruptible,
    Sleeping,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    now: Now,
    /// The CPU on which the thread runs, or ran last.
    cpu: Option<u32>,
    since_ns: i64,
    /// An uninterruptible wait that ended, and whose reason may follow.
    held: Option<(i64, i64)>,
}

/// Follows all threads.
#[derive(Debug, Default)]
pub struct Schedule {
    threads: HashMap<u32, Thread>,
    /// The thread on each CPU.
    on_cpu: HashMap<u32, u32>,
    has_switches: bool,
    has_wakes: bool,
    has_reasons: bool,
}

impl Schedule {
    /// Whether the trace has switches so far.
    pub fn has_switches(&self) -> bool {
        self.has_switches
    }

    /// Whether the trace has wakeups so far, without which waits for a CPU are not known.
    pub fn has_wakes(&self) -> bool {
        self.has_wakes
    }

    /// Whether the trace has reasons of uninterruptible waits so far.
    pub fn has_reasons(&self) -> bool {
        self.has_reasons
    }

    /// Takes an event and reports the segments that end.
    pub fn take(&mut self, event: &Event, report: &mut dyn FnMut(Segment)) {
        let time_ns = event.time_ns;
        match event.kind {
            Kind::Switch(switch) => {
                self.has_switches = true;
                self.switch(event.cpu, time_ns, switch, report);
            }
            Kind::Wake { tid, .. } => {
                self.has_wakes = true;
                self.wake(tid, time_ns, report);
            }
            Kind::Blocked { tid, is_io, .. } => {
                self.has_reasons = true;
                let state = if is_io { State::Io } else { State::Uninterruptible };
                self.explain(tid, time_ns, state, report);
            }
            Kind::Exit { tid, .. } => {
                if let Some(thread) = self.threads.remove(&tid) {
                    end(tid, thread, time_ns, report);
                }
            }
            _ => {}
        }
    }

    /// Reports the segments that last at `time_ns`, up to that time, without ending them.
    pub fn open(&self, time_ns: i64, report: &mut dyn FnMut(Segment)) {
        for (&tid, &thread) in &self.threads {
            end(tid, thread, time_ns, report);
        }
    }

    fn switch(
        &mut self,
        cpu: Option<u32>,
        time_ns: i64,
        switch: Switch,
        report: &mut dyn FnMut(Segment),
    ) {
        if let Some(cpu) = cpu
            && (self.on_cpu.len() < CPUS_MAX || self.on_cpu.contains_key(&cpu))
        {
            let before = self.on_cpu.insert(cpu, switch.next_tid);
            // Switches were lost: when that thread stopped is unknown.
            if let Some(before) = before.filter(|&before| Some(before) != switch.prev_tid)
                && self
                    .threads
                    .get(&before)
                    .is_some_and(|thread| thread.now == Now::Running && thread.cpu == Some(cpu))
            {
                self.threads.remove(&before);
            }
        }
        // At equal times a thread may begin to run on one CPU before it leaves the other.
        let runs_elsewhere = |tid: &u32| {
            let thread = self.threads.get(tid);
            thread.is_some_and(|thread| thread.now == Now::Running && thread.cpu != cpu)
        };
        if let Some(tid) = switch.prev_tid.filter(|tid| *tid != 0 && !runs_elsewhere(tid)) {
            let now = match switch.prev_state {
                TaskState::Runnable | TaskState::Preempted => Some(Now::Runnable),
                TaskState::Uninterruptible => Some(Now::Uninterruptible),
                TaskState::Ended => None,
                _ => Some(Now::Sleeping),
            };
            self.change(tid, now, cpu, time_ns, report);
        }
        if switch.next_tid != 0 {
            self.change(switch.next_tid, Some(Now::Running), cpu, time_ns, report);
        }
    }

    /// A thread changes its state; `None` if it ends.
    fn change(
        &mut self,
        tid: u32,
        now: Option<Now>,
        cpu: Option<u32>,
        time_ns: i64,
        report: &mut dyn FnMut(Segment),
    ) {
        if let Some(&thread) = self.threads.get(&tid) {
            end(tid, thread, time_ns, report);
        } else if self.threads.len() >= THREADS_MAX {
            return;
        }
        match now {
            Some(now) => {
                self.threads.insert(tid, Thread { now, cpu, since_ns: time_ns, held: None })
            }
            None => self.threads.remove(&tid),
        };
    }

    fn wake(&mut self, tid: u32, time_ns: i64, report: &mut dyn FnMut(Segment)) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            self.change(tid, (tid != 0).then_some(Now::Runnable), None, time_ns, report);
            return;
        };
        match thread.now {
            Now::Sleeping => {
                push(tid, State::Sleeping, thread.since_ns, time_ns, report);
            }
            Now::Uninterruptible => thread.held = Some((thread.since_ns, time_ns)),
            // It is awake: a second event of the same wakeup, or a wakeup before it slept.
            Now::Running | Now::Runnable => return,
        }
        thread.now = Now::Runnable;
        thread.since_ns = time_ns;
    }

    /// The reason of the wait that ended last, or that ends now if the trace has no wakeups.
    fn explain(&mut self, tid: u32, time_ns: i64, state: State, report: &mut dyn FnMut(Segment)) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        if thread.now == Now::Uninterruptible {
            push(tid, state, thread.since_ns, time_ns, report);
            (thread.now, thread.since_ns) = (Now::Runnable, time_ns);
        } else if let Some((from_ns, to_ns)) = thread.held.take() {
            push(tid, state, from_ns, to_ns, report);
        }
    }
}

/// Reports what a thread did until `time_ns`.
fn end(tid: u32, thread: Thread, time_ns: i64, report: &mut dyn FnMut(Segment)) {
    if let Some((from_ns, to_ns)) = thread.held {
        push(tid, State::Unexplained, from_ns, to_ns, report);
    }
    let state = match thread.now {
        Now::Running => State::Running,
        Now::Runnable => State::Runnable,
        Now::Uninterruptible => State::Unexplained,
        Now::Sleeping => State::Sleeping,
    };
    push(tid, state, thread.since_ns, time_ns, report);
}

fn push(tid: u32, state: State, from_ns: i64, to_ns: i64, report: &mut dyn FnMut(Segment)) {
    if from_ns < to_ns {
        report(Segment { tid, state, from_ns, to_ns });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::system::{Name, Wake};

    fn switch(time_ns: i64, prev: u32, prev_state: TaskState, next: u32) -> Event {
        let kind = Kind::Switch(Switch {
            prev_tid: Some(prev),
            prev_comm: Name::NONE,
            prev_priority: 120,
            prev_state,
            next_tid: next,
            next_comm: Name::NONE,
            next_priority: 120,
        });
        Event { time_ns, cpu: Some(0), tid: prev, kind }
    }

    fn wake(time_ns: i64, tid: u32) -> Event {
        let comm = Name::NONE;
        let kind = Kind::Wake { wake: Wake::Waking, tid, comm, priority: 120, target_cpu: None };
        Event { time_ns, cpu: Some(0), tid: 0, kind }
    }

    fn segments(events: &[Event]) -> Vec<(u32, State, i64, i64)> {
        let (mut schedule, mut found) = (Schedule::default(), Vec::new());
        for event in events {
            schedule.take(event, &mut |segment| {
                found.push((segment.tid, segment.state, segment.from_ns, segment.to_ns));
            });
        }
        found
    }

    #[test]
    fn a_wait_has_the_reason_that_follows_its_wakeup() {
        let blocked = Kind::Blocked { tid: 5, is_io: true, caller: 0 };
        let reason = Event { time_ns: 31, cpu: Some(0), tid: 0, kind: blocked };
        let events = [
            switch(10, 0, TaskState::Runnable, 5),
            switch(20, 5, TaskState::Uninterruptible, 0),
            wake(30, 5),
            reason,
            wake(32, 5),
            switch(40, 0, TaskState::Runnable, 5),
            switch(45, 5, TaskState::Sleeping, 0),
        ];
        let expected = [
            (5, State::Running, 10, 20),
            (5, State::Io, 20, 30),
            (5, State::Runnable, 30, 40),
            (5, State::Running, 40, 45),
        ];
        assert_eq!(segments(&events), expected);
        let without: Vec<Event> = events.into_iter().filter(|event| *event != reason).collect();
        assert_eq!(segments(&without)[1], (5, State::Unexplained, 20, 30));
    }

    #[test]
    fn a_thread_whose_end_of_running_is_lost_has_no_running_time() {
        let events = [
            switch(10, 0, TaskState::Runnable, 5),
            switch(50, 7, TaskState::Sleeping, 8),
            switch(60, 8, TaskState::Runnable, 5),
        ];
        assert_eq!(segments(&events), [(8, State::Running, 50, 60)]);
    }

    #[test]
    fn a_thread_that_moves_between_cpus_at_one_time_goes_on_running() {
        let on = |cpu: u32, event: Event| Event { cpu: Some(cpu), ..event };
        let events = [
            on(0, switch(10, 0, TaskState::Runnable, 5)),
            on(1, switch(20, 0, TaskState::Runnable, 5)),
            on(0, switch(20, 5, TaskState::Runnable, 0)),
            on(1, switch(50, 5, TaskState::Sleeping, 0)),
        ];
        let expected = [(5, State::Running, 10, 20), (5, State::Running, 20, 50)];
        assert_eq!(segments(&events), expected);
    }

    #[test]
    fn times_that_go_back_give_no_segment() {
        let events = [
            switch(100, 0, TaskState::Runnable, 5),
            switch(50, 5, TaskState::Sleeping, 0),
            switch(60, 0, TaskState::Runnable, 5),
        ];
        assert_eq!(segments(&events), [(5, State::Sleeping, 50, 60)]);
    }
}
