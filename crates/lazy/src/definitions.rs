//! Which loaded program or library defines a function, by its dynamic symbols.
//!
//! `dlsym` cannot tell. A program that is linked to a fixed address (not a PIE) and uses the address of a
//! function of a library gets an entry of its own procedure linkage table as that address. `dlsym` returns
//! the entry, which lies in the program, though the program's symbol stays undefined (`SHN_UNDEF`).

use std::ffi::CStr;

use libc::{c_char, c_int, c_void, dl_phdr_info, size_t};

use crate::loaded::iterate;
use crate::objects::{Object, headers_of};

/// Whether a program or library before the one that contains `address`, in the loader's order, defines any
/// of the functions.
pub fn is_any_before(address: usize, names: &[&CStr]) -> bool {
    let mut search = Search { address, names, is_found: false };
    // SAFETY: `look` takes what `search` is.
    unsafe { iterate(look, (&raw mut search).cast()) };
    search.is_found
}

/// Where to stop, which functions to find, and the result.
struct Search<'a> {
    address: usize,
    names: &'a [&'a CStr],
    is_found: bool,
}

unsafe extern "C" fn look(library: *mut dl_phdr_info, _: size_t, search: *mut c_void) -> c_int {
    // SAFETY: libc passes a library, and `is_any_before` its own structure.
    let (library, search) = unsafe { (&*library, &mut *search.cast::<Search<'_>>()) };
    if Object::of(library).has(search.address) {
        return 1;
    }
    // SAFETY: libc lists what it has loaded.
    let symbols = unsafe { Symbols::of(library) };
    let defines = |symbols: Symbols| search.names.iter().any(|name| symbols.define(name));
    search.is_found = symbols.is_some_and(defines);
    c_int::from(search.is_found)
}

/// Dynamic symbols of a loaded program or library.
#[derive(Clone, Copy)]
struct Symbols {
    symbols: *const libc::Elf64_Sym,
    names: *const c_char,
    table: Table,
}

/// Finds symbols by name.
#[derive(Clone, Copy)]
enum Table {
    Gnu(*const u32),
    SystemV(*const u32),
}

/// An entry of the dynamic section.
#[repr(C)]
struct Entry {
    tag: i64,
    value: u64,
}

const END: i64 = 0;
const SYSTEM_V_TABLE: i64 = 4;
const NAMES: i64 = 5;
const SYMBOLS: i64 = 6;
const GNU_TABLE: i64 = 0x6fff_fef5;
/// Words of `Table::Gnu` before its filter, and of `Table::SystemV` before its buckets.
const GNU_HEAD: usize = 4;
const SYSTEM_V_HEAD: usize = 2;

impl Symbols {
    /// The symbols of `library`; none if it has no dynamic section or no table of symbols.
    ///
    /// # Safety
    /// The library is loaded.
    unsafe fn of(library: &dl_phdr_info) -> Option<Symbols> {
        let is_dynamic = |header: &&libc::Elf64_Phdr| header.p_type == libc::PT_DYNAMIC;
        let base = library.dlpi_addr as usize;
        let section = headers_of(library).iter().find(is_dynamic)?.p_vaddr as usize;
        let mut entry = (base + section) as *const Entry;
        let (mut symbols, mut names, mut gnu, mut system_v) = (0, 0, 0, 0);
        // SAFETY: the section of a loaded library is mapped and ends with an entry of this tag.
        while let Some(Entry { tag, value }) =
            unsafe { entry.as_ref() }.filter(|entry| entry.tag != END)
        {
            // The loader adds the base to these addresses, but not in the kernel's vDSO.
            let address = *value as usize + if (*value as usize) < base { base } else { 0 };
            match *tag {
                SYMBOLS => symbols = address,
                NAMES => names = address,
                GNU_TABLE => gnu = address,
                SYSTEM_V_TABLE => system_v = address,
                _ => {}
            }
            // SAFETY: the entry was not the last.
            entry = unsafe { entry.add(1) };
        }
        let table = match (gnu, system_v) {
            (0, 0) => return None,
            (0, address) => Table::SystemV(address as *const u32),
            (address, _) => Table::Gnu(address as *const u32),
        };
        let is_whole = symbols != 0 && names != 0;
        is_whole.then_some(Symbols { symbols: symbols as _, names: names as _, table })
    }

    /// Whether a symbol of this name is defined here.
    fn define(self, name: &CStr) -> bool {
        // SAFETY: the tables of a loaded library are mapped and well formed: the loader uses them.
        unsafe {
            match self.table {
                Table::Gnu(table) => self.define_gnu(table, name),
                Table::SystemV(table) => self.define_system_v(table, name),
            }
        }
    }

    unsafe fn define_gnu(self, table: *const u32, name: &CStr) -> bool {
        let hash = gnu_hash(name);
        // SAFETY: the head of the table, then its filter, buckets and chains, as the format says.
        unsafe {
            let [buckets, first, words, shift] = *table.cast::<[u32; GNU_HEAD]>();
            let filter = table.add(GNU_HEAD).cast::<u64>();
            let Some(word) = (hash / u64::BITS).checked_rem(words) else { return false };
            let bit = |hash: u32| 1u64 << (hash % u64::BITS);
            let bits = bit(hash) | bit(hash.checked_shr(shift).unwrap_or(0));
            if *filter.add(word as usize) & bits != bits {
                return false;
            }
            let bucket = filter.add(words as usize).cast::<u32>();
            let chain = bucket.add(buckets as usize);
            let Some(place) = hash.checked_rem(buckets) else { return false };
            let mut at = *bucket.add(place as usize);
            while at >= first && at != 0 {
                let link = *chain.add((at - first) as usize);
                if link | 1 == hash | 1 && self.is_definition(at, name) {
                    return true;
                }
                // The lowest bit ends a chain.
                at = if link & 1 == 1 { 0 } else { at + 1 };
            }
        }
        false
    }

    unsafe fn define_system_v(self, table: *const u32, name: &CStr) -> bool {
        // SAFETY: the head of the table, then its buckets and chains, as the format says.
        unsafe {
            let [buckets, _] = *table.cast::<[u32; SYSTEM_V_HEAD]>();
            let bucket = table.add(SYSTEM_V_HEAD);
            let chain = bucket.add(buckets as usize);
            let Some(place) = system_v_hash(name).checked_rem(buckets) else { return false };
            let mut at = *bucket.add(place as usize);
            while at != 0 {
                if self.is_definition(at, name) {
                    return true;
                }
                at = *chain.add(at as usize);
            }
        }
        false
    }

    /// Whether the symbol with this index is a definition of `name`.
    ///
    /// # Safety
    /// There is such a symbol.
    unsafe fn is_definition(self, index: u32, name: &CStr) -> bool {
        // SAFETY: upheld by the caller; names are C strings.
        let (symbol, own) = unsafe {
            let symbol = &*self.symbols.add(index as usize);
            (symbol, CStr::from_ptr(self.names.add(symbol.st_name as usize)))
        };
        symbol.st_shndx != SHN_UNDEF && symbol.st_info >> 4 != STB_LOCAL && own == name
    }
}

const SHN_UNDEF: u16 = 0;
const STB_LOCAL: u8 = 0;

fn gnu_hash(name: &CStr) -> u32 {
    let next = |hash: u32, &byte: &u8| hash.wrapping_mul(33).wrapping_add(u32::from(byte));
    name.to_bytes().iter().fold(5381, next)
}

fn system_v_hash(name: &CStr) -> u32 {
    name.to_bytes().iter().fold(0, |hash: u32, &byte| {
        let hash = (hash << 4).wrapping_add(u32::from(byte));
        (hash ^ (hash >> 24 & 0xf0)) & 0x0fff_ffff
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_format() {
        assert_eq!((gnu_hash(c""), gnu_hash(c"printf")), (0x1505, 0x156b_2bb8));
        assert_eq!((system_v_hash(c"printf"), system_v_hash(c"syscall")), (0x077905a6, 0x0b09985c));
    }

    #[test]
    fn what_defines_a_function_is_what_the_loader_finds() {
        let names = [c"malloc", c"free", c"memcpy", c"pthread_create", c"stdin"];
        for name in names {
            // SAFETY: a C string.
            let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) } as usize;
            assert_ne!(address, 0, "{name:?}");
            assert!(!is_any_before(address, &[name]), "{name:?}: another object is first");
            assert!(is_any_before(usize::MAX, &[c"no_such_function", name]), "{name:?}: none");
        }
        assert!(!is_any_before(usize::MAX, &[c"no_such_function", c""]));
    }

    #[test]
    fn a_table_finds_each_of_its_symbols() {
        unsafe extern "C" fn compare(
            library: *mut dl_phdr_info,
            _: size_t,
            count: *mut c_void,
        ) -> c_int {
            // SAFETY: libc passes a library, and the test a number.
            let (symbols, count) = unsafe { (Symbols::of(&*library), &mut *count.cast::<usize>()) };
            let Some(symbols @ Symbols { table: Table::Gnu(table), .. }) = symbols else {
                return 0;
            };
            // SAFETY: the head of the table.
            let [buckets, first, words, _] = unsafe { *table.cast::<[u32; GNU_HEAD]>() };
            for place in 0..buckets as usize {
                // SAFETY: within the table.
                let mut at = unsafe { *table.add(GNU_HEAD + 2 * words as usize + place) };
                while at >= first && at != 0 {
                    // SAFETY: a symbol of the table, and its link.
                    let (name, is_undefined, link) = unsafe {
                        let symbol = &*symbols.symbols.add(at as usize);
                        let name = CStr::from_ptr(symbols.names.add(symbol.st_name as usize));
                        let links = GNU_HEAD + 2 * words as usize + buckets as usize;
                        let link = *table.add(links + (at - first) as usize);
                        (name, symbol.st_shndx == SHN_UNDEF, link)
                    };
                    assert_eq!(symbols.define(name), !is_undefined, "{name:?}");
                    *count += 1;
                    at = if link & 1 == 1 { 0 } else { at + 1 };
                }
            }
            0
        }
        let mut count = 0_usize;
        // SAFETY: `compare` takes a number.
        unsafe { iterate(compare, (&raw mut count).cast()) };
        assert!(count > 1000, "{count} symbols");
    }
}
