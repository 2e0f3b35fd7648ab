//! Measures where a launch spends its time: running, waiting for a processor, and stalled for memory and
//! storage.

use std::path::Path;
use std::time::Duration;

use linux::delays::{Delays, Teller};
use linux::pressure;
use linux::{Root, groups, process, times};

use crate::Error;

/// The times of a launch, or the totals at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// CPU time of the application, with a precision of 10 ms.
    pub processor: Duration,
    /// Time in which its living threads were ready but had no processor, added up over the threads.
    pub ready: Duration,
    /// Time in which the killer killed victims and waited for their memory.
    pub kills: Duration,
    /// Waits of the threads of its living processes; None if the kernel does not count them.
    pub delays: Option<Delays>,
    /// The number of these threads, at the end.
    pub threads: u32,
    /// CPU time of kswapd, on the whole machine.
    pub kswapd: Duration,
    /// Time in which some task of the machine stalled for memory; None if the kernel does not report it.
    pub memory_stall: Option<Duration>,
    /// Time in which some task stalled for storage.
    pub io_stall: Option<Duration>,
    /// Time in which some task stalled for a processor.
    pub cpu_stall: Option<Duration>,
}

impl Waits {
    /// The totals until now for the application whose group is at `folder`; the delays come from `teller`.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn now(root: &Root, folder: &Path, teller: Option<&Teller>) -> Result<Waits, Error> {
        let processes = groups::processes(root, folder)?;
        let own = times::of(root, &processes);
        let stall = |resource| -> Result<Option<Duration>, Error> {
            let pressure = pressure::of_machine(root, resource)?;
            Ok(pressure.map(|pressure| Duration::from_micros(pressure.some_us)))
        };
        Ok(Waits {
            processor: own.ran,
            ready: own.waited,
            kills: Duration::ZERO,
            delays: teller.map(|teller| {
                // A process may end after it was listed.
                processes.iter().filter_map(|&process| teller.of(process)).sum()
            }),
            threads: processes
                .iter()
                .map(|&process| process::threads(root, process).len() as u32)
                .sum(),
            kswapd: times::kswapd(root)?,
            memory_stall: stall("memory")?,
            io_stall: stall("io")?,
            cpu_stall: stall("cpu")?,
        })
    }

    /// A delay of a launch with this duration. None if it is longer than all threads together can have waited: the
    /// kernel counts a wait without a noted beginning from boot on.
    pub(crate) fn delay(
        &self,
        launch: Duration,
        value: impl Fn(&Delays) -> Duration,
    ) -> Option<Duration> {
        let delay = value(self.delays.as_ref()?);
        (delay <= launch * self.threads.max(1)).then_some(delay)
    }

    /// The difference to the earlier totals `before`; a cold launch began without a process of the application.
    pub(crate) fn since(self, before: Waits, is_cold: bool) -> Waits {
        let own = if is_cold { Waits::default() } else { before };
        let stall = |now: Option<Duration>, before: Option<Duration>| {
            now.zip(before).map(|(now, before)| now.saturating_sub(before))
        };
        Waits {
            processor: self.processor.saturating_sub(own.processor),
            ready: self.ready.saturating_sub(own.ready),
            kills: self.kills,
            threads: self.threads,
            delays: self.delays.map(|delays| delays.since(own.delays.unwrap_or_default())),
            kswapd: self.kswapd.saturating_sub(before.kswapd),
            memory_stall: stall(self.memory_stall, before.memory_stall),
            io_stall: stall(self.io_stall, before.io_stall),
            cpu_stall: stall(self.cpu_stall, before.cpu_stall),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cold_launch_counts_all_cpu_time_of_its_processes() {
        let second = Duration::from_secs(1);
        let before = Waits { processor: second, kswapd: second, ..Waits::default() };
        let now = Waits {
            processor: 3 * second,
            kswapd: 2 * second,
            io_stall: Some(second),
            ..Waits::default()
        };
        let warm = now.since(before, false);
        assert_eq!((warm.processor, warm.kswapd), (2 * second, second));
        assert_eq!(now.since(before, true).processor, 3 * second);
        assert_eq!(warm.io_stall, None, "absent before, so not known between");
    }

    #[test]
    fn a_delay_longer_than_threads_can_wait_is_absent() {
        let second = Duration::from_secs(1);
        let delays = Delays { storage: 3 * second, reclaim: second, ..Delays::default() };
        let waits = Waits { threads: 2, delays: Some(delays), ..Waits::default() };
        assert_eq!(waits.delay(2 * second, |delays| delays.storage), Some(3 * second));
        assert_eq!(waits.delay(second, |delays| delays.storage), None);
        assert_eq!(waits.delay(second, |delays| delays.reclaim), Some(second));
        assert_eq!(Waits::default().delay(second, |delays| delays.reclaim), None);
    }
}
