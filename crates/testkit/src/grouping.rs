//! Events of small pages grouped into larger ones, one event at a time and with sets.

use std::collections::{HashMap, HashSet};
use types::{EventFlags, EventKind};

/// An event of a trace with what identifies its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagedEvent {
    /// When it happened.
    pub time_ns: i64,
    /// What happened.
    pub kind: EventKind,
    /// What is known about it.
    pub flags: EventFlags,
    /// The process that owns the page, or that issued the request.
    pub process: u32,
    /// Name space of the address.
    pub space: u32,
    /// Number of the page in its name space.
    pub address: u64,
}

/// What follows one another at a large page and counts as one event.
struct Group {
    direction: Direction,
    /// Its small pages.
    members: HashSet<u64>,
    /// Whether an event of it moves contents between memory and a device.
    moves: bool,
    /// Device reads and writes that were kept since it began.
    traffic: HashSet<EventKind>,
    /// The process that a page ends with.
    owner: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Out,
    In,
    /// Of a request of this kind, by this process, at this time.
    Request(EventKind, u32, i64),
    /// Nothing but device traffic yet.
    Unknown,
}

/// The events of pages `factor` times as large; `address` is that of the large page.
pub fn grouped(events: &[PagedEvent], factor: u64) -> Vec<PagedEvent> {
    let mut groups: HashMap<(u32, u64), Group> = HashMap::new();
    // By process, the small pages that were seen to hold anything but zeros.
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
        let place = (event.space, event.address / factor);
        let is_request = matches!(event.kind, EventKind::Read | EventKind::Write);
        // A request ends where another page is named by a request.
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

/// A large page holds zeros if all its small pages do, as far as is known.
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

/// Of what a device does with a page only the first of each kind counts until the page moves again,
/// and none of its reads while the page is in memory.
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
