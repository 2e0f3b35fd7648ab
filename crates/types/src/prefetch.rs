//! Prefetch of memory before its use, so that waits for scattered places overlap with work.
//! docs/decisions/0005-prefetch.md gives the measured gain.

/// Starts to bring `items[index]` into the cache. An index out of bounds is allowed, and useless.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "the language has no safe prefetch")]
#[inline(always)]
pub fn prefetch<T>(items: &[T], index: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing into the program and faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(items.as_ptr().wrapping_add(index).cast()) };
}

/// Does nothing: stable Rust has no prefetch for this architecture.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn prefetch<T>(_items: &[T], _index: usize) {}
