//! Decodes kernel events by the kernel's names of events and fields, so that every format of system traces
//! gives the same [`Kind`]. Names are those of tracefs (events/*/*/format); where kernels differ, all names
//! are accepted.
//!
//! Formats call [`decoder`] once for a name, and the [`Decoder`] for each event. `print` and
//! `tracing_mark_write` are decoded by [`marker`].

mod context;
mod marker;
mod state;

pub use context::Context;
pub use marker::marker;
pub use state::{state_of_letters, state_of_number};

use super::{
    BlockRequest, BlockStage, Fault, Kind, Name, Names, RssMember, Switch, TaskState, Wake,
};
use crate::Operation;
use crate::formats::operation_of_rwbs;

/// The fields of one event by the kernel's names. A format whose text has other names translates these:
/// `ofs=` of a page-cache event in bytes becomes `index` in pages, `dev 8:1` becomes `s_dev`.
pub trait Fields {
    /// A number; for a device, major number << 20 | minor number. `None` if the event lacks the field.
    fn number(&self, name: &str) -> Option<i64>;

    /// A text without terminating zeros; `None` if the event lacks the field.
    fn text(&self, name: &str) -> Option<&[u8]>;
}

/// Decodes the events of one name. `None` if a field is missing or impossible.
pub type Decoder = fn(&dyn Fields, Context, &mut Names) -> Option<Kind>;

/// Whether an event with all its fields may have no `Kind`: any program may write texts of its own as markers, and a
/// page of a file that is written back at reclaim is no page-out.
pub fn may_have_no_kind(event: &[u8], fields: &dyn Fields) -> bool {
    match event {
        b"print" | b"tracing_mark_write" => true,
        b"mm_vmscan_writepage" | b"mm_vmscan_write_folio" => {
            ["reclaim_flags", "pfn"].iter().all(|name| fields.number(name).is_some())
        }
        _ => false,
    }
}

/// The decoder of the events with this name; `None` if events of this name have no `Kind`.
pub fn decoder(event: &str) -> Option<Decoder> {
    Some(match event {
        "sched_switch" => switch,
        "sched_waking" => |fields, _, names| wake(Wake::Waking, fields, names),
        "sched_wakeup" => |fields, _, names| wake(Wake::Wakeup, fields, names),
        "sched_wakeup_new" => |fields, _, names| wake(Wake::New, fields, names),
        "sched_blocked_reason" => |fields, _, _| {
            Some(Kind::Blocked {
                tid: number(fields, "pid")?,
                is_io: fields.number("io_wait")? != 0,
                caller: fields.number("caller").unwrap_or(0) as u64,
            })
        },
        "block_bio_queue" => |fields, _, names| block(BlockStage::Queue, fields, names),
        "block_rq_issue" => |fields, _, names| block(BlockStage::Issue, fields, names),
        "block_rq_complete" => |fields, _, names| block(BlockStage::Complete, fields, names),
        "mm_filemap_add_to_page_cache" => |fields, _, _| {
            let (device, inode, page, order) = cache_page(fields)?;
            Some(Kind::PageAdded { device, inode, page, order })
        },
        "mm_filemap_delete_from_page_cache" => |fields, _, _| {
            let (device, inode, page, order) = cache_page(fields)?;
            Some(Kind::PageDeleted { device, inode, page, order })
        },
        "rss_stat" | "rss_stat_throttled" => rss,
        "oom_score_adj_update" => |fields, _, names| {
            Some(Kind::OomScoreAdj {
                pid: number(fields, "pid")?,
                comm: text(fields, "comm", names),
                adj: adj(fields)?,
            })
        },
        "mark_victim" => |fields, _, _| Some(Kind::OomVictim { pid: number(fields, "pid")? }),
        "lowmemory_kill" => |fields, _, names| {
            Some(Kind::LowMemoryKill {
                pid: number(fields, "pid")?,
                comm: text(fields, "comm", names),
                cache_bytes: kib(fields.number("pagecache_size")?) as u64,
                free_bytes: kib(fields.number("free")?),
            })
        },
        "signal_generate" => |fields, _, names| {
            Some(Kind::Signal {
                tid: number(fields, "pid")?,
                signal: number(fields, "sig")?,
                comm: text(fields, "comm", names),
            })
        },
        "damon_aggregated" => region,
        "print" | "tracing_mark_write" => |fields, context, names| match fields.text("buf") {
            Some(text) => marker(text, context, names),
            None => vendor_marker(fields, names),
        },
        _ => return decoder_of_tasks(event).or_else(|| decoder_of_reclaim(event)),
    })
}

fn decoder_of_tasks(event: &str) -> Option<Decoder> {
    Some(match event {
        "sched_process_exit" => |fields, context, names| {
            Some(Kind::Exit {
                // Without the field, the thread that ends is the one that runs.
                tid: number(fields, "pid").filter(|&tid| tid != 0).unwrap_or(context.tid),
                pid: number(fields, "tgid").filter(|&pid| pid != 0),
                comm: text(fields, "comm", names),
            })
        },
        "sched_process_fork" => |fields, _, names| {
            Some(Kind::Fork {
                parent_tid: number(fields, "parent_pid")?,
                tid: number(fields, "child_pid")?,
                comm: text(fields, "child_comm", names),
            })
        },
        "sched_process_exec" => |fields, _, names| {
            let file = text(fields, "filename", names);
            Some(Kind::Exec { pid: number(fields, "pid")?, file })
        },
        "task_newtask" => |fields, _, names| {
            const CLONE_THREAD: i64 = 0x10000;
            Some(Kind::NewTask {
                tid: number(fields, "pid")?,
                comm: text(fields, "comm", names),
                is_thread: fields.number("clone_flags")? & CLONE_THREAD != 0,
                adj: adj(fields)?,
            })
        },
        "task_rename" => |fields, context, names| {
            Some(Kind::Rename {
                tid: number(fields, "pid").filter(|&tid| tid != 0).unwrap_or(context.tid),
                comm: text(fields, "newcomm", names),
                adj: adj(fields)?,
            })
        },
        _ => return None,
    })
}

fn decoder_of_reclaim(event: &str) -> Option<Decoder> {
    Some(match event {
        "mm_vmscan_direct_reclaim_begin" => {
            |fields, _, _| Some(Kind::DirectReclaimBegin { order: order(fields) })
        }
        "mm_vmscan_direct_reclaim_end" => {
            |fields, _, _| Some(Kind::DirectReclaimEnd { pages: pages(fields, "nr_reclaimed")? })
        }
        "mm_vmscan_memcg_reclaim_begin" => {
            |fields, _, _| Some(Kind::CgroupReclaimBegin { order: order(fields) })
        }
        "mm_vmscan_memcg_reclaim_end" => {
            |fields, _, _| Some(Kind::CgroupReclaimEnd { pages: pages(fields, "nr_reclaimed")? })
        }
        "mm_vmscan_kswapd_wake" => |fields, _, _| {
            Some(Kind::KswapdWake { node: number(fields, "nid")?, order: order(fields) })
        },
        "mm_vmscan_kswapd_sleep" => {
            |fields, _, _| Some(Kind::KswapdSleep { node: number(fields, "nid")? })
        }
        "mm_vmscan_lru_shrink_inactive" => |fields, _, _| {
            let flags = fields.number("reclaim_flags");
            Some(Kind::LruShrink {
                node: number(fields, "nid")?,
                scanned: pages(fields, "nr_scanned")?,
                reclaimed: pages(fields, "nr_reclaimed")?,
                is_file: flags.map(|flags| flags & RECLAIM_WB_FILE != 0),
            })
        },
        // A file page that is written back at reclaim has no `Kind`.
        "mm_vmscan_writepage" | "mm_vmscan_write_folio" => |fields, _, _| {
            let is_anonymous = fields.number("reclaim_flags")? & RECLAIM_WB_ANON != 0;
            is_anonymous.then_some(Kind::SwapOut { frame: pages(fields, "pfn")? })
        },
        "mm_compaction_begin" => |_, _, _| Some(Kind::CompactionBegin),
        "mm_compaction_end" => |_, _, _| Some(Kind::CompactionEnd),
        "mm_event_record" => |fields, _, _| {
            Some(Kind::Faults {
                fault: match fields.number("type")? {
                    0 => Fault::Minor,
                    1 => Fault::Major,
                    2 => Fault::ReadIo,
                    3 => Fault::Compaction,
                    4 => Fault::Reclaim,
                    5 => Fault::SwapIn,
                    6 => Fault::KernelAllocation,
                    other => Fault::Other(u8::try_from(other).ok()?),
                },
                count: number(fields, "count")?,
                mean_us: number(fields, "avg_lat")?,
                max_us: number(fields, "max_lat")?,
            })
        },
        _ => return None,
    })
}

/// Largest order of a page-cache event: 32 MiB in pages of 4 KiB, far beyond the kernel's own limit.
const ORDER_MAX: u8 = 13;

/// Flags of reclaim_flags (include/trace/events/vmscan.h).
const RECLAIM_WB_ANON: i64 = 1;
const RECLAIM_WB_FILE: i64 = 2;

fn number(fields: &dyn Fields, name: &str) -> Option<u32> {
    let number = fields.number(name)?;
    // Numbers of 32 bits arrive with and without their sign.
    u32::try_from(number).ok().or_else(|| i32::try_from(number).ok().map(|number| number as u32))
}

fn priority(fields: &dyn Fields, name: &str) -> i32 {
    fields.number(name).and_then(|number| i32::try_from(number).ok()).unwrap_or(0)
}

fn text(fields: &dyn Fields, name: &str, names: &mut Names) -> Name {
    fields.text(name).map_or(Name::NONE, |text| names.intern_needed(text))
}

/// log2 of a number of pages; 0 if the event lacks it.
fn order(fields: &dyn Fields) -> u32 {
    number(fields, "order").unwrap_or(0)
}

fn pages(fields: &dyn Fields, name: &str) -> Option<u64> {
    fields.number(name).map(|number| number as u64)
}

fn kib(number: i64) -> i64 {
    number.saturating_mul(1024)
}

/// The oom_score_adj of an event: a short in the kernel, which some traces store without its sign.
fn adj(fields: &dyn Fields) -> Option<i32> {
    let number = fields.number("oom_score_adj")?;
    i16::try_from(number)
        .or_else(|_| u16::try_from(number).map(|number| number as i16))
        .ok()
        .map(i32::from)
}

fn switch(fields: &dyn Fields, _: Context, names: &mut Names) -> Option<Kind> {
    Some(Kind::Switch(Switch {
        prev_tid: Some(number(fields, "prev_pid")?),
        prev_comm: text(fields, "prev_comm", names),
        prev_priority: priority(fields, "prev_prio"),
        prev_state: task_state(fields)?,
        next_tid: number(fields, "next_pid")?,
        next_comm: text(fields, "next_comm", names),
        next_priority: priority(fields, "next_prio"),
    }))
}

/// The state of a thread as the kernel's number, or as the letters of the text.
fn task_state(fields: &dyn Fields) -> Option<TaskState> {
    match fields.number("prev_state") {
        Some(number) => Some(state_of_number(number)),
        None => fields.text("prev_state").map(state_of_letters),
    }
}

fn wake(wake: Wake, fields: &dyn Fields, names: &mut Names) -> Option<Kind> {
    Some(Kind::Wake {
        wake,
        tid: number(fields, "pid")?,
        comm: text(fields, "comm", names),
        priority: priority(fields, "prio"),
        target_cpu: number(fields, "target_cpu"),
    })
}

fn block(stage: BlockStage, fields: &dyn Fields, names: &mut Names) -> Option<Kind> {
    let letters = fields.text("rwbs")?;
    Some(Kind::Block(BlockRequest {
        stage,
        // A request without letters is a command of a driver.
        operation: if letters.is_empty() {
            Operation::Passthrough
        } else {
            operation_of_rwbs(letters)?
        },
        device: number(fields, "dev")?,
        sector: fields.number("sector")? as u64,
        sectors: number(fields, "nr_sector")?,
        comm: text(fields, "comm", names),
    }))
}

/// Device, inode, page and order of a page-cache event.
fn cache_page(fields: &dyn Fields) -> Option<(u32, u64, u64, u8)> {
    let order = fields.number("order").unwrap_or(0);
    Some((
        number(fields, "s_dev")?,
        fields.number("i_ino")? as u64,
        fields.number("index")? as u64,
        u8::try_from(order).ok().filter(|&order| order <= ORDER_MAX)?,
    ))
}

fn rss(fields: &dyn Fields, _: Context, _: &mut Names) -> Option<Kind> {
    let member = match fields.number("member") {
        Some(0) => RssMember::File,
        Some(1) => RssMember::Anonymous,
        Some(2) => RssMember::Swap,
        Some(3) => RssMember::Shared,
        Some(other) => RssMember::Other(u8::try_from(other).ok()?),
        None => match fields.text("member").or_else(|| fields.text("type"))? {
            b"MM_FILEPAGES" => RssMember::File,
            b"MM_ANONPAGES" => RssMember::Anonymous,
            b"MM_SWAPENTS" => RssMember::Swap,
            b"MM_SHMEMPAGES" => RssMember::Shared,
            _ => RssMember::Other(u8::MAX),
        },
    };
    Some(Kind::Rss {
        mm_id: number(fields, "mm_id").unwrap_or(0),
        is_current: fields.number("curr").map(|current| current != 0),
        member,
        bytes: fields.number("size")?,
    })
}

/// A region of DAMON; a region without addresses is none.
fn region(fields: &dyn Fields, _: Context, _: &mut Names) -> Option<Kind> {
    let (start, end) = (fields.number("start")? as u64, fields.number("end")? as u64);
    (start < end).then_some(Kind::Region {
        target: fields.number("target_id")? as u64,
        start,
        end,
        accesses: number(fields, "nr_accesses")?,
        age: number(fields, "age"),
        regions: number(fields, "nr_regions")?,
    })
}

/// A marker of a driver, with fields in place of a text.
fn vendor_marker(fields: &dyn Fields, names: &mut Names) -> Option<Kind> {
    let pid = number(fields, "pid")?;
    let name = fields.text("trace_name").or_else(|| fields.text("name"))?;
    match fields.number("trace_begin")? {
        0 => Some(Kind::SliceEnd { pid }),
        _ => Some(Kind::SliceBegin { pid, name: names.intern(name) }),
    }
}

#[cfg(test)]
mod tests;
