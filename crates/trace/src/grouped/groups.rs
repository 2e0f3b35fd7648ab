//! Decides which events of larger pages count: those that begin a group, and a few others.

use types::{Event, EventFlags, EventKind, PageId};

use crate::renumber::Renumber;

/// The groups of all larger pages so far.
#[derive(Default)]
pub struct Groups {
    numbers: PageNumbers,
    /// By recorded page: the number of the group that it was last in.
    group_of: Vec<u32>,
    /// By recorded page: 0 if it holds zeros or is unknown. Otherwise one more than the number of ends of
    /// its process when it last held other contents.
    filled: Vec<u32>,
    /// By larger page: its latest group.
    groups: Vec<Group>,
    /// By process: the number of its ends.
    ends: Vec<u32>,
    /// The current request.
    request: Option<(PageId, EventKind, u32, Option<i64>)>,
}

/// The latest group of one larger page.
#[derive(Clone, Copy)]
struct Group {
    /// Number of the group among those of its page, from 1; 0 before the first.
    number: u32,
    direction: Direction,
    /// Whether an event of the group moves contents between memory and a device.
    moves: bool,
    /// Device traffic during the group: bits by kind.
    traffic: u8,
    /// The process whose end frees the page, and the number of its ends when the group began.
    owner: u32,
    ends: u32,
    /// Recorded pages of the group known to hold other contents than zeros.
    filled: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// Nothing has moved the page yet.
    Unknown,
    Out,
    In,
    Request,
}

/// The owner of a page that no process's end frees.
const NO_OWNER: u32 = u32::MAX;

impl Group {
    const NONE: Group = Group {
        number: 0,
        direction: Direction::Unknown,
        moves: false,
        traffic: 0,
        owner: NO_OWNER,
        ends: 0,
        filled: 0,
    };
}

impl Groups {
    /// Number of larger pages so far.
    pub fn pages(&self) -> u32 {
        self.groups.len() as u32
    }

    /// The event of the larger page; `None` if it belongs to an event that was counted. `key` is that of
    /// the larger page. Events without a page always count.
    pub fn keep(&mut self, event: Event, time_ns: Option<i64>, key: u64) -> Option<Event> {
        if event.kind == EventKind::Exit {
            *slot(&mut self.ends, event.process.index(), 0) += 1;
            return Some(Event { page: PageId(0), ..event });
        }
        if event.kind == EventKind::Void {
            // The rest of the larger page keeps its copy.
            return None;
        }
        let page = self.numbers.of(event.page, key);
        slot(&mut self.groups, page.index(), Group::NONE);
        slot(&mut self.group_of, event.page.index(), 0);
        slot(&mut self.filled, event.page.index(), 0);
        let direction = match event.kind {
            EventKind::SwapOut | EventKind::Evict => Direction::Out,
            EventKind::SwapIn | EventKind::Request => Direction::In,
            EventKind::Read | EventKind::Write => Direction::Request,
            kind => return self.keep_traffic(page, kind).then_some(Event { page, ..event }),
        };
        let request = (page, event.kind, event.process.0, time_ns);
        let goes_on = direction != Direction::Request || self.request == Some(request);
        if direction == Direction::Request {
            self.request = Some(request);
        }
        let flags = self.flags_of_larger(page, event);
        let event = Event { flags, ..event };
        let counts = self.keep_move(page, event, direction, goes_on);
        counts.then_some(Event { page, ..event })
    }

    /// The event's flags for the larger page, which holds zeros if all its known recorded pages do.
    fn flags_of_larger(&mut self, page: PageId, event: Event) -> EventFlags {
        if !is_anonymous(event.kind) {
            return event.flags;
        }
        let ends = self.ends_of(event.process.0);
        let group = &mut self.groups[page.index()];
        let filled = &mut self.filled[event.page.index()];
        if group.ends != ends {
            group.filled = 0;
        }
        let was_filled = *filled == ends + 1;
        let is_filled = !event.is_of_zeros();
        *filled = if is_filled { ends + 1 } else { 0 };
        group.filled = group.filled + u32::from(is_filled) - u32::from(was_filled);
        match group.filled {
            0 => event.flags,
            _ => EventFlags(event.flags.0 & !EventFlags::ZERO.0),
        }
    }

    fn keep_move(
        &mut self,
        page: PageId,
        event: Event,
        direction: Direction,
        goes_on: bool,
    ) -> bool {
        let owner = if is_anonymous(event.kind) { event.process.0 } else { NO_OWNER };
        let ends = self.ends_of(owner);
        let is_clean = direction == Direction::Out && !event.flags.contains(EventFlags::DIRTY);
        let moves = !is_clean && !event.is_of_zeros();
        let group = &mut self.groups[page.index()];
        let group_of = &mut self.group_of[event.page.index()];
        let is_same = (group.direction, group.owner, group.ends) == (direction, owner, ends);
        if goes_on && is_same && *group_of != group.number {
            *group_of = group.number;
            let is_first_move = moves && !group.moves;
            group.moves |= moves;
            return is_first_move;
        }
        let (number, filled) = (group.number + 1, group.filled);
        *group = Group { number, direction, moves, traffic: 0, owner, ends, filled };
        *group_of = group.number;
        true
    }

    fn keep_traffic(&mut self, page: PageId, kind: EventKind) -> bool {
        let ends = self.ends_of(self.groups[page.index()].owner);
        let group = &mut self.groups[page.index()];
        if group.ends != ends {
            // The end of the process freed the page.
            *group = Group { number: group.number, ..Group::NONE };
        }
        let bit = 1 << (kind == EventKind::DeviceWrite) as u8;
        let is_needless = group.direction == Direction::In && kind == EventKind::DeviceRead;
        let counts = !is_needless && group.traffic & bit == 0;
        group.traffic |= if is_needless { 0 } else { bit };
        counts
    }

    fn ends_of(&self, process: u32) -> u32 {
        self.ends.get(process as usize).copied().unwrap_or(0)
    }
}

/// Whether the end of the process frees the event's page.
fn is_anonymous(kind: EventKind) -> bool {
    matches!(kind, EventKind::SwapOut | EventKind::SwapIn)
}

/// The entry at `index`; grows `entries` with `empty` if necessary.
fn slot<T: Clone>(entries: &mut Vec<T>, index: usize, empty: T) -> &mut T {
    if entries.len() <= index {
        entries.resize(index + 1, empty);
    }
    &mut entries[index]
}

/// Numbers of larger pages. The table is read once for each recorded page.
struct PageNumbers {
    numbers: Renumber,
    /// By recorded page: the number of its larger page; `u32::MAX` before the lookup.
    known: Vec<u32>,
    found: Vec<u32>,
}

impl Default for PageNumbers {
    fn default() -> PageNumbers {
        PageNumbers { numbers: Renumber::unlimited(), known: Vec::new(), found: Vec::new() }
    }
}

impl PageNumbers {
    fn of(&mut self, page: PageId, key: u64) -> PageId {
        let known = slot(&mut self.known, page.index(), u32::MAX);
        if *known == u32::MAX {
            self.found.clear();
            let numbered = self.numbers.number_batch(&[key], &mut self.found);
            numbered.expect("larger pages are fewer than those of the recording");
            *known = self.found[0];
        }
        PageId(*known)
    }
}
