//! Named options of policies, as text that users write.

use std::str::FromStr;

/// One option of a policy.
#[derive(Clone, Copy, Debug)]
pub struct OptionRow {
    /// Name in settings.
    pub name: &'static str,
    /// Default value.
    pub default: &'static str,
    /// Meaning, with the unit.
    pub summary: &'static str,
}

/// The values in effect for one policy: those that were set, and the defaults.
#[derive(Debug)]
pub struct Values<'a> {
    policy: &'static str,
    options: &'static [OptionRow],
    given: &'a [(&'a str, &'a str)],
}

/// Names of the options, for an error message.
fn listed(options: &[OptionRow]) -> String {
    let names: Vec<&str> = options.iter().map(|option| option.name).collect();
    if names.is_empty() { "no options".to_owned() } else { names.join(", ") }
}

impl<'a> Values<'a> {
    pub(crate) fn new(
        policy: &'static str,
        options: &'static [OptionRow],
        given: &'a [(&'a str, &'a str)],
    ) -> Result<Values<'a>, String> {
        for (name, _) in given {
            if !options.iter().any(|option| option.name == *name) {
                return Err(format!("{policy} has no option {name}; it has {}", listed(options)));
            }
        }
        Ok(Values { policy, options, given })
    }

    /// The value of an option that the policy has, as text.
    pub(crate) fn text(&self, name: &str) -> &str {
        let given = self.given.iter().rev().find(|(given, _)| *given == name);
        let default = || self.options.iter().find(|option| option.name == name);
        given.map(|(_, value)| *value).or_else(|| default().map(|row| row.default)).unwrap_or("")
    }

    /// A whole number within `range`.
    pub(crate) fn number(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<u64, String> {
        let number: u64 = self.parsed(name, "a whole number")?;
        match range.contains(&number) {
            true => Ok(number),
            false => Err(self.wrong(name, &format!("from {} to {}", range.start(), range.end()))),
        }
    }

    /// A Boolean value, `true` or `false`.
    pub(crate) fn is_set(&self, name: &str) -> Result<bool, String> {
        self.parsed(name, "true or false")
    }

    fn parsed<Value: FromStr>(&self, name: &str, expected: &str) -> Result<Value, String> {
        self.text(name).trim().parse().map_err(|_| self.wrong(name, expected))
    }

    pub(crate) fn wrong(&self, name: &str, expected: &str) -> String {
        format!("{}: {name} is {:?}, expected {expected}", self.policy, self.text(name))
    }
}
