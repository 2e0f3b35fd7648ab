//! The rows of the next row group, encoded as they arrive. The file stores unsigned numbers as signed
//! numbers with the same bits.

use std::io::Write;

use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;
use types::PAGE_BYTES;

use super::chunk::{DeltaChunk, PlainChunk, Written};
use super::column::Column;
use crate::row_extents::RowExtent;
use crate::seal::Pieces;

/// The row group that is being filled.
pub(super) struct Pending {
    /// The columns of the file.
    columns: Vec<Column>,
    rows: usize,
    time: DeltaChunk<i64>,
    event: DeltaChunk<i32>,
    flags: DeltaChunk<i32>,
    page: PlainChunk,
    process: DeltaChunk<i32>,
    space: DeltaChunk<i32>,
    address: DeltaChunk<i64>,
    bytes: DeltaChunk<i32>,
    duration: DeltaChunk<i64>,
}

impl Pending {
    /// An empty row group of a file with these columns.
    pub(super) fn new(columns: Vec<Column>) -> Pending {
        Pending {
            columns,
            rows: 0,
            time: DeltaChunk::new(Column::Time),
            event: DeltaChunk::new(Column::Event),
            flags: DeltaChunk::new(Column::Flags),
            page: PlainChunk::default(),
            process: DeltaChunk::new(Column::Process),
            space: DeltaChunk::new(Column::Space),
            address: DeltaChunk::new(Column::Address),
            bytes: DeltaChunk::new(Column::Bytes),
            duration: DeltaChunk::new(Column::Duration),
        }
    }

    /// Number of pending rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Appends rows; `pages` has a number for each row, or is empty.
    ///
    /// # Panics
    /// If `pages` has another length.
    pub(super) fn append(&mut self, extents: &[RowExtent], pages: &[u32]) {
        let rows = extents.iter().map(|extent| extent.count as usize).sum();
        for &column in &self.columns {
            match column {
                Column::Time => self.time.extend(each(extents, |extent| extent.time_ns), rows),
                Column::Event => {
                    self.event.extend(each(extents, |extent| extent.kind as i32), rows)
                }
                Column::Flags => {
                    self.flags.extend(each(extents, |extent| extent.flags.0.into()), rows)
                }
                Column::Page => self.page.extend(pages),
                Column::Process => {
                    self.process.extend(each(extents, |extent| extent.process.0 as i32), rows);
                }
                Column::Space => {
                    self.space.extend(each(extents, |extent| extent.space as i32), rows)
                }
                Column::Address => {
                    self.address.extend(each(extents, |extent| extent.address as i64), rows)
                }
                Column::Bytes => extend_bytes(&mut self.bytes, extents, rows),
                Column::Duration => {
                    self.duration.extend(each(extents, |extent| extent.duration_ns as i64), rows);
                }
            }
        }
        self.rows += rows;
        if pages.is_empty() {
            // Without page numbers the column exists all the same, and the header marks it as void.
            self.page.pad(self.rows);
        }
        assert_eq!(self.page.count(), self.rows, "every row has a page, or none has");
    }

    /// Writes the rows as a row group of `file`, adds its parts to `pieces`, and becomes empty.
    pub(super) fn write<W: Write + Send>(
        &mut self,
        file: &mut SerializedFileWriter<W>,
        pieces: &mut Pieces,
    ) -> Result<(), ParquetError> {
        let descriptors = file.schema_descr().columns().to_vec();
        let mut group = file.next_row_group()?;
        for (&column, descriptor) in self.columns.iter().zip(descriptors) {
            let Written { bytes, close, lengths } = match column {
                Column::Time => self.time.take(descriptor),
                Column::Event => self.event.take(descriptor),
                Column::Flags => self.flags.take(descriptor),
                Column::Page => self.page.take(descriptor),
                Column::Process => self.process.take(descriptor),
                Column::Space => self.space.take(descriptor),
                Column::Address => self.address.take(descriptor),
                Column::Bytes => self.bytes.take(descriptor),
                Column::Duration => self.duration.take(descriptor),
            }?;
            group.append_column(&bytes, close)?;
            let mut rest = &bytes[..];
            for length in lengths {
                let (piece, others) = rest.split_at(length);
                pieces.push(piece);
                rest = others;
            }
        }
        self.rows = 0;
        group.close()?;
        Ok(())
    }
}

/// A field of each extent, with the number of rows of the extent.
fn each<'extents, T>(
    extents: &'extents [RowExtent],
    field: impl Fn(&RowExtent) -> T + Clone + 'extents,
) -> impl Iterator<Item = (T, usize)> + Clone + 'extents {
    extents.iter().map(move |extent| (field(extent), extent.count as usize))
}

/// Appends the bytes of each row: complete pages between the ends of an extent.
fn extend_bytes(bytes: &mut DeltaChunk<i32>, extents: &[RowExtent], rows: usize) {
    const WHOLE: i32 = PAGE_BYTES as i32;
    let parts = extents.iter().flat_map(|extent| {
        let count = extent.count as usize;
        let last = if count > 1 { extent.bytes_last as i32 } else { WHOLE };
        [(extent.bytes_first as i32, 1), (WHOLE, count.saturating_sub(2)), (last, count.min(2) - 1)]
    });
    let is_whole = |extent: &RowExtent| {
        extent.bytes_first as i32 == WHOLE
            && (extent.count == 1 || extent.bytes_last as i32 == WHOLE)
    };
    if extents.iter().all(is_whole) {
        bytes.extend([(WHOLE, rows)].into_iter(), rows);
    } else {
        bytes.extend(parts.filter(|&(_, count)| count > 0), rows);
    }
}
