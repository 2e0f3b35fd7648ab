//! What a trace of references holds.

use schemars::JsonSchema;
use serde::Serialize;
use types::{Progress, ReferenceTotals};

use super::ended::{Ended, cut};
use super::{Origin, Reader};
use crate::Error;

/// What a trace of references holds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
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
    /// How it ends; null if the file was cut, so that the counts go up to its last whole frame.
    pub ending: Option<Ended>,
    /// Why there is less than the whole run; null if there is not.
    pub cut: Option<String>,
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
        ending: reader.ending().map(Ended::new),
        cut: cut(reader.ending()),
    })
}
