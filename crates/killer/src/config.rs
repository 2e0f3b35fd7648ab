//! The settings of the killer, from TOML files; docs/killd.md describes each entry. A later file adds to
//! an earlier one and overrides what both set.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use daemon::settings::{self, Source, socket_path};
use linux::Root;
use policy::kill::{self, KillPolicy, Standing};
use toml::Spanned;

use crate::Error;
use crate::choices::{DEFAULT_GRACE, Kills, Reclaim, Victims};
use crate::config_file::{File, FileSockets, rule_of, startable};
use crate::hooks::Hooks;
use crate::rules::{RULES_MAX, Rule};
use crate::sockets::Paths;
use crate::wake::Stalls;

/// The policy if the settings name none.
const DEFAULT_POLICY: &str = "restart-cost";
/// The adj of processes that the system itself needs (Android's native and system processes, systemd's
/// own): they are protected unless a rule says otherwise.
const PROTECTED_ADJ: (i16, i16) = (-1000, -900);

/// All settings, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The policy's name in `policy::kill::CATALOG`.
    pub policy: String,
    /// The names and values of the policy's options that are set.
    pub options: Vec<(String, String)>,
    /// The victims of one decision.
    pub victims: Victims,
    /// How many decisions are carried out at once.
    pub kills: Kills,
    /// When the memory of victims is reclaimed.
    pub reclaim: Reclaim,
    /// Whether victims are only logged, not killed.
    pub is_dry_run: bool,
    /// The shortest and the longest time between two looks.
    pub poll: (Duration, Duration),
    /// How long a victim may free nothing before the next victim is chosen.
    pub kill_timeout: Duration,
    /// How long a victim has to die by itself before its memory is reclaimed.
    pub grace: Duration,
    /// The most processes that the table holds.
    pub candidates_max: usize,
    /// The stalls after which the kernel wakes the killer.
    pub stalls: Stalls,
    /// Rules about processes; the last rule protects the processes that the system needs.
    pub rules: Arc<[Rule]>,
    /// Programs to run before and after a kill.
    pub hooks: Hooks,
    /// The sockets that report the counters.
    pub sockets: Paths,
}

impl Default for Config {
    fn default() -> Config {
        let ms = Duration::from_millis;
        Config {
            policy: DEFAULT_POLICY.to_owned(),
            options: Vec::new(),
            victims: Victims::Process,
            kills: Kills::Serial,
            reclaim: Reclaim::Late,
            is_dry_run: false,
            poll: (ms(2), ms(100)),
            kill_timeout: ms(100),
            grace: DEFAULT_GRACE,
            candidates_max: 4096,
            stalls: Stalls::default(),
            rules: [protection()].into(),
            hooks: Hooks { time_max: ms(200), ..Hooks::default() },
            sockets: Paths::default(),
        }
    }
}

fn protection() -> Rule {
    Rule {
        name: None,
        user: None,
        cgroup: None,
        adj: Some(PROTECTED_ADJ),
        standing: Standing::Protected,
        restart: None,
    }
}

impl Config {
    /// Loads the settings from these paths, in this order; each is a file, or a folder of files named `*.toml`,
    /// which are read in the order of their names.
    ///
    /// # Errors
    /// The first invalid setting, with its file and line.
    pub fn load(root: &Root, paths: &[PathBuf]) -> Result<Config, Error> {
        let mut config = Config { rules: [].into(), ..Config::default() };
        for path in Config::files(paths)? {
            let text = settings::read(&path)?;
            config.add(root, &Source { path: &path, text: &text })?;
        }
        let rules = config.rules.iter().cloned().chain([protection()]);
        config.rules = rules.collect();
        Ok(config)
    }

    /// The files that [`Config::load`] reads for these paths, in this order.
    ///
    /// # Errors
    /// A folder that cannot be listed.
    pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
        settings::files(paths)
    }

    /// Builds the policy with its options.
    ///
    /// # Errors
    /// The policy does not have an option, or a value is invalid.
    pub fn build_policy(&self) -> Result<Box<dyn KillPolicy>, Error> {
        let row = kill::find(&self.policy).map_err(Error::Refused)?;
        let options: Vec<(&str, &str)> =
            self.options.iter().map(|(name, value)| (&**name, &**value)).collect();
        row.build(&options).map_err(Error::Refused)
    }

    fn add(&mut self, root: &Root, source: &Source<'_>) -> Result<(), Error> {
        let file: File = source.parse()?;
        self.add_policy(source, &file)?;
        self.add_times(source, &file)?;
        self.victims = file.victims.unwrap_or(self.victims);
        self.kills = file.kills.unwrap_or(self.kills);
        self.reclaim = file.reclaim.unwrap_or(self.reclaim);
        self.is_dry_run = file.dry_run.unwrap_or(self.is_dry_run);
        for (hook, to) in
            [(file.hooks.before, &mut self.hooks.before), (file.hooks.after, &mut self.hooks.after)]
        {
            let Some(hook) = hook else { continue };
            let at = hook.span().start;
            *to = hook.into_inner();
            startable(root, to).map_err(|what| source.error(at, what))?;
        }
        self.add_sockets(source, file.sockets)?;
        let mut rules = self.rules.to_vec();
        for rule in file.rule {
            let at = rule.span().start;
            rules.push(rule_of(root, rule.into_inner()).map_err(|what| source.error(at, what))?);
            // One place is for the rule that protects the processes that the system needs.
            if rules.len() >= RULES_MAX {
                return Err(source.error(at, format!("more than {} rules", RULES_MAX - 1)));
            }
        }
        self.rules = rules.into();
        Ok(())
    }

    fn add_sockets(&mut self, source: &Source<'_>, sockets: FileSockets) -> Result<(), Error> {
        let mut last = 0;
        for (path, to) in [
            (sockets.statistics, &mut self.sockets.statistics),
            (sockets.metrics, &mut self.sockets.metrics),
        ] {
            let Some(path) = path else { continue };
            last = path.span().start;
            *to = Some(socket_path(path.into_inner()).map_err(|what| source.error(last, what))?);
        }
        match &self.sockets {
            Paths { statistics: Some(first), metrics: Some(second) } if first == second => {
                Err(source.error(last, "statistics and metrics have the same path: give two paths"))
            }
            _ => Ok(()),
        }
    }

    fn add_policy(&mut self, source: &Source<'_>, file: &File) -> Result<(), Error> {
        if let Some(policy) = &file.policy {
            kill::find(policy.get_ref()).map_err(|what| source.error(policy.span().start, what))?;
            if self.policy != *policy.get_ref() {
                // The options set so far belong to the other policy.
                self.options.clear();
                self.policy.clone_from(policy.get_ref());
            }
        }
        for (name, value) in &file.options {
            let text = match value.get_ref() {
                toml::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            self.options.retain(|(other, _)| other != name);
            self.options.push((name.clone(), text));
            if let Err(error) = self.build_policy() {
                return Err(source.error(value.span().start, error.to_string()));
            }
        }
        Ok(())
    }

    fn add_times(&mut self, source: &Source<'_>, file: &File) -> Result<(), Error> {
        let times = [
            ("kill_timeout_ms", &file.kill_timeout_ms, 1..=60_000, &mut self.kill_timeout),
            ("grace_ms", &file.grace_ms, 0..=10_000, &mut self.grace),
            (
                "psi_partial_stall_ms",
                &file.psi_partial_stall_ms,
                1..=1000,
                &mut self.stalls.partial,
            ),
            (
                "psi_complete_stall_ms",
                &file.psi_complete_stall_ms,
                1..=1000,
                &mut self.stalls.complete,
            ),
            ("time_max_ms", &file.hooks.time_max_ms, 1..=60_000, &mut self.hooks.time_max),
        ];
        for (name, value, range, to) in times {
            if let Some(value) = value {
                *to = Duration::from_millis(source.within(name, value, range)?);
            }
        }
        let wrong = |poll: &Spanned<Vec<i64>>| {
            let what = "poll_ms: expected the shortest and the longest wait, from 1 to 10000";
            source.error(poll.span().start, what)
        };
        if let Some(poll) = &file.poll_ms {
            let &[shortest, longest] = &poll.get_ref()[..] else { return Err(wrong(poll)) };
            if !(1..=longest).contains(&shortest) || longest > 10_000 {
                return Err(wrong(poll));
            }
            let time = |ms: i64| Duration::from_millis(ms.unsigned_abs());
            self.poll = (time(shortest), time(longest));
        }
        if let Some(room) = &file.candidates_max {
            self.candidates_max = source.within("candidates_max", room, 16..=65_536)? as usize;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    use policy::kill::Standing;
    use types::Nanos;

    fn load(texts: &[&str]) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path().join("root"));
        std::fs::create_dir_all(root.path("/etc")).unwrap();
        std::fs::write(root.path("/etc/passwd"), "root:x:0:0\nanna:x:1007:100\n").unwrap();
        let notify = root.path("/etc/notify");
        std::fs::write(&notify, "").unwrap();
        std::fs::set_permissions(&notify, PermissionsExt::from_mode(0o755)).unwrap();
        for (number, text) in texts.iter().enumerate() {
            std::fs::write(folder.path().join(format!("{number}.toml")), text).unwrap();
        }
        std::fs::write(folder.path().join("README"), "not a setting").unwrap();
        let config = Config::load(&root, &[folder.path().to_owned()]);
        config.map_err(|error| error.to_string().replace(&folder.path().display().to_string(), ""))
    }

    #[test]
    fn empty_settings_give_the_defaults() {
        assert_eq!(load(&[]).unwrap(), Config::default());
        assert!(Config::default().build_policy().is_ok());
    }

    #[test]
    fn a_later_file_adds_to_an_earlier_file() {
        let first = "policy = \"lmkd\"\nvictims = \"group\"\npoll_ms = [5, 50]\n\
                     [options]\nthrashing_limit = 30\nkill_heaviest_task = true\n\
                     [[rule]]\nname = \"sshd\"\nis = \"protected\"\n\
                     [hooks]\nbefore = [\"/etc/notify\", \"x\"]\ntime_max_ms = 7\n";
        let second = "dry_run = true\nkills = \"batch\"\nreclaim = \"never\"\n[options]\nthrashing_limit = 40\n\
                      [[rule]]\nuser = \"anna\"\nadj = [1, 900]\nis = \"preferred\"\nrestart_s = 3\n\
                      [sockets]\nmetrics = \"/run/m\"\n";
        let config = load(&[first, second]).unwrap();
        assert_eq!((config.policy.as_str(), config.victims), ("lmkd", Victims::Group));
        let options = [("kill_heaviest_task", "true"), ("thrashing_limit", "40")];
        assert_eq!(
            config.options,
            options.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        assert_eq!(config.poll, (Duration::from_millis(5), Duration::from_millis(50)));
        assert!(config.is_dry_run);
        assert_eq!((config.kills, config.reclaim), (Kills::Batch, Reclaim::Never));
        assert_eq!(config.hooks.before, ["/etc/notify", "x"]);
        assert_eq!(config.hooks.time_max, Duration::from_millis(7));
        assert_eq!(config.sockets.metrics, Some(PathBuf::from("/run/m")));
        let [ssh, anna, system] = &config.rules[..] else { panic!("{:?}", config.rules) };
        assert_eq!((ssh.standing, ssh.name.as_deref()), (Standing::Protected, Some("sshd")));
        assert_eq!((anna.user, anna.restart), (Some(1007), Some(Nanos(3_000_000_000))));
        assert_eq!(system, &protection());
        // Another policy drops the options of the first.
        assert_eq!(load(&[first, "policy = \"largest\""]).unwrap().options, []);
    }

    #[test]
    fn an_invalid_setting_is_reported_with_its_line() {
        for (text, expected) in [
            (
                "policy = \"oom\"",
                "/0.toml:1: there is no kill policy \"oom\"; there are minfree, lmkd",
            ),
            ("\n\npolice = 1", "/0.toml:3: unknown field `police`"),
            ("victims = \"all\"", "/0.toml:1: unknown variant `all`"),
            ("kills = \"two\"", "/0.toml:1: unknown variant `two`, expected `serial` or `batch`"),
            ("reclaim = \"now\"", "/0.toml:1: unknown variant `now`"),
            ("[options]\nlow_percent = 600", "/0.toml:2: restart-cost: low_percent is \"600\""),
            (
                "[options]\n\nlow = 6",
                "/0.toml:3: restart-cost has no option low; it has low_percent",
            ),
            ("poll_ms = [9, 2]", "/0.toml:1: poll_ms: expected the shortest"),
            ("grace_ms = 99999", "/0.toml:1: grace_ms is 99999, expected from 0 to 10000"),
            ("\n[[rule]]\nis = \"avoided\"", "/0.toml:2: a rule needs name, user, cgroup or adj"),
            ("[[rule]]\nuser = \"otto\"\nis = \"avoided\"", "/0.toml:1: there is no user \"otto\""),
            ("[[rule]]\nadj = [2, 1]\nis = \"avoided\"", "adj: expected the lowest"),
            ("[[rule]]\nadj = [-2000, 1]\nis = \"avoided\"", "adj: expected the lowest"),
            ("[[rule]]\nname = \"a-very-long-name\"\nis = \"avoided\"", "keeps only 15 letters"),
            ("[hooks]\nbefore = \"x\"", "/0.toml:2: invalid type"),
            ("[[rule]]\nadj = [1, 2, 3]\nis = \"avoided\"", "adj: expected the lowest"),
            ("[[rule]]\nname = \"\"\nis = \"avoided\"", "/0.toml:1: name is empty"),
            ("[[rule]]\ncgroup = \"apps\"\nis = \"avoided\"", "expected an absolute path"),
            (
                "[[rule]]\nuser = -1\nis = \"avoided\"",
                "/0.toml:2: expected the name or the number of a user",
            ),
            ("poll_ms = [1, 2, 3]", "/0.toml:1: poll_ms: expected the shortest"),
            ("grace_ms = -1", "/0.toml:1: grace_ms is -1, expected from 0 to 10000"),
            ("[hooks]\nbefore = [\"\"]", "/0.toml:2: a hook is a program and its arguments"),
            (
                "[hooks]\nbefore = [\"no-such\"]",
                "/0.toml:2: the hook no-such is in no folder of PATH",
            ),
            ("[sockets]\nstatistics = \"a\"", "/0.toml:2: \"a\": expected an absolute path"),
            (
                "[sockets]\nstatistics = \"/a\"\nmetrics = \"/a\"",
                "/0.toml:3: statistics and metrics have the same path",
            ),
            (
                "[hooks]\nbefore = [\"/no/such\"]",
                "/0.toml:2: the hook /no/such cannot be started: No such file",
            ),
            (
                "[hooks]\nafter = [\"/etc/passwd\"]",
                "/0.toml:2: the hook /etc/passwd is not executable",
            ),
            ("=", "/0.toml:1: "),
        ] {
            let error = load(&[text]).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
        let long = format!("[sockets]\nmetrics = \"/{}\"", "x".repeat(107));
        assert!(load(&[&long]).unwrap_err().contains("has at most 107 bytes, not 108"));
        let missing = Config::load(&Root::system(), &[PathBuf::from("/no/such.toml")]);
        let error = missing.unwrap_err().to_string();
        assert!(error.starts_with("/no/such.toml: cannot be read"), "{error}");
    }
}
