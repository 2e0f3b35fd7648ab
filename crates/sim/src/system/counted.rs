//! Reclaim and refaults by the counters of /proc/vmstat, for traces without events of these: what changed between
//! two samples, which says how much, but neither when in between nor by whom.

use trace::system::{CounterSource, Event, Kind, Names};

use super::spans::{Amounts, BusySpan, Spans};

/// Bytes of a page; /proc/vmstat counts pages, and does not say how large they are.
const PAGE_BYTES: u64 = 4096;

/// Sums of counters at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sample {
    /// Direct reclaims that began (allocstall, of all zones).
    stalls: Option<u64>,
    /// Pages that direct reclaim took (pgsteal_direct).
    direct: Option<u64>,
    /// Pages that kswapd took (pgsteal_kswapd).
    kswapd: Option<u64>,
    /// Pages that were read again soon after they had left memory (workingset_refault, of files and anonymous).
    refaults: Option<u64>,
    /// Pages that were read from swap areas (pswpin).
    swapped_in: Option<u64>,
    /// Pages that were written to swap areas (pswpout).
    swapped_out: Option<u64>,
}

/// By how much a counter grew in all, over samples of which some may lack it.
#[derive(Debug, Default)]
struct Grown {
    last: Option<u64>,
    /// `None` before the second sample.
    sum: Option<u64>,
}

impl Grown {
    fn take(&mut self, value: Option<u64>) {
        let Some(value) = value else { return };
        if let Some(last) = self.last.replace(value) {
            // A counter that fell is of another boot.
            let sum = self.sum.unwrap_or(0);
            self.sum = Some(sum.saturating_add(value.saturating_sub(last)));
        }
    }
}

/// Finds what counters changed from sample to sample.
#[derive(Debug, Default)]
pub struct Counted {
    now: Sample,
    /// Time of the counters in `now`.
    at_ns: Option<i64>,
    before: Option<(i64, Sample)>,
    /// Intervals in which direct reclaim took pages, or began.
    pub direct_reclaim: Spans,
    /// Intervals in which kswapd took pages.
    pub kswapd: Spans,
    /// Intervals in which pages were read again.
    pub refaults: Spans,
    swapped_in: Grown,
    swapped_out: Grown,
}

impl Counted {
    /// Whether the trace has counters of refaults, in at least two samples.
    pub fn has_refaults(&self) -> bool {
        self.before.is_some_and(|(_, sample)| sample.refaults.is_some())
    }

    /// Bytes that were swapped in between the samples.
    pub fn swapped_in(&self) -> Option<u64> {
        self.swapped_in.sum.map(|pages| pages.saturating_mul(PAGE_BYTES))
    }

    /// Bytes that were swapped out between the samples.
    pub fn swapped_out(&self) -> Option<u64> {
        self.swapped_out.sum.map(|pages| pages.saturating_mul(PAGE_BYTES))
    }

    /// Intervals that were not kept.
    pub fn left_out(&self) -> u64 {
        let all = [&self.direct_reclaim, &self.kswapd, &self.refaults];
        all.iter().map(|spans| spans.left_out()).sum()
    }

    /// Takes an event, in the order of time.
    pub fn take(&mut self, event: &Event, names: &Names) {
        let Kind::SystemCounter { source: CounterSource::Vmstat, name, value } = event.kind else {
            return;
        };
        if self.at_ns != Some(event.time_ns) {
            self.end_sample();
            self.at_ns = Some(event.time_ns);
        }
        let name = names.bytes_of(name);
        // Older kernels count each zone apart: pgsteal_direct_normal, allocstall_movable.
        let sum = match name {
            b"pgsteal_direct_throttle" => return,
            _ if name.starts_with(b"allocstall") => &mut self.now.stalls,
            _ if name.starts_with(b"pgsteal_direct") => &mut self.now.direct,
            _ if name.starts_with(b"pgsteal_kswapd") => &mut self.now.kswapd,
            b"workingset_refault" | b"workingset_refault_file" | b"workingset_refault_anon" => {
                &mut self.now.refaults
            }
            b"pswpin" => &mut self.now.swapped_in,
            b"pswpout" => &mut self.now.swapped_out,
            _ => return,
        };
        *sum = Some(sum.unwrap_or(0).saturating_add(value));
    }

    /// Compares the sample that is complete with the one before; call it at the end of the trace, too.
    pub fn end_sample(&mut self) {
        let Some(to_ns) = self.at_ns.take() else { return };
        let now = std::mem::take(&mut self.now);
        if now == Sample::default() {
            return;
        }
        self.swapped_in.take(now.swapped_in);
        self.swapped_out.take(now.swapped_out);
        let before = self.before.replace((to_ns, now));
        let Some((from_ns, before)) = before.filter(|&(from_ns, _)| from_ns < to_ns) else {
            return;
        };
        // A counter that fell is of another boot.
        let grown = |of: fn(&Sample) -> Option<u64>| {
            Some(of(&now)?.checked_sub(of(&before)?)?).filter(|&grown| grown > 0)
        };
        let add = |spans: &mut Spans, pages: u64| {
            let mut amounts = Amounts::default();
            amounts.add(0, 0, pages.saturating_mul(PAGE_BYTES));
            spans.push(BusySpan { from_ns, to_ns, amounts, share: None });
        };
        let direct = grown(|sample| sample.direct);
        if direct.is_some() || grown(|sample| sample.stalls).is_some() {
            add(&mut self.direct_reclaim, direct.unwrap_or(0));
        }
        if let Some(pages) = grown(|sample| sample.kswapd) {
            add(&mut self.kswapd, pages);
        }
        if let Some(pages) = grown(|sample| sample.refaults) {
            add(&mut self.refaults, pages);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(samples: &[(i64, &[(&str, u64)])]) -> Counted {
        let (mut counted, mut names) = (Counted::default(), Names::default());
        for (second, counters) in samples {
            for (name, value) in *counters {
                let name = names.intern(name.as_bytes());
                let kind =
                    Kind::SystemCounter { source: CounterSource::Vmstat, name, value: *value };
                let time_ns = second * 1_000_000_000;
                counted.take(&Event { time_ns, cpu: None, tid: 0, kind }, &names);
            }
        }
        counted.end_sample();
        counted
    }

    #[test]
    fn growth_between_samples_is_an_interval() {
        let found = counted(&[
            (1, &[("pgsteal_kswapd", 5), ("allocstall_normal", 1), ("pgsteal_direct", 9)]),
            (2, &[("pgsteal_kswapd", 5), ("allocstall_normal", 2), ("pgsteal_direct", 9)]),
            (4, &[("pgsteal_kswapd", 8), ("allocstall_normal", 2), ("pgsteal_direct", 9)]),
        ]);
        let [direct] = found.direct_reclaim.all() else { panic!("{found:?}") };
        assert_eq!((direct.from_ns, direct.to_ns), (1_000_000_000, 2_000_000_000));
        let [kswapd] = found.kswapd.all() else { panic!("{found:?}") };
        assert_eq!((kswapd.from_ns, kswapd.amounts.sum().bytes), (2_000_000_000, 3 * PAGE_BYTES));
        assert!(!found.has_refaults());
    }

    #[test]
    fn zones_and_kinds_of_pages_are_summed_and_a_reboot_is_no_reclaim() {
        let found = counted(&[
            (1, &[("workingset_refault_file", 5), ("workingset_refault_anon", 5)]),
            (2, &[("workingset_refault_file", 6), ("workingset_refault_anon", 7)]),
            (3, &[("workingset_refault_file", 1), ("workingset_refault_anon", 0)]),
        ]);
        assert_eq!(found.refaults.sum().bytes, 3 * PAGE_BYTES);
        assert!(counted(&[(1, &[("nr_free_pages", 1)]), (2, &[])]).before.is_none());
    }

    #[test]
    fn swapped_pages_are_summed_and_unknown_without_two_samples() {
        let found = counted(&[
            (1, &[("pswpin", 5), ("pswpout", 9)]),
            (2, &[("pswpin", 7)]),
            (3, &[("pswpin", 8), ("pswpout", 19)]),
            (4, &[("pswpin", 8), ("pswpout", 21)]),
        ]);
        assert_eq!(found.swapped_in(), Some(3 * PAGE_BYTES));
        assert_eq!(found.swapped_out(), Some(12 * PAGE_BYTES));
        assert_eq!(counted(&[(1, &[("pswpin", 5)])]).swapped_in(), None);
    }
}
