//! What the layout of a trace file fixes, for its readers and its writer.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// First bytes of a Parquet file.
pub(crate) const PARQUET_MAGIC: &[u8; 4] = b"PAR1";

/// Version of the layout; the `schema` of headers.
pub const SCHEMA: u32 = 1;

/// Metadata key of the header.
pub(super) const HEADER_KEY: &str = "pagewise";

/// Rows per row group: bounds the memory of writer and reader to about 10 MB.
pub(super) const ROW_GROUP_ROWS: usize = 1 << 18;

/// Whether a regular file begins like a pagewise trace file. A pipe is not read, because it cannot be
/// read again.
pub(crate) fn is_parquet(path: &Path) -> bool {
    let mut magic = [0; 4];
    path.as_os_str() != "-"
        && path.is_file()
        && File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && magic == *PARQUET_MAGIC
}
