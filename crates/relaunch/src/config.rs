//! The settings of relaunchd, from TOML files; docs/relaunchd.md describes each entry. A later file adds to an earlier
//! one and overrides what both set.

use std::path::{Path, PathBuf};
use std::time::Duration;

use daemon::settings::{self, Source, socket_path};
use serde::{Deserialize, Serialize};
use toml::Spanned;
use types::Bytes;

use crate::Error;
use crate::application::Choices;
use crate::scores::Learning;

/// The most applications: a note of a frozen group has a place for each.
pub(crate) const APPS_MAX: usize = 256;
/// The longest path of a group.
pub(crate) const GROUP_BYTES_MAX: usize = 1000;
const NAME_BYTES_MAX: usize = 64;
/// The least memory that prefetches leave. A page that is being read cannot be reclaimed, so an application that is
/// thawed into a group full of such pages would meet the OOM killer.
const KEEP_FREE_MIN: Bytes = Bytes(4 << 20);
/// The control socket if the settings name none.
pub const DEFAULT_CONTROL: &str = "/run/pagewise/relaunchd.sock";

/// An application to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The name that commands and counters use.
    pub name: String,
    /// The group of the application: an absolute path, or one from the root of the hierarchy.
    pub cgroup: PathBuf,
}

/// The order in which predicted pages are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// By process and address.
    #[default]
    Address,
    /// The order in which earlier visits used them; by address where that is unknown.
    Use,
}

impl Order {
    /// The name in the settings.
    pub fn name(self) -> &'static str {
        match self {
            Order::Use => "use",
            Order::Address => "address",
        }
    }
}

/// The paths of the sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The socket that takes `freeze` and `thaw`.
    pub control: PathBuf,
    /// The socket that answers with JSON.
    pub statistics: Option<PathBuf>,
    /// The socket that answers with OpenMetrics.
    pub metrics: Option<PathBuf>,
}

/// All settings, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The applications.
    pub apps: Vec<Watched>,
    /// Whether nothing is prefetched or reclaimed, only logged.
    pub is_dry_run: bool,
    /// Whether predicted pages are read before a visit.
    pub prefetch: bool,
    /// The order in which predicted pages are read.
    pub order: Order,
    /// The most bytes that are read for one visit.
    pub prefetch_max: Bytes,
    /// Available memory that prefetches leave.
    pub keep_free: Bytes,
    /// Whether inactive anonymous memory counts as available while swap is free.
    pub displace: bool,
    /// How long after a thaw nothing is paged out.
    pub page_out_delay: Duration,
    /// How pages are predicted and treated.
    pub(crate) choices: Choices,
    /// The sockets.
    pub sockets: Paths,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            apps: Vec::new(),
            is_dry_run: false,
            prefetch: true,
            order: Order::Address,
            prefetch_max: Bytes(512 << 20),
            keep_free: Bytes(32 << 20),
            displace: true,
            page_out_delay: Duration::from_secs(2),
            choices: Choices {
                learning: Learning { weight_percent: 50, threshold_percent: 20 },
                gap_pages: 0,
                page_out: false,
                cold: false,
            },
            sockets: Paths {
                control: PathBuf::from(DEFAULT_CONTROL),
                statistics: None,
                metrics: None,
            },
        }
    }
}

/// The entries of one file, unchecked.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    app: Vec<Spanned<FileApp>>,
    dry_run: Option<bool>,
    prefetch: Option<bool>,
    order: Option<Order>,
    prefetch_max: Option<Spanned<String>>,
    keep_free: Option<Spanned<String>>,
    displace: Option<bool>,
    gap_pages: Option<Spanned<i64>>,
    page_out: Option<bool>,
    page_out_delay_ms: Option<Spanned<i64>>,
    cold: Option<bool>,
    weight_percent: Option<Spanned<i64>>,
    threshold_percent: Option<Spanned<i64>>,
    #[serde(default)]
    sockets: FileSockets,
}

/// The name of an entry with a number, its value if it is set, and the numbers that it may have.
type NumberEntry<'a> = (&'a str, &'a Option<Spanned<i64>>, std::ops::RangeInclusive<i64>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileApp {
    name: String,
    cgroup: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSockets {
    control: Option<Spanned<PathBuf>>,
    statistics: Option<Spanned<PathBuf>>,
    metrics: Option<Spanned<PathBuf>>,
}

impl Config {
    /// Loads the settings from these paths, in this order; each is a file, or a folder of files named `*.toml`,
    /// which are read in the order of their names.
    ///
    /// # Errors
    /// The first invalid setting, with its file and line.
    pub fn load(paths: &[PathBuf]) -> Result<Config, Error> {
        let mut config = Config::default();
        for path in Config::files(paths)? {
            let text = settings::read(&path)?;
            config.add(&Source { path: &path, text: &text })?;
        }
        Ok(config)
    }

    /// The files that [`Config::load`] reads for these paths, in this order.
    ///
    /// # Errors
    /// A folder that cannot be listed.
    pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
        settings::files(paths)
    }

    /// The numbers and switches in force, each with the name of its entry.
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        let Choices { learning, gap_pages, page_out, cold } = self.choices;
        vec![
            ("dry_run", self.is_dry_run.to_string()),
            ("prefetch", self.prefetch.to_string()),
            ("order", self.order.name().to_owned()),
            ("prefetch_max", self.prefetch_max.to_string()),
            ("keep_free", self.keep_free.to_string()),
            ("displace", self.displace.to_string()),
            ("gap_pages", gap_pages.to_string()),
            ("page_out", page_out.to_string()),
            ("page_out_delay_ms", self.page_out_delay.as_millis().to_string()),
            ("cold", cold.to_string()),
            ("weight_percent", learning.weight_percent.to_string()),
            ("threshold_percent", learning.threshold_percent.to_string()),
        ]
    }

    fn add(&mut self, source: &Source<'_>) -> Result<(), Error> {
        let file: File = source.parse()?;
        for app in file.app {
            let at = app.span().start;
            self.add_app(app.into_inner()).map_err(|what| source.error(at, what))?;
        }
        self.add_numbers(
            source,
            [
                ("gap_pages", &file.gap_pages, 0..=4096),
                ("page_out_delay_ms", &file.page_out_delay_ms, 0..=600_000),
                ("weight_percent", &file.weight_percent, 1..=100),
                ("threshold_percent", &file.threshold_percent, 1..=100),
            ],
        )?;
        for (size, to) in
            [(&file.prefetch_max, &mut self.prefetch_max), (&file.keep_free, &mut self.keep_free)]
        {
            let Some(size) = size else { continue };
            *to = size
                .get_ref()
                .parse()
                .map_err(|what: String| source.error(size.span().start, what))?;
        }
        if let Some(size) = file.keep_free.filter(|_| self.keep_free.0 < KEEP_FREE_MIN.0) {
            let why = "pages that are being read cannot be reclaimed";
            let what = format!("keep_free: expected at least {KEEP_FREE_MIN}: {why}");
            return Err(source.error(size.span().start, what));
        }
        for (switch, to) in [
            (file.dry_run, &mut self.is_dry_run),
            (file.prefetch, &mut self.prefetch),
            (file.displace, &mut self.displace),
            (file.page_out, &mut self.choices.page_out),
            (file.cold, &mut self.choices.cold),
        ] {
            *to = switch.unwrap_or(*to);
        }
        self.order = file.order.unwrap_or(self.order);
        self.add_sockets(source, file.sockets)
    }

    fn add_app(&mut self, app: FileApp) -> Result<(), String> {
        let FileApp { name, cgroup } = app;
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._@:-".contains(letter);
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_plain) {
            return Err(format!(
                "name {name:?}: expected up to {NAME_BYTES_MAX} letters, digits and ._@:-"
            ));
        }
        if !cgroup.is_absolute() || cgroup == Path::new("/") {
            let what = format!("cgroup {cgroup:?}: expected an absolute path, such as /apps/notes");
            return Err(what);
        }
        if cgroup.as_os_str().len() > GROUP_BYTES_MAX {
            return Err(format!("a cgroup's path has at most {GROUP_BYTES_MAX} bytes"));
        }
        if let Some(other) = self.apps.iter().find(|other| other.name == name) {
            let path = other.cgroup.display();
            return Err(format!("{name} is already the application with cgroup {path}"));
        }
        if let Some(other) = self.apps.iter().find(|other| other.cgroup == cgroup) {
            return Err(format!("{} already has the cgroup {}", other.name, cgroup.display()));
        }
        if self.apps.len() >= APPS_MAX {
            return Err(format!("more than {APPS_MAX} applications"));
        }
        self.apps.push(Watched { name, cgroup });
        Ok(())
    }

    fn add_numbers(
        &mut self,
        source: &Source<'_>,
        numbers: [NumberEntry<'_>; 4],
    ) -> Result<(), Error> {
        for (name, value, range) in numbers {
            let Some(value) = value else { continue };
            let number = source.within(name, value, range)?;
            let learning = &mut self.choices.learning;
            match name {
                "gap_pages" => self.choices.gap_pages = number,
                "page_out_delay_ms" => self.page_out_delay = Duration::from_millis(number),
                "weight_percent" => learning.weight_percent = number as u32,
                _ => learning.threshold_percent = number as u32,
            }
        }
        Ok(())
    }

    fn add_sockets(&mut self, source: &Source<'_>, sockets: FileSockets) -> Result<(), Error> {
        let mut last = 0;
        let mut checked = |path: Option<Spanned<PathBuf>>| -> Result<Option<PathBuf>, Error> {
            let Some(path) = path else { return Ok(None) };
            last = path.span().start;
            socket_path(path.into_inner()).map(Some).map_err(|what| source.error(last, what))
        };
        let (control, statistics) = (checked(sockets.control)?, checked(sockets.statistics)?);
        let metrics = checked(sockets.metrics)?;
        let paths = &mut self.sockets;
        paths.control = control.unwrap_or_else(|| paths.control.clone());
        paths.statistics = statistics.or_else(|| paths.statistics.take());
        paths.metrics = metrics.or_else(|| paths.metrics.take());
        let mut all: Vec<&PathBuf> =
            [Some(&paths.control), paths.statistics.as_ref(), paths.metrics.as_ref()]
                .into_iter()
                .flatten()
                .collect();
        let count = all.len();
        all.sort();
        all.dedup();
        match all.len() == count {
            true => Ok(()),
            false => Err(source.error(last, "two sockets have the same path: give each its own")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(texts: &[&str]) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        for (number, text) in texts.iter().enumerate() {
            std::fs::write(folder.path().join(format!("{number}.toml")), text).unwrap();
        }
        let config = Config::load(&[folder.path().to_owned()]);
        config.map_err(|error| error.to_string().replace(&folder.path().display().to_string(), ""))
    }

    #[test]
    fn empty_settings_give_the_defaults() {
        assert_eq!(load(&[]).unwrap(), Config::default());
    }

    #[test]
    fn a_later_file_adds_to_an_earlier_file() {
        let first = "dry_run = true\nprefetch_max = \"64MiB\"\nweight_percent = 100\n\
                     [[app]]\nname = \"notes\"\ncgroup = \"/apps/notes\"\n\
                     [sockets]\nstatistics = \"/run/s\"\n";
        let second = "order = \"use\"\nprefetch_max = \"32MiB\"\npage_out = true\ngap_pages = 8\n\
                      [[app]]\nname = \"mail@2\"\ncgroup = \"/apps/mail\"\n\
                      [sockets]\ncontrol = \"/run/c\"\n";
        let config = load(&[first, second]).unwrap();
        assert!(config.is_dry_run && config.choices.page_out && !config.choices.cold);
        assert_eq!((config.prefetch_max, config.choices.gap_pages), (Bytes(32 << 20), 8));
        assert_eq!((config.choices.learning.weight_percent, config.order), (100, Order::Use));
        let names: Vec<&str> = config.apps.iter().map(|app| &*app.name).collect();
        assert_eq!(names, ["notes", "mail@2"]);
        assert_eq!(config.sockets.control, Path::new("/run/c"));
        assert_eq!(config.sockets.statistics, Some(PathBuf::from("/run/s")));
        let entries = config.entries();
        assert!(entries.contains(&("prefetch_max", "32MiB".to_owned())), "{entries:?}");
    }

    #[test]
    fn an_invalid_setting_is_reported_with_its_line() {
        let app = "[[app]]\nname = \"a\"\ncgroup = \"/a\"\n";
        for (text, expected) in [
            ("\nprefech = true", "/0.toml:2: unknown field `prefech`"),
            ("prefetch = 1", "/0.toml:1: invalid type"),
            ("prefetch_max = \"many\"", "/0.toml:1: "),
            ("order = \"age\"", "/0.toml:1: unknown variant `age`, expected `address` or `use`"),
            ("keep_free = 5", "/0.toml:1: invalid type"),
            ("keep_free = \"1MiB\"", "/0.toml:1: keep_free: expected at least 4MiB: pages"),
            ("threshold_percent = 0", "threshold_percent is 0, expected from 1 to 100"),
            ("weight_percent = 101", "weight_percent is 101, expected from 1 to 100"),
            ("gap_pages = -1", "/0.toml:1: gap_pages is -1, expected from 0 to 4096"),
            ("page_out_delay_ms = 600001", "expected from 0 to 600000"),
            ("[[app]]\nname = \"a\"", "missing field `cgroup`"),
            (
                "\n[[app]]\nname = \"a b\"\ncgroup = \"/a\"",
                "/0.toml:2: name \"a b\": expected up to",
            ),
            ("[[app]]\nname = \"\"\ncgroup = \"/a\"", "name \"\": expected"),
            ("[[app]]\nname = \"a\"\ncgroup = \"a\"", "cgroup \"a\": expected an absolute path"),
            ("[[app]]\nname = \"a\"\ncgroup = \"/\"", "cgroup \"/\": expected an absolute path"),
            (&format!("{app}{app}"), "/0.toml:4: a is already the application with cgroup /a"),
            (
                &format!("{app}[[app]]\nname = \"b\"\ncgroup = \"/a\""),
                "/0.toml:4: a already has the cgroup /a",
            ),
            ("[sockets]\ncontrol = \"c\"", "/0.toml:2: \"c\": expected an absolute path"),
            (
                "[sockets]\ncontrol = \"/c\"\nmetrics = \"/c\"",
                "/0.toml:3: two sockets have the same path",
            ),
        ] {
            let error = load(&[text]).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
        let long = format!("[[app]]\nname = \"a\"\ncgroup = \"/{}\"", "x".repeat(GROUP_BYTES_MAX));
        assert!(load(&[&long]).unwrap_err().contains("at most 1000 bytes"));
        let many: String = (0..=APPS_MAX)
            .map(|number| format!("[[app]]\nname = \"a{number}\"\ncgroup = \"/a/{number}\"\n"))
            .collect();
        assert!(load(&[&many]).unwrap_err().contains("more than 256 applications"));
    }
}
