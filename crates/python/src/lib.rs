//! PyO3 conversions: the Python module `pagewise._core`. Holds no rule of the domain.

mod arrow_stream;
mod errors;
mod events;
mod progress;
mod tables;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    use super::*;

    #[pymodule_export]
    use super::arrow_stream::ArrowStream;
    #[pymodule_export]
    use super::tables::{read_table, write_table};

    /// Version of pagewise.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}
