//! The events of a trace as Arrow record batches.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, DictionaryArray, Int8Array, Int64Array, RecordBatch, RecordBatchReader, StringArray,
    UInt8Array, UInt32Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use trace::Source;
use types::{EventKind, Events};

/// Converts batches of events to record batches, with a single batch in memory.
pub struct EventReader {
    source: Box<dyn Source>,
    schema: SchemaRef,
    events: Events,
}

impl EventReader {
    /// A reader of the remaining events of `source`.
    pub fn new(source: Box<dyn Source>) -> EventReader {
        let kind = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        let schema = Schema::new(vec![
            Field::new("time_ns", DataType::Int64, true),
            Field::new("kind", kind, false),
            Field::new("page", DataType::UInt32, false),
            Field::new("process", DataType::UInt32, false),
            Field::new("flags", DataType::UInt8, false),
        ]);
        EventReader { source, schema: Arc::new(schema), events: Events::default() }
    }

    fn batch(&self) -> Result<RecordBatch, ArrowError> {
        let events = &self.events;
        let time: ArrayRef = if events.time_ns.is_empty() {
            Arc::new(Int64Array::new_null(events.len()))
        } else {
            Arc::new(Int64Array::from_iter_values(events.time_ns.iter().copied()))
        };
        let kinds = Int8Array::from_iter_values(events.kind.iter().map(|kind| *kind as i8));
        let names = Arc::new(StringArray::from_iter_values(EventKind::ALL.map(EventKind::name)));
        let columns: Vec<ArrayRef> = vec![
            time,
            Arc::new(DictionaryArray::try_new(kinds, names)?),
            Arc::new(UInt32Array::from_iter_values(events.page.iter().map(|page| page.0))),
            Arc::new(UInt32Array::from_iter_values(events.process.iter().map(|process| process.0))),
            Arc::new(UInt8Array::from_iter_values(events.flags.iter().map(|flags| flags.0))),
        ];
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
    }
}

impl Iterator for EventReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.source.next_batch(&mut self.events) {
            Ok(true) => Some(self.batch()),
            Ok(false) => None,
            Err(error) => Some(Err(ArrowError::ExternalError(Box::new(error)))),
        }
    }
}

impl RecordBatchReader for EventReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
