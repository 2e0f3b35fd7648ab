//! The kernel's reports that memory is short: on the whole machine, and in the memory cgroup whose
//! limit binds the process.
//!
//! The files belong to the helper: its thread leaves the program's file descriptor table, so that the
//! program sees none of their numbers, and closes none.

use libc::{c_int, c_short, pollfd};

use crate::limits::{Group, each_group};
use crate::text::Text;
use crate::waking::{is_over, rest};

/// 20 ms of waiting within 2 s, the shortest window for an unprivileged process.
const TRIGGER: &[u8] = b"some 20000 2000000\0";
/// Level for a group of version 1: half of the pages that the kernel scans cannot be taken.
const LEVEL: &[u8] = b"medium\0";

/// Delay for a thread that ends the helper: no other thread can write to a file of the helper's.
const SLICE_MS: i64 = 100;

/// A file that becomes ready with a report; a negative number means none.
#[derive(Clone, Copy)]
struct Report {
    file: c_int,
    event: c_short,
}

const NONE: Report = Report { file: -1, event: 0 };

/// The files that report.
pub struct Reports {
    machine: Report,
    group: Report,
}

impl Reports {
    /// Requests reports, in the thread that waits for them and has no other file.
    pub fn ask() -> Reports {
        // If the table is still the program's, a number may be closed and be another file by the
        // next report. The event identifies a trigger; a counter would have to be read.
        let is_own = leave_descriptors();
        let machine = trigger(&Text::of(&[b"/proc/pressure/memory"]));
        Reports { machine, group: if is_own { of_group() } else { NONE } }
    }

    /// Waits for a report; false if none came in `milliseconds`, or the thread should end.
    pub fn come_within(&self, milliseconds: i64) -> bool {
        let mut left = milliseconds;
        while left > 0 && !is_over() {
            let slice = left.min(SLICE_MS);
            if self.come_within_slice(slice) {
                return true;
            }
            left -= slice;
        }
        false
    }

    fn come_within_slice(&self, milliseconds: i64) -> bool {
        let mut files = [self.machine, self.group].map(|report| pollfd {
            fd: report.file,
            events: report.event,
            revents: 0,
        });
        // SAFETY: both structures exist; poll ignores negative files.
        let count = unsafe { libc::poll(files.as_mut_ptr(), 2, milliseconds as c_int) };
        let has_come = files.iter().any(|file| file.revents & file.events != 0);
        if count > 0 && !has_come {
            // A group that was removed, or a file that is no longer ours, answers at once.
            rest(milliseconds);
        }
        if self.group.event == libc::POLLIN && has_come {
            let mut reports = [0_u8; 8];
            // SAFETY: the kernel writes eight bytes, or none where no report has come.
            unsafe { libc::read(self.group.file, reports.as_mut_ptr().cast(), reports.len()) };
        }
        has_come
    }
}

/// Gives this thread a file descriptor table of its own, empty; false if the kernel does not
/// support it (before 5.9).
fn leave_descriptors() -> bool {
    let (first, last) = (0, libc::c_uint::MAX);
    // SAFETY: this thread uses no descriptor.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_UNSHARE) == 0 }
}

/// Reports of the group with the lowest limit, the innermost among equals.
fn of_group() -> Report {
    let (mut least, mut report) = (None, None);
    each_group(&mut |group| least = least.into_iter().chain(group.limit()).min());
    each_group(&mut |group| {
        if least.is_some() && report.is_none() && group.limit() == least {
            report = Some(match group.files.control {
                Some(control) => counter(group, control),
                None => trigger(&group.file(group.files.pressure)),
            });
        }
    });
    report.unwrap_or(NONE)
}

/// A pressure stall trigger, for the machine or for a group of version 2.
fn trigger(path: &Text) -> Report {
    let file = open(path, libc::O_RDWR | libc::O_NONBLOCK);
    if !write(file, TRIGGER) {
        close(file);
        return NONE;
    }
    Report { file, event: libc::POLLPRI }
}

/// A counter for a group of version 1, which adds to an eventfd.
fn counter(group: &Group, control: &[u8]) -> Report {
    // SAFETY: makes a descriptor.
    let events = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    let level = open(&group.file(group.files.pressure), libc::O_RDONLY);
    let control = open(&group.file(control), libc::O_WRONLY);
    let mut words = Text::of(&[]);
    for file in [events, level] {
        words.push_number(u64::try_from(file).unwrap_or(u64::MAX));
        words.push(b" ");
    }
    words.push(LEVEL);
    let is_asked = write(control, words.bytes());
    close(level);
    close(control);
    if !is_asked {
        close(events);
        return NONE;
    }
    Report { file: events, event: libc::POLLIN }
}

/// Opens a file. Returns a descriptor, or a negative number.
fn open(path: &Text, flags: c_int) -> c_int {
    // SAFETY: the path is a C string.
    path.path().map_or(-1, |path| unsafe { libc::open(path, flags | libc::O_CLOEXEC) })
}

/// Whether the whole text was written.
fn write(file: c_int, text: &[u8]) -> bool {
    // SAFETY: the kernel reads what the slice holds.
    let count = unsafe { libc::write(file, text.as_ptr().cast(), text.len()) };
    usize::try_from(count) == Ok(text.len())
}

fn close(file: c_int) {
    if file >= 0 {
        // SAFETY: the descriptor was opened here and is used no more.
        unsafe { libc::close(file) };
    }
}
