//! `minfree`: Android's low memory killer of the kernel (S2; drivers/staging/android/lowmemorykiller.c
//! of Linux 3.10): a table of free memory and adj. The driver's exact rule counts the cache of files
//! as free; the paper's does not.

use types::{Bytes, PAGE_BYTES};

use super::ranking::{Ranking, Score};
use super::{Decision, KillPolicy, Memory, Snapshot};
use crate::options::{OptionRow, Values};

pub(super) const OPTIONS: &[OptionRow] = &[
    OptionRow {
        name: "minfree_levels",
        // Android's default on a phone of 2 GB (ProcessList.java, mOomMinFreeHigh).
        default: "18432:0,23040:100,27648:200,32256:250,36864:900,46080:950",
        summary: "PAGES:ADJ,...: below PAGES free pages, a process with at least this adj dies",
    },
    OptionRow {
        name: "file_cache_counts",
        default: "true",
        summary: "whether the file cache must be below the level, too, as in the driver",
    },
];

/// The levels, by ascending number of pages.
struct Minfree {
    levels: Vec<Level>,
    file_cache_counts: bool,
}

#[derive(Clone, Copy)]
struct Level {
    pages: u64,
    adj: i16,
}

pub(super) fn make(values: &Values<'_>) -> Result<Box<dyn KillPolicy>, String> {
    let name = "minfree_levels";
    let wrong = || values.wrong(name, "such as 1024:0,4096:800, pages and adj from -999 to 1000");
    let level = |text: &str| {
        let (pages, adj) = text.trim().split_once(':')?;
        let level = Level { pages: pages.parse().ok()?, adj: adj.parse().ok()? };
        (-999..=1000).contains(&level.adj).then_some(level)
    };
    let mut levels: Vec<Level> =
        values.text(name).split(',').map(level).collect::<Option<_>>().ok_or_else(wrong)?;
    levels.sort_by_key(|level| level.pages);
    Ok(Box::new(Minfree { levels, file_cache_counts: values.is_set("file_cache_counts")? }))
}

impl Minfree {
    /// Pages that the rule compares with a level.
    fn pages(&self, memory: &Memory) -> u64 {
        if self.file_cache_counts {
            // Both must be low: the larger decides.
            let free = memory.free.0.saturating_sub(memory.reserved.0);
            return free.max(memory.files.0) / PAGE_BYTES;
        }
        memory.free.pages()
    }
}

impl KillPolicy for Minfree {
    fn decide(&mut self, snapshot: &Snapshot<'_>, ranking: &mut Ranking) -> Decision {
        ranking.clear();
        let pages = self.pages(&snapshot.memory);
        let Some(level) = self.levels.iter().find(|level| pages < level.pages) else {
            return Decision::Spare { why: "free memory is above every level" };
        };
        ranking.rank(snapshot, |candidate| {
            // Shifted by 1000 so that it orders as an unsigned number.
            let adj = i64::from(candidate.adj) + 1000;
            (candidate.adj >= level.adj).then_some(Score(adj as u64, candidate.resident.0))
        });
        Decision::first("free memory is below a level of the table", ranking)
    }

    fn margin(&self, memory: &Memory) -> Bytes {
        let most = self.levels.last().map_or(0, |level| level.pages);
        Bytes(self.pages(memory).saturating_sub(most) * PAGE_BYTES)
    }
}
