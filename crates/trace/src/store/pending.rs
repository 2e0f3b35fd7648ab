//! The rows of the next row group, encoded as they come. Signed and unsigned numbers share their
//! bits in the file.

use std::io::Write;

use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;
use types::PAGE_BYTES;

use super::chunk::{DeltaChunk, PlainChunk, Written};
use super::column::Column;
use crate::runs::Run;
use crate::seal::Pieces;

/// A row group in the making.
pub(super) struct Pending {
    /// The columns that the file has.
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
    /// No rows yet of a file with these columns.
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

    /// Rows that wait to be written.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Appends rows; `pages` has a number for each of them, or none at all.
    ///
    /// # Panics
    /// When `pages` has another length.
    pub(super) fn append(&mut self, runs: &[Run], pages: &[u32]) {
        let rows = runs.iter().map(|run| run.count as usize).sum();
        for &column in &self.columns {
            match column {
                Column::Time => self.time.extend(each(runs, |run| run.time_ns), rows),
                Column::Event => self.event.extend(each(runs, |run| run.kind as i32), rows),
                Column::Flags => self.flags.extend(each(runs, |run| run.flags.0.into()), rows),
                Column::Page => self.page.extend(pages),
                Column::Process => {
                    self.process.extend(each(runs, |run| run.process.0 as i32), rows);
                }
                Column::Space => self.space.extend(each(runs, |run| run.space as i32), rows),
                Column::Address => self.address.extend(each(runs, |run| run.address as i64), rows),
                Column::Bytes => extend_bytes(&mut self.bytes, runs, rows),
                Column::Duration => {
                    self.duration.extend(each(runs, |run| run.duration_ns as i64), rows);
                }
            }
        }
        self.rows += rows;
        if pages.is_empty() {
            // Pages without a number: the column is there, and the header says it is void.
            self.page.pad(self.rows);
        }
        assert_eq!(self.page.count(), self.rows, "every row has a page, or none has");
    }

    /// Writes the rows as a row group of `file`, whose next `pieces` it is, and has none then.
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

/// A field of each run, with how many rows it holds for.
fn each<'runs, T>(
    runs: &'runs [Run],
    field: impl Fn(&Run) -> T + Clone + 'runs,
) -> impl Iterator<Item = (T, usize)> + Clone + 'runs {
    runs.iter().map(move |run| (field(run), run.count as usize))
}

/// Appends the bytes of each row: whole pages between the ends of a run.
fn extend_bytes(bytes: &mut DeltaChunk<i32>, runs: &[Run], rows: usize) {
    const WHOLE: i32 = PAGE_BYTES as i32;
    let parts = runs.iter().flat_map(|run| {
        let count = run.count as usize;
        let last = if count > 1 { run.bytes_last as i32 } else { WHOLE };
        [(run.bytes_first as i32, 1), (WHOLE, count.saturating_sub(2)), (last, count.min(2) - 1)]
    });
    let is_whole = |run: &Run| {
        run.bytes_first as i32 == WHOLE && (run.count == 1 || run.bytes_last as i32 == WHOLE)
    };
    if runs.iter().all(is_whole) {
        bytes.extend([(WHOLE, rows)].into_iter(), rows);
    } else {
        bytes.extend(parts.filter(|&(_, count)| count > 0), rows);
    }
}
