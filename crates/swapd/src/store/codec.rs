//! Compresses pages and gets them back, without allocation: every context and table is made at the start.

use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into};
use zstd::bulk::{Compressor, Decompressor};

use crate::Error;
use crate::carrier::SLOT_BYTES;

/// Bytes that the compressed form of any page fits into: lz4 asks for 10 % and 20 bytes beyond the page.
pub(super) const PACKED_BYTES: usize = 4608;

/// On pages of 4 KiB, level 3 saves 0.8 % of the bytes and takes an eighth longer (docs/decisions/0020).
const ZSTD_LEVEL: i32 = 1;

/// How the fast tier is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Quick, about half of the bytes of heaps.
    Lz4,
    /// Several times slower, about a third of the bytes of heaps.
    Zstd,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Algorithm; 2] = [Algorithm::Lz4, Algorithm::Zstd];

    /// The name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Lz4 => "lz4",
            Algorithm::Zstd => "zstd",
        }
    }
}

/// The contexts of an algorithm.
pub(super) enum Codec {
    Lz4(CompressTable),
    Zstd(Compressor<'static>, Decompressor<'static>),
}

impl Codec {
    /// # Errors
    /// The library refuses to make its contexts.
    pub fn new(algorithm: Algorithm) -> Result<Codec, Error> {
        let refused = |error| Error::refused("prepare zstd", error);
        let mut codec = match algorithm {
            Algorithm::Lz4 => Codec::Lz4(CompressTable::small()),
            Algorithm::Zstd => Codec::Zstd(
                Compressor::new(ZSTD_LEVEL).map_err(refused)?,
                Decompressor::new().map_err(refused)?,
            ),
        };
        // zstd allocates the tables of its contexts at their first use.
        let mut packed = [0; PACKED_BYTES];
        let bytes = codec.pack(&[0; SLOT_BYTES], &mut packed);
        codec.unpack(&packed[..bytes.unwrap_or(0)], &mut [0; SLOT_BYTES]);
        Ok(codec)
    }

    /// Compresses a page into `target`, of at least [`PACKED_BYTES`]. Returns the bytes that it takes there; none if
    /// it cannot be compressed.
    pub fn pack(&mut self, page: &[u8], target: &mut [u8]) -> Option<usize> {
        match self {
            Codec::Lz4(table) => compress_into_with_table(page, target, table).ok(),
            Codec::Zstd(compressor, _) => compressor.compress_to_buffer(page, target).ok(),
        }
    }

    /// Gets a page back into `target`; returns whether `packed` is a compressed page.
    pub fn unpack(&mut self, packed: &[u8], target: &mut [u8]) -> bool {
        let bytes = match self {
            Codec::Lz4(_) => decompress_into(packed, target).ok(),
            Codec::Zstd(_, decompressor) => decompressor.decompress_to_buffer(packed, target).ok(),
        };
        bytes == Some(SLOT_BYTES)
    }

    /// Bytes that the context of a library in C holds, which no allocator of Rust counts.
    #[cfg(test)]
    pub fn foreign_bytes(&mut self) -> usize {
        match self {
            Codec::Lz4(_) => 0,
            Codec::Zstd(compressor, _) => compressor.context_mut().sizeof(),
        }
    }
}
