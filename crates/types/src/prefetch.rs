//! Memory asked for before it is needed, so that waits for scattered places overlap with work.
//! docs/decisions/0005-prefetch.md says what it gains.

/// Starts to bring `items[index]` into the cache. Any index is allowed; one outside is useless.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "the language has no safe word for a prefetch")]
#[inline(always)]
pub fn prefetch<T>(items: &[T], index: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing into the program and faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(items.as_ptr().wrapping_add(index).cast()) };
}

/// Nothing to ask for without a word for it in the language.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn prefetch<T>(_items: &[T], _index: usize) {}
