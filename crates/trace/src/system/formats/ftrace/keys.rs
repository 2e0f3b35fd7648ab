//! The `NAME=VALUE` pairs in the text of an event. Values end at a blank, but those of command names and paths,
//! which may hold blanks and even whole pairs, end at the last place where the next pair can begin.

use memchr::memmem;

/// Longest command name (TASK_COMM_LEN without the terminating zero).
pub(super) const COMM_BYTES_MAX: usize = 15;

/// Pairs that are kept; no event that is read has as many.
const PAIRS_MAX: usize = 24;

/// The pairs of a text.
pub(super) struct Keys<'line> {
    pairs: [(&'line [u8], &'line [u8]); PAIRS_MAX],
    count: usize,
}

impl<'line> Keys<'line> {
    /// The pairs in the text of an event with this name.
    pub(super) fn of(event: &[u8], text: &'line [u8]) -> Keys<'line> {
        let mut keys = Keys { pairs: [(b"", b""); PAIRS_MAX], count: 0 };
        let mut rest = text;
        while keys.count < PAIRS_MAX {
            rest = rest.trim_ascii_start();
            if rest.is_empty() {
                break;
            }
            let Some(equals) = rest.iter().position(|&byte| byte == b'=' || byte == b' ') else {
                break;
            };
            let name = &rest[..equals];
            if rest[equals] == b' ' || name.is_empty() {
                rest = &rest[equals + 1..];
                continue;
            }
            let after = &rest[equals + 1..];
            let length = match next_key(event, name) {
                Some((next, bytes_max)) => long_value(after, next, bytes_max),
                None => word(after),
            };
            keys.pairs[keys.count] = (name, &after[..length]);
            keys.count += 1;
            rest = &after[length..];
        }
        keys
    }

    /// The value of the first pair with this name.
    pub(super) fn get(&self, name: &[u8]) -> Option<&'line [u8]> {
        self.pairs[..self.count].iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
    }
}

/// Length of a value that ends at a blank.
fn word(text: &[u8]) -> usize {
    memchr::memchr(b' ', text).unwrap_or(text.len())
}

/// Length of a value that may hold blanks: up to the last `next` that begins within `bytes_max`.
fn long_value(text: &[u8], next: &[u8], bytes_max: usize) -> usize {
    let within = &text[..text.len().min(bytes_max.saturating_add(next.len()))];
    memmem::rfind(within, next).unwrap_or_else(|| word(text))
}

/// If a value may hold blanks, the beginning of the pair after it, and the length of the longest value.
fn next_key(event: &[u8], name: &[u8]) -> Option<(&'static [u8], usize)> {
    let next: &[u8] = match name {
        b"filename" => return Some((b" pid=", usize::MAX)),
        b"prev_comm" => b" prev_pid=",
        b"next_comm" => b" next_pid=",
        b"child_comm" => b" child_pid=",
        b"parent_comm" => b" parent_pid=",
        b"oldcomm" => b" newcomm=",
        b"newcomm" => b" oom_score_adj=",
        b"comm" => match event {
            b"task_newtask" => b" clone_flags=",
            b"oom_score_adj_update" => b" oom_score_adj=",
            b"mark_victim" => b" total-vm=",
            b"block_rq_issue" => b" cmd=",
            // The last field.
            b"block_bio_queue" => b"",
            _ => b" pid=",
        },
        _ => return None,
    };
    Some((next, COMM_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(event: &str, text: &str, name: &str) -> Option<String> {
        let keys = Keys::of(event.as_bytes(), text.as_bytes());
        keys.get(name.as_bytes()).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    #[test]
    fn command_names_hold_blanks_and_pairs() {
        let text = "comm=a pid=5 x pid=7 prio=120 target_cpu=001";
        assert_eq!(get("sched_waking", text, "comm").unwrap(), "a pid=5 x");
        assert_eq!(get("sched_waking", text, "pid").unwrap(), "7");
        assert_eq!(get("sched_waking", text, "target_cpu").unwrap(), "001");
        let text = "pid=7 comm=a clone_flags=3d0f00 oom_score_adj=-900";
        assert_eq!(get("task_newtask", text, "comm").unwrap(), "a");
        assert_eq!(get("task_newtask", text, "oom_score_adj").unwrap(), "-900");
        let text = "prev_comm=\") Z (\" prev_pid=1 prev_state=R+ ==> next_comm=b next_pid=2";
        assert_eq!(get("sched_switch", text, "prev_comm").unwrap(), "\") Z (\"");
        assert_eq!(get("sched_switch", text, "next_comm").unwrap(), "b");
        assert_eq!(get("sched_process_exec", "filename=/a b pid=1 pid=5", "pid").unwrap(), "5");
    }

    #[test]
    fn texts_without_pairs_have_none() {
        for text in ["", " ", "=", "==", "a", "a b c", "=a =b"] {
            assert_eq!(get("x", text, "a"), None, "{text}");
        }
        assert_eq!(get("x", "a=", "a").unwrap(), "");
        let many = "k=v ".repeat(2 * PAIRS_MAX);
        assert_eq!(get("x", &format!("{many}last=1"), "last"), None);
    }
}
