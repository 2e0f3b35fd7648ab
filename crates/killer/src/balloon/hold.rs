//! The balloon's process in the cgroup: takes memory piece by piece, touches it, and gives it back.

use std::cmp::Ordering;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use linux::Root;
use linux::cgroup::MemoryGroup;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use types::{Bytes, PAGE_BYTES};

use super::options::{BalloonTarget, Kind, Options, PIECE_BYTES};
use crate::{Error, Gauge};

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// With a target of pressure, each look raises the goal by one part in this many.
const STEP_SHARE: u64 = 20;

/// Pieces of memory of one kind.
enum Hoard {
    Private(Vec<Vec<u8>>),
    /// Pieces of an unlinked file, in a folder or in memory.
    Backed {
        file: File,
        pieces: usize,
        /// Whether each piece is synced to storage when it is taken.
        is_synced: bool,
        /// Whether a touch also writes the piece, instead of only reading it.
        is_rewritten: bool,
    },
}

/// The state that the threads of a balloon share.
struct Shared<'a> {
    options: &'a Options,
    /// Bytes that all threads together should hold, and bytes that they hold.
    goal: AtomicU64,
    held: AtomicU64,
    is_over: AtomicBool,
    /// The first error that ended the balloon.
    failure: Mutex<Option<Error>>,
}

/// Holds memory until `is_over`, and calls `filled` once, when the target is reached. If `parent`, the
/// supervising process, ends, the kernel kills this process.
///
/// # Errors
/// The operating system refuses.
pub fn hold(
    root: &Root,
    options: &Options,
    group: Option<&MemoryGroup>,
    parent: u32,
    is_over: impl Fn() -> bool,
    mut filled: impl FnMut(u64),
) -> Result<(), Error> {
    end_with(parent)?;
    // The program was started through /proc/self/exe; this name shows in ps.
    let _ = rustix::thread::set_name(c"balloon");
    std::fs::write(root.path("/proc/self/oom_score_adj"), options.adj.to_string())
        .map_err(|error| Error::refused("set oom_score_adj", error))?;
    let mut gauge = Gauge::open(root, group)?;
    if let BalloonTarget::Pressure(_) = options.target {
        gauge.require_pressure()?;
    }
    let shared = Shared {
        options,
        goal: AtomicU64::new(0),
        held: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        failure: Mutex::new(None),
    };
    std::thread::scope(|scope| {
        for number in 0..options.threads {
            let shared = &shared;
            scope.spawn(move || shared.work(number as u64));
        }
        let mut was_filled = false;
        let mut goal = 0;
        while !is_over() && !shared.is_over.load(Relaxed) {
            let held = shared.held.load(Relaxed);
            goal = next_goal(options, &mut gauge, held, goal);
            shared.goal.store(goal, Relaxed);
            if !was_filled && goal > 0 && held >= goal / 16 * 15 {
                was_filled = true;
                filled(held);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        shared.is_over.store(true, Relaxed);
    });
    let failure = shared.failure.lock().expect("no holder of this lock panics").take();
    failure.map_or(Ok(()), Err)
}

/// Makes the kernel kill this process when the supervising process ends, and checks that it still runs.
fn end_with(parent: u32) -> Result<(), Error> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Error::refused("set the parent death signal", error))?;
    let is_parent = getppid().is_some_and(|pid| pid.as_raw_nonzero().get() as u32 == parent);
    match is_parent {
        true => Ok(()),
        false => Err(Error::Refused("the supervising process has ended".to_owned())),
    }
}

/// The bytes that all threads together should hold now.
fn next_goal(options: &Options, gauge: &mut Gauge, held: u64, goal: u64) -> u64 {
    // If memory cannot be read, keep the present size.
    let Some(memory) = gauge.read(true) else { return held };
    match options.target {
        BalloonTarget::Bytes(bytes) => bytes,
        BalloonTarget::Percent(percent) => (memory.total.0 / 100).saturating_mul(percent),
        BalloonTarget::Available(floor) => (held + memory.available.0).saturating_sub(floor),
        BalloonTarget::Pressure(percent) => {
            // If pressure cannot be read, take no more.
            let Some(pressure) = memory.pressure else { return held };
            let step = (goal / STEP_SHARE).max(16 * PIECE_BYTES);
            match u64::from(pressure.some_basis_points) < percent * 100 {
                true if held + step >= goal => goal.saturating_add(step).min(memory.total.0),
                true => goal,
                false => goal.saturating_sub(step / 4),
            }
        }
    }
}

impl Shared<'_> {
    fn work(&self, number: u64) {
        let Ok(mut hoard) = Hoard::new(self.options).map_err(|error| self.fail(error)) else {
            return;
        };
        let mut random = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut touched = (Instant::now(), 0_usize);
        while !self.is_over.load(Relaxed) {
            let is_changed = match self.change(&mut hoard, number, &mut random) {
                Ok(is_changed) => is_changed,
                Err(error) => return self.fail(error),
            };
            self.touch(&mut hoard, &mut touched);
            match (is_changed, self.options.rate) {
                (true, Some(rate)) => self.pause(rate),
                (true, None) => {}
                (false, _) => std::thread::sleep(LOOK_EVERY),
            }
        }
    }

    /// Takes or frees one piece towards the share of the goal of thread `number`; returns whether its
    /// share had not been reached.
    fn change(&self, hoard: &mut Hoard, number: u64, random: &mut u64) -> std::io::Result<bool> {
        let threads = self.options.threads as u64;
        let pieces = self.goal.load(Relaxed) / PIECE_BYTES;
        // The first threads take the remainder.
        let goal = pieces / threads + u64::from(number < pieces % threads);
        match (hoard.pieces() as u64).cmp(&goal) {
            Ordering::Less => {
                hoard.push(filling(random, self.options.compressible_percent))?;
                self.held.fetch_add(PIECE_BYTES, Relaxed);
            }
            Ordering::Greater => {
                hoard.pop()?;
                self.held.fetch_sub(PIECE_BYTES, Relaxed);
            }
            Ordering::Equal => return Ok(false),
        }
        Ok(true)
    }

    /// Waits for the time of one piece at this rate, which all threads share.
    fn pause(&self, rate: Bytes) {
        let seconds = PIECE_BYTES as f64 * self.options.threads as f64 / rate.0.max(1) as f64;
        let began = Instant::now();
        while began.elapsed().as_secs_f64() < seconds && !self.is_over.load(Relaxed) {
            let left = seconds - began.elapsed().as_secs_f64();
            std::thread::sleep(Duration::from_secs_f64(left.clamp(0.0, LOOK_EVERY.as_secs_f64())));
        }
    }

    /// Ends the balloon, and stores the first error.
    fn fail(&self, error: std::io::Error) {
        let what = match self.options.kind {
            Kind::Anon | Kind::Shared => "take memory".to_owned(),
            Kind::File | Kind::Dirty => format!("make a file in {}", self.options.folder.display()),
        };
        let failure = Error::refused(&what, error);
        self.failure.lock().expect("no holder of this lock panics").get_or_insert(failure);
        self.is_over.store(true, Relaxed);
    }

    /// Touches the pieces that are due since the last call, in turn.
    fn touch(&self, hoard: &mut Hoard, last: &mut (Instant, usize)) {
        let share = self.options.touched_percent as f64 / 100.0;
        let count = hoard.pieces();
        let due = (last.0.elapsed().as_secs_f64() * share * count as f64) as usize;
        if due == 0 {
            return;
        }
        last.0 = Instant::now();
        for step in 0..due.min(count) {
            // A read error does not change how much memory is held.
            let _ = hoard.touch((last.1 + step) % count);
        }
        last.1 = (last.1 + due) % count;
    }
}

impl Hoard {
    /// A hoard without pieces.
    fn new(options: &Options) -> std::io::Result<Hoard> {
        let file = match options.kind {
            Kind::Anon => return Ok(Hoard::Private(Vec::new())),
            Kind::Shared => File::from(memfd_create(c"balloon", MemfdFlags::CLOEXEC)?),
            Kind::File | Kind::Dirty => nameless(&options.folder)?,
        };
        let is_synced = options.kind == Kind::File;
        Ok(Hoard::Backed { file, pieces: 0, is_synced, is_rewritten: options.kind == Kind::Dirty })
    }

    fn pieces(&self) -> usize {
        match self {
            Hoard::Private(pieces) => pieces.len(),
            Hoard::Backed { pieces, .. } => *pieces,
        }
    }

    fn push(&mut self, bytes: Vec<u8>) -> std::io::Result<()> {
        match self {
            Hoard::Private(pieces) => pieces.push(bytes),
            Hoard::Backed { file, pieces, is_synced, .. } => {
                file.write_all_at(&bytes, offset(*pieces))?;
                if *is_synced {
                    file.sync_data()?;
                }
                *pieces += 1;
            }
        }
        Ok(())
    }

    /// Frees the last piece.
    fn pop(&mut self) -> std::io::Result<()> {
        match self {
            Hoard::Private(pieces) => drop(pieces.pop()),
            Hoard::Backed { file, pieces, .. } => {
                *pieces = pieces.saturating_sub(1);
                file.set_len(offset(*pieces))?;
            }
        }
        Ok(())
    }

    /// Touches every page of a piece.
    fn touch(&mut self, piece: usize) -> std::io::Result<()> {
        match self {
            Hoard::Private(pieces) => {
                for page in pieces[piece].chunks_mut(PAGE_BYTES as usize) {
                    page[0] = std::hint::black_box(page[0]).wrapping_add(1);
                }
            }
            Hoard::Backed { file, is_rewritten, .. } => {
                let mut bytes = vec![0; PIECE_BYTES as usize];
                file.read_exact_at(&mut bytes, offset(piece))?;
                if *is_rewritten {
                    file.write_all_at(&bytes, offset(piece))?;
                }
            }
        }
        Ok(())
    }
}

/// The offset of a piece in the file.
fn offset(piece: usize) -> u64 {
    piece as u64 * PIECE_BYTES
}

/// A piece of random bytes; the last `zero_percent` of each page are zero.
fn filling(random: &mut u64, zero_percent: u64) -> Vec<u8> {
    let mut bytes = vec![0; PIECE_BYTES as usize];
    let filled = (PAGE_BYTES * (100 - zero_percent) / 100) as usize / 8 * 8;
    for page in bytes.chunks_mut(PAGE_BYTES as usize) {
        // Touches the page even if the rest of it stays zero.
        page[0] = 1;
        for word in page[..filled].chunks_exact_mut(8) {
            // xorshift64 (Marsaglia 2003).
            *random ^= *random << 13;
            *random ^= *random >> 7;
            *random ^= *random << 17;
            word.copy_from_slice(&random.to_ne_bytes());
        }
    }
    bytes
}

/// An unlinked file in `folder`, which vanishes when it is closed.
fn nameless(folder: &Path) -> std::io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Relaxed);
    let path = folder.join(format!("pagewise-balloon-{}-{number}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_as_compressible_as_asked() {
        for (zero_percent, zeros) in [(0, 0..=30), (50, 2040..=2080), (100, 4095..=4096)] {
            let bytes = filling(&mut 7, zero_percent);
            assert_eq!(bytes.len() as u64, PIECE_BYTES);
            let found = bytes[4096..8192].iter().filter(|&&byte| byte == 0).count();
            assert!(zeros.contains(&found), "{zero_percent} %: {found}");
        }
    }

    #[test]
    fn a_popped_piece_is_freed_and_no_file_remains() {
        let folder = tempfile::tempdir().unwrap();
        for kind in [Kind::Anon, Kind::File, Kind::Dirty, Kind::Shared] {
            let options = Options {
                target: BalloonTarget::Percent(1),
                kind,
                rate: None,
                compressible_percent: 0,
                touched_percent: 0,
                threads: 1,
                adj: 0,
                limit: None,
                within: None,
                floor: None,
                folder: folder.path().to_owned(),
                time: None,
            };
            let mut hoard = Hoard::new(&options).unwrap();
            for seed in [7, 8] {
                hoard.push(filling(&mut seed.clone(), 0)).unwrap();
            }
            hoard.touch(1).unwrap();
            hoard.pop().unwrap();
            assert_eq!(hoard.pieces(), 1);
            if let Hoard::Backed { file, .. } = &hoard {
                let mut found = vec![0; PIECE_BYTES as usize];
                file.read_exact_at(&mut found, 0).unwrap();
                assert!(found == filling(&mut 7, 0), "{kind:?}");
                assert_eq!(file.metadata().unwrap().len(), PIECE_BYTES);
            }
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
