//! Small result tables as Parquet: named columns of text, integers, numbers or flags, with gaps.
//!
//! The same table always gives the same bytes: fixed compression, no time stamps, metadata in the
//! order given. Tables are held in memory; this is for results, not for events.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind};

/// Metadata entry that Arrow adds to every file it writes.
const ARROW_SCHEMA: &str = "ARROW:schema";

/// The values of one column; `None` is a gap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "values", rename_all = "lowercase")]
pub enum Values {
    /// UTF-8 text.
    Text(Vec<Option<String>>),
    /// 64-bit integers.
    Integer(Vec<Option<i64>>),
    /// 64-bit floating point.
    Number(Vec<Option<f64>>),
    /// True or false.
    Flag(Vec<Option<bool>>),
}

/// A named column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Its name, unique in the table.
    pub name: String,
    /// Its values, one per row.
    #[serde(flatten)]
    pub values: Values,
}

/// A table: columns of equal length, and what is to be known about them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Names and values stored beside the columns.
    #[serde(default)]
    pub metadata: Vec<(String, String)>,
    /// The columns in order.
    pub columns: Vec<Column>,
}

/// Writes `table` to `path`, which must not matter yet: callers write aside and rename.
///
/// # Errors
/// Columns of different length, or what the operating system refuses.
pub fn write(path: &Path, table: &Table) -> Result<(), Error> {
    let usage =
        |error: &dyn std::fmt::Display| Error::new(ErrorKind::Usage, path, error.to_string());
    let io = |error: &dyn std::fmt::Display| Error::new(ErrorKind::Io, path, error.to_string());
    let batch = to_batch(table).map_err(|error| usage(&error))?;
    let metadata = table
        .metadata
        .iter()
        .map(|(name, value)| KeyValue::new(name.clone(), value.clone()))
        .collect();
    let level = ZstdLevel::try_new(3).expect("3 is a zstd level");
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_created_by(format!("pagewise {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(metadata))
        .build();
    let file = File::create(path).map_err(|error| io(&error))?;
    let mut writer =
        ArrowWriter::try_new(file, batch.schema(), Some(properties)).map_err(|error| io(&error))?;
    writer.write(&batch).map_err(|error| io(&error))?;
    writer.close().map_err(|error| io(&error))?;
    Ok(())
}

/// Reads the table that `write` wrote to `path`.
///
/// # Errors
/// What is missing, damaged or of a column type that tables do not have.
pub fn read(path: &Path) -> Result<Table, Error> {
    let corrupt =
        |error: &dyn std::fmt::Display| Error::new(ErrorKind::Corrupt, path, error.to_string());
    let file =
        File::open(path).map_err(|error| Error::new(ErrorKind::Io, path, error.to_string()))?;
    let builder =
        ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| corrupt(&error))?;
    let metadata = builder
        .metadata()
        .file_metadata()
        .key_value_metadata()
        .into_iter()
        .flatten()
        .filter(|entry| entry.key != ARROW_SCHEMA)
        .map(|entry| (entry.key.clone(), entry.value.clone().unwrap_or_default()))
        .collect();
    let schema = builder.schema().clone();
    // A file of another kind, such as a long trace, is refused before it is read.
    if let Some(field) = schema.fields().iter().find(|field| !is_value(field.data_type())) {
        return Err(corrupt(&format!("column {} is {}", field.name(), field.data_type())));
    }
    let reader = builder.build().map_err(|error| corrupt(&error))?;
    let batches: Vec<RecordBatch> =
        reader.collect::<Result<_, _>>().map_err(|error| corrupt(&error))?;
    let batch =
        arrow::compute::concat_batches(&schema, &batches).map_err(|error| corrupt(&error))?;
    let columns = schema
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, array)| {
            let values = from_array(array).ok_or_else(|| {
                corrupt(&format!("column {} is {}", field.name(), field.data_type()))
            })?;
            Ok(Column { name: field.name().clone(), values })
        })
        .collect::<Result<_, Error>>()?;
    Ok(Table { metadata, columns })
}

fn to_batch(table: &Table) -> Result<RecordBatch, arrow::error::ArrowError> {
    let mut fields = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    for column in &table.columns {
        let array: ArrayRef = match &column.values {
            Values::Text(values) => Arc::new(StringArray::from_iter(values)),
            Values::Integer(values) => Arc::new(Int64Array::from_iter(values)),
            Values::Number(values) => Arc::new(Float64Array::from_iter(values)),
            Values::Flag(values) => Arc::new(BooleanArray::from_iter(values)),
        };
        fields.push(Field::new(&column.name, array.data_type().clone(), true));
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

fn is_value(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::Int64 | DataType::Float64 | DataType::Boolean)
}

fn from_array(array: &ArrayRef) -> Option<Values> {
    Some(match array.data_type() {
        DataType::Utf8 => Values::Text(
            array.as_string::<i32>().iter().map(|value| value.map(str::to_owned)).collect(),
        ),
        DataType::Int64 => Values::Integer(array.as_primitive::<Int64Type>().iter().collect()),
        DataType::Float64 => Values::Number(array.as_primitive::<Float64Type>().iter().collect()),
        DataType::Boolean => Values::Flag(array.as_boolean().iter().collect()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let column = |name: &str, values| Column { name: name.to_owned(), values };
        Table {
            metadata: vec![("schema".to_owned(), "pagewise.sweep/1".to_owned())],
            columns: vec![
                column("key", Values::Text(vec![Some("a".to_owned()), None])),
                column("reads", Values::Integer(vec![Some(i64::MAX), Some(0)])),
                column("io_time_s", Values::Number(vec![Some(0.1 + 0.2), None])),
                column("holds", Values::Flag(vec![None, Some(true)])),
            ],
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_the_bytes_repeat() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let (first, second) = (folder.path().join("1"), folder.path().join("2"));
        write(&first, &table()).expect("written");
        write(&second, &table()).expect("written");
        assert_eq!(read(&first).expect("read"), table());
        let bytes = |path| std::fs::read(path).expect("read");
        assert_eq!(bytes(&first), bytes(&second));
    }

    #[test]
    fn no_row_is_a_table_too() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let path = folder.path().join("empty");
        let column = Column { name: "reads".to_owned(), values: Values::Integer(Vec::new()) };
        let empty = Table { metadata: Vec::new(), columns: vec![column] };
        write(&path, &empty).expect("written");
        assert_eq!(read(&path).expect("read"), empty);
    }

    #[test]
    fn columns_of_different_length_are_refused() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let mut uneven = table();
        uneven.columns[0].values = Values::Text(Vec::new());
        let error = write(&folder.path().join("uneven"), &uneven).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Usage);
    }
}
