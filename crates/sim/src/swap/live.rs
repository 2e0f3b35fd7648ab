//! A cell that is fed while its events are produced: the basis of the lifecycle simulator.

use super::driver::Cell;
use super::tally::Tally;
use super::{Readahead, RequestCells, Role, SimulateRequest, find};
use crate::error::Error;
use std::collections::BTreeMap;
use types::Events;

/// A simulation of one architecture whose counts can be read at any moment.
pub(crate) struct LiveCell {
    options: BTreeMap<&'static str, String>,
    cell: Box<dyn Cell>,
}

impl LiveCell {
    /// # Errors
    /// `Usage` for an unknown architecture, option, value or profile, and for a bound, which must know
    /// every event before its first decision.
    pub(crate) fn start(request: &SimulateRequest) -> Result<LiveCell, Error> {
        let architecture = find(&request.architecture)?;
        if architecture.role == Role::Bound {
            return Err(Error::usage(format!(
                "{} must know the future, which a life does not; choose a system",
                architecture.name
            )));
        }
        if request.queueing || request.readahead != Readahead::Off {
            return Err(Error::usage("a life has neither queueing nor readahead"));
        }
        let RequestCells { options, mut cells, .. } = RequestCells::start(request)?;
        Ok(LiveCell { options, cell: cells.swap_remove(0).into_cell() })
    }

    /// Replays the next events.
    pub(crate) fn replay(&mut self, events: &Events) {
        self.cell.replay(events);
    }

    /// The counts so far.
    pub(crate) fn tally(&self) -> &Tally {
        self.cell.tally().expect("only bounds count at their end, and `start` refuses them")
    }

    /// Every option of the architecture with its value in effect.
    pub(crate) fn into_options(self) -> BTreeMap<&'static str, String> {
        self.options
    }
}
