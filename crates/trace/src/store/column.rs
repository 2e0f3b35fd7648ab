//! The columns of the file: names and types.

use std::sync::Arc;

use parquet::file::properties::WriterProperties;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;

use crate::row_extents::OptionalColumns;

/// A column of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Time,
    Event,
    Flags,
    Page,
    Process,
    Space,
    Address,
    Bytes,
    Duration,
}

impl Column {
    /// Every column, in the order of the file.
    pub(super) const ALL: [Column; 9] = [
        Column::Time,
        Column::Event,
        Column::Flags,
        Column::Page,
        Column::Process,
        Column::Space,
        Column::Address,
        Column::Bytes,
        Column::Duration,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Column::Time => "time_ns",
            Column::Event => "event",
            Column::Flags => "flags",
            Column::Page => "page",
            Column::Process => "process",
            Column::Space => "space",
            Column::Address => "address",
            Column::Bytes => "bytes",
            Column::Duration => "duration_ns",
        }
    }

    /// Type in Parquet's own notation.
    const fn parquet_type(self) -> (&'static str, &'static str) {
        match self {
            Column::Time => ("int64", ""),
            Column::Event | Column::Flags => ("int32", " (INTEGER(8,false))"),
            Column::Page | Column::Process | Column::Space | Column::Bytes => {
                ("int32", " (INTEGER(32,false))")
            }
            Column::Address | Column::Duration => ("int64", " (INTEGER(64,false))"),
        }
    }

    /// Whether every file must have the column.
    pub(super) const fn is_required(self) -> bool {
        !matches!(self, Column::Time | Column::Bytes | Column::Duration)
    }

    /// Whether rows with these optional columns have this one.
    pub(super) const fn is_in(self, columns: OptionalColumns) -> bool {
        match self {
            Column::Time => columns.has_clock,
            Column::Bytes => columns.has_sizes,
            Column::Duration => columns.has_durations,
            _ => true,
        }
    }

    /// Whether row groups store the minimum and maximum of the column.
    pub(super) const fn has_range(self) -> bool {
        matches!(self, Column::Time | Column::Event)
    }
}

/// The file's schema with these columns.
pub(super) fn schema(columns: &[Column]) -> TypePtr {
    let fields: String = columns
        .iter()
        .map(|column| {
            let (physical, logical) = column.parquet_type();
            format!("required {physical} {}{logical};\n", column.name())
        })
        .collect();
    let message = format!("message pagewise {{\n{fields}}}");
    Arc::new(parse_message_type(&message).expect("the catalog of columns is well formed"))
}

/// Properties of the file around the chunks.
pub(super) fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_created_by(format!("pagewise {}", env!("CARGO_PKG_VERSION")))
        .set_offset_index_disabled(true)
        .build()
}
