//! What a trace of references holds.

use serde::Serialize;
use types::{Progress, ReferenceTotals};

use super::{Ending, Origin, Reader};
use crate::Error;

/// What a trace of references holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Info {
    /// Where it comes from.
    pub origin: Origin,
    /// All references.
    pub references: u64,
    /// Instructions fetched.
    pub instructions: u64,
    /// Data read.
    pub reads: u64,
    /// Data written, or read and written by one instruction.
    pub writes: u64,
    /// References that the filter did not absorb.
    pub steps: u64,
    /// Bytes of the file; 0 where that is not known.
    pub file_bytes: u64,
    /// How it ends; none where the file was cut.
    pub ending: Option<Ending>,
}

/// Reads the rest of `reader` for what it holds.
///
/// # Errors
/// What cannot be read, with its offset; `Cancelled` if `progress` asks to stop.
pub fn info(reader: &mut Reader, progress: &dyn Progress) -> Result<Info, Error> {
    let (mut batch, mut steps) = (Vec::new(), 0);
    while reader.next_steps(&mut batch)? {
        steps += batch.len() as u64;
        let (done, total) = reader.progress();
        progress.advance(done, total).map_err(|_| Error::cancelled(reader.path()))?;
    }
    let ReferenceTotals { instructions, reads, writes } = reader.totals();
    Ok(Info {
        origin: reader.origin().clone(),
        references: instructions + reads + writes,
        instructions,
        reads,
        writes,
        steps,
        file_bytes: reader.progress().1,
        ending: reader.ending().cloned(),
    })
}
