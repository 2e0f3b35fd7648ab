//! The markers that userspace writes to trace_marker, as Android's atrace defines them
//! (system/core/libcutils/trace-dev.inc): `B|PID|NAME`, `E|PID`, `S|PID|NAME|COOKIE`, `F|PID|NAME|COOKIE`,
//! `G|PID|TRACK|NAME|COOKIE`, `H|PID|TRACK|NAME|COOKIE`, `C|PID|NAME|VALUE`, `I|PID|NAME`, `N|PID|TRACK|NAME`.

use super::context::Context;
use crate::system::{Kind, Name, Names, android};

/// The event of a marker's text; `None` if the text is no marker.
pub fn marker(text: &[u8], context: Context, names: &mut Names) -> Option<Kind> {
    let text = text.trim_ascii_end();
    let (&letter, rest) = text.split_first()?;
    if letter == b'E' && rest.is_empty() {
        return Some(Kind::SliceEnd { pid: 0 });
    }
    let rest = rest.strip_prefix(b"|")?;
    let (pid, rest) = match memchr::memchr(b'|', rest) {
        Some(bar) => (&rest[..bar], &rest[bar + 1..]),
        None => (rest, &b""[..]),
    };
    let pid = match pid {
        b"" => 0,
        digits => u32::try_from(crate::text::decimal(digits)?).ok()?,
    };
    let intern = |names: &mut Names, name: &[u8]| {
        if android::is_needed(name) { names.intern_needed(name) } else { names.intern(name) }
    };
    Some(match letter {
        b'B' => Kind::SliceBegin { pid, name: intern(names, rest) },
        b'E' => Kind::SliceEnd { pid },
        b'S' => {
            let (name, cookie) = name_and_number(rest)?;
            Kind::AsyncBegin { pid, name: intern(names, name), cookie, track: Name::NONE }
        }
        b'F' => {
            let (name, cookie) = name_and_number(rest)?;
            Kind::AsyncEnd { pid, name: intern(names, name), cookie, track: Name::NONE }
        }
        b'G' => {
            let (track, rest) = split(rest)?;
            let (name, cookie) = name_and_number(rest)?;
            let track = intern(names, track);
            Kind::AsyncBegin { pid, name: intern(names, name), cookie, track }
        }
        b'H' => {
            let (track, rest) = split(rest)?;
            // Newer Android names only the track.
            let (name, cookie) = match name_and_number(rest) {
                Some(named) => named,
                None => (&b""[..], signed(rest)?),
            };
            let track = intern(names, track);
            Kind::AsyncEnd { pid, name: intern(names, name), cookie, track }
        }
        b'C' => {
            let (name, value) = name_and_number(rest)?;
            // Every process has thousands of values of few names.
            Kind::Counter { pid: or_thread(pid, context), name: intern(names, name), value }
        }
        b'I' => Kind::Instant { pid, name: intern(names, rest), track: Name::NONE },
        b'N' => {
            let (track, name) = split(rest)?;
            let track = intern(names, track);
            Kind::Instant { pid, name: intern(names, name), track }
        }
        _ => return None,
    })
}

/// The pid of a counter; a marker of the kernel has none, and then the thread stands for its process.
fn or_thread(pid: u32, context: Context) -> u32 {
    if pid == 0 { context.tid } else { pid }
}

/// Both sides of the first bar.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let bar = memchr::memchr(b'|', text)?;
    Some((&text[..bar], &text[bar + 1..]))
}

/// A name, which may contain bars, and the number after its last bar. Some writers append a category.
fn name_and_number(text: &[u8]) -> Option<(&[u8], i64)> {
    let bar = memchr::memrchr(b'|', text)?;
    if let Some(number) = signed(&text[bar + 1..]) {
        return Some((&text[..bar], number));
    }
    let before = memchr::memrchr(b'|', &text[..bar])?;
    Some((&text[..before], signed(&text[before + 1..bar])?))
}

fn signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => 0i64.checked_sub_unsigned(crate::text::decimal(digits)?),
        // A cookie or value of 64 bits without sign keeps its bits.
        None => crate::text::decimal(text).map(|number| number as i64),
    }
}
