//! Checks a plan: returns the first invalid entry, and what was expected.

use types::Bytes;

use super::{Application, Balloon, Interface, Mode, Plan, Schedule, Storage};

/// The smallest size; smaller ones are typing errors.
const SIZE_MIN: Bytes = Bytes(1 << 20);

/// The most rounds: all visits are listed before the run.
const ROUNDS_MAX: u32 = 100_000;

impl Plan {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.order.is_empty() {
            return Err("order: name at least one application".to_owned());
        }
        if !(1..=ROUNDS_MAX).contains(&self.rounds) {
            return Err(format!("rounds: {}: expected 1 to {ROUNDS_MAX}", self.rounds));
        }
        for name in &self.order {
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
            if name.is_empty() || !name.chars().all(is_plain) {
                return Err(format!("order: {name:?}: expected letters, digits, - and _"));
            }
            let application = self.applications.get(name).ok_or_else(|| {
                format!("order: {name:?} has no [applications.{name}], here or in `include`")
            })?;
            application.check().map_err(|what| format!("applications.{name}: {what}"))?;
        }
        self.check_memory()?;
        match &self.schedule {
            Schedule::Zipf { exponent } if !(0.0..=10.0).contains(exponent) => {
                Err(format!("schedule.exponent: {exponent}: expected 0 to 10"))
            }
            _ => Ok(()),
        }
    }

    fn check_memory(&self) -> Result<(), String> {
        let mode = self.mode;
        let sizes = [
            ("budget", self.budget, mode != Mode::NoLimit),
            ("swap_size", self.swap_size, mode.has_swap_file() || mode == Mode::Tiers),
            ("zram_size", self.zram_size, mode.has_zram() || mode == Mode::Zswap),
        ];
        for (entry, size, is_needed) in sizes {
            match size {
                None if is_needed => return Err(format!("mode {mode} needs `{entry}`")),
                Some(size) if size < SIZE_MIN => {
                    return Err(format!("{entry}: {size}: expected {SIZE_MIN} or more"));
                }
                _ => {}
            }
        }
        if let Some(balloon) = self.balloon {
            self.check_balloon(balloon)?;
        }
        if self.prefetch && !mode.has_swap() {
            return Err(format!("prefetch: mode {mode} has no swap to read from"));
        }
        let of_relaunchd = [
            ("prefetch_order", self.prefetch_order.is_some()),
            ("prefetch_page_out", self.prefetch_page_out),
            ("prefetch_cold", self.prefetch_cold),
        ];
        if let Some((entry, _)) = of_relaunchd.iter().find(|(_, is_set)| *is_set && !self.prefetch)
        {
            return Err(format!("{entry} needs `prefetch = true`"));
        }
        self.storage.as_ref().map_or(Ok(()), Storage::check)?;
        if self.swappiness > 200 {
            return Err(format!("swappiness: {}: expected 0 to 200", self.swappiness));
        }
        match (mode, &self.kill) {
            (Mode::Kill, Some(kill)) if kill.threshold > 0.0 && kill.threshold <= 1.0 => Ok(()),
            (Mode::Kill, Some(kill)) => {
                Err(format!("kill.threshold: {}: expected above 0 and up to 1", kill.threshold))
            }
            (Mode::Kill, None) => {
                Err("mode kill needs [kill] with a threshold, such as 0.4".to_owned())
            }
            (Mode::Minfree, _) => self.minfree.check(),
            (Mode::Tiers, _) => match &self.tiers {
                Some(tiers) => tiers.check(),
                None => Err("mode tiers needs `tiers` with a policy and a fast tier".to_owned()),
            },
            // Other modes ignore [kill], because plans are often copied.
            _ => Ok(()),
        }
    }

    fn check_balloon(&self, Balloon { size }: Balloon) -> Result<(), String> {
        let (mode, budget) = (self.mode, self.budget.unwrap_or_default());
        if mode != Mode::Minfree {
            return Err(format!("balloon: only mode minfree has one, not mode {mode}"));
        }
        if size < SIZE_MIN || size >= budget {
            return Err(format!(
                "balloon.size: {size}: expected {SIZE_MIN} or more, and less than budget {budget}"
            ));
        }
        Ok(())
    }
}

impl Application {
    fn check(&self) -> Result<(), String> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err("command: expected a program".to_owned());
        }
        let (interface, needed) = match self.interface {
            Interface::Line => (
                "line",
                vec![("ready", &self.ready), ("request", &self.request), ("answer", &self.answer)],
            ),
            Interface::Http => ("http", vec![("url", &self.url)]),
            Interface::Devtools => {
                ("devtools", vec![("page", &self.page), ("request", &self.request)])
            }
        };
        for (entry, value) in needed {
            match value {
                None => return Err(format!("interface {interface} needs `{entry}`")),
                // Two lines would be two requests, and the second answer would count for the next visit.
                Some(text) if interface == "line" && text.contains('\n') => {
                    return Err(format!("{entry}: {text:?}: expected one line"));
                }
                Some(_) => {}
            }
        }
        self.check_strings()
    }

    /// Checks words and variables for letters that the kernel does not accept, and URLs for local hosts.
    fn check_strings(&self) -> Result<(), String> {
        if let Some(word) = self.command.iter().find(|word| word.contains('\0')) {
            return Err(format!("command: {word:?}: expected no NUL"));
        }
        for (name, value) in &self.environment {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(format!("environment: {name:?}: expected a name without = and no NUL"));
            }
        }
        let urls = [("url", &self.url), ("ready_url", &self.ready_url)];
        let is_local = |url: &str| {
            ["http://127.0.0.1", "http://localhost", "http://[::1]"]
                .iter()
                .any(|host| url.strip_prefix(host).is_some_and(|rest| rest.starts_with([':', '/'])))
        };
        let mut urls = urls.iter().filter_map(|(entry, url)| Some((entry, url.as_deref()?)));
        match urls.find(|(_, url)| !is_local(url)) {
            Some((entry, url)) => Err(format!(
                "{entry}: {url}: expected a local URL such as http://127.0.0.1:{{port}}/"
            )),
            None => Ok(()),
        }
    }
}
