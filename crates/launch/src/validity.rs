//! Whether a run can carry a verdict: the kernel's counters before and after it, and what they say beside the
//! recording. `run.toml` keeps all of it, so that a reader can compute the figures again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use linux::{Root, counters, system};
use serde::Serialize;
use trace::input::Input;
use trace::recording::{Record, RecordingBlock, flag, kind, read_about};

use crate::Error;
use crate::others::{KernelThreads, OtherPrograms};

/// The names of the counters of `/proc/vmstat` that are kept begin with these.
const KEPT: [&str; 11] = [
    "pswp",
    "swpin",
    "swpout",
    "zswp",
    "pgpg",
    "pgfault",
    "pgmajfault",
    "pgscan",
    "pgsteal",
    "allocstall",
    "workingset_refault",
];
/// The fields of `/sys/block/*/stat` (Documentation/block/stat.rst).
const BLOCK_FIELDS: [&str; 17] = [
    "read_ios",
    "read_merges",
    "read_sectors",
    "read_ticks",
    "write_ios",
    "write_merges",
    "write_sectors",
    "write_ticks",
    "in_flight",
    "io_ticks",
    "time_in_queue",
    "discard_ios",
    "discard_merges",
    "discard_sectors",
    "discard_ticks",
    "flush_ios",
    "flush_ticks",
];
/// How far the recorded pages and bytes may be from the kernel's counters.
const RATIO_TOLERANCE: f64 = 0.03;
/// The largest share of swap-ins and of swap-outs that may be of processes that are not of the plan.
const FOREIGN_SHARE_MAX: f64 = 0.01;
/// The largest share of the bytes read from disks or written to them that may be of programs beside the run: as much
/// as the recorded bytes may be from the kernel's.
const FOREIGN_BYTES_SHARE_MAX: f64 = RATIO_TOLERANCE;
/// The largest share of the processors that other programs may use.
const LOAD_MAX: f64 = 0.1;
/// How long the load is measured while no application runs.
const PAUSE: Duration = Duration::from_secs(1);
/// Requests are recorded when they begin and counted by the kernel when they end, so a few at both ends of a run do
/// not match. Less than this is not compared.
const COMPARED_BYTES: u64 = 16 << 20;
const SECTOR_BYTES: u64 = 512;

/// The kernel's counters at an instant, under its own names.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct RawCounters {
    /// From `/proc/vmstat`.
    vmstat: BTreeMap<String, u64>,
    /// From `/sys/block/DEVICE/stat`, of devices with requests.
    block: BTreeMap<String, BTreeMap<&'static str, u64>>,
    /// The kernel's numbers of these devices, as recordings have them. Only devices that queue requests: the others
    /// have no events of requests.
    #[serde(skip)]
    by_number: BTreeMap<u32, String>,
}

/// The counters around the visits.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Around {
    before: RawCounters,
    after: RawCounters,
}

/// What the counters say beside the recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Checks {
    /// Recorded pages read from swap areas, over those that the kernel counted; None if it counted none.
    #[serde(skip_serializing_if = "Option::is_none")]
    swapin_ratio: Option<f64>,
    /// Recorded pages written to swap areas, over those that the kernel counted; None if it counted none.
    #[serde(skip_serializing_if = "Option::is_none")]
    swapout_ratio: Option<f64>,
    /// Recorded bytes that requests read from disks, over those that the kernel counted, of the device where the two
    /// differ most; None if the kernel counted less than 16 MiB on each.
    #[serde(skip_serializing_if = "Option::is_none")]
    block_read_ratio: Option<f64>,
    /// Recorded bytes that requests wrote to disks, over those that the kernel counted, of the device where the two
    /// differ most; None if the kernel counted less than 16 MiB on each.
    #[serde(skip_serializing_if = "Option::is_none")]
    block_write_ratio: Option<f64>,
    /// The share of the recorded swap-ins whose process was not seen in an application; None without swap-ins.
    #[serde(skip_serializing_if = "Option::is_none")]
    foreign_swapin_share: Option<f64>,
    /// The share of the recorded page-outs with a known owner that was not seen in an application; None without
    /// page-outs.
    #[serde(skip_serializing_if = "Option::is_none")]
    foreign_swapout_share: Option<f64>,
    /// The share of the bytes that recorded requests read from disks whose requests programs beside the run issued,
    /// without those that kernel threads issued for them; None if all requests read less than 16 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    foreign_read_share: Option<f64>,
    /// The share of the bytes that recorded requests wrote to disks whose requests programs beside the run issued,
    /// without those that kernel threads issued for them; None if all requests wrote less than 16 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    foreign_write_share: Option<f64>,
    /// The largest share of all processors that was busy in a second before and in a second after the visits, or that
    /// other programs used during the visits.
    load_other: f64,
    /// The share of all processors' time that kernel threads used during the visits, among them those that reclaim
    /// memory for the run and do its I/O, without those that ended meanwhile.
    kernel_thread_share: f64,
    /// The share of all processors' time that the host of a virtual machine took during the visits.
    steal_share: f64,
}

/// Whether the run can carry a verdict, and why not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Validity {
    /// One reason for each check that failed; the run is valid if there is none.
    pub(crate) invalid_because: Vec<String>,
    pub(crate) counters: Around,
    pub(crate) checks: Checks,
}

/// Processor time of the machine in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ticks {
    busy: u64,
    stolen: u64,
    all: u64,
}

/// The counters of a run whose visits go on.
#[derive(Debug)]
pub(crate) struct Observed {
    before: RawCounters,
    ticks: Ticks,
    others: OtherPrograms,
    kernel_threads: KernelThreads,
    load: f64,
}

/// What was observed of a run during its visits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observation {
    counters: Around,
    checks: Checks,
    /// The programs beside the run at its beginning.
    others: BTreeSet<u32>,
}

/// The recording of a run.
#[derive(Clone, Debug)]
pub(crate) enum Recording<'run> {
    /// The run is not recorded.
    None,
    /// The recorder failed; the text says why.
    Failed(String),
    /// The file at `path`, which lacks `lost` events.
    Made { path: &'run Path, lost: u64 },
}

/// Pages of swap areas, and bytes of requests to disks, in a recording.
#[derive(Clone, Debug, Default, PartialEq)]
struct Recorded {
    /// Bytes read and written, by the number of the device.
    requested: BTreeMap<u32, [u64; 2]>,
    pages_read: u64,
    pages_written: u64,
    swap_ins: u64,
    foreign_swap_ins: u64,
    page_outs: u64,
    foreign_page_outs: u64,
    /// Bytes that programs beside the run had read and written.
    foreign_requested: [u64; 2],
}

/// Which processes are of the applications, and which are of programs beside the run. Neither are the lab's own
/// programs and kernel threads.
#[derive(Clone, Debug, Default)]
struct Members {
    applications: BTreeSet<u32>,
    others: BTreeSet<u32>,
}

impl Members {
    /// A new process is of the programs beside the run if its parent is. A number stays an application's once it was
    /// one.
    fn fork(&mut self, process: u32, parent: u32) {
        if self.applications.contains(&parent) {
            self.applications.insert(process);
        }
        if self.others.contains(&parent) {
            self.others.insert(process);
        } else {
            self.others.remove(&process);
        }
    }
}

impl RawCounters {
    fn now(root: &Root) -> Result<RawCounters, Error> {
        let mut vmstat = counters::vmstat(root)?;
        vmstat.retain(|name, _| KEPT.iter().any(|kept| name.starts_with(kept)));
        let (mut block, mut by_number) = (BTreeMap::new(), BTreeMap::new());
        for device in root.list("/sys/block")? {
            let text = root.read(format!("/sys/block/{device}/stat"))?.unwrap_or_default();
            let numbers = text.split_whitespace().filter_map(|number| number.parse().ok());
            let fields: BTreeMap<&str, u64> = BLOCK_FIELDS.into_iter().zip(numbers).collect();
            if fields.values().all(|&count| count == 0) {
                continue;
            }
            let has_queue = root.exists(format!("/sys/block/{device}/mq"));
            if let Some(number) = number_of(root, &device)?.filter(|_| has_queue) {
                by_number.insert(number, device.clone());
            }
            block.insert(device, fields);
        }
        Ok(RawCounters { vmstat, block, by_number })
    }

    /// The pages that the kernel counted under `name` since `before`.
    fn pages_since(&self, before: &RawCounters, name: &str) -> u64 {
        let count = |counters: &RawCounters| counters.vmstat.get(name).copied().unwrap_or(0);
        count(self).saturating_sub(count(before))
    }

    /// The bytes that the kernel counted in a field of sectors of `device` since `before`.
    fn bytes_since(&self, before: &RawCounters, device: &str, field: &str) -> u64 {
        let sectors = |counters: &RawCounters| {
            counters.block.get(device).and_then(|fields| fields.get(field)).copied().unwrap_or(0)
        };
        sectors(self).saturating_sub(sectors(before)) * SECTOR_BYTES
    }
}

/// The kernel's number of a block device.
fn number_of(root: &Root, device: &str) -> Result<Option<u32>, Error> {
    let text = root.read(format!("/sys/block/{device}/dev"))?.unwrap_or_default();
    let parts = text.trim().split_once(':');
    Ok(parts.and_then(|(major, minor)| {
        Some(system::device_number(major.parse().ok()?, minor.parse().ok()?))
    }))
}

impl Ticks {
    fn now(root: &Root) -> Result<Ticks, Error> {
        Ok(Ticks::parse(&root.read("/proc/stat")?.unwrap_or_default()))
    }

    /// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
    fn parse(text: &str) -> Ticks {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
        let mut ticks = Ticks::default();
        for (place, number) in line.split_whitespace().take(8).enumerate() {
            let count: u64 = number.parse().unwrap_or(0);
            ticks.all += count;
            match place {
                3 | 4 => {}
                7 => ticks.stolen += count,
                _ => ticks.busy += count,
            }
        }
        ticks
    }

    fn since(self, before: Ticks) -> Ticks {
        Ticks {
            busy: self.busy.saturating_sub(before.busy),
            stolen: self.stolen.saturating_sub(before.stolen),
            all: self.all.saturating_sub(before.all),
        }
    }

    fn share(self, part: u64) -> f64 {
        if self.all == 0 { 0.0 } else { part as f64 / self.all as f64 }
    }
}

/// The share of all processors that is busy now, while no application runs.
///
/// # Errors
/// The operating system refuses.
pub(crate) fn load(root: &Root) -> Result<f64, Error> {
    let before = Ticks::now(root)?;
    std::thread::sleep(PAUSE);
    let ticks = Ticks::now(root)?.since(before);
    Ok(ticks.share(ticks.busy))
}

impl Observed {
    /// Reads the counters before the first visit; `load` is what was measured before the recording began.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn begin(root: &Root, load: f64) -> Result<Observed, Error> {
        let others = OtherPrograms::now(root)?;
        let (before, ticks) = (RawCounters::now(root)?, Ticks::now(root)?);
        Ok(Observed { before, ticks, others, kernel_threads: KernelThreads::now(root)?, load })
    }

    /// Reads the counters after the last visit; `group` is the memory cgroup of the run. The load is measured again
    /// later.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn end(self, root: &Root, group: &Path) -> Result<Observation, Error> {
        let counters = Around { before: self.before, after: RawCounters::now(root)? };
        let ticks = Ticks::now(root)?.since(self.ticks);
        let steal_share = ticks.share(ticks.stolen);
        let load_other = self.load.max(ticks.share(self.others.ticks_until_now(root, group)?));
        let kernel_thread_share = ticks.share(self.kernel_threads.ticks_until_now(root)?);
        let checks = Checks { load_other, kernel_thread_share, steal_share, ..Checks::default() };
        Ok(Observation { counters, checks, others: self.others.numbers() })
    }
}

impl Recorded {
    /// Counts the recording at `path`.
    fn count(path: &Path, mut members: Members) -> Result<Recorded, Error> {
        let refused = |error: trace::Error| Error::Refused(error.to_string());
        let input = Input::open(path, false).map_err(refused)?;
        let mut recorded = Recorded::default();
        let Some((_, mut reader)) = read_about(input).map_err(refused)? else {
            return Ok(recorded);
        };
        while let Some(block) = reader.read_block().map_err(refused)? {
            let RecordingBlock::Records(records) = block else { continue };
            for record in &records {
                recorded.add(record, &mut members);
            }
        }
        Ok(recorded)
    }

    fn add(&mut self, record: &Record, members: &mut Members) {
        let pages = u64::from(record.pages);
        // The first entry of an area is its header. Without an entry, it is a direct transfer of a program's own
        // memory, such as of swapd to its slow tier.
        let has_entry = record.object != 0;
        let is_foreign = !members.applications.contains(&record.process);
        match record.kind {
            kind::FORK => members.fork(record.process, record.auxiliary),
            kind::SWAP_READ if has_entry => self.pages_read += pages,
            kind::SWAP_WRITE if has_entry => self.pages_written += pages,
            kind::SWAP_IN => {
                self.swap_ins += pages;
                self.foreign_swap_ins += if is_foreign { pages } else { 0 };
            }
            kind::PAGE_OUT if record.flags & flag::NO_OWNER == 0 => {
                self.page_outs += pages;
                self.foreign_page_outs += if is_foreign { pages } else { 0 };
            }
            kind::BLOCK if record.flags & flag::IS_OTHER == 0 => {
                let way = usize::from(record.flags & flag::WRITES != 0);
                self.requested.entry(record.device).or_default()[way] += record.object;
                if members.others.contains(&record.process) {
                    self.foreign_requested[way] += record.object;
                }
            }
            _ => {}
        }
    }

    /// The shares of all bytes read and of all bytes written that programs beside the run had read and written.
    fn foreign_request_shares(&self) -> [Option<f64>; 2] {
        [0, 1].map(|way| {
            let all: u64 = self.requested.values().map(|bytes| bytes[way]).sum();
            (all >= COMPARED_BYTES).then(|| self.foreign_requested[way] as f64 / all as f64)
        })
    }

    /// Bytes read and written over those that the kernel counted, each of the device where the two differ most.
    fn request_ratios(&self, counters: &Around) -> [Option<f64>; 2] {
        let Around { before, after } = counters;
        let mut worst: [Option<f64>; 2] = [None; 2];
        for (number, device) in &after.by_number {
            let recorded = self.requested.get(number).copied().unwrap_or_default();
            for (place, field) in ["read_sectors", "write_sectors"].into_iter().enumerate() {
                let counted = after.bytes_since(before, device, field);
                let ratio = recorded[place] as f64 / counted as f64;
                let is_worse =
                    worst[place].is_none_or(|old| (ratio - 1.0).abs() > (old - 1.0).abs());
                if counted >= COMPARED_BYTES && is_worse {
                    worst[place] = Some(ratio);
                }
            }
        }
        worst
    }
}

impl Validity {
    /// Judges a run by its counters and its recording. `load` is that after the visits; `processes`
    /// are those of the applications; `is_complete` says whether every visit was made.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub(crate) fn of(
        observation: Observation,
        load: f64,
        recording: &Recording<'_>,
        processes: &BTreeSet<u32>,
        is_complete: bool,
    ) -> Result<Validity, Error> {
        let Observation { counters, mut checks, others } = observation;
        let mut invalid_because = Vec::new();
        checks.load_other = checks.load_other.max(load);
        if !is_complete {
            invalid_because.push("it was not finished".to_owned());
        }
        match recording {
            Recording::None => invalid_because.push("it was not recorded".to_owned()),
            Recording::Failed(why) => invalid_because.push(format!("the recording failed: {why}")),
            Recording::Made { path, lost } => {
                if *lost > 0 {
                    invalid_because.push(format!("the recorder lost {lost} events"));
                }
                let members = Members { applications: processes.clone(), others };
                let recorded = Recorded::count(path, members)?;
                let kernel = |name| counters.after.pages_since(&counters.before, name);
                let ratio = |pages: u64, all: u64| (all > 0).then(|| pages as f64 / all as f64);
                checks.swapin_ratio = ratio(recorded.pages_read, kernel("pswpin"));
                checks.swapout_ratio = ratio(recorded.pages_written, kernel("pswpout"));
                [checks.block_read_ratio, checks.block_write_ratio] =
                    recorded.request_ratios(&counters);
                checks.foreign_swapin_share = ratio(recorded.foreign_swap_ins, recorded.swap_ins);
                checks.foreign_swapout_share =
                    ratio(recorded.foreign_page_outs, recorded.page_outs);
                [checks.foreign_read_share, checks.foreign_write_share] =
                    recorded.foreign_request_shares();
                if recorded.swap_ins == 0 && kernel("pswpin") > 0 {
                    invalid_because.push("no swap-in has a process".to_owned());
                }
            }
        }
        invalid_because.extend(checks.failed());
        Ok(Validity { invalid_because, counters, checks })
    }
}

impl Checks {
    fn failed(&self) -> Vec<String> {
        let ratios = [
            ("swap-ins", self.swapin_ratio),
            ("swap-outs", self.swapout_ratio),
            ("bytes read from a disk", self.block_read_ratio),
            ("bytes written to a disk", self.block_write_ratio),
        ];
        let mut failed: Vec<String> = ratios
            .into_iter()
            .filter_map(|(what, ratio)| Some((what, ratio?)))
            .filter(|(_, ratio)| (ratio - 1.0).abs() > RATIO_TOLERANCE)
            .map(|(what, ratio)| format!("{ratio:.3} of the kernel's {what} were recorded"))
            .collect();
        let shares = [
            ("swap-ins", self.foreign_swapin_share, FOREIGN_SHARE_MAX),
            ("swap-outs", self.foreign_swapout_share, FOREIGN_SHARE_MAX),
            ("bytes read from disks", self.foreign_read_share, FOREIGN_BYTES_SHARE_MAX),
            ("bytes written to disks", self.foreign_write_share, FOREIGN_BYTES_SHARE_MAX),
        ];
        for (what, share, most) in shares {
            if let Some(share) = share.filter(|&share| share > most) {
                failed.push(format!("{:.1} % of the {what} are of other programs", share * 100.0));
            }
        }
        if self.load_other > LOAD_MAX {
            let percent = self.load_other * 100.0;
            failed.push(format!("other programs use {percent:.0} % of the processors"));
        }
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_busy_stolen_or_idle() {
        let before = Ticks::parse("cpu  10 1 5 100 20 1 2 3 0 0\ncpu0 1 1 1 1\n");
        assert_eq!(before, Ticks { busy: 19, stolen: 3, all: 142 });
        let ticks = Ticks::parse("cpu  20 1 5 180 20 1 2 13 0 0\n").since(before);
        assert_eq!((ticks.share(ticks.busy), ticks.share(ticks.stolen)), (0.1, 0.1));
        assert_eq!(Ticks::parse("").share(1), 0.0);
    }

    #[test]
    fn counters_of_paging_and_of_devices_with_requests_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let write = |path: &str, text: &str| {
            let path = root.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("/proc/vmstat", "nr_free_pages 7\npswpin 5\npgmajfault 9\n");
        write("/sys/block/vda/stat", " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n");
        write("/sys/block/vda/dev", "254:3\n");
        write("/sys/block/vda/mq/0", "");
        write("/sys/block/zram0/stat", "1 2 3 4 5 6 7 8 9 10 11\n");
        write("/sys/block/zram0/dev", "253:0\n");
        write("/sys/block/loop0/stat", "0 0 0 0 0 0 0 0 0 0 0\n");
        let found = RawCounters::now(&root).unwrap();
        assert_eq!(found.vmstat, [("pgmajfault".to_owned(), 9), ("pswpin".to_owned(), 5)].into());
        assert_eq!(found.block.keys().collect::<Vec<_>>(), ["vda", "zram0"]);
        assert_eq!(found.by_number, [(254 << 20 | 3, "vda".to_owned())].into());
        let disk = &found.block["vda"];
        assert_eq!((disk["read_ios"], disk["write_sectors"], disk["flush_ticks"]), (1, 7, 17));
        write("/proc/vmstat", "pswpin 25\n");
        let later = RawCounters::now(&root).unwrap();
        assert_eq!(later.pages_since(&found, "pswpin"), 20);
        assert_eq!(later.pages_since(&found, "pswpout"), 0);
    }

    #[test]
    fn requests_are_compared_for_each_device_that_queues_them() {
        let counters = |sectors: [u64; 4]| {
            let fields =
                |read, written| [("read_sectors", read), ("write_sectors", written)].into();
            let [vda_read, vda_written, vdb_read, vdb_written] = sectors;
            let block = [("vda", vda_read, vda_written), ("vdb", vdb_read, vdb_written)];
            RawCounters {
                block: block
                    .map(|(name, read, wrote)| (name.to_owned(), fields(read, wrote)))
                    .into(),
                by_number: [(1, "vda".to_owned()), (2, "vdb".to_owned())].into(),
                ..RawCounters::default()
            }
        };
        let after = counters([200_000, 40_000, 100_000, 32_767]);
        let around = Around { before: counters([100_000, 40_000, 0, 0]), after };
        let bytes = 100_000 * SECTOR_BYTES;
        let recorded = |first, second| {
            let requested = [(1, [first, 7]), (2, [second, 0])].into();
            Recorded { requested, ..Recorded::default() }.request_ratios(&around)
        };
        // Too few bytes were written to compare them.
        assert_eq!(recorded(bytes, bytes / 2), [Some(0.5), None]);
        assert_eq!(recorded(bytes * 2, bytes), [Some(2.0), None]);
        assert_eq!(Recorded::default().request_ratios(&around), [Some(0.0), None]);
    }

    /// Counts records, of which 7 is an application, 20 a program beside the run, and 30 the lab.
    fn counted(records: &[Record]) -> Recorded {
        let mut members = Members { applications: [7].into(), others: [20, 21].into() };
        let mut recorded = Recorded::default();
        records.iter().for_each(|record| recorded.add(record, &mut members));
        recorded
    }

    #[test]
    fn page_outs_are_of_the_owner_of_the_page() {
        let out = |process, reclaimer, pages, flags| Record {
            kind: kind::PAGE_OUT,
            auxiliary: reclaimer,
            ..Record { process, pages, flags, ..Record::default() }
        };
        let fork = |process, parent| Record {
            kind: kind::FORK,
            process,
            auxiliary: parent,
            ..Record::default()
        };
        // 20 reclaims memory of the application; a child of the application that no look saw owns pages too.
        let found = counted(&[
            out(7, 20, 90, 0),
            out(20, 7, 3, 0),
            out(0, 7, 50, flag::NO_OWNER),
            out(8, 8, 1, 0),
            fork(8, 7),
            out(8, 8, 7, 0),
        ]);
        assert_eq!((found.page_outs, found.foreign_page_outs), (101, 4));
    }

    #[test]
    fn requests_are_of_programs_beside_the_run_and_of_what_they_start() {
        let request = |process, mebibytes: u64, flags| Record {
            kind: kind::BLOCK,
            object: mebibytes << 20,
            ..Record { process, flags, device: 1, ..Record::default() }
        };
        let fork = |process, auxiliary| Record {
            kind: kind::FORK,
            ..Record { process, auxiliary, ..Record::default() }
        };
        let found = counted(&[
            request(7, 60, 0),
            // The lab, a kernel thread, and a request that moves nothing.
            request(30, 20, 0),
            request(2, 10, flag::WRITES),
            request(20, 99, flag::IS_OTHER),
            request(20, 4, 0),
            // A grandchild of a program beside the run. Both it and its parent end before the run does.
            fork(40, 20),
            fork(41, 40),
            Record { kind: kind::EXIT, process: 40, ..Record::default() },
            request(41, 6, 0),
            request(41, 5, flag::WRITES),
            // An application gets the number of a program that has ended.
            fork(21, 30),
            request(21, 10, 0),
        ]);
        assert_eq!(found.foreign_requested, [10 << 20, 5 << 20]);
        // 15 MiB were written, too few to judge.
        assert_eq!(found.foreign_request_shares(), [Some(0.1), None]);
        assert_eq!(counted(&[request(7, 16, 0)]).foreign_request_shares(), [Some(0.0), None]);
    }

    #[test]
    fn each_check_has_its_reason() {
        let good = Checks {
            swapin_ratio: Some(0.98),
            swapout_ratio: None,
            block_read_ratio: Some(1.02),
            block_write_ratio: None,
            foreign_swapin_share: Some(0.01),
            foreign_swapout_share: Some(0.01),
            foreign_read_share: Some(0.03),
            foreign_write_share: None,
            load_other: 0.1,
            kernel_thread_share: 0.5,
            steal_share: 0.5,
        };
        assert_eq!(good.failed(), [""; 0]);
        let bad = Checks {
            swapin_ratio: Some(1.04),
            swapout_ratio: Some(0.9),
            block_read_ratio: Some(0.5),
            block_write_ratio: Some(1.2),
            foreign_swapin_share: Some(0.02),
            foreign_swapout_share: Some(0.031),
            foreign_read_share: Some(0.032),
            foreign_write_share: Some(0.5),
            load_other: 0.3,
            ..good
        };
        let failed = [
            "1.040 of the kernel's swap-ins were recorded",
            "0.900 of the kernel's swap-outs were recorded",
            "0.500 of the kernel's bytes read from a disk were recorded",
            "1.200 of the kernel's bytes written to a disk were recorded",
            "2.0 % of the swap-ins are of other programs",
            "3.1 % of the swap-outs are of other programs",
            "3.2 % of the bytes read from disks are of other programs",
            "50.0 % of the bytes written to disks are of other programs",
            "other programs use 30 % of the processors",
        ];
        assert_eq!(bad.failed(), failed);
    }

    #[test]
    fn a_run_without_a_recording_or_an_end_is_not_valid() {
        let judged = |recording| {
            Validity::of(Observation::default(), 0.2, &recording, &BTreeSet::new(), false).unwrap()
        };
        let failed = judged(Recording::Failed("No space left on device".to_owned()));
        assert_eq!(failed.invalid_because[1], "the recording failed: No space left on device");
        let judged = judged(Recording::None);
        let reasons = [
            "it was not finished",
            "it was not recorded",
            "other programs use 20 % of the processors",
        ];
        assert_eq!(judged.invalid_because, reasons);
    }
}
