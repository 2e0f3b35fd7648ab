//! `dumpsys meminfo` of Android, of all processes or of one, among the snapshots of [`procfs`](super::procfs).
//!
//! The layout is that of ActivityManagerService.java: sizes are in KiB, as `296,036K` since Android 7 and as `296036 kB`
//! before, and in the tables of a process without a unit.

use crate::lines::Expected;
use crate::system::{CounterSource, Kind, MemoryPart, Names};
use crate::text::{decimal, take_decimal, take_word};

const EXPECTED: Expected = Expected("sizes in KiB and a pid, as dumpsys meminfo prints them");
const KIB: u64 = 1024;
const MILLISECOND_NS: i64 = 1_000_000;

/// How a dump begins.
pub(super) const HEADER: &[u8] = b"Applications Memory Usage (";

/// The time of a line `Uptime: N Realtime: N`: milliseconds since boot, sleep included.
pub(super) fn time(line: &[u8]) -> Option<i64> {
    let (_, rest) = take_word(line.strip_prefix(b"Uptime:")?)?;
    let (milliseconds, _) = take_word(rest.trim_ascii_start().strip_prefix(b"Realtime:")?)?;
    i64::try_from(decimal(milliseconds)?).ok()?.checked_mul(MILLISECOND_NS)
}

/// Where a dump is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Section {
    /// In what is not read, such as memory by OOM adjustment, which has the processes once more.
    #[default]
    Other,
    /// In the processes by this size.
    ByProcess(MemoryPart),
    /// In the tables of the process with this pid.
    Of(u32),
}

impl Section {
    /// Reads a line of a dump. A line of an unknown kind pushes nothing.
    ///
    /// # Errors
    /// A line that begins like a known one but continues differently.
    pub(super) fn line(
        &mut self,
        line: &[u8],
        names: &mut Names,
        mut push: impl FnMut(Kind),
    ) -> Result<(), Expected> {
        if let Some(rest) = line.strip_prefix(b"** MEMINFO in pid ") {
            let (pid, name) = take_word(rest).ok_or(EXPECTED)?;
            let pid = decimal(pid).and_then(|pid| u32::try_from(pid).ok()).ok_or(EXPECTED)?;
            let name = name.trim_ascii().strip_prefix(b"[").ok_or(EXPECTED)?;
            let end = memchr::memrchr(b']', name).ok_or(EXPECTED)?;
            *self = Section::Of(pid);
            push(Kind::Process { pid, parent: 0, name: names.intern(&name[..end]), uid: None });
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix(b"Total RAM:") {
            *self = Section::Other;
            let total = take_kib(rest).ok_or(EXPECTED)?.0;
            push(counter(names, b"MemTotal", total));
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix(b"Free RAM:") {
            // What Android takes for free includes cached processes and files: the parts tell them apart.
            if let Some(free) = part_of(rest, b"free") {
                push(counter(names, b"MemFree", free));
            }
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix(b"ZRAM:") {
            let used = memchr::memmem::find(rest, b"used for ").map(|place| &rest[place + 9..]);
            let used = used.and_then(take_kib).ok_or(EXPECTED)?.0;
            let total = memchr::memchr(b'(', rest).and_then(|place| take_kib(&rest[place + 1..]));
            let total = total.ok_or(EXPECTED)?.0;
            push(counter(names, b"SwapTotal", total));
            push(counter(names, b"SwapFree", total.saturating_sub(used)));
            return Ok(());
        }
        if line.starts_with(b"Total ") && line.ends_with(b":") {
            *self = match line {
                b"Total RSS by process:" => Section::ByProcess(MemoryPart::Rss),
                b"Total PSS by process:" => Section::ByProcess(MemoryPart::Pss),
                _ => Section::Other,
            };
            return Ok(());
        }
        match *self {
            Section::Other => Ok(()),
            Section::ByProcess(part) => process(line, part, names, push).ok_or(EXPECTED),
            Section::Of(pid) => {
                let mut size = |part, bytes| push(Kind::ProcessMemory { pid, part, bytes });
                if let Some(rest) =
                    line.strip_prefix(b"TOTAL ").filter(|rest| !rest.contains(&b':'))
                {
                    size(MemoryPart::Pss, take_kib(rest).ok_or(EXPECTED)?.0);
                }
                for (label, part) in [
                    (&b"TOTAL RSS:"[..], MemoryPart::Rss),
                    (b"TOTAL SWAP PSS:", MemoryPart::Swap),
                    (b"TOTAL SWAP (KB):", MemoryPart::Swap),
                ] {
                    if let Some(place) = memchr::memmem::find(line, label) {
                        let rest = &line[place + label.len()..];
                        size(part, take_kib(rest).ok_or(EXPECTED)?.0);
                    }
                }
                Ok(())
            }
        }
    }
}

/// A row such as `296,036K: com.android.systemui (pid 2264 / activities)   (  12,345K in swap)`.
fn process(
    line: &[u8],
    part: MemoryPart,
    names: &mut Names,
    mut push: impl FnMut(Kind),
) -> Option<()> {
    let (bytes, rest) = take_kib(line)?;
    let rest = rest.strip_prefix(b":")?.trim_ascii_start();
    let place = memchr::memmem::rfind(rest, b" (pid ")?;
    let (pid, after) = take_decimal(&rest[place + b" (pid ".len()..])?;
    let pid = u32::try_from(pid).ok()?;
    push(Kind::Process { pid, parent: 0, name: names.intern(&rest[..place]), uid: None });
    push(Kind::ProcessMemory { pid, part, bytes });
    if let Some(bytes) = part_of(after, b"in swap") {
        push(Kind::ProcessMemory { pid, part: MemoryPart::Swap, bytes });
    }
    Some(())
}

fn counter(names: &mut Names, name: &[u8], value: u64) -> Kind {
    Kind::SystemCounter { source: CounterSource::Meminfo, name: names.intern(name), value }
}

/// The size with this label in a sum between parentheses: `( 541,234K cached pss + 1,036,544K free)`.
fn part_of(text: &[u8], label: &[u8]) -> Option<u64> {
    let open = memchr::memrchr(b'(', text)?;
    let inner = text[open + 1..].trim_ascii_end().strip_suffix(b")")?;
    let mut parts = inner.split(|&byte| byte == b'+');
    parts
        .find_map(|part| take_kib(part).filter(|(_, rest)| rest.trim_ascii() == label))
        .map(|(bytes, _)| bytes)
}

/// Bytes of a size in KiB, with commas between thousands, and what follows its unit.
fn take_kib(text: &[u8]) -> Option<(u64, &[u8])> {
    let text = text.trim_ascii_start();
    let is_of_number = |byte: &u8| byte.is_ascii_digit() || *byte == b',';
    let length = text.iter().position(|byte| !is_of_number(byte)).unwrap_or(text.len());
    let (digits, rest) = text.split_at(length);
    let mut kib = 0u64;
    for digit in digits.iter().filter(|byte| byte.is_ascii_digit()) {
        kib = kib.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    let is_number = text.first().is_some_and(u8::is_ascii_digit);
    let bytes = kib.checked_mul(KIB).filter(|&bytes| is_number && i64::try_from(bytes).is_ok())?;
    let rest = rest.strip_prefix(b"K").or_else(|| rest.strip_prefix(b" kB")).unwrap_or(rest);
    Some((bytes, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<String>, usize) {
        let (mut section, mut names) = (Section::default(), Names::default());
        let (mut kinds, mut bad) = (Vec::new(), 0);
        for line in text.lines() {
            let found = section.line(line.trim().as_bytes(), &mut names, |kind| kinds.push(kind));
            bad += usize::from(found.is_err());
        }
        let shown = kinds.iter().map(|kind| match *kind {
            Kind::Process { pid, name, .. } => format!("{pid} {}", names.text(name)),
            Kind::ProcessMemory { pid, part, bytes } => format!("{pid} {part:?} {}", bytes / KIB),
            Kind::SystemCounter { name, value, .. } => {
                format!("{} {}", names.text(name), value / KIB)
            }
            _ => String::new(),
        });
        (shown.collect(), bad)
    }

    #[test]
    fn a_dump_of_all_processes_has_their_sizes_once_and_the_memory() {
        let text = "Total RSS by process:
    396,036K: com.android.systemui (pid 2264)
Total RSS by OOM adjustment:
    396,036K: Persistent
        396,036K: com.android.systemui (pid 2264)
Total PSS by process:
    296,036K: com.android.systemui (pid 2264)   (   12,345K in swap)
     29108 kB: an app (of two words) (pid 17 / activities)
Total PSS by category:
    90,000K: Native
Total RAM: 7,655,232K (status normal)
 Free RAM: 3,923,456K (  541,234K cached pss + 2,345,678K cached kernel + 1,036,544K free)
 Used RAM: 3,000,000K
     ZRAM:    1,234K physical used for    12,345K in swap (4,194,300K total swap)
   Tuning: 256 (large 512), oom   322,560K";
        let expected = [
            "2264 com.android.systemui",
            "2264 Rss 396036",
            "2264 com.android.systemui",
            "2264 Pss 296036",
            "2264 Swap 12345",
            "17 an app (of two words)",
            "17 Pss 29108",
            "MemTotal 7655232",
            "MemFree 1036544",
            "SwapTotal 4194300",
            "SwapFree 4181955",
        ];
        assert_eq!(read(text), (expected.map(str::to_owned).to_vec(), 0));
    }

    #[test]
    fn a_dump_of_one_process_has_its_totals() {
        let text = "** MEMINFO in pid 20602 [com.example.lab] **
                   Pss  Private  Private  SwapPss      Rss
                 Total    Dirty    Clean    Dirty    Total
  Native Heap    80860    80824        4       25    82336
        TOTAL   337790   293788    18924      162   421296
 App Summary
             Unknown:                                   75752
           TOTAL PSS:   337790            TOTAL RSS:   421296       TOTAL SWAP PSS:      162
         MEMORY_USED:        7";
        let expected =
            ["20602 com.example.lab", "20602 Pss 337790", "20602 Rss 421296", "20602 Swap 162"];
        assert_eq!(read(text), (expected.map(str::to_owned).to_vec(), 0));
        let older = "** MEMINFO in pid 2841 [app] **
        TOTAL   186656   140324    29764        0    60954
               TOTAL:   186656      TOTAL SWAP (KB):        3";
        assert_eq!(read(older).0[1..], ["2841 Pss 186656", "2841 Swap 3"]);
    }

    #[test]
    fn lines_that_go_on_otherwise_are_bad_and_the_largest_numbers_are_no_panic() {
        for line in [
            "** MEMINFO in pid x [a] **",
            "** MEMINFO in pid 1 a **",
            "** MEMINFO in pid 99999999999 [a] **",
            "Total RAM: ?",
            "Total RAM: ,K",
            "Total RAM: 99999999999999999999K",
            "ZRAM: 1K physical",
            "Total PSS by process:\n1K com (pid 1)",
            "Total PSS by process:\n1K: com",
            "** MEMINFO in pid 1 [a] **\nTOTAL RSS: 18446744073709551615",
        ] {
            assert_eq!(read(line).1, 1, "{line}");
        }
        assert_eq!(time(b"Uptime: 104993 Realtime: 104980"), Some(104_980_000_000));
        for line in
            ["Uptime: 1", "Uptime: 1 Realtime: x", "Uptime: 1 Realtime: 18446744073709551615"]
        {
            assert_eq!(time(line.as_bytes()), None, "{line}");
        }
    }
}
