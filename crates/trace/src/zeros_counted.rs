//! Pages of zeros: whether a trace hides them, and a comparison of those that it marks with the kernel's
//! own counters.

use crate::ledger::Ledger;
use crate::recording::{About, Counters, Sample};
use crate::{Header, TraceKind, Zeros};

/// Note for readers of a trace that `hides_zeros`.
pub const ZEROS_UNMARKED: &str = "pages of zeros: the recording does not mark them, so they count as I/O; since Linux 6.12 no \
     device writes or reads them";

/// The first kernel that does not write pages of zeros.
const FIRST_KERNEL: (u32, u32) = (6, 12);

impl Header {
    /// Whether events of pages of zeros, which reach no device, may be in the trace without a mark: the
    /// kernel keeps such pages off devices, or is unknown. Requests to a device are never of such pages.
    pub fn hides_zeros(&self) -> bool {
        self.kind == TraceKind::Swap
            && self.zeros.is_none()
            && self.devices.is_empty()
            && (self.recorder.is_none()
                || self.recorders().any(|about| !about.has_slots() && !writes_zeros(about)))
    }
}

/// Whether the recorded kernel writes pages of zeros to swap like any other page.
fn writes_zeros(about: &About) -> bool {
    match &about.system {
        Some(system) => !system.features.keeps_zeros_out,
        None => is_older(&about.kernel),
    }
}

/// Whether a kernel of this version (`uname -r`) is known to write pages of zeros.
fn is_older(kernel: &str) -> bool {
    let mut numbers = kernel.split(|character: char| !character.is_ascii_digit());
    let mut number = || numbers.next()?.parse().ok();
    number().zip(number()).is_some_and(|version: (u32, u32)| version < FIRST_KERNEL)
}

/// The kernel's counters at the beginning and the end of a recording that marks pages of zeros.
pub(crate) struct Samples {
    scope: Scope,
    first: Option<Sample>,
    last: Sample,
}

/// The processes whose pages were recorded.
enum Scope {
    Machine,
    Group,
    Process,
}

/// The import reports a difference between recorded and counted pages above both of these.
const DIFFERENCE_PERCENT: u64 = 3;
const DIFFERENCE_PAGES: u64 = 100;

impl Samples {
    /// An empty set of counters for a recording with this description.
    pub fn of(about: &About) -> Samples {
        let scope = match (about.process, &about.cgroup) {
            (Some(_), _) => Scope::Process,
            (None, Some(_)) => Scope::Group,
            (None, None) => Scope::Machine,
        };
        Samples { scope, first: None, last: Sample::default() }
    }

    /// Adds the next sample.
    pub fn add(&mut self, sample: Sample) {
        self.first.get_or_insert_with(|| sample.clone());
        self.last = sample;
    }

    /// The kernel's counts; adds a loss if the number of `recorded` page-outs differs.
    pub fn zeros(&self, recorded: u64, ledger: &mut Ledger) -> Zeros {
        let stored = self.growth("zswpout", |sample| Some(&sample.vmstat));
        ledger.lose(
            "pages that zswap stored after it was switched on, which may be marked as zeros",
            stored.unwrap_or(0),
        );
        let kernel_outs = self.growth("swpout_zero", |sample| self.own(sample));
        if let Some(counted) = kernel_outs {
            compare(recorded, counted, ledger);
        }
        Zeros { kernel_outs, kernel_ins: self.growth("swpin_zero", |sample| self.own(sample)) }
    }

    /// The counters with the scope of the recording.
    fn own<'a>(&self, sample: &'a Sample) -> Option<&'a Counters> {
        match self.scope {
            Scope::Machine => Some(&sample.vmstat),
            Scope::Group => sample.cgroup.as_ref(),
            Scope::Process => None,
        }
    }

    /// The growth of a counter; `None` if a sample lacks it.
    fn growth(&self, name: &str, counters: impl Fn(&Sample) -> Option<&Counters>) -> Option<u64> {
        let of = |sample: &Sample| counters(sample)?.get(name).copied();
        of(&self.last)?.checked_sub(of(self.first.as_ref()?)?)
    }
}

fn compare(recorded: u64, counted: u64, ledger: &mut Ledger) {
    let difference = recorded.abs_diff(counted);
    if difference <= (counted / 100 * DIFFERENCE_PERCENT).max(DIFFERENCE_PAGES) {
        return;
    }
    let what = if recorded < counted {
        "pages of zeros that the kernel counted and the recording lacks, as of shared memory"
    } else {
        "pages marked as zeros that the kernel did not count"
    };
    ledger.lose(what, difference);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Features, System};

    #[test]
    fn a_trace_hides_zeros_if_its_kernel_does_not_write_them() {
        let trace = Header::new(TraceKind::Swap, "pgw");
        let of = |kernel: &str, backend: &str| {
            let about =
                About { kernel: kernel.into(), backend: backend.into(), ..About::default() };
            Header { recorder: Some(about), ..trace.clone() }
        };
        for kernel in ["6.12.0", "6.18.44-fc-v657", "7.0-rc1", "", "unknown"] {
            assert!(of(kernel, "bpf").hides_zeros(), "{kernel}");
            assert!(!of(kernel, "tracefs").hides_zeros(), "{kernel}");
        }
        for kernel in ["6.11.9", "6.1.0-18-amd64", "5.15.0+"] {
            assert!(!of(kernel, "bpf").hides_zeros(), "{kernel}");
        }
        for (first, second, hides) in
            [("6.1.0", "6.12.0", true), ("6.12.0", "6.1.0", true), ("6.1.0", "5.15.0", false)]
        {
            let further_recorders = vec![of(second, "bpf").recorder.unwrap()];
            let joined = Header { further_recorders, ..of(first, "bpf") };
            assert_eq!(joined.hides_zeros(), hides, "{first}, {second}");
        }
        assert!(trace.hides_zeros(), "its kernel is not known");
        for keeps_zeros_out in [true, false] {
            let mut backported = of("6.11.9", "bpf");
            let features = Features { keeps_zeros_out, ..Features::default() };
            let system = System { features, ..System::default() };
            backported.recorder.as_mut().unwrap().system = Some(system);
            assert_eq!(backported.hides_zeros(), keeps_zeros_out);
        }
        assert!(!Header { zeros: Some(Zeros::default()), ..trace.clone() }.hides_zeros());
        assert!(!Header { devices: vec!["8,0".into()], ..trace.clone() }.hides_zeros());
        assert!(!Header::new(TraceKind::Block, "blkparse").hides_zeros());
    }

    /// The counts from these samples, and the losses that the import adds.
    fn counted(about: &About, recorded: u64, samples: [Sample; 2]) -> (Zeros, Vec<String>) {
        let mut all = Samples::of(about);
        samples.into_iter().for_each(|sample| all.add(sample));
        let mut ledger = Ledger::default();
        let zeros = all.zeros(recorded, &mut ledger);
        let losses = ledger.losses().into_iter();
        (zeros, losses.map(|loss| format!("{}: {}", loss.what, loss.count)).collect())
    }

    fn sample(counters: &[(&str, u64)]) -> Sample {
        let vmstat = counters.iter().map(|&(name, count)| (name.to_owned(), count)).collect();
        Sample { vmstat, ..Sample::default() }
    }

    fn loss(recorded: u64, count: u64) -> Option<String> {
        let samples = [7, 7 + count].map(|count| sample(&[("swpout_zero", count)]));
        let (zeros, losses) = counted(&About::default(), recorded, samples);
        assert_eq!(zeros, Zeros { kernel_outs: Some(count), kernel_ins: None });
        losses.into_iter().next()
    }

    #[test]
    fn a_difference_of_more_than_three_percent_from_the_kernels_count_is_a_loss() {
        assert_eq!(loss(9_700, 10_000), None);
        assert_eq!(loss(10_300, 10_000), None);
        assert_eq!(loss(0, 100), None);
        assert!(loss(9_699, 10_000).unwrap().contains("shared memory"));
        assert!(loss(10_301, 10_000).unwrap().ends_with("did not count: 301"));
    }

    #[test]
    fn counters_of_a_larger_scope_and_counters_that_fall_are_not_used() {
        let rising = || [sample(&[("swpout_zero", 0)]), sample(&[("swpout_zero", 9_000)])];
        let of_group = About { cgroup: Some("/a".into()), ..About::default() };
        let of_process = About { process: Some(7), ..About::default() };
        for about in [of_group, of_process] {
            assert_eq!(counted(&about, 0, rising()), (Zeros::default(), vec![]));
        }
        let [first, last] = rising();
        assert_eq!(counted(&About::default(), 0, [last, first]), (Zeros::default(), vec![]));
        let none = [sample(&[]), sample(&[])];
        assert_eq!(counted(&About::default(), 9_000, none), (Zeros::default(), vec![]));
    }

    #[test]
    fn pages_that_zswap_stored_are_a_loss() {
        let samples = [1, 4].map(|count| sample(&[("zswpout", count)]));
        let (_, losses) = counted(&About::default(), 0, samples);
        assert!(losses[0].contains("zswap") && losses[0].ends_with(": 3"), "{losses:?}");
    }
}
