//! Exports tables through the Arrow PyCapsule interface, batch by batch.

use std::sync::Mutex;

use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::SchemaRef;
use arrow_schema::ffi::FFI_ArrowSchema;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// A table that can be read once. polars, pyarrow and duckdb accept it directly:
/// `polars.DataFrame(table)`, `pyarrow.table(table)`.
#[pyclass(frozen, module = "pagewise._core")]
pub struct ArrowStream {
    schema: SchemaRef,
    reader: Mutex<Option<Box<dyn RecordBatchReader + Send>>>,
}

impl ArrowStream {
    /// A stream that yields the batches of `reader`.
    pub fn new(reader: Box<dyn RecordBatchReader + Send>) -> ArrowStream {
        ArrowStream { schema: reader.schema(), reader: Mutex::new(Some(reader)) }
    }
}

#[pymethods]
impl ArrowStream {
    /// The stream as a capsule named `arrow_array_stream`; a second call raises `ValueError`.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol lets a producer ignore a requested schema; the consumer then casts.
        drop(requested_schema);
        let taken = self.reader.lock().ok().and_then(|mut reader| reader.take());
        let reader = taken.ok_or_else(|| PyValueError::new_err("this stream was already read"))?;
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
    }

    /// The columns as a capsule named `arrow_schema`.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref())
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }
}
