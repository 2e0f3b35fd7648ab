//! The moments of every life side by side, so that a pass over all lives reads memory in order.

use super::moves::{MoveStep, Place};
use super::story::PageEvent;
use std::ops::Range;

/// Lives of all pages, those of one page after another.
pub(super) struct Lives {
    /// Start of each life in `when` and `steps`, and the end of the last one.
    starts: Vec<u32>,
    /// Place of each life's page before its first moment.
    places: Vec<Place>,
    when: Vec<u32>,
    steps: Vec<MoveStep>,
}

/// Events of one page, from its first to the end of its process or of the trace.
#[derive(Clone, Copy)]
pub(super) struct PageLife<'a> {
    /// Place of the page before its first moment.
    pub begins_at: Place,
    /// Indexes of its moments among those of all pages.
    pub when: &'a [u32],
    /// Step of the page at each of them.
    pub steps: &'a [MoveStep],
}

impl Lives {
    /// Sorts the moments of `pages` pages by page, then time.
    pub fn of(moments: &[PageEvent], pages: usize) -> Lives {
        let mut next = vec![0u32; pages + 1];
        for moment in moments {
            next[moment.page.index() + 1] += 1;
        }
        for index in 1..next.len() {
            next[index] += next[index - 1];
        }
        let mut when = vec![0u32; moments.len()];
        for (number, moment) in moments.iter().enumerate() {
            let place = &mut next[moment.page.index()];
            when[*place as usize] = number as u32;
            *place += 1;
        }
        let mut lives = Lives { starts: Vec::new(), places: Vec::new(), when, steps: Vec::new() };
        for (index, &number) in lives.when.iter().enumerate() {
            let moment = &moments[number as usize];
            if let Some(place) = moment.begins_at {
                lives.starts.push(index as u32);
                lives.places.push(place);
            }
            lives.steps.push(moment.step);
        }
        lives.starts.push(lives.when.len() as u32);
        lives
    }

    /// Number of lives.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// The lives with these numbers.
    pub fn range(&self, numbers: Range<usize>) -> impl Iterator<Item = PageLife<'_>> {
        let bounds = self.starts[numbers.start..=numbers.end].windows(2);
        bounds.zip(&self.places[numbers]).map(|(bounds, &begins_at)| {
            let moments = bounds[0] as usize..bounds[1] as usize;
            PageLife { begins_at, when: &self.when[moments.clone()], steps: &self.steps[moments] }
        })
    }
}
