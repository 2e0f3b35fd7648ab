//! Where a launch spends its time: on processors, ready and waiting for one, stalled for memory and
//! storage, and beside others that take processors from it.

use std::path::Path;
use std::time::Duration;

use linux::delays::{Delays, Teller};
use linux::pressure;
use linux::{Root, groups, process, times};

use crate::Error;

/// Times of one launch, or at one moment since the machine or the processes began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// The application ran, at 10 ms.
    pub processor: Duration,
    /// Its threads that live were ready to run and had no processor, each for itself.
    pub ready: Duration,
    /// The killer ended victims until their memory was back.
    pub kills: Duration,
    /// What the threads of its processes that live waited for; none where the kernel does not count.
    pub delays: Option<Delays>,
    /// Those threads, at the end.
    pub threads: u32,
    /// The kernel's reclaiming thread ran, on the whole machine.
    pub kswapd: Duration,
    /// Some task of the machine stalled for memory: in reclaim, or for pages that had been evicted;
    /// none where the kernel does not tell.
    pub memory_stall: Option<Duration>,
    /// Some task stalled for storage.
    pub io_stall: Option<Duration>,
    /// Some task stalled for a processor.
    pub cpu_stall: Option<Duration>,
}

impl Waits {
    /// What was counted until now, of the application whose group is at `folder`; `teller` is asked
    /// for delays.
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
                // One may end between being listed and being asked about.
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

    /// A delay of a launch that took so long; none where the kernel counted more than all threads can
    /// have waited together: a wait whose beginning it had not noted counts from the machine's start.
    pub(crate) fn delay(
        &self,
        launch: Duration,
        value: impl Fn(&Delays) -> Duration,
    ) -> Option<Duration> {
        let delay = value(self.delays.as_ref()?);
        (delay <= launch * self.threads.max(1)).then_some(delay)
    }

    /// From `before` to this; a cold launch began with no process of the application.
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
    fn a_cold_launch_counts_all_that_its_processes_did() {
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
    fn a_delay_longer_than_threads_can_wait_is_not_told() {
        let second = Duration::from_secs(1);
        let delays = Delays { storage: 3 * second, reclaim: second, ..Delays::default() };
        let waits = Waits { threads: 2, delays: Some(delays), ..Waits::default() };
        assert_eq!(waits.delay(2 * second, |delays| delays.storage), Some(3 * second));
        assert_eq!(waits.delay(second, |delays| delays.storage), None);
        assert_eq!(waits.delay(second, |delays| delays.reclaim), Some(second));
        assert_eq!(Waits::default().delay(second, |delays| delays.reclaim), None);
    }
}
