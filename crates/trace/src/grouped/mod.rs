//! A trace as it would be with larger pages: its events grouped by larger page.
//!
//! Successive page-outs of a larger page, each of a different recorded page, form a group and count as
//! a single page-out; page-ins likewise. Of a group, the first event counts, and the first event that
//! moves contents, because it reads or writes the whole page. Clean page-outs and events of pages of
//! zeros move no contents. A larger page holds zeros if all its recorded pages do. Until the next
//! group, at most one device read and one device write of the page count in addition, and no read of
//! a page in memory. Reads and writes of storage are grouped within a request: successive events of
//! the same kind, process and time.

mod groups;

use std::path::Path;

use groups::Groups;
use types::Events;

use crate::rows::take_kept;
use crate::source::batch_of_rows;
use crate::{Error, ErrorKind, Header, Rows, Source, TraceKind, page_key};

/// The largest page: 1 GiB, the largest translation of processors.
const PAGE_BYTES_MAX: u64 = 1 << 30;

/// `source` with pages of `page_bytes`; unchanged if it has this size. Errors name `path`.
///
/// # Errors
/// `Usage` for a size that is no power of two or smaller than the recorded size, or for a trace without
/// addresses, whose neighbouring pages are unknown.
pub fn with_pages_of(
    source: Box<dyn Source>,
    page_bytes: u64,
    path: &Path,
) -> Result<Box<dyn Source>, Error> {
    let header = source.header();
    if header.page_bytes == page_bytes {
        return Ok(source);
    }
    let refuse = |why: &str| Err(Error::new(ErrorKind::Usage, path, why));
    let is_size = page_bytes.is_power_of_two() && page_bytes <= PAGE_BYTES_MAX;
    if !is_size || page_bytes < header.page_bytes {
        let recorded = header.page_bytes;
        let why = format!("pages of {page_bytes} bytes: a size is a power of two from {recorded}");
        return refuse(&why);
    }
    if header.kind == TraceKind::Objects {
        return refuse("holds objects of a cache, which have no neighbours to share a page with");
    }
    if !header.has_addresses {
        return refuse("has no addresses, so neighbouring pages are unknown");
    }
    Ok(Box::new(Grouped::new(source, page_bytes)))
}

/// The events of a source grouped by larger pages.
struct Grouped {
    source: Box<dyn Source>,
    header: Header,
    /// Recorded pages per larger page, as a power of two.
    shift: u32,
    given: u64,
    rows: Rows,
    groups: Groups,
    kept: Vec<usize>,
}

impl Grouped {
    fn new(source: Box<dyn Source>, page_bytes: u64) -> Grouped {
        let shift = (page_bytes / source.header().page_bytes).trailing_zeros();
        let header = Header { pages: Some(0), ..of_pages(source.header(), page_bytes) };
        let (rows, kept) = (Rows::default(), Vec::new());
        Grouped { source, header, shift, given: 0, rows, groups: Groups::default(), kept }
    }

    /// Completes the header after the last event.
    fn end(&mut self) {
        let header = of_pages(self.source.header(), self.header.page_bytes);
        let pages = self.header.pages;
        self.header = Header { pages, events: self.given, ..header };
    }
}

/// The header of a trace whose events are grouped.
fn of_pages(header: &Header, page_bytes: u64) -> Header {
    Header { page_bytes, has_sizes: false, ..header.clone() }
}

impl Source for Grouped {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, events: &mut Events) -> Result<bool, Error> {
        batch_of_rows(self, events)
    }

    fn next_rows(&mut self, rows: &mut Rows) -> Result<bool, Error> {
        rows.clear();
        if !self.source.next_rows(&mut self.rows)? {
            self.end();
            return Ok(false);
        }
        self.kept.clear();
        for index in 0..self.rows.len() {
            let address = self.rows.address[index] >> self.shift;
            let key = page_key(self.rows.space[index], address);
            let time_ns = self.rows.events.time_ns.get(index).copied();
            let event = self.rows.events.get(index);
            if let Some(event) = self.groups.keep(event, time_ns, key) {
                self.kept.push(index);
                rows.events.page.push(event.page);
                rows.events.flags.push(event.flags);
                rows.address.push(address);
            }
        }
        take_others(&self.rows, &self.kept, rows);
        self.given += rows.len() as u64;
        self.header.pages = Some(self.groups.pages());
        Ok(true)
    }
}

/// Copies the unchanged columns of the kept rows.
fn take_others(from: &Rows, kept: &[usize], to: &mut Rows) {
    take_kept(&from.events.time_ns, kept, &mut to.events.time_ns);
    take_kept(&from.events.kind, kept, &mut to.events.kind);
    take_kept(&from.events.process, kept, &mut to.events.process);
    take_kept(&from.space, kept, &mut to.space);
    take_kept(&from.duration_ns, kept, &mut to.duration_ns);
}
