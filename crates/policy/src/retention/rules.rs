//! The rules of retention, as data.

use types::{Bytes, Nanos, PAGE_BYTES};

/// How much stays hot, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Hot memory at most. Above it the oldest spans are lazily freed at once: a kernel short
    /// of memory kills before it reports pressure, so the memory that it cannot take must be small.
    pub hot_bytes: Bytes,
    /// Page count in multiples of which a span above the limit is cut; none: spans go whole.
    pub part_pages: Option<u32>,
    /// Lazily freed memory at most; none: no limit. Memory above it is discarded at once: a kernel
    /// takes lazily freed pages one by one from the task that needs them, which costs more.
    pub lazy_bytes: Option<Bytes>,
    /// Hot and lazily freed memory together at most; none: no limit. Both are resident, and count as the
    /// program's. Memory above it is discarded, lazily freed memory first.
    pub held_bytes: Option<Bytes>,
    /// Age at which a hot span is lazily freed; none: never by age.
    pub lazy_after: Option<Nanos>,
    /// Age at which a span is discarded, so that resident memory shows what is in use; none: never
    /// by age.
    pub discard_after: Option<Nanos>,
}

impl Rules {
    /// Our own rules: few hot spans, all given back once idle.
    pub const fn decay(hot_bytes: Bytes) -> Rules {
        Rules {
            hot_bytes,
            part_pages: Some(PART_PAGES),
            lazy_bytes: None,
            held_bytes: Some(if hot_bytes.0 > HELD_BYTES_MAX.0 {
                hot_bytes
            } else {
                HELD_BYTES_MAX
            }),
            lazy_after: Some(Nanos(1_000_000_000)),
            discard_after: Some(Nanos(5_000_000_000)),
        }
    }

    /// The paper's rules: every page stays mapped until the kernel takes it, which it may at any
    /// time.
    pub const fn paper() -> Rules {
        Rules {
            hot_bytes: Bytes(0),
            part_pages: None,
            lazy_bytes: None,
            held_bytes: None,
            lazy_after: None,
            discard_after: None,
        }
    }

    /// Number of `hot_pages` above the limit; none if they are within it.
    pub(super) fn part_over(&self, hot_pages: u64) -> Option<u64> {
        let over = hot_pages.saturating_sub(self.hot_bytes.pages());
        let part = |pages: u32| over.next_multiple_of(u64::from(pages.max(1)));
        (over > 0).then(|| self.part_pages.map_or(u64::MAX, part))
    }

    /// Whether `pages` lazily freed pages exceed the limit beside `hot_pages` hot ones.
    pub(super) fn is_too_much_lazy(&self, pages: u64, hot_pages: u64) -> bool {
        let is_above = |limit: Bytes, pages: u64| pages * PAGE_BYTES > limit.0;
        self.lazy_bytes.is_some_and(|limit| is_above(limit, pages))
            || self.held_bytes.is_some_and(|limit| pages > 0 && is_above(limit, pages + hot_pages))
    }

    pub(super) fn lazily_frees_at(&self, since: Nanos) -> Option<Nanos> {
        later(since, self.lazy_after)
    }

    pub(super) fn discards_at(&self, since: Nanos) -> Option<Nanos> {
        later(since, self.discard_after)
    }
}

fn later(since: Nanos, age: Option<Nanos>) -> Option<Nanos> {
    age.map(|age| Nanos(since.0.saturating_add(age.0)))
}

/// Parts are 1 MiB, so that calls are few. With parts of 64 KiB, a program that frees hundreds of hardly
/// touched blocks of 64 to 256 KiB makes a call for each, which takes twice the time of all the rest.
const PART_PAGES: u32 = 256;
/// Upper bound of hot memory.
pub const HOT_BYTES_MAX: Bytes = Bytes(32 << 20);
/// Upper bound of hot and lazily freed memory together, unless the limit of hot memory is larger.
pub const HELD_BYTES_MAX: Bytes = HOT_BYTES_MAX;
/// Hot memory is at most one part in this many of the available memory.
pub const HOT_SHARE_OF_MEMORY: u64 = 16;

/// The limit of hot memory where the process can still use `memory`: the limit of its
/// memory cgroup or the memory available on the machine, whichever is less.
pub const fn hot_bytes_for(memory: Bytes) -> Bytes {
    let share = memory.0 / HOT_SHARE_OF_MEMORY;
    if share < HOT_BYTES_MAX.0 { Bytes(share) } else { HOT_BYTES_MAX }
}

/// The limit of lazily freed memory where a memory cgroup has `left` unused: the same share as for
/// hot memory, so that the group finds most of it without reclaim.
pub const fn lazy_bytes_for(left: Bytes) -> Bytes {
    Bytes(left.0 / HOT_SHARE_OF_MEMORY)
}

/// Rules with a name.
#[derive(Debug)]
pub struct Row {
    /// Name for users.
    pub name: &'static str,
    /// One line that says what the rules do.
    pub summary: &'static str,
    /// Constructor from a limit of hot memory; rules without such a limit ignore it.
    pub build: fn(Bytes) -> Rules,
}

/// All rules.
pub const CATALOG: &[Row] = &[
    Row {
        name: "decay",
        summary: "up to 32 MiB hot, lazily freed after 1 s, discarded after 5 s and above 32 MiB",
        build: Rules::decay,
    },
    Row {
        name: "paper",
        summary: "all lazily freed at once, held until the kernel takes it",
        build: |_| Rules::paper(),
    },
];

/// The row of that name.
pub fn find(name: &str) -> Option<&'static Row> {
    CATALOG.iter().find(|row| row.name == name)
}
