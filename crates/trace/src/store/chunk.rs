//! One column of a row group as bytes, with what the file's footer says about it.

use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::column::{Coding, Column};
use super::delta::{self, Number};

/// Values per page of the file: a page is decoded while it lies in the second-level cache.
const PAGE_VALUES: usize = 1 << 16;

/// Numbers of one of the two widths that the file has.
pub(super) trait Stored: Number {
    /// Appends the values as they are, little endian.
    fn put_plain(values: &[Self], out: &mut Vec<u8>);
    fn range(least: Self, greatest: Self) -> Statistics;
}

impl Stored for i32 {
    fn put_plain(values: &[i32], out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + size_of_val(values), 0);
        let (places, _) = out[start..].as_chunks_mut();
        for (place, value) in places.iter_mut().zip(values) {
            *place = value.to_le_bytes();
        }
    }

    fn range(least: i32, greatest: i32) -> Statistics {
        Statistics::int32(Some(least), Some(greatest), None, Some(0), false)
    }
}

impl Stored for i64 {
    fn put_plain(values: &[i64], out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + size_of_val(values), 0);
        let (places, _) = out[start..].as_chunks_mut();
        for (place, value) in places.iter_mut().zip(values) {
            *place = value.to_le_bytes();
        }
    }

    fn range(least: i64, greatest: i64) -> Statistics {
        Statistics::int64(Some(least), Some(greatest), None, Some(0), false)
    }
}

/// Encodes `values` as the chunk of `column`, described by `descriptor`.
pub(super) fn encode<T: Stored>(
    column: Column,
    descriptor: ColumnDescPtr,
    values: &[T],
) -> Result<(Vec<u8>, ColumnCloseResult), ParquetError> {
    let encoding = match column.coding() {
        Coding::Plain => Encoding::PLAIN,
        Coding::Delta => Encoding::DELTA_BINARY_PACKED,
    };
    let mut sink = TrackedWrite::new(Vec::new());
    let mut pages = SerializedPageWriter::new(&mut sink);
    for values in values.chunks(PAGE_VALUES) {
        let mut bytes = Vec::new();
        match column.coding() {
            Coding::Plain => T::put_plain(values, &mut bytes),
            Coding::Delta => delta::encode(values, &mut bytes),
        }
        let length = bytes.len();
        let page = Page::DataPage {
            buf: bytes.into(),
            num_values: values.len() as u32,
            encoding,
            // Required columns have no levels; the format wants a word for them all the same.
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        pages.write_page(CompressedPage::new(page, length))?;
    }
    pages.close()?;
    let bytes = sink.into_inner()?;
    let mut metadata = ColumnChunkMetaData::builder(descriptor)
        .set_encodings(vec![encoding])
        .set_compression(Compression::UNCOMPRESSED)
        .set_num_values(values.len() as i64)
        .set_total_compressed_size(bytes.len() as i64)
        .set_total_uncompressed_size(bytes.len() as i64)
        .set_data_page_offset(0);
    if column.has_range()
        && let Some(&first) = values.first()
    {
        let widen = |(least, greatest): (T, T), &value: &T| (least.min(value), greatest.max(value));
        let (least, greatest) = values.iter().fold((first, first), widen);
        metadata = metadata.set_statistics(T::range(least, greatest));
    }
    let close = ColumnCloseResult {
        bytes_written: bytes.len() as u64,
        rows_written: values.len() as u64,
        metadata: metadata.build()?,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    Ok((bytes, close))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use parquet::column::reader::ColumnReader;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::file::writer::SerializedFileWriter;
    use proptest::prelude::*;

    use super::*;
    use crate::store::column;

    /// A file with this one column, and its reader by the library.
    fn read_back<T: Stored>(column: Column, values: &[T]) -> ColumnReader {
        let schema = column::schema(&[column]);
        let properties = Arc::new(column::properties());
        let mut file = SerializedFileWriter::new(Vec::new(), schema, properties).unwrap();
        let descriptor = file.schema_descr().column(0);
        let mut group = file.next_row_group().unwrap();
        let (bytes, close) = encode(column, descriptor, values).unwrap();
        group.append_column(&Bytes::from(bytes), close).unwrap();
        group.close().unwrap();
        let file = SerializedFileReader::new(Bytes::from(file.into_inner().unwrap())).unwrap();
        file.get_row_group(0).unwrap().get_column_reader(0).unwrap()
    }

    fn wide() -> impl Strategy<Value = Vec<i64>> {
        prop_oneof![
            prop::collection::vec(any::<i64>(), 1..600),
            prop::collection::vec(0..3i64, 1..600),
            prop::collection::vec(prop_oneof![Just(i64::MIN), Just(i64::MAX), 0..9i64], 1..300),
            (any::<i64>(), 1usize..1000).prop_map(|(value, count)| vec![value; count]),
            (0u32..63, any::<u64>()).prop_map(|(shift, seed)| {
                (0..500).map(|index: u64| (index.wrapping_mul(seed) >> shift) as i64).collect()
            }),
        ]
    }

    proptest! {
        #[test]
        fn the_library_reads_64_bit_columns(values in wide()) {
            for column in [Column::Time, Column::Address] {
                let ColumnReader::Int64ColumnReader(mut reader) = read_back(column, &values) else {
                    panic!("{} has another type", column.name());
                };
                let mut back = Vec::new();
                reader.read_records(values.len() + 1, None, None, &mut back).unwrap();
                prop_assert_eq!(&back, &values);
            }
        }

        #[test]
        fn the_library_reads_32_bit_columns(values in wide()) {
            let values: Vec<i32> = values.iter().map(|&value| value as i32).collect();
            for column in [Column::Page, Column::Event, Column::Bytes] {
                let ColumnReader::Int32ColumnReader(mut reader) = read_back(column, &values) else {
                    panic!("{} has another type", column.name());
                };
                let mut back = Vec::new();
                reader.read_records(values.len() + 1, None, None, &mut back).unwrap();
                prop_assert_eq!(&back, &values);
            }
        }
    }

    #[test]
    fn a_long_column_has_several_pages() {
        let values: Vec<i64> = (0..3 * PAGE_VALUES as i64 + 5).map(|value| value * value).collect();
        let ColumnReader::Int64ColumnReader(mut reader) = read_back(Column::Time, &values) else {
            panic!("time has another type");
        };
        let mut back = Vec::new();
        reader.read_records(values.len() + 1, None, None, &mut back).unwrap();
        assert_eq!(back, values);
    }
}
