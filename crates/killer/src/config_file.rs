//! The entries of a file of settings, as serde reads them, and the checks of their values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use linux::{Root, program, users};
use policy::kill::Standing;
use serde::Deserialize;
use toml::Spanned;
use types::Nanos;

use crate::choices::{Kills, Reclaim, Victims};
use crate::rules::Rule;

/// The entries of one file, unchecked.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub policy: Option<Spanned<String>>,
    #[serde(default)]
    pub options: BTreeMap<String, Spanned<toml::Value>>,
    pub victims: Option<Victims>,
    pub kills: Option<Kills>,
    pub reclaim: Option<Reclaim>,
    pub dry_run: Option<bool>,
    pub poll_ms: Option<Spanned<Vec<i64>>>,
    pub kill_timeout_ms: Option<Spanned<i64>>,
    pub grace_ms: Option<Spanned<i64>>,
    pub candidates_max: Option<Spanned<i64>>,
    pub psi_partial_stall_ms: Option<Spanned<i64>>,
    pub psi_complete_stall_ms: Option<Spanned<i64>>,
    #[serde(default)]
    pub rule: Vec<Spanned<FileRule>>,
    #[serde(default)]
    pub hooks: FileHooks,
    #[serde(default)]
    pub sockets: FileSockets,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileRule {
    name: Option<String>,
    user: Option<User>,
    cgroup: Option<String>,
    adj: Option<Vec<i16>>,
    is: FileStanding,
    restart_s: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected the name or the number of a user")]
enum User {
    Number(u32),
    Name(String),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileStanding {
    Protected,
    Avoided,
    Neutral,
    Preferred,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileHooks {
    pub before: Option<Spanned<Vec<String>>>,
    pub after: Option<Spanned<Vec<String>>>,
    pub time_max_ms: Option<Spanned<i64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileSockets {
    pub statistics: Option<Spanned<PathBuf>>,
    pub metrics: Option<Spanned<PathBuf>>,
}

/// Checks that a hook can be started.
pub(crate) fn startable(root: &Root, words: &[String]) -> Result<(), String> {
    let Some(program) = words.first() else { return Ok(()) };
    if program.is_empty() || words.iter().any(|word| word.contains('\0')) {
        return Err(
            "a hook is a program and its arguments, such as [\"logger\", \"low\"]".to_owned()
        );
    }
    if program.contains('/') {
        return match program::is_executable(&root.path(program)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("the hook {program} is not executable: chmod +x {program}")),
            Err(error) => Err(format!("the hook {program} cannot be started: {error}")),
        };
    }
    let is_program = |path: &Path| program::is_executable(&root.path(path)).unwrap_or(false);
    match program::in_path(program, is_program) {
        Some(_) => Ok(()),
        None => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let path = path.to_string_lossy();
            Err(format!("the hook {program} is in no folder of PATH ({path}): give its full path"))
        }
    }
}

/// Checks and converts a rule.
pub(crate) fn rule_of(root: &Root, rule: FileRule) -> Result<Rule, String> {
    if rule.name.is_none() && rule.user.is_none() && rule.cgroup.is_none() && rule.adj.is_none() {
        return Err("a rule needs name, user, cgroup or adj".to_owned());
    }
    let adj = match rule.adj.as_deref() {
        None => None,
        Some(&[low, high]) if -1000 <= low && low <= high && high <= 1000 => Some((low, high)),
        Some(_) => {
            return Err("adj: expected the lowest and the highest, from -1000 to 1000".to_owned());
        }
    };
    if rule.name.as_ref().is_some_and(String::is_empty) {
        return Err("name is empty, so it matches no process: remove it, or write *".to_owned());
    }
    if let Some(path) = rule.cgroup.as_ref().filter(|path| !path.starts_with(['/', '*'])) {
        return Err(format!("cgroup {path:?}: expected an absolute path, such as /apps/*"));
    }
    if let Some(name) = rule.name.as_ref().filter(|name| !name.contains('*') && name.len() > 15) {
        return Err(format!("name {name:?}: the kernel keeps only 15 letters; end it with *"));
    }
    let user = match rule.user {
        None => None,
        Some(User::Number(number)) => Some(number),
        Some(User::Name(name)) => Some(user_number(root, &name)?),
    };
    Ok(Rule {
        name: rule.name,
        user,
        cgroup: rule.cgroup,
        adj,
        standing: match rule.is {
            FileStanding::Protected => Standing::Protected,
            FileStanding::Avoided => Standing::Avoided,
            FileStanding::Neutral => Standing::Neutral,
            FileStanding::Preferred => Standing::Preferred,
        },
        restart: rule.restart_s.map(|seconds| Nanos(i64::from(seconds) * 1_000_000_000)),
    })
}

fn user_number(root: &Root, name: &str) -> Result<u32, String> {
    users::number(root, name)
        .map_err(|error| error.to_string())?
        .ok_or_else(|| format!("there is no user {name:?} in /etc/passwd: give a name or a number"))
}
