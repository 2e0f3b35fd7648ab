//! Any source of numbered events to a trace file.

use std::path::Path;

use types::{EventFlags, EventKind, Events};

use super::Writer;
use crate::{Error, Rows, Source, TraceKind};

/// Writes the events of `source` to `path`, replacing what is there.
///
/// A page's dense number stands for its address, since a source knows no other. Anonymous pages of
/// a swap trace get the name space of their process, as `Rows` demands; all others share one.
///
/// # Errors
/// What reading `source` or writing `path` gives.
pub fn save(source: &mut dyn Source, path: &Path) -> Result<(), Error> {
    let mut writer = Writer::create(path, true)?;
    let is_swap = source.header().kind == TraceKind::Swap;
    let mut events = Events::default();
    let mut rows = Rows::default();
    while source.next_batch(&mut events)? {
        rows.clear();
        for event in events.iter() {
            let is_file = event.flags.contains(EventFlags::FILE);
            let is_exit = event.kind == EventKind::Exit;
            rows.space.push(if is_swap && !is_file { event.process.0 + 1 } else { 0 });
            rows.address.push(if is_exit { 0 } else { u64::from(event.page.0) });
        }
        std::mem::swap(&mut rows.events, &mut events);
        writer.write(&rows)?;
    }
    writer.finish(source.header())
}
