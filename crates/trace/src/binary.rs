//! Binary recordings: the parser of the format reads one record after the other from an input. Anything
//! unexpected ends the import, because the bytes after it have no known meaning.
use crate::Error;
use crate::input::Input;
use crate::ledger::Ledger;
use crate::record::{Record, RecordReader, Traits};

/// Records per call of `read`.
const RECORDS_PER_READ: usize = 2048;

/// The rules of one binary format.
pub trait RecordParser: Send {
    /// Consumes the record at the start of `input` and appends it to `records`; false at the end.
    ///
    /// # Errors
    /// Names what it expected, with the offset.
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
