//! Events of the backend `btf`: 48 bytes each, as crates/recorder/bpf/kills.h describes.

use super::event::{Event, What};

/// Bytes of an event.
pub const EVENT_BYTES: usize = 48;

/// The kinds of events by number. crates/recorder/bpf/kills.h describes the words of each kind.
mod kind {
    pub const KILL_CALL: u32 = 1;
    pub const KILL_CALL_ENDS: u32 = 2;
    pub const WAKES: u32 = 3;
    pub const SIGNAL_GENERATED: u32 = 4;
    pub const SIGNAL_DELIVERED: u32 = 5;
    pub const THREAD_ENDS: u32 = 6;
    pub const LOCK_WANTED: u32 = 7;
    pub const LOCK_TAKEN: u32 = 8;
    pub const MEMORY_GONE: u32 = 9;
    pub const RESIDENT: u32 = 10;
    pub const RELEASE_CALL: u32 = 11;
    pub const RELEASE_CALL_ENDS: u32 = 12;
    pub const CHOSEN: u32 = 13;
    pub const REAPER_BEGINS: u32 = 14;
    pub const REAPER_ENDS: u32 = 15;
    pub const RECLAIM_BEGINS: u32 = 16;
    pub const RECLAIM_ENDS: u32 = 17;
    pub const KSWAPD_WAKES: u32 = 18;
    pub const KSWAPD_SLEEPS: u32 = 19;
    pub const NEW_TASK: u32 = 20;
}

/// A word without a value from the kernel.
const UNSAID: u64 = u64::MAX;

/// Decodes an event of the BPF program; `None` for an unknown kind.
pub fn event(bytes: &[u8; EVENT_BYTES]) -> Option<Event> {
    let word = |at: usize| {
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("the range has 8 bytes"))
    };
    let (time_ns, first, second) = (word(0), word(16), word(24));
    let (thread, number) = (word(8) as u32, (word(8) >> 32) as u32);
    let (reported, target) = ((second != UNSAID).then_some(second), first as u32);
    let what = match number {
        kind::KILL_CALL => What::KillCall,
        kind::KILL_CALL_ENDS => What::KillCallEnds,
        kind::WAKES => What::Wakes { thread: target },
        kind::SIGNAL_GENERATED => What::SignalGenerated {
            target,
            code: second as i32,
            name: bytes[32..].try_into().expect("16 bytes are left"),
        },
        kind::SIGNAL_DELIVERED => What::SignalDelivered,
        kind::THREAD_ENDS => What::ThreadEnds { is_last: reported.map(|value| value != 0) },
        kind::LOCK_WANTED => What::LockWanted { memory: first, is_write: second != 0 },
        kind::LOCK_TAKEN => What::LockTaken { memory: first, is_write: second != 0 },
        kind::MEMORY_GONE => What::MemoryGone { memory: Some(first) },
        kind::RESIDENT => What::Resident { member: target, bytes: second },
        kind::RELEASE_CALL => What::ReleaseCall,
        kind::RELEASE_CALL_ENDS => What::ReleaseCallEnds,
        kind::CHOSEN => What::Chosen { target, rss_bytes: reported },
        kind::REAPER_BEGINS => What::ReaperBegins { target },
        kind::REAPER_ENDS => What::ReaperEnds { target },
        kind::RECLAIM_BEGINS => What::ReclaimBegins { is_group: first != 0 },
        kind::RECLAIM_ENDS => What::ReclaimEnds { is_group: first != 0 },
        kind::KSWAPD_WAKES => What::KswapdWakes,
        kind::KSWAPD_SLEEPS => What::KswapdSleeps,
        kind::NEW_TASK => What::NewTask { thread: target, is_thread: second != 0 },
        _ => return None,
    };
    Some(Event { time_ns, thread, what })
}

/// The events of a block, without those of unknown kinds; `None` if an event is incomplete.
pub fn unpack(contents: &[u8]) -> Option<Vec<Event>> {
    let (events, rest) = contents.as_chunks::<EVENT_BYTES>();
    rest.is_empty().then(|| events.iter().filter_map(event).collect())
}

/// The events as a block.
pub fn pack(events: &[Event]) -> Vec<u8> {
    events.iter().flat_map(bytes).collect()
}

fn bytes(event: &Event) -> [u8; EVENT_BYTES] {
    let mut name = [0; 16];
    let (kind, first, second) = match event.what {
        What::KillCall => (kind::KILL_CALL, 0, 0),
        What::KillCallEnds => (kind::KILL_CALL_ENDS, 0, 0),
        What::Wakes { thread } => (kind::WAKES, u64::from(thread), 0),
        What::SignalGenerated { target, name: comm, code } => {
            name = comm;
            (kind::SIGNAL_GENERATED, u64::from(target), u64::from(code as u32))
        }
        What::SignalDelivered => (kind::SIGNAL_DELIVERED, 0, 0),
        What::ThreadEnds { is_last } => (kind::THREAD_ENDS, 0, is_last.map_or(UNSAID, u64::from)),
        What::LockWanted { memory, is_write } => (kind::LOCK_WANTED, memory, u64::from(is_write)),
        What::LockTaken { memory, is_write } => (kind::LOCK_TAKEN, memory, u64::from(is_write)),
        What::MemoryGone { memory } => (kind::MEMORY_GONE, memory.unwrap_or(0), 0),
        What::Resident { member, bytes } => (kind::RESIDENT, u64::from(member), bytes),
        What::ReleaseCall => (kind::RELEASE_CALL, 0, 0),
        What::ReleaseCallEnds => (kind::RELEASE_CALL_ENDS, 0, 0),
        What::Chosen { target, rss_bytes } => {
            (kind::CHOSEN, u64::from(target), rss_bytes.unwrap_or(UNSAID))
        }
        What::ReaperBegins { target } => (kind::REAPER_BEGINS, u64::from(target), 0),
        What::ReaperEnds { target } => (kind::REAPER_ENDS, u64::from(target), 0),
        What::ReclaimBegins { is_group } => (kind::RECLAIM_BEGINS, u64::from(is_group), 0),
        What::ReclaimEnds { is_group } => (kind::RECLAIM_ENDS, u64::from(is_group), 0),
        What::KswapdWakes => (kind::KSWAPD_WAKES, 0, 0),
        What::KswapdSleeps => (kind::KSWAPD_SLEEPS, 0, 0),
        What::NewTask { thread, is_thread } => {
            (kind::NEW_TASK, u64::from(thread), u64::from(is_thread))
        }
        // Functions come only in pages.
        What::Function { .. } => (0, 0, 0),
    };
    let head = u64::from(event.thread) | u64::from(kind) << 32;
    let mut bytes = [0; EVENT_BYTES];
    for (place, word) in [event.time_ns, head, first, second].into_iter().enumerate() {
        bytes[place * 8..][..8].copy_from_slice(&word.to_le_bytes());
    }
    bytes[32..].copy_from_slice(&name);
    bytes
}
