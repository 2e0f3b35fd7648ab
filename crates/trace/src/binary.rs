//! Binary recordings: one record after the other out of an input, each handed to the parser of its
//! format. Anything unexpected ends the import: what follows it cannot be told from noise.

use crate::Error;
use crate::input::Input;
use crate::ledger::Ledger;
use crate::record::{Record, RecordReader, Traits};

/// Records per call: one buffer holds at least as many.
const RECORDS_PER_READ: usize = 2048;

/// The rules of one binary format.
pub trait RecordParser: Send {
    /// Consumes the record at the start of `input` and appends what it records; false at the end.
    ///
    /// # Errors
    /// What was expected instead, with its offset.
    fn record(
        &mut self,
        input: &mut Input,
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) -> Result<bool, Error>;

    /// What holds for every record.
    fn traits(&self) -> Traits;
}

/// Reads a binary recording by the rules of its format.
pub struct BinaryReader<P> {
    input: Input,
    parser: P,
}

impl<P: RecordParser> BinaryReader<P> {
    /// A reader of the rest of `input`.
    pub fn new(input: Input, parser: P) -> BinaryReader<P> {
        BinaryReader { input, parser }
    }
}

impl<P: RecordParser> RecordReader for BinaryReader<P> {
    fn read(&mut self, records: &mut Vec<Record>, ledger: &mut Ledger) -> Result<bool, Error> {
        for _ in 0..RECORDS_PER_READ {
            if !self.parser.record(&mut self.input, records, ledger)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn traits(&self) -> Traits {
        self.parser.traits()
    }
}
