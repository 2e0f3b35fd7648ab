//! Traces in memory and requests in one line, for the tests of the swap architectures.

use sim::devices::Device;
use sim::swap::{Outcome, SimulateRequest, simulate};
use trace::{Header, Source, TraceKind, Zeros};
use types::{Event, EventFlags, EventKind, Events, NoProgress, PAGE_BYTES, PageId, ProcessId};

/// A trace in memory, returned in batches of a given size.
pub struct Recorded {
    pub header: Header,
    events: Vec<Event>,
    times_ns: Vec<i64>,
    position: usize,
    batch: usize,
}

impl Recorded {
    pub fn new(kind: TraceKind, events: Vec<Event>) -> Recorded {
        let header = Header {
            has_operations: true,
            has_durations: true,
            events: events.len() as u64,
            pages: None,
            zeros: Some(Zeros::default()),
            ..Header::new(kind, "events")
        };
        Recorded { header, events, times_ns: Vec::new(), position: 0, batch: 7 }
    }

    pub fn swap(events: Vec<Event>) -> Recorded {
        Recorded::new(TraceKind::Swap, events)
    }

    /// This trace with the time of each event.
    pub fn at(mut self, times_ns: Vec<i64>) -> Recorded {
        assert_eq!(times_ns.len(), self.events.len());
        self.header.has_clock = true;
        self.times_ns = times_ns;
        self
    }
}

impl Source for Recorded {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, events: &mut Events) -> Result<bool, trace::Error> {
        events.clear();
        let end = (self.position + self.batch).min(self.events.len());
        self.events[self.position..end].iter().for_each(|event| events.push(*event));
        if self.header.has_clock {
            events.time_ns.extend_from_slice(&self.times_ns[self.position..end]);
        }
        self.position = end;
        Ok(!events.is_empty())
    }
}

/// Events written like the worked cases: `outA D, inA, outB c`; with `Z`, of a page of zeros.
pub fn script(text: &str) -> Vec<Event> {
    text.split(',')
        .map(|word| {
            let word = word.trim();
            let (kind, rest) = if let Some(rest) = word.strip_prefix("out") {
                (EventKind::SwapOut, rest)
            } else {
                (EventKind::SwapIn, word.strip_prefix("in").expect("out or in"))
            };
            let page = rest.as_bytes()[0] - b'A';
            let flags = match rest.as_bytes()[rest.len() - 1] {
                b'D' => EventFlags::DIRTY,
                b'Z' => EventFlags::DIRTY.with(EventFlags::ZERO),
                _ => EventFlags::default(),
            };
            Event { kind, flags, page: PageId(u32::from(page)), process: ProcessId(0) }
        })
        .collect()
}

/// A request on flash 90/40 us and a fast tier 4/5 us, with options as `name=value` words.
pub fn request(architecture: &str, fast_pages: u64, options: &str) -> SimulateRequest {
    let device = |text| Device::resolve(text).expect("a device");
    let bytes = fast_pages * PAGE_BYTES;
    let mut request = SimulateRequest::new(architecture, bytes, device("4/5us"), device("90/40us"));
    for word in options.split_whitespace() {
        let (name, value) = word.split_once('=').expect("name=value");
        request.options.insert(name.to_owned(), value.to_owned());
    }
    request
}

pub fn run(request: &SimulateRequest, events: &[Event]) -> Outcome {
    simulate(&mut Recorded::swap(events.to_vec()), request, &NoProgress)
        .expect("the replay succeeds")
}

/// Slow reads and writes, fast reads and writes.
pub fn operations(outcome: &Outcome) -> [u64; 4] {
    [outcome.slow.reads, outcome.slow.writes, outcome.fast.reads, outcome.fast.writes]
}
