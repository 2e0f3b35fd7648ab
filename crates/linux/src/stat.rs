//! Parses `/proc/PID/stat` without allocating; fields have their numbers of proc_pid_stat(5).

use std::str::FromStr;

/// Numbers of fields, from 1.
const STATE: usize = 3;
const PARENT: usize = 4;
const FLAGS: usize = 9;
const USER_TICKS: usize = 14;
const SYSTEM_TICKS: usize = 15;
const WAITED_FOR_USER_TICKS: usize = 16;
const WAITED_FOR_SYSTEM_TICKS: usize = 17;
const THREADS: usize = 20;
const START_TICKS: usize = 22;
/// The flag of the kernel's own threads (PF_KTHREAD).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The text of a process or thread; it may be cut.
#[derive(Clone, Copy, Debug)]
pub struct Stat<'text> {
    name: &'text [u8],
    /// The text from the state on.
    rest: &'text [u8],
}

impl<'text> Stat<'text> {
    /// Finds the name; None if the text ends within it. The name is in parentheses and may itself contain
    /// parentheses, blanks and text that looks like the fields after it; those have no parenthesis.
    pub fn parse(text: &'text [u8]) -> Option<Stat<'text>> {
        let begin = text.iter().position(|&byte| byte == b'(')? + 1;
        let end = text.iter().rposition(|&byte| byte == b')')?;
        Some(Stat { name: text.get(begin..end)?, rest: text[end + 1..].trim_ascii() })
    }

    /// The unmodified name of the process, at most 15 arbitrary bytes.
    pub fn name(&self) -> &'text [u8] {
        self.name
    }

    /// The state of the process: `R`, `S`, `D` for uninterruptible sleep, `Z` or `X` if it has ended, or another letter.
    pub fn state(&self) -> Option<u8> {
        self.text(STATE)?.first().copied()
    }

    /// Whether the process has ended: none of its threads runs.
    pub fn has_ended(&self) -> bool {
        self.has_main_thread_ended() && self.number(THREADS).is_none_or(|count: u64| count <= 1)
    }

    /// Whether the main thread has ended; other threads may still run (`pthread_exit(3)` in `main`).
    pub fn has_main_thread_ended(&self) -> bool {
        matches!(self.state(), Some(b'Z' | b'X'))
    }

    /// The number in a field after the state; None if there is no such field.
    pub fn number<Number: FromStr>(&self, field: usize) -> Option<Number> {
        std::str::from_utf8(self.text(field)?).ok()?.parse().ok()
    }

    /// CPU time of all its threads so far, in ticks (`system::tick`).
    pub fn cpu_ticks(&self) -> Option<u64> {
        Some(self.number::<u64>(USER_TICKS)? + self.number::<u64>(SYSTEM_TICKS)?)
    }

    /// CPU time of the children that the process has waited for, in ticks.
    pub fn waited_for_ticks(&self) -> Option<u64> {
        Some(
            self.number::<u64>(WAITED_FOR_USER_TICKS)?
                + self.number::<u64>(WAITED_FOR_SYSTEM_TICKS)?,
        )
    }

    /// The PID of the parent process.
    pub fn parent(&self) -> Option<u32> {
        self.number(PARENT)
    }

    /// Whether the process is a thread of the kernel.
    pub fn is_kernel_thread(&self) -> Option<bool> {
        Some(self.number::<u64>(FLAGS)? & KERNEL_THREAD != 0)
    }

    /// The part of its CPU time in user mode, in ticks.
    pub fn user_ticks(&self) -> Option<u64> {
        self.number(USER_TICKS)
    }

    /// The start time of the process, in ticks since boot.
    pub fn start_ticks(&self) -> Option<u64> {
        self.number(START_TICKS)
    }

    fn text(&self, field: usize) -> Option<&'text [u8]> {
        self.rest.split(|&byte| byte == b' ').nth(field.checked_sub(STATE)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_the_fields_after_it() {
        let text = b"77 () Z 1 (\nx) S 1 77 77 0 -1 64 5 0 6 0 11 12 7 8 20 -5 1 0 100 4096\n";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.name(), stat.state()), (&b") Z 1 (\nx"[..], Some(b'S')));
        assert_eq!((stat.cpu_ticks(), stat.start_ticks()), (Some(23), Some(100)));
        assert_eq!((stat.waited_for_ticks(), stat.parent()), (Some(15), Some(1)));
        assert_eq!(stat.is_kernel_thread(), Some(false));
        assert_eq!((stat.number(19), stat.number(23)), (Some(-5_i64), Some(4096_i64)));
        assert_eq!(stat.number::<u64>(24), None);
    }

    #[test]
    fn a_process_has_ended_with_its_last_thread() {
        let of = |state: &str, threads: u32| {
            format!("7 (x) {state} 1 7 7 0 -1 64 5 0 6 0 11 12 0 0 20 0 {threads} 0 9 0")
        };
        let ends = [("S", 1, (false, false)), ("Z", 1, (true, true)), ("Z", 2, (true, false))];
        for (state, threads, expected) in ends {
            let text = of(state, threads);
            let stat = Stat::parse(text.as_bytes()).unwrap();
            let found = (stat.has_main_thread_ended(), stat.has_ended());
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_cut_text_has_the_fields_before_the_cut() {
        assert!(Stat::parse(b"77 (x").is_none() && Stat::parse(b"").is_none());
        let stat = Stat::parse(b"77 (x) D 1").unwrap();
        assert_eq!((stat.state(), stat.cpu_ticks()), (Some(b'D'), None));
        assert_eq!(Stat::parse(b"77 (x)").unwrap().state(), None);
    }
}
