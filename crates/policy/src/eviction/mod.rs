//! Which resident page leaves when a frame is needed.

use types::PageId;

/// Chooses victims among the resident pages of one memory.
///
/// The driver's contract, per request: a resident page is reported by `hit`; otherwise, if `admits`
/// says so, the driver drops every page `make_room` names until it names none, then calls `insert`.
pub trait Eviction {
    /// A resident page was requested.
    fn hit(&mut self, page: PageId);
    /// Whether a missing page should become resident at all.
    fn admits(&mut self, _page: PageId) -> bool {
        true
    }
    /// The next page that must leave before `incoming` fits, already forgotten as resident.
    fn make_room(&mut self, incoming: PageId) -> Option<PageId>;
    /// `page` is resident from now on.
    fn insert(&mut self, page: PageId);
    /// `page` left for a reason of the driver's own, such as the end of its process.
    fn remove(&mut self, page: PageId);
}
