//! The area through zram: the kernel holds the pages and answers faults by itself, and a placement chooses which pages
//! zram writes to its backing device.
//!
//! Every page lands in zram, compressed in memory: that is the fast tier. A demotion is a write of `page_index=SLOT` to
//! the device's `writeback` (drivers/block/zram/zram_drv.c, Linux 6.12). The placement learns from events of the kernel
//! what leaves memory and what comes back. zram has no read that promotes: a page that comes back leaves its slot,
//! which the kernel frees.
//!
//! Contract: nothing here is in the way of a page. Events that are late or lost, and the end of this process, change
//! what is demoted, but never what a program reads.

use std::collections::VecDeque;
use std::os::unix::fs::FileTypeExt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use linux::features::is_at_least;
use linux::loop_device::LoopDevice;
use linux::system::Machine;
use linux::zram::{self, Writeback};
use linux::{Root, process, swap};
use policy::placement::Latencies;
use policy::tiers::{Area, Live, Move, Moves, Request, Step};
use trace::recording::{Record, kind};
use types::PageId;

use crate::area::{self, ServedArea};
use crate::carrier::SLOT_BYTES;
use crate::carrier::granted::{ServedDevice, zram_identity};
use crate::engine::Control;
use crate::session::{self, AreaPlan, Serving, Session, TierDevices};
use crate::statistics::{Serving as About, Statistics};
use crate::store::{self, Algorithm, Tier};
use crate::undo::Undo;
use crate::{Error, fresh_counts, protection, undo};

/// The first Linux that sends pages to zram by block requests, which its events name.
const EVENTS_SINCE: (u32, u32) = (6, 3);
/// The placements of zram weigh no latencies.
const UNWEIGHED: Latencies =
    Latencies { slow_read: 1e5, slow_write: 1e5, fast_read: 1e3, fast_write: 1e3 };
/// How long pages are written back before the next events are taken, so that their buffer does not fill up.
const TURN: Duration = Duration::from_millis(20);
/// How long to wait for the next events while there are some.
const WAIT_MIN: Duration = Duration::from_millis(5);
/// How long to wait for the next events of an idle area.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// How often the kernel's counts are read.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Passes the transfers of swap on the device with this number to a function, with the number of events that were lost,
/// and waits between two calls for the time that it returns; None ends it. The first call comes before any transfer, as
/// soon as none is missed.
pub type Follow = fn(u32, &mut Take<'_>) -> Result<(), Error>;
/// Takes the next transfers.
pub type Take<'a> = dyn FnMut(&[Record], u64) -> Option<Duration> + 'a;

/// Checks the plan, undoes what killed servers left, makes a zram device of our own, and enables it as a swap area whose
/// pages a thread writes back.
///
/// # Errors
/// The plan is invalid, or the operating system refuses; then there is no area, and nothing else is left.
pub fn start(root: &Root, plan: &AreaPlan, follow: Follow) -> Result<Session, Error> {
    check_options(plan)?;
    // --fast counts pages before compression.
    let frames = session::frames(&AreaPlan { compress: None, ..plan.clone() })?;
    let (tiers, about) = session::tiers(plan, frames, UNWEIGHED)?;
    check_machine(root)?;
    undo::left(root)?;
    let (area, number) = make(root, plan)?;
    let control = Arc::new(Control::new()?);
    let statistics = Arc::new(Statistics::default());
    let driver = Driver {
        root: root.clone(),
        name: format!("zram{number}"),
        writeback: Writeback::open(root, number)?,
        tiers,
        moves: Moves::default(),
        due: VecDeque::with_capacity(plan.slots as usize),
        due_steps: vec![None; plan.slots as usize],
        is_in_due: vec![false; plan.slots as usize],
        is_on_disk: vec![false; plan.slots as usize],
        statistics: Arc::clone(&statistics),
        control: Arc::clone(&control),
        wait: WAIT_MIN,
        look_at: Instant::now(),
    };
    let (device, path) = (zram::event_number(root, number)?, zram::path(number));
    let serving = serve(driver, move |take| follow(device, take))?;
    let mut refused = protection::of_process(root);
    refused.extend(fresh_counts::keep(root, &statistics));
    let compress = zram::algorithm(root, &format!("zram{number}"))?;
    let about = About { through: "zram".to_owned(), refused, compress, ..about };
    let (recording, guard) = (None, None);
    let mut session = Session {
        serves: Area::Zram,
        area,
        control,
        serving,
        recording,
        guard,
        statistics,
        about,
        device: path,
    };
    match session.area.on(|device| Ok(swap::on(device, plan.priority)?)) {
        Ok(()) => Ok(session),
        Err(error) => {
            session.end_serving(|device| Ok(swap::off(device)?))?;
            Err(error)
        }
    }
}

fn check_options(plan: &AreaPlan) -> Result<(), Error> {
    let has_device = |devices: &TierDevices| devices.fast.is_some() || devices.slow.is_some();
    let refused: Vec<&str> = [
        ("--fast-on", plan.fast_on.is_some()),
        ("--verify", plan.has_checksums),
        ("--encrypt", plan.is_encrypted),
        ("--emulate", has_device(&plan.emulated)),
        ("--devices", has_device(&plan.weighed)),
        ("--record", plan.record.is_some()),
        ("--moves", plan.moves.is_some()),
    ]
    .into_iter()
    .filter_map(|(option, is_set)| is_set.then_some(option))
    .collect();
    if refused.is_empty() {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "--through zram cannot do {}: the kernel holds and moves the pages, not swapd; leave it out, or choose ublk, \
         nbd or fuse",
        refused.join(", ")
    )))
}

fn check_machine(root: &Root) -> Result<(), Error> {
    if !process::is_root() {
        return Err(Error::Refused("swapd needs root: it makes a swap area".to_owned()));
    }
    let kernel = Machine::this(root)?.kernel;
    if !is_at_least(&kernel, EVENTS_SINCE) {
        return Err(Error::Refused(format!(
            "--through zram needs Linux 6.3, and this is {kernel}: before, zram takes pages without a block request, so \
             no event says which page is in which slot; choose ublk, nbd or fuse"
        )));
    }
    Ok(())
}

/// Makes a zram device with a backing device, formatted as a swap area.
fn make(root: &Root, plan: &AreaPlan) -> Result<(ServedArea, u32), Error> {
    let (name, mut log) = area::begin(root)?;
    let number = match zram::add(root) {
        Ok(number) => number,
        Err(error) => {
            log.finish()?;
            return Err(error.into());
        }
    };
    // Known only now. Until it has a size, the device holds nothing.
    let inode = zram::inode(root, number);
    // Without an inode, the device has been removed already.
    let noted = match inode {
        Some(_) => log.note(&Undo::RemoveEmpty { zram: number, inode }),
        None => Ok(()),
    };
    let (identity, path) = (zram_identity(&name), zram::path(number));
    let device = ServedDevice::Zram { number, path: path.clone() };
    let area = ServedArea::adopt(root, device, name, log);
    noted?;
    if !zram::has_writeback(root, number) {
        return Err(Error::Refused(
            "this kernel's zram cannot write pages to a disk: it was built without CONFIG_ZRAM_WRITEBACK; choose ublk, \
             nbd or fuse"
                .to_owned(),
        ));
    }
    // The kernel leaves the first block of a backing device unused.
    let slow = store::open(root, &plan.slow, u64::from(plan.slots) + 1, Tier::Slow)?;
    let is_device = plan.slow.metadata().is_ok_and(|found| found.file_type().is_block_device());
    // The kernel frees the loop device when zram gives it up, and with it the file.
    let over_file = match is_device {
        true => None,
        false => Some(LoopDevice::attach(root, &slow, SLOT_BYTES as u32)?),
    };
    // zram wants a block device for itself.
    drop(slow);
    let backing = over_file.as_ref().map_or(plan.slow.as_path(), LoopDevice::path);
    let bytes = u64::from(plan.slots) * SLOT_BYTES as u64;
    zram::backing(number, backing).apply(root)?;
    for setting in zram::settings(number, plan.compress.map(Algorithm::name), bytes) {
        setting.apply(root)?;
    }
    swap::format_as(&path, bytes, &identity)?;
    Ok((area, number))
}

/// Follows the events in a thread of its own, and returns as soon as none is missed.
fn serve(
    mut driver: Driver,
    follow: impl FnOnce(&mut Take<'_>) -> Result<(), Error> + Send + 'static,
) -> Result<Serving, Error> {
    let (ready, is_ready) = channel();
    let mut ready: Option<Sender<()>> = Some(ready);
    let thread = thread::Builder::new().name("writeback".to_owned());
    let serving = thread.spawn(move || {
        follow(&mut |transfers: &[Record], lost| {
            if let Some(ready) = ready.take() {
                let _ = ready.send(());
            }
            driver.turn(transfers, lost)
        })
    });
    let serving = serving.map_err(|error| Error::refused("start a thread", error))?;
    if is_ready.recv().is_ok() {
        return Ok(serving);
    }
    let followed = serving.join().unwrap_or_else(|panic| resume_unwind(panic));
    followed.and(Err(Error::Refused("the events of swap ended at once".to_owned())))
}

/// Asks the placement about each event, and writes back what it demotes.
///
/// Invariant: a slot with a step in `due_steps` is in `due`. It is written back unless it is read or written before.
struct Driver {
    root: Root,
    name: String,
    writeback: Writeback,
    tiers: Box<dyn Live>,
    moves: Moves,
    due: VecDeque<u32>,
    due_steps: Vec<Option<Step>>,
    /// By slot: whether it is in `due`, where it stays when its step is cancelled.
    is_in_due: Vec<bool>,
    /// By slot: whether its page was written back.
    is_on_disk: Vec<bool>,
    statistics: Arc<Statistics>,
    control: Arc<Control>,
    wait: Duration,
    look_at: Instant,
}

impl Driver {
    /// Takes transfers, and writes back pages for a while. Returns how long to wait for the next transfers; None at the
    /// end.
    fn turn(&mut self, transfers: &[Record], lost: u64) -> Option<Duration> {
        for transfer in transfers {
            // The number of the area is in the upper half.
            let first = transfer.object as u32;
            let end = first.saturating_add(u32::from(transfer.pages));
            for slot in first..end.min(self.due_steps.len() as u32) {
                match transfer.kind {
                    kind::SWAP_WRITE => self.page_out(slot),
                    _ => self.page_in(slot),
                }
            }
        }
        if !transfers.is_empty() {
            self.statistics.wake_follower();
        }
        self.statistics.events_lost.set(lost + 1);
        if self.control.is_ending() {
            return None;
        }
        let begun = Instant::now();
        while begun.elapsed() < TURN
            && let Some(slot) = self.due.pop_front()
        {
            self.is_in_due[slot as usize] = false;
            if let Some(step) = self.due_steps[slot as usize].take() {
                self.write_back(Move { step, page: PageId(slot) });
            }
        }
        if begun >= self.look_at {
            self.look();
            self.look_at = begun + LOOK_EVERY;
        }
        if !self.due.is_empty() {
            return Some(Duration::ZERO);
        }
        self.wait = match transfers {
            [] => (2 * self.wait).min(WAIT_MAX),
            _ => WAIT_MIN,
        };
        self.statistics.sleeps.add(1);
        Some(self.wait)
    }

    fn page_out(&mut self, slot: u32) {
        self.cancel(slot);
        self.is_on_disk[slot as usize] = false;
        self.statistics.fast.writes.add(1);
        self.ask(Request::Out { is_dirty: true }, slot);
    }

    fn page_in(&mut self, slot: u32) {
        self.cancel(slot);
        // Not as the placement has it, which counts a page as demoted before it is written back.
        if std::mem::take(&mut self.is_on_disk[slot as usize]) {
            self.statistics.slow.reads.add(1);
            self.statistics.slow_requests.reads.add(1);
        } else {
            self.statistics.fast.reads.add(1);
        }
        self.ask(Request::In, slot);
        self.ask(Request::Void, slot);
    }

    /// Forgets that a slot is due, because its page is no longer the one that was demoted.
    fn cancel(&mut self, slot: u32) {
        if let Some(step) = self.due_steps[slot as usize].take() {
            self.tiers.done(Move { step, page: PageId(slot) });
        }
    }

    fn ask(&mut self, request: Request, slot: u32) {
        self.tiers.on(request, PageId(slot), &mut self.moves);
        self.perform();
    }

    /// The kernel has done all moves but those to the backing device.
    fn perform(&mut self) {
        for &moved in self.moves.iter() {
            match moved.step {
                Step::WriteSlow | Step::Demote { writes: true } => {
                    self.due_steps[moved.page.index()] = Some(moved.step);
                    if !std::mem::replace(&mut self.is_in_due[moved.page.index()], true) {
                        self.due.push_back(moved.page.0);
                    }
                }
                _ => self.tiers.done(moved),
            }
        }
    }

    fn write_back(&mut self, moved: Move) {
        let slot = moved.page.0;
        match self.writeback.write(slot) {
            Ok(true) => {
                self.is_on_disk[slot as usize] = true;
                self.statistics.slow.writes.add(1);
                self.statistics.slow_requests.writes.add(1);
                let is_demotion = moved.step != Step::WriteSlow;
                self.statistics.demotions.add(u64::from(is_demotion));
                self.tiers.done(moved);
            }
            // The kernel freed the slot, of which there is no event, or the page takes no memory.
            Ok(false) => {
                self.statistics.voids.add(1);
                self.tiers.done(moved);
                self.ask(Request::Void, slot);
            }
            Err(_) => {
                self.statistics.failed_slow(slot);
                self.tiers.failed(moved, &mut self.moves);
                self.perform();
            }
        }
    }

    /// Reads what zram holds now.
    fn look(&mut self) {
        let Ok(Some(counts)) = zram::statistics(&self.root, &self.name) else { return };
        let of = |field| counts.get(field).copied().unwrap_or(0);
        let pages = of("orig_data_bytes") / SLOT_BYTES as u64;
        let held = self.writeback.counts().held;
        let in_memory = pages.saturating_sub(held);
        self.statistics.fast_pages_used.set(in_memory);
        let compressed = &self.statistics.compressed;
        compressed.bytes.set(of("mem_used_bytes"));
        compressed.pages.set(in_memory);
        compressed.filled_pages.set(of("same_pages"));
        compressed.raw_pages.set(of("huge_pages"));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use policy::tiers::{LiveRequest, serve};

    use super::*;

    const FRAMES: u64 = 4;

    /// A driver of a zram device whose kernel is files: nothing is ever written back, as if all slots were free.
    fn driver(root: &Root) -> Driver {
        let block = root.path("/sys/block/zram0");
        fs::create_dir_all(&block).unwrap();
        for (file, text) in
            [("bd_stat", "0 0 0"), ("disksize", "65536"), ("mm_stat", "8192 9 4096")]
        {
            fs::write(block.join(file), text).unwrap();
        }
        if !block.join("writeback").exists() {
            fs::write(block.join("writeback"), "").unwrap();
        }
        let options = BTreeMap::from([("fill_on_read_miss".to_owned(), "no".to_owned())]);
        let request = LiveRequest {
            architecture: "hierarchical",
            profile: None,
            options: &options,
            capacity: FRAMES,
            latencies: UNWEIGHED,
            area: Area::Zram,
        };
        let mut tiers = serve(&request).unwrap().tiers;
        tiers.grow(16);
        Driver {
            root: root.clone(),
            name: "zram0".to_owned(),
            writeback: Writeback::open(root, 0).unwrap(),
            tiers,
            moves: Moves::default(),
            due: VecDeque::new(),
            due_steps: vec![None; 16],
            is_in_due: vec![false; 16],
            is_on_disk: vec![false; 16],
            statistics: Arc::new(Statistics::default()),
            control: Arc::new(Control::new().unwrap()),
            wait: WAIT_MIN,
            look_at: Instant::now(),
        }
    }

    fn transfer(kind: u8, slot: u64, pages: u16) -> Record {
        Record { kind, object: 3 << 58 | slot, pages, ..Record::default() }
    }

    #[test]
    fn the_pages_that_left_first_are_written_back_unless_they_return() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let mut driver = driver(&root);
        let transfers = [transfer(kind::SWAP_WRITE, 7, 6), transfer(kind::SWAP_READ, 7, 1)];
        assert_eq!(driver.turn(&transfers, 5), Some(WAIT_MIN));
        let written = fs::read_to_string(root.path("/sys/block/zram0/writeback")).unwrap();
        assert_eq!(written, "page_index=8");
        let counts = Arc::clone(&driver.statistics);
        assert_eq!((counts.fast.writes.get(), counts.fast.reads.get()), (6, 1));
        assert_eq!((counts.demotions.get(), counts.voids.get()), (0, 1));
        assert_eq!((counts.events_lost.get(), counts.compressed.bytes.get()), (6, 4096));
        assert_eq!((driver.tiers.frames_used(), driver.tiers.in_flight()), (FRAMES, 0));
        assert_eq!(driver.turn(&[], 5), Some(2 * WAIT_MIN));
        // Slots beyond the area, as a damaged record may have them.
        driver.turn(&[transfer(kind::SWAP_WRITE, 15, 9), transfer(kind::SWAP_READ, 1 << 31, 9)], 5);
        assert_eq!(counts.fast.writes.get(), 7);
        driver.control.end();
        assert_eq!(driver.turn(&[], 5), None);
    }

    #[test]
    fn a_slot_waits_once_however_often_its_page_returns() {
        let folder = tempfile::tempdir().unwrap();
        let mut driver = driver(&Root::at(folder.path()));
        for _ in 0..100 {
            (0..16).for_each(|slot| driver.page_out(slot));
            (0..16).for_each(|slot| driver.page_in(slot));
        }
        assert!((1..=16).contains(&driver.due.len()), "{} slots wait", driver.due.len());
        assert_eq!((driver.tiers.frames_used(), driver.tiers.in_flight()), (0, 0));
    }

    #[test]
    fn a_page_that_cannot_be_written_back_stays_in_zram() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        fs::create_dir_all(root.path("/sys/block/zram0")).unwrap();
        // Every write to it fails for lack of space.
        std::os::unix::fs::symlink("/dev/full", root.path("/sys/block/zram0/writeback")).unwrap();
        let mut driver = driver(&root);
        driver.turn(&[transfer(kind::SWAP_WRITE, 0, 6)], 0);
        assert_eq!((driver.statistics.errors_slow.get(), driver.tiers.frames_used()), (2, 6));
        driver.turn(&[transfer(kind::SWAP_READ, 0, 6)], 0);
        assert_eq!((driver.statistics.fast.reads.get(), driver.tiers.frames_used()), (6, 0));
        assert_eq!(driver.tiers.in_flight(), 0);
    }
}
