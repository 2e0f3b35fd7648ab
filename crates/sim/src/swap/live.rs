//! A run that is fed while its events still come into being: what the lifecycle simulator stands on.

use super::driver::Cell;
use super::tally::Tally;
use super::{Role, Run, SimulateRequest, find};
use crate::error::Error;
use std::collections::BTreeMap;
use types::Events;

/// One architecture at work, whose counts can be read at any moment.
pub(crate) struct LiveRun {
    options: BTreeMap<&'static str, String>,
    cell: Box<dyn Cell>,
}

impl LiveRun {
    /// # Errors
    /// `Usage` for an unknown architecture, option, value or profile, and for a bound, which must know
    /// every event before it decides on the first.
    pub(crate) fn start(request: &SimulateRequest) -> Result<LiveRun, Error> {
        let architecture = find(&request.architecture)?;
        if architecture.role == Role::Bound {
            return Err(Error::usage(format!(
                "{} must know the future, which a life does not; choose a system",
                architecture.name
            )));
        }
        let Run { options, mut cells, .. } = Run::start(request)?;
        Ok(LiveRun { options, cell: cells.swap_remove(0).into_cell() })
    }

    /// Replays the next events.
    pub(crate) fn replay(&mut self, events: &Events) {
        self.cell.replay(events);
    }

    /// What was counted until now.
    pub(crate) fn tally(&self) -> &Tally {
        self.cell.tally().expect("only bounds count at their end, and `start` refuses them")
    }

    /// Every option of the architecture with the value in effect.
    pub(crate) fn into_options(self) -> BTreeMap<&'static str, String> {
        self.options
    }
}
