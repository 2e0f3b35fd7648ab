//! Which row of a catalog of formats an input belongs to, by its first bytes: for the formats of pages
//! and for those of memory references.

use crate::Error;
use crate::input::Input;
use crate::text::BYTE_ORDER_MARK;

/// How surely a recording has a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// The recording has another format.
    No,
    /// The bytes do not contradict the format, which has little structure.
    Possible,
    /// Every inspected part has the structure of the format.
    Likely,
    /// The recording carries the mark of the format.
    Certain,
}

impl Confidence {
    /// `self` if `holds`, else `No`.
    pub const fn when(self, holds: bool) -> Confidence {
        if holds { self } else { Confidence::No }
    }
}

/// A function that judges how surely a recording that begins with these decompressed bytes has a format.
pub type Sniff = fn(head: &[u8]) -> Confidence;

/// The first row of a catalog among those that are surest of an input; `None` if no row recognises it.
///
/// # Errors
/// If the input cannot be read.
pub(crate) fn surest<Row>(
    input: &mut Input,
    catalog: &'static [Row],
    sniff: impl Fn(&Row) -> Sniff,
) -> Result<Option<&'static Row>, Error> {
    input.fill()?;
    let head = head(input);
    let mut best = (Confidence::No, None);
    for row in catalog {
        let confidence = sniff(row)(head);
        if confidence > best.0 {
            best = (confidence, Some(row));
        }
    }
    Ok(best.1)
}

/// The beginning of an input, without the byte order mark that editors put before text.
pub(crate) fn head(input: &Input) -> &[u8] {
    let held = input.held();
    held.strip_prefix(BYTE_ORDER_MARK).unwrap_or(held)
}

/// The first complete lines of a recording, at most `limit`, without comments and empty lines.
pub(crate) fn head_lines(head: &[u8], limit: usize) -> Vec<&[u8]> {
    let whole = match memchr::memrchr(b'\n', head) {
        Some(line_end) => &head[..line_end],
        None => head,
    };
    whole
        .split(|&byte| byte == b'\n')
        .map(|line| line.trim_ascii())
        .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
        .take(limit)
        .collect()
}
