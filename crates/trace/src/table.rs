//! Small result tables as Parquet: named columns of text, integers, numbers or flags, with gaps.
//!
//! The same table always gives the same bytes: fixed compression, no time stamps, metadata in the given
//! order. Tables are held in memory: use them for results, not for events.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::reader::ColumnReader;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};
use serde::{Deserialize, Serialize};

use crate::seal::{Pieces, seal_evenly};
use crate::store::Aside;
use crate::{Error, ErrorKind};

/// Metadata entry that Arrow adds to every file it writes.
const ARROW_SCHEMA: &str = "ARROW:schema";

/// The values of a column; `None` is a gap.
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
    /// Name of the column, unique in the table.
    pub name: String,
    /// Values of the column, one per row.
    #[serde(flatten)]
    pub values: Values,
}

/// A table: columns of equal length, and metadata.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Names and values stored beside the columns.
    #[serde(default)]
    pub metadata: Vec<(String, String)>,
    /// The columns in order.
    pub columns: Vec<Column>,
}

impl Values {
    /// Rows of the column.
    pub fn len(&self) -> usize {
        match self {
            Values::Text(values) => values.len(),
            Values::Integer(values) => values.len(),
            Values::Number(values) => values.len(),
            Values::Flag(values) => values.len(),
        }
    }

    /// Whether the column has no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    const fn stored_as(&self) -> (Physical, Option<LogicalType>) {
        match self {
            Values::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Values::Integer(_) => (Physical::INT64, None),
            Values::Number(_) => (Physical::DOUBLE, None),
            Values::Flag(_) => (Physical::BOOLEAN, None),
        }
    }
}

/// Writes `table` to `path`, which appears complete or not at all; an existing file is replaced.
///
/// # Errors
/// If columns differ in length, or the operating system refuses the write.
pub fn write(path: &Path, table: &Table) -> Result<(), Error> {
    let rows = table.columns.first().map_or(0, |column| column.values.len());
    if let Some(column) = table.columns.iter().find(|column| column.values.len() != rows) {
        let length = column.values.len();
        let message = format!("column {} has {length} rows, the first has {rows}", column.name);
        return Err(Error::new(ErrorKind::Usage, path, message));
    }
    let refused = |error: io::Error| Error::new(ErrorKind::Io, path, error.to_string());
    let aside = Aside::create(path).map_err(refused)?;
    put(aside, table)
        .map_err(|error| Error::new(ErrorKind::Io, path, error.to_string()))?
        .persist(path, true)
        .map_err(refused)
}

/// Writes the table into `file`.
fn put(file: Aside, table: &Table) -> Result<Aside, ParquetError> {
    let metadata = table
        .metadata
        .iter()
        .map(|(name, value)| KeyValue::new(name.clone(), value.clone()))
        .collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_created_by(format!("pagewise {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(metadata))
        .build();
    let mut writer = SerializedFileWriter::new(file, schema(table)?, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for column in &table.columns {
        let mut chunk = group.next_column()?.expect("the schema has this column");
        put_values(chunk.untyped(), &column.values)?;
        chunk.close()?;
    }
    group.close()?;
    let aside = writer.into_inner()?;
    seal_evenly(aside.file())?;
    Ok(aside)
}

fn schema(table: &Table) -> Result<TypePtr, ParquetError> {
    let field = |column: &Column| {
        let (physical, logical) = column.values.stored_as();
        Type::primitive_type_builder(&column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    };
    let fields = table.columns.iter().map(field).collect::<Result<_, _>>()?;
    Type::group_type_builder("pagewise").with_fields(fields).build().map(Arc::new)
}

fn put_values(writer: &mut ColumnWriter, values: &Values) -> Result<(), ParquetError> {
    match (writer, values) {
        (ColumnWriter::ByteArrayColumnWriter(writer), Values::Text(values)) => {
            let present: Vec<ByteArray> =
                values.iter().flatten().map(|text| text.as_str().into()).collect();
            writer.write_batch(&present, Some(&levels(values)), None)
        }
        (ColumnWriter::Int64ColumnWriter(writer), Values::Integer(values)) => {
            writer.write_batch(&present(values), Some(&levels(values)), None)
        }
        (ColumnWriter::DoubleColumnWriter(writer), Values::Number(values)) => {
            writer.write_batch(&present(values), Some(&levels(values)), None)
        }
        (ColumnWriter::BoolColumnWriter(writer), Values::Flag(values)) => {
            writer.write_batch(&present(values), Some(&levels(values)), None)
        }
        _ => unreachable!("the schema was made from the values"),
    }
    .map(drop)
}

fn present<T: Copy>(values: &[Option<T>]) -> Vec<T> {
    values.iter().flatten().copied().collect()
}

/// Parquet's definition levels: 1 for a value, 0 for a gap.
fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
    values.iter().map(|value| i16::from(value.is_some())).collect()
}

/// Reads the table that `write` wrote to `path`.
///
/// # Errors
/// If the file is missing or damaged, or has a column type that tables do not have.
pub fn read(path: &Path) -> Result<Table, Error> {
    let file =
        File::open(path).map_err(|error| Error::new(ErrorKind::Io, path, error.to_string()))?;
    take(file).map_err(|error| Error::new(ErrorKind::Corrupt, path, error.to_string()))
}

fn take(file: File) -> Result<Table, ParquetError> {
    let (pieces, bytes) = (Pieces::of(&file)?, file.try_clone()?);
    let file = SerializedFileReader::new(file)?;
    let about = file.metadata().file_metadata();
    let metadata = about
        .key_value_metadata()
        .into_iter()
        .flatten()
        .filter(|entry| entry.key != ARROW_SCHEMA)
        .map(|entry| (entry.key.clone(), entry.value.clone().unwrap_or_default()))
        .collect();
    // Refuse a file of another kind, such as a long trace, before reading it.
    let fields = about.schema().get_fields();
    let mut columns =
        fields.iter().map(|field| empty_column(field)).collect::<Result<Vec<_>, _>>()?;
    if let Some(pieces) = pieces {
        pieces.check_all(&bytes)?;
    }
    for index in 0..file.num_row_groups() {
        let group = file.get_row_group(index)?;
        for (index, column) in columns.iter_mut().enumerate() {
            take_values(group.as_ref(), index, &mut column.values)?;
        }
    }
    Ok(Table { metadata, columns })
}

fn empty_column(field: &Type) -> Result<Column, ParquetError> {
    let info = field.get_basic_info();
    let foreign = || ParquetError::General(format!("column {} has an unknown type", field.name()));
    if !field.is_primitive() || !info.has_repetition() || info.repetition() != Repetition::OPTIONAL
    {
        return Err(foreign());
    }
    let found = (field.get_physical_type(), info.logical_type_ref().cloned());
    let kinds = [
        Values::Text(Vec::new()),
        Values::Integer(Vec::new()),
        Values::Number(Vec::new()),
        Values::Flag(Vec::new()),
    ];
    let values = kinds.into_iter().find(|kind| kind.stored_as() == found).ok_or_else(foreign)?;
    Ok(Column { name: field.name().to_owned(), values })
}

/// Appends the values of the column at `index` in a row group.
fn take_values(
    group: &dyn RowGroupReader,
    index: usize,
    values: &mut Values,
) -> Result<(), ParquetError> {
    let rows = usize::try_from(group.metadata().num_rows())
        .map_err(|_| ParquetError::General("a negative number of rows".to_owned()))?;
    let mut levels = Vec::new();
    match (group.get_column_reader(index)?, values) {
        (ColumnReader::ByteArrayColumnReader(mut reader), Values::Text(values)) => {
            let mut present = Vec::new();
            reader.read_records(rows, Some(&mut levels), None, &mut present)?;
            let texts = present
                .iter()
                .map(|text| text.as_utf8().map(str::to_owned))
                .collect::<Result<Vec<_>, _>>()?;
            values.extend(with_gaps(&levels, texts));
        }
        (ColumnReader::Int64ColumnReader(mut reader), Values::Integer(values)) => {
            let mut present = Vec::new();
            reader.read_records(rows, Some(&mut levels), None, &mut present)?;
            values.extend(with_gaps(&levels, present));
        }
        (ColumnReader::DoubleColumnReader(mut reader), Values::Number(values)) => {
            let mut present = Vec::new();
            reader.read_records(rows, Some(&mut levels), None, &mut present)?;
            values.extend(with_gaps(&levels, present));
        }
        (ColumnReader::BoolColumnReader(mut reader), Values::Flag(values)) => {
            let mut present = Vec::new();
            reader.read_records(rows, Some(&mut levels), None, &mut present)?;
            values.extend(with_gaps(&levels, present));
        }
        _ => unreachable!("the column was made from the schema"),
    }
    Ok(())
}

/// The values, with a gap at each level 0.
fn with_gaps<T>(levels: &[i16], present: Vec<T>) -> impl Iterator<Item = Option<T>> {
    let mut present = present.into_iter();
    levels.iter().map(move |&level| if level == 0 { None } else { present.next() })
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
    fn a_written_table_is_read_back_and_its_bytes_repeat() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let (first, second) = (folder.path().join("1"), folder.path().join("2"));
        write(&first, &table()).expect("written");
        write(&second, &table()).expect("written");
        assert_eq!(read(&first).expect("read"), table());
        let bytes = |path| std::fs::read(path).expect("read");
        assert_eq!(bytes(&first), bytes(&second));
    }

    #[test]
    fn a_symlink_at_the_path_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let (path, other) = (folder.path().join("table"), folder.path().join("other"));
        std::fs::write(&other, "untouched").expect("written");
        std::os::unix::fs::symlink(&other, &path).expect("linked");
        write(&path, &table()).expect("written");
        assert_eq!(read(&path).expect("read"), table());
        assert_eq!(std::fs::read(&other).expect("read"), b"untouched");
    }

    #[test]
    fn a_table_without_rows_is_read_back() {
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
