//! The hint for a CSV file that no format recognises: a command that names its columns.

use std::path::Path;

use super::Role;
use super::csv_columns::{Columns, delimiter_of, names};
use crate::sniff::head_lines;

/// Number of lines that are compared.
const LINES: usize = 4;

/// What is wrong with the CSV file at `path`, which begins with `head`, and a command that imports it;
/// `None` if the file is no CSV.
pub(super) fn hint(path: &Path, head: &[u8]) -> Option<String> {
    let lines = head_lines(head, LINES);
    let lines: Vec<&str> =
        lines.iter().map(|line| std::str::from_utf8(line)).collect::<Result<_, _>>().ok()?;
    let (&first, others) = lines.split_first()?;
    let delimiter = delimiter_of(first);
    let columns = names(first, delimiter);
    let is_table = columns.len() > 1 && !others.is_empty();
    if !is_table || others.iter().any(|line| names(line, delimiter).len() != columns.len()) {
        return None;
    }
    let is_number = |name: &String| name.parse::<f64>().is_ok();
    let has_header = !columns.iter().any(|name| name.is_empty() || is_number(name));
    Some(if has_header { of_columns(path, first, &columns) } else { of_headless(path, &columns) })
}

/// The hint for a file whose header names the columns.
fn of_columns(path: &Path, header: &str, columns: &[String]) -> String {
    let roles = Columns::by_name(header).roles;
    let named = |role: Role| roles.iter().position(|&found| found == Some(role));
    let sector = named(Role::Sector).map(|column| (Role::Sector, column));
    let offset = named(Role::Offset).map(|column| (Role::Offset, column));
    let place = sector.or(offset).or_else(|| Some((Role::Id, named(Role::Id)?)));
    let Some(place) = place else {
        return of_strange_columns(path, columns, &roles);
    };
    let rest = [Role::Time, Role::Op, Role::Sectors, Role::Size, Role::Process, Role::Device];
    let rest = rest.into_iter().filter_map(|role| Some((role, named(role)?)));
    let can_be_written = |name: &str| !name.contains([',', '=']);
    let map: Vec<String> = std::iter::once(place)
        .chain(rest)
        .filter(|&(_, column)| can_be_written(&columns[column]))
        .map(|(role, column)| format!("{}={}", name_of(role), columns[column]))
        .collect();
    let mapping = if place.0 == Role::Id { "objects" } else { "block" };
    format!(
        "is CSV, and its columns {} do not say what a record is; name them with --map, for example: \
         pagewise import {} -o trace.parquet --as {mapping} --map {}",
        columns.join(", "),
        quoted(&path.to_string_lossy()),
        quoted(&map.join(",")),
    )
}

/// The hint for a file whose header has no known name for the accessed address, which only the user
/// knows.
fn of_strange_columns(path: &Path, columns: &[String], roles: &[Option<Role>]) -> String {
    let file = quoted(&path.to_string_lossy());
    let map = |wanted: &[Role]| {
        let column = |role: Role| roles.iter().position(|&found| found == Some(role));
        let named = |&role: &Role| {
            let name = column(role).map_or("COLUMN", |column| &columns[column]);
            format!("{}={name}", name_of(role))
        };
        quoted(&wanted.iter().map(named).collect::<Vec<_>>().join(","))
    };
    format!(
        "is CSV, and its columns {} do not say what a record is; put them in the place of COLUMN, for requests to a \
         disk:\n  pagewise import {file} -o trace.parquet --as block --map {}\nor, for objects of a cache:\n  \
         pagewise import {file} -o trace.parquet --as objects --map {}",
        columns.join(", "),
        map(&[Role::Time, Role::Op, Role::Sector]),
        map(&[Role::Time, Role::Id]),
    )
}

/// The hint for a file without a header.
fn of_headless(path: &Path, columns: &[String]) -> String {
    let letters: Vec<String> = (1..=columns.len()).map(|number| format!("c{number}")).collect();
    let file = path.to_string_lossy();
    let unpack = match path.extension().and_then(|ending| ending.to_str()) {
        Some("gz") => "zcat",
        Some("zst") => "zstdcat",
        _ => "cat",
    };
    format!(
        "is CSV without a header line; put one in front and name the columns with --map, for example: \
         (echo {}; {unpack} {}) | pagewise import - -o trace.parquet --as objects --map id=c2,time=c1",
        letters.join(","),
        quoted(&file),
    )
}

fn name_of(role: Role) -> &'static str {
    Role::ALL[role as usize].0
}

/// The text as one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_@%+=:,./-".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\"'\"'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint_for(path: &str, text: &str) -> Option<String> {
        hint(Path::new(path), text.as_bytes())
    }

    #[test]
    fn the_example_names_columns_of_the_file() {
        let hint = hint_for("a b.csv", "ts;obj;sz;rw\n1;17;100;R\n2;18;200;W\n").unwrap();
        let command =
            "pagewise import 'a b.csv' -o trace.parquet --as objects --map time=ts,id=COLUMN";
        assert!(hint.ends_with(command), "{hint}");
        assert!(hint.contains("ts, obj, sz, rw"), "{hint}");
        let hint = hint_for("x.csv", "lba,what's this\n1,2\n").unwrap();
        assert!(hint.ends_with("--as block --map sector=lba"), "{hint}");
        let hint = hint_for("x.csv", "id,what's this\n1,2\n").unwrap();
        assert!(hint.ends_with("--as objects --map id=id"), "{hint}");
    }

    #[test]
    fn columns_with_strange_names_are_not_guessed() {
        let hint = hint_for("x.csv", "when_us;app;rwflag;start_block\n1;a;R;2\n").unwrap();
        assert!(hint.contains("columns when_us, app, rwflag, start_block do not"), "{hint}");
        assert!(hint.contains("--as block --map time=COLUMN,op=COLUMN,sector=COLUMN"), "{hint}");
        assert!(hint.ends_with("--as objects --map time=COLUMN,id=COLUMN"), "{hint}");
    }

    #[test]
    fn a_file_without_a_header_gets_one() {
        let hint = hint_for("x.csv.gz", "1,17,100\n2,18,200\n").unwrap();
        let command = "(echo c1,c2,c3; zcat x.csv.gz) | pagewise import - -o trace.parquet --as objects --map id=c2,time=c1";
        assert!(hint.ends_with(command), "{hint}");
    }

    #[test]
    fn text_that_is_no_table_has_no_hint() {
        for text in ["", "word\n", "a,b\n", "a,b\n1,2,3\n", "03-17 16:13, x=1\nno comma at all\n"] {
            assert_eq!(hint_for("x", text), None, "{text:?}");
        }
    }
}
