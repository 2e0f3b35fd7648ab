//! The memory of the apps, and which of their pages a visit touches, in order.

use super::memory::{Content, Memory};
use super::phone::Phone;
use crate::regions::{MIB_PAGES, Region, Usage};
use std::ops::Range;
use types::random::Stream;

/// One touch of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Touch {
    pub(super) page: u32,
    pub(super) is_write: bool,
}

struct Placed {
    heap: Region,
    files: Region,
    /// Runs of libraries: index of the library, and the run.
    linked: Vec<(u32, u32)>,
    usage: Usage,
}

/// Where the pages of apps, libraries and services are.
pub(super) struct Layout {
    apps: Vec<Placed>,
    libraries: Vec<Region>,
    services: Region,
    usage: Usage,
    write_percent: u32,
    touches: Stream,
    writes: Stream,
}

impl Layout {
    /// Lays out the phone's pages in `memory`. Process `a` is app `a`, the process after the last app is the
    /// services, and the one after that reads files.
    pub(super) fn new(phone: &Phone, memory: &mut Memory) -> Layout {
        let mut layout = Stream::named(phone.seed, "layout");
        let usage = Usage { used_percent: phone.used_percent, core_percent: phone.core_percent };
        let services_owner = phone.apps.len() as u32;
        let mut region = |owner, mib: u32, content, usage, layout: &mut Stream| {
            let pages = mib * MIB_PAGES;
            Region::new(memory.map(owner, pages, content), pages, usage, layout)
        };
        let services =
            region(services_owner, phone.services_mib, Content::Anonymous, usage, &mut layout);
        let libraries: Vec<Region> = phone
            .libraries
            .iter()
            .map(|library| {
                region(services_owner + 1, library.mib, Content::File, usage, &mut layout)
            })
            .collect();
        let mut apps = Vec::new();
        for (index, app) in phone.apps.iter().enumerate() {
            let used_percent = app.used_percent.unwrap_or(phone.used_percent);
            let usage = Usage { used_percent, ..usage };
            let (heap_mib, file_mib) = (app.anonymous_mib, app.file_mib);
            let heap = region(index as u32, heap_mib, Content::Anonymous, usage, &mut layout);
            let files = region(services_owner + 1, file_mib, Content::File, usage, &mut layout);
            let mut linked = Vec::new();
            for (number, library) in phone.libraries.iter().enumerate() {
                if !app.libraries.contains(&library.name) {
                    continue;
                }
                let used = (0..libraries[number].runs)
                    .filter(|_| layout.chance(library.linked_percent))
                    .map(|run| (number as u32, run));
                linked.extend(used);
            }
            apps.push(Placed { heap, files, linked, usage });
        }
        Layout {
            apps,
            libraries,
            services,
            usage,
            write_percent: phone.write_percent,
            touches: Stream::named(phone.seed, "touches"),
            writes: Stream::named(phone.seed, "writes"),
        }
    }

    /// The pages that end with an app.
    pub(super) fn heap(&self, app: u32) -> Range<u32> {
        let heap = &self.apps[app as usize].heap;
        heap.pages(0).start..heap.pages(heap.runs).start
    }

    /// Touches of a launch of `app`: a cold launch builds the whole app, any other uses a part of it.
    pub(super) fn launch(&mut self, app: u32, is_cold: bool) -> Vec<Touch> {
        let placed = &self.apps[app as usize];
        let mut touched = Vec::new();
        for &(library, run) in &placed.linked {
            let pages = self.libraries[library as usize].pages(run);
            touched.extend(pages.map(|page| Touch { page, is_write: false }));
        }
        let parts = [(&self.services, true), (&placed.heap, true), (&placed.files, false)];
        for (part, (region, is_anonymous)) in parts.into_iter().enumerate() {
            let of_app = part > 0;
            let runs = if is_cold && of_app {
                (0..region.runs).collect()
            } else {
                let usage = if of_app { placed.usage } else { self.usage };
                region.used_runs(usage, &mut self.touches)
            };
            for run in runs {
                touched.extend(region.pages(run).map(|page| {
                    let is_write = is_anonymous && self.writes.chance(self.write_percent);
                    Touch { page, is_write }
                }));
            }
        }
        touched
    }
}
