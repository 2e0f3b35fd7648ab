//! Kills in the lines of Android's log: of lmkd (`Kill 'NAME' (PID), ...`, and `killinfo` in the event log) and of
//! ActivityManager (`Killing PID:NAME/... (adj N): REASON`, and `am_kill`).

/// A kill as a line of the log states it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoggedKill {
    /// What the line is, as results name it.
    pub source: &'static str,
    /// Process that is killed.
    pub pid: u32,
    /// Name of the process; empty if the line has none.
    pub name: Vec<u8>,
    /// oom_score_adj of the process.
    pub adj: Option<i32>,
    /// The reason; empty if the line has none.
    pub reason: Vec<u8>,
    /// Number of lmkd's reason.
    pub reason_number: Option<i32>,
    /// Free memory.
    pub free_bytes: Option<u64>,
    /// Resident memory of the process.
    pub resident_bytes: Option<u64>,
    /// Swapped memory of the process.
    pub swapped_bytes: Option<u64>,
}

/// Whether programs report kills under this tag of the log. A log with any line of such a tag would show kills.
pub fn is_of_killers(tag: &[u8]) -> bool {
    matches!(tag, b"ActivityManager" | b"lmkd" | b"lowmemorykiller" | b"killinfo")
        || tag.starts_with(b"am_")
}

/// The kill of a line; `None` if the line reports none.
pub fn logged_kill(tag: &[u8], message: &[u8]) -> Option<LoggedKill> {
    match tag {
        b"lowmemorykiller" | b"lmkd" => of_lmkd(message),
        b"killinfo" => of_killinfo(message),
        b"am_kill" => of_am_kill(message),
        b"ActivityManager" => of_activity_manager(message),
        _ => None,
    }
}

/// `Kill 'NAME' (PID), uid UID, oom_score_adj ADJ to free SIZEkB rss, SIZEkB swap; reason: REASON`; versions
/// before Android 11 write `Killing`, `oom_adj` or `adj`, and no reason.
fn of_lmkd(message: &[u8]) -> Option<LoggedKill> {
    let rest = message.strip_prefix(b"Killing '").or_else(|| message.strip_prefix(b"Kill '"))?;
    // A name may have quotes of its own.
    let end = memmem(rest, b"' (")?;
    let (name, rest) = (&rest[..end], &rest[end + 3..]);
    let pid = number(rest)?;
    let adj = ["oom_score_adj ", "oom_adj ", "adj "]
        .iter()
        .find_map(|word| after(rest, word.as_bytes()))
        .and_then(number);
    let reason = after(rest, b"reason: ").unwrap_or_default();
    Some(LoggedKill {
        source: "lmkd-log",
        pid: u32::try_from(pid).ok()?,
        name: name.to_vec(),
        adj: adj.and_then(|adj| i32::try_from(adj).ok()),
        reason: reason.to_vec(),
        resident_bytes: after(rest, b" to free ").and_then(kib),
        swapped_bytes: after(rest, b"kB rss, ").and_then(kib),
        ..LoggedKill::default()
    })
}

/// Pid, uid, oom_score_adj, the lowest adj that may die, size in KiB, reason, free memory in KiB, and more
/// (system/memory/lmkd/event.logtags, from Android 11).
fn of_killinfo(message: &[u8]) -> Option<LoggedKill> {
    let mut fields = message.split(|&byte| byte == b',').map(number);
    let mut next = || fields.next().flatten();
    let pid = u32::try_from(next()?).ok()?;
    let (_uid, adj, _least, size) = (next()?, next()?, next()?, next()?);
    let reason = next().and_then(|reason| i32::try_from(reason).ok());
    let free = next().and_then(|free| u64::try_from(free).ok());
    Some(LoggedKill {
        source: "killinfo",
        pid,
        adj: i32::try_from(adj).ok(),
        reason_number: reason,
        free_bytes: free.map(|free| free.saturating_mul(1024)),
        resident_bytes: u64::try_from(size).ok().map(|size| size.saturating_mul(1024)),
        ..LoggedKill::default()
    })
}

/// User, pid, name, adj, reason, and from Android 13 the resident size.
fn of_am_kill(message: &[u8]) -> Option<LoggedKill> {
    let mut fields = message.splitn(5, |&byte| byte == b',');
    let mut next = || fields.next();
    next()?;
    let pid = u32::try_from(number(next()?)?).ok()?;
    let (name, adj) = (next()?, number(next()?)?);
    Some(LoggedKill {
        source: "am_kill",
        pid,
        name: name.to_vec(),
        adj: i32::try_from(adj).ok(),
        reason: next().unwrap_or_default().to_vec(),
        ..LoggedKill::default()
    })
}

/// `Killing PID:NAME/USER (adj ADJ): REASON`.
fn of_activity_manager(message: &[u8]) -> Option<LoggedKill> {
    let rest = message.strip_prefix(b"Killing ")?;
    let colon = memchr::memchr(b':', rest)?;
    let pid = u32::try_from(number(&rest[..colon])?).ok()?;
    let rest = &rest[colon + 1..];
    let end = memchr::memchr2(b'/', b' ', rest).unwrap_or(rest.len());
    let adj = after(rest, b"(adj ").and_then(number);
    let reason = after(rest, b"): ").unwrap_or_default();
    Some(LoggedKill {
        source: "activity-manager-log",
        pid,
        name: rest[..end].to_vec(),
        adj: adj.and_then(|adj| i32::try_from(adj).ok()),
        reason: reason.to_vec(),
        ..LoggedKill::default()
    })
}

/// The death of a process as ActivityManager notices it: `Process NAME (pid PID) has died[: STATE]`, and
/// am_proc_died with user, pid, name, adj and state. Without a mark of a kill, something else killed it, or it
/// ended by itself.
pub fn logged_death(tag: &[u8], message: &[u8]) -> Option<LoggedKill> {
    if tag == b"am_proc_died" {
        let mut fields = message.split(|&byte| byte == b',').skip(1);
        let mut next = || fields.next();
        return Some(LoggedKill {
            source: "am_proc_died",
            pid: u32::try_from(number(next()?)?).ok()?,
            name: next()?.to_vec(),
            adj: next().and_then(number).and_then(|adj| i32::try_from(adj).ok()),
            ..LoggedKill::default()
        });
    }
    let rest = message.strip_prefix(b"Process ").filter(|_| tag == b"ActivityManager")?;
    let end = memchr::memmem::rfind(rest, b") has died")?;
    let open = memchr::memmem::rfind(&rest[..end], b" (pid ")?;
    Some(LoggedKill {
        source: "died-log",
        pid: u32::try_from(number(&rest[open + 6..end])?).ok()?,
        name: rest[..open].to_vec(),
        ..LoggedKill::default()
    })
}

/// The process that crashed by itself, as the log has it: am_crash begins with its pid, and AndroidRuntime writes
/// `Process: NAME, PID: PID`.
pub fn logged_crash(tag: &[u8], message: &[u8]) -> Option<u32> {
    let pid = match tag {
        b"am_crash" => number(message)?,
        b"AndroidRuntime" if message.starts_with(b"Process: ") => {
            number(after(message, b", PID: ")?)?
        }
        _ => return None,
    };
    u32::try_from(pid).ok()
}

/// The number of KiB at the beginning of a text, in bytes.
fn kib(text: &[u8]) -> Option<u64> {
    Some(u64::try_from(number(text)?).ok()?.saturating_mul(1024))
}

/// The place of `word` in `text`.
fn memmem(text: &[u8], word: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, word)
}

/// The text after the first `word`.
fn after<'text>(text: &'text [u8], word: &[u8]) -> Option<&'text [u8]> {
    memmem(text, word).map(|place| &text[place + word.len()..])
}

/// The decimal number at the beginning of a text.
fn number(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii_start();
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let length = text.len() - digits.len() + count;
    std::str::from_utf8(&text[..length]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_versions_are_read() {
        let found = logged_kill(
            b"lowmemorykiller",
            b"Kill 'com.a' (4242), uid 10124, oom_score_adj 905 to free 51200kB rss, 100kB swap; \
              reason: low watermark is breached and swap is low",
        )
        .unwrap();
        assert_eq!((found.pid, &found.name[..], found.adj), (4242, &b"com.a"[..], Some(905)));
        assert_eq!(found.reason, b"low watermark is breached and swap is low");
        assert_eq!(
            (found.resident_bytes, found.swapped_bytes),
            (Some(51200 << 10), Some(100 << 10))
        );
        let old = logged_kill(b"lowmemorykiller", b"Killing 'com.b' (17), adj 906").unwrap();
        assert_eq!((old.pid, old.adj, old.reason.len()), (17, Some(906), 0));
        let event = logged_kill(b"killinfo", b"4242,10124,905,900,51200,8,2048,1,2").unwrap();
        assert_eq!((event.adj, event.reason_number), (Some(905), Some(8)));
        assert_eq!(event.free_bytes, Some(2048 << 10));
        let event = logged_kill(b"am_kill", b"0,77,com.c,900,empty, too many").unwrap();
        assert_eq!((event.pid, &event.reason[..]), (77, &b"empty, too many"[..]));
        let line = b"Killing 99:com.d:remote/u0a12 (adj 935): empty #17";
        let line = logged_kill(b"ActivityManager", line).unwrap();
        assert_eq!((line.pid, &line.name[..]), (99, &b"com.d:remote"[..]));
        assert_eq!((line.adj, &line.reason[..]), (Some(935), &b"empty #17"[..]));
    }

    #[test]
    fn deaths_and_crashes_are_read() {
        let line = b"Process com.a:remote (pid 12236) has died: cch CRE";
        let death = logged_death(b"ActivityManager", line).unwrap();
        assert_eq!((death.pid, &death.name[..]), (12236, &b"com.a:remote"[..]));
        let death = logged_death(b"am_proc_died", b"0,5,com.a,900,17").unwrap();
        assert_eq!((death.pid, &death.name[..], death.adj), (5, &b"com.a"[..], Some(900)));
        let odd = b"Process a (pid 1) has died (pid 7) has died";
        assert_eq!(logged_death(b"ActivityManager", odd).unwrap().pid, 7);
        for (tag, message) in [
            (&b"ActivityManager"[..], &b"Process a (pid x) has died"[..]),
            (b"ActivityManager", b"Process ) has died"),
            (b"am_proc_died", b"0"),
            (b"other", b"Process a (pid 1) has died"),
        ] {
            assert_eq!(logged_death(tag, message), None, "{message:?}");
        }
        assert_eq!(logged_crash(b"am_crash", b"4242,0,com.a,0,java.lang.Error"), Some(4242));
        assert_eq!(logged_crash(b"AndroidRuntime", b"Process: com.a, PID: 17"), Some(17));
        assert_eq!(logged_crash(b"AndroidRuntime", b"FATAL EXCEPTION: main"), None);
    }

    #[test]
    fn hostile_lines_are_no_kills() {
        for (tag, message) in [
            (&b"lowmemorykiller"[..], &b"Kill ') Z (' (x)"[..]),
            (b"lowmemorykiller", b"Kill '"),
            (b"killinfo", b"1,2,3"),
            (b"killinfo", b"-5,2,3,4,5,6"),
            (b"am_kill", b"0,99999999999999999999,a,1,b"),
            (b"ActivityManager", b"Killing :"),
            (b"other", b"Kill 'a' (1)"),
        ] {
            assert_eq!(logged_kill(tag, message), None, "{message:?}");
        }
        let odd = logged_kill(b"lmkd", b"Kill '') Z ('' (7), adj 1").unwrap();
        assert_eq!((odd.pid, &odd.name[..]), (7, &b"') Z ('"[..]));
    }
}
