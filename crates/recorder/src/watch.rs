//! Watches memory and processes during a recording: a moment every 200 ms and at each kill.

use std::io::Write;
use std::time::{Duration, Instant};

use linux::{Root, process, system};
use trace::recording::Writer;

use crate::Error;
use crate::moments::{Moments, Remains};
use crate::notices::Notice;
use crate::scene::{Deaths, Look, Scene};

/// The time between two regular moments: a moment of a hundred processes costs about 6 ms of CPU time.
const MOMENT_EVERY: Duration = Duration::from_millis(200);

/// Takes moments of memory and processes, periodically and at each kill.
pub struct Watched<'a> {
    scene: Scene<'a>,
    moments: Moments,
    next: Instant,
    /// Notices of kills without a moment yet, and a measurement that is not written yet.
    notices: Vec<Notice>,
    look: Option<Look>,
}

impl<'a> Watched<'a> {
    /// Takes moments of `scene` from now on.
    pub fn new(scene: Scene<'a>) -> Watched<'a> {
        let (moments, next) = (Moments::default(), Instant::now());
        Watched { scene, moments, next, notices: Vec::new(), look: None }
    }

    /// Measures memory and processes if there are notices, if it is time, or at the end.
    pub fn look(&mut self, root: &Root, notices: Vec<Notice>, is_over: bool) {
        self.notices.extend(notices);
        let now = Instant::now();
        if self.notices.is_empty() && now < self.next && !is_over {
            if self.moments.is_watching() {
                self.moments.watch(system::monotonic_ns(), |process| remains(root, process));
            }
            return;
        }
        self.moments.watch(system::monotonic_ns(), |process| remains(root, process));
        let is_dying = |process| {
            self.notices.iter().any(|notice| notice.process == process)
                || self.moments.is_dying(process)
        };
        let killed_ns = self.notices.iter().map(|notice| notice.time_ns).min();
        let deaths = Deaths { killed_ns, is_dying: &is_dying };
        self.look = self.scene.look(&deaths);
        self.next = now + MOMENT_EVERY;
    }

    /// Writes the moments of kills up to the last measurement, and the measurement.
    ///
    /// # Errors
    /// The moments cannot be written.
    pub fn write<W: Write>(
        &mut self,
        root: &Root,
        notices: Vec<Notice>,
        writer: &mut Writer<W>,
    ) -> Result<(), Error> {
        self.notices.extend(notices);
        if self.look.is_none() && !self.notices.is_empty() {
            self.look(root, Vec::new(), true);
        }
        let Some(look) = self.look.take() else {
            // The group was removed, so it has no more kills.
            self.notices.clear();
            return Ok(());
        };
        let (due, later): (Vec<Notice>, Vec<Notice>) =
            self.notices.drain(..).partition(|notice| notice.time_ns <= look.moment.time_ns);
        self.notices = later;
        let moments = self.moments.take(&due, look);
        moments.iter().try_for_each(|moment| writer.moment(moment)).map_err(Error::Write)
    }
}

/// The remaining memory of a killed process; None once it has ended.
fn remains(root: &Root, process: u32) -> Option<Remains> {
    let start = process::beginning(root, process)?;
    let resident = process::state(root, process).map_or(0, |state| state.resident);
    Some(Remains { start, resident })
}
