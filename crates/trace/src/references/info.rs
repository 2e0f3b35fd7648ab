//! A summary of a trace of references.

use serde::Serialize;
use types::{Progress, ReferenceTotals};

use super::{Ending, Origin, Reader};
use crate::Error;

/// A summary of a trace of references.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Info {
    /// Origin of the trace.
    pub origin: Origin,
    /// All references.
    pub references: u64,
    /// Instructions fetched.
    pub instructions: u64,
    /// Data read.
    pub reads: u64,
    /// Data written, or modified by one instruction.
    pub writes: u64,
    /// Steps: references that the filter did not absorb.
    pub steps: u64,
    /// Bytes of the file; 0 if unknown.
    pub file_bytes: u64,
    /// How the trace ends; `None` if the file was cut.
    pub ending: Option<Ending>,
}

/// Reads `reader` to its end and summarizes the trace.
///
/// # Errors
/// If the trace cannot be read, with the offset; `Cancelled` if `progress` asks to stop.
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
