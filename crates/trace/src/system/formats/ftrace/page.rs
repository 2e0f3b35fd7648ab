//! What is around the lines of events: comments, losses, and the HTML of systrace with its list of processes.

use memchr::memmem;

use super::header::split_header;
use crate::text::{skip_blanks, take_decimal};

/// Marks in the first bytes of the HTML pages of systrace and its successors. The trace itself follows
/// after megabytes of scripts.
const PAGE_MARKS: [&[u8]; 4] =
    [b"class=\"trace-data\"", b"Android System Trace", b"trace-viewer", b"systrace"];

/// Whether an HTML page that begins with these bytes is one of systrace.
pub(crate) fn is_systrace(head: &[u8]) -> bool {
    PAGE_MARKS.iter().any(|mark| memmem::find(head, mark).is_some())
}

/// Whether a file that begins with these bytes is an HTML page.
pub(crate) fn is_html(head: &[u8]) -> bool {
    let head = head.trim_ascii_start();
    head.get(..9).is_some_and(|start| start.eq_ignore_ascii_case(b"<!doctype"))
        || head.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"<html"))
}

/// What the lines at the current position of the file contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Lines of the trace, to the end of the file.
    Trace,
    /// HTML around the trace.
    Page,
    /// Lines of the trace until the script ends.
    Script,
    /// The list of processes, which systrace puts into a separate script, until that script ends.
    ProcessList,
}

/// The line above systrace's list of processes.
const PROCESS_LIST: &[u8] = b"PROCESS DUMP";

impl Place {
    /// The place of the first line of a file.
    pub(crate) fn of(head: &[u8]) -> Place {
        if is_html(head) { Place::Page } else { Place::Trace }
    }

    /// Follows the HTML around the trace, and returns where this line is; `None` if it belongs to the page.
    pub(crate) fn follow(&mut self, line: &[u8]) -> Option<Place> {
        match self {
            Place::Trace => {}
            Place::Script | Place::ProcessList => {
                if memmem::find(line, b"</script").is_some() && split_header(line).is_none() {
                    *self = Place::Page;
                    return None;
                }
                if line.trim_ascii() == PROCESS_LIST {
                    *self = Place::ProcessList;
                }
            }
            Place::Page => {
                if line.trim_ascii_start().starts_with(b"<script")
                    && memmem::find(line, b"class=\"trace-data\"").is_some()
                {
                    *self = Place::Script;
                }
                return None;
            }
        }
        Some(*self)
    }
}

/// What a line that records no event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// A comment, or a line that a tool puts around the trace.
    Comment,
    /// Events that newer ones overwrote in the ring buffer.
    Overwritten(u64),
    /// Events that the kernel dropped.
    Dropped(u64),
}

/// The reason of [`Note::Overwritten`].
pub(crate) const OVERWRITTEN: &str = "events overwritten in the ring buffer";

/// The reason of [`Note::Dropped`].
pub(crate) const DROPPED: &str = "events that the kernel dropped";

/// What a line that records no event says; `None` for a bad line.
pub(crate) fn note(line: &[u8]) -> Option<Note> {
    let line = line.trim_ascii();
    if let Some(counts) = line.strip_prefix(b"# entries-in-buffer/entries-written:") {
        let counts = take_decimal(skip_blanks(counts));
        if let Some((held, [b'/', written @ ..])) = counts
            && let Some((written, _)) = take_decimal(written)
        {
            return Some(Note::Overwritten(written.saturating_sub(held)));
        }
        return Some(Note::Comment);
    }
    if let Some(count) = loss_of(line) {
        return Some(Note::Dropped(count));
    }
    let is_comment = line.is_empty()
        || line.starts_with(b"#")
        || line.starts_with(b"version = ")
        || line.starts_with(b"cpus=")
        || (line.starts_with(b"CPU ") && line.ends_with(b" is empty"))
        || line == b"TRACE:"
        // The JSON in the second trace-data script of systrace.
        || line.starts_with(b"{\"traceEvents\"");
    is_comment.then_some(Note::Comment)
}

/// The count in `CPU:3 [LOST 12 EVENTS]` (tracefs) or `CPU:3 [12 EVENTS DROPPED]` (trace-cmd).
fn loss_of(line: &[u8]) -> Option<u64> {
    let (_, rest) = take_decimal(line.strip_prefix(b"CPU:")?)?;
    let rest = rest.strip_prefix(b" [")?;
    let rest = rest.strip_prefix(b"LOST ").unwrap_or(rest);
    let (count, rest) = take_decimal(rest)?;
    rest.starts_with(b" EVENTS").then_some(count)
}
