//! State of one page.

use super::ages::EventNumber;
use super::class::Class;
use super::regret::Shadow;

/// Kind of copy in the fast tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copy {
    /// The fast tier holds the only copy.
    Dirty,
    /// Both tiers hold a copy.
    Clean,
}

/// Eight bytes, so that an event touches one line of the processor's cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    /// Event at which its class was last decided; meaningless while the class is unknown.
    pub last_event: EventNumber,
    pub class: Class,
    /// `None` while the page is not in the fast tier.
    pub copy: Option<Copy>,
    pub shadow: Shadow,
}

impl Page {
    pub const UNKNOWN: Page = Page {
        last_event: 0,
        class: Class::UNKNOWN,
        copy: None,
        shadow: Shadow { is_fast: false, is_owed: false },
    };
}
