//! Reads a 32-bit column without encoding, without the library's decoder.
//!
//! The decoder would fill its buffer with zeros and copy the values twice; reading pages is a fifth of
//! the time of the fastest simulator.

use bytes::{Buf, Bytes};
use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use types::PageId;

const VALUE_BYTES: usize = size_of::<u32>();

/// Reads the values of a chunk in order.
pub(super) struct PlainColumn {
    pages: Box<dyn PageReader>,
    /// The rest of the current page of the file: a whole number of values.
    values: Bytes,
}

impl PlainColumn {
    /// Whether this reader can read a chunk. The column must be required.
    pub(super) fn fits(chunk: &ColumnChunkMetaData) -> bool {
        chunk.column_type() == Type::INT32
            && chunk.encodings().all(|encoding| encoding == Encoding::PLAIN)
    }

    pub(super) fn new(pages: Box<dyn PageReader>) -> PlainColumn {
        PlainColumn { pages, values: Bytes::new() }
    }

    /// Replaces `values` by the next `rows`.
    pub(super) fn read(
        &mut self,
        rows: usize,
        values: &mut Vec<PageId>,
    ) -> Result<(), ParquetError> {
        values.clear();
        while values.len() < rows {
            if self.values.is_empty() {
                // Drop the old page first, so that its buffer can be reused.
                self.values = Bytes::new();
                let page = self.pages.get_next_page()?;
                self.values = bytes_of(page.ok_or_else(|| invalid("a column is too short"))?)?;
                continue;
            }
            let count = (rows - values.len()).min(self.values.len() / VALUE_BYTES);
            let (now, _) = self.values[..count * VALUE_BYTES].as_chunks::<VALUE_BYTES>();
            values.extend(now.iter().map(|&bytes| PageId(u32::from_le_bytes(bytes))));
            self.values.advance(count * VALUE_BYTES);
        }
        Ok(())
    }
}

/// The values of a page of the file. In a required column no levels precede them.
fn bytes_of(page: Page) -> Result<Bytes, ParquetError> {
    let (Page::DataPage { buf, num_values, encoding, .. }
    | Page::DataPageV2 { buf, num_values, encoding, .. }) = page
    else {
        return Err(invalid("a plain column has a dictionary"));
    };
    let length = num_values as usize * VALUE_BYTES;
    if encoding != Encoding::PLAIN || buf.len() < length {
        return Err(invalid("a plain column contradicts its metadata"));
    }
    Ok(buf.slice(..length))
}

pub(super) fn invalid(why: &str) -> ParquetError {
    ParquetError::General(why.to_owned())
}
