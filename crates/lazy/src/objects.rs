//! The library or program that contains an address, by the loader's list. `dladdr` knows that too, after a
//! walk over all symbols of libc: a dozen of these walks took a tenth of the life of /bin/true.

use libc::{c_int, c_void, dl_phdr_info, size_t};

use crate::loaded::iterate;

/// The memory that one library or the program occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    start: usize,
    end: usize,
}

impl Object {
    /// The memory of a library or program of libc's list.
    pub fn of(library: &dl_phdr_info) -> Object {
        let is_loaded = |header: &&libc::Elf64_Phdr| header.p_type == libc::PT_LOAD;
        let parts = headers_of(library).iter().filter(is_loaded).map(|header| {
            let start = library.dlpi_addr as usize + header.p_vaddr as usize;
            (start, start + header.p_memsz as usize)
        });
        Object {
            start: parts.clone().map(|(start, _)| start).min().unwrap_or(0),
            end: parts.map(|(_, end)| end).max().unwrap_or(0),
        }
    }

    /// Whether the object contains the address.
    pub fn has(self, address: usize) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// The program headers of a library or program of libc's list.
pub fn headers_of(library: &dl_phdr_info) -> &[libc::Elf64_Phdr] {
    if library.dlpi_phdr.is_null() {
        return &[];
    }
    // SAFETY: libc gives the place and number of the headers.
    unsafe { std::slice::from_raw_parts(library.dlpi_phdr, usize::from(library.dlpi_phnum)) }
}

/// The address to find, and the result.
struct Search {
    address: usize,
    found: Option<Object>,
}

/// The library or program that contains `address`.
pub fn object_at(address: usize) -> Option<Object> {
    let mut search = Search { address, found: None };
    // SAFETY: `compare` takes what `search` is.
    unsafe { iterate(compare, (&raw mut search).cast()) };
    search.found
}

unsafe extern "C" fn compare(library: *mut dl_phdr_info, _: size_t, search: *mut c_void) -> c_int {
    // SAFETY: libc passes a library, and `object_at` its own structure.
    let (library, search) = unsafe { (&*library, &mut *search.cast::<Search>()) };
    let object = Object::of(library);
    if object.has(search.address) {
        search.found = Some(object);
        return 1;
    }
    0
}
