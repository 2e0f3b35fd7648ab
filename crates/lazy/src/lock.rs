//! A mutex that spins for a moment and then sleeps, and that returns none instead of waiting when the
//! calling thread already holds it: a signal handler may call `mmap` at any point.
//!
//! The word is 0 when free, else the holder's number shifted by one, with bit 0 set if a thread
//! sleeps. If two threads have equal numbers by accident, each is refused as if its own handler had
//! called, which costs it the pool for that call.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Spins before sleeping; the lock is usually released within this.
const SPINS: u32 = 60;
const SLEEPERS: u32 = 1;
/// Spins of a thread that does not sleep; as long as the pool is usually held.
const BRIEF_SPINS: u32 = 200;

pub struct Lock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, of which there is one at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Lock<T> {
    pub const fn new(value: T) -> Lock<T> {
        Lock { word: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock; none if this thread holds it.
    pub fn lock(&self) -> Option<Guard<'_, T>> {
        let mine = holder();
        if self.word.compare_exchange(0, mine, Acquire, Relaxed).is_ok() {
            return Some(Guard { lock: self });
        }
        self.wait(mine)
    }

    /// Waits for the lock for some microseconds; none if it is not free by then.
    pub fn lock_briefly(&self) -> Option<Guard<'_, T>> {
        let mine = holder();
        for _ in 0..BRIEF_SPINS {
            let word = self.word.load(Relaxed);
            if word & !SLEEPERS == mine {
                return None;
            }
            if word == 0 && self.word.compare_exchange(0, mine, Acquire, Relaxed).is_ok() {
                return Some(Guard { lock: self });
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Whether the thread with this id from libc holds the lock.
    pub fn is_held_by(&self, thread: usize) -> bool {
        self.word.load(Relaxed) & !SLEEPERS == number_of(thread)
    }

    /// The value, for the thread that took the lock before `fork`.
    ///
    /// # Safety
    /// This thread holds the lock by a guard that was forgotten, and has no other reference to the value.
    pub unsafe fn locked(&self) -> &T {
        // SAFETY: upheld by the caller.
        unsafe { &*self.value.get() }
    }

    /// Releases the lock that this thread took before `fork`, in either process.
    ///
    /// # Safety
    /// This thread holds the lock by a guard that was forgotten.
    pub unsafe fn unlock_forgotten(&self) {
        drop(Guard { lock: self });
    }

    #[cold]
    fn wait(&self, mine: u32) -> Option<Guard<'_, T>> {
        let mut wanted = mine;
        let mut spins = 0;
        loop {
            let word = self.word.load(Relaxed);
            if word & !SLEEPERS == mine {
                return None;
            }
            if word == 0 {
                // A thread that slept cannot know whether others still sleep.
                if self.word.compare_exchange(0, wanted, Acquire, Relaxed).is_ok() {
                    return Some(Guard { lock: self });
                }
            } else if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
            } else {
                wanted = mine | SLEEPERS;
                let slept = word | SLEEPERS;
                if word == slept
                    || self.word.compare_exchange(word, slept, Relaxed, Relaxed).is_ok()
                {
                    sleep(&self.word, slept, None);
                }
            }
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock, and no other guard exists.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        if self.lock.word.swap(0, Release) & SLEEPERS != 0 {
            wake(&self.lock.word);
        }
    }
}

/// Sleeps while `word` is `value`, for at most `milliseconds` if given.
pub fn sleep(word: &AtomicU32, value: u32, milliseconds: Option<i64>) {
    let time = milliseconds.map(|milliseconds| libc::timespec {
        tv_sec: milliseconds / 1000,
        tv_nsec: milliseconds % 1000 * 1_000_000,
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word and the time outlive the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), FUTEX_WAIT, value, time) };
}

/// Wakes one thread that sleeps at `word`.
pub fn wake(word: &AtomicU32) {
    // SAFETY: the kernel uses only the word's address.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), FUTEX_WAKE, 1) };
}

const FUTEX_WAIT: libc::c_int = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
const FUTEX_WAKE: libc::c_int = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;

/// A number of this thread that is not 0, without its lowest bit. Derived from the address of libc's
/// record of the thread, which is a multiple of 64 and, unlike a thread-local, exists from the start.
fn holder() -> u32 {
    // SAFETY: always succeeds.
    number_of(unsafe { libc::pthread_self() } as usize)
}

fn number_of(thread: usize) -> u32 {
    ((thread >> 6) as u32) << 1 | 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_returns_none_to_the_thread_that_holds_it() {
        let lock = Lock::new(0);
        let guard = lock.lock();
        assert!(guard.is_some() && lock.lock().is_none());
        drop(guard);
        assert!(lock.lock().is_some());
    }

    #[test]
    fn a_lock_that_stays_held_is_not_waited_for() {
        let lock = Lock::new(0);
        let guard = lock.lock();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| lock.lock_briefly().is_some());
            assert!(!other.join().unwrap());
        });
        drop(guard);
        assert!(lock.lock_briefly().is_some());
    }

    #[test]
    fn one_thread_at_a_time_holds_it() {
        let lock = Lock::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        *lock.lock().unwrap() += 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock().unwrap(), 80_000);
    }
}
