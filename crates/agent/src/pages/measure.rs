//! Samples the anonymous memory of a process.

use std::os::fd::OwnedFd;
use std::time::Duration;

use linux::address_space::{AddressSpace, PageRange, PageRead};
use linux::page_buffers::PageBuffers;
use linux::system::processor_time;
use linux::zsmalloc::SizeClasses;
use types::random::Stream;

use super::codec::{Codec, is_same_filled};
use super::draw;
use super::mean::{Estimate, Mean};
use super::report::{AlgorithmPages, NotSampled, ProcessPages};
use super::subject::{STEPS, Subject};
use crate::exit::Exit;

/// Pages that are compressed together, and then decompressed: more than the inner caches of a processor hold, as in use.
pub const BATCH: usize = 1024;
/// What a sample may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Pages to read.
    pub pages: usize,
    /// CPU time, which ends the sample after the batch that uses it up.
    pub cpu: Duration,
}

/// Samples processes.
pub struct Sampler<'a> {
    /// `/proc`.
    pub processes: &'a OwnedFd,
    /// The algorithms.
    pub codecs: &'a mut [Codec],
    /// The classes of zram's pool.
    pub classes: &'a SizeClasses,
    /// The seed of the draws.
    pub seed: u64,
    /// Whether the user has asked for the end.
    pub is_interrupted: &'a dyn Fn() -> bool,
}

/// Counts of an algorithm in a sample.
struct Counts {
    bytes: Mean,
    pool_bytes: Mean,
    stored_whole: Mean,
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
    /// Samples a process, whose pages go through `pages`, [`BATCH`] buffers of a page.
    ///
    /// # Errors
    /// A zram device fails. A process that cannot be read is [`NotSampled`].
    pub fn sample(
        &mut self,
        subject: &Subject,
        limits: Limits,
        pages: &mut PageBuffers,
    ) -> Result<Result<ProcessPages, NotSampled>, Exit> {
        let started = processor_time();
        let absent =
            |what: &str, error: std::io::Error| Ok(Err(NotSampled::failed(subject, what, &error)));
        let space = match AddressSpace::open(self.processes, subject.pid) {
            Ok(space) => space,
            Err(error) => return absent("cannot be opened", error.into()),
        };
        let found = match space.written() {
            Ok(found) => found,
            Err(error) => return absent("its pages cannot be listed", error.into()),
        };
        let contents = match space.contents() {
            Ok(contents) => contents,
            Err(error) => return absent("its memory cannot be read", error.into()),
        };
        let resident = count(&found.resident);
        let mut stream = Stream::named(self.seed, &format!("pages {}", subject.pid));
        let drawn = draw::pages(&found.resident, limits.pages, &mut stream);
        let mut sample = Sample::new(self.codecs.len(), self.classes.count());
        let mut chunks = drawn.chunks(BATCH);
        for chunk in chunks.by_ref() {
            sample.take(&contents, chunk, self.codecs, self.classes, pages)?;
            let used = processor_time().saturating_sub(started);
            if used >= limits.cpu || (self.is_interrupted)() {
                break;
            }
        }
        let is_complete = chunks.next().is_none();
        let swapped = count(&found.swapped);
        Ok(Ok(sample.described(subject, resident, swapped, is_complete, self.codecs)))
    }
}

fn count(ranges: &[PageRange]) -> u64 {
    ranges.iter().map(|range| range.pages()).sum()
}

/// The pages of a process that were read so far.
struct Sample {
    same: Mean,
    swapped: u64,
    unreadable: u64,
    algorithms: Vec<Counts>,
    sizes: Vec<usize>,
}

impl Sample {
    fn new(algorithms: usize, classes: usize) -> Sample {
        let counts = || Counts {
            bytes: Mean::default(),
            pool_bytes: Mean::default(),
            stored_whole: Mean::default(),
            compress_us: Mean::default(),
            decompress_us: Mean::default(),
            compress: Duration::ZERO,
            decompress: Duration::ZERO,
            steps: [0; STEPS],
            classes: vec![0; classes],
        };
        let algorithms = std::iter::repeat_with(counts).take(algorithms).collect();
        Sample { same: Mean::default(), swapped: 0, unreadable: 0, algorithms, sizes: Vec::new() }
    }

    /// Reads and compresses some pages, at most as many as there are buffers.
    fn take(
        &mut self,
        contents: &linux::address_space::PageContents<'_>,
        chunk: &[u64],
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
            self.sizes.iter().for_each(|&bytes| counts.note(bytes, classes, page_bytes));
        }
        Ok(())
    }

    fn described(
        &self,
        subject: &Subject,
        resident: u64,
        swapped: u64,
        is_complete: bool,
        codecs: &[Codec],
    ) -> ProcessPages {
        let sampled = self.same.count();
        let population = resident as f64;
        let same = self.same.estimate(population);
        let others = population * (1.0 - same.map_or(0.0, |same| same.mean));
        let batches = others / BATCH as f64;
        let algorithm = |(counts, codec): (&Counts, &Codec)| {
            let pages = AlgorithmPages {
                bytes: counts.bytes.estimate(others),
                pool_bytes: counts.pool_bytes.estimate(others),
                incompressible: counts.stored_whole.estimate(others),
                compress_us: counts.each(counts.compress, &counts.compress_us, batches),
                decompress_us: counts.each(counts.decompress, &counts.decompress_us, batches),
                steps: shares(&counts.steps),
                classes: shares(&counts.classes),
                source: codec.source(),
            };
            (codec.name().to_owned(), pages)
        };
        ProcessPages {
            pid: subject.pid,
            name: subject.name.clone(),
            resident,
            swapped,
            sampled,
            swapped_meanwhile: self.swapped,
            unreadable: self.unreadable,
            is_complete,
            same,
            algorithms: self.algorithms.iter().zip(codecs).map(algorithm).collect(),
        }
    }
}

impl Counts {
    /// The microseconds of a page, of this time for all pages, with the error that the batches show.
    fn each(&self, time: Duration, of_batches: &Mean, batches: f64) -> Option<Estimate> {
        let mean = time.as_secs_f64() * 1e6 / self.bytes.count() as f64;
        Some(Estimate { mean, ..of_batches.estimate(batches)? })
    }

    /// Notes a page that compresses to `bytes`.
    fn note(&mut self, bytes: usize, classes: &SizeClasses, page_bytes: usize) {
        let is_whole = bytes >= classes.huge_bytes();
        let bytes = if is_whole { page_bytes } else { bytes };
        self.bytes.add(bytes as f64);
        self.pool_bytes.add(classes.pool_bytes(bytes));
        self.stored_whole.add(f64::from(is_whole));
        let step = bytes.saturating_sub(1) * STEPS / page_bytes;
        self.steps[step.min(STEPS - 1)] += 1;
        self.classes[classes.number(bytes)] += 1;
    }
}

fn shares(counts: &[u64]) -> Vec<f64> {
    let total = counts.iter().sum::<u64>().max(1) as f64;
    counts.iter().map(|&count| count as f64 / total).collect()
}
