//! User settings, from environment variables and from a file with the same names; docs/lazy-unmapping.md
//! lists them. The environment takes precedence.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};

use policy::retention::{HELD_BYTES_MAX, HOT_BYTES_MAX, Rules, hot_bytes_for, lazy_bytes_for};
use types::{Bytes, Nanos};

use crate::limits::Reach;
use crate::text::{Text, lines, read};
use crate::{huge_pages, system, vault};

/// Prefix of the names in the environment; in a file they have no prefix and are in lower case.
const PREFIX: &[u8] = b"PAGEWISE_LAZY_";
const FILE: &[u8] = b"/etc/pagewise/lazy.conf";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Fast,
    Guarded,
    Thp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    None,
    Browser,
    Faithful,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knobs {
    pub is_on: bool,
    pub is_verbose: bool,
    pub has_helper: bool,
    /// Whether fresh pages are mapped before a first touch that is foreseen.
    pub has_foresight: bool,
    pub mode: Mode,
    pub profile: Profile,
    /// Smallest request that is served, in bytes.
    pub block_min: usize,
    pub block_max: usize,
    /// Memory zeroed by hand for one request; the rest is discarded instead.
    pub zero_max: usize,
    /// Limit of hot memory, even if the available memory allows more.
    pub hot_max: Bytes,
    pub lazy_after: Nanos,
    pub discard_after: Nanos,
}

const DEFAULTS: Knobs = Knobs {
    is_on: true,
    is_verbose: false,
    has_helper: true,
    has_foresight: true,
    mode: Mode::Fast,
    profile: Profile::None,
    block_min: 64 << 10,
    block_max: 64 << 20,
    zero_max: 8 << 20,
    hot_max: HOT_BYTES_MAX,
    lazy_after: Nanos(1_000_000_000),
    discard_after: Nanos(5_000_000_000),
};

/// Freed spans below this size stay accessible in mode `guarded`: closing each would split the process's
/// mappings into more than the kernel allows.
const GUARDED_MIN: usize = 256 << 10;
/// Hot and lazily freed memory together at most in mode `guarded` where many threads free at once: the
/// memory that they are closing and opening adds to it.
pub const CROWDED_HELD_MAX: Bytes = Bytes(24 << 20);

impl Knobs {
    /// The rules of retention for this available memory.
    pub fn rules(&self, reach: Reach, has_huge_pages: bool) -> Rules {
        let lazy_bytes = reach.left.map(lazy_bytes_for);
        if self.profile == Profile::Faithful {
            return Rules { lazy_bytes, ..Rules::paper() };
        }
        let held_max = if vault::is_crowded() { CROWDED_HELD_MAX } else { HELD_BYTES_MAX };
        let hot_bytes = reach.whole.map_or(self.hot_max, hot_bytes_for).min(self.hot_max);
        let rules = Rules::decay(hot_bytes.min(held_max));
        Rules {
            held_bytes: Some(held_max),
            // Freeing a part of a huge page splits it first.
            part_pages: rules.part_pages.filter(|_| !has_huge_pages),
            lazy_bytes,
            lazy_after: Some(self.lazy_after),
            discard_after: Some(self.discard_after),
            ..rules
        }
    }

    /// Resets both sizes if the smallest request exceeds the largest, which would leave nothing to serve.
    fn mend_sizes(&mut self) {
        if self.block_min > self.block_max {
            say(&[b"PAGEWISE_LAZY_BLOCK_MIN is above PAGEWISE_LAZY_BLOCK_MAX; both ignored"]);
            (self.block_min, self.block_max) = (DEFAULTS.block_min, DEFAULTS.block_max);
        }
    }

    /// Whether freed memory of `bytes` bytes becomes inaccessible.
    pub fn closes(&self, bytes: usize) -> bool {
        self.profile == Profile::Faithful || (self.mode == Mode::Guarded && bytes >= GUARDED_MIN)
    }

    /// Whether any freed memory becomes inaccessible, so that chunks have a vault.
    pub fn has_vault(&self) -> bool {
        self.closes(usize::MAX)
    }

    /// Whether fresh pages are mapped ahead where that is foreseen. A huge page takes a single fault anyway.
    pub fn foresees(&self) -> bool {
        self.has_foresight && !huge_pages::are_used() && !self.populates()
    }

    /// Whether memory that is not resident is always mapped before its first touch.
    pub fn populates(&self) -> bool {
        self.profile == Profile::Faithful
    }
}

/// Written once, before `is_loaded`, and only read from then on. `OnceLock` has a path that panics,
/// which would pull in the unwinder.
struct Loaded {
    knobs: UnsafeCell<Knobs>,
    is_loaded: AtomicBool,
}

// SAFETY: no thread writes the knobs once `is_loaded` is set, and none reads them before.
unsafe impl Sync for Loaded {}

static LOADED: Loaded =
    Loaded { knobs: UnsafeCell::new(DEFAULTS), is_loaded: AtomicBool::new(false) };

/// The settings as of the program's start.
#[inline]
pub fn knobs() -> &'static Knobs {
    if LOADED.is_loaded.load(Acquire) {
        // SAFETY: they are loaded.
        unsafe { &*LOADED.knobs.get() }
    } else {
        &DEFAULTS
    }
}

/// Reads file and environment. Reports invalid settings on standard error and ignores them.
///
/// # Safety
/// The caller is the library's constructor, which runs once and in one thread.
pub unsafe fn load() {
    let mut knobs = DEFAULTS;
    read_file(&mut knobs);
    each_variable(|name, value| set_or_say(&mut knobs, &[PREFIX], name, value));
    knobs.mend_sizes();
    // SAFETY: the one call, which the caller ensures, and no thread reads yet.
    unsafe { *LOADED.knobs.get() = knobs };
    LOADED.is_loaded.store(true, Release);
}

fn read_file(knobs: &mut Knobs) {
    let mut room = [0; 4096];
    let other = variable(b"PAGEWISE_LAZY_FILE");
    let path = Text::of(&[other.unwrap_or(FILE)]);
    let Some(text) = read(&path, &mut room) else {
        if other.is_some() {
            say(&[path.bytes(), b": cannot be read"]);
        }
        return;
    };
    for line in lines(text) {
        let line = line.split(|&byte| byte == b'#').next().unwrap_or_default().trim_ascii();
        if line.is_empty() {
            continue;
        }
        let mut parts = line.splitn(2, |&byte| byte == b'=');
        let name = parts.next().unwrap_or_default().trim_ascii();
        let value = parts.next().unwrap_or_default().trim_ascii();
        set_or_say(knobs, &[path.bytes(), b": "], name, value);
    }
}

/// Sets one knob or reports the error. `place` is the text to print before the name.
fn set_or_say(knobs: &mut Knobs, place: &[&[u8]], name: &[u8], value: &[u8]) {
    if let Err(expected) = set(knobs, name, value) {
        let mut text = Text::of(place);
        for part in [name, b"=", value, b": expected ", expected.as_bytes(), b"; ignored"] {
            text.push(part);
        }
        say(&[text.bytes()]);
    }
}

/// Sets one knob, or returns what it expects.
fn set(knobs: &mut Knobs, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
    let mut lower = [0; 32];
    let name_lower = lower.get_mut(..name.len()).ok_or("a name of docs/lazy-unmapping.md")?;
    name_lower.copy_from_slice(name);
    name_lower.make_ascii_lowercase();
    match &*name_lower {
        b"switch" => knobs.is_on = switch(value)?,
        b"verbose" => knobs.is_verbose = switch(value)?,
        b"helper" => knobs.has_helper = switch(value)?,
        b"foresight" => knobs.has_foresight = switch(value)?,
        b"mode" => {
            knobs.mode = match value {
                b"fast" => Mode::Fast,
                b"guarded" => Mode::Guarded,
                b"thp" => Mode::Thp,
                _ => return Err("fast, guarded or thp"),
            }
        }
        b"profile" => {
            knobs.profile = match value {
                b"none" => Profile::None,
                b"browser" => Profile::Browser,
                b"faithful" => Profile::Faithful,
                _ => return Err("none, browser or faithful"),
            }
        }
        // Below a few pages the pool would cost more than it saves.
        b"block_min" => knobs.block_min = size(value)?.max(16 << 10) as usize,
        b"block_max" => knobs.block_max = size(value)?.min(512 << 20) as usize,
        b"zero_max" => knobs.zero_max = size(value)? as usize,
        b"hot_max" => knobs.hot_max = Bytes(size(value)?),
        b"lazy_after" => knobs.lazy_after = time(value)?,
        b"discard_after" => knobs.discard_after = time(value)?,
        b"file" => {}
        _ => return Err("a name of docs/lazy-unmapping.md"),
    }
    Ok(())
}

fn switch(value: &[u8]) -> Result<bool, &'static str> {
    match value {
        b"on" | b"1" => Ok(true),
        b"off" | b"0" => Ok(false),
        _ => Err("on or off"),
    }
}

fn size(value: &[u8]) -> Result<u64, &'static str> {
    let expected = "a size such as 32MiB";
    let (number, unit) = number_and_unit(value).ok_or(expected)?;
    let factor: u64 = match unit {
        b"" | b"B" => 1,
        b"KiB" => 1 << 10,
        b"MiB" => 1 << 20,
        b"GiB" => 1 << 30,
        _ => return Err(expected),
    };
    number.checked_mul(factor).ok_or(expected)
}

fn time(value: &[u8]) -> Result<Nanos, &'static str> {
    let expected = "a time such as 500ms or 5s";
    let (number, unit) = number_and_unit(value).ok_or(expected)?;
    let factor: i64 = match unit {
        b"ms" => 1_000_000,
        b"s" => 1_000_000_000,
        _ => return Err(expected),
    };
    let number = i64::try_from(number).map_err(|_| expected)?;
    number.checked_mul(factor).map(Nanos).ok_or(expected)
}

fn number_and_unit(value: &[u8]) -> Option<(u64, &[u8])> {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = value.split_at_checked(digits)?;
    Some((std::str::from_utf8(number).ok()?.parse().ok()?, unit.trim_ascii()))
}

/// The value of an environment variable.
pub fn variable(name: &[u8]) -> Option<&'static [u8]> {
    let mut found = None;
    each_entry(|key, value| {
        if key == name && found.is_none() {
            found = Some(value);
        }
    });
    found
}

fn each_variable(mut each: impl FnMut(&[u8], &[u8])) {
    each_entry(|key, value| {
        if let Some(name) = key.strip_prefix(PREFIX) {
            each(name, value);
        }
    });
}

/// Calls `each` for every `key=value` of the environment at the program's start.
fn each_entry(mut each: impl FnMut(&[u8], &'static [u8])) {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: libc's variable; no thread changes it while the constructor runs.
    let mut place = unsafe { environ };
    // SAFETY: a null pointer ends the list, and a null list is an empty one.
    while let Some(entry) = unsafe { place.as_ref() }.filter(|entry| !entry.is_null()) {
        // SAFETY: entries are C strings that live as long as the program.
        let entry = unsafe { CStr::from_ptr(*entry) }.to_bytes();
        if let Some(split) = entry.iter().position(|&byte| byte == b'=') {
            each(
                entry.get(..split).unwrap_or_default(),
                entry.get(split + 1..).unwrap_or_default(),
            );
        }
        // SAFETY: the entry was not the last.
        place = unsafe { place.add(1) };
    }
}

/// Writes a line to standard error.
pub fn say(parts: &[&[u8]]) {
    let mut text = Text::of(&[b"pagewise-lazy: "]);
    parts.iter().for_each(|part| text.push(part));
    text.push(b"\n");
    system::say(text.bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Result<Knobs, &'static str> {
        let mut knobs = DEFAULTS;
        set(&mut knobs, name.as_bytes(), value.as_bytes())?;
        Ok(knobs)
    }

    #[test]
    fn knobs_take_their_units() {
        assert_eq!(with("HOT_MAX", "12MiB").unwrap().hot_max, Bytes(12 << 20));
        assert_eq!(with("zero_max", "0").unwrap().zero_max, 0);
        assert_eq!(with("lazy_after", "250ms").unwrap().lazy_after, Nanos(250_000_000));
        assert_eq!(with("mode", "guarded").unwrap().mode, Mode::Guarded);
        assert!(!with("switch", "off").unwrap().is_on);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (name, value) in [
            ("hot_max", "many"),
            ("hot_max", "-1MiB"),
            ("hot_max", "99999999999GiB"),
            ("lazy_after", "5"),
            ("mode", "quick"),
            ("nothing", "1"),
            ("a_name_that_is_longer_than_any_of_ours", "1"),
        ] {
            assert!(with(name, value).is_err(), "{name}={value}");
        }
    }

    #[test]
    fn memory_of_some_size_is_closed() {
        assert!(!DEFAULTS.closes(1 << 30));
        let guarded = Knobs { mode: Mode::Guarded, ..DEFAULTS };
        assert!(guarded.closes(GUARDED_MIN) && !guarded.closes(GUARDED_MIN - 1));
        assert!(Knobs { profile: Profile::Faithful, ..DEFAULTS }.closes(1));
    }
}
