//! A column of a row group, encoded as its rows arrive, and its entry in the file's footer.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::column::Column;
use super::delta::{Encoder, Number};

/// Values per page of the file: a page fits into the second-level cache while it is decoded.
const PAGE_VALUES: usize = 1 << 16;

/// Numbers of the two widths in the file.
pub(super) trait Stored: Number {
    fn range(least: Self, greatest: Self) -> Statistics;
}

impl Stored for i32 {
    fn range(least: i32, greatest: i32) -> Statistics {
        Statistics::int32(Some(least), Some(greatest), None, Some(0), false)
    }
}

impl Stored for i64 {
    fn range(least: i64, greatest: i64) -> Statistics {
        Statistics::int64(Some(least), Some(greatest), None, Some(0), false)
    }
}

/// An encoded column chunk.
pub(super) struct Written {
    pub(super) bytes: Bytes,
    /// Entry of the chunk in the footer.
    pub(super) close: ColumnCloseResult,
    /// Lengths of the parts of `bytes`: the header of a page, the page, and so on.
    pub(super) lengths: Vec<usize>,
}

/// A column of differences.
pub(super) struct DeltaChunk<T> {
    column: Column,
    encoder: Encoder<T>,
    /// The complete pages, each with its number of values.
    pages: Vec<(Bytes, usize)>,
    range: Option<(T, T)>,
}

impl<T: Stored> DeltaChunk<T> {
    /// An empty chunk of `column`.
    pub(super) fn new(column: Column) -> DeltaChunk<T> {
        let encoder = Encoder::new(column == Column::Address);
        DeltaChunk { column, encoder, pages: Vec::new(), range: None }
    }

    /// Appends runs with `rows` values in total, each given by its first value and its length of at least
    /// one. The values of a run are equal, or count up in a column of addresses.
    #[inline]
    pub(super) fn extend(&mut self, runs: impl Iterator<Item = (T, usize)> + Clone, rows: usize) {
        if self.column.has_range() {
            self.range = runs.clone().fold(self.range, |range, (value, _)| {
                let (least, greatest) = range.unwrap_or((value, value));
                Some((least.min(value), greatest.max(value)))
            });
        }
        if self.encoder.count() + rows >= PAGE_VALUES {
            return runs.for_each(|(value, count)| self.push_across(value, count));
        }
        match self.encoder.constant() {
            // Most columns of most recordings rarely change.
            Some(last) if runs.clone().all(|(value, _)| value == last) => {
                self.encoder.push_run(last, rows);
            }
            _ => self.encoder.extend(runs, rows),
        }
    }

    /// Appends a run that may reach the end of a page.
    fn push_across(&mut self, value: T, count: usize) {
        let mut done = 0;
        while done < count {
            let part = (count - done).min(PAGE_VALUES - self.encoder.count());
            self.encoder.push_run(self.encoder.value_in_run(value, done), part);
            done += part;
            if self.encoder.count() == PAGE_VALUES {
                self.end_page();
            }
        }
    }

    fn end_page(&mut self) {
        let (mut bytes, count) = (Vec::new(), self.encoder.count());
        self.encoder.finish(&mut bytes);
        self.pages.push((bytes.into(), count));
    }

    /// Returns the chunk, described by `descriptor`, and begins an empty chunk.
    pub(super) fn take(&mut self, descriptor: ColumnDescPtr) -> Result<Written, ParquetError> {
        if self.encoder.count() > 0 {
            self.end_page();
        }
        let range = self.range.take().map(|(least, greatest)| T::range(least, greatest));
        let pages = std::mem::take(&mut self.pages);
        write(descriptor, Encoding::DELTA_BINARY_PACKED, pages, range)
    }
}

/// A column of 32-bit numbers without encoding, which needs no decoding.
#[derive(Default)]
pub(super) struct PlainChunk {
    bytes: Vec<u8>,
}

impl PlainChunk {
    /// Appends `values`.
    pub(super) fn extend(&mut self, values: &[u32]) {
        let start = self.bytes.len();
        self.bytes.resize(start + size_of_val(values), 0);
        let (places, _) = self.bytes[start..].as_chunks_mut();
        for (place, value) in places.iter_mut().zip(values) {
            *place = value.to_le_bytes();
        }
    }

    /// Appends zeros until there are `count` values.
    pub(super) fn pad(&mut self, count: usize) {
        self.bytes.resize(count * size_of::<u32>(), 0);
    }

    /// Number of values.
    pub(super) fn count(&self) -> usize {
        self.bytes.len() / size_of::<u32>()
    }

    /// Returns the chunk, described by `descriptor`, and begins an empty chunk.
    pub(super) fn take(&mut self, descriptor: ColumnDescPtr) -> Result<Written, ParquetError> {
        let whole = Bytes::from(std::mem::take(&mut self.bytes));
        let page_bytes = PAGE_VALUES * size_of::<u32>();
        let page = |start: usize| {
            let page = whole.slice(start..(start + page_bytes).min(whole.len()));
            let count = page.len() / size_of::<u32>();
            (page, count)
        };
        let pages = (0..whole.len()).step_by(page_bytes).map(page).collect();
        write(descriptor, Encoding::PLAIN, pages, None)
    }
}

/// A chunk of `pages`, each with its number of values.
fn write(
    descriptor: ColumnDescPtr,
    encoding: Encoding,
    pages: Vec<(Bytes, usize)>,
    range: Option<Statistics>,
) -> Result<Written, ParquetError> {
    let rows: usize = pages.iter().map(|&(_, count)| count).sum();
    let (bytes, lengths) = bytes_of(pages, encoding)?;
    let mut metadata = ColumnChunkMetaData::builder(descriptor)
        .set_encodings(vec![encoding])
        .set_compression(Compression::UNCOMPRESSED)
        .set_num_values(rows as i64)
        .set_total_compressed_size(bytes.len() as i64)
        .set_total_uncompressed_size(bytes.len() as i64)
        .set_data_page_offset(0);
    if let Some(range) = range {
        metadata = metadata.set_statistics(range);
    }
    let close = ColumnCloseResult {
        bytes_written: bytes.len() as u64,
        rows_written: rows as u64,
        metadata: metadata.build()?,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    Ok(Written { bytes: bytes.into(), close, lengths })
}

/// The bytes of the pages with their headers, and the length of each header and page.
fn bytes_of(
    pages: Vec<(Bytes, usize)>,
    encoding: Encoding,
) -> Result<(Vec<u8>, Vec<usize>), ParquetError> {
    /// Larger than the header of a page.
    const HEADER_BYTES: usize = 64;
    let capacity = pages.iter().map(|(bytes, _)| bytes.len() + HEADER_BYTES).sum();
    let mut sink = TrackedWrite::new(Vec::with_capacity(capacity));
    let mut lengths = Vec::with_capacity(2 * pages.len());
    let mut writer = SerializedPageWriter::new(&mut sink);
    for (bytes, count) in pages {
        let length = bytes.len();
        let page = Page::DataPage {
            buf: bytes,
            num_values: count as u32,
            encoding,
            // Required columns have no levels, but the format requires these fields.
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let written = writer.write_page(CompressedPage::new(page, length))?;
        lengths.extend([written.bytes_written as usize - length, length]);
    }
    writer.close()?;
    Ok((sink.into_inner()?, lengths))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::column::reader::ColumnReader;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::file::writer::SerializedFileWriter;
    use proptest::prelude::*;

    use super::*;
    use crate::store::column;

    /// Writes a file with only this column, and opens it with the library's reader.
    fn read_back(
        column: Column,
        take: impl FnOnce(ColumnDescPtr) -> Result<Written, ParquetError>,
    ) -> ColumnReader {
        let schema = column::schema(&[column]);
        let properties = Arc::new(column::properties());
        let mut file = SerializedFileWriter::new(Vec::new(), schema, properties).unwrap();
        let descriptor = file.schema_descr().column(0);
        let mut group = file.next_row_group().unwrap();
        let Written { bytes, close, lengths } = take(descriptor).unwrap();
        assert_eq!(lengths.iter().sum::<usize>(), bytes.len());
        group.append_column(&bytes, close).unwrap();
        group.close().unwrap();
        let file = SerializedFileReader::new(Bytes::from(file.into_inner().unwrap())).unwrap();
        file.get_row_group(0).unwrap().get_column_reader(0).unwrap()
    }

    fn wide_back(column: Column, runs: &[(i64, usize)]) -> Vec<i64> {
        let mut chunk = DeltaChunk::new(column);
        let rows = |part: &[(i64, usize)]| part.iter().map(|&(_, count)| count).sum();
        for part in runs.chunks(100) {
            chunk.extend(part.iter().copied(), rows(part));
        }
        let ColumnReader::Int64ColumnReader(mut reader) =
            read_back(column, |descriptor| chunk.take(descriptor))
        else {
            panic!("{} has another type", column.name());
        };
        let mut back = Vec::new();
        reader.read_records(usize::MAX, None, None, &mut back).unwrap();
        back
    }

    fn narrow_back(
        column: Column,
        take: impl FnOnce(ColumnDescPtr) -> Result<Written, ParquetError>,
    ) -> Vec<i32> {
        let ColumnReader::Int32ColumnReader(mut reader) = read_back(column, take) else {
            panic!("{} has another type", column.name());
        };
        let mut back = Vec::new();
        reader.read_records(usize::MAX, None, None, &mut back).unwrap();
        back
    }

    /// The values of the runs.
    fn naive(runs: &[(i64, usize)], step: i64) -> Vec<i64> {
        let values = |&(value, count): &(i64, usize)| {
            (0..count as i64).map(move |place| value.wrapping_add(step * place))
        };
        runs.iter().flat_map(values).collect()
    }

    fn runs() -> impl Strategy<Value = Vec<(i64, usize)>> {
        let value = prop_oneof![
            any::<i64>(),
            0..3i64,
            prop_oneof![Just(i64::MIN), Just(i64::MAX), 0..9i64],
            (0u32..63, any::<i64>()).prop_map(|(shift, value)| value >> shift),
        ];
        let count = prop_oneof![4 => Just(1usize), 2 => 1usize..9, 1 => 100usize..300];
        prop_oneof![
            prop::collection::vec((value, count), 1..400),
            (any::<i64>(), 1usize..1000).prop_map(|(value, count)| vec![(value, 1); count]),
            prop::collection::vec((0..99i64, Just(PAGE_VALUES / 3)), 1..9),
        ]
    }

    proptest! {
        #[test]
        fn the_library_reads_64_bit_columns(runs in runs()) {
            prop_assert_eq!(wide_back(Column::Time, &runs), naive(&runs, 0));
            prop_assert_eq!(wide_back(Column::Address, &runs), naive(&runs, 1));
        }

        #[test]
        fn the_library_reads_32_bit_columns(runs in runs()) {
            let values: Vec<i32> = naive(&runs, 0).iter().map(|&value| value as i32).collect();
            for column in [Column::Event, Column::Bytes] {
                let mut chunk = DeltaChunk::new(column);
                let narrow = runs.iter().map(|&(value, count)| (value as i32, count));
                chunk.extend(narrow, values.len());
                prop_assert_eq!(&narrow_back(column, |descriptor| chunk.take(descriptor)), &values);
                chunk.extend([(7, 1)].into_iter(), 1);
                prop_assert_eq!(narrow_back(column, |descriptor| chunk.take(descriptor)), vec![7]);
            }
            let mut plain = PlainChunk::default();
            plain.extend(&values.iter().map(|&value| value as u32).collect::<Vec<u32>>());
            prop_assert_eq!(plain.count(), values.len());
            prop_assert_eq!(
                &narrow_back(Column::Page, |descriptor| plain.take(descriptor)),
                &values
            );
        }
    }

    #[test]
    fn a_long_column_has_several_pages() {
        let squares = (0..3 * PAGE_VALUES as i64 + 5).map(|value| (value * value, 1));
        let squares: Vec<(i64, usize)> = squares.collect();
        assert_eq!(wide_back(Column::Time, &squares), naive(&squares, 0));
        let long = [(5, 1), (9, 2 * PAGE_VALUES - 1), (3, 7)];
        assert_eq!(wide_back(Column::Address, &long), naive(&long, 1));
    }
}
