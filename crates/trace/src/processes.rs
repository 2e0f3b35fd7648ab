//! Processes by number: a million of them in some ten bytes each beside their names, whatever names a
//! recording has.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes kept of a name at most ...
const NAME_BYTES: usize = 255;
/// ... until all names together have this number of bytes; from then on, what Linux keeps of one
/// (TASK_COMM_LEN less its zero).
const TEXT_BYTES: usize = 16 << 20;
const NAME_BYTES_LATER: usize = 15;

/// A process named by the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Process<'a> {
    /// The kernel's number for it; 0 where the recording has none.
    pub pid: u32,
    /// Its command name; empty where the recording has none.
    pub name: &'a str,
}

/// Processes by `ProcessId`.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    pids: Vec<u32>,
    /// Where each name lies in `text`.
    places: Vec<Place>,
    text: String,
    /// Bytes of `text` that are no name any more.
    abandoned: usize,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    start: u32,
    length: u8,
}

impl Processes {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.pids.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pids.is_empty()
    }

    /// The process of this number.
    pub fn get(&self, number: usize) -> Option<Process<'_>> {
        Some(Process { pid: *self.pids.get(number)?, name: self.name(self.places[number]) })
    }

    /// Every process in turn.
    pub fn iter(&self) -> impl Iterator<Item = Process<'_>> {
        self.pids
            .iter()
            .zip(&self.places)
            .map(|(&pid, &place)| Process { pid, name: self.name(place) })
    }

    /// The first `count` of them.
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

    /// Gives the process of this number, which must exist, another name. Returns whether that was cut.
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

    /// Memory that they take.
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

/// A process as headers have it.
#[derive(Deserialize)]
struct Named<'a> {
    pid: u32,
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// Takes a list of processes one by one.
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
    fn names_that_change_leave_no_text_behind() {
        let mut processes: Processes = [(1, "a"), (2, "b"), (3, "c")].into_iter().collect();
        for turn in 0..200_000 {
            processes.rename(1, &format!("{turn:0>200}"));
        }
        let names: Vec<&str> = processes.iter().map(|process| process.name).collect();
        assert_eq!(names, ["a", &format!("{:0>200}", 199_999), "c"]);
        assert!(processes.bytes() <= TEXT_BYTES + 1024);
    }

    #[test]
    fn they_are_written_as_a_list_and_read_again() {
        let processes: Processes = [(7, "\") Z (\"\u{e9}\\"), (0, "")].into_iter().collect();
        let text = serde_json::to_string(&processes).unwrap();
        assert_eq!(text, r#"[{"pid":7,"name":"\") Z (\"é\\"},{"pid":0,"name":""}]"#);
        assert_eq!(serde_json::from_str::<Processes>(&text).unwrap(), processes);
        assert_ne!(processes.first(1), processes);
        assert!(serde_json::from_str::<Processes>(r#"[{"pid":7}]"#).is_err());
    }
}
