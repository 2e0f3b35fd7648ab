//! `procfs`: snapshots of files of /proc in series, as a shell loop writes them: a line with the time, and then
//! /proc/vmstat, /proc/meminfo, files of /proc/pressure, `ps`, or Android's `dumpsys meminfo`, in any order. The time
//! is that of `date +%s`, with a fraction or in smaller units, of /proc/uptime, or follows `times:`. A dump states the
//! time since boot; if that is the first time of the series, it is the clock of all.

use super::Format;
use super::dumpsys::{self, Section};
use super::processes::Columns;
use crate::input::Input;
use crate::ledger::Ledger;
use crate::lines::{Expected, Lines};
use crate::sniff::{Confidence, head_lines};
use crate::system::{CounterSource, Event, Kind, MemoryPart, Names, Resource, SystemReader, Tally};
use crate::text::{SECOND_NS, decimal, take_decimal, take_time, take_word};
use crate::{Error, Reject};

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "procfs",
    summary: "/proc/vmstat, meminfo, pressure, ps and dumpsys meminfo in series, with times between",
    sniff,
    open,
};

const EXPECTED: Expected = Expected("a time, or a line of /proc/vmstat, meminfo or pressure");
const EXPECTED_TIME: Expected = Expected("a time before the first counters, as of `date +%s`");

/// Recognises a file of whose first hundred lines, as far as the first table of `ps`, one is a time and nearly all
/// others are counters, or one begins a dump.
pub fn sniff(head: &[u8]) -> Confidence {
    let mut lines = head_lines(head, 100);
    let table = lines.iter().position(|line| line.starts_with(b"USER"));
    lines.truncate(table.unwrap_or(lines.len()));
    let times = lines.iter().filter(|line| time(line).is_some()).count();
    let counters = lines.iter().filter(|line| counter(without_path(line).1).is_some()).count();
    let marks = lines.iter().filter(|line| named_file(line).is_some()).count();
    let has_dump = lines.iter().any(|line| line.starts_with(dumpsys::HEADER));
    let is_most = 10 * (times + counters + marks) >= 9 * lines.len();
    Confidence::Likely.when(has_dump || (times > 0 && counters >= 2 && is_most))
}

/// Opens a reader.
///
/// # Errors
/// None; the file is read by [`SystemReader::read`].
pub fn open(input: Input) -> Result<Box<dyn SystemReader>, Error> {
    let state = State {
        names: Names::default(),
        time_ns: None,
        is_since_boot: false,
        is_fresh: false,
        resource: Resource::Memory,
        columns: Columns::default(),
        rss: None,
        dump: None,
    };
    Ok(Box::new(Reader { lines: Lines::new(input), ledger: Ledger::new(false), state }))
}

struct Reader {
    lines: Lines,
    /// Holds the lines that cannot be read.
    ledger: Ledger,
    state: State,
}

struct State {
    names: Names,
    /// Time of the snapshot.
    time_ns: Option<i64>,
    /// Whether the first time was that of a dump, so that dumps are the clock.
    is_since_boot: bool,
    /// Whether no counter followed the time yet.
    is_fresh: bool,
    /// Whose pressure lines without the name of a file are.
    resource: Resource,
    columns: Columns,
    /// Column of the resident size in `ps`; `None` outside its table.
    rss: Option<usize>,
    /// Where a dump is; `None` outside it.
    dump: Option<Section>,
}

impl SystemReader for Reader {
    fn read(&mut self, events: &mut Vec<Event>, tally: &mut Tally) -> Result<bool, Error> {
        let state = &mut self.state;
        self.lines.read_block(&mut self.ledger, |line| state.line(line, events, tally))
    }

    fn names(&self) -> &Names {
        &self.state.names
    }

    fn rejects(&self) -> (u64, &[Reject]) {
        self.ledger.rejects()
    }
}

/// A line of a file of /proc.
enum Counter<'line> {
    Meminfo(&'line [u8], u64),
    Vmstat(&'line [u8], u64),
    /// Whether the line is `full`, the average over 10 s in hundredths of a percent, and the sum in microseconds.
    Pressure(bool, Option<u16>, u64),
}

/// The time of a line that holds nothing else.
fn time(line: &[u8]) -> Option<i64> {
    if let Some(rest) = line.strip_prefix(b"times:") {
        return stamp(take_word(rest)?.0);
    }
    let (first, rest) = take_word(line)?;
    match take_word(rest) {
        None => stamp(first),
        // /proc/uptime: time since boot and idle time, in hundredths.
        Some((second, [])) => {
            let is_uptime = [first, second]
                .iter()
                .all(|word| word.len().checked_sub(3).is_some_and(|place| word[place] == b'.'));
            let parsed = take_time(first, SECOND_NS).zip(take_time(second, SECOND_NS));
            parsed
                .filter(|_| is_uptime)
                .filter(|((_, a), (_, b))| a.is_empty() && b.is_empty())
                .map(|((time_ns, _), _)| time_ns)
        }
        Some(_) => None,
    }
}

/// Seconds, milliseconds, microseconds or nanoseconds since 1970, by the number's size.
fn stamp(word: &[u8]) -> Option<i64> {
    let (whole, rest) = take_decimal(word)?;
    let unit_ns = match whole {
        100_000_000..100_000_000_000 => SECOND_NS,
        100_000_000_000..100_000_000_000_000 => 1_000_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000,
        100_000_000_000_000_000.. => 1,
        _ => return None,
    };
    if !rest.is_empty() && rest.first() != Some(&b'.') {
        return None;
    }
    take_time(word, unit_ns).filter(|(_, rest)| rest.is_empty()).map(|(time_ns, _)| time_ns)
}

fn counter(line: &[u8]) -> Option<Counter<'_>> {
    let (name, rest) = take_word(line)?;
    if let b"some" | b"full" = name {
        let field = |key: &[u8]| {
            let place = memchr::memmem::find(rest, key)? + key.len();
            Some(take_word(&rest[place..])?.0)
        };
        let average = field(b"avg10=")
            .and_then(|word| take_time(word, 100))
            .map(|(hundredths, _)| hundredths);
        let average = average.and_then(|hundredths| u16::try_from(hundredths).ok());
        return Some(Counter::Pressure(name == b"full", average, decimal(field(b"total=")?)?));
    }
    let is_name = |name: &[u8]| {
        name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_()".contains(byte))
            && name.first().is_some_and(u8::is_ascii_alphabetic)
    };
    let (value, rest) = take_word(rest)?;
    let value = decimal(value)?;
    let rest = rest.trim_ascii();
    match name.strip_suffix(b":") {
        Some(name) if is_name(name) => match rest {
            b"kB" => Some(Counter::Meminfo(name, value.saturating_mul(1024))),
            b"" => Some(Counter::Meminfo(name, value)),
            _ => None,
        },
        None if is_name(name) && rest.is_empty() => Some(Counter::Vmstat(name, value)),
        _ => None,
    }
}

/// The file that the lines below are of: `==> /proc/pressure/io <==` of head and tail, or `/proc/pressure/io`.
fn named_file(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii();
    let inner = line.strip_prefix(b"==> ").and_then(|rest| rest.strip_suffix(b" <=="));
    let path = inner.unwrap_or(line);
    (path.starts_with(b"/proc/") && !path.contains(&b' ')).then_some(path)
}

/// Whether a line below a dump is of another file of the series. Dumps have lines like counters, so only counters that
/// an analysis reads, or that are first in their file, end them.
fn ends_dump(line: &[u8]) -> bool {
    let is_counter = match counter(line) {
        Some(Counter::Pressure(..)) => true,
        Some(Counter::Meminfo(name, _)) => {
            name == b"Cached" || name.starts_with(b"Mem") || name.starts_with(b"Swap")
        }
        Some(Counter::Vmstat(name, _)) => {
            let read: [&[u8]; 5] = [b"nr_", b"pgsteal_", b"allocstall", b"workingset_", b"pswp"];
            read.iter().any(|start| name.starts_with(start))
        }
        None => false,
    };
    let starts: [&[u8]; 4] = [b"/proc/", b"USER ", b"***", b"==="];
    is_counter || named_file(line).is_some() || starts.iter().any(|start| line.starts_with(start))
}

/// The name of the file that `grep . FILE...` puts before each line, and the rest of the line.
fn without_path(line: &[u8]) -> (Option<&[u8]>, &[u8]) {
    match line.starts_with(b"/proc/").then(|| memchr::memchr(b':', line)).flatten() {
        Some(colon) => (Some(&line[..colon]), &line[colon + 1..]),
        None => (None, line),
    }
}

fn resource_of(path: &[u8]) -> Option<Resource> {
    Some(match path {
        b"/proc/pressure/cpu" => Resource::Cpu,
        b"/proc/pressure/io" => Resource::Io,
        b"/proc/pressure/memory" => Resource::Memory,
        _ => return None,
    })
}

impl State {
    fn line(
        &mut self,
        line: &[u8],
        events: &mut Vec<Event>,
        tally: &mut Tally,
    ) -> Result<(), Expected> {
        let line = line.trim_ascii();
        let is_separator = line.iter().all(|byte| b"*-=".contains(byte));
        if is_separator || line.starts_with(b"#") {
            self.rss = None;
            self.dump = self.dump.filter(|_| !ends_dump(line));
            return Ok(());
        }
        if line.starts_with(dumpsys::HEADER) {
            (self.rss, self.dump) = (None, Some(Section::default()));
            return Ok(());
        }
        if let Some(time_ns) = time(line) {
            (self.rss, self.dump) = (None, None);
            // /proc/uptime after the date is of the same snapshot.
            if !self.is_since_boot && !std::mem::replace(&mut self.is_fresh, true) {
                self.time_ns = Some(time_ns);
                self.resource = Resource::Memory;
                tally.count_packet(b"snapshot", 1);
            }
            return Ok(());
        }
        if let Some(section) = self.dump {
            if !ends_dump(line) {
                return self.dumped(line, section, events, tally);
            }
            self.dump = None;
        }
        if line.starts_with(b"USER") {
            self.columns.read(line, &mut self.names);
            let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            self.rss = words.position(|word| word == b"RSS");
            return Ok(());
        }
        if let Some(rss) = self.rss {
            return self.process(line, rss, events, tally);
        }
        if let Some(path) = named_file(line) {
            self.resource = resource_of(path).unwrap_or(Resource::Memory);
            return Ok(());
        }
        if line == b"ps-result:" {
            return Ok(());
        }
        let (path, line) = without_path(line);
        let found = counter(line).ok_or(EXPECTED)?;
        let time_ns = self.time_ns.ok_or(EXPECTED_TIME)?;
        self.is_fresh = false;
        let (name, kind) = match found {
            Counter::Meminfo(name, value) => {
                ("meminfo", self.counter(CounterSource::Meminfo, name, value))
            }
            Counter::Vmstat(name, value) => {
                ("vmstat", self.counter(CounterSource::Vmstat, name, value))
            }
            Counter::Pressure(is_full, average10, total_us) => {
                let resource = path.and_then(resource_of).unwrap_or(self.resource);
                let total_us = Some(total_us);
                ("pressure", Kind::Pressure { resource, is_full, total_us, average10 })
            }
        };
        tally.count(name.as_bytes(), 1);
        events.push(Event { time_ns, cpu: None, tid: 0, kind });
        Ok(())
    }

    /// A line of `dumpsys meminfo`.
    fn dumped(
        &mut self,
        line: &[u8],
        mut section: Section,
        events: &mut Vec<Event>,
        tally: &mut Tally,
    ) -> Result<(), Expected> {
        if let Some(time_ns) = dumpsys::time(line) {
            if self.time_ns.is_none() || self.is_since_boot {
                (self.time_ns, self.is_since_boot) = (Some(time_ns), true);
                tally.count_packet(b"snapshot", 1);
            }
            return Ok(());
        }
        let (names, time_ns) = (&mut self.names, self.time_ns);
        let mut is_any = false;
        let found = section.line(line, names, |kind| {
            is_any = true;
            let name: &[u8] = match kind {
                Kind::Process { .. } => b"process",
                Kind::SystemCounter { .. } => b"meminfo",
                _ => b"process_memory",
            };
            if let Some(time_ns) = time_ns {
                tally.count(name, 1);
                events.push(Event { time_ns, cpu: None, tid: 0, kind });
            }
        });
        self.dump = Some(section);
        self.is_fresh &= !is_any;
        match time_ns {
            None if is_any => Err(EXPECTED_TIME),
            _ => found,
        }
    }

    fn counter(&mut self, source: CounterSource, name: &[u8], value: u64) -> Kind {
        Kind::SystemCounter { source, name: self.names.intern(name), value }
    }

    /// A line of `ps`, with the resident size in KiB in column `rss`.
    fn process(
        &mut self,
        line: &[u8],
        rss: usize,
        events: &mut Vec<Event>,
        tally: &mut Tally,
    ) -> Result<(), Expected> {
        let expected = Expected("USER PID PPID VSZ RSS ... NAME, as the header of `ps` says");
        let time_ns = self.time_ns.ok_or(EXPECTED_TIME)?;
        self.is_fresh = false;
        let process = self.columns.read(line, &mut self.names).ok_or(expected)?;
        let mut push = |kind| events.push(Event { time_ns, cpu: None, tid: 0, kind });
        push(process);
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let resident = words.nth(rss).and_then(decimal);
        if let (Kind::Process { pid, .. }, Some(kib)) = (process, resident) {
            let bytes = kib.saturating_mul(1024);
            push(Kind::ProcessMemory { pid, part: MemoryPart::Rss, bytes });
        }
        tally.count(b"process", 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<Event>, Vec<String>, Vec<u64>) {
        let mut reader = open(Input::from_bytes("sample", text.as_bytes()).unwrap()).unwrap();
        let (mut events, mut tally) = (Vec::new(), Tally::default());
        while reader.read(&mut events, &mut tally).unwrap() {}
        let names = events
            .iter()
            .map(|event| match event.kind {
                Kind::SystemCounter { name, .. } | Kind::Process { name, .. } => {
                    reader.names().text(name).into_owned()
                }
                _ => String::new(),
            })
            .collect();
        let bad = reader.rejects().1.iter().map(|reject| reject.line).collect();
        (events, names, bad)
    }

    #[test]
    fn snapshots_have_the_time_above_them() {
        let text = "1654269863
26192.69 13582.92
MemFree:           87692 kB
HugePages_Total:       3
pgsteal_direct 17
some avg10=1.50 avg60=0.00 avg300=0.00 total=9

1654269864.5
/proc/pressure/io:full avg10=0.00 avg60=0.00 avg300=0.00 total=5
==> /proc/pressure/cpu <==
some avg10=0.00 avg60=0.00 avg300=0.00 total=6
";
        let (events, names, bad) = read(text);
        assert!(bad.is_empty());
        assert_eq!(names[..3], ["MemFree", "HugePages_Total", "pgsteal_direct"]);
        let (first, second) = (1_654_269_863_000_000_000, 1_654_269_864_500_000_000);
        let times: Vec<_> = events.iter().map(|event| event.time_ns).collect();
        assert_eq!(times, [first, first, first, first, second, second]);
        let free = Kind::SystemCounter {
            source: CounterSource::Meminfo,
            name: crate::system::Name(2),
            value: 87692 << 10,
        };
        assert_eq!(events[0].kind, free);
        let resources: Vec<_> = events
            .iter()
            .filter_map(|event| match event.kind {
                Kind::Pressure { resource, is_full, total_us, average10 } => {
                    Some((resource, is_full, total_us, average10))
                }
                _ => None,
            })
            .collect();
        assert_eq!(
            resources,
            [
                (Resource::Memory, false, Some(9), Some(150)),
                (Resource::Io, true, Some(5), Some(0)),
                (Resource::Cpu, false, Some(6), Some(0)),
            ]
        );
    }

    #[test]
    fn processes_of_ps_have_their_resident_size() {
        let text = "times:\t1654269863.15\t1654269863.39
MemFree: 1 kB

ps-result:
USER           PID  PPID     VSZ    RSS WCHAN            ADDR S NAME
root             1     0   56488   2552 0                   0 S init
root             2     0       0      0 0                   0 S [kthreadd]
";
        let (events, names, bad) = read(text);
        assert!(bad.is_empty());
        assert_eq!(names, ["MemFree", "init", "", "kthreadd", ""]);
        let size = Kind::ProcessMemory { pid: 1, part: MemoryPart::Rss, bytes: 2552 << 10 };
        assert_eq!(events[2].kind, size);
    }

    #[test]
    fn times_of_every_unit_are_read_and_counters_without_one_are_not() {
        let expected = Some(1_654_269_863_000_000_000);
        for text in ["1654269863", "1654269863.0", "1654269863000", "1654269863000000"] {
            assert_eq!(time(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(time(b"1654269863000000007"), Some(1_654_269_863_000_000_007));
        assert_eq!(time(b"12.50 3.25"), Some(12_500_000_000));
        for text in ["12", "12 13", "1654269863x", "99999999999999999999", "", "1.5 2"] {
            assert_eq!(time(text.as_bytes()), None, "{text}");
        }
        assert_eq!(read("MemFree: 1 kB\nx\n1654269863\nMemFree: 1 MB\n").2, [1, 2, 4]);
    }

    #[test]
    fn dumps_have_their_own_time_unless_the_series_has_times() {
        let dump = "Applications Memory Usage (in Kilobytes):
Uptime: 1000 Realtime: 2000

** MEMINFO in pid 5 [app] **
        TOTAL   10   9
 SQL
         MEMORY_USED:     1668
";
        let later = dump.replace("2000", "7000");
        let (events, names, bad) = read(&format!("{dump}1654269863\n******\n{later}"));
        assert!(bad.is_empty());
        assert_eq!(names, ["app", "", "app", ""]);
        let times: Vec<_> = events.iter().map(|event| event.time_ns / 1_000_000_000).collect();
        assert_eq!(times, [2, 2, 7, 7]);
        let pss = Kind::ProcessMemory { pid: 5, part: MemoryPart::Pss, bytes: 10 << 10 };
        assert_eq!(events[1].kind, pss);
        let (events, names, bad) = read(&format!(
            "1654269863\n{dump}MemTotal: 9 kB\n1654269868\n{later}pgsteal_direct 17\nnr_free_pages 3\n"
        ));
        assert_eq!(
            (names.join(" ").as_str(), bad),
            ("app  MemTotal app  pgsteal_direct nr_free_pages", vec![])
        );
        let times: Vec<_> = events.iter().map(|event| event.time_ns / 1_000_000_000).collect();
        assert_eq!(
            times,
            [
                1_654_269_863,
                1_654_269_863,
                1_654_269_863,
                1_654_269_868,
                1_654_269_868,
                1_654_269_868,
                1_654_269_868
            ]
        );
        let head = format!("{dump}{later}");
        assert_eq!(sniff(head.as_bytes()), Confidence::Likely);
    }
}
