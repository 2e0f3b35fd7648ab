//! Samples the anonymous memory of a process.

use std::os::fd::OwnedFd;
use std::time::Duration;

use linux::address_space::{AddressSpace, PageContents, PageRange, PageRead};
use linux::idle_pages::IdleBits;
use linux::page_buffers::PageBuffers;
use linux::system::processor_time;
use linux::zsmalloc::SizeClasses;
use types::random::Stream;

use super::codec::{Codec, is_same_filled};
use super::draw;
use super::mean::{Estimate, Mean};
use super::report::{AlgorithmPages, IdleAlgorithm, IdlePages, NotSampled, ProcessPages};
use super::subject::{STEPS, Subject};
use crate::exit::Exit;

/// Pages that are compressed together, and then decompressed: more than the inner caches of a processor hold, as in use.
pub const BATCH: usize = 1024;

/// Pages of a process that were drawn, and not read yet.
#[derive(Debug)]
pub struct Drawn {
    subject: Subject,
    space: AddressSpace,
    /// Anonymous pages in memory, and in swap.
    resident: u64,
    swapped: u64,
    pages: Vec<u64>,
    /// Of each page, whether it was idle.
    idle: Option<Vec<bool>>,
}

impl Drawn {
    /// Draws up to `count` pages of a process.
    ///
    /// # Errors
    /// The process has ended, or this program may not read it.
    pub fn new(
        processes: &OwnedFd,
        subject: Subject,
        count: usize,
        seed: u64,
    ) -> Result<Drawn, NotSampled> {
        let absent = |what: &str, error: std::io::Error| NotSampled::failed(&subject, what, &error);
        let space = AddressSpace::open(processes, subject.pid)
            .map_err(|error| absent("cannot be opened", error.into()))?;
        let found =
            space.written().map_err(|error| absent("its pages cannot be listed", error.into()))?;
        let mut stream = Stream::named(seed, &format!("pages {}", subject.pid));
        let pages = draw::pages(&found.resident, count, &mut stream);
        let (resident, swapped) = (pages_of(&found.resident), pages_of(&found.swapped));
        Ok(Drawn { subject, space, resident, swapped, pages, idle: None })
    }

    /// Marks the drawn pages as idle. Returns how many it could mark.
    pub fn mark_idle(&self, bits: &IdleBits) -> usize {
        let mut marked = 0;
        for &page in &self.pages {
            // A page that has left memory, or a frame without a bit, does not count as idle.
            if let Ok(Some(frame)) = self.space.frame(page) {
                marked += usize::from(bits.mark(frame).is_ok());
            }
        }
        marked
    }

    /// Notes which pages are still idle. Reading a page clears its idle bit, also for another process that shares the
    /// page, so call this for all processes before any page is read.
    pub fn look_at_idle(&mut self, bits: &IdleBits) {
        let is_idle = |&page: &u64| {
            let frame = self.space.frame(page).ok().flatten();
            frame.is_some_and(|frame| bits.is_idle(frame) == Ok(true))
        };
        self.idle = Some(self.pages.iter().map(is_idle).collect());
    }
}

/// Reads and compresses pages.
pub struct Sampler<'a> {
    /// The algorithms.
    pub codecs: &'a mut [Codec],
    /// The classes of zram's pool.
    pub classes: &'a SizeClasses,
    /// Whether the user has asked for the end.
    pub is_interrupted: &'a dyn Fn() -> bool,
}

/// Sizes of compressed pages.
#[derive(Default)]
struct Sizes {
    bytes: Mean,
    pool_bytes: Mean,
    stored_whole: Mean,
}

/// Counts of an algorithm in a sample.
struct Counts {
    sizes: Sizes,
    /// Of pages that no process accessed for a while.
    idle: Sizes,
    /// Of batches: their spread is the error.
    compress_us: Mean,
    decompress_us: Mean,
    /// CPU time of all pages.
    compress: Duration,
    decompress: Duration,
    steps: [u64; STEPS],
    /// Pages by the number of their class.
    classes: Vec<u64>,
}

impl Sampler<'_> {
    /// Samples the drawn pages of a process, which go through `pages`, [`BATCH`] buffers of a page. `cpu_max` ends the
    /// sample after the batch that uses it up.
    ///
    /// # Errors
    /// A zram device fails. A process that cannot be read is [`NotSampled`].
    pub fn sample(
        &mut self,
        drawn: &Drawn,
        cpu_max: Duration,
        pages: &mut PageBuffers,
    ) -> Result<Result<ProcessPages, NotSampled>, Exit> {
        let started = processor_time();
        let contents = match drawn.space.contents() {
            Ok(contents) => contents,
            Err(error) => {
                let what = "its memory cannot be read";
                return Ok(Err(NotSampled::failed(&drawn.subject, what, &error.into())));
            }
        };
        let mut sample = Sample::new(self.codecs.len(), self.classes.count());
        let mut chunks = drawn.pages.chunks(BATCH);
        let mut idle = drawn.idle.as_deref().unwrap_or_default().chunks(BATCH);
        for chunk in chunks.by_ref() {
            let idle = idle.next().unwrap_or_default();
            sample.take(&contents, chunk, idle, self.codecs, self.classes, pages)?;
            let used = processor_time().saturating_sub(started);
            if used >= cpu_max || (self.is_interrupted)() {
                break;
            }
        }
        let is_complete = chunks.next().is_none();
        Ok(Ok(sample.described(drawn, is_complete, self.codecs)))
    }
}

fn pages_of(ranges: &[PageRange]) -> u64 {
    ranges.iter().map(|range| range.pages()).sum()
}

/// The pages of a process that were read so far.
struct Sample {
    same: Mean,
    /// Whether a page was idle, and of idle pages whether their words are all equal.
    idle: Mean,
    idle_same: Mean,
    swapped: u64,
    unreadable: u64,
    algorithms: Vec<Counts>,
    sizes: Vec<usize>,
}

impl Sample {
    fn new(algorithms: usize, classes: usize) -> Sample {
        let counts = || Counts {
            sizes: Sizes::default(),
            idle: Sizes::default(),
            compress_us: Mean::default(),
            decompress_us: Mean::default(),
            compress: Duration::ZERO,
            decompress: Duration::ZERO,
            steps: [0; STEPS],
            classes: vec![0; classes],
        };
        let algorithms = std::iter::repeat_with(counts).take(algorithms).collect();
        Sample {
            same: Mean::default(),
            idle: Mean::default(),
            idle_same: Mean::default(),
            swapped: 0,
            unreadable: 0,
            algorithms,
            sizes: Vec::new(),
        }
    }

    /// Reads and compresses some pages, at most as many as there are buffers. `idle` says whether each is idle; it is
    /// empty if that is unknown.
    fn take(
        &mut self,
        contents: &PageContents<'_>,
        chunk: &[u64],
        idle: &[bool],
        codecs: &mut [Codec],
        classes: &SizeClasses,
        pages: &mut PageBuffers,
    ) -> Result<(), Exit> {
        let mut which = Vec::with_capacity(BATCH);
        for (number, &page) in chunk.iter().enumerate() {
            match contents.read(page, pages.get_mut(number)) {
                PageRead::Swapped => self.swapped += 1,
                PageRead::Unreadable => self.unreadable += 1,
                PageRead::Read => {
                    let is_same = is_same_filled(pages.get(number));
                    self.same.add(f64::from(is_same));
                    if let Some(&is_idle) = idle.get(number) {
                        self.idle.add(f64::from(is_idle));
                        if is_idle {
                            self.idle_same.add(f64::from(is_same));
                        }
                    }
                    if !is_same {
                        which.push(number);
                    }
                }
            }
        }
        if which.is_empty() {
            return Ok(());
        }
        for (counts, codec) in self.algorithms.iter_mut().zip(codecs) {
            self.sizes.clear();
            let times = codec.measure(pages, &which, &mut self.sizes)?;
            let each = 1e6 / which.len() as f64;
            counts.compress_us.add(times.compress.as_secs_f64() * each);
            counts.decompress_us.add(times.decompress.as_secs_f64() * each);
            counts.compress += times.compress;
            counts.decompress += times.decompress;
            let page_bytes = pages.get(0).len();
            for (&number, &bytes) in which.iter().zip(&self.sizes) {
                let is_idle = idle.get(number) == Some(&true);
                counts.note(bytes, is_idle, classes, page_bytes);
            }
        }
        Ok(())
    }

    fn described(&self, drawn: &Drawn, is_complete: bool, codecs: &[Codec]) -> ProcessPages {
        let sampled = self.same.count();
        let population = drawn.resident as f64;
        let same = self.same.estimate(population);
        let others = population * (1.0 - same.map_or(0.0, |same| same.mean));
        let batches = others / BATCH as f64;
        let algorithm = |(counts, codec): (&Counts, &Codec)| {
            let pages = AlgorithmPages {
                bytes: counts.sizes.bytes.estimate(others),
                pool_bytes: counts.sizes.pool_bytes.estimate(others),
                incompressible: counts.sizes.stored_whole.estimate(others),
                compress_us: counts.each(counts.compress, &counts.compress_us, batches),
                decompress_us: counts.each(counts.decompress, &counts.decompress_us, batches),
                steps: shares(&counts.steps),
                classes: shares(&counts.classes),
                source: codec.source(),
            };
            (codec.name().to_owned(), pages)
        };
        ProcessPages {
            pid: drawn.subject.pid,
            name: drawn.subject.name.clone(),
            resident: drawn.resident,
            swapped: drawn.swapped,
            sampled,
            swapped_meanwhile: self.swapped,
            unreadable: self.unreadable,
            is_complete,
            same,
            idle: drawn.idle.as_ref().and_then(|_| self.idle_described(population, codecs)),
            algorithms: self.algorithms.iter().zip(codecs).map(algorithm).collect(),
        }
    }

    /// The idle pages of a process with `population` pages in memory; None if no page was read.
    fn idle_described(&self, population: f64, codecs: &[Codec]) -> Option<IdlePages> {
        let share = self.idle.estimate(population)?;
        let idle = population * share.mean;
        let same = self.idle_same.estimate(idle);
        let others = idle * (1.0 - same.map_or(0.0, |same| same.mean));
        let algorithm = |(counts, codec): (&Counts, &Codec)| {
            let Sizes { bytes, pool_bytes, stored_whole } = &counts.idle;
            let sizes = IdleAlgorithm {
                bytes: bytes.estimate(others),
                pool_bytes: pool_bytes.estimate(others),
                incompressible: stored_whole.estimate(others),
            };
            (codec.name().to_owned(), sizes)
        };
        let algorithms = self.algorithms.iter().zip(codecs).map(algorithm).collect();
        Some(IdlePages { share, sampled: self.idle_same.count(), same, algorithms })
    }
}

impl Sizes {
    fn add(&mut self, bytes: usize, is_whole: bool, classes: &SizeClasses) {
        self.bytes.add(bytes as f64);
        self.pool_bytes.add(classes.pool_bytes(bytes));
        self.stored_whole.add(f64::from(is_whole));
    }
}

impl Counts {
    /// The microseconds of a page, of this time for all pages, with the error that the batches show.
    fn each(&self, time: Duration, of_batches: &Mean, batches: f64) -> Option<Estimate> {
        let mean = time.as_secs_f64() * 1e6 / self.sizes.bytes.count() as f64;
        Some(Estimate { mean, ..of_batches.estimate(batches)? })
    }

    /// Notes a page that compresses to `bytes`.
    fn note(&mut self, bytes: usize, is_idle: bool, classes: &SizeClasses, page_bytes: usize) {
        let is_whole = bytes >= classes.huge_bytes();
        let bytes = if is_whole { page_bytes } else { bytes };
        self.sizes.add(bytes, is_whole, classes);
        if is_idle {
            self.idle.add(bytes, is_whole, classes);
        }
        let step = bytes.saturating_sub(1) * STEPS / page_bytes;
        self.steps[step.min(STEPS - 1)] += 1;
        self.classes[classes.number(bytes)] += 1;
    }
}

fn shares(counts: &[u64]) -> Vec<f64> {
    let total = counts.iter().sum::<u64>().max(1) as f64;
    counts.iter().map(|&count| count as f64 / total).collect()
}
