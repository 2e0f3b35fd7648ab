//! The memory of the apps, and which of their pages a visit touches.

use super::Scenario;
use super::memory::Memory;
use crate::regions::{MIB_PAGES, Region, Usage};
use types::random::Stream;

/// The apps, the services and the shared libraries of one phone.
pub(super) struct Phone {
    /// For every app: its anonymous memory, then its files.
    apps: Vec<[Region; 2]>,
    services: Region,
    libraries: Region,
    /// Per app: the runs of the shared libraries that it uses.
    linked: Vec<Vec<u32>>,
    was_started: Vec<bool>,
    touches: Stream,
    writes: Stream,
    scenario: Scenario,
}

impl Phone {
    /// Lays out the phone's pages in `memory`. Process 0 is the services, app `a` is process
    /// `a + 1`.
    pub(super) fn new(scenario: &Scenario, memory: &mut Memory) -> Phone {
        let mut layout = Stream::named(scenario.seed, "layout");
        let services = region(memory, &mut layout, 0, scenario.services_mib, false, scenario);
        let libraries = region(memory, &mut layout, 0, scenario.libraries_mib, true, scenario);
        let mut apps = Vec::new();
        let mut linked = Vec::new();
        for app in 0..scenario.apps {
            // From half to one and a half of the mean, spread evenly over the apps, and assigned
            // at random, so that rank in a Zipf schedule does not determine size.
            let spread = scenario.footprint_mib / 2 + layout.below(scenario.footprint_mib.max(1));
            let file_mib = spread * scenario.file_percent / 100;
            apps.push([
                region(memory, &mut layout, app + 1, spread - file_mib, false, scenario),
                region(memory, &mut layout, app + 1, file_mib, true, scenario),
            ]);
            let uses = (0..libraries.runs).filter(|_| layout.chance(50)).collect();
            linked.push(uses);
        }
        Phone {
            was_started: vec![false; apps.len()],
            apps,
            services,
            libraries,
            linked,
            touches: Stream::named(scenario.seed, "touches"),
            writes: Stream::named(scenario.seed, "writes"),
            scenario: scenario.clone(),
        }
    }

    /// Opens `app` for the user: touches its pages in `memory`, with libraries and services.
    pub(super) fn visit(&mut self, app: u32, memory: &mut Memory) {
        let index = app as usize;
        let is_first = !self.was_started[index];
        self.was_started[index] = true;
        for &run in &self.linked[index] {
            touch_run(memory, &self.libraries, run, 0, &mut self.writes);
        }
        let write_percent = self.scenario.write_percent;
        let usage = usage(&self.scenario);
        let [heap, files] = &self.apps[index];
        for (region, is_file) in [(&self.services, false), (heap, false), (files, true)] {
            // A cold start builds the whole app. The services were built at boot, but here the first
            // app visited builds them, which swaps nothing.
            let chosen = if is_first && region.first != self.services.first {
                (0..region.runs).collect()
            } else {
                region.used_runs(usage, &mut self.touches)
            };
            let percent = if is_file { 0 } else { write_percent };
            for &run in &chosen {
                touch_run(memory, region, run, percent, &mut self.writes);
            }
            // Launch, then use: touched pages are touched again and earn their reference bit.
            for &run in &chosen {
                touch_run(memory, region, run, 0, &mut self.writes);
            }
        }
    }
}

fn touch_run(
    memory: &mut Memory,
    region: &Region,
    run: u32,
    write_percent: u32,
    writes: &mut Stream,
) {
    for page in region.pages(run) {
        let is_write = write_percent > 0 && writes.chance(write_percent);
        memory.touch(page, is_write);
    }
}

fn usage(scenario: &Scenario) -> Usage {
    Usage { used_percent: scenario.used_percent, core_percent: scenario.core_percent }
}

fn region(
    memory: &mut Memory,
    layout: &mut Stream,
    owner: u32,
    mib: u32,
    is_file: bool,
    scenario: &Scenario,
) -> Region {
    let pages = mib * MIB_PAGES;
    Region::new(memory.map(owner, pages, is_file), pages, usage(scenario), layout)
}
