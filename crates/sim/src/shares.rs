//! Shares of a whole, as schemas of results describe them.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// Stands in a schema for an `f64` that is a share: a number from 0 to 1.
pub(crate) struct Share;

impl JsonSchema for Share {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Share".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "format": "double", "minimum": 0, "maximum": 1 })
    }
}
