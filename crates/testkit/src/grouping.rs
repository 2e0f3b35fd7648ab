//! Groups the events of small pages into those of larger pages, one event at a time and with sets.

use std::collections::{HashMap, HashSet};
use types::{EventFlags, EventKind};

/// An event of a trace with the identity of its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagedEvent {
    /// Time of the event in nanoseconds.
    pub time_ns: i64,
    /// What happened.
    pub kind: EventKind,
    /// Facts about the event and its page.
    pub flags: EventFlags,
    /// The process that owns the page, or that issued the request.
    pub process: u32,
    /// Name space of the address.
    pub space: u32,
    /// Number of the page in its name space.
    pub address: u64,
}

/// Successive events of a large page that count as one event.
struct Group {
    direction: Direction,
    /// Small pages of the group.
    members: HashSet<u64>,
    /// Whether an event of the group moves contents between memory and a device.
    moves: bool,
    /// Device reads and writes that were kept since the group began.
    traffic: HashSet<EventKind>,
    /// The process whose end frees the page.
    owner: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Out,
    In,
    /// A request of this kind, by this process, at this time.
    Request(EventKind, u32, i64),
    /// Only device traffic so far.
    Unknown,
}

/// The events of pages `factor` times as large; `address` is that of the large page.
pub fn grouped(events: &[PagedEvent], factor: u64) -> Vec<PagedEvent> {
    let mut groups: HashMap<(u32, u64), Group> = HashMap::new();
    // Small pages by process that are known to hold other contents than zeros.
    let mut filled: HashSet<(u32, u64)> = HashSet::new();
    let mut last_request = None;
    let mut kept = Vec::new();
    for event in events {
        if event.kind == EventKind::Exit {
            groups.retain(|_, group| group.owner != Some(event.process));
            filled.retain(|(process, _)| *process != event.process);
            kept.push(*event);
            continue;
        }
        if event.kind == EventKind::Void {
            continue;
        }
        let place = (event.space, event.address / factor);
        let is_request = matches!(event.kind, EventKind::Read | EventKind::Write);
        // A request ends when a request names another page.
        if is_request && last_request != Some(place) {
            groups.remove(&place);
        }
        if is_request {
            last_request = Some(place);
        }
        let event = PagedEvent { flags: flags_of_large(&mut filled, event, factor), ..*event };
        if keep(&mut groups, place, &event) {
            kept.push(PagedEvent { address: place.1, ..event });
        }
    }
    kept
}

/// The event's flags for the large page, which holds zeros if all its known small pages do.
fn flags_of_large(filled: &mut HashSet<(u32, u64)>, event: &PagedEvent, factor: u64) -> EventFlags {
    if !matches!(event.kind, EventKind::SwapOut | EventKind::SwapIn) {
        return event.flags;
    }
    if !event.flags.contains(EventFlags::ZERO) {
        filled.insert((event.process, event.address));
        return event.flags;
    }
    filled.remove(&(event.process, event.address));
    let is_part = |&&(process, address): &&(u32, u64)| {
        process == event.process && address / factor == event.address / factor
    };
    match filled.iter().find(is_part) {
        Some(_) => EventFlags(event.flags.0 & !EventFlags::ZERO.0),
        None => event.flags,
    }
}

fn keep(groups: &mut HashMap<(u32, u64), Group>, place: (u32, u64), event: &PagedEvent) -> bool {
    let direction = match event.kind {
        EventKind::SwapOut | EventKind::Evict => Direction::Out,
        EventKind::SwapIn | EventKind::Request => Direction::In,
        EventKind::Read | EventKind::Write => {
            Direction::Request(event.kind, event.process, event.time_ns)
        }
        _ => return keep_traffic(groups, place, event.kind),
    };
    let is_anonymous = matches!(event.kind, EventKind::SwapOut | EventKind::SwapIn);
    let owner = is_anonymous.then_some(event.process);
    let is_clean = direction == Direction::Out && !event.flags.contains(EventFlags::DIRTY);
    let is_zero = is_anonymous && event.flags.contains(EventFlags::ZERO);
    let moves = !is_clean && !is_zero;
    if let Some(group) = groups.get_mut(&place)
        && group.direction == direction
        && group.owner == owner
        && group.members.insert(event.address)
    {
        let is_first_move = moves && !group.moves;
        group.moves |= moves;
        return is_first_move;
    }
    let (members, traffic) = (HashSet::from([event.address]), HashSet::new());
    groups.insert(place, Group { direction, members, moves, traffic, owner });
    true
}

/// Only the first device event of each kind counts until the page moves again, and no device read
/// while the page is in memory.
fn keep_traffic(
    groups: &mut HashMap<(u32, u64), Group>,
    place: (u32, u64),
    kind: EventKind,
) -> bool {
    let group = groups.entry(place).or_insert_with(|| Group {
        direction: Direction::Unknown,
        members: HashSet::new(),
        moves: false,
        traffic: HashSet::new(),
        owner: None,
    });
    let is_in_memory = group.direction == Direction::In;
    !(is_in_memory && kind == EventKind::DeviceRead) && group.traffic.insert(kind)
}
