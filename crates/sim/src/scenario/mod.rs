//! A generator of phone scenarios: the pages that leave and enter the memory of a phone whose user goes
//! through a set of apps. docs/scenarios.md lists every parameter with its source.
//!
//! It exists because the papers publish neither traces nor app sequences. Its defaults come from
//! the derived calibration of spec sheet S0.3 and from our own recordings; none was chosen
//! to reproduce a figure of a paper, and none may be.

mod apps;
mod memory;
mod schedule;

use crate::regions::MIB_PAGES;
use crate::{Error, EventList};
use serde::{Deserialize, Serialize};
use trace::{Header, TraceKind, Zeros};

/// Order of the visits in one round: the three scenarios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrangement {
    /// One app after the other.
    #[default]
    Rotation,
    /// Four apps at a time, visited twice in turn before the next four.
    Sessions,
    /// Back to the first app after every visit of another.
    Returning,
}

/// Number of visits of each app in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Every app once.
    #[default]
    RoundRobin,
    /// By Zipf's law with exponent 1, every app at least once.
    Zipf,
}

/// Whether rounds repeat the same sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Every round is the same.
    #[default]
    Strict,
    /// Every round is shuffled.
    Shuffled,
}

/// A phone, its apps and its user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// Order of the visits in one round.
    pub arrangement: Arrangement,
    /// Number of visits of each app in a round.
    pub schedule: Schedule,
    /// Whether rounds repeat the same sequence.
    pub order: Order,
    /// Number of apps.
    pub apps: u32,
    /// Number of rounds.
    pub rounds: u32,
    /// Memory that apps, libraries and services share, in MiB.
    pub memory_mib: u32,
    /// Mean private pages of one app, in MiB; apps have between half and one and a half of it.
    pub footprint_mib: u32,
    /// Share of an app's private pages that belong to files (code, assets), in percent.
    pub file_percent: u32,
    /// Shared libraries, in MiB; every app uses a random half of them.
    pub libraries_mib: u32,
    /// Anonymous memory of the system services, in MiB.
    pub services_mib: u32,
    /// Share of a region's pages that one visit uses, in percent.
    pub used_percent: u32,
    /// Share of the used pages that every visit uses, in percent.
    pub core_percent: u32,
    /// Share of the touched anonymous pages that are written, in percent.
    pub write_percent: u32,
    /// Whether the trace contains events of file pages.
    pub file_events: bool,
    /// Seed of everything random.
    pub seed: u64,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            arrangement: Arrangement::default(),
            schedule: Schedule::default(),
            order: Order::default(),
            apps: 20,
            rounds: 5,
            memory_mib: 600,
            footprint_mib: 120,
            file_percent: 30,
            libraries_mib: 64,
            services_mib: 64,
            used_percent: 30,
            core_percent: 80,
            write_percent: 34,
            file_events: false,
            seed: 0,
        }
    }
}

impl Scenario {
    /// The trace of this scenario, held in memory (a default scenario has about a million
    /// events).
    ///
    /// # Errors
    /// A parameter out of its range, by name.
    pub fn generate(&self) -> Result<EventList, Error> {
        self.check()?;
        let frames = self.memory_mib as usize * MIB_PAGES as usize;
        let mut memory = memory::Memory::new(frames, self.file_events);
        let mut phone = apps::Phone::new(self, &mut memory);
        for app in schedule::visits(self) {
            phone.visit(app, &mut memory);
        }
        Ok(EventList::new(self.header(), memory.events))
    }

    fn check(&self) -> Result<(), Error> {
        let ranges = [
            ("apps", self.apps, 1, 1000),
            ("rounds", self.rounds, 1, 10_000),
            ("memory_mib", self.memory_mib, 16, 65_536),
            ("footprint_mib", self.footprint_mib, 1, 4096),
            ("libraries_mib", self.libraries_mib, 0, 4096),
            ("services_mib", self.services_mib, 0, 4096),
            ("file_percent", self.file_percent, 0, 100),
            ("used_percent", self.used_percent, 1, 100),
            ("core_percent", self.core_percent, 1, 100),
            ("write_percent", self.write_percent, 0, 100),
        ];
        for (name, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(Error::usage(format!(
                    "scenario: {name} = {value} is not between {least} and {most}"
                )));
            }
        }
        // Page numbers are 32 bits; this is 1 TiB of apps.
        let mib = u64::from(self.apps) * u64::from(self.footprint_mib) * 3 / 2;
        if mib > 1 << 20 {
            return Err(Error::usage(format!("scenario: {mib} MiB of apps are too many")));
        }
        Ok(())
    }

    /// The header of a trace of this scenario, without events.
    pub(crate) fn header(&self) -> Header {
        let apps = (1..=self.apps).map(|app| (app + 1, format!("app{app:02}")));
        let processes = std::iter::once((1, "services".to_owned())).chain(apps).collect();
        // All its pages have contents.
        let zeros = Some(Zeros::default());
        Header {
            has_operations: true,
            processes,
            zeros,
            ..Header::new(TraceKind::Swap, "scenario")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::Source;
    use types::{EventKind, Events};

    fn small() -> Scenario {
        Scenario {
            apps: 6,
            footprint_mib: 8,
            memory_mib: 24,
            libraries_mib: 4,
            services_mib: 4,
            ..Scenario::default()
        }
    }

    fn events(scenario: &Scenario) -> Events {
        let mut generated = scenario.generate().expect("valid");
        let (mut events, mut batch) = (Events::default(), Events::default());
        while generated.next_batch(&mut batch).expect("in memory") {
            (0..batch.len()).for_each(|index| events.push(batch.get(index)));
        }
        events
    }

    fn swap_ins(events: &Events) -> usize {
        events.kind.iter().filter(|&&kind| kind == EventKind::SwapIn).count()
    }

    #[test]
    fn the_seed_determines_the_trace() {
        let (first, again) = (events(&small()), events(&small()));
        assert_eq!(first.page, again.page);
        assert_eq!(first.kind, again.kind);
        assert_ne!(first.page, events(&Scenario { seed: 1, ..small() }).page);
    }

    #[test]
    fn the_header_counts_the_events_of_the_trace() {
        let generated = small().generate().expect("valid");
        let header = generated.header().clone();
        let events = events(&small());
        assert_eq!(header.events, events.len() as u64);
        let highest = events.page.iter().map(|page| page.0).max().expect("not empty");
        assert_eq!(header.pages, Some(highest + 1));
        assert_eq!(header.processes.len(), 7);
    }

    /// A swap-in follows a swap-out of the same page, and never twice in a row.
    #[test]
    fn every_swap_in_brings_back_what_was_swapped_out() {
        let events = events(&Scenario { file_events: true, ..small() });
        let mut is_out = vec![false; events.len()];
        for event in events.iter() {
            let out = &mut is_out[event.page.index()];
            match event.kind {
                EventKind::SwapOut => {
                    assert!(!*out);
                    *out = true;
                }
                EventKind::SwapIn => {
                    assert!(*out);
                    *out = false;
                }
                EventKind::Evict | EventKind::Request => {
                    assert!(event.flags.contains(types::EventFlags::FILE));
                }
                other => panic!("{other:?} in a generated trace"),
            }
        }
    }

    #[test]
    fn memory_that_holds_everything_swaps_nothing() {
        assert_eq!(events(&Scenario { memory_mib: 128, ..small() }).len(), 0);
        assert!(swap_ins(&events(&small())) > 0);
    }

    #[test]
    fn less_memory_swaps_more() {
        let at = |memory_mib| swap_ins(&events(&Scenario { memory_mib, ..small() }));
        assert!(at(20) > at(32));
        assert!(at(32) > at(44));
    }

    #[test]
    fn a_parameter_out_of_range_is_named() {
        let error = Scenario { core_percent: 0, ..small() }.generate().map(|_| ()).expect_err("0");
        assert!(error.to_string().contains("core_percent = 0"), "{error}");
    }
}
