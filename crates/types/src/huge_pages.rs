//! Memory in huge pages, for tables with random access. Some MiB in 4 KiB pages need more translations
//! than the TLB holds. docs/decisions/0010-tables-in-huge-pages.md gives the measured gain.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

/// Size of a huge page on x86-64, and on arm64 with base pages of 4 KiB.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Asks the kernel to back `memory` with huge pages. Call it before the first write to `memory`. The
/// contents stay, and errors are ignored: a refusal costs only speed.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "a system call")]
pub fn advise_huge_pages<T>(memory: &mut [T]) {
    unsafe extern "C" {
        fn madvise(address: *mut u8, length: usize, advice: i32) -> i32;
    }
    const MADV_HUGEPAGE: i32 = 14;
    // The largest base page of any kernel, and a multiple of every smaller one.
    const PAGE_BYTES_MAX: usize = 64 << 10;
    let address = memory.as_mut_ptr().cast::<u8>();
    let skipped = address.align_offset(PAGE_BYTES_MAX);
    let length = size_of_val(memory).saturating_sub(skipped) / PAGE_BYTES_MAX * PAGE_BYTES_MAX;
    if length > 0 {
        // SAFETY: the range is page-aligned and lies inside the exclusively borrowed slice. The advice
        // changes only how its memory is mapped.
        unsafe { madvise(address.wrapping_add(skipped), length, MADV_HUGEPAGE) };
    }
}

/// Does nothing: this platform has no such system call.
#[cfg(not(target_os = "linux"))]
pub fn advise_huge_pages<T>(_memory: &mut [T]) {}

/// The bytes of a huge page, with its alignment.
#[repr(C, align(0x20_0000))]
struct HugePage([MaybeUninit<u8>; HUGE_PAGE_BYTES]);

/// An array that only grows. It lies in huge pages once it needs more than one, if the kernel grants
/// them.
///
/// It never writes to memory beyond its items. That memory takes only addresses, except for the rest of
/// the last huge page.
///
/// Invariant: `memory` begins with `length` initialized items.
pub struct HugeVec<T> {
    memory: Box<[MaybeUninit<HugePage>]>,
    length: usize,
    items: PhantomData<T>,
}

impl<T> Default for HugeVec<T> {
    fn default() -> HugeVec<T> {
        HugeVec { memory: Box::default(), length: 0, items: PhantomData }
    }
}

impl<T: Copy> HugeVec<T> {
    /// Grows the array to at least `length` items, filling the new ones with `item`.
    pub fn grow(&mut self, length: usize, item: T) {
        if length <= self.length {
            return;
        }
        if length > self.places().len() {
            *self = HugeVec::copied(self, length.max(2 * self.length));
        }
        let written = self.length;
        self.places()[written..length].fill(MaybeUninit::new(item));
        self.length = length;
    }

    /// A copy of `items` with room for `capacity` items.
    fn copied(items: &[T], capacity: usize) -> HugeVec<T> {
        let bytes = capacity.checked_mul(size_of::<T>()).expect("an array fits the address space");
        let mut memory = Box::new_uninit_slice(bytes.div_ceil(HUGE_PAGE_BYTES));
        if memory.len() > 1 {
            advise_huge_pages(&mut memory);
        }
        let mut copy = HugeVec { memory, length: 0, items: PhantomData };
        for (place, &item) in copy.places().iter_mut().zip(items) {
            place.write(item);
        }
        copy.length = items.len();
        copy
    }

    /// All places for items; the first `length` are initialized.
    #[allow(unsafe_code, reason = "one piece of memory under two types")]
    fn places(&mut self) -> &mut [MaybeUninit<T>] {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= HUGE_PAGE_BYTES) };
        let room = size_of_val(&*self.memory) / size_of::<T>();
        // SAFETY: `room` items fit into the exclusively borrowed memory, which is aligned for them, and
        // `MaybeUninit` accepts uninitialized bytes.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), room) }
    }
}

impl<T: Copy> Clone for HugeVec<T> {
    fn clone(&self) -> HugeVec<T> {
        HugeVec::copied(self, self.length)
    }
}

impl<T> Deref for HugeVec<T> {
    type Target = [T];

    #[inline(always)]
    #[allow(unsafe_code, reason = "one piece of memory under two types")]
    fn deref(&self) -> &[T] {
        // SAFETY: by the invariant the memory begins with `length` initialized items. An empty box has an
        // aligned pointer too.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.length) }
    }
}

impl<T> DerefMut for HugeVec<T> {
    #[inline(always)]
    #[allow(unsafe_code, reason = "one piece of memory under two types")]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the memory is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), self.length) }
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for HugeVec<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `HugeVec` and a `Vec` after growing to each of `lengths`; new items hold the number of the step.
    fn grown(lengths: &[usize]) -> (HugeVec<u64>, Vec<u64>) {
        let (mut huge, mut plain) = (HugeVec::default(), Vec::new());
        for (step, &length) in lengths.iter().enumerate() {
            huge.grow(length, step as u64);
            plain.resize(length.max(plain.len()), step as u64);
            assert_eq!(&*huge, plain, "step {step}");
            for items in [&mut *huge, &mut *plain] {
                items.iter_mut().next_back().into_iter().for_each(|last| *last += 100);
            }
        }
        (huge, plain)
    }

    #[test]
    fn a_huge_vec_equals_a_vec() {
        // Lengths within a huge page, across its end, far beyond it, and shorter again.
        let page = HUGE_PAGE_BYTES / size_of::<u64>();
        let (huge, plain) = grown(&[0, 1, 7, page, page + 1, 3 * page, 2 * page, 9 * page + 5]);
        assert_eq!(huge.as_ptr().align_offset(HUGE_PAGE_BYTES), 0);
        let mut clone = huge.clone();
        assert_eq!(&*clone, plain);
        clone[0] = 7;
        clone.grow(5, 1);
        assert_eq!((clone[0], clone.len(), huge[0]), (7, plain.len(), plain[0]));
        assert!(HugeVec::<u8>::default().is_empty());
    }

    #[test]
    fn advice_keeps_the_contents() {
        for length in [0, 1, 1 << 10, 1 << 20] {
            let mut memory = vec![7u32; length];
            advise_huge_pages(&mut memory);
            assert!(memory.iter().all(|item| *item == 7));
        }
    }
}
