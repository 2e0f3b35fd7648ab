//! CPU time of processes, and how long they waited for a processor.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::stat::Stat;
use crate::{Error, Root, process, system};

/// utime, stime, cutime and cstime: CPU time of a process and of its ended children.
const TICK_FIELDS: RangeInclusive<usize> = 14..=17;

/// CPU time of some processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// CPU time of the processes and of their ended children, with the precision of a tick (`system::tick`).
    pub ran: Duration,
    /// Time in which their living threads were ready to run but did not.
    pub waited: Duration,
}

/// The times of `processes`; those that have ended count as zero.
pub fn of(root: &Root, processes: &[u32]) -> Times {
    let mut times = Times::default();
    for &process in processes {
        times.ran += ran(root, process).unwrap_or_default();
        let tasks = format!("/proc/{process}/task");
        // A process may end after it was listed.
        for task in root.list(&tasks).unwrap_or_default() {
            let task = schedule(root, &format!("{tasks}/{task}/schedstat"));
            times.waited += task.unwrap_or_default().waited;
        }
    }
    times
}

/// CPU time of the kswapd threads of all nodes so far.
///
/// # Errors
/// The operating system refuses.
pub fn kswapd(root: &Root) -> Result<Duration, Error> {
    let mut ran = Duration::ZERO;
    for process in process::all(root)? {
        if process::name(root, process).is_some_and(|name| name.starts_with("kswapd")) {
            ran += schedule(root, &format!("/proc/{process}/schedstat")).unwrap_or_default().ran;
        }
    }
    Ok(ran)
}

fn ran(root: &Root, process: u32) -> Option<Duration> {
    let text = root.read(format!("/proc/{process}/stat")).ok()??;
    let stat = Stat::parse(text.as_bytes())?;
    let ticks: u32 = TICK_FIELDS.filter_map(|field| stat.number::<u32>(field)).sum();
    Some(system::tick() * ticks)
}

/// Reads a file `schedstat`: nanoseconds of running, nanoseconds of waiting, and the number of runs.
fn schedule(root: &Root, path: &str) -> Option<Times> {
    let text = root.read(path).ok()??;
    let mut fields = text.split_whitespace().map(|field| field.parse().ok());
    let (ran, waited) = (fields.next()??, fields.next()??);
    Some(Times { ran: Duration::from_nanos(ran), waited: Duration::from_nanos(waited) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_process_with_a_hostile_name_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let tasks = folder.path().join("proc/7/task");
        fs::create_dir_all(tasks.join("7")).expect("made");
        fs::create_dir_all(tasks.join("8")).expect("made");
        let stat = "7 () R 1 (x) S 1 7 7 0 -1 4194304 5 6 7 8 30 12 5 3 20 0 2 0 100 1 1";
        fs::write(folder.path().join("proc/7/stat"), stat).expect("written");
        fs::write(tasks.join("7/schedstat"), "1000 2000 3").expect("written");
        fs::write(tasks.join("8/schedstat"), "10 20 3").expect("written");
        let root = Root::at(folder.path());
        let times = of(&root, &[7, 99]);
        assert_eq!(times.ran, Duration::from_millis(500));
        assert_eq!(times.waited, Duration::from_nanos(2020));
    }

    #[test]
    fn kswapd_threads_are_found_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        for (process, name, ran) in [(40, "kswapd0", 5), (41, "kswapd1", 7), (42, "cat", 9)] {
            let entry = folder.path().join(format!("proc/{process}"));
            fs::create_dir_all(&entry).expect("made");
            fs::write(entry.join("comm"), format!("{name}\n")).expect("written");
            fs::write(entry.join("schedstat"), format!("{ran} 1 1")).expect("written");
        }
        let root = Root::at(folder.path());
        assert_eq!(kswapd(&root).expect("listed"), Duration::from_nanos(12));
    }
}
