//! The beginning of a line: `COMM-PID (TGID) [CPU] FLAGS TIME: EVENT: ARGUMENTS` as tracefs, trace-cmd and
//! systrace write it (trace_print_context in kernel/trace/trace_output.c; the group id and the flags, four,
//! five or more letters, may be absent), and `COMM PID [CPU] TIME: GROUP:EVENT: ARGUMENTS` of `perf script`.

use crate::text::{SECOND_NS, skip_blanks, take_decimal, take_time, take_word};

/// The part of a line before the event's arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LineHeader<'line> {
    /// Command name with its leading blanks.
    pub(crate) comm: &'line [u8],
    /// The thread that ran.
    pub(crate) pid: u32,
    /// The process of the thread, if the line has it.
    pub(crate) tgid: Option<u32>,
    /// The CPU.
    pub(crate) cpu: u32,
    /// Nanoseconds on the clock of the trace.
    pub(crate) time_ns: i64,
    /// Name of the event, without its group.
    pub(crate) event: &'line [u8],
    /// The rest of the line.
    pub(crate) arguments: &'line [u8],
}

/// Width of the command name in an untrimmed line, and its maximum length.
const COMM_WIDTH: usize = 16;

/// Splits a line at the dash before its pid. A command may contain dashes, digits, brackets and even text
/// that looks like a header. But it has at most 16 bytes, and the last header that begins within them is
/// the line's own.
pub(crate) fn split_header(line: &[u8]) -> Option<LineHeader<'_>> {
    if line.get(COMM_WIDTH) == Some(&b'-')
        && let Some(header) = header_at(line, COMM_WIDTH)
    {
        return Some(header);
    }
    let within = &line[..line.len().min(COMM_WIDTH)];
    let mut ends = memchr::memrchr_iter(b'-', within);
    ends.find_map(|dash| header_at(line, dash))
        .or_else(|| {
            // A line with more indentation than the kernel writes.
            let after = line.get(COMM_WIDTH..line.len().min(4 * COMM_WIDTH))?;
            memchr::memchr_iter(b'-', after).find_map(|dash| header_at(line, COMM_WIDTH + dash))
        })
        .or_else(|| perf_header(line))
}

#[inline]
fn header_at(line: &[u8], dash: usize) -> Option<LineHeader<'_>> {
    let (pid, rest) = take_decimal(&line[dash + 1..])?;
    let mut rest = skip_blanks(rest);
    let mut tgid = None;
    if let [b'(', group @ ..] = rest {
        let close = memchr::memchr(b')', group.get(..16).unwrap_or(group))?;
        tgid = take_decimal(skip_blanks(&group[..close])).map(|(tgid, _)| tgid);
        rest = skip_blanks(&group[close + 1..]);
    }
    let (cpu, rest) = take_decimal(rest.strip_prefix(b"[")?)?;
    let rest = skip_blanks(rest.strip_prefix(b"]")?);
    let (time_ns, rest) = match take_stamp(rest) {
        Some((time_ns, rest)) if rest.starts_with(b":") => (time_ns, rest),
        // Flags: letters, dots, digits and signs without a blank.
        _ => take_stamp(skip_blanks(take_word(rest)?.1))?,
    };
    let rest = skip_blanks(rest.strip_prefix(b":")?);
    let colon = memchr::memchr2(b':', b' ', rest)?;
    if colon == 0 || rest[colon] != b':' {
        return None;
    }
    Some(LineHeader {
        comm: &line[..dash],
        pid: u32::try_from(pid).ok()?,
        tgid: tgid.and_then(|tgid| u32::try_from(tgid).ok()),
        cpu: u32::try_from(cpu).ok()?,
        time_ns,
        event: &rest[..colon],
        arguments: &rest[colon + 1..],
    })
}

/// A time: seconds with a fraction, or whole nanoseconds, as trace-cmd prints those of the clock `boot`.
fn take_stamp(text: &[u8]) -> Option<(i64, &[u8])> {
    let (whole, rest) = take_decimal(text)?;
    if rest.starts_with(b".") {
        return take_time(text, SECOND_NS);
    }
    Some((i64::try_from(whole).ok()?, rest))
}

/// The header of `perf script`: the command in 16 columns or more, and blanks in place of the dash.
fn perf_header(line: &[u8]) -> Option<LineHeader<'_>> {
    // A command has at most 15 bytes and is padded, so that the bracket of the CPU comes soon.
    let within = line.get(..line.len().min(4 * COMM_WIDTH))?;
    memchr::memrchr_iter(b'[', within).find_map(|bracket| perf_header_at(line, bracket))
}

fn perf_header_at(line: &[u8], bracket: usize) -> Option<LineHeader<'_>> {
    let (cpu, rest) = take_decimal(&line[bracket + 1..])?;
    let (time_ns, rest) = take_time(skip_blanks(rest.strip_prefix(b"]")?), SECOND_NS)?;
    let rest = skip_blanks(rest.strip_prefix(b":")?);
    let (name, arguments) = take_word(rest)?;
    let (group, event) = split_once(name.strip_suffix(b":")?, b':')?;
    let before = line[..bracket].trim_ascii_end();
    let blank = memchr::memrchr(b' ', before)?;
    let (pid, tid) = match split_once(&before[blank + 1..], b'/') {
        Some((pid, tid)) => (Some(whole(pid)?), whole(tid)?),
        None => (None, whole(&before[blank + 1..])?),
    };
    if group.is_empty() || event.is_empty() || before.len() == before[blank..].len() {
        return None;
    }
    Some(LineHeader {
        comm: before[..blank].trim_ascii_end(),
        pid: tid,
        tgid: pid,
        cpu: u32::try_from(cpu).ok()?,
        time_ns,
        event,
        arguments,
    })
}

fn split_once(text: &[u8], delimiter: u8) -> Option<(&[u8], &[u8])> {
    let place = memchr::memchr(delimiter, text)?;
    Some((&text[..place], &text[place + 1..]))
}

fn whole(digits: &[u8]) -> Option<u32> {
    u32::try_from(crate::text::decimal(digits)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(line: &str) -> (String, u32, Option<u32>, i64, String) {
        let header = split_header(line.as_bytes()).unwrap_or_else(|| panic!("no header: {line}"));
        (
            String::from_utf8_lossy(skip_blanks(header.comm)).into(),
            header.pid,
            header.tgid,
            header.time_ns,
            String::from_utf8_lossy(header.event).into(),
        )
    }

    #[test]
    fn every_layout_of_the_header_is_read() {
        let expected = |comm: &str, tgid| (comm.to_owned(), 7, tgid, 1_500_000_000, "e".to_owned());
        assert_eq!(
            header("             cat-7       [001] .....  1.500000: e: x"),
            expected("cat", None)
        );
        assert_eq!(
            header("             cat-7       [001] d..1  1.500000: e: x"),
            expected("cat", None)
        );
        assert_eq!(
            header("             cat-7       [001] dNh3...  1.5: e: x"),
            expected("cat", None)
        );
        assert_eq!(
            header("             cat-7     [001]     1.500000: e:   x"),
            expected("cat", None)
        );
        assert_eq!(
            header("   cat-7       (  99) [001] d..1  1.500000: e: x"),
            expected("cat", Some(99))
        );
        assert_eq!(
            header("   cat-7       (-----) [001] d..1  1.500000: e: x"),
            expected("cat", None)
        );
        assert_eq!(header("cat-7 [001] 1.500000: e:"), expected("cat", None));
        assert_eq!(header("           <...>-7     [001] ....  1.5: e: x"), expected("<...>", None));
    }

    #[test]
    fn hostile_names_are_read_as_names() {
        for comm in ["\") Z (\"", "a-1 [0] 1.1: x:", "-1", "a b-2", "[1] 2.2: e:", "- 5 -", "()"] {
            let line = format!("{comm:>16}-7       [001] .....  1.500000: e: a-9 [2] 3.3: f: y");
            assert_eq!(header(&line).0, comm.trim_start(), "{line}");
            assert_eq!(header(&line).1, 7);
        }
    }
    #[test]
    fn the_header_of_perf_script_is_read() {
        let expected = |comm: &str, tgid| (comm.to_owned(), 7, tgid, 1_500_000_000, "e".to_owned());
        assert_eq!(
            header("             cat     7 [001]     1.500000: g:e: x"),
            expected("cat", None)
        );
        assert_eq!(header("cat 9/7 [001] 1.500000: g:e: x"), expected("cat", Some(9)));
        assert_eq!(header("a b [0] 1.1: 7 [001] 1.500000: g:e: x").0, "a b [0] 1.1:");
        for line in
            ["cat 7 [001] 1.5: e: x", "7 [001] 1.5: g:e: x", "cat x [001] 1.5: g:e:", "[", ""]
        {
            assert!(split_header(line.as_bytes()).is_none(), "{line}");
        }
    }
}
