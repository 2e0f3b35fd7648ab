//! The roles of the columns of a CSV file, from the names in its header line or from the caller.

use super::Role;
use crate::record::Mapping;
use crate::text::{SECOND_NS, take_field};

/// Headers whose column names are misleading.
const KNOWN_HEADERS: [(&[&str], &[Option<Role>]); 1] = [(
    &["proces", "device", "rw_flag", "sector", "size", "timestamp"],
    &[
        Some(Role::Process),
        Some(Role::Device),
        Some(Role::Op),
        Some(Role::Sector),
        Some(Role::Sectors),
        Some(Role::Time),
    ],
)];

/// Column names, lower case and without the unit at their end, and what they hold.
const NAMES: [(Role, &[&str]); 9] = [
    (Role::Time, &["time", "timestamp", "ts", "t", "op_time", "clock"]),
    (Role::Op, &["op", "operation", "rw", "rwbs", "rw_flag", "op_name", "type", "io_type", "cmd"]),
    (Role::Id, &["id", "obj_id", "object", "object_id", "key", "block_id"]),
    (Role::Sector, &["sector", "lba", "lbn", "start_sector", "first_sector"]),
    (Role::Offset, &["offset", "byte_offset", "offset_bytes"]),
    (Role::Sectors, &["sectors", "nr_sectors", "nr_sector", "sector_count"]),
    (Role::Size, &["size", "bytes", "length", "len", "io_size", "obj_size", "size_bytes"]),
    (Role::Process, &["process", "proces", "comm", "pid", "task", "command"]),
    (Role::Device, &["device", "dev", "disk", "volume"]),
];

/// Units at the end of a time column's name, as in `time_ms`, `Time (ms)` and `time[ms]`, and their nanoseconds.
const TIME_UNITS: [(&str, u64); 4] = [("ns", 1), ("us", 1000), ("ms", 1_000_000), ("s", SECOND_NS)];

/// Columns beyond this one cannot be used.
pub(super) const COLUMNS_MAX: usize = 256;

/// The roles of the columns of a file.
pub(super) struct Columns {
    pub(super) delimiter: u8,
    pub(super) roles: Vec<Option<Role>>,
    /// Nanoseconds per unit of the time column.
    pub(super) time_unit_ns: u64,
}

impl Columns {
    /// Whether this exact header is a known one.
    pub(super) fn are_known(header: &str) -> bool {
        known_roles(&names(header, delimiter_of(header))).is_some()
    }

    /// The roles by the names in `header` only.
    pub(super) fn by_name(header: &str) -> Columns {
        let delimiter = delimiter_of(header);
        let names = names(header, delimiter);
        if let Some(roles) = known_roles(&names) {
            return Columns { delimiter, roles: roles.to_vec(), time_unit_ns: SECOND_NS };
        }
        let mut columns = Columns { delimiter, roles: Vec::new(), time_unit_ns: SECOND_NS };
        for name in names {
            let (bare, unit_ns) = without_time_unit(&name);
            let holds = |known: &[&str]| known.contains(&name.as_str()) || known.contains(&bare);
            let role = NAMES.iter().find(|(_, known)| holds(known)).map(|&(role, _)| role);
            // If two columns have the same role, the first counts.
            let role = role.filter(|&role| !columns.has(role));
            if role == Some(Role::Time) {
                columns.time_unit_ns = unit_ns;
            }
            columns.roles.push(role);
        }
        columns
    }

    /// The roles that the caller chose or, without a choice, the roles by name.
    pub(super) fn choose(header: &str, chosen: &[(Role, String)]) -> Result<Columns, String> {
        let mut columns = Columns::by_name(header);
        let names = names(header, columns.delimiter);
        if !chosen.is_empty() {
            // A choice replaces every guess by name: a half-guessed file is worse than an error.
            columns.roles = vec![None; names.len()];
        }
        for (role, name) in chosen {
            let wanted = name.trim().to_lowercase();
            let place = names.iter().position(|name| *name == wanted).ok_or_else(|| {
                format!("has no column {name:?}; its columns are {}", names.join(", "))
            })?;
            if *role == Role::Time {
                columns.time_unit_ns = without_time_unit(&wanted).1;
            }
            if columns.has(*role) || columns.roles[place].is_some() {
                let role = Role::ALL.map(|(name, _)| name)[*role as usize];
                return Err(format!("{role}={name}: a column has one role, and a role one column"));
            }
            columns.roles[place] = Some(*role);
        }
        columns.roles.truncate(COLUMNS_MAX);
        Ok(columns)
    }

    /// Whether any column has this role.
    pub(super) fn has(&self, role: Role) -> bool {
        self.roles.contains(&Some(role))
    }

    /// The mapping that the columns allow.
    pub(super) fn check(&self, wanted: Option<Mapping>) -> Result<Mapping, String> {
        let has_sector = self.has(Role::Sector) || self.has(Role::Offset);
        let mapping = wanted.unwrap_or(if has_sector { Mapping::Block } else { Mapping::Objects });
        let is_enough = has_sector || (mapping == Mapping::Objects && self.has(Role::Id));
        if is_enough {
            return Ok(mapping);
        }
        let missing =
            if mapping == Mapping::Objects { "id, sector or offset" } else { "sector or offset" };
        let role = missing.split([',', ' ']).next().unwrap_or_default();
        Err(format!(
            "expected a header with a column for {missing}; name it with --map {role}=COLUMN \
             (with --map only the columns named there are read)"
        ))
    }
}

/// The most frequent delimiter in the header.
pub(super) fn delimiter_of(header: &str) -> u8 {
    let count = |delimiter: &u8| header.bytes().filter(|byte| byte == delimiter).count();
    [b'\t', b';', b','].into_iter().max_by_key(count).unwrap_or(b',')
}

/// The roles of the columns of a known header.
fn known_roles(names: &[String]) -> Option<&'static [Option<Role>]> {
    KNOWN_HEADERS.iter().find(|(known, _)| names == *known).map(|(_, roles)| *roles)
}

/// Column names, lower case and without blanks and quotes around them.
pub(super) fn names(header: &str, delimiter: u8) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = Some(header.as_bytes());
    while let Some(text) = rest {
        let field;
        (field, rest) = take_field(text, delimiter);
        names.push(String::from_utf8_lossy(field).trim().trim_matches('"').to_lowercase());
    }
    names
}

/// A column's name without the unit at its end, and the nanoseconds per unit; seconds where there is none.
fn without_time_unit(name: &str) -> (&str, u64) {
    let bare = |unit: &str| {
        let in_brackets =
            |open, close| name.strip_suffix(close)?.strip_suffix(unit)?.strip_suffix(open);
        let bare = name.strip_suffix(unit).and_then(|name| name.strip_suffix('_'));
        bare.or_else(|| in_brackets('(', ')')).or_else(|| in_brackets('[', ']'))
    };
    let found = TIME_UNITS.iter().find_map(|&(unit, unit_ns)| Some((bare(unit)?, unit_ns)));
    found.map_or((name, SECOND_NS), |(bare, unit_ns)| (bare.trim_end(), unit_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_column_names_its_unit_in_three_ways() {
        for (name, expected) in [
            ("time", ("time", SECOND_NS)),
            ("time_ms", ("time", 1_000_000)),
            ("timestamp(ms)", ("timestamp", 1_000_000)),
            ("timestamp (us)", ("timestamp", 1000)),
            ("ts[ns]", ("ts", 1)),
            ("clock_s", ("clock", SECOND_NS)),
            ("ts", ("ts", SECOND_NS)),
            ("time(ms]", ("time(ms]", SECOND_NS)),
            ("items", ("items", SECOND_NS)),
        ] {
            assert_eq!(without_time_unit(name), expected, "{name}");
        }
        let columns = Columns::by_name("Timestamp(ms),Op,LBA\n");
        assert_eq!(columns.roles[0], Some(Role::Time));
        assert_eq!(columns.time_unit_ns, 1_000_000);
    }
}
