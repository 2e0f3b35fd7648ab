//! Counts of what a system trace has, lost, and has beyond what its reader knows.

use std::collections::{BTreeMap, HashMap};

/// Largest number of names that are counted apart.
const NAMES_MAX: usize = 4096;

/// The name under which further names are counted.
const OTHERS: &str = "others";

/// Counts by name, in bounded memory.
#[derive(Clone, Debug, Default)]
struct Counts {
    by_name: HashMap<Box<[u8]>, u64>,
}

impl Counts {
    fn add(&mut self, name: &[u8], count: u64) {
        if count == 0 {
            return;
        }
        if let Some(known) = self.by_name.get_mut(name) {
            *known = known.saturating_add(count);
        } else if self.by_name.len() < NAMES_MAX || name == OTHERS.as_bytes() {
            self.by_name.insert(name.into(), count);
        } else {
            self.add(OTHERS.as_bytes(), count);
        }
    }

    fn sorted(&self) -> BTreeMap<String, u64> {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let mut sorted = BTreeMap::new();
        for (name, count) in &self.by_name {
            *sorted.entry(text(name)).or_insert(0) += count;
        }
        sorted
    }
}

/// Counts of a system trace, which its reader adds to while it reads.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    events: Counts,
    packets: Counts,
    generic: Counts,
    losses: BTreeMap<&'static str, u64>,
    clock_problems: BTreeMap<&'static str, u64>,
    unknown: BTreeMap<(&'static str, u32), u64>,
    sessions: u64,
    skipped_bytes: u64,
    repeated_packets: u64,
    expects_kills: bool,
}

impl Tally {
    /// Counts events by the kernel's name, whether or not they have a `Kind`.
    pub fn count(&mut self, event: &[u8], count: u64) {
        self.events.add(event, count);
    }

    /// Counts parts of the file that are no kernel events, such as a packet of process counters.
    pub fn count_packet(&mut self, kind: &[u8], count: u64) {
        self.packets.add(kind, count);
    }

    /// Counts an event that the format carries as `generic`, by the kernel's name.
    pub fn count_generic(&mut self, event: &[u8]) {
        self.generic.add(event, 1);
    }

    /// Counts what the trace or its reader lost; nothing if `count` is 0.
    pub fn lose(&mut self, what: &'static str, count: u64) {
        add(&mut self.losses, what, count);
    }

    /// Counts a time that could not be put on the common clock, or that is out of order.
    pub fn clock_problem(&mut self, what: &'static str, count: u64) {
        add(&mut self.clock_problems, what, count);
    }

    /// Counts a field of a message that the reader does not know, by its number.
    pub fn unknown_field(&mut self, message: &'static str, number: u32) {
        if self.unknown.len() < NAMES_MAX || self.unknown.contains_key(&(message, number)) {
            add(&mut self.unknown, (message, number), 1);
        } else {
            add(&mut self.unknown, (message, 0), 1);
        }
    }

    /// Counts the beginning of a recording session; a file may have several.
    pub fn begin_session(&mut self) {
        self.sessions = self.sessions.saturating_add(1);
    }

    /// Counts bytes of the file that are not read: of a part that is cut, damaged or too large.
    pub fn skip_bytes(&mut self, count: u64) {
        self.skipped_bytes = self.skipped_bytes.saturating_add(count);
    }

    /// Counts a packet that the file has twice.
    pub fn repeat_packet(&mut self) {
        self.repeated_packets = self.repeated_packets.saturating_add(1);
    }

    /// Packets that the file has twice, among the first that the reader remembers.
    pub fn repeated_packets(&self) -> u64 {
        self.repeated_packets
    }

    /// Notes that the recorder was to record kills.
    pub fn expect_kills(&mut self) {
        self.expects_kills = true;
    }

    /// Whether the recorder was to record kills, by the configuration in the trace.
    pub fn expects_kills(&self) -> bool {
        self.expects_kills
    }

    /// Counts of events by the kernel's name.
    pub fn events(&self) -> BTreeMap<String, u64> {
        self.events.sorted()
    }

    /// Counts of the other parts of the file, by name.
    pub fn packets(&self) -> BTreeMap<String, u64> {
        self.packets.sorted()
    }

    /// Counts of the events that the format carries as `generic`, by the kernel's name.
    pub fn generic(&self) -> BTreeMap<String, u64> {
        self.generic.sorted()
    }

    /// What was lost, with counts.
    pub fn losses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.losses.iter().map(|(&what, &count)| (what, count))
    }

    /// Times that are wrong or out of order, with counts.
    pub fn clock_problems(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.clock_problems.iter().map(|(&what, &count)| (what, count))
    }

    /// Unknown fields as message and number, with counts. Number 0 stands for further fields of many.
    pub fn unknown_fields(&self) -> impl Iterator<Item = (&'static str, u32, u64)> {
        self.unknown.iter().map(|(&(message, number), &count)| (message, number, count))
    }

    /// Bytes of the file that are not read.
    pub fn skipped_bytes(&self) -> u64 {
        self.skipped_bytes
    }

    /// Number of recording sessions; 0 if the format does not mark them.
    pub fn sessions(&self) -> u64 {
        self.sessions
    }
}

fn add<Key: Ord>(counts: &mut BTreeMap<Key, u64>, key: Key, count: u64) {
    if count > 0 {
        let known = counts.entry(key).or_insert(0);
        *known = known.saturating_add(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_of_hostile_files_are_bounded() {
        let mut tally = Tally::default();
        for number in 0..2 * NAMES_MAX as u32 {
            tally.count(format!("event{number}").as_bytes(), 1);
            tally.unknown_field("Message", number + 1);
        }
        let events = tally.events();
        assert_eq!(events.len(), NAMES_MAX + 1);
        assert_eq!(events[OTHERS], NAMES_MAX as u64);
        let unknown: Vec<_> = tally.unknown_fields().collect();
        assert_eq!(unknown.len(), NAMES_MAX + 1);
        assert_eq!(unknown[0], ("Message", 0, NAMES_MAX as u64));
        tally.lose("nothing", 0);
        assert_eq!(tally.losses().count(), 0);
    }
}
