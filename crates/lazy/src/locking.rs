//! The process's arena behind its lock, and the ways to wait for that; [`Arena`] says which call uses which.

use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use policy::retention::Rules;
use types::Bytes;

use crate::arena::{Arena, Owner};
use crate::deferred;
use crate::flag::take;
use crate::lock::{Guard, Lock};
use crate::waking::THREAD;

#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
static POOL: Lock<Arena> = Lock::new(Arena::new(Rules::decay(Bytes(0))));
/// Whether a thread makes system calls on the detached span.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
static IS_WORKING: AtomicBool = AtomicBool::new(false);

/// Waits for the lock and returns the arena; none if this thread holds the lock.
pub fn lock() -> Option<Guard<'static, Arena>> {
    POOL.lock().map(settled)
}

/// The arena, if the lock is free within microseconds.
pub fn lock_briefly() -> Option<Guard<'static, Arena>> {
    POOL.lock_briefly().map(settled)
}

#[inline(always)]
fn settled(mut arena: Guard<'static, Arena>) -> Guard<'static, Arena> {
    #[cfg(test)]
    TAKEN.set(TAKEN.get() + 1);
    deferred::settle(&mut arena);
    arena
}

#[cfg(test)]
thread_local!(static TAKEN: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });

/// How often this thread takes the lock in `call`.
#[cfg(test)]
pub fn count_taken(call: impl FnOnce()) -> u32 {
    let before = TAKEN.get();
    call();
    TAKEN.get() - before
}

/// The arena, if the lock is free within milliseconds, or as soon as the helper releases it.
pub fn lock_patiently() -> Option<Guard<'static, Arena>> {
    lock_when(|_| true)
}

/// The arena while no system call is under way on free memory, if the lock is free within milliseconds, or as
/// soon as the helper releases it. If there is none, no system call is under way either.
pub fn lock_at_rest() -> Option<Guard<'static, Arena>> {
    lock_when(|arena| !arena.is_working())
}

/// Waits longer for a thread that cannot be suspended: the helper, and one that makes system calls on free memory.
fn lock_when(is_ready: impl Fn(&Arena) -> bool) -> Option<Guard<'static, Arena>> {
    let (mut looks, mut refusals) = (0, 0);
    while looks < LOOKS_MAX && refusals < REFUSALS_MAX {
        match lock_briefly() {
            Some(arena) if is_ready(&arena) => return Some(arena),
            Some(arena) => drop(arena),
            None if IS_WORKING.load(Acquire) || is_held_by_helper() => {}
            None => refusals += 1,
        }
        looks += 1;
        std::thread::yield_now();
    }
    None
}

fn is_held_by_helper() -> bool {
    POOL.is_held_by(THREAD.load(Relaxed))
}

const LOOKS_MAX: u32 = 1_000_000;
const REFUSALS_MAX: u32 = 1000;

/// The locked arena: by `lock` for a block of `malloc`, by `lock_briefly` for a mapping.
pub fn lock_for(owner: Owner) -> Option<Guard<'static, Arena>> {
    match owner {
        Owner::Block => lock(),
        Owner::Map => lock_briefly(),
    }
}

/// Takes the lock for a fork; false if this thread holds it.
pub fn lock_for_fork() -> bool {
    lock().map(std::mem::forget).is_some()
}

/// The arena, for a fork.
///
/// # Safety
/// This thread took the lock by `lock_for_fork`, and has no other reference to the arena.
pub unsafe fn locked() -> &'static Arena {
    // SAFETY: upheld by the caller.
    unsafe { POOL.locked() }
}

/// Releases the lock after a fork, in either process.
///
/// # Safety
/// This thread took it by `lock_for_fork`.
pub unsafe fn unlock_after_fork() {
    // SAFETY: upheld by the caller.
    unsafe { POOL.unlock_forgotten() };
}

/// Says that system calls on the detached span begin, or that they are over.
pub fn note_work(is_under_way: bool) {
    IS_WORKING.store(is_under_way, Release);
}

/// For the child of a fork: the thread that worked is not in this process.
pub fn forget_work() {
    take(&IS_WORKING);
    deferred::forget();
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::waking::ABSENT;

    /// Whether another thread gets the arena that this one holds, for `held_max` or until the other thread gives up.
    fn is_waited_for(held_max: Duration) -> bool {
        let (ready, go) = channel();
        let held = lock().unwrap();
        std::thread::scope(|scope| {
            let other = scope.spawn(move || {
                ready.send(()).unwrap();
                lock_patiently().is_some()
            });
            go.recv().unwrap();
            let begin = Instant::now();
            while !other.is_finished() && begin.elapsed() < held_max {
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(held);
            other.join().unwrap()
        })
    }

    #[test]
    fn the_helper_is_waited_for_and_other_threads_are_not() {
        assert!(!is_waited_for(Duration::from_secs(60)));
        // SAFETY: always succeeds.
        THREAD.store(unsafe { libc::pthread_self() } as usize, Relaxed);
        let is_waited = is_waited_for(Duration::from_millis(100));
        THREAD.store(ABSENT, Relaxed);
        assert!(is_waited);
    }
}
