//! Page-outs and returns in a swap trace: how often pages leave and return, and the share of readahead
//! in the device's reads.

use super::histogram::Histogram;
use super::occupancy::Occupancy;
use super::skew::share;
use schemars::JsonSchema;
use serde::Serialize;
use types::{Event, EventFlags, EventKind};

/// Pages out and in.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SwapTraffic {
    /// Page-outs, anonymous or of a file, modified or not.
    pub outs: u64,
    /// Page-ins by faults and reads.
    pub ins: u64,
    /// Distribution of page-outs per page; pages without any are in the bucket of 0.
    pub outs_per_page: Histogram,
    /// Distribution of page-ins per page.
    pub ins_per_page: Histogram,
    /// The most pages that were in swap at once.
    pub pages_in_swap_max: u64,
    /// Pages and page-outs without a return.
    pub never_returned: NeverReturned,
    /// Device reads; none if the recording has no device traffic.
    pub device_reads: Option<DeviceReads>,
}

/// Page-outs without a following page-in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NeverReturned {
    /// Of the pages that went out, the share that was out at the end.
    #[schemars(range(min = 0, max = 1))]
    pub pages: f64,
    /// Share of page-outs that were not read before the page's next page-out or the end.
    #[schemars(range(min = 0, max = 1))]
    pub outs: f64,
}

/// Device reads by their cause.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DeviceReads {
    /// Reads for the faulting page.
    pub demand: u64,
    /// Reads of other pages.
    pub readahead: u64,
    /// Share of reads that are readahead.
    #[schemars(range(min = 0, max = 1))]
    pub readahead_share: f64,
}

/// Pages that went out exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SingleOut {
    /// The share of pages that went out once, of all that went out.
    #[schemars(range(min = 0, max = 1))]
    pub pages: f64,
    /// The share of page-outs that such single page-outs make up.
    #[schemars(range(min = 0, max = 1))]
    pub outs: f64,
}

/// State of every page of a swap trace.
#[derive(Default)]
pub(super) struct SwapPages {
    pages: Vec<SwapPage>,
    unread_outs: u64,
    demand_reads: u64,
    readahead_reads: u64,
    has_device_traffic: bool,
    occupancy: Occupancy,
}

#[derive(Clone, Copy, Default)]
struct SwapPage {
    outs: u32,
    ins: u32,
    is_out: bool,
}

impl SwapPages {
    pub(super) fn add(&mut self, event: Event) {
        self.occupancy.add(event);
        match event.kind {
            EventKind::SwapOut | EventKind::Evict => {
                let page = self.page(event);
                let was_out = std::mem::replace(&mut page.is_out, true);
                page.outs += 1;
                self.unread_outs += u64::from(was_out);
            }
            EventKind::SwapIn | EventKind::Request => {
                let page = self.page(event);
                page.is_out = false;
                page.ins += 1;
                self.demand_reads += u64::from(event.flags.contains(EventFlags::MAJOR));
            }
            EventKind::DeviceRead => {
                self.has_device_traffic = true;
                self.readahead_reads += 1;
            }
            EventKind::DeviceWrite => self.has_device_traffic = true,
            _ => {}
        }
    }

    fn page(&mut self, event: Event) -> &mut SwapPage {
        let index = event.page.index();
        if index >= self.pages.len() {
            self.pages.resize(index + 1, SwapPage::default());
        }
        &mut self.pages[index]
    }

    pub(super) fn traffic(&self) -> SwapTraffic {
        let mut outs_per_page = Histogram::default();
        let mut ins_per_page = Histogram::default();
        let (mut outs, mut ins) = (0, 0);
        let (mut pages_out, mut stayed_out) = (0, 0);
        for page in self.pages.iter().filter(|page| page.outs + page.ins > 0) {
            outs += u64::from(page.outs);
            ins += u64::from(page.ins);
            outs_per_page.add(u64::from(page.outs), 1);
            ins_per_page.add(u64::from(page.ins), 1);
            pages_out += u64::from(page.outs > 0);
            stayed_out += u64::from(page.is_out);
        }
        let (demand, readahead) = (self.demand_reads, self.readahead_reads);
        let readahead_share = share(readahead, demand + readahead);
        let device_reads = DeviceReads { demand, readahead, readahead_share };
        SwapTraffic {
            outs,
            ins,
            outs_per_page,
            ins_per_page,
            pages_in_swap_max: self.occupancy.most(),
            never_returned: NeverReturned {
                pages: share(stayed_out, pages_out),
                outs: share(self.unread_outs + stayed_out, outs),
            },
            device_reads: self.has_device_traffic.then_some(device_reads),
        }
    }

    pub(super) fn single_out(&self) -> SingleOut {
        let out = || self.pages.iter().map(|page| u64::from(page.outs)).filter(|&outs| outs > 0);
        let single = out().filter(|&outs| outs == 1).count() as u64;
        SingleOut { pages: share(single, out().count() as u64), outs: share(single, out().sum()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{PageId, ProcessId};

    fn follow(events: &[(EventKind, u32)]) -> SwapPages {
        let mut pages = SwapPages::default();
        for &(kind, page) in events {
            let flags = EventFlags::MAJOR;
            pages.add(Event { kind, flags, page: PageId(page), process: ProcessId(0) });
        }
        pages
    }

    #[test]
    fn page_outs_are_counted_by_whether_they_return() {
        use EventKind::{SwapIn, SwapOut};
        let pages = follow(&[
            (SwapOut, 0),
            (SwapIn, 0),
            (SwapOut, 0),
            (SwapOut, 1),
            (SwapOut, 1),
            (SwapIn, 1),
            (SwapOut, 2),
            (SwapIn, 3),
        ]);
        let traffic = pages.traffic();
        assert_eq!((traffic.outs, traffic.ins), (5, 3));
        assert_eq!(traffic.pages_in_swap_max, 3);
        // Pages 0 and 2 are out at the end; page 1's first page-out was not read either.
        assert_eq!(traffic.never_returned, NeverReturned { pages: 2.0 / 3.0, outs: 3.0 / 5.0 });
        assert_eq!(pages.single_out(), SingleOut { pages: 1.0 / 3.0, outs: 0.2 });
        let buckets: Vec<_> = traffic.outs_per_page.buckets().collect();
        assert_eq!(buckets, [(0, 1), (1, 1), (3, 2)]);
        assert_eq!(traffic.device_reads, None);
    }

    #[test]
    fn file_pages_go_out_and_in_like_anonymous_ones() {
        use EventKind::{Evict, Request, SwapIn, SwapOut};
        let file = follow(&[(Request, 0), (Evict, 0), (Request, 0), (Evict, 1)]);
        let anonymous = follow(&[(SwapIn, 0), (SwapOut, 0), (SwapIn, 0), (SwapOut, 1)]);
        let anonymous = anonymous.traffic();
        assert_eq!(anonymous.pages_in_swap_max, 1);
        // File pages return to their file, not to swap.
        assert_eq!(file.traffic(), SwapTraffic { pages_in_swap_max: 0, ..anonymous });
        assert_eq!((file.traffic().outs, file.traffic().ins), (2, 2));
    }

    #[test]
    fn readahead_is_distinguished_from_demand() {
        use EventKind::{DeviceRead, SwapIn};
        let reads = follow(&[(SwapIn, 0), (DeviceRead, 1), (DeviceRead, 2), (DeviceRead, 3)]);
        let expected = DeviceReads { demand: 1, readahead: 3, readahead_share: 0.75 };
        assert_eq!(reads.traffic().device_reads, Some(expected));
    }
}
