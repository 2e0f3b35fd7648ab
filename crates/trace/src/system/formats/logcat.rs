//! `logcat`: Android's log as `logcat -v threadtime` and its relatives print it (liblog's logprint.cpp, Android 8 to
//! 15): `MM-DD HH:MM:SS.mmm [UID] PID TID P TAG: MESSAGE`, the date also with a year, or seconds since 1970. Entries of
//! the event log are `TAG: [ARGUMENT,...]`.
//!
//! Besides the lines it gives what they say of processes: starts, deaths, and launches as `Displayed` states them.
//! Times are on the wall clock without a time zone; a log without years begins in a leap year.

use super::Format;
use crate::input::Input;
use crate::ledger::Ledger;
use crate::lines::{Expected, Lines};
use crate::sniff::{Confidence, head_lines};
use crate::system::{Event, Kind, Name, Names, SystemReader, Tally};
use crate::text::{SECOND_NS, decimal, take_decimal, take_time, take_word};
use crate::{Error, Reject};

/// The row of this format.
pub const FORMAT: Format =
    Format { name: "logcat", summary: "Android's log, logcat -v threadtime", sniff, open };

const EXPECTED: Expected = Expected("`MM-DD HH:MM:SS.mmm PID TID PRIORITY TAG: MESSAGE`");

/// The year of a log without years: one that has every day.
const YEAR: i64 = 1972;

const DAY_NS: i64 = 86_400 * SECOND_NS as i64;

/// Tags whose messages analyses read; the messages of others are not kept.
const NEEDED_TAGS: [&[u8]; 10] = [
    b"ActivityManager",
    b"ActivityTaskManager",
    b"AndroidRuntime",
    b"am_crash",
    b"am_kill",
    b"am_proc_died",
    b"am_proc_start",
    b"killinfo",
    b"lmkd",
    b"lowmemorykiller",
];

/// Recognises the lines of a log, at least half of the first hundred.
pub fn sniff(head: &[u8]) -> Confidence {
    let lines = head_lines(head, 100);
    let lines: Vec<_> = lines.iter().filter(|line| !is_divider(line)).collect();
    let good = lines.iter().filter(|line| parse(line).is_some()).count();
    Confidence::Likely.when(good > 0 && good * 2 >= lines.len())
}

/// Opens a reader.
///
/// # Errors
/// None; the file is read by [`SystemReader::read`].
pub fn open(input: Input) -> Result<Box<dyn SystemReader>, Error> {
    let state = State { names: Names::default(), year: YEAR, month: 0, launches: 0 };
    Ok(Box::new(Reader { lines: Lines::new(input), ledger: Ledger::new(false), state }))
}

struct Reader {
    lines: Lines,
    /// Holds the lines that cannot be read.
    ledger: Ledger,
    state: State,
}

struct State {
    names: Names,
    /// The year of the last line, and its month.
    year: i64,
    month: u64,
    /// Launches so far, whose numbers pair begin and end.
    launches: i64,
}

impl SystemReader for Reader {
    fn read(&mut self, events: &mut Vec<Event>, tally: &mut Tally) -> Result<bool, Error> {
        let state = &mut self.state;
        self.lines.read_block(&mut self.ledger, |line| state.line(line, events, tally))
    }

    fn names(&self) -> &Names {
        &self.state.names
    }

    fn rejects(&self) -> (u64, &[Reject]) {
        self.ledger.rejects()
    }
}

/// A line of the log.
struct Line<'line> {
    when: When,
    pid: u32,
    tid: u32,
    priority: u8,
    tag: &'line [u8],
    message: &'line [u8],
}

/// The time of a line.
#[derive(Clone, Copy)]
enum When {
    /// Year if the line has one, month, day, nanoseconds of the day.
    Date(Option<i64>, u64, u64, i64),
    /// Nanoseconds since 1970 or since boot.
    Clock(i64),
}

fn parse(line: &[u8]) -> Option<Line<'_>> {
    let (first, rest) = take_word(line)?;
    let (when, rest) = match date(first) {
        Some((year, month, day)) => {
            let (clock, rest) = take_word(rest)?;
            let when = When::Date(year, month, day, time_of_day(clock)?);
            // `-v zone` adds the offset to UTC.
            let zone = take_word(rest).filter(|(word, _)| matches!(word, [b'+' | b'-', ..]));
            (when, zone.map_or(rest, |(_, after)| after))
        }
        None => match take_time(first, SECOND_NS)? {
            (time_ns, []) if first.contains(&b'.') => (When::Clock(time_ns), rest),
            _ => return None,
        },
    };
    let (mut words, mut rest) = ([&b""[..]; 3], rest);
    let mut count = 0;
    let priority = loop {
        let (word, after) = take_word(rest)?;
        rest = after;
        match word {
            [letter] if letter.is_ascii_uppercase() && count >= 2 => break *letter,
            _ if count == words.len() => return None,
            _ => words[count] = word,
        }
        count += 1;
    };
    let number = |word: &[u8]| u32::try_from(decimal(word)?).ok();
    let (pid, tid) = (number(words[count - 2])?, number(words[count - 1])?);
    let rest = rest.trim_ascii_start();
    let colon = memchr::memmem::find(rest, b": ").or_else(|| rest.len().checked_sub(1))?;
    (rest.get(colon) == Some(&b':')).then(|| Line {
        when,
        pid,
        tid,
        priority: level(priority),
        tag: rest[..colon].trim_ascii_end(),
        message: rest.get(colon + 2..).unwrap_or_default(),
    })
}

/// `MM-DD` or `YYYY-MM-DD`.
fn date(word: &[u8]) -> Option<(Option<i64>, u64, u64)> {
    let mut parts = word.split(|&byte| byte == b'-').map(decimal);
    let (first, second, third) = (parts.next()??, parts.next()??, parts.next());
    let (year, month, day) = match third {
        Some(day) => (Some(i64::try_from(first).ok().filter(|&year| year < 10_000)?), second, day?),
        None => (None, first, second),
    };
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day) && parts.next().is_none();
    is_date.then_some((year, month, day))
}

/// `HH:MM:SS.mmm`, in nanoseconds.
fn time_of_day(word: &[u8]) -> Option<i64> {
    let (hours, rest) = take_decimal(word)?;
    let (minutes, rest) = take_decimal(rest.strip_prefix(b":")?)?;
    let (seconds_ns, rest) = take_time(rest.strip_prefix(b":")?, SECOND_NS)?;
    let is_time = hours < 24 && minutes < 60 && seconds_ns < 61 * SECOND_NS as i64;
    let minute_ns = 60 * SECOND_NS as i64;
    (is_time && rest.is_empty()).then(|| (hours * 60 + minutes) as i64 * minute_ns + seconds_ns)
}

/// The number of a priority's letter, as Android numbers them.
fn level(letter: u8) -> u8 {
    match letter {
        b'V' => 2,
        b'D' => 3,
        b'I' => 4,
        b'W' => 5,
        b'E' => 6,
        b'F' | b'A' => 7,
        _ => 0,
    }
}

/// The days from 1970-01-01 to a date of the Gregorian calendar (Howard Hinnant, `days_from_civil`).
fn days(year: i64, month: u64, day: u64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let shifted = (month as i64 + 9) % 12;
    let of_year = (153 * shifted + 2) / 5 + day as i64 - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// `--------- beginning of main` and the like, which separates logs.
fn is_divider(line: &[u8]) -> bool {
    line.starts_with(b"--------- ")
}

impl State {
    fn line(
        &mut self,
        line: &[u8],
        events: &mut Vec<Event>,
        tally: &mut Tally,
    ) -> Result<(), Expected> {
        if line.trim_ascii().is_empty() || is_divider(line) {
            return Ok(());
        }
        let Line { when, pid, tid, priority, tag, message } = parse(line).ok_or(EXPECTED)?;
        let time_ns = self.time(when);
        let needed = NEEDED_TAGS.contains(&tag);
        tally.count(if needed { tag } else { b"log_line" }, 1);
        // Entries of the event log have brackets around their arguments.
        let bare = message.strip_prefix(b"[").and_then(|inner| inner.strip_suffix(b"]"));
        let message = bare.filter(|_| tag.contains(&b'_') || tag == b"killinfo").unwrap_or(message);
        let mut push = |time_ns, kind| events.push(Event { time_ns, cpu: None, tid, kind });
        if needed {
            self.processes(tag, message, &mut |kind| push(time_ns, kind));
            if let Some((name, duration_ns)) = self.launch(tag, message) {
                self.launches += 1;
                let (cookie, track) = (self.launches, Name::NONE);
                let begin = Kind::AsyncBegin { pid, name, cookie, track };
                push(time_ns.saturating_sub(duration_ns), begin);
                push(time_ns, Kind::AsyncEnd { pid, name, cookie, track });
            }
        }
        let message = if needed { self.names.intern_needed(message) } else { Name::NONE };
        push(time_ns, Kind::Log { pid, priority, tag: self.names.intern(tag), message });
        Ok(())
    }

    fn time(&mut self, when: When) -> i64 {
        let (year, month, day, of_day_ns) = match when {
            When::Clock(time_ns) => return time_ns,
            When::Date(year, month, day, of_day_ns) => (year, month, day, of_day_ns),
        };
        let year = year.unwrap_or_else(|| {
            // Only a log over New Year goes from December to January.
            if (self.month, month) == (12, 1) && self.year < YEAR + 100 {
                self.year += 1;
            }
            self.month = month;
            self.year
        });
        days(year, month, day).saturating_mul(DAY_NS).saturating_add(of_day_ns)
    }

    /// Starts and deaths of processes: `Start proc PID:NAME/USER for ...`, `Process NAME (pid PID) has died`, and
    /// the entries am_proc_start and am_proc_died.
    fn processes(&mut self, tag: &[u8], message: &[u8], push: &mut dyn FnMut(Kind)) {
        let mut fields = message.split(|&byte| byte == b',');
        let started = match tag {
            b"am_proc_start" => fields.nth(1).zip(fields.nth(1)),
            b"ActivityManager" => message.strip_prefix(b"Start proc ").and_then(|rest| {
                let colon = memchr::memchr(b':', rest)?;
                let end = memchr::memchr2(b'/', b' ', &rest[colon..])?;
                Some((&rest[..colon], &rest[colon + 1..colon + end]))
            }),
            _ => None,
        };
        if let Some((pid, name)) = started
            && let Some(pid) = decimal(pid).and_then(|pid| u32::try_from(pid).ok())
        {
            let name = self.names.intern_needed(name);
            push(Kind::Fork { parent_tid: 0, tid: pid, comm: Name::NONE });
            push(Kind::Process { pid, parent: 0, name, uid: None });
        }
        let died = match tag {
            b"am_proc_died" => message.split(|&byte| byte == b',').nth(1).and_then(decimal),
            b"ActivityManager" => dead_pid(message),
            _ => None,
        };
        if let Some(pid) = died.and_then(|pid| u32::try_from(pid).ok()) {
            push(Kind::Exit { tid: pid, pid: Some(pid), comm: Name::NONE });
        }
    }

    /// The mark of a launch and its duration: `Displayed PACKAGE/ACTIVITY: +1s234ms`.
    fn launch(&mut self, tag: &[u8], message: &[u8]) -> Option<(Name, i64)> {
        if !matches!(tag, b"ActivityManager" | b"ActivityTaskManager") {
            return None;
        }
        let rest = message.strip_prefix(b"Displayed ")?;
        let package = &rest[..memchr::memchr(b'/', rest)?];
        let plus = memchr::memmem::find(rest, b": +")?;
        let duration_ns = duration(take_word(&rest[plus + 3..])?.0)?;
        let name = [b"launching: ", package].concat();
        Some((self.names.intern_needed(&name), duration_ns))
    }
}

/// The process that a line of ActivityManager says to be dead.
fn dead_pid(message: &[u8]) -> Option<u64> {
    let rest = message.strip_prefix(b"Process ")?;
    let end = memchr::memmem::rfind(rest, b") has died")?;
    let pid = memchr::memmem::rfind(&rest[..end], b"(pid ")?;
    decimal(&rest[pid + 5..end])
}

/// `1m2s345ms`, any part of it, in nanoseconds.
fn duration(mut text: &[u8]) -> Option<i64> {
    let mut sum = 0i64;
    while !text.is_empty() {
        let (number, rest) = take_decimal(text)?;
        let units: [(&[u8], i64); 5] = [
            (b"ms", 1_000_000),
            (b"s", 1_000_000_000),
            (b"m", 60_000_000_000),
            (b"h", 3_600_000_000_000),
            (b"d", DAY_NS),
        ];
        let (unit, ns) = units.iter().find(|(unit, _)| rest.starts_with(unit))?;
        sum = sum.checked_add(i64::try_from(number).ok()?.checked_mul(*ns)?)?;
        text = &rest[unit.len()..];
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<Event>, Vec<String>, Vec<u64>) {
        let mut reader = open(Input::from_bytes("sample", text.as_bytes()).unwrap()).unwrap();
        let (mut events, mut tally) = (Vec::new(), Tally::default());
        while reader.read(&mut events, &mut tally).unwrap() {}
        let named = |event: &Event| match event.kind {
            Kind::Process { name, .. } | Kind::AsyncBegin { name, .. } => Some(name),
            Kind::Log { message, .. } => Some(message).filter(|&name| name != Name::NONE),
            _ => None,
        };
        let names =
            events.iter().filter_map(named).map(|name| reader.names().text(name).into_owned());
        let bad = reader.rejects().1.iter().map(|reject| reject.line).collect();
        (events.clone(), names.collect(), bad)
    }

    #[test]
    fn times_beyond_a_day_are_no_times() {
        for word in ["24:00:00.000", "9223372036854775807:13:38.250", "1:18446744073709551615:1.0"]
        {
            assert_eq!(time_of_day(word.as_bytes()), None, "{word}");
        }
        assert_eq!(time_of_day(b"01:02:03.5"), Some(3_723_500_000_000));
    }

    #[test]
    fn lines_of_every_layout_have_their_time_and_process() {
        let day = days(YEAR, 3, 17) * DAY_NS + (16 * 60 + 13) * 60_000_000_000 + 38_811_000_000;
        for line in [
            "03-17 16:13:38.811  1702  2395 D Tag: m",
            "03-17 16:13:38.811000  1702  2395 D Tag     : m",
            "1972-03-17 16:13:38.811 +0100  1702  2395 D Tag: m: n",
            "03-17 16:13:38.811  root  1702  2395 D Tag:",
            "69696818.811  1702  2395 D Tag: ",
        ] {
            let (events, _, bad) = read(line);
            assert!(bad.is_empty(), "{line}");
            let [Event { time_ns, tid: 2395, kind, .. }] = events[..] else { panic!("{line}") };
            assert!(matches!(kind, Kind::Log { pid: 1702, priority: 3, .. }), "{line}");
            assert_eq!(time_ns, day, "{line}");
        }
        for line in ["03-17 x", "13-01 00:00:00.0 1 1 I a: b", "03-17 25:00:00.0 1 1 I a: b", "a"] {
            assert_eq!(read(line).2, [1], "{line}");
        }
        assert_eq!(days(1970, 1, 1), 0);
        assert_eq!(days(2000, 3, 1) - days(2000, 2, 28), 2);
    }

    #[test]
    fn a_log_over_new_year_goes_on() {
        let text = "12-31 23:59:59.000 1 1 I a: b\n01-01 00:00:01.000 1 1 I a: b\n";
        let (events, ..) = read(text);
        assert_eq!(events[1].time_ns - events[0].time_ns, 2_000_000_000);
    }

    #[test]
    fn processes_start_die_and_are_launched() {
        let text = "--------- beginning of events
03-17 16:13:38.000  1702  1765 I am_proc_start: [0,5,10012,com.a:remote,activity,x]
03-17 16:13:39.000  1702  1765 I ActivityManager: Start proc 6:com.b/u0a111 for service x/y
03-17 16:13:40.000  1702  2644 I ActivityManager: Process com.b (pid 6) has died: cch CRE
03-17 16:13:41.000  1702  2644 I am_proc_died: [0,5,com.a:remote,900,17]
03-17 16:13:45.000  1702  2644 I ActivityTaskManager: Displayed com.c/.Main: +1s500ms (total +2s)
";
        let (events, names, bad) = read(text);
        assert!(bad.is_empty());
        let dead: Vec<_> = events
            .iter()
            .filter_map(|event| match event.kind {
                Kind::Exit { tid, .. } => Some(tid),
                _ => None,
            })
            .collect();
        assert_eq!(dead, [6, 5]);
        for name in ["com.a:remote", "com.b", "launching: com.c", "0,5,com.a:remote,900,17"] {
            assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
        }
        let times: Vec<_> = events
            .iter()
            .filter(|event| matches!(event.kind, Kind::AsyncBegin { .. } | Kind::AsyncEnd { .. }))
            .map(|event| event.time_ns)
            .collect();
        assert_eq!(times[1] - times[0], 1_500_000_000);
    }

    #[test]
    fn lines_of_lmkd_keep_their_text_under_either_tag() {
        let kill = "Kill 'com.a' (42), uid 10001, oom_score_adj 905";
        for tag in ["lowmemorykiller", "lmkd"] {
            let (_, names, _) = read(&format!("03-17 16:13:38.000  300  300 I {tag}: {kill}"));
            assert_eq!(names, [kill]);
        }
    }

    #[test]
    fn durations_are_read() {
        assert_eq!(duration(b"1m2s345ms"), Some(62_345_000_000));
        assert_eq!(duration(b"350ms"), Some(350_000_000));
        for text in [&b"1"[..], b"1x", b"s", b"99999999999999999d"] {
            assert_eq!(duration(text), None);
        }
    }
}
