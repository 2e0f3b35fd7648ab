//! A row group: its columns, decoded a batch at a time, and their metadata.

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::RowGroupReader;
use parquet::file::statistics::Statistics;
use types::{EventKind, PageId};

use super::column::Column;
use super::plain::{PlainColumn, invalid};

/// Index of each column in the file, by `Column`.
pub(super) type Positions = [Option<usize>; Column::ALL.len()];

/// A row group that is being read.
pub(super) struct Group {
    rows_left: usize,
    columns: Vec<(Column, ColumnReader)>,
    /// The column of pages if it is stored without encoding; it is then not in `columns`.
    plain_pages: Option<PlainColumn>,
}

impl Group {
    /// Opens the columns `wanted` that the file has, each at its first row.
    pub(super) fn open(
        group: &dyn RowGroupReader,
        positions: &Positions,
        wanted: &[Column],
    ) -> Result<Group, ParquetError> {
        let rows = usize::try_from(group.metadata().num_rows());
        let rows_left = rows.map_err(|_| invalid("a row group has a negative number of rows"))?;
        let mut columns = Vec::with_capacity(wanted.len());
        let mut plain_pages = None;
        for &column in wanted {
            let Some(position) = positions[column as usize] else { continue };
            if column == Column::Page && PlainColumn::fits(group.metadata().column(position)) {
                plain_pages = Some(PlainColumn::new(group.get_column_page_reader(position)?));
            } else {
                columns.push((column, group.get_column_reader(position)?));
            }
        }
        Ok(Group { rows_left, columns, plain_pages })
    }

    /// Takes up to `rows_max` rows off the group and returns their number. The caller must read this
    /// number of rows from every open column.
    pub(super) fn take_rows(&mut self, rows_max: usize) -> usize {
        let rows = self.rows_left.min(rows_max);
        self.rows_left -= rows;
        rows
    }

    /// Whether the column is open: wanted and in the file.
    pub(super) fn has(&self, column: Column) -> bool {
        let is_plain = column == Column::Page && self.plain_pages.is_some();
        is_plain || self.columns.iter().any(|(open, _)| *open == column)
    }

    /// Replaces `pages` by those of the next `rows`, or by zeros if the column is not open.
    pub(super) fn read_pages(
        &mut self,
        rows: usize,
        pages: &mut Vec<PageId>,
    ) -> Result<(), ParquetError> {
        if let Some(plain) = &mut self.plain_pages {
            return plain.read(rows, pages);
        }
        let mut numbers = Vec::new();
        self.read_narrow(Column::Page, rows, &mut numbers)?;
        pages.clear();
        pages.extend(numbers.iter().map(|&number| PageId(number as u32)));
        Ok(())
    }

    /// Replaces `values` by the next `rows` of a 32-bit column, or by zeros if it is not open.
    pub(super) fn read_narrow(
        &mut self,
        column: Column,
        rows: usize,
        values: &mut Vec<i32>,
    ) -> Result<(), ParquetError> {
        match self.reader(column) {
            Some(ColumnReader::Int32ColumnReader(reader)) => {
                read::<Int32Type>(reader, rows, values)
            }
            Some(_) => Err(wrong_type(column)),
            None => {
                values.clear();
                values.resize(rows, 0);
                Ok(())
            }
        }
    }

    /// Replaces `values` by the next `rows` of a 64-bit column, or by zeros if it is not open.
    pub(super) fn read_wide(
        &mut self,
        column: Column,
        rows: usize,
        values: &mut Vec<i64>,
    ) -> Result<(), ParquetError> {
        match self.reader(column) {
            Some(ColumnReader::Int64ColumnReader(reader)) => {
                read::<Int64Type>(reader, rows, values)
            }
            Some(_) => Err(wrong_type(column)),
            None => {
                values.clear();
                values.resize(rows, 0);
                Ok(())
            }
        }
    }

    fn reader(&mut self, column: Column) -> Option<&mut ColumnReader> {
        self.columns.iter_mut().find(|(open, _)| *open == column).map(|(_, reader)| reader)
    }
}

fn read<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    values: &mut Vec<T::T>,
) -> Result<(), ParquetError> {
    values.clear();
    let (read, _, _) = reader.read_records(rows, None, None, values)?;
    if read == rows { Ok(()) } else { Err(invalid("a column is shorter than its row group")) }
}

/// Whether the metadata show that every row of the group is an access.
pub(super) fn is_all_accesses(group: &RowGroupMetaData, positions: &Positions) -> bool {
    let Some((least, greatest)) = range(group, positions, Column::Event) else {
        return false;
    };
    (least..=greatest).all(|number| {
        let kind = u8::try_from(number).ok().and_then(EventKind::from_u8);
        kind.is_some_and(EventKind::is_access)
    })
}

/// Whether rows of the group may have a time in `from..to`.
pub(super) fn may_overlap(
    group: &RowGroupMetaData,
    positions: &Positions,
    times: &std::ops::Range<i64>,
) -> bool {
    range(group, positions, Column::Time)
        .is_none_or(|(least, greatest)| least < times.end && greatest >= times.start)
}

/// Minimum and maximum of a column, if the metadata have them.
fn range(group: &RowGroupMetaData, positions: &Positions, column: Column) -> Option<(i64, i64)> {
    match group.column(positions[column as usize]?).statistics()? {
        Statistics::Int32(values) => {
            Some((i64::from(*values.min_opt()?), i64::from(*values.max_opt()?)))
        }
        Statistics::Int64(values) => Some((*values.min_opt()?, *values.max_opt()?)),
        _ => None,
    }
}

fn wrong_type(column: Column) -> ParquetError {
    invalid(&format!("column {} has another type", column.name()))
}
