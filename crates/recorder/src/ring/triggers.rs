//! What makes a ring keep its events: kills, pressure, and the user.

use std::str::FromStr;

use linux::pressure::Pressure;
use trace::recording::{Record, flag, kind};

/// A reason to keep the events of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingTrigger {
    /// A process gets SIGKILL from any sender.
    Kill,
    /// The kernel's OOM killer chooses a process.
    OomKill,
    /// Tasks stall for memory.
    Pressure(PressureShare),
    /// The user asks for it by a signal, which always counts.
    Signal,
}

/// A share of the last ten seconds, as PSI reports it (`avg10`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PressureShare {
    /// Whether every task stalls (`full`), or some task (`some`).
    pub is_full: bool,
    /// The share, in hundredths of a percent.
    pub basis_points: u32,
}

/// The names of causes.
const KILL: &str = "kill";
const OOM_KILL: &str = "oom-kill";
const PSI: &str = "psi";
/// The name of the cause if the user asked.
pub const SIGNAL: &str = "signal";

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The name of the trigger: `kill`, `oom-kill`, `psi` or `signal`.
    pub trigger: &'static str,
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub time_ns: u64,
    /// The killed process, if it was a kill.
    pub process: Option<u32>,
}

impl FromStr for RingTrigger {
    type Err = String;

    fn from_str(text: &str) -> Result<RingTrigger, String> {
        match text {
            KILL => return Ok(RingTrigger::Kill),
            OOM_KILL => return Ok(RingTrigger::OomKill),
            SIGNAL => return Ok(RingTrigger::Signal),
            _ => {}
        }
        let expected = || "expected kill, oom-kill, psi=some:20% or signal".to_owned();
        let (line, share) =
            text.strip_prefix("psi=").ok_or_else(expected)?.split_once(':').ok_or_else(expected)?;
        let is_full = match line {
            "some" => false,
            "full" => true,
            _ => return Err("expected some or full after psi=, such as psi=some:20%".to_owned()),
        };
        let share: Option<f64> = share.strip_suffix('%').and_then(|number| number.parse().ok());
        match share {
            Some(percent) if percent > 0.0 && percent <= 100.0 => {
                let basis_points = (percent * 100.0).round().max(1.0) as u32;
                Ok(RingTrigger::Pressure(PressureShare { is_full, basis_points }))
            }
            _ => Err("expected a share above 0% and up to 100%, such as psi=some:20%".to_owned()),
        }
    }
}

impl PressureShare {
    fn is_reached(self, pressure: &Pressure) -> bool {
        let Pressure { some_basis_points, full_basis_points, .. } = *pressure;
        let share = if self.is_full { full_basis_points } else { some_basis_points };
        share >= self.basis_points
    }
}

/// Watches for triggers. Pressure triggers once, and again only after it was below the threshold.
pub struct Triggers {
    wanted: Vec<RingTrigger>,
    /// Whether each of `wanted` is a threshold that was reached at the last look.
    were_reached: Vec<bool>,
    /// The first cause since the last call of `take`.
    cause: Option<Cause>,
}

impl Triggers {
    /// Watches for these triggers.
    pub fn new(wanted: &[RingTrigger]) -> Triggers {
        Triggers { wanted: wanted.to_vec(), were_reached: vec![false; wanted.len()], cause: None }
    }

    /// Looks for kills in events.
    pub fn see_events(&mut self, records: &[Record]) {
        let (wants_all, wants_kernels) =
            (self.wanted.contains(&RingTrigger::Kill), self.wanted.contains(&RingTrigger::OomKill));
        if !(wants_all || wants_kernels) {
            return;
        }
        for record in records.iter().filter(|record| record.kind == kind::KILL) {
            let is_of_kernel = record.flags & flag::OOM_KILL != 0;
            let trigger = if is_of_kernel { OOM_KILL } else { KILL };
            let (time_ns, process) = (record.time_ns, Some(record.process));
            match &mut self.cause {
                None if wants_all || is_of_kernel => {
                    self.cause = Some(Cause { trigger, time_ns, process });
                }
                // The kernel sends the signal before it reports its choice (__oom_kill_process in mm/oom_kill.c).
                Some(cause) if is_of_kernel && cause.process == process => cause.trigger = OOM_KILL,
                _ => {}
            }
        }
    }

    /// Whether the pressure of memory is needed.
    pub fn wants_pressure(&self) -> bool {
        self.wanted.iter().any(|trigger| matches!(trigger, RingTrigger::Pressure(_)))
    }

    /// Looks at the pressure of memory.
    pub fn see_pressure(&mut self, time_ns: u64, pressure: &Pressure) {
        for (trigger, was_reached) in self.wanted.iter().zip(&mut self.were_reached) {
            let RingTrigger::Pressure(threshold) = trigger else { continue };
            let is_reached = threshold.is_reached(pressure);
            if is_reached && !*was_reached {
                self.cause.get_or_insert(Cause { trigger: PSI, time_ns, process: None });
            }
            *was_reached = is_reached;
        }
    }

    /// Notes that the user asks to keep the events.
    pub fn ask(&mut self, time_ns: u64) {
        self.cause.get_or_insert(Cause { trigger: SIGNAL, time_ns, process: None });
    }

    /// The first cause since the last call.
    pub fn take(&mut self) -> Option<Cause> {
        self.cause.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_are_parsed_and_others_are_refused() {
        let threshold = |is_full, basis_points| {
            Ok(RingTrigger::Pressure(PressureShare { is_full, basis_points }))
        };
        for (text, expected) in [
            ("kill", Ok(RingTrigger::Kill)),
            ("oom-kill", Ok(RingTrigger::OomKill)),
            ("signal", Ok(RingTrigger::Signal)),
            ("psi=some:20%", threshold(false, 2000)),
            ("psi=full:0.5%", threshold(true, 50)),
            ("psi=full:100%", threshold(true, 10_000)),
        ] {
            assert_eq!(text.parse::<RingTrigger>(), expected, "{text}");
        }
        for text in
            ["", "kills", "psi", "psi=", "psi=20%", "psi=all:20%", "psi=some:20", "psi=some:0%"]
        {
            assert!(text.parse::<RingTrigger>().unwrap_err().contains("expected"), "{text}");
        }
        for text in ["psi=some:100.1%", "psi=some:-1%", "psi=some:NaN%", "psi=some:inf%"] {
            assert!(text.parse::<RingTrigger>().unwrap_err().contains("100%"), "{text}");
        }
    }

    #[test]
    fn the_first_kill_is_the_cause_and_others_are_not_kills() {
        let record = |kind, process, flags| Record {
            time_ns: 100 + u64::from(process),
            kind,
            process,
            flags,
            ..Record::default()
        };
        let events = [
            // The flag of another kind has the same bit.
            record(kind::PAGE_OUT, 1, flag::NO_OWNER),
            record(kind::KILL, 2, 0),
            record(kind::KILL, 3, flag::OOM_KILL),
        ];
        let cause = |wanted: &[RingTrigger]| {
            let mut triggers = Triggers::new(wanted);
            triggers.see_events(&events[..1]);
            assert_eq!(triggers.take(), None);
            triggers.see_events(&events);
            triggers.see_events(&events[2..]);
            let cause = triggers.take().map(|cause| (cause.trigger, cause.process, cause.time_ns));
            assert_eq!(triggers.take(), None);
            cause
        };
        assert_eq!(cause(&[RingTrigger::Kill]), Some(("kill", Some(2), 102)));
        assert_eq!(cause(&[RingTrigger::OomKill]), Some(("oom-kill", Some(3), 103)));
        assert_eq!(cause(&[RingTrigger::OomKill, RingTrigger::Kill]), Some(("kill", Some(2), 102)));
        assert_eq!(cause(&[RingTrigger::Signal]), None);
        let of_one = [record(kind::KILL, 5, 0), record(kind::KILL, 5, flag::OOM_KILL)];
        let mut triggers = Triggers::new(&[RingTrigger::Kill]);
        triggers.see_events(&of_one);
        let expected = Cause { trigger: OOM_KILL, time_ns: 105, process: Some(5) };
        assert_eq!(triggers.take(), Some(expected));
    }

    #[test]
    fn pressure_triggers_again_only_after_it_was_low() {
        let wanted = ["psi=some:20%", "psi=full:5%"].map(|text| text.parse().unwrap());
        let mut triggers = Triggers::new(&wanted);
        assert!(triggers.wants_pressure() && !Triggers::new(&[RingTrigger::Kill]).wants_pressure());
        let mut found = Vec::new();
        for (time_ns, some_basis_points, full_basis_points) in
            [(1, 1999, 0), (2, 2000, 0), (3, 9000, 0), (4, 9000, 500), (5, 0, 0), (6, 2000, 0)]
        {
            let pressure = Pressure { some_basis_points, full_basis_points, ..Pressure::default() };
            triggers.see_pressure(time_ns, &pressure);
            found.extend(triggers.take().map(|cause| (cause.trigger, cause.time_ns)));
        }
        assert_eq!(found, [("psi", 2), ("psi", 4), ("psi", 6)]);
    }

    #[test]
    fn the_user_may_always_ask() {
        let mut triggers = Triggers::new(&[]);
        triggers.ask(7);
        triggers.ask(8);
        let cause = Cause { trigger: "signal", time_ns: 7, process: None };
        assert_eq!(triggers.take(), Some(cause));
    }
}
