//! Operations of programs and of write-back that wait for one slow device.
//!
//! The device has units that work at the same time, and each serves one operation after the other. It takes operations
//! in the order of their arrival, reads and writes alike. Each process is a closed loop: it issues its
//! operations in the order of the trace, and the time that its page faults take, waits included, delays all its later
//! events. Page-outs and readahead occupy the device, but no program waits for them. Operations on the fast tier never wait.
//! Arrivals at the same time are served in the order of the processes' numbers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use types::ProcessId;

/// What a tier does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads a page of the fast tier.
    FastRead,
    /// Writes a page of the fast tier.
    FastWrite,
    /// Reads a page of the slow device.
    SlowRead,
    /// Writes a page of the slow device.
    SlowWrite,
    /// Reads a page of the slow device beside another one.
    Readahead,
}

/// Times of the operations, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Reading a page of the fast tier.
    pub fast_read: u64,
    /// Writing a page of the fast tier.
    pub fast_write: u64,
    /// Reading a page of the slow device.
    pub slow_read: u64,
    /// Writing a page of the slow device.
    pub slow_write: u64,
    /// Reading one more page of the slow device beside another one.
    pub readahead: u64,
}

/// An operation that a process has not issued yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    /// Time in the trace.
    time_ns: u64,
    operation: Operation,
    /// Whether the process waits for the end of the operation.
    stalls: bool,
}

/// The future of a process, as far as the trace was read.
#[derive(Clone, Debug, Default)]
struct Line {
    /// How much later than in the trace the process now runs.
    delay_ns: u64,
    pending: VecDeque<Pending>,
}

/// The slow device and the processes that use it.
///
/// `heads` has the arrival of the first pending operation of each line that has one.
pub struct Queue {
    times: Times,
    /// When each unit has served its last operation.
    free_ns: BinaryHeap<Reverse<u64>>,
    lines: Vec<Line>,
    heads: BinaryHeap<Reverse<(u64, u32)>>,
    /// Time of the trace; it never goes back.
    now_ns: u64,
    waited_ns: u128,
}

impl Queue {
    /// A device with this many units, at least one.
    pub fn new(times: Times, units: usize) -> Queue {
        let free_ns = std::iter::repeat_n(Reverse(0), units.max(1)).collect();
        let (lines, heads) = (Vec::new(), BinaryHeap::new());
        Queue { times, free_ns, lines, heads, now_ns: 0, waited_ns: 0 }
    }

    /// The trace reaches `time_ns`: serves everything that arrives earlier. Nothing that follows in the trace can,
    /// because delays are at least 0.
    #[inline]
    pub fn advance(&mut self, time_ns: i64) {
        let time_ns = u64::try_from(time_ns).unwrap_or(0);
        if time_ns > self.now_ns {
            self.now_ns = time_ns;
            self.serve_before(time_ns);
        }
    }

    /// A process issues an operation at this time of the trace; `stalls` if it waits for the end.
    pub fn submit(&mut self, process: ProcessId, operation: Operation, stalls: bool) {
        if self.lines.len() <= process.index() {
            self.lines.resize_with(process.index() + 1, Line::default);
        }
        let line = &mut self.lines[process.index()];
        if line.pending.is_empty() {
            self.heads.push(Reverse((self.now_ns.saturating_add(line.delay_ns), process.0)));
        }
        line.pending.push_back(Pending { time_ns: self.now_ns, operation, stalls });
    }

    /// Serves what is left. Returns the time that page faults waited for a unit.
    pub fn finish(mut self) -> u128 {
        self.serve_before(u64::MAX);
        debug_assert!(self.heads.is_empty(), "an arrival at u64::MAX is never served");
        self.waited_ns
    }

    fn serve_before(&mut self, time_ns: u64) {
        while let Some(&Reverse((arrival_ns, process))) = self.heads.peek()
            && arrival_ns < time_ns
        {
            self.heads.pop();
            let delay_ns = self.serve(arrival_ns, process);
            let line = &self.lines[process as usize];
            if let Some(next) = line.pending.front() {
                self.heads.push(Reverse((next.time_ns.saturating_add(delay_ns), process)));
            }
        }
    }

    /// Serves the first operation of a line, which arrives now. Returns the line's delay.
    fn serve(&mut self, arrival_ns: u64, process: u32) -> u64 {
        let line = &mut self.lines[process as usize];
        let pending = line.pending.pop_front().expect("a line in `heads` has an operation");
        let Times { fast_read, fast_write, slow_read, slow_write, readahead } = self.times;
        let (is_slow, service_ns) = match pending.operation {
            Operation::FastRead => (false, fast_read),
            Operation::FastWrite => (false, fast_write),
            Operation::SlowRead => (true, slow_read),
            Operation::SlowWrite => (true, slow_write),
            Operation::Readahead => (true, readahead),
        };
        let mut start_ns = arrival_ns;
        if is_slow {
            let mut unit = self.free_ns.peek_mut().expect("there is at least one unit");
            start_ns = start_ns.max(unit.0);
            *unit = Reverse(start_ns.saturating_add(service_ns));
        }
        if pending.stalls {
            self.waited_ns += u128::from(start_ns - arrival_ns);
            line.delay_ns = start_ns.saturating_add(service_ns) - pending.time_ns;
        }
        line.delay_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::swap::{Issued, waited_ns};

    const TIMES: Times =
        Times { fast_read: 3, fast_write: 4, slow_read: 50, slow_write: 20, readahead: 7 };

    fn waited(operations: &[(i64, u32, Operation, bool)], units: usize) -> u128 {
        let mut queue = Queue::new(TIMES, units);
        for &(time_ns, process, operation, stalls) in operations {
            queue.advance(time_ns);
            queue.submit(ProcessId(process), operation, stalls);
        }
        queue.finish()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn operations_wait_as_long_as_in_the_naive_list_of_events(
            issued in prop::collection::vec(
                (
                    0i64..40,
                    0u32..4,
                    prop::sample::select(vec![
                        Operation::FastRead,
                        Operation::FastWrite,
                        Operation::SlowRead,
                        Operation::SlowWrite,
                        Operation::Readahead,
                    ]),
                    any::<bool>(),
                ),
                0..200,
            ),
            units in 1usize..4,
        ) {
            let mut now_ns = 0;
            let mut operations = Vec::new();
            let mut naive = Vec::new();
            for (gap_ns, process, operation, stalls) in issued {
                now_ns += gap_ns;
                operations.push((now_ns, process, operation, stalls));
                let (service_ns, needs_unit) = match operation {
                    Operation::FastRead => (3, false),
                    Operation::FastWrite => (4, false),
                    Operation::SlowRead => (50, true),
                    Operation::SlowWrite => (20, true),
                    Operation::Readahead => (7, true),
                };
                let time_ns = now_ns as u64;
                naive.push(Issued { process, time_ns, service_ns, needs_unit, stalls });
            }
            prop_assert_eq!(waited(&operations, units), waited_ns(&naive, units));
        }
    }

    #[test]
    fn a_fault_waits_for_the_page_outs_before_it_unless_the_device_has_units_for_all() {
        let write = |process| (0, process, Operation::SlowWrite, false);
        let events = [write(1), write(1), (5, 0, Operation::SlowRead, true)];
        assert_eq!([1, 2, 3].map(|units| waited(&events, units)), [35, 15, 0]);
    }

    #[test]
    fn a_process_never_waits_for_itself_and_its_later_faults_are_delayed() {
        let faults = [0, 10, 20].map(|time_ns| (time_ns, 0, Operation::SlowRead, true));
        assert_eq!(waited(&faults, 1), 0);
        // The third fault comes at 120, and finds the device busy from 115 on.
        let events = [&faults[..], &[(115, 1, Operation::SlowRead, true)]].concat();
        assert_eq!(waited(&events, 1), 115 + 50 - 120);
    }
}
