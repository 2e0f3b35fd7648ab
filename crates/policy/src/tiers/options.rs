//! Named options of an architecture: names, meanings, and the values in effect for a run.

use std::collections::BTreeMap;

/// Values that an option accepts.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// One of these words; each with its meaning.
    Words(&'static [(&'static str, &'static str)]),
    /// A word with its meaning, or a number from 0 on, with its meaning.
    WordOrNumber((&'static str, &'static str), &'static str),
}

/// One option of an architecture.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// Name on the command line, in Python and in results.
    pub name: &'static str,
    /// Default value.
    pub default: &'static str,
    /// The question that the option answers.
    pub meaning: &'static str,
    /// Accepted values.
    pub values: Values,
}

/// A set of options under one name.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// `faithful` (the paper's reading) or `practical` (a likely implementation).
    pub name: &'static str,
    /// The options that it sets; the others keep their defaults.
    pub settings: Settings,
}

/// The settings of a profile.
#[derive(Clone, Copy, Debug)]
pub enum Settings {
    /// Values of these options.
    Fixed(&'static [(&'static str, &'static str)]),
    /// Nothing, because the source settles none of these values: the caller must name every one of
    /// these options.
    Unsettled(&'static [&'static str]),
}

/// The value of every option of an architecture, in effect for one run.
#[derive(Clone, Debug)]
pub struct Effective {
    values: BTreeMap<&'static str, String>,
}

impl Effective {
    /// Resolves the values: defaults, then the profile, then the options set by hand.
    ///
    /// # Errors
    /// An unknown option, value or profile, with the list of valid ones.
    pub fn resolve(
        architecture: &str,
        options: &'static [OptionSpec],
        profiles: &'static [Profile],
        profile: Option<&str>,
        set: &BTreeMap<String, String>,
    ) -> Result<Effective, String> {
        for (name, value) in set {
            let Some(spec) = options.iter().find(|spec| spec.name == name) else {
                return Err(format!(
                    "{architecture} has no option '{name}'; {}",
                    list_options(options)
                ));
            };
            check_value(architecture, spec, value)?;
        }
        let mut values: BTreeMap<&'static str, String> =
            options.iter().map(|spec| (spec.name, spec.default.to_owned())).collect();
        if let Some(profile) = profile {
            for (name, value) in fixed_settings(architecture, options, profiles, profile, set)? {
                values.insert(name, (*value).to_owned());
            }
        }
        for spec in options {
            if let Some(value) = set.get(spec.name) {
                values.insert(spec.name, value.clone());
            }
        }
        Ok(Effective { values })
    }

    /// The word that `option` is set to.
    ///
    /// # Panics
    /// If the architecture has no such option.
    pub fn word(&self, option: &str) -> &str {
        self.values.get(option).expect("an architecture reads only options of its catalog row")
    }

    /// Whether `option` is set to `word`.
    pub fn is(&self, option: &str, word: &str) -> bool {
        self.word(option) == word
    }

    /// Whether the architecture has `option` and it is set to `word`.
    pub fn has(&self, option: &str, word: &str) -> bool {
        self.values.get(option).is_some_and(|value| value == word)
    }

    /// The number that `option` is set to; none if it is set to a word.
    pub fn number(&self, option: &str) -> Option<f64> {
        self.word(option).parse().ok()
    }

    /// Every option with its value, by name.
    pub fn into_values(self) -> BTreeMap<&'static str, String> {
        self.values
    }
}

fn fixed_settings(
    architecture: &str,
    options: &'static [OptionSpec],
    profiles: &'static [Profile],
    profile: &str,
    set: &BTreeMap<String, String>,
) -> Result<&'static [(&'static str, &'static str)], String> {
    let Some(found) = profiles.iter().find(|candidate| candidate.name == profile) else {
        let names: Vec<&str> = profiles.iter().map(|profile| profile.name).collect();
        return Err(format!(
            "{architecture} has no profile '{profile}'; it has {}",
            names.join(", ")
        ));
    };
    match found.settings {
        Settings::Fixed(settings) => Ok(settings),
        Settings::Unsettled(names) if names.iter().all(|name| set.contains_key(*name)) => Ok(&[]),
        Settings::Unsettled(names) => Err(format!(
            "{architecture} has no single faithful reading: the paper leaves {} open; name one of \
             {}",
            names.join(" and "),
            combinations(options, names).join("; ")
        )),
    }
}

/// Every combination of the words of these options, in the form of a command line.
fn combinations(options: &'static [OptionSpec], names: &[&str]) -> Vec<String> {
    let mut combinations = vec![String::new()];
    for name in names {
        let spec = options.iter().find(|spec| spec.name == *name);
        let words = match spec.map(|spec| spec.values) {
            Some(Values::Words(words)) => words,
            _ => &[],
        };
        combinations = combinations
            .iter()
            .flat_map(|start| {
                words.iter().map(move |(word, _)| format!("{start} --option {name}={word}"))
            })
            .map(|text| text.trim_start().to_owned())
            .collect();
    }
    combinations
}

fn check_value(architecture: &str, spec: &OptionSpec, value: &str) -> Result<(), String> {
    let is_accepted = match spec.values {
        Values::Words(words) => words.iter().any(|(word, _)| *word == value),
        Values::WordOrNumber((word, _), _) => {
            value == word || value.parse::<f64>().is_ok_and(|number| (0.0..=1e15).contains(&number))
        }
    };
    if is_accepted {
        return Ok(());
    }
    Err(format!(
        "{architecture}: option {} cannot be '{value}'; it is {}",
        spec.name,
        spec.values.describe()
    ))
}

impl Values {
    /// The accepted words.
    pub fn words(&self) -> Vec<&'static str> {
        match self {
            Values::Words(words) => words.iter().map(|(word, _)| *word).collect(),
            Values::WordOrNumber((word, _), _) => vec![word],
        }
    }

    /// The accepted values, as a phrase.
    pub fn describe(&self) -> String {
        match self {
            Values::Words(_) => self.words().join(" or "),
            Values::WordOrNumber((word, _), meaning) => format!("{word} or a number ({meaning})"),
        }
    }
}

fn list_options(options: &'static [OptionSpec]) -> String {
    if options.is_empty() {
        return "it has none".to_owned();
    }
    let list: Vec<String> =
        options.iter().map(|spec| format!("{} ({})", spec.name, spec.values.describe())).collect();
    format!("it has {}", list.join(", "))
}

/// The answers to a yes-or-no option.
pub const YES_NO: Values = Values::Words(&[("yes", "it does"), ("no", "it does not")]);

/// Values of a single access bit.
pub const BIT: Values = Values::Words(&[("0", "clear"), ("1", "set")]);

/// Effect of a swap-in on the page's slot.
pub const SLOT_ON_SWAPIN: OptionSpec = OptionSpec {
    name: "slot_on_swapin",
    default: "keep",
    meaning: "whether the swap copy survives the page's return to memory",
    values: Values::Words(&[
        ("keep", "valid until the page's next page-out, as in Linux's swap cache"),
        ("free", "void at once: every later page-out writes"),
    ]),
};

/// Effect of a promotion on the copy on the slow tier.
pub const FLASH_COPY_ON_PROMOTION: OptionSpec = OptionSpec {
    name: "flash_copy_on_promotion",
    default: "keep",
    meaning: "whether the slow copy of a promoted page stays valid",
    values: Values::Words(&[
        ("keep", "valid until the page's next page-out: demoting an unmodified page costs nothing"),
        ("free", "void: a page lives on one device, and every demotion writes"),
    ]),
};

/// Access bit of a page that enters the fast tier.
pub const INSERTED_BIT: OptionSpec = OptionSpec {
    name: "inserted_bit",
    default: "0",
    meaning: "the access bit of a page that enters the fast tier",
    values: BIT,
};

/// Whether a clean page with a copy on the slow tier enters the fast tier at a page-out.
pub const ADMIT_CLEAN_OFF: OptionSpec = OptionSpec {
    name: "admit_clean",
    default: "no",
    meaning: "whether a clean page that the slow tier holds enters the fast tier at its page-out",
    values: YES_NO,
};

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: &[OptionSpec] = &[INSERTED_BIT, FLASH_COPY_ON_PROMOTION];
    const PROFILES: &[Profile] = &[
        Profile {
            name: "faithful",
            settings: Settings::Unsettled(&["inserted_bit", "flash_copy_on_promotion"]),
        },
        Profile { name: "practical", settings: Settings::Fixed(&[("inserted_bit", "1")]) },
    ];

    fn resolve(profile: Option<&str>, set: &[(&str, &str)]) -> Result<Effective, String> {
        let set = set.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Effective::resolve("thing", OPTIONS, PROFILES, profile, &set)
    }

    #[test]
    fn an_option_set_by_hand_overrides_the_profile_which_overrides_the_default() {
        assert_eq!(resolve(None, &[]).unwrap().word("inserted_bit"), "0");
        assert_eq!(resolve(Some("practical"), &[]).unwrap().word("inserted_bit"), "1");
        let both = resolve(Some("practical"), &[("inserted_bit", "0")]).unwrap();
        assert_eq!(both.word("inserted_bit"), "0");
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_valid_ones() {
        let option = resolve(None, &[("entry", "1")]).unwrap_err();
        assert!(option.contains("inserted_bit") && option.contains("keep or free"), "{option}");
        let value = resolve(None, &[("inserted_bit", "2")]).unwrap_err();
        assert!(value.contains("0 or 1"), "{value}");
        let profile = resolve(Some("fast"), &[]).unwrap_err();
        assert!(profile.contains("faithful, practical"), "{profile}");
    }

    #[test]
    fn an_unsettled_profile_names_every_combination_unless_all_are_chosen() {
        let error = resolve(Some("faithful"), &[("inserted_bit", "0")]).unwrap_err();
        assert_eq!(error.matches("--option inserted_bit=").count(), 4, "{error}");
        let set = [("inserted_bit", "1"), ("flash_copy_on_promotion", "free")];
        assert_eq!(resolve(Some("faithful"), &set).unwrap().word("inserted_bit"), "1");
    }
}
