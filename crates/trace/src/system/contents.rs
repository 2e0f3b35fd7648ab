//! What a system trace has, for `pagewise info`: counts by what an analysis needs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Tally;

/// Counts of a system trace beside those of its kernel events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SystemContents")]
pub struct Contents {
    /// Recording sessions that the file joins.
    pub sessions: u64,
    /// Packets by the name of their field; a packet with several counts under each.
    pub packets: BTreeMap<String, u64>,
    /// Kernel events without a message of their own, which `events` counts as `generic`, by the kernel's name.
    pub generic_events: BTreeMap<String, u64>,
    /// Events by what they say, such as `launch` or `lmkd_kill`; only those that occur. `kills_expected` is 1 if the
    /// recorder was to record kills.
    pub facts: BTreeMap<String, u64>,
    /// Fields of messages that pagewise does not know.
    pub unknown_fields: Vec<UnknownField>,
    /// Bytes of the file that are not read: of parts that are cut, damaged or too large.
    pub skipped_bytes: u64,
    /// Packets that the file has twice, as when a trace is joined with itself; their events count twice.
    #[serde(default)]
    pub repeated_packets: u64,
    /// Times that are out of order, or on a clock that the trace does not relate to others.
    pub clock_problems: BTreeMap<String, u64>,
}

/// A field of a message that pagewise does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnknownField {
    /// Name of the message.
    pub message: String,
    /// Number of the field; 0 for further fields of very many.
    pub number: u32,
    /// Number of occurrences of the field.
    pub count: u64,
}

impl Contents {
    /// The contents of a trace that is read to its end.
    pub fn new(tally: &Tally, mut facts: BTreeMap<String, u64>) -> Contents {
        if tally.expects_kills() {
            facts.insert("kills_expected".to_owned(), 1);
        }
        let unknown = tally.unknown_fields();
        let problems = tally.clock_problems();
        Contents {
            sessions: tally.sessions(),
            skipped_bytes: tally.skipped_bytes(),
            repeated_packets: tally.repeated_packets(),
            packets: tally.packets(),
            generic_events: tally.generic(),
            facts,
            unknown_fields: unknown
                .map(|(message, number, count)| UnknownField {
                    message: message.to_owned(),
                    number,
                    count,
                })
                .collect(),
            clock_problems: problems.map(|(what, count)| (what.to_owned(), count)).collect(),
        }
    }

    /// Adds the contents of another file.
    pub fn join(&mut self, other: Contents) {
        self.sessions += other.sessions;
        self.skipped_bytes = self.skipped_bytes.saturating_add(other.skipped_bytes);
        self.repeated_packets = self.repeated_packets.saturating_add(other.repeated_packets);
        for (counts, others) in [
            (&mut self.packets, other.packets),
            (&mut self.generic_events, other.generic_events),
            (&mut self.facts, other.facts),
            (&mut self.clock_problems, other.clock_problems),
        ] {
            for (name, count) in others {
                *counts.entry(name).or_insert(0) += count;
            }
        }
        self.unknown_fields.extend(other.unknown_fields);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_joined_files_add_up() {
        let mut contents = Contents { repeated_packets: 2, ..Contents::default() };
        contents.facts.insert("launch".to_owned(), 1);
        let twice = contents.clone();
        contents.join(twice);
        assert_eq!((contents.facts["launch"], contents.repeated_packets), (2, 4));
    }
}
