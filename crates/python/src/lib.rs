//! PyO3 conversions: the Python module `pagewise._core`. Holds no rule of the domain.

use pyo3::prelude::*;

#[pymodule]
mod _core {
    use super::*;

    /// Version of pagewise.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}
