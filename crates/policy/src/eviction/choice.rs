//! A policy and its options as users write them: `lru-k:k=3`.

use super::{Build, Row, find};
use crate::options::OptionRow;

/// A policy of the catalog, ready to be made.
pub struct Choice {
    /// Row of the policy in the catalog.
    pub row: &'static Row,
    /// Name as results show it: the policy's name, then the options that were set, in the order of the
    /// row.
    pub label: String,
    /// Every option with its value, set or not.
    pub options: Vec<(&'static str, String)>,
    /// Constructor of the policy.
    pub build: Build,
}

impl Choice {
    /// Parses `NAME` or `NAME:OPTION=VALUE,...`.
    ///
    /// # Errors
    /// An unknown policy or option, an option set twice, or an invalid value.
    pub fn parse(text: &str) -> Result<Choice, String> {
        let (name, options) = match text.split_once(':') {
            Some((name, options)) => (name, pairs(name, options)?),
            None => (text, Vec::new()),
        };
        let row = find(name.trim()).map_err(|error| match name.contains('=') {
            true => format!("{error}; options are written NAME:OPTION=VALUE,..."),
            false => error,
        })?;
        let build = row.build(&options)?;
        Ok(Choice { row, label: label(row, &options), options: effective(row, &options), build })
    }
}

fn pairs<'a>(name: &str, options: &'a str) -> Result<Vec<(&'a str, &'a str)>, String> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for option in options.split(',') {
        let (key, value) = option.split_once('=').ok_or_else(|| {
            format!("{name}: {option:?} sets no option; write {name}:OPTION=VALUE")
        })?;
        let key = key.trim();
        if pairs.iter().any(|&(set, _)| set == key) {
            return Err(format!("{name}: {key} is set twice"));
        }
        pairs.push((key, value.trim()));
    }
    Ok(pairs)
}

/// The value given for the option, if any.
fn set_to<'a>(given: &[(&str, &'a str)], name: &str) -> Option<&'a str> {
    given.iter().find(|&&(set, _)| set == name).map(|&(_, value)| value)
}

fn effective(row: &Row, given: &[(&str, &str)]) -> Vec<(&'static str, String)> {
    let value = |option: &OptionRow| set_to(given, option.name).unwrap_or(option.default);
    row.options.iter().map(|option| (option.name, value(option).to_owned())).collect()
}

fn label(row: &Row, given: &[(&str, &str)]) -> String {
    let pair = |option: &OptionRow| {
        set_to(given, option.name).map(|value| format!("{}={value}", option.name))
    };
    let set: Vec<String> = row.options.iter().filter_map(pair).collect();
    if set.is_empty() { row.name.to_owned() } else { format!("{}:{}", row.name, set.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_and_invalid_values_are_refused_with_the_reason() {
        for (text, expected) in [
            ("lifo", "there are fifo, lru"),
            ("lru-k,k=2", "NAME:OPTION=VALUE"),
            ("lru-k:k=2,k=3", "k is set twice"),
            ("lru-k:k=two", "k is \"two\", expected a whole number"),
            ("lru:", "write lru:OPTION=VALUE"),
            ("lru:k=2", "lru has no option k; it has no options"),
        ] {
            let error = Choice::parse(text).err().unwrap();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_label_has_the_options_that_were_set_in_the_order_of_the_row() {
        let label = |text| Choice::parse(text).unwrap().label;
        assert_eq!(label("tinylfu"), "tinylfu");
        assert_eq!(label(" tinylfu: sample = 5, window=20"), "tinylfu:window=20,sample=5");
    }
}
