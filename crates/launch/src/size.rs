//! Sizes in plans and results: text with a unit, such as `650MiB`.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use types::Bytes;

pub(crate) fn serialize<S: Serializer>(size: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    size.exact().serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

/// Optional sizes.
pub(crate) mod optional {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        size: &Option<Bytes>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        size.map(Bytes::exact).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Bytes>, D::Error> {
        super::deserialize(deserializer).map(Some)
    }
}
