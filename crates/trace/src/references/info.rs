//! A summary of a trace of references.

use schemars::JsonSchema;
use serde::Serialize;
use types::{Progress, ReferenceTotals};

use super::ended::{Ended, cut};
use super::{Origin, Reader};
use crate::Error;

/// A summary of a trace of references.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
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
    /// The end of the recording; null if the file was cut, so that the counts go up to its last whole frame.
    pub ending: Option<Ended>,
    /// Why there is less than the whole run; null if there is not.
    pub cut: Option<String>,
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
        ending: reader.ending().map(Ended::new),
        cut: cut(reader.ending()),
    })
}
