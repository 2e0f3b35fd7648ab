//! The size classes of zsmalloc, the allocator of zram's pool: how much memory an object of a size takes.
//!
//! Source: mm/zsmalloc.c of Linux 6.18 (`get_size_class_index`, `calculate_zspage_chain_size`, `zs_create_pool`); before
//! Linux 6.2, a zspage has at most four pages and the number of its pages is chosen by `get_pages_per_zspage`. Pages of
//! 4 KiB have 255 classes, 16 bytes apart; classes with as many pages and objects per zspage are merged into the largest.

use std::io::Read;

use crate::features::is_at_least;
use crate::{Error, Root};

/// Each object has a handle of this many bytes.
const HANDLE_BYTES: usize = 8;
const SIZE_MIN: usize = 32;
/// Classes are a page divided by this number apart.
const STEPS: usize = 256;
/// `CONFIG_ZSMALLOC_CHAIN_SIZE` unless it was changed; the most pages of a zspage.
const CHAIN_SIZE: usize = 8;
/// `1 << ZS_MAX_ZSPAGE_ORDER` before Linux 6.2.
const CHAIN_SIZE_BEFORE: usize = 4;
/// The first Linux with `CONFIG_ZSMALLOC_CHAIN_SIZE`.
const CHAIN_SINCE: (u32, u32) = (6, 2);

/// A class of objects of about the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    pages: usize,
    objects: usize,
}

/// The classes of a pool.
#[derive(Clone, Debug)]
pub struct SizeClasses {
    page_bytes: usize,
    chain_size: usize,
    /// By number, in the order of their sizes; neighbours that are equal are merged.
    classes: Vec<Class>,
    huge_bytes: usize,
}

impl SizeClasses {
    /// The classes for pages of `page_bytes` if zspages have at most `chain_size` pages, in a kernel with or without the
    /// configurable chain size of Linux 6.2.
    pub fn new(page_bytes: usize, chain_size: usize, is_configurable: bool) -> SizeClasses {
        let step = page_bytes / STEPS;
        let count = (page_bytes - SIZE_MIN).div_ceil(step) + 1;
        let size_of = |number: usize| (SIZE_MIN + number * step).min(page_bytes);
        let mut classes = vec![Class { pages: 1, objects: 1 }; count];
        let mut huge_bytes = None;
        for (number, class) in classes.iter_mut().enumerate().rev() {
            let size = size_of(number);
            let pages = match is_configurable {
                true => pages_of_zspage(size, page_bytes, chain_size),
                false => pages_of_zspage_before(size, page_bytes, chain_size),
            };
            *class = Class { pages, objects: pages * page_bytes / size };
            // From the largest down, so this is the first class whose objects share a page.
            if class.pages != 1 && class.objects != 1 {
                huge_bytes.get_or_insert(size - (HANDLE_BYTES - 1));
            }
        }
        let huge_bytes = huge_bytes.unwrap_or(page_bytes);
        SizeClasses { page_bytes, chain_size, classes, huge_bytes }
    }

    /// The classes of the running kernel, whose release (`uname -r`) is `kernel`. The chain size is that of
    /// `/proc/config.gz` or `/boot/config-RELEASE`, or else the kernel's default.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn of_kernel(
        root: &Root,
        kernel: &str,
        page_bytes: usize,
        unpack: impl Fn(&[u8]) -> Option<String>,
    ) -> Result<SizeClasses, Error> {
        let is_configurable = is_at_least(kernel, CHAIN_SINCE);
        let configured = match is_configurable {
            true => configured(root, kernel, unpack)?,
            false => None,
        };
        let default = if is_configurable { CHAIN_SIZE } else { CHAIN_SIZE_BEFORE };
        Ok(SizeClasses::new(page_bytes, configured.unwrap_or(default), is_configurable))
    }

    /// The most pages of a zspage.
    pub fn chain_size(&self) -> usize {
        self.chain_size
    }

    /// A compressed page of this size or more takes a whole page: zram stores it as it is.
    pub fn huge_bytes(&self) -> usize {
        self.huge_bytes
    }

    /// The number of classes before merging.
    pub fn count(&self) -> usize {
        self.classes.len()
    }

    /// The number of the class that an object of `bytes` goes to: the first of those that are merged.
    pub fn number(&self, bytes: usize) -> usize {
        let mut number = self.classes.len() - 1;
        if bytes < self.huge_bytes {
            let beyond = (bytes + HANDLE_BYTES).saturating_sub(SIZE_MIN);
            number = beyond.div_ceil(self.page_bytes / STEPS).min(number);
        }
        while number > 0 && self.classes[number - 1] == self.classes[number] {
            number -= 1;
        }
        number
    }

    /// The memory that an object of `bytes` takes if the zspages of its class are full. Zram stores an object that is
    /// not below [`SizeClasses::huge_bytes`] as a whole page.
    pub fn pool_bytes(&self, bytes: usize) -> f64 {
        self.object_bytes(self.classes[self.number(bytes)])
    }

    /// The memory in zspages that are not full, one in each class that has objects, if `objects` objects were stored and
    /// none freed. `shares` are the shares of the classes by their numbers. On average, half of such a zspage is free.
    pub fn free_bytes(&self, shares: &[f64], objects: f64) -> f64 {
        let free = |(class, share): (&Class, &f64)| {
            let (own, room) = (share * objects, class.objects as f64);
            let free = match own {
                own if own <= 0.0 => 0.0,
                own if own < room / 2.0 => room - own.max(1.0),
                _ => (room - 1.0) / 2.0,
            };
            free * self.object_bytes(*class)
        };
        self.classes.iter().zip(shares).map(free).sum()
    }

    fn object_bytes(&self, class: Class) -> f64 {
        (class.pages * self.page_bytes) as f64 / class.objects as f64
    }
}

fn pages_of_zspage(size: usize, page_bytes: usize, chain_size: usize) -> usize {
    if size.is_power_of_two() {
        return 1;
    }
    // The first of those with the least waste.
    (1..=chain_size).min_by_key(|pages| pages * page_bytes % size).unwrap_or(1)
}

/// Before Linux 6.2: the first of those with the largest share of memory in use, in whole per cent.
fn pages_of_zspage_before(size: usize, page_bytes: usize, chain_size: usize) -> usize {
    let used = |pages: usize| {
        let bytes = pages * page_bytes;
        (bytes - bytes % size) * 100 / bytes
    };
    (1..=chain_size).rev().max_by_key(|&pages| used(pages)).unwrap_or(1)
}

/// `CONFIG_ZSMALLOC_CHAIN_SIZE` of the running kernel; None if the kernel does not report it.
fn configured(
    root: &Root,
    kernel: &str,
    unpack: impl Fn(&[u8]) -> Option<String>,
) -> Result<Option<usize>, Error> {
    const CONFIG_BYTES_MAX: u64 = 4 << 20;
    let mut packed = Vec::new();
    let own = std::fs::File::open(root.path("/proc/config.gz"))
        .and_then(|file| file.take(CONFIG_BYTES_MAX).read_to_end(&mut packed));
    let text = match own.ok().and_then(|_| unpack(&packed)) {
        Some(text) => Some(text),
        None => root.read(format!("/boot/config-{kernel}"))?,
    };
    Ok(text.as_deref().and_then(chain_size_in))
}

fn chain_size_in(config: &str) -> Option<usize> {
    let value = config.lines().find_map(|line| line.strip_prefix("CONFIG_ZSMALLOC_CHAIN_SIZE="))?;
    // The kernel permits 4 to 16.
    value.trim().parse().ok().filter(|pages| (1..=16).contains(pages))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Documentation/mm/zsmalloc.rst, Linux 6.18: chain size, number of merged classes, largest size below huge objects.
    const DOCUMENTED: [(usize, usize, usize); 13] = [
        (4, 69, 3264),
        (5, 86, 3408),
        (6, 93, 3504),
        (7, 112, 3584),
        (8, 123, 3632),
        (9, 140, 3680),
        (10, 143, 3712),
        (11, 159, 3744),
        (12, 164, 3776),
        (13, 180, 3792),
        (14, 183, 3808),
        (15, 188, 3840),
        (16, 191, 3840),
    ];

    #[test]
    fn classes_are_those_that_the_kernel_documents() {
        for (chain_size, count, last) in DOCUMENTED {
            // The table was made with the choice of zspages before Linux 6.2.
            let mut merged = SizeClasses::new(4096, chain_size, false).classes;
            merged.dedup();
            assert_eq!(merged.len(), count, "{chain_size}");
            for is_configurable in [false, true] {
                let classes = SizeClasses::new(4096, chain_size, is_configurable);
                // The handle belongs to the object.
                assert_eq!(classes.huge_bytes(), last - HANDLE_BYTES + 1, "{chain_size}");
                assert_eq!(classes.pool_bytes(classes.huge_bytes()), 4096.0);
                assert!(classes.pool_bytes(classes.huge_bytes() - 1) < 4096.0);
            }
        }
        // The same page: 1568 bytes go with 1632, five to two pages, or by a longer chain 13 to five.
        let pool = |chain_size| SizeClasses::new(4096, chain_size, true).pool_bytes(1568 - 8);
        assert_eq!((pool(4), pool(8)), (2.0 * 4096.0 / 5.0, 5.0 * 4096.0 / 13.0));
        assert_eq!(SizeClasses::new(4096, 4, false).huge_bytes(), 3264 - HANDLE_BYTES + 1);
    }

    #[test]
    fn zspages_that_are_not_full_are_filled_by_half_on_average() {
        let classes = SizeClasses::new(4096, 8, true);
        let mut shares = vec![0.0; classes.count()];
        assert_eq!(classes.free_bytes(&shares, 1000.0), 0.0);
        // 13 objects in five pages.
        shares[classes.number(1560)] = 1.0;
        let object = 5.0 * 4096.0 / 13.0;
        assert!((classes.free_bytes(&shares, 1000.0) / object - 6.0).abs() < 1e-9);
        assert!((classes.free_bytes(&shares, 1.0) / object - 12.0).abs() < 1e-9);
        shares.fill(0.0);
        shares[classes.number(4096)] = 1.0;
        assert_eq!(classes.free_bytes(&shares, 1000.0), 0.0);
        assert_eq!(classes.number(1545), classes.number(1560));
    }

    #[test]
    fn no_object_takes_less_than_its_size() {
        for page_bytes in [4096, 16384, 65536] {
            let classes = SizeClasses::new(page_bytes, 8, true);
            let mut smaller = 0.0;
            for bytes in 0..=page_bytes {
                let pool = classes.pool_bytes(bytes);
                assert!(pool >= bytes as f64 && pool <= page_bytes as f64, "{page_bytes} {bytes}");
                assert!(pool >= smaller * 0.999, "{page_bytes} {bytes}");
                smaller = pool;
            }
        }
    }

    #[test]
    fn the_chain_size_is_that_of_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let of = |kernel| SizeClasses::of_kernel(&root, kernel, 4096, |_| None).unwrap();
        assert_eq!((of("6.18.1").chain_size(), of("5.15.0").chain_size()), (8, 4));
        std::fs::create_dir_all(root.path("/boot")).unwrap();
        let text = "CONFIG_ZSMALLOC=y\nCONFIG_ZSMALLOC_CHAIN_SIZE=5\n";
        std::fs::write(root.path("/boot/config-6.18.1"), text).unwrap();
        assert_eq!((of("6.18.1").chain_size(), of("6.17.0").chain_size()), (5, 8));
        assert_eq!(chain_size_in("CONFIG_ZSMALLOC_CHAIN_SIZE=1000000\n"), None);
    }
}
