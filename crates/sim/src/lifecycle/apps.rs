//! The memory of the apps, and which of their pages a visit touches, in order.

use super::memory::{Content, Memory};
use super::phone::{Again, Phone};
use super::rereads::touch_order;
use crate::regions::{MIB_PAGES, RUN_PAGES, Region, Usage};
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
    /// First page of each run of libraries that the app uses.
    linked: Vec<u32>,
    /// Which of these a visit of the running app uses; none: all of them.
    linked_use: Option<Region>,
    usage: Usage,
    file_usage: Usage,
    cold_again: Vec<Again>,
    warm_again: Vec<Again>,
}

/// Adjacent pages that are touched together.
#[derive(Clone, Copy)]
struct PageRun {
    first: u32,
    is_anonymous: bool,
}

/// Where the pages of apps, libraries and services are.
pub(super) struct Layout {
    apps: Vec<Placed>,
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
            let file_percent = app.file_percent.unwrap_or(used_percent);
            let usage = Usage { used_percent, ..usage };
            let file_usage = Usage { used_percent: file_percent, ..usage };
            let (heap_mib, file_mib) = (app.anonymous_mib, app.file_mib);
            let heap = region(index as u32, heap_mib, Content::Anonymous, usage, &mut layout);
            let files =
                region(services_owner + 1, file_mib, Content::File, file_usage, &mut layout);
            let mut linked = Vec::new();
            for (number, library) in phone.libraries.iter().enumerate() {
                if !app.libraries.contains(&library.name) {
                    continue;
                }
                let used = (0..libraries[number].runs)
                    .filter(|_| layout.chance(library.linked_percent))
                    .map(|run| libraries[number].pages(run).start);
                linked.extend(used);
            }
            let linked_pages = linked.len() as u32 * RUN_PAGES;
            let linked_use =
                app.file_percent.map(|_| Region::new(0, linked_pages, file_usage, &mut layout));
            let (cold_again, warm_again) = (app.cold_again.clone(), app.warm_again.clone());
            apps.push(Placed {
                heap,
                files,
                linked,
                linked_use,
                usage,
                file_usage,
                cold_again,
                warm_again,
            });
        }
        Layout {
            apps,
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
        let runs_of = |region: &Region, usage, is_whole: bool, stream: &mut Stream| {
            if is_whole { (0..region.runs).collect() } else { region.used_runs(usage, stream) }
        };
        let run = |region: &Region, run, is_anonymous| PageRun {
            first: region.pages(run).start,
            is_anonymous,
        };
        let services = runs_of(&self.services, self.usage, false, &mut self.touches);
        let heap = runs_of(&placed.heap, placed.usage, is_cold, &mut self.touches);
        let files = runs_of(&placed.files, placed.file_usage, is_cold, &mut self.touches);
        let linked: Vec<u32> = match &placed.linked_use {
            Some(region) if !is_cold => region
                .used_runs(placed.file_usage, &mut self.touches)
                .into_iter()
                .map(|number| placed.linked[number as usize])
                .collect(),
            _ => placed.linked.clone(),
        };
        let services = services.into_iter().map(|number| run(&self.services, number, true));
        let memory: Vec<PageRun> = services
            .chain(heap.into_iter().map(|number| run(&placed.heap, number, true)))
            .collect();
        let linked: Vec<PageRun> =
            linked.into_iter().map(|first| PageRun { first, is_anonymous: false }).collect();
        let files: Vec<PageRun> =
            files.into_iter().map(|number| run(&placed.files, number, false)).collect();
        let again = if is_cold { &placed.cold_again } else { &placed.warm_again };
        let runs = if again.is_empty() {
            [linked, memory, files].concat()
        } else {
            let used = [linked, files].concat();
            let order = touch_order(used.len() as u32, again);
            evenly(&memory, &order.iter().map(|&run| used[run as usize]).collect::<Vec<PageRun>>())
        };
        self.touches_of(&runs)
    }

    fn touches_of(&mut self, runs: &[PageRun]) -> Vec<Touch> {
        let mut touched = Vec::with_capacity(runs.len() * RUN_PAGES as usize);
        for run in runs {
            touched.extend((run.first..run.first + RUN_PAGES).map(|page| {
                let is_write = run.is_anonymous && self.writes.chance(self.write_percent);
                Touch { page, is_write }
            }));
        }
        touched
    }
}

/// The runs of memory and files together, each in their order and spread evenly over the whole.
fn evenly(memory: &[PageRun], files: &[PageRun]) -> Vec<PageRun> {
    let mut all = Vec::with_capacity(memory.len() + files.len());
    let (mut left, mut files_left) = (memory.iter(), files.iter());
    while all.len() < memory.len() + files.len() {
        // Whichever is behind comes next; at the same place, memory.
        let is_behind = left.len() * files.len() >= files_left.len() * memory.len();
        let next =
            if is_behind { left.next().or_else(|| files_left.next()) } else { files_left.next() };
        all.extend(next);
    }
    all
}
