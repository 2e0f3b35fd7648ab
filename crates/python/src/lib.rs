//! The Python module `pagewise._core`: PyO3 conversions without domain logic.

mod allocations;
mod answers;
mod arrow_stream;
mod cache_questions;
mod errors;
mod events;
mod kills;
mod lifecycle;
mod opening;
mod progress;
mod recordings;
mod reference_curves;
mod references;
mod results;
mod simulations;
mod studies;
mod system_traces;
mod tables;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    use super::*;
    use crate::answers::Answer;
    use serde_json::{Map, Value};

    #[pymodule_export]
    use super::allocations::{allocations_info, allocators, is_allocations, replay_allocations};
    #[pymodule_export]
    use super::arrow_stream::ArrowStream;
    #[pymodule_export]
    use super::cache_questions::{analyze, describe_policy, misses, policies};
    #[pymodule_export]
    use super::kills::{kill_policies, replay_kills};
    #[pymodule_export]
    use super::lifecycle::lifecycle;
    #[pymodule_export]
    use super::progress::stop_running;
    #[pymodule_export]
    use super::recordings::{
        classes, column, csv_columns, events, formats, import_trace, info, kinds, number_trace,
        roles, slice_trace,
    };
    #[pymodule_export]
    use super::reference_curves::{limited_faults, reference_curves};
    #[pymodule_export]
    use super::references::{
        capture_references, capture_shared_bytes, import_references, reference_formats,
        references_info,
    };
    #[pymodule_export]
    use super::simulations::{
        architectures, describe_request, device, devices, latency_ratios, simulate,
        simulate_as_recorded, simulate_many, simulate_zram,
    };
    #[pymodule_export]
    use super::studies::{write_scenario, write_without_singles};
    #[pymodule_export]
    use super::system_traces::{launches, pressure, trace_kills};
    #[pymodule_export]
    use super::tables::{read_table, write_table};

    /// The JSON Schema of every result that Rust defines, by the name and version of its layout.
    #[pyfunction]
    fn schemas() -> Answer<Map<String, Value>> {
        Answer(super::results::schemas())
    }

    /// The JSON Schemas of objects that functions return beside results, as the definitions of one schema.
    #[pyfunction]
    fn part_schemas() -> Answer<Value> {
        Answer(super::results::parts())
    }

    /// Version of pagewise.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// Hash of the sources of this module.
    #[pyfunction]
    fn build() -> &'static str {
        env!("PAGEWISE_BUILD")
    }
}
