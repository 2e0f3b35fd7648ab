//! Turns the blocks of a live or saved recording into kills: merges the pages of all CPUs into events
//! ordered by time.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::anatomy::{Anatomy, Scope};
use super::block::{About, KillsBlock};
use super::decode::Decoder;
use super::event::{Event, What};
use super::kill::Kill;
use super::pages::PageForm;
use crate::recording::Missing;

/// Largest number of events that wait for older events of other CPUs: 100 MB.
const WAITING_MAX: usize = 1 << 21;

/// Largest number of kernel functions.
const FUNCTIONS_MAX: usize = 1 << 12;

/// The kills of a recording, and what may be missing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KillsOutcome {
    /// The recording's description of itself.
    #[serde(skip)]
    pub about: About,
    /// Kills in the order of their ends; kills without a recorded end come last.
    pub kills: Vec<Kill>,
    /// Events that the recorder lost, and events and kills beyond the limits of the analysis.
    pub lost: u64,
    /// Fields that are absent, and why.
    pub absent: Vec<Missing>,
    /// Whether the end of the recording is missing.
    pub is_cut: bool,
}

/// What killing processes took, phase by phase, as `killtrace --json` prints it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Kills")]
pub struct Report<'a> {
    /// Name and version of this layout.
    pub schema: &'static str,
    /// `uname -r`.
    pub kernel: &'a str,
    /// How the kernel was heard: `tracepoints`, `btf` or `function`.
    pub backend: &'a str,
    /// Events that the recorder lost, and events and kills that found no room.
    pub lost: u64,
    /// Whether the end of the recording is missing.
    pub is_cut: bool,
    /// Figures that the recording does not allow, and why.
    pub absent: &'a [Missing],
    /// Kills in the order of their ends; those whose end was not seen come last.
    pub kills: &'a [Kill],
}

impl KillsOutcome {
    /// The form in which the kills leave as JSON.
    pub fn report(&self) -> Report<'_> {
        Report {
            schema: super::SCHEMA,
            kernel: &self.about.kernel,
            backend: &self.about.backend,
            lost: self.lost,
            is_cut: self.is_cut,
            absent: &self.absent,
            kills: &self.kills,
        }
    }
}

/// Turns blocks into kills.
pub struct Analysis {
    about: About,
    decoder: Decoder,
    /// Form of the pages; absent if events come typed.
    pages: Option<PageForm>,
    waiting: Vec<Event>,
    anatomy: Anatomy,
    lost: u64,
    /// True until the block of the end arrives.
    is_cut: bool,
}

impl Analysis {
    /// Begins with the recording's description of itself.
    ///
    /// # Errors
    /// Names what it expected.
    pub fn new(about: About) -> Result<Analysis, String> {
        let decoder = Decoder::new(about.formats.iter().map(String::as_str))?;
        let pages = PageForm::parse(&about.page_format);
        if pages.is_none() && !about.formats.is_empty() {
            return Err("expected the format of event pages".to_owned());
        }
        let scope = match (about.process, &about.cgroup) {
            (Some(process), _) => Scope::Process(process),
            (None, Some(_)) => Scope::Members(BTreeSet::new()),
            (None, None) => Scope::All,
        };
        let tells_calls = pages.is_none() || decoder.tells("sys_enter_kill");
        let begins = |(address, name): &(String, String)| {
            Some((u64::from_str_radix(address, 16).ok()?, name.clone()))
        };
        let functions = about.functions.iter().take(FUNCTIONS_MAX).filter_map(begins).collect();
        let anatomy = Anatomy::new(scope, tells_calls, functions);
        let waiting = Vec::new();
        Ok(Analysis { about, decoder, pages, waiting, anatomy, lost: 0, is_cut: true })
    }

    /// Adds the next block.
    ///
    /// # Errors
    /// Names what it expected.
    pub fn take(&mut self, block: &KillsBlock) -> Result<(), String> {
        match block {
            KillsBlock::About(_) => {
                return Err("expected a single description of the recording".to_owned());
            }
            KillsBlock::Tasks(tasks) => {
                for task in tasks {
                    self.anatomy.senders.know(task.thread, task.process, task.name.as_deref());
                    if let Scope::Members(members) = &mut self.anatomy.scope
                        && task.is_member
                    {
                        members.insert(task.process);
                    }
                }
            }
            KillsBlock::Page(page) => {
                let form = self.pages.as_ref().ok_or("expected the format before any page")?;
                let (decoder, waiting) = (&self.decoder, &mut self.waiting);
                form.events(page, |time_ns, bytes| waiting.extend(decoder.event(time_ns, bytes)))?;
            }
            KillsBlock::Events(events) => self.waiting.extend(events),
            KillsBlock::Until(time_ns) => self.advance(*time_ns),
            KillsBlock::Ending(ending) => {
                self.lost = self.lost.saturating_add(ending.lost);
                self.is_cut = false;
            }
            KillsBlock::Unknown(_) => {}
        }
        match self.waiting.len() > WAITING_MAX {
            true => Err(format!("expected at most {WAITING_MAX} events to wait for older ones")),
            false => Ok(()),
        }
    }

    /// Threads of the waiting events, senders and victims, whose name or process is unknown.
    pub fn strangers(&self) -> Vec<u32> {
        let threads = self.waiting.iter().filter_map(|event| match event.what {
            What::SignalGenerated { .. } | What::ReclaimBegins { .. } | What::KswapdWakes => {
                Some(event.thread)
            }
            _ => None,
        });
        let unknown: BTreeSet<u32> =
            threads.filter(|&thread| self.anatomy.senders.name(thread).is_none()).collect();
        unknown.into_iter().collect()
    }

    /// Finished kills, in the order of their ends.
    pub fn kills(&self) -> &[Kill] {
        self.anatomy.kills()
    }

    /// Whether no known process is dying.
    pub fn is_quiet(&self) -> bool {
        let is_signal = |event: &Event| matches!(event.what, What::SignalGenerated { .. });
        !self.anatomy.is_dying() && !self.waiting.iter().any(is_signal)
    }

    /// Returns the kills after the last block.
    pub fn finish(mut self) -> KillsOutcome {
        self.advance(u64::MAX);
        let (kills, dropped) = self.anatomy.finish();
        let absent = self.about.absent.clone();
        let lost = self.lost.saturating_add(dropped);
        KillsOutcome { about: self.about, kills, lost, absent, is_cut: self.is_cut }
    }

    /// Passes on the events up to a time. Events of the same instant keep their order.
    fn advance(&mut self, until_ns: u64) {
        self.waiting.sort_by_key(|event| event.time_ns);
        let ready = self.waiting.partition_point(|event| event.time_ns <= until_ns);
        for event in self.waiting.drain(..ready) {
            self.anatomy.take(&event);
        }
    }
}
