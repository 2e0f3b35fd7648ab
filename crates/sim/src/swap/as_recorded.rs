//! Decides the requests of a recorded swap server again: the same tiers, told of the same events and failures
//! in the same order, must move the same pages.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use policy::placement::Latencies;
use policy::tiers::{self, Area, Live, LiveRequest, Move, Moves, Request, Step};
use schemars::JsonSchema;
use serde::Serialize;
use trace::recording::decisions::{Decisions, Found, SlotEvent};
use trace::recording::{ServedLatencies, ServedTiers};
use trace::store::TextFile;
use types::{PAGE_BYTES, PageId, Progress};

use crate::error::{Error, ErrorKind};

/// Largest swap area that is decided again: the tiers keep some tens of bytes for each slot.
const AREA_BYTES_MAX: u64 = 256 << 30;
/// Most moves that may be in flight at a time; a server has some thousands.
const OPEN_MAX: usize = 1 << 20;

/// Pages that a tier read and wrote.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TierPages {
    /// Pages read.
    pub reads: u64,
    /// Pages written.
    pub writes: u64,
}

/// A move that one of both did not decide.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Difference {
    /// Number of the event, counted from 0.
    pub event: u64,
    /// The slot that the server moved.
    pub slot: u64,
    /// The move, as files of moves name it.
    #[serde(rename = "move")]
    pub step: &'static str,
}

/// The decisions of a recorded swap server, made again.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AsRecorded {
    /// The policy of the server.
    pub policy: String,
    /// Every option of the policy with its value in effect.
    pub options: BTreeMap<&'static str, String>,
    /// Size of the swap area in bytes.
    pub size_bytes: u64,
    /// Size of the fast tier in bytes.
    pub fast_bytes: u64,
    /// The times by which the policy weighed the tiers.
    pub latencies: ServedLatencies,
    /// Pages written to the swap area.
    pub page_outs: u64,
    /// Pages read from the swap area.
    pub page_ins: u64,
    /// Slots discarded.
    pub voids: u64,
    /// What the moves decided read and write in the fast tier.
    pub fast: TierPages,
    /// What the moves decided read and write in the slow tier.
    pub slow: TierPages,
    /// Moves decided, by their name in files of moves.
    pub moves: BTreeMap<&'static str, u64>,
    /// Moves that the server did.
    pub done_moves: u64,
    /// Moves that failed in the server.
    pub failed_moves: u64,
    /// Moves that the server ended and the replay did not decide.
    pub differing_moves: u64,
    /// The first of them.
    pub first_difference: Option<Difference>,
    /// Moves that the replay decided and the server did not end.
    pub open_moves: u64,
    /// Whether the end of the recording is missing, so that the last moves may have no end.
    pub is_cut: bool,
}

impl AsRecorded {
    /// Whether the server and the replay moved the same pages.
    pub fn is_identical(&self) -> bool {
        self.differing_moves == 0 && (self.open_moves == 0 || self.is_cut)
    }
}

/// Decides the recording at `path` again, and writes each move to `moves` as CSV with the columns
/// `event,slot,move`.
///
/// # Errors
/// `Trace` if the recording cannot be read, is none of a swap server, or names slots outside its area, or the
/// operating system refuses a write; `Usage` if this version does not know the policy or an option; `Cancelled`
/// if `progress` cancels.
pub fn as_recorded(
    path: &Path,
    moves: Option<TextFile>,
    progress: &dyn Progress,
) -> Result<AsRecorded, Error> {
    let decisions = Decisions::open(path)?;
    let mut replay = Replay::new(path, decisions.tiers(), moves)?;
    let is_cut = decisions.walk(progress, &mut |found| replay.take(found))?;
    replay.finish(is_cut)
}

/// A move and the event that decided it.
type Ended = (u64, PageId, Step);

struct Replay<'a> {
    path: &'a Path,
    slots: u64,
    tiers: Box<dyn Live>,
    decided: Moves,
    /// Decided moves that have not ended, with how often.
    open: HashMap<Ended, u32>,
    events: u64,
    outcome: AsRecorded,
    file: Option<TextFile>,
}

impl<'a> Replay<'a> {
    fn new(
        path: &'a Path,
        served: &ServedTiers,
        file: Option<TextFile>,
    ) -> Result<Replay<'a>, Error> {
        let ServedTiers { policy, options, size_bytes, fast_bytes, frames, latencies, .. } = served;
        let capacity = frames.unwrap_or(fast_bytes / PAGE_BYTES);
        let is_larger = fast_bytes > size_bytes || capacity > size_bytes / PAGE_BYTES;
        if *size_bytes > AREA_BYTES_MAX || is_larger {
            return Err(invalid(
                path,
                &format!(
                    "an area of {size_bytes} bytes with a fast tier of {fast_bytes}: expected at most \
                     {AREA_BYTES_MAX} bytes, and no larger fast tier"
                ),
            ));
        }
        let request = LiveRequest {
            architecture: policy,
            profile: None,
            options,
            capacity,
            latencies: Latencies {
                slow_read: latencies.slow_read_ns as f64,
                slow_write: latencies.slow_write_ns as f64,
                fast_read: latencies.fast_read_ns as f64,
                fast_write: latencies.fast_write_ns as f64,
            },
            area: Area::Swap,
        };
        let built = tiers::serve(&request)
            .map_err(|reason| Error::usage(format!("{}: {reason}", path.display())))?;
        let (mut tiers, slots) = (built.tiers, size_bytes / PAGE_BYTES);
        tiers.grow(slots as usize);
        let outcome = AsRecorded {
            policy: policy.clone(),
            options: built.options,
            size_bytes: *size_bytes,
            fast_bytes: *fast_bytes,
            latencies: latencies.clone(),
            page_outs: 0,
            page_ins: 0,
            voids: 0,
            fast: TierPages::default(),
            slow: TierPages::default(),
            moves: Step::ALL.iter().map(|step| (step.name(), 0)).collect(),
            done_moves: 0,
            failed_moves: 0,
            differing_moves: 0,
            first_difference: None,
            open_moves: 0,
            is_cut: false,
        };
        let mut replay = Replay {
            path,
            slots,
            tiers,
            decided: Moves::default(),
            open: HashMap::new(),
            events: 0,
            outcome,
            file,
        };
        replay.write(format_args!("event,slot,move\n"))?;
        Ok(replay)
    }

    fn take(&mut self, found: Found) -> Result<(), Error> {
        match found {
            Found::Event { event, slot } => {
                let page = self.page(slot)?;
                let (request, count) = match event {
                    SlotEvent::Out => {
                        (Request::Out { is_dirty: true }, &mut self.outcome.page_outs)
                    }
                    SlotEvent::In => (Request::In, &mut self.outcome.page_ins),
                    SlotEvent::Void => (Request::Void, &mut self.outcome.voids),
                };
                *count += 1;
                self.tiers.on(request, page, &mut self.decided);
                self.events += 1;
                self.keep(self.events - 1)
            }
            Found::Capacity { event, frames } => {
                if event != self.events {
                    let reason =
                        format!("a capacity for event {event} before event {}", self.events);
                    return Err(invalid(self.path, &reason));
                }
                self.tiers.set_capacity(frames);
                Ok(())
            }
            Found::Ended { event, slot, step, is_done } => {
                let page = self.page(slot)?;
                let step = Step::ALL.get(step as usize).copied();
                let step = step.ok_or_else(|| invalid(self.path, "a move that no version has"))?;
                self.end((event, page, step), is_done)
            }
        }
    }

    /// Ends a move as the server did.
    fn end(&mut self, ended: Ended, is_done: bool) -> Result<(), Error> {
        let (event, page, step) = ended;
        if is_done {
            self.outcome.done_moves += 1;
        } else {
            self.outcome.failed_moves += 1;
        }
        match self.open.get_mut(&ended) {
            Some(1) => drop(self.open.remove(&ended)),
            Some(count) => *count -= 1,
            None => {
                self.outcome.differing_moves += 1;
                let step = step.name();
                let difference = Difference { event, slot: u64::from(page.0), step };
                self.outcome.first_difference.get_or_insert(difference);
                return Ok(());
            }
        }
        if is_done {
            self.tiers.done(Move { step, page });
            return Ok(());
        }
        self.tiers.failed(Move { step, page }, &mut self.decided);
        self.keep(event)
    }

    /// Counts and writes the moves decided because of an event.
    fn keep(&mut self, event: u64) -> Result<(), Error> {
        let decided = self.decided;
        for &Move { step, page } in decided.iter() {
            *self.outcome.moves.get_mut(step.name()).expect("every step is counted") += 1;
            *self.open.entry((event, page, step)).or_default() += 1;
            self.write(format_args!("{event},{},{}\n", page.0, step.name()))?;
        }
        if self.open.len() > OPEN_MAX {
            return Err(invalid(self.path, &format!("over {OPEN_MAX} moves have no end")));
        }
        Ok(())
    }

    fn page(&self, slot: u64) -> Result<PageId, Error> {
        if slot >= self.slots {
            let reason = format!("slot {slot} of an area of {} slots", self.slots);
            return Err(invalid(self.path, &reason));
        }
        Ok(PageId(slot as u32))
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) -> Result<(), Error> {
        match &mut self.file {
            Some(file) => Ok(file.write(text)?),
            None => Ok(()),
        }
    }

    fn finish(self, is_cut: bool) -> Result<AsRecorded, Error> {
        if let Some(file) = self.file {
            file.finish()?;
        }
        let mut outcome = self.outcome;
        let of = |step: Step| outcome.moves[step.name()];
        outcome.fast = TierPages {
            reads: of(Step::ReadFast),
            writes: of(Step::WriteFast) + of(Step::Promote),
        };
        outcome.slow = TierPages {
            reads: of(Step::ReadSlow),
            writes: of(Step::WriteSlow) + of(Step::Demote { writes: true }),
        };
        outcome.open_moves = self.open.into_values().map(u64::from).sum();
        outcome.is_cut = is_cut;
        Ok(outcome)
    }
}

fn invalid(path: &Path, reason: &str) -> Error {
    Error::new(ErrorKind::Trace, format!("{}: {reason}", path.display()))
}
