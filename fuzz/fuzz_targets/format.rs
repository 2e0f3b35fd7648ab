//! The target of every format of pages and of memory references: the bytes are a recording of the
//! format that `PAGEWISE_FORMAT` names. Whatever they are, reading ends without a panic, and what was
//! read agrees with itself.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static FORMAT: LazyLock<String> = LazyLock::new(|| {
    std::env::var("PAGEWISE_FORMAT").expect("PAGEWISE_FORMAT names a folder of fuzz/seeds")
});

fuzz_target!(|bytes: &[u8]| trace::replay::replay(&FORMAT, bytes));
