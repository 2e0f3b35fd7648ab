//! The states of a thread in sched_switch, as a number and as letters.

use super::TaskState;

/// The state of `prev_state` as a number (include/trace/events/sched.h and include/linux/sched.h, Linux 4.14
/// and later; earlier kernels differ in the bits of ended and parked threads). Bits above the states mark a
/// thread that was preempted.
pub fn state_of_number(number: i64) -> TaskState {
    match number & 0xff {
        0 if number & !0xff != 0 => TaskState::Preempted,
        0 => TaskState::Runnable,
        // TASK_UNINTERRUPTIBLE with TASK_NOLOAD.
        2 if number & 0x400 != 0 => TaskState::Idle,
        state if state & 2 != 0 => TaskState::Uninterruptible,
        1 => TaskState::Sleeping,
        state if state & 0xc != 0 => TaskState::Stopped,
        state if state & 0x30 != 0 => TaskState::Ended,
        0x80 => TaskState::Idle,
        _ => TaskState::Other,
    }
}

/// The state of `prev_state` as letters: the first decides, `+` marks a thread that was preempted.
pub fn state_of_letters(letters: &[u8]) -> TaskState {
    let is_preempted = letters.contains(&b'+');
    match letters.first() {
        Some(b'R') if is_preempted => TaskState::Preempted,
        Some(b'R') => TaskState::Runnable,
        Some(b'S') => TaskState::Sleeping,
        Some(b'D') => TaskState::Uninterruptible,
        Some(b'I') => TaskState::Idle,
        Some(b'T' | b't') => TaskState::Stopped,
        Some(b'X' | b'x' | b'Z') => TaskState::Ended,
        _ => TaskState::Other,
    }
}
