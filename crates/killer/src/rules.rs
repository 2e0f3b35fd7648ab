//! The user's rules: which processes are protected, avoided or preferred, by adj, name, user or cgroup.

use policy::kill::Standing;
use types::Nanos;

/// The most rules: the mask of the rules that a process matches has a bit for each.
pub(crate) const RULES_MAX: usize = 64;

/// A rule. The first rule that matches a process decides; a field that is None matches every process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The name of the process, at most 15 bytes; `*` matches any letters.
    pub name: Option<String>,
    /// The user ID of the process.
    pub user: Option<u32>,
    /// The path of its memory cgroup in the hierarchy; `*` matches any letters.
    pub cgroup: Option<String>,
    /// The lowest and the highest adj that match.
    pub adj: Option<(i16, i16)>,
    /// The standing of a process that matches.
    pub standing: Standing,
    /// The time that a user waits for the start of such a process; None if unknown.
    pub restart: Option<Nanos>,
}

/// The traits of a process that rules match and that seldom change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traits<'a> {
    pub name: &'a [u8],
    pub user: u32,
    pub cgroup: &'a [u8],
}

impl Rule {
    fn matches(&self, traits: Traits<'_>) -> bool {
        let is_like = |pattern: &Option<String>, text| {
            pattern.as_ref().is_none_or(|pattern| is_like(pattern.as_bytes(), text))
        };
        is_like(&self.name, traits.name)
            && is_like(&self.cgroup, traits.cgroup)
            && self.user.is_none_or(|user| user == traits.user)
    }
}

/// The mask of rules that match except for their adj: a bit per rule.
pub(crate) fn mask(rules: &[Rule], traits: Traits<'_>) -> u64 {
    let bits = rules.iter().take(RULES_MAX).enumerate();
    bits.filter(|(_, rule)| rule.matches(traits)).fold(0, |mask, (bit, _)| mask | 1 << bit)
}

/// The first rule of `mask` that matches this adj.
pub(crate) fn first(rules: &[Rule], mask: u64, adj: i16) -> Option<&Rule> {
    let rules = rules.iter().take(RULES_MAX).enumerate();
    rules
        .filter(|(bit, _)| mask >> bit & 1 == 1)
        .map(|(_, rule)| rule)
        .find(|rule| rule.adj.is_none_or(|(low, high)| (low..=high).contains(&adj)))
}

/// Whether `text` matches `pattern`, in which `*` matches any bytes.
fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Where to continue if the rest does not match: after the last star, one byte further.
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, from));
            at += 1;
        } else if pattern.get(at) == Some(&text[from]) {
            at += 1;
            from += 1;
        } else if let Some((at_star, taken)) = star {
            star = Some((at_star, taken + 1));
            at = at_star + 1;
            from = taken + 1;
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_letters() {
        for (pattern, text, expected) in [
            ("firefox", "firefox", true),
            ("fire*", "firefox", true),
            ("*fox", "firefox", true),
            ("f*f*x", "firefox", true),
            ("f*g*x", "firefox", false),
            ("*", "", true),
            ("", "x", false),
            ("a*a", "a", false),
            ("/user.slice/*", "/user.slice/a/b", true),
        ] {
            assert_eq!(is_like(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let any = Rule {
            name: None,
            user: None,
            cgroup: None,
            adj: None,
            standing: Standing::Avoided,
            restart: None,
        };
        let rules = [
            Rule { adj: Some((-1000, -1)), standing: Standing::Protected, ..any.clone() },
            Rule { name: Some("tab*".to_owned()), standing: Standing::Preferred, ..any.clone() },
            Rule { user: Some(7), ..any },
        ];
        let standing = |name: &str, user, adj| {
            let traits = Traits { name: name.as_bytes(), user, cgroup: b"/" };
            first(&rules, mask(&rules, traits), adj).map(|rule| rule.standing)
        };
        assert_eq!(standing("tab 3", 7, -1), Some(Standing::Protected));
        assert_eq!(standing("tab 3", 7, 0), Some(Standing::Preferred));
        assert_eq!(standing("shell", 7, 0), Some(Standing::Avoided));
        assert_eq!(standing("shell", 8, 0), None);
    }
}
