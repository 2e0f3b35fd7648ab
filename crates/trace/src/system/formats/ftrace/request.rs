//! The text of a block event (include/trace/events/block.h).

use crate::Operation;
use crate::formats::operation_of_rwbs;
use crate::text::{skip_blanks, take_decimal, take_word};

/// The arguments of a block event.
pub(crate) struct Request<'line> {
    /// `MAJOR,MINOR`.
    pub(crate) device: &'line [u8],
    /// Read, write, discard, flush or passthrough.
    pub(crate) operation: Operation,
    /// The letters of the operation.
    pub(crate) rwbs: &'line [u8],
    /// First sector of 512 bytes.
    pub(crate) sector: u64,
    /// Number of sectors.
    pub(crate) sectors: u64,
    /// Text after the number of sectors.
    pub(crate) rest: &'line [u8],
}

impl Request<'_> {
    /// Reads `8,0 W 4096 () 1234 + 8 ...`; the byte count and the command are absent from
    /// block_bio_queue, and the byte count from block_rq_complete.
    #[inline]
    pub(crate) fn parse(arguments: &[u8]) -> Option<Request<'_>> {
        let numbers = skip_blanks(arguments);
        let (_, minor) = take_decimal(numbers)?;
        let (_, rest) = take_decimal(minor.strip_prefix(b",")?)?;
        let device = &numbers[..numbers.len() - rest.len()];
        if !matches!(rest, [b' ' | b'\t', ..]) {
            return None;
        }
        let (rwbs, rest) = take_word(rest)?;
        let operation = operation_of_rwbs(rwbs)?;
        let mut rest = skip_blanks(rest);
        let (mut sector, after) = match take_decimal(rest) {
            Some((number, after)) => (Some(number), skip_blanks(after)),
            None => (None, rest),
        };
        rest = after;
        if let [b'(', command @ ..] = rest {
            // Most requests have no command and need no search.
            let end = if command.starts_with(b")") { 0 } else { memchr::memchr(b')', command)? };
            rest = skip_blanks(&command[end + 1..]);
            let (number, after) = take_decimal(rest)?;
            sector = Some(number);
            rest = skip_blanks(after);
        }
        let (sectors, rest) = take_decimal(skip_blanks(rest.strip_prefix(b"+")?))?;
        Some(Request { device, operation, rwbs, sector: sector?, sectors, rest })
    }
}
