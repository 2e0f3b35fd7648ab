//! Lists of processes and threads, which systrace puts beside the trace and recipes into series of snapshots: `ps` with
//! the columns USER PID PPID ... NAME or COMMAND for processes, and USER PID TID CMD for threads.

use crate::system::{Kind, Name, Names};
use crate::text::decimal;

/// Which columns the lines have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Columns {
    /// No header came yet.
    #[default]
    Unknown,
    /// Processes, with the place of the name.
    Processes(usize),
    /// Threads, with the place of the name.
    Threads(usize),
}

impl Columns {
    /// The process or thread of a line; `None` for a header and for a line that has neither.
    pub(super) fn read(&mut self, line: &[u8], names: &mut Names) -> Option<Kind> {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        if line.starts_with(b"USER") {
            let place = |name: &[u8]| words.clone().position(|word| word == name);
            *self = match (place(b"TID"), place(b"NAME").or(place(b"COMMAND")), place(b"CMD")) {
                (Some(2), name, command) => command.or(name).map(Columns::Threads),
                (_, Some(name), _) => Some(Columns::Processes(name)),
                _ => None,
            }
            .unwrap_or_default();
            return None;
        }
        let number = |word: Option<&[u8]>| u32::try_from(decimal(word?)?).ok();
        let first = number(words.nth(1))?;
        let second = number(words.next())?;
        let mut name_at = |place: usize| {
            // Threads of the kernel are between brackets.
            let word = words.nth(place.checked_sub(3)?)?;
            let inner = word.strip_prefix(b"[").and_then(|word| word.strip_suffix(b"]"));
            Some(names.intern(inner.unwrap_or(word)))
        };
        match *self {
            Columns::Processes(place) => {
                let name = name_at(place).unwrap_or(Name::NONE);
                Some(Kind::Process { pid: first, parent: second, name, uid: None })
            }
            Columns::Threads(place) => {
                let comm = name_at(place).unwrap_or(Name::NONE);
                Some(Kind::Thread { tid: second, pid: first, comm })
            }
            Columns::Unknown => None,
        }
    }
}
