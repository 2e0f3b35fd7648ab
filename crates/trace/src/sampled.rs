//! A spatial sample of a trace: all events of the pages whose hash is below a threshold (SHARDS: Waldspurger,
//! Park, Garthwaite, Ahmad, FAST 2015).
//!
//! A page is in the sample with all its events or with none, so distances between the accesses of the sample
//! are those of the trace times the rate. A sample of a fixed number of pages lowers the threshold while
//! pages come. SHARDS does that in one reading and rescales its counts; here a reading of its own finds the
//! last threshold, so that a sample of either kind is exact for its pages, and any policy can replay it. A
//! trace file that numbers its pages needs no such reading.

use std::collections::BTreeSet;

use types::random::mixed;
use types::{EventKind, Events, PageId, Progress};

use crate::renumber::Renumber;
use crate::rows::take_kept;
use crate::source::batch_of_rows;
use crate::store::page_key_of;
use crate::{Error, ErrorKind, Header, Rows, Source, Timeline};

/// Disjoint groups of the pages of a sample, each a sample of its own at this part of the rate.
pub const SAMPLE_GROUPS: usize = 8;
const GROUP_BITS: u32 = SAMPLE_GROUPS.trailing_zeros();
/// Thresholds of a sample of all pages; the bits of a hash below them choose the group.
const WHOLE: u64 = 1 << (u64::BITS - GROUP_BITS);

/// How large a sample is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SampleSize {
    /// A share of the pages, above 0 and at most 1.
    Rate(f64),
    /// At most this many pages, at least 1.
    Pages(u64),
}

/// The pages of a sample: those whose hash is below the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleThreshold(u64);

impl SampleThreshold {
    /// The threshold for a share of the pages; at least the smallest possible one.
    pub fn of_rate(rate: f64) -> SampleThreshold {
        SampleThreshold(((rate * WHOLE as f64) as u64).clamp(1, WHOLE))
    }

    /// The largest threshold that admits at most `pages_max` of the pages of `source`, which is read to its
    /// end unless it numbers its pages. Memory: some 12 bytes for each page of the sample.
    ///
    /// # Errors
    /// If the source cannot be read, or `progress` asks to stop.
    pub fn of_pages(
        source: &mut dyn Source,
        pages_max: u64,
        progress: &dyn Progress,
    ) -> Result<SampleThreshold, Error> {
        let mut smallest = Smallest::new(pages_max);
        if let Some(pages @ 1..) = source.header().pages {
            (0..pages).for_each(|page| smallest.see(mixed(page.into())));
            return Ok(smallest.threshold());
        }
        source.omit_numbering_and_count();
        let (mut rows, mut done) = (Rows::default(), 0);
        while source.next_rows(&mut rows)? {
            done += rows.len() as u64;
            let total = source.header().events.max(done);
            progress.advance(done, total).map_err(|_| Error::cancelled(""))?;
            for index in 0..rows.len() {
                if rows.events.kind[index] != EventKind::Exit {
                    smallest.see(mixed(key(source.header(), &rows, index)));
                }
            }
        }
        Ok(smallest.threshold())
    }

    /// The share of all pages below the threshold.
    pub fn rate(self) -> f64 {
        self.0 as f64 / WHOLE as f64
    }

    #[inline(always)]
    fn admits(self, hash: u64) -> bool {
        hash >> GROUP_BITS < self.0
    }
}

/// The smallest hashes, up to a number of them.
struct Smallest {
    hashes: BTreeSet<u64>,
    count_max: usize,
    /// Smallest hash that was left out.
    bound: Option<u64>,
}

impl Smallest {
    fn new(pages_max: u64) -> Smallest {
        let count_max = usize::try_from(pages_max.max(1)).unwrap_or(usize::MAX);
        Smallest { hashes: BTreeSet::new(), count_max, bound: None }
    }

    /// Takes the hash of a page, which no other page has: mixing maps no two keys to one hash.
    fn see(&mut self, hash: u64) {
        if self.bound.is_some_and(|bound| hash >= bound) || !self.hashes.insert(hash) {
            return;
        }
        if self.hashes.len() > self.count_max {
            self.bound = self.hashes.pop_last();
        }
    }

    fn threshold(&self) -> SampleThreshold {
        SampleThreshold(self.bound.map_or(WHOLE, |bound| (bound >> GROUP_BITS).max(1)))
    }
}

/// The events of a sample's pages, and the ends of processes. Pages have numbers of their own, from 0.
///
/// If the source numbers its pages, the hash is that of the number; otherwise that of the page's identity,
/// and the source numbers nothing.
pub struct Sampled {
    source: Box<dyn Source>,
    header: Header,
    threshold: SampleThreshold,
    is_numbered: bool,
    renumber: Renumber,
    rows: Rows,
    pages: Vec<PageId>,
    kept: Vec<usize>,
    keys: Vec<u64>,
    numbers: Vec<u32>,
    events_read: u64,
    accesses_read: u64,
    timeline: Option<Timeline>,
}

impl Sampled {
    /// The sample of `source`, which must not have been read yet, below `threshold`.
    pub fn new(mut source: Box<dyn Source>, threshold: SampleThreshold) -> Sampled {
        let is_numbered = matches!(source.header().pages, Some(1..));
        source.omit_numbering_and_count();
        let header = Header { pages: Some(0), ..source.header().clone() };
        Sampled {
            source,
            header,
            threshold,
            is_numbered,
            renumber: Renumber::unlimited(),
            rows: Rows::default(),
            pages: Vec::new(),
            kept: Vec::new(),
            keys: Vec::new(),
            numbers: Vec::new(),
            events_read: 0,
            accesses_read: 0,
            timeline: None,
        }
    }

    /// The threshold of the sample.
    pub fn threshold(&self) -> SampleThreshold {
        self.threshold
    }

    /// Events read from the trace so far, in the sample or not; for `next_accesses` only accesses.
    pub fn events_read(&self) -> u64 {
        self.events_read
    }

    /// Accesses read from the trace so far, in the sample or not.
    pub fn accesses_read(&self) -> u64 {
        self.accesses_read
    }

    /// Notes the times of all events from now on, in the sample or not, for [`Self::active_ns`].
    pub fn note_times(&mut self) {
        self.timeline = Some(Timeline::default());
    }

    /// Nanoseconds that the events read so far cover, without idle gaps; none without a clock or
    /// [`Self::note_times`].
    pub fn active_ns(&self) -> Option<i64> {
        self.timeline.as_ref()?.active_ns()
    }

    /// The group, below [`SAMPLE_GROUPS`], of a page that was returned.
    ///
    /// # Panics
    /// If the page was not returned.
    pub fn group(&self, page: PageId) -> usize {
        mixed(self.renumber.ids()[page.index()]) as usize % SAMPLE_GROUPS
    }

    /// Numbers the pages in `keys`.
    fn number(&mut self) -> Result<(), Error> {
        self.numbers.clear();
        let numbered = self.renumber.number_batch(&self.keys, &mut self.numbers);
        self.header.pages = Some(self.renumber.len() as u32);
        numbered.map_err(|full| Error::new(ErrorKind::Usage, "", full.to_string()))
    }

    /// Reads rows and chooses those of the sample; false at the end.
    fn read_rows(&mut self) -> Result<bool, Error> {
        if !self.source.next_rows(&mut self.rows)? {
            let pages = self.header.pages;
            self.header = Header { pages, ..self.source.header().clone() };
            return Ok(false);
        }
        self.kept.clear();
        self.keys.clear();
        let header = self.source.header();
        for (index, &kind) in self.rows.events.kind.iter().enumerate() {
            if kind == EventKind::Exit {
                self.kept.push(index);
                continue;
            }
            self.accesses_read += u64::from(kind.is_access());
            let key = key(header, &self.rows, index);
            if self.threshold.admits(mixed(key)) {
                self.kept.push(index);
                self.keys.push(key);
            }
        }
        self.events_read += self.rows.len() as u64;
        if let Some(timeline) = &mut self.timeline {
            timeline.add(&self.rows.events.time_ns);
        }
        self.number()?;
        Ok(true)
    }
}

impl Source for Sampled {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, events: &mut Events) -> Result<bool, Error> {
        batch_of_rows(self, events)
    }

    fn next_rows(&mut self, rows: &mut Rows) -> Result<bool, Error> {
        rows.clear();
        if !self.read_rows()? {
            return Ok(false);
        }
        let (from, kept) = (&self.rows, &self.kept);
        let mut numbers = self.numbers.iter();
        rows.events.page.extend(kept.iter().map(|&index| {
            let is_exit = from.events.kind[index] == EventKind::Exit;
            PageId(if is_exit { 0 } else { numbers.next().copied().unwrap_or(0) })
        }));
        take_kept(&from.events.time_ns, kept, &mut rows.events.time_ns);
        take_kept(&from.events.kind, kept, &mut rows.events.kind);
        take_kept(&from.events.flags, kept, &mut rows.events.flags);
        take_kept(&from.events.process, kept, &mut rows.events.process);
        take_kept(&from.space, kept, &mut rows.space);
        take_kept(&from.address, kept, &mut rows.address);
        take_kept(&from.bytes, kept, &mut rows.bytes);
        take_kept(&from.duration_ns, kept, &mut rows.duration_ns);
        Ok(true)
    }

    fn next_accesses(&mut self, pages: &mut Vec<PageId>) -> Result<bool, Error> {
        pages.clear();
        if !self.is_numbered {
            if !self.read_rows()? {
                return Ok(false);
            }
            let kinds = self.kept.iter().map(|&index| self.rows.events.kind[index]);
            let with_page = kinds.filter(|&kind| kind != EventKind::Exit).zip(&self.numbers);
            pages.extend(
                with_page.filter(|(kind, _)| kind.is_access()).map(|(_, &page)| PageId(page)),
            );
            return Ok(true);
        }
        if !self.source.next_accesses(&mut self.pages)? {
            return Ok(false);
        }
        self.accesses_read += self.pages.len() as u64;
        self.events_read = self.accesses_read;
        self.keys.clear();
        let keys = self.pages.iter().map(|page| u64::from(page.0));
        self.keys.extend(keys.filter(|&key| self.threshold.admits(mixed(key))));
        self.number()?;
        pages.extend(self.numbers.iter().map(|&number| PageId(number)));
        Ok(true)
    }
}

/// What identifies the page of a row: its number, or else its space and address.
#[inline(always)]
fn key(header: &Header, rows: &Rows, index: usize) -> u64 {
    match rows.events.page.get(index) {
        Some(page) => page.0.into(),
        None => page_key_of(header.kind, rows.space[index], rows.address[index]),
    }
}
