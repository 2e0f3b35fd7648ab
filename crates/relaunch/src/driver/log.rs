//! The lines that relaunchd logs.

use daemon::log::{Line, put, put_words};
use linux::system;

use super::app::{Begun, Ended};
use super::{AppIndex, Core};
use crate::Error;
use crate::ranges::pages_of;

impl Core {
    pub(super) fn say_start(&mut self, event: &str) {
        let (count, is_dry_run) = (self.apps.len(), self.config.is_dry_run);
        let (order, source) = (self.order().name(), self.source());
        self.output.say(|line| {
            put(line, "event", event)?;
            put(line, "applications", count)?;
            put(line, "dry_run", is_dry_run)?;
            put(line, "order", order)?;
            source.map_or(Ok(()), |source| put(line, "order_source", source))
        });
    }

    /// Logs once why pages are not read in the order of use although the settings have it.
    pub(super) fn say_order_refused(&mut self) {
        let Some(why) = &self.order_refused else { return };
        self.output.say_absent(format_args!("the order of use: pages are read by address: {why}"));
    }

    pub(super) fn say_reload(&mut self, outcome: &Result<(), Error>) {
        match outcome {
            Ok(()) => self.say_start("reload"),
            Err(error) => self.output.say(|line| {
                put(line, "event", "reload-refused")?;
                put_words(line, "why", error)
            }),
        }
    }

    /// Logs that a group has appeared or disappeared, or that it does not exist at the start.
    pub(super) fn say_attached(&mut self, index: AppIndex) {
        let Core { apps, output, .. } = self;
        let app = &mut apps[index.0];
        let exists = app.freezer.is_some();
        let existed = app.logged.0.replace(exists);
        if existed == Some(exists) {
            return;
        }
        let event = match existed {
            _ if exists => "found",
            Some(_) => "gone",
            None => "missing",
        };
        output.say(|line| {
            put(line, "event", event)?;
            put(line, "app", &app.watched.name)?;
            match &app.freezer {
                Some(group) => {
                    app.logged.1 = None;
                    put_words(line, "cgroup", group.folder.display())?;
                    put(line, "frozen", app.is_frozen)
                }
                None => put_words(line, "cgroup", app.watched.cgroup.display()),
            }
        });
    }

    /// Logs why a group that appeared cannot be watched, once.
    pub(super) fn say_refused_group(&mut self, index: AppIndex, error: &Error) {
        let app = &mut self.apps[index.0];
        let text = error.to_string();
        if app.logged.1.as_ref() != Some(&text) {
            self.output.say_absent(format_args!("{}: {text}", app.watched.name));
            app.logged.1 = Some(text);
        }
    }

    pub(super) fn say_thawed(&mut self, index: AppIndex, by: &str, begun: &Begun) {
        let Core { apps, output, .. } = self;
        let name = &apps[index.0].watched.name;
        output.say(|line| {
            put(line, "event", "thawed")?;
            put(line, "app", name)?;
            put(line, "by", by)?;
            put(line, "at_ns", system::monotonic_ns())?;
            put(line, "predicted_pages", begun.predicted_pages)?;
            put(line, "wanted_pages", begun.wanted_pages)?;
            put(line, "prefetched_pages", begun.prefetched_pages)?;
            put(line, "ranges", begun.ranges)?;
            put(line, "time_us", begun.time.as_micros())?;
            if let Some(room) = &begun.room {
                put(line, "room_bytes", room.bytes)?;
            }
            begun.why.as_ref().map_or(Ok(()), |why| put_words(line, "why", why))
        });
        self.say_refused(index, begun.refused.map(|(process, error)| (process, error.to_string())));
    }

    pub(super) fn say_frozen(&mut self, index: AppIndex, ended: &Ended) {
        let Core { apps, output, .. } = self;
        let name = &apps[index.0].watched.name;
        output.say(|line| {
            put(line, "event", "frozen")?;
            put(line, "app", name)?;
            put(line, "at_ns", system::monotonic_ns())?;
            put(line, "processes", ended.processes)?;
            if let Some(end) = &ended.end {
                put(line, "used_pages", end.used_pages)?;
                put(line, "missed_pages", end.missed_pages)?;
                put(line, "ordered_pages", ended.ordered_pages)?;
                if ended.lost_faults > 0 {
                    put(line, "lost_faults", ended.lost_faults)?;
                }
                put(line, "page_out_pages", pages_of(&end.page_out))?;
                put(line, "cold_pages", pages_of(&end.cold))?;
            }
            Ok(())
        });
        if ended.overlooked > 0 {
            output.say(|line| {
                put(line, "event", "overlooked")?;
                put(line, "app", name)?;
                put(line, "processes", ended.overlooked)
            });
        }
        self.say_refused(index, ended.refused.map(|(process, error)| (process, error.to_string())));
    }

    fn say_refused(&mut self, index: AppIndex, refused: Option<(u32, String)>) {
        let Some((process, error)) = refused else { return };
        let Core { apps, output, .. } = self;
        let fill = |line: &mut Line| {
            put(line, "event", "refused")?;
            put(line, "app", &apps[index.0].watched.name)?;
            if process > 0 {
                put(line, "process", process)?;
            }
            let advice = "reading needs CAP_SYS_PTRACE, advice CAP_SYS_NICE too";
            put_words(line, "why", format_args!("{error}; {advice}"))
        };
        output.say(fill);
    }

    pub(super) fn say_released(&mut self, index: AppIndex, why: &str) {
        let Core { apps, output, .. } = self;
        output.say(|line| {
            put(line, "event", "released")?;
            put(line, "app", &apps[index.0].watched.name)?;
            put_words(line, "why", why)
        });
    }
}
