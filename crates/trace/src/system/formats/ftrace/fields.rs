//! The fields of an event by the kernel's names, from the text of its line: as the kernel prints it (`TP_printk`
//! in include/trace/events), as `trace-cmd report -R` prints it, and for sched_switch and wakeups also as the
//! plugin of libtraceevent does (`COMM:PID [PRIORITY] STATE ==> COMM:PID [PRIORITY]`).

use memchr::memmem;

use super::keys::{COMM_BYTES_MAX, Keys};
use super::request::Request;
use crate::system::kernel::Fields;
use crate::text::{decimal, decimal_or_hex, skip_blanks, take_decimal};

/// log2 of the bytes of a page in the offsets of page-cache events.
const PAGE_SHIFT: u32 = 12;

/// The fields of an event.
pub(super) struct TextFields<'line> {
    event: &'line [u8],
    text: &'line [u8],
    keys: Keys<'line>,
    shape: Printed<'line>,
}

/// Texts that are not pairs.
enum Printed<'line> {
    /// Only pairs.
    Pairs,
    /// A block request.
    Request(Request<'line>),
    /// A region of DAMON: first and last address, accesses, and age if the kernel has it.
    Region([&'line [u8]; 4]),
    /// A switch by the plugin.
    Switch(Task<'line>, &'line [u8], Task<'line>),
    /// A wakeup by the plugin.
    Wake(Task<'line>, Option<&'line [u8]>),
}

/// A task as the plugin prints it.
#[derive(Clone, Copy)]
struct Task<'line> {
    comm: &'line [u8],
    pid: &'line [u8],
    priority: &'line [u8],
}

impl<'line> TextFields<'line> {
    /// The fields of an event with this name and text.
    pub(super) fn of(event: &'line [u8], text: &'line [u8]) -> TextFields<'line> {
        let text = text.trim_ascii();
        let keys = Keys::of(event, text);
        let shape = match event {
            // A command may look like a pair, so the pairs before and after it decide.
            b"sched_switch"
                if !text.starts_with(b"prev_comm=")
                    || keys.get(b"prev_pid").is_none()
                    || keys.get(b"next_pid").is_none() =>
            {
                plugin_switch(text)
            }
            b"sched_waking" | b"sched_wakeup" | b"sched_wakeup_new"
                if !text.starts_with(b"comm=")
                    || keys.get(b"pid").is_none()
                    || keys.get(b"prio").is_none() =>
            {
                plugin_wake(text)
            }
            b"damon_aggregated" if keys.get(b"start").is_none() => region(text),
            b"block_bio_queue" | b"block_rq_issue" | b"block_rq_complete" => {
                Request::parse(text).map(Printed::Request)
            }
            _ => None,
        };
        TextFields { event, text, keys, shape: shape.unwrap_or(Printed::Pairs) }
    }

    /// The text of a field that is printed other than as a pair of its own name.
    fn special(&self, name: &str) -> Option<&'line [u8]> {
        match (&self.shape, name) {
            (Printed::Request(request), "rwbs") => Some(request.rwbs),
            // At completion the brackets hold the error.
            (Printed::Request(request), "comm") if self.event != b"block_rq_complete" => {
                let open = memchr::memchr(b'[', request.rest)?;
                request.rest[open + 1..].strip_suffix(b"]")
            }
            (Printed::Region([start, ..]), "start") => Some(*start),
            (Printed::Region([_, end, ..]), "end") => Some(*end),
            (Printed::Region([_, _, accesses, _]), "nr_accesses") => Some(*accesses),
            (Printed::Region([.., age]), "age") => Some(*age).filter(|age| !age.is_empty()),
            (Printed::Switch(prev, ..), "prev_comm") => Some(prev.comm),
            (Printed::Switch(prev, ..), "prev_pid") => Some(prev.pid),
            (Printed::Switch(prev, ..), "prev_prio") => Some(prev.priority),
            (Printed::Switch(_, state, _), "prev_state") => Some(*state),
            (Printed::Switch(.., next), "next_comm") => Some(next.comm),
            (Printed::Switch(.., next), "next_pid") => Some(next.pid),
            (Printed::Switch(.., next), "next_prio") => Some(next.priority),
            (Printed::Wake(task, _), "comm") => Some(task.comm),
            (Printed::Wake(task, _), "pid") => Some(task.pid),
            (Printed::Wake(task, _), "prio") => Some(task.priority),
            (Printed::Wake(_, cpu), "target_cpu") => *cpu,
            _ => None,
        }
    }

    /// The name of a pair under which the kernel prints a field.
    fn printed(&self, name: &str) -> Option<&'static str> {
        Some(match (self.event, name) {
            (b"sched_blocked_reason", "io_wait") => "iowait",
            (b"sched_process_fork", "parent_pid") => "pid",
            _ => return None,
        })
    }

    fn value(&self, name: &str) -> Option<&'line [u8]> {
        let pair = |name: &str| self.keys.get(name.as_bytes());
        self.special(name).or_else(|| pair(name)).or_else(|| pair(self.printed(name)?))
    }

    /// Numbers of a page-cache event: `dev 8:1 ino 3f page=0x0 pfn=0x0 ofs=4096 order=0`.
    fn cache_number(&self, name: &str) -> Option<i64> {
        let word = |name: &[u8]| {
            let rest = &self.text[memmem::find(self.text, name)? + name.len()..];
            Some(&rest[..memchr::memchr(b' ', rest).unwrap_or(rest.len())])
        };
        match name {
            "s_dev" => device(word(b"dev ")?, b':'),
            "i_ino" => hexadecimal(word(b"ino ")?),
            "index" => {
                let offset = decimal(self.keys.get(b"ofs")?)?;
                Some((offset >> PAGE_SHIFT) as i64)
            }
            _ => None,
        }
    }

    /// Numbers of the former killer of Android: `NAME (PID), page cache 1kB (limit 2kB), free 3Kb`.
    fn killed_number(&self, name: &str) -> Option<i64> {
        let open = memmem::rfind(self.text, b" (limit").and_then(|limit| {
            memmem::rfind(&self.text[..limit], b" (").map(|open| (open, &self.text[open + 2..]))
        });
        let (_, rest) = open?;
        let after = |word: &[u8]| Some(&rest[memmem::find(rest, word)? + word.len()..]);
        match name {
            "pid" => take_signed(rest),
            "pagecache_size" => take_signed(after(b"page cache ")?),
            "free" => take_signed(after(b"free ")?),
            _ => None,
        }
    }

    /// The text of a marker, without the address or function that wrote it.
    fn marker(&self) -> &'line [u8] {
        if let Some(place) = memmem::find(self.text, b"buf=")
            && self.text.starts_with(b"ip=")
        {
            return &self.text[place + 4..];
        }
        if let Some(rest) = self.text.strip_prefix(b"tracing_mark_write: ") {
            return rest;
        }
        let colon = memmem::find(self.text, b": ");
        match colon.map(|colon| (&self.text[..colon], &self.text[colon + 2..])) {
            Some((address, rest)) if hexadecimal(address).is_some() => rest,
            _ => self.text,
        }
    }
}

impl Fields for TextFields<'_> {
    fn number(&self, name: &str) -> Option<i64> {
        if let Some(value) = self.value(name) {
            return match name {
                "clone_flags" | "i_ino" => hexadecimal(value),
                "prev_state" => decimal_or_hex(value).map(|number| number as i64),
                _ => number(value),
            };
        }
        match (&self.shape, name) {
            (Printed::Request(request), "dev") => device(request.device, b','),
            (Printed::Request(request), "sector") => Some(request.sector as i64),
            (Printed::Request(request), "nr_sector") => i64::try_from(request.sectors).ok(),
            (_, "reclaim_flags") => self.keys.get(b"flags").map(reclaim_flags),
            _ => match self.event {
                b"mm_filemap_add_to_page_cache" | b"mm_filemap_delete_from_page_cache" => {
                    self.cache_number(name)
                }
                b"lowmemory_kill" => self.killed_number(name),
                _ => None,
            },
        }
    }

    fn text(&self, name: &str) -> Option<&[u8]> {
        match (self.event, name) {
            (b"print" | b"tracing_mark_write", "buf") => Some(self.marker()),
            (b"lowmemory_kill", "comm") if self.value(name).is_none() => {
                let limit = memmem::rfind(self.text, b" (limit")?;
                Some(&self.text[..memmem::rfind(&self.text[..limit], b" (")?])
            }
            _ => self.value(name),
        }
    }
}

/// A number with an optional sign, in hexadecimal after `0x`, and an optional unit `B` after it.
fn number(text: &[u8]) -> Option<i64> {
    let text = text.strip_suffix(b"B").unwrap_or(text);
    match text.strip_prefix(b"-") {
        Some(digits) => 0i64.checked_sub_unsigned(decimal(digits)?),
        None => decimal_or_hex(text).map(|number| number as i64),
    }
}

/// The number with an optional sign that a text begins with.
fn take_signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(rest) => 0i64.checked_sub_unsigned(take_decimal(rest)?.0),
        None => i64::try_from(take_decimal(text)?.0).ok(),
    }
}

fn hexadecimal(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let number = digits.iter().try_fold(0u64, |number, &digit| {
        Some((number << 4) | u64::from((digit as char).to_digit(16)?))
    });
    number.map(|number| number as i64)
}

/// The number of a device, as the kernel stores it.
fn device(text: &[u8], delimiter: u8) -> Option<i64> {
    let place = memchr::memchr(delimiter, text)?;
    let (major, minor) = (decimal(&text[..place])?, decimal(&text[place + 1..])?);
    (major < 1 << 12 && minor < 1 << 20).then_some(((major << 20) | minor) as i64)
}

/// The bits of reclaim_flags (include/trace/events/vmscan.h) in `RECLAIM_WB_ANON|RECLAIM_WB_ASYNC`.
fn reclaim_flags(text: &[u8]) -> i64 {
    let bits = text.split(|&byte| byte == b'|').map(|flag| match flag {
        b"RECLAIM_WB_ANON" => 1,
        b"RECLAIM_WB_FILE" => 2,
        b"RECLAIM_WB_MIXED" => 0x10,
        b"RECLAIM_WB_SYNC" => 4,
        b"RECLAIM_WB_ASYNC" => 8,
        _ => 0,
    });
    bits.fold(0, |flags, bit| flags | bit)
}

/// `target_id=1 nr_regions=2 START-END: ACCESSES AGE`; the age is absent before Linux 6.
fn region(text: &[u8]) -> Option<Printed<'_>> {
    let rest = skip_blanks(&text[memmem::find(text, b"nr_regions=")?..]);
    let rest = &rest[memchr::memchr(b' ', rest)? + 1..];
    let (range, counts) = (memchr::memchr(b':', rest)?, memchr::memchr(b'-', rest)?);
    let (start, end) = (rest.get(..counts)?, rest.get(counts + 1..range)?);
    let mut words = rest[range + 1..].split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    Some(Printed::Region([start, end, words.next()?, words.next().unwrap_or_default()]))
}

/// `COMM:PID [PRIORITY]` at the beginning of a text, and the rest. A command name may hold brackets and colons.
fn task(text: &[u8]) -> Option<(Task<'_>, &[u8])> {
    let mut found = None;
    for open in memmem::find_iter(text, b" [") {
        if open > COMM_BYTES_MAX + 12 {
            break;
        }
        let Some(colon) = memchr::memrchr(b':', &text[..open]) else { continue };
        let (comm, pid) = (&text[..colon], &text[colon + 1..open]);
        let Some((_, after)) = take_decimal(&text[open + 2..]) else { continue };
        let priority = &text[open + 2..text.len() - after.len()];
        if decimal(pid).is_some() && comm.len() <= COMM_BYTES_MAX && after.starts_with(b"]") {
            found = Some((Task { comm, pid, priority }, &after[1..]));
        }
    }
    found
}

fn plugin_switch(text: &[u8]) -> Option<Printed<'_>> {
    let (prev, rest) = task(text)?;
    let (state, rest) = crate::text::take_word(rest)?;
    // The plugin has the letters of old kernels for idle and parked threads.
    let state: &[u8] = match state {
        b"W" => b"I",
        b"x" => b"P",
        other => other,
    };
    let (next, _) = task(skip_blanks(rest).strip_prefix(b"==> ")?)?;
    Some(Printed::Switch(prev, state, next))
}

fn plugin_wake(text: &[u8]) -> Option<Printed<'_>> {
    let (task, rest) = task(text)?;
    let cpu = memmem::find(rest, b"CPU:").map(|place| &rest[place + 4..]);
    Some(Printed::Wake(task, cpu))
}
