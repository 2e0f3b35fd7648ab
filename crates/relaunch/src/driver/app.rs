//! An application with its group: what the kernel knows of it, and what is done to it.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use linux::address_space::{MemoryAdvice, PageRange};
use linux::file_changes::{FileChanges, Watch};
use linux::freezer::Freezer;
use linux::{Root, private_folder, system};
use rustix::fs::fstat;
use rustix::io::Errno;

use crate::application::{Application, VisitEnd};
use crate::config::Watched;
use crate::members::Members;
use crate::notes::Place;
use crate::ranges::{Key, Ranges, pages_of};
use crate::room::{Room, room};
use crate::statistics::{Counters, State};
use crate::uses::Uses;
use crate::{Config, Error};

/// Pages that one piece of work reclaims, so that a request never waits for long.
const PIECE_PAGES: u64 = 256;
/// Pages that one piece of work makes cold, which is quicker.
const COLD_PIECE_PAGES: u64 = 16 * 1024;

/// An application that is watched.
pub(super) struct App {
    pub watched: Watched,
    pub freezer: Option<Freezer>,
    /// The folder of the group, locked: no other relaunchd watches it.
    lock: Option<OwnedFd>,
    watch: Option<Watch>,
    pub is_frozen: bool,
    /// Whether a thaw was asked for that the kernel may not have reported yet.
    pub is_thawing: bool,
    /// The note of a group that this relaunchd froze.
    pub note: Option<Place>,
    /// Whether the application has been frozen, and its visit is not evaluated yet.
    pub is_to_learn: bool,
    application: Application,
    members: Members,
    /// The processes whose faults are noted, and the faults that were lost before the visit.
    noted: Vec<(u32, Key)>,
    lost_before: u64,
    work: VecDeque<(MemoryAdvice, Key, Vec<PageRange>)>,
    counters: Counters,
    /// What the log last had about the group: whether it exists, and why it is refused.
    pub logged: (Option<bool>, Option<String>),
}

/// The begin of a visit, for the log and the answer.
#[derive(Debug)]
pub(super) struct Begun {
    pub predicted_pages: u64,
    pub wanted_pages: u64,
    pub prefetched_pages: u64,
    /// The ranges in which they were read.
    pub ranges: u64,
    pub time: Duration,
    pub room: Option<Room>,
    pub why: Option<String>,
    pub refused: Option<(u32, Errno)>,
}

/// The end of a visit, for the log.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// None if no visit had begun.
    pub end: Option<VisitEnd>,
    pub processes: usize,
    /// Pages whose place in the order of use was noted.
    pub ordered_pages: u64,
    pub lost_faults: u64,
    pub overlooked: usize,
    pub refused: Option<(u32, Errno)>,
}

impl App {
    /// An application as the settings have it; its group need not exist yet.
    pub(super) fn new(root: &Root, watched: Watched, changes: &FileChanges) -> Result<App, Error> {
        let mut app = App {
            counters: Counters {
                name: watched.name.clone(),
                cgroup: watched.cgroup.display().to_string(),
                ..Counters::default()
            },
            watched,
            freezer: None,
            lock: None,
            watch: None,
            is_frozen: false,
            is_thawing: false,
            note: None,
            is_to_learn: false,
            application: Application::default(),
            members: Members::new(root)?,
            noted: Vec::new(),
            lost_before: 0,
            work: VecDeque::new(),
            logged: (None, None),
        };
        app.attach(root, changes)?;
        // A group that is frozen already: its next visit is the first.
        app.is_frozen =
            app.freezer.as_ref().is_some_and(|group| group.is_frozen(root).unwrap_or(false));
        Ok(app)
    }

    /// Finds the group, again if it was removed, perhaps to be made again.
    pub(super) fn attach(&mut self, root: &Root, changes: &FileChanges) -> Result<(), Error> {
        if self.is_attached(root) {
            return Ok(());
        }
        self.release_group(changes);
        let Some(freezer) = Freezer::at(root, &self.watched.cgroup)? else { return Ok(()) };
        let folder = root.open_folder(&freezer.folder)?;
        let path = freezer.folder.display();
        let what = format!("watch {path}");
        let is_locked = private_folder::lock(&folder);
        if !is_locked.map_err(|error| Error::refused(&what, error))? {
            let why =
                "another relaunchd watches it: end that one, or remove it from these settings";
            return Err(Error::refused(&what, why));
        }
        if let Some(notices) = freezer.notices() {
            let watch = changes.watch(&root.path(&notices));
            self.watch = Some(watch.map_err(|error| Error::refused(&what, error))?);
        }
        (self.freezer, self.lock) = (Some(freezer), Some(folder));
        Ok(())
    }

    fn is_attached(&self, root: &Root) -> bool {
        let (Some(freezer), Some(lock)) = (&self.freezer, &self.lock) else { return false };
        let now = root.open_folder(&freezer.folder).ok().and_then(|folder| fstat(&folder).ok());
        let then = fstat(lock).ok();
        freezer.exists(root) && now.zip(then).is_some_and(|(now, then)| now.st_ino == then.st_ino)
    }

    fn release_group(&mut self, changes: &FileChanges) {
        self.watch.take().into_iter().for_each(|watch| changes.forget(watch));
        (self.freezer, self.lock) = (None, None);
        (self.is_frozen, self.is_to_learn) = (false, false);
        self.application = Application::default();
        self.work.clear();
        self.members.look(&[]);
    }

    /// Gives the group up.
    pub(super) fn detach(mut self, changes: &FileChanges) {
        self.release_group(changes);
    }

    /// The freezer of the group.
    pub(super) fn group(&self) -> Result<&Freezer, Error> {
        self.freezer.as_ref().ok_or_else(|| {
            let what = format!("find the cgroup {}", self.watched.cgroup.display());
            let why = "it does not exist: start the application, or correct cgroup in the settings";
            Error::refused(&what, why)
        })
    }

    /// Notes that the application has been frozen.
    pub(super) fn note_frozen(&mut self) {
        self.is_to_learn |= !self.is_frozen;
        (self.is_frozen, self.is_thawing) = (true, false);
    }

    /// Reads what the visit is expected to use.
    pub(super) fn begin_visit(
        &mut self,
        root: &Root,
        config: &Config,
        uses: Option<&Uses>,
    ) -> Begun {
        self.work.clear();
        let numbers = self.numbers(root);
        let look = self.members.look(&numbers);
        // This also wakes the thread, which makes room for the faults of the visit while the pages are read.
        self.note(&look.processes, uses, true);
        let room = config.prefetch.then(|| room(root, numbers.first().copied(), config.displace));
        let affordable =
            room.as_ref().map_or(0, |room| room.bytes.saturating_sub(config.keep_free.0));
        let pages_max = affordable.min(config.prefetch_max.0) / system::page_bytes();
        let plan = self.application.begin(&look.present, pages_max, config.choices);
        let begun = Instant::now();
        let (mut prefetched, mut count, mut refused) = (0, 0, look.refused);
        for (key, ranges) in plan.prefetch {
            let of_key: Ranges = vec![(key, ranges)];
            let mut has_failed = config.is_dry_run;
            if !config.is_dry_run {
                self.members.advise(&of_key, MemoryAdvice::WillNeed, |_, error| {
                    has_failed = true;
                    if error != Errno::SRCH {
                        refused.get_or_insert((0, error));
                    }
                });
            }
            match has_failed {
                true => self.application.not_prefetched(key),
                false => {
                    prefetched += pages_of(&of_key);
                    count += of_key.iter().map(|(_, ranges)| ranges.len() as u64).sum::<u64>();
                }
            }
        }
        let time = begun.elapsed();
        uses.into_iter().for_each(Uses::settle);
        self.lost_before = uses.map_or(0, Uses::lost);
        let short = plan.wanted_pages.saturating_sub(pages_max);
        let counters = &mut self.counters;
        counters.predicted_pages += plan.predicted_pages;
        counters.prefetched_pages += prefetched;
        counters.prefetched_ranges += count;
        counters.prefetch_s += time.as_secs_f64();
        let why = match (&room, short) {
            (None, _) | (_, 0) => None,
            (Some(room), short) => {
                counters.unaffordable_pages += short;
                Some(shortage(room, affordable, config, short, plan.wanted_pages))
            }
        };
        Begun {
            predicted_pages: plan.predicted_pages,
            wanted_pages: plan.wanted_pages,
            prefetched_pages: prefetched,
            ranges: count,
            time,
            room,
            why,
            refused,
        }
    }

    /// Learns from the visit, and queues what to reclaim.
    pub(super) fn end_visit(&mut self, root: &Root, config: &Config, uses: Option<&Uses>) -> Ended {
        let numbers = self.numbers(root);
        let look = self.members.look(&numbers);
        let (ordered_pages, lost_faults) = self.learn_order(config, uses);
        self.note(&look.processes, uses, false);
        let end = self.application.end(&look.present, config.choices);
        let mut ended = Ended {
            end: None,
            processes: look.present.len(),
            ordered_pages,
            lost_faults,
            overlooked: look.overlooked,
            refused: look.refused,
        };
        let Some(end) = end else { return ended };
        let counters = &mut self.counters;
        counters.visits += 1;
        counters.ordered_pages += ordered_pages;
        counters.lost_faults += lost_faults;
        counters.used_pages += end.used_pages;
        counters.missed_pages += end.missed_pages;
        if !config.is_dry_run {
            counters.paged_out_pages += pages_of(&end.page_out);
            counters.cold_pages += pages_of(&end.cold);
            self.queue(MemoryAdvice::Cold, &end.cold, COLD_PIECE_PAGES);
            self.queue(MemoryAdvice::PageOut, &end.page_out, PIECE_PAGES);
        }
        ended.end = Some(end);
        ended
    }

    /// Notes the faults of these processes from now on, in place of those so far.
    fn note(&mut self, processes: &[(u32, Key)], uses: Option<&Uses>, is_visited: bool) {
        let Some(uses) = uses else { return };
        uses.watch(&self.noted, processes, is_visited);
        self.noted = processes.to_owned();
    }

    /// Learns the order of use from the faults of the visit; returns the pages whose place is known, and how many
    /// faults were lost.
    fn learn_order(&mut self, config: &Config, uses: Option<&Uses>) -> (u64, u64) {
        let Some(uses) = uses else { return (0, 0) };
        uses.settle();
        let used = uses.take(&self.noted);
        self.application.learn_order(&used, config.choices);
        (used.len() as u64, uses.lost().saturating_sub(self.lost_before))
    }

    /// Reads by address from now on, until the order of use is learned again.
    pub(super) fn forget_order(&mut self) {
        self.application.forget_order();
        self.noted.clear();
    }

    /// Stops noting faults.
    pub(super) fn forget_notes(&mut self, uses: Option<&Uses>) {
        self.note(&[], uses, false);
    }

    fn numbers(&self, root: &Root) -> Vec<u32> {
        let numbers = self.freezer.as_ref().map(|group| group.processes(root));
        numbers.and_then(Result::ok).unwrap_or_default()
    }

    /// Queues advice in pieces of about `pages_max` pages.
    fn queue(&mut self, advice: MemoryAdvice, ranges: &Ranges, pages_max: u64) {
        for (key, ranges) in ranges {
            let (mut piece, mut pages) = (Vec::new(), 0);
            for range in ranges {
                let mut first = range.first;
                while first < range.end {
                    let end = range.end.min(first + (pages_max - pages));
                    piece.push(PageRange::new(first, end));
                    pages += end - first;
                    first = end;
                    if pages == pages_max {
                        self.work.push_back((advice, *key, std::mem::take(&mut piece)));
                        pages = 0;
                    }
                }
            }
            if !piece.is_empty() {
                self.work.push_back((advice, *key, piece));
            }
        }
    }

    /// Whether something is to be done that may be done now; pages are paged out only if it `is_quiet`.
    pub(super) fn has_work(&self, is_quiet: bool) -> bool {
        self.work.front().is_some_and(|(advice, ..)| is_quiet || *advice == MemoryAdvice::Cold)
    }

    /// Reclaims one piece.
    pub(super) fn work(&mut self) {
        if let Some((advice, key, ranges)) = self.work.pop_front() {
            // A process that has ended has nothing left to reclaim.
            self.members.advise(&vec![(key, ranges)], advice, |_, _| {});
        }
    }

    /// The counters of the application so far.
    pub(super) fn counters(&self) -> Counters {
        let state = match &self.freezer {
            None => State::Absent,
            Some(_) if self.is_frozen => State::Frozen,
            Some(_) => State::Thawed,
        };
        Counters { state, voided: self.members.voided, ..self.counters.clone() }
    }
}

/// Why not all wanted pages are read.
fn shortage(room: &Room, affordable: u64, config: &Config, short: u64, wanted: u64) -> String {
    if affordable >= config.prefetch_max.0 {
        let most = config.prefetch_max;
        return format!("prefetch_max = {most} leaves out {short} of {wanted} pages");
    }
    let of = match &room.group {
        None => "the machine".to_owned(),
        Some(group) => group.display().to_string(),
    };
    format!("memory is short in {of}: no room for {short} of {wanted} pages")
}
