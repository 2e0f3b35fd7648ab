//! What an import keeps besides the events: names, and counts of everything unusable.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;

use types::ProcessId;

use crate::files::Files;
use crate::recording::About;
use crate::renumber::Renumber;
use crate::system::Contents;
use crate::{
    Error, ErrorKind, Killed, Loss, Position, Processes, Reject, SPACES_MAX, Shortage, Zeros,
};

/// Number of bad lines that are kept.
const REJECTS_KEPT: usize = 10;
/// Bytes that are kept of a bad line.
const FOUND_BYTES: usize = 120;

/// Largest number of processes and of devices: the space of a page key has no room for more.
/// A phone has hundreds; a damaged recording may have a new name in every line.
const NAMES_MAX: usize = SPACES_MAX as usize - 1;

/// Memory limit for the fingerprints of `NAMES_MAX` names.
const FINGERPRINT_BYTES_MAX: usize = 48 << 20;

const NAMES_CUT: &str = "names of processes that were cut";

/// Kinds of events that are counted separately.
const SEEN_MAX: usize = 4096;

/// Name under which further kinds are counted.
const SEEN_OTHERS: &[u8] = b"others";

/// Names and counts collected while records are read. All files of an import share a ledger, so that a
/// process or device has the same number in each file.
#[derive(Debug, Default)]
pub struct Ledger {
    is_strict: bool,
    processes: Processes,
    /// The process that last used each pid.
    process_by_pid: ByPid,
    /// The processes of recordings that name the process of each event.
    process_by_name: ByName,
    devices: Vec<String>,
    device_by_name: HashMap<Vec<u8>, u32>,
    /// Name and number of the last device, because a device repeats in successive lines.
    device_last: (Vec<u8>, Option<u32>),
    /// Files with pages in the recording.
    pub files: Files,
    /// The recorder's description of each recording, in the order in which they were opened.
    pub recorders: Vec<About>,
    /// What a system trace has beside its events.
    pub system: Option<Contents>,
    /// Stalls and kills.
    pub shortage: Shortage,
    /// The first and the last time that the recorder noted apart from its events.
    noted: Option<(u64, u64)>,
    /// Counts of pages of zeros over the recordings so far; `Some(None)` if a recording does not mark
    /// them.
    zeros: Option<Option<Zeros>>,
    rejected: u64,
    rejects: Vec<Reject>,
    skipped: BTreeMap<&'static str, u64>,
    losses: BTreeMap<&'static str, u64>,
    seen: Vec<(Vec<u8>, u64)>,
    seen_by_name: HashMap<Vec<u8>, usize>,
    /// Index of the last kind of event, because kinds repeat.
    seen_last: usize,
    unused_columns: BTreeSet<String>,
}

/// Processes by pid, looked up for every line. An array covers all pids of the kernel, so that the lookup
/// needs no hash and hostile pids do not slow it down.
#[derive(Debug, Default)]
struct ByPid {
    /// The process number plus one; 0 if the pid has no process.
    low: Vec<u32>,
    high: HashMap<u32, ProcessId>,
}

/// Larger than every pid of Linux (PID_MAX_LIMIT).
const LOW_PIDS: u32 = 1 << 22;

impl ByPid {
    #[inline]
    fn get(&self, pid: u32) -> Option<ProcessId> {
        if pid >= LOW_PIDS {
            return self.high.get(&pid).copied();
        }
        let entry = self.low.get(pid as usize).copied().unwrap_or(0);
        entry.checked_sub(1).map(ProcessId)
    }

    fn insert(&mut self, pid: u32, process: ProcessId) {
        if pid >= LOW_PIDS {
            self.high.insert(pid, process);
            return;
        }
        let place = pid as usize;
        if place >= self.low.len() {
            self.low.resize((place + 1).next_power_of_two(), 0);
        }
        self.low[place] = process.0 + 1;
    }

    fn remove(&mut self, pid: u32) {
        self.high.remove(&pid);
        if let Some(entry) = self.low.get_mut(pid as usize) {
            *entry = 0;
        }
    }

    fn bytes(&self) -> usize {
        self.low.len() * size_of::<u32>() + self.high.capacity() * size_of::<(u32, ProcessId)>()
    }
}

/// Processes by pid and name, as a fingerprint of 64 bits of both, so that the length of names does not
/// matter. The probability of a collision among a million is 3 in 10^8.
#[derive(Debug)]
struct ByName {
    fingerprints: Renumber,
    /// Processes by number of their fingerprint.
    processes: Vec<ProcessId>,
    /// Buffer, kept to save an allocation.
    numbers: Vec<u32>,
}

impl Default for ByName {
    fn default() -> ByName {
        let fingerprints = Renumber::with_limit(FINGERPRINT_BYTES_MAX);
        ByName { fingerprints, processes: Vec::new(), numbers: Vec::new() }
    }
}

impl ByName {
    /// The number of this pid and name; a new pair gets the next number. `None` if the table is full.
    fn number(&mut self, pid: u32, name: &[u8]) -> Option<usize> {
        let mut hasher = DefaultHasher::new();
        hasher.write_u32(pid);
        hasher.write(name);
        self.numbers.clear();
        self.fingerprints.number_batch(&[hasher.finish()], &mut self.numbers).ok()?;
        self.numbers.first().map(|&number| number as usize)
    }

    fn get(&self, number: usize) -> Option<ProcessId> {
        self.processes.get(number).copied()
    }

    fn set(&mut self, number: usize, process: ProcessId) {
        match self.processes.get_mut(number) {
            Some(known) => *known = process,
            None => self.processes.push(process),
        }
    }

    fn bytes(&self) -> usize {
        self.fingerprints.bytes() + self.processes.len() * size_of::<ProcessId>()
    }
}

impl Ledger {
    /// An empty ledger. A strict ledger turns the first bad line into an error.
    pub fn new(is_strict: bool) -> Ledger {
        Ledger { is_strict, ..Ledger::default() }
    }

    /// Notes columns of a table that are not read.
    pub fn leave_out_columns(&mut self, names: Vec<String>) {
        self.unused_columns.extend(names);
    }

    /// Columns of tables that are not read, by name.
    pub fn unused_columns(&self) -> impl Iterator<Item = &str> {
        self.unused_columns.iter().map(String::as_str)
    }

    /// The process that has this pid now, with any name.
    pub fn process(&mut self, pid: u32) -> ProcessId {
        match self.process_by_pid.get(pid) {
            Some(process) => process,
            None => self.add_process(pid, b""),
        }
    }

    /// The process with this pid and name. A pid with a new name is a new process, because its memory was
    /// replaced. Without a name (`<...>`), the last process with the pid.
    #[inline]
    pub fn named_process(&mut self, pid: u32, name: &[u8]) -> ProcessId {
        let last = self.process_by_pid.get(pid);
        match last {
            Some(process) if self.name_of(process).as_bytes() == name => process,
            _ => self.renamed_process(pid, name, last),
        }
    }

    /// The slow path of `named_process`: the last process with this pid has another name or a cut name.
    fn renamed_process(&mut self, pid: u32, name: &[u8], last: Option<ProcessId>) -> ProcessId {
        if name.is_empty() || name == b"<...>" {
            return last.unwrap_or_else(|| self.add_process(pid, b""));
        }
        let Some(number) = self.process_by_name.number(pid, name) else {
            return self.last_process_for_excess();
        };
        let process = match last {
            Some(process) if self.name_of(process).is_empty() => {
                self.name_process(process, name);
                process
            }
            _ => match self.process_by_name.get(number) {
                Some(known) => known,
                None => self.add_process(pid, name),
            },
        };
        self.process_by_pid.insert(pid, process);
        self.process_by_name.set(number, process);
        process
    }

    /// Sets the name of a process.
    pub fn name_process(&mut self, process: ProcessId, name: &[u8]) {
        let is_cut = self.processes.rename(process.index(), &exact(name));
        self.lose(NAMES_CUT, u64::from(is_cut));
    }

    /// Ends a process: from now on its pid is another process.
    pub fn end_process(&mut self, pid: u32) {
        self.process_by_pid.remove(pid);
    }

    fn name_of(&self, process: ProcessId) -> &str {
        self.processes.get(process.index()).map_or("", |process| process.name)
    }

    fn add_process(&mut self, pid: u32, name: &[u8]) -> ProcessId {
        if self.processes.len() == NAMES_MAX {
            return self.last_process_for_excess();
        }
        let process = ProcessId(self.processes.len() as u32);
        let is_cut = self.processes.push(pid, &exact(name));
        self.lose(NAMES_CUT, u64::from(is_cut));
        self.process_by_pid.insert(pid, process);
        process
    }

    fn last_process_for_excess(&mut self) -> ProcessId {
        self.lose("processes beyond the first million, counted as the last one", 1);
        ProcessId(self.processes.len() as u32 - 1)
    }

    /// Number of the device with this name.
    #[inline]
    pub fn device(&mut self, name: &[u8]) -> u32 {
        match &self.device_last {
            (last, Some(number)) if last == name => *number,
            _ => self.other_device(name),
        }
    }

    fn other_device(&mut self, name: &[u8]) -> u32 {
        let number = match self.device_by_name.get(name) {
            Some(&number) => number,
            None if self.devices.len() == NAMES_MAX => {
                self.lose("devices beyond the first million, counted as the last one", 1);
                return NAMES_MAX as u32 - 1;
            }
            None => {
                let number = self.devices.len() as u32;
                self.devices.push(exact(name));
                self.device_by_name.insert(name.to_vec(), number);
                number
            }
        };
        let (last, of_last) = &mut self.device_last;
        last.clear();
        last.extend_from_slice(name);
        *of_last = Some(number);
        number
    }

    /// Counts the bad line with this number and text, or returns it as an error if the ledger is strict.
    ///
    /// # Errors
    /// `Corrupt` with the line, from a strict ledger.
    pub fn reject(
        &mut self,
        path: &Path,
        line: u64,
        text: &[u8],
        expected: &str,
    ) -> Result<(), Error> {
        if self.is_strict {
            let message = format!("expected {expected}, found `{}`", start_of(text));
            return Err(Error::new(ErrorKind::Corrupt, path, message).at(Position::Line(line)));
        }
        self.rejected += 1;
        if self.rejects.len() < REJECTS_KEPT {
            let (file, found) = (path.display().to_string(), start_of(text));
            self.rejects.push(Reject { file, line, expected: expected.to_owned(), found });
        }
        Ok(())
    }

    /// Adds bad lines that another ledger counted, of which it kept the first ones.
    pub fn add_rejects(&mut self, count: u64, first: &[Reject]) {
        self.rejected += count;
        let room = REJECTS_KEPT.saturating_sub(self.rejects.len());
        self.rejects.extend(first.iter().take(room).cloned());
    }

    /// Whether a bad line is an error.
    pub fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// Counts a valid record that is no access.
    pub fn skip(&mut self, why: &'static str) {
        *self.skipped.entry(why).or_default() += 1;
    }

    /// Counts losses of the recorder or the import.
    pub fn lose(&mut self, what: &'static str, count: u64) {
        if count > 0 {
            let total = self.losses.entry(what).or_default();
            *total = total.saturating_add(count);
        }
    }

    /// Notes a time at which the recorder ran.
    pub fn note_time(&mut self, time_ns: u64) {
        let (first, last) = self.noted.get_or_insert((time_ns, time_ns));
        (*first, *last) = ((*first).min(time_ns), (*last).max(time_ns));
    }

    /// Notes a SIGKILL to the process with this pid.
    pub fn note_kill(&mut self, time_ns: i64, pid: u32, is_of_kernel: bool) {
        let process = self.process_by_pid.get(pid);
        let name = process.map_or("", |process| self.name_of(process)).to_owned();
        self.shortage.kill(Killed { time_ns, pid, name, is_of_kernel });
    }

    /// Nanoseconds that the recorder ran, by the times that it noted; none if it noted a single one.
    pub fn recorded_ns(&self) -> Option<u64> {
        self.noted.map(|(first, last)| last - first).filter(|&time_ns| time_ns > 0)
    }

    /// Notes at the end of a recording whether it marks pages of zeros. With several recordings, every
    /// one must mark them, and the kernel's counts of a single recording do not count for all.
    pub fn note_zeros(&mut self, zeros: Option<Zeros>) {
        self.zeros = Some(match self.zeros {
            None => zeros,
            Some(before) => before.and(zeros).map(|_| Zeros::default()),
        });
    }

    /// Counts of pages of zeros; `None` if any recording does not mark them.
    pub fn zeros(&self) -> Option<Zeros> {
        self.zeros.flatten()
    }

    /// Counts `count` events under the recording's own name for them.
    #[inline]
    pub fn see(&mut self, event: &[u8], count: u64) {
        if self.seen.get(self.seen_last).is_none_or(|(last, _)| last != event) {
            self.seen_last = self.find_seen(event);
        }
        let total = &mut self.seen[self.seen_last].1;
        *total = total.saturating_add(count);
    }

    fn find_seen(&mut self, event: &[u8]) -> usize {
        if let Some(&index) = self.seen_by_name.get(event) {
            return index;
        }
        let is_room = self.seen.len() < SEEN_MAX || event == SEEN_OTHERS;
        if !is_room {
            return self.find_seen(SEEN_OTHERS);
        }
        self.seen.push((event.to_vec(), 0));
        self.seen_by_name.insert(event.to_vec(), self.seen.len() - 1);
        self.seen.len() - 1
    }

    /// Processes by `ProcessId`.
    pub fn processes(&self) -> &Processes {
        &self.processes
    }

    /// Returns the processes and drops their lookup tables. Call it after the last record.
    pub fn take_processes(&mut self) -> Processes {
        self.process_by_pid = ByPid::default();
        self.process_by_name = ByName::default();
        std::mem::take(&mut self.processes)
    }

    /// Bytes of memory for processes and their names.
    pub fn process_bytes(&self) -> usize {
        self.processes.bytes() + self.process_by_pid.bytes() + self.process_by_name.bytes()
    }

    /// Devices by number.
    pub fn devices(&self) -> &[String] {
        &self.devices
    }

    /// The number of bad lines, and the first ten of them.
    pub fn rejects(&self) -> (u64, &[Reject]) {
        (self.rejected, &self.rejects)
    }

    /// Records that are no accesses, by reason.
    pub fn skipped(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.skipped.iter().map(|(&why, &count)| (why, count))
    }

    /// All losses, including bad lines.
    pub fn losses(&self) -> Vec<Loss> {
        let unread = ("lines that could not be read", self.rejected);
        self.losses
            .iter()
            .map(|(&what, &count)| (what, count))
            .chain((self.rejected > 0).then_some(unread))
            .map(|(what, count)| Loss { what: what.to_owned(), count })
            .collect()
    }

    /// Events by the recording's own names, with counts, in the order of the names.
    pub fn seen(&self) -> Vec<(String, u64)> {
        let mut seen: Vec<(String, u64)> =
            self.seen.iter().map(|(event, count)| (exact(event), *count)).collect();
        seen.sort();
        seen
    }
}

/// A name exactly as recorded; callers that print it make it safe.
fn exact(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// The beginning of a line.
fn start_of(line: &[u8]) -> String {
    let start = exact(line.get(..FOUND_BYTES).unwrap_or(line));
    if line.len() > FOUND_BYTES { format!("{start}...") } else { start }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Process;

    #[test]
    fn a_pid_under_a_new_name_is_a_new_process() {
        let mut ledger = Ledger::new(false);
        let unnamed = ledger.named_process(7, b"<...>");
        assert_eq!(ledger.named_process(7, b"sh"), unnamed);
        let cat = ledger.named_process(7, b"cat");
        assert_ne!(cat, unnamed);
        assert_eq!(ledger.named_process(7, b"<...>"), cat);
        assert_eq!(ledger.named_process(7, b"sh"), unnamed);
        assert_eq!(ledger.processes().get(0), Some(Process { pid: 7, name: "sh" }));
        ledger.end_process(7);
        assert_ne!(ledger.process(7), cat);
        let far = ledger.process(u32::MAX);
        assert_eq!(ledger.process(u32::MAX), far);
        ledger.end_process(u32::MAX);
        assert_ne!(ledger.process(u32::MAX), far);
    }

    #[test]
    fn hostile_names_are_kept_unchanged() {
        let mut ledger = Ledger::new(false);
        let process = ledger.named_process(1, b"\") Z (\"\n\x1b[31m\xff");
        assert_eq!(ledger.processes().get(0).unwrap().name, "\") Z (\"\n\u{1b}[31m\u{fffd}");
        assert_eq!(ledger.named_process(1, b"\") Z (\"\n\x1b[31m\xff"), process);
        assert_eq!(ledger.device(b""), 0);
        assert_eq!(ledger.device(b"8,0"), 1);
        assert_eq!(ledger.device(b""), 0);
    }

    #[test]
    fn processes_with_equal_cut_names_stay_distinct() {
        let mut ledger = Ledger::new(false);
        let [first_name, other_name] = ["first", "other"].map(|end| "x".repeat(300) + end);
        let (first, second) = (
            ledger.named_process(0, first_name.as_bytes()),
            ledger.named_process(0, other_name.as_bytes()),
        );
        assert_ne!(first, second);
        assert_eq!(ledger.named_process(0, first_name.as_bytes()), first);
        assert_eq!(ledger.processes().get(0).unwrap().name, "x".repeat(255));
        assert_eq!(ledger.losses(), [Loss { what: NAMES_CUT.to_owned(), count: 2 }]);
    }

    #[test]
    #[ignore = "slow"]
    fn processes_beyond_the_first_million_count_as_the_last() {
        let mut ledger = Ledger::new(false);
        for pid in 0..NAMES_MAX as u32 + 5 {
            ledger.named_process(pid, b"sh");
        }
        let last = ledger.processes().len() - 1;
        assert_eq!(ledger.named_process(4_000_000_000, b"sh").index(), last);
        assert_eq!(ledger.losses()[0].count, 6);
        assert!(ledger.process_bytes() < 80 << 20);
    }

    #[test]
    fn kinds_of_events_are_bounded() {
        let mut ledger = Ledger::new(false);
        for kind in 0..2 * SEEN_MAX {
            ledger.see(format!("event{kind}").as_bytes(), 1);
            ledger.see(b"event0", 1);
        }
        let seen = ledger.seen();
        let count = |name: &str| seen.iter().find(|(event, _)| event == name).map(|seen| seen.1);
        assert_eq!(seen.len(), SEEN_MAX + 1);
        assert_eq!(count("event0"), Some(2 * SEEN_MAX as u64 + 1));
        assert_eq!(count("others"), Some(SEEN_MAX as u64));
    }

    #[test]
    fn the_first_ten_rejects_are_kept_and_all_are_counted() {
        let mut ledger = Ledger::new(false);
        for line in 1..=12 {
            ledger.reject(Path::new("a"), line, b"y", "x").unwrap();
        }
        assert_eq!(ledger.rejects().0, 12);
        assert_eq!(ledger.rejects().1.len(), REJECTS_KEPT);
        assert_eq!(ledger.rejects().1[0].found, "y");
        let error = Ledger::new(true).reject(Path::new("a"), 3, b"y\x1b", "x").unwrap_err();
        assert_eq!(error.to_string(), "a:3: expected x, found `y\u{1b}`");
    }

    #[test]
    fn an_overlong_line_is_reported_by_its_start() {
        let mut ledger = Ledger::new(false);
        ledger.reject(Path::new("a"), 1, &[b'y'; 1000], "x").unwrap();
        assert_eq!(ledger.rejects().1[0].found, "y".repeat(FOUND_BYTES) + "...");
    }
}
