//! Processes by number, in about ten bytes each besides their names, with a bound on all names together.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Largest number of bytes kept of a name, while all names together have less than `TEXT_BYTES`.
const NAME_BYTES: usize = 255;
const TEXT_BYTES: usize = 16 << 20;
/// Largest number of bytes kept of later names: those of a Linux comm (TASK_COMM_LEN without the zero).
const NAME_BYTES_LATER: usize = 15;

/// A process of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Process<'a> {
    /// Pid of the process; 0 if the recording has none.
    pub pid: u32,
    /// Command name of the process; empty if the recording has none.
    pub name: &'a str,
}

/// Processes by `ProcessId`.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    pids: Vec<u32>,
    /// Position of each name in `text`.
    places: Vec<Place>,
    text: String,
    /// Bytes of `text` that belong to no name any more.
    abandoned: usize,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    start: u32,
    length: u8,
}

impl Processes {
    /// Number of processes.
    pub fn len(&self) -> usize {
        self.pids.len()
    }

    /// Whether there is no process.
    pub fn is_empty(&self) -> bool {
        self.pids.is_empty()
    }

    /// The process with this number.
    pub fn get(&self, number: usize) -> Option<Process<'_>> {
        Some(Process { pid: *self.pids.get(number)?, name: self.name(self.places[number]) })
    }

    /// Iterates over the processes in order.
    pub fn iter(&self) -> impl Iterator<Item = Process<'_>> {
        self.pids
            .iter()
            .zip(&self.places)
            .map(|(&pid, &place)| Process { pid, name: self.name(place) })
    }

    /// A copy of the first `count` processes.
    #[must_use]
    pub fn first(&self, count: usize) -> Processes {
        self.iter().take(count).map(|process| (process.pid, process.name)).collect()
    }

    /// Appends a process. Returns whether its name was cut.
    pub fn push(&mut self, pid: u32, name: &str) -> bool {
        let place = self.keep(name);
        self.pids.push(pid);
        self.places.push(place);
        name.len() > usize::from(place.length)
    }

    /// Renames the process with this number, which must exist. Returns whether the name was cut.
    pub fn rename(&mut self, number: usize, name: &str) -> bool {
        self.abandoned += usize::from(self.places[number].length);
        self.places[number].length = 0;
        if self.abandoned > TEXT_BYTES {
            *self = self.first(self.len());
        }
        let place = self.keep(name);
        self.places[number] = place;
        name.len() > usize::from(place.length)
    }

    /// Bytes of memory in use.
    pub fn bytes(&self) -> usize {
        self.len() * (size_of::<u32>() + size_of::<Place>()) + self.text.len()
    }

    fn name(&self, place: Place) -> &str {
        let start = place.start as usize;
        &self.text[start..start + usize::from(place.length)]
    }

    fn keep(&mut self, name: &str) -> Place {
        let is_early = self.text.len() - self.abandoned < TEXT_BYTES;
        let mut length = name.len().min(if is_early { NAME_BYTES } else { NAME_BYTES_LATER });
        while !name.is_char_boundary(length) {
            length -= 1;
        }
        let start = self.text.len() as u32;
        self.text.push_str(&name[..length]);
        Place { start, length: length as u8 }
    }
}

impl<Name: AsRef<str>> FromIterator<(u32, Name)> for Processes {
    fn from_iter<I: IntoIterator<Item = (u32, Name)>>(named: I) -> Processes {
        let mut processes = Processes::default();
        for (pid, name) in named {
            processes.push(pid, name.as_ref());
        }
        processes
    }
}

impl PartialEq for Processes {
    fn eq(&self, other: &Processes) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Processes {}

impl Serialize for Processes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl JsonSchema for Processes {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Processes".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        <Vec<Process<'static>>>::json_schema(generator)
    }
}

impl<'de> Deserialize<'de> for Processes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Processes, D::Error> {
        deserializer.deserialize_seq(Listed)
    }
}

/// A process as stored in headers.
#[derive(Deserialize)]
struct Named<'a> {
    pid: u32,
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// Deserializes a list of processes one by one.
struct Listed;

impl<'de> Visitor<'de> for Listed {
    type Value = Processes;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of processes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Processes, A::Error> {
        let mut processes = Processes::default();
        while let Some(Named { pid, name }) = list.next_element()? {
            processes.push(pid, &name);
        }
        Ok(processes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_up_to_255_bytes_and_cut_between_letters() {
        let mut processes = Processes::default();
        assert!(!processes.push(1, "sh"));
        assert!(!processes.push(2, &"x".repeat(255)));
        assert!(processes.push(3, &"x".repeat(256)));
        assert!(processes.push(4, &format!("{}\u{e9}", "x".repeat(254))));
        let lengths: Vec<usize> = processes.iter().map(|process| process.name.len()).collect();
        assert_eq!(lengths, [2, 255, 255, 254]);
        assert_eq!(processes.get(0), Some(Process { pid: 1, name: "sh" }));
        assert_eq!(processes.get(4), None);
    }

    #[test]
    #[ignore = "slow"]
    fn a_million_names_of_any_length_stay_small() {
        let mut processes = Processes::default();
        let cut = (0..1_000_000u32).filter(|&pid| processes.push(pid, &format!("{pid:0>255}")));
        let (cut, early) = (cut.count(), TEXT_BYTES / NAME_BYTES + 1);
        assert_eq!(cut, 1_000_000 - early);
        assert_eq!(processes.get(early - 1).map(|process| process.name.len()), Some(NAME_BYTES));
        let last = processes.get(999_999).map(|process| process.name.len());
        assert_eq!(last, Some(NAME_BYTES_LATER));
        assert!(processes.bytes() < 48 << 20);
    }

    #[test]
    fn renames_do_not_accumulate_text() {
        let mut processes: Processes = [(1, "a"), (2, "b"), (3, "c")].into_iter().collect();
        for turn in 0..200_000 {
            processes.rename(1, &format!("{turn:0>200}"));
        }
        let names: Vec<&str> = processes.iter().map(|process| process.name).collect();
        assert_eq!(names, ["a", &format!("{:0>200}", 199_999), "c"]);
        assert!(processes.bytes() <= TEXT_BYTES + 1024);
    }

    #[test]
    fn processes_are_serialized_as_a_list() {
        let processes: Processes = [(7, "\") Z (\"\u{e9}\\"), (0, "")].into_iter().collect();
        let text = serde_json::to_string(&processes).unwrap();
        assert_eq!(text, r#"[{"pid":7,"name":"\") Z (\"é\\"},{"pid":0,"name":""}]"#);
        assert_eq!(serde_json::from_str::<Processes>(&text).unwrap(), processes);
        assert_ne!(processes.first(1), processes);
        assert!(serde_json::from_str::<Processes>(r#"[{"pid":7}]"#).is_err());
    }
}
