//! Which row of a catalog of formats an input belongs to, by its first bytes: for the formats of pages
//! and for those of memory references.

use crate::Error;
use crate::input::Input;
use crate::text::BYTE_ORDER_MARK;

/// How sure a format is that a recording is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// It is not.
    No,
    /// Nothing speaks against it; formats with more structure come first.
    Possible,
    /// Its structure fits wherever it was looked at.
    Likely,
    /// It carries this format's own mark.
    Certain,
}

impl Confidence {
    /// `self` where `holds`, else `No`.
    pub const fn when(self, holds: bool) -> Confidence {
        if holds { self } else { Confidence::No }
    }
}

/// How surely a recording that begins with these bytes (decompressed) has a format.
pub type Sniff = fn(head: &[u8]) -> Confidence;

/// The row of a catalog that is surest of an input, of equally sure ones the first; none where none
/// recognises it.
///
/// # Errors
/// What the input cannot deliver.
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

/// What an input begins with, behind the mark that editors put before text.
pub(crate) fn head(input: &Input) -> &[u8] {
    let held = input.held();
    held.strip_prefix(BYTE_ORDER_MARK).unwrap_or(held)
}

/// The whole lines that a recording begins with, without comments and empty lines, at most `limit`.
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
