//! Keeps the counts of memory cgroups fresh while programs swap: where reclaim relies on them, the OOM killer would
//! otherwise end programs in small groups ([`linux::group_counts`]).

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use linux::Root;
use linux::group_counts::GroupCounts;

use crate::Error;
use crate::statistics::Statistics;

/// How often the counts are added up: 10,000 faults a second take 200 pages in between.
const PERIOD: Duration = Duration::from_millis(20);
/// How long the thread waits for the next request at most, before it looks whether the server has ended.
const WAITS_AT_MOST: Duration = Duration::from_secs(1);
/// Periods between two searches for new groups.
const PERIODS_PER_SEARCH: u32 = 25;
/// More than the thread needs: all memory of this process is locked.
const STACK_BYTES: usize = 64 << 10;

/// Starts a thread that adds the counts up while `statistics` change, waits while they do not, and ends with them. Returns
/// what was refused.
pub(crate) fn keep(root: &Root, statistics: &Arc<Statistics>) -> Option<String> {
    let started = GroupCounts::open(root).map_err(Error::from).and_then(|counts| {
        let Some(counts) = counts else { return Ok(()) };
        let changing = Arc::downgrade(statistics);
        let thread = thread::Builder::new().name("counts".to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn(move || add_up_while_changing(counts, &changing));
        let thread = thread.map_err(|error| Error::refused("start a thread", error))?;
        statistics.follow(thread.thread().clone());
        Ok(())
    });
    let error = started.err()?;
    Some(format!("{error}; the OOM killer may end programs in small memory cgroups"))
}

fn add_up_while_changing(mut counts: GroupCounts, statistics: &Weak<Statistics>) {
    let (mut last, mut periods) = (0, 0);
    while let Some(pages) = pages(statistics) {
        if pages == last {
            // The next pages end this; those that swapd counts within the period are seen after it.
            thread::park_timeout(WAITS_AT_MOST);
        } else {
            if periods % PERIODS_PER_SEARCH == 0 {
                counts.find_groups();
            }
            counts.add_up();
            (last, periods) = (pages, periods + 1);
        }
        thread::sleep(PERIOD);
    }
}

/// Pages read and written so far; None once nothing else holds the statistics.
fn pages(statistics: &Weak<Statistics>) -> Option<u64> {
    let statistics = statistics.upgrade()?;
    let tiers = [&statistics.fast, &statistics.slow];
    Some(tiers.iter().map(|tier| tier.reads.get() + tier.writes.get()).sum())
}
