//! How a trace of references ends, as results state it: signals by name, and what is missing in words.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Ending, Processes, Stop};

/// Signals of Linux from 1 on.
const SIGNALS: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

/// The end of a trace, with the signal that ended a captured program by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ReferencesEnding")]
pub struct Ended {
    /// Instructions fetched.
    pub instructions: u64,
    /// Data read.
    pub reads: u64,
    /// Data written, or read and written by one instruction.
    pub writes: u64,
    /// Why the trace ends.
    pub stop: Stop,
    /// What a captured program started; absent for an imported trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<Processes>,
    /// Exit status of a captured program that came to its end by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<i32>,
    /// Name of the signal that ended a captured program, unless the capture ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
}

impl Ended {
    /// The words for the ending that a trace holds.
    pub fn new(ending: &Ending) -> Ended {
        let &Ending { instructions, reads, writes, stop, processes, exit_status, signal } = ending;
        let signal = signal.map(signal_name);
        Ended { instructions, reads, writes, stop, processes, exit_status, signal }
    }
}

/// Why a trace with this ending has less than the whole run; none if it has the whole run.
pub fn cut(ending: Option<&Ending>) -> Option<String> {
    let Some(ending) = ending else { return Some("the file was cut off".to_owned()) };
    match ending.stop {
        Stop::End => {
            ending.signal.map(|number| format!("the program was ended by {}", signal_name(number)))
        }
        Stop::Limit => Some("the capture ended at the requested number of references".to_owned()),
        Stop::Interrupt => Some("the capture was interrupted".to_owned()),
        Stop::Closed => Some("the program closed the file that its references went to".to_owned()),
    }
}

/// `SIGSEGV` for 11; a real-time signal, which has no name, by its number.
fn signal_name(number: i32) -> String {
    let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    match (place.and_then(|place| SIGNALS.get(place)), number) {
        (Some(name), _) => (*name).to_owned(),
        (None, 34) => "SIGRTMIN".to_owned(),
        (None, 64) => "SIGRTMAX".to_owned(),
        (None, number) => format!("signal {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::ReferenceTotals;

    #[test]
    fn a_signal_is_named_and_reported_only_of_a_program_that_ran_to_its_end() {
        let ending = |stop| Ending::new(ReferenceTotals::default(), stop, None).with_status(-11);
        let ended = ending(Stop::End);
        assert_eq!(Ended::new(&ended).signal.as_deref(), Some("SIGSEGV"));
        assert_eq!(cut(Some(&ended)).as_deref(), Some("the program was ended by SIGSEGV"));
        assert_eq!(
            cut(Some(&ending(Stop::Interrupt))).as_deref(),
            Some("the capture was interrupted")
        );
        let whole = Ending::new(ReferenceTotals::default(), Stop::End, None);
        assert_eq!(cut(Some(&whole)), None);
        assert_eq!(cut(None).as_deref(), Some("the file was cut off"));
        let names = [(0, "signal 0"), (31, "SIGSYS"), (34, "SIGRTMIN"), (35, "signal 35")];
        assert!(names.iter().all(|&(number, name)| signal_name(number) == name));
    }
}
