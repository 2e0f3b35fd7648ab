//! Writes any source of numbered events to a trace file.

use std::path::Path;

use types::{EventFlags, EventKind, Events, Progress};

use super::Writer;
use crate::{Error, Header, Rows, Source, TraceKind};

/// Writes the events of `source` to `path`, replacing what is there, and returns the header written.
///
/// A source has no addresses, so a page's dense number replaces its address and `has_addresses` is
/// false. Anonymous pages of a swap trace get the name space of their process, as `Rows` requires; all
/// other pages share a name space.
///
/// # Errors
/// If `source` cannot be read or `path` cannot be written; `Cancelled` if `progress` asks to stop.
pub fn save(
    source: &mut dyn Source,
    path: &Path,
    progress: &dyn Progress,
) -> Result<Header, Error> {
    let mut writer = Writer::create(path, true)?;
    let is_swap = source.header().kind == TraceKind::Swap;
    let mut events = Events::default();
    let mut rows = Rows::default();
    let (mut done, mut pages) = (0, 0);
    while source.next_batch(&mut events)? {
        done += events.len() as u64;
        progress.advance(done, source.header().events).map_err(|_| Error::cancelled(path))?;
        rows.clear();
        for event in events.iter() {
            let is_file = event.flags.contains(EventFlags::FILE);
            let is_exit = event.kind == EventKind::Exit;
            pages = if is_exit { pages } else { pages.max(event.page.0 + 1) };
            rows.space.push(if is_swap && !is_file { event.process.0 + 1 } else { 0 });
            rows.address.push(if is_exit { 0 } else { u64::from(event.page.0) });
        }
        std::mem::swap(&mut rows.events, &mut events);
        writer.write(&rows)?;
    }
    let header = Header {
        pages: Some(source.header().pages.unwrap_or(pages)),
        has_addresses: false,
        has_sizes: false,
        has_durations: false,
        ..source.header().clone()
    };
    writer.finish(&header)?;
    Ok(header)
}
