//! Zram devices: reads their state and statistics, adds and removes devices, and writes their pages to a backing device.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::counters::Counters;
use crate::kernel_file::KernelFile;
use crate::swap::{self, Identity};
use crate::system::device_number;
use crate::{Error, KernelSetting, Root};

/// The fields of `mm_stat` in their order (Documentation/admin-guide/blockdev/zram.rst); later
/// kernels append more.
const FIELDS: [&str; 9] = [
    "orig_data_bytes",
    "compr_data_bytes",
    "mem_used_bytes",
    "mem_limit_bytes",
    "mem_used_max_bytes",
    "same_pages",
    "pages_compacted",
    "huge_pages",
    "huge_pages_since",
];

/// The names of the zram devices, whether they are set up or not.
///
/// # Errors
/// The operating system refuses.
pub fn devices(root: &Root) -> Result<Vec<String>, Error> {
    let names = root.list("/sys/block")?;
    Ok(names.into_iter().filter(|name| name.starts_with("zram")).collect())
}

/// The size of device `name` in bytes of uncompressed pages; 0 if it is not set up.
///
/// # Errors
/// The operating system refuses.
pub fn bytes(root: &Root, name: &str) -> Result<u64, Error> {
    let text = root.read(format!("/sys/block/{name}/disksize"))?.unwrap_or_default();
    Ok(text.trim().parse().unwrap_or(0))
}

/// The compression algorithm of device `name`: the kernel lists all, with the selected one in brackets.
///
/// # Errors
/// The operating system refuses.
pub fn algorithm(root: &Root, name: &str) -> Result<Option<String>, Error> {
    let text = root.read(format!("/sys/block/{name}/comp_algorithm"))?.unwrap_or_default();
    let chosen = |word: &str| Some(word.strip_prefix('[')?.strip_suffix(']')?.to_owned());
    Ok(text.split_whitespace().find_map(chosen))
}

/// The algorithms that device `name` offers; None if there is no such device.
///
/// # Errors
/// The operating system refuses.
pub fn algorithms(root: &Root, name: &str) -> Result<Option<Vec<String>>, Error> {
    let text = root.read(format!("/sys/block/{name}/comp_algorithm"))?;
    let word = |word: &str| word.trim_matches(['[', ']']).to_owned();
    Ok(text.map(|text| text.split_whitespace().map(word).collect()))
}

/// Whether the kernel's zram has this algorithm, as its first device lists them; None if there is no device.
///
/// # Errors
/// The operating system refuses.
pub fn offers(root: &Root, algorithm: &str) -> Result<Option<bool>, Error> {
    let Some(name) = devices(root)?.into_iter().next() else { return Ok(None) };
    let found = algorithms(root, &name)?;
    Ok(found.map(|found| found.iter().any(|own| own == algorithm)))
}

/// The statistics of device `name`; None if it is not set up.
///
/// # Errors
/// The operating system refuses.
pub fn statistics(root: &Root, name: &str) -> Result<Option<Counters>, Error> {
    if bytes(root, name)? == 0 {
        return Ok(None);
    }
    let text = root.read(format!("/sys/block/{name}/mm_stat"))?;
    Ok(text.map(|text| {
        let values = text.split_whitespace().map_while(|field| field.parse().ok());
        FIELDS.iter().map(|&name| name.to_owned()).zip(values).collect()
    }))
}

/// Adds a device and returns its number. Devices in use are not touched.
///
/// # Errors
/// The operating system refuses, or this kernel's zram cannot add devices.
pub fn add(root: &Root) -> Result<u32, Error> {
    // Reading this file adds the device.
    let path = "/sys/class/zram-control/hot_add";
    let text = root.read(path)?;
    text.and_then(|text| text.trim().parse().ok()).ok_or_else(|| {
        Error::unexpected(path, "no zram device can be added; as root: `modprobe zram`")
    })
}

/// The path of device `number`.
pub fn path(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/zram{number}"))
}

/// The settings for the compressor and the size of device `number`, in order; without a compressor, the kernel's
/// default.
pub fn settings(number: u32, compressor: Option<&str>, bytes: u64) -> Vec<KernelSetting> {
    let file = |name: &str| format!("/sys/block/zram{number}/{name}");
    let compressor = compressor.map(|name| KernelSetting::new(file("comp_algorithm"), name));
    compressor.into_iter().chain([KernelSetting::new(file("disksize"), bytes)]).collect()
}

/// Whether the kernel's zram can write pages to a backing device (CONFIG_ZRAM_WRITEBACK), as device `number` shows.
pub fn has_writeback(root: &Root, number: u32) -> bool {
    root.exists(format!("/sys/block/zram{number}/backing_dev"))
}

/// The setting for the block device to which device `number` writes pages; it comes before the size. The kernel keeps
/// `backing` open until the device is reset.
pub fn backing(number: u32, backing: &Path) -> KernelSetting {
    KernelSetting::new(format!("/sys/block/zram{number}/backing_dev"), backing.display())
}

/// The number of device `number` that the kernel uses in events.
///
/// # Errors
/// The operating system refuses, or there is no such device.
pub fn event_number(root: &Root, number: u32) -> Result<u32, Error> {
    let file = format!("/sys/block/zram{number}/dev");
    let text = root.read(&file)?.unwrap_or_default();
    let numbers = text.trim().split_once(':');
    let both = numbers.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let (major, minor) = both.ok_or_else(|| Error::unexpected(file, "expected MAJOR:MINOR"))?;
    Ok(device_number(major, minor))
}

/// The number of the device with a swap area of this identity.
///
/// # Errors
/// The operating system refuses.
pub fn holding(root: &Root, identity: &Identity) -> Result<Option<u32>, Error> {
    let numbers = devices(root)?.into_iter().filter_map(|name| name[4..].parse::<u32>().ok());
    let mut numbers = numbers
        .filter(|&number| bytes(root, &format!("zram{number}")).is_ok_and(|bytes| bytes > 0));
    Ok(numbers.find(|&number| swap::identity(&root.path(path(number))).as_ref() == Some(identity)))
}

/// Whether device `number` is there and holds no data.
///
/// # Errors
/// The operating system refuses.
pub fn is_empty(root: &Root, number: u32) -> Result<bool, Error> {
    let name = format!("zram{number}");
    let stored = statistics(root, &name)?.and_then(|counts| counts.get("orig_data_bytes").copied());
    Ok(root.exists(format!("/sys/block/{name}")) && stored.unwrap_or(0) == 0)
}

/// The inode of device `number` in sysfs; None if there is no such device. It identifies the device until a reboot: a
/// later device gets another one, even with the same number (`kernfs_new_node` in the kernel's fs/kernfs/dir.c counts
/// them up).
pub fn inode(root: &Root, number: u32) -> Option<u64> {
    let folder = root.path(format!("/sys/block/zram{number}"));
    std::fs::metadata(folder).ok().map(|folder| folder.ino())
}

/// Pages on the backing device of a zram device, of 4 KiB (`bd_stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackingCounts {
    /// Pages that it holds now.
    pub held: u64,
    /// Pages read from it so far.
    pub reads: u64,
    /// Pages written to it so far.
    pub writes: u64,
}

/// Writes pages of a zram device to its backing device.
#[derive(Debug)]
pub struct Writeback {
    file: File,
    counts: KernelFile,
    writes: u64,
}

impl Writeback {
    /// For device `number`, which has a backing device.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn open(root: &Root, number: u32) -> Result<Writeback, Error> {
        let folder = PathBuf::from(format!("/sys/block/zram{number}"));
        let path = folder.join("writeback");
        let file = OpenOptions::new().write(true).open(root.path(&path));
        let file = file.map_err(|error| Error::refused("open", &path, error))?;
        let path = folder.join("bd_stat");
        let counts = KernelFile::open(root, &path, 128)?;
        let counts =
            counts.ok_or_else(|| Error::unexpected(path, "this kernel does not have it"))?;
        let mut writeback = Writeback { file, counts, writes: 0 };
        writeback.writes = writeback.counts().writes;
        Ok(writeback)
    }

    /// Writes a page to the backing device and frees its memory. False if there was nothing to write: the page is not
    /// in the zram device, is on the backing device, or takes no memory because all its words are equal.
    ///
    /// # Errors
    /// The kernel refuses: the backing device is full or fails, or something else writes pages back.
    pub fn write(&mut self, page: u32) -> io::Result<bool> {
        let mut text = [0; 32];
        let mut rest = &mut text[..];
        write!(rest, "page_index={page}")?;
        let unused = rest.len();
        self.file.write_at(&text[..text.len() - unused], 0)?;
        let writes = self.counts().writes;
        let has_grown = writes > self.writes;
        self.writes = writes;
        Ok(has_grown)
    }

    /// Counts of the backing device; zeros if they cannot be read.
    pub fn counts(&mut self) -> BackingCounts {
        let text = self.counts.text().and_then(|text| std::str::from_utf8(text).ok());
        let mut numbers = text.unwrap_or_default().split_ascii_whitespace();
        let mut next = || numbers.next().and_then(|number| number.parse().ok()).unwrap_or(0);
        BackingCounts { held: next(), reads: next(), writes: next() }
    }
}

/// Resets device `number`, which must not be in use as swap, and removes it; a device that does not exist is
/// ignored.
///
/// # Errors
/// The operating system refuses.
pub fn remove(root: &Root, number: u32) -> Result<(), Error> {
    if !root.exists(format!("/sys/block/zram{number}")) {
        return Ok(());
    }
    KernelSetting::new(format!("/sys/block/zram{number}/reset"), 1).apply(root)?;
    KernelSetting::new("/sys/class/zram-control/hot_remove", number).apply(root)
}

/// Removes all devices that are not set up, except `others`.
///
/// # Errors
/// The operating system refuses.
pub fn remove_unused(root: &Root, others: &[String]) -> Result<(), Error> {
    for name in devices(root)?.into_iter().filter(|name| !others.contains(name)) {
        let state = root.read(format!("/sys/block/{name}/initstate"))?.unwrap_or_default();
        let number = name.strip_prefix("zram").and_then(|number| number.parse().ok());
        if let (Some(number), "0") = (number, state.trim()) {
            remove(root, number)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_set_up_has_no_statistics() {
        let folder = tempfile::tempdir().unwrap();
        let block = folder.path().join("sys/block/zram0");
        std::fs::create_dir_all(&block).unwrap();
        std::fs::write(block.join("disksize"), "0\n").unwrap();
        std::fs::write(block.join("mm_stat"), "  4096 12 12288 0 12288 0 0 0 0\n").unwrap();
        let root = Root::at(folder.path());
        assert_eq!(devices(&root).unwrap(), ["zram0"]);
        assert_eq!(statistics(&root, "zram0").unwrap(), None);
        std::fs::write(block.join("disksize"), "1048576\n").unwrap();
        let statistics = statistics(&root, "zram0").unwrap().unwrap();
        assert_eq!((statistics["orig_data_bytes"], statistics["huge_pages_since"]), (4096, 0));
        assert_eq!(bytes(&root, "zram0").unwrap(), 1 << 20);
    }

    #[test]
    fn a_page_is_written_back_if_the_count_grows() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let block = folder.path().join("sys/block/zram3");
        std::fs::create_dir_all(&block).unwrap();
        assert!(!has_writeback(&root, 3) && is_empty(&root, 3).unwrap());
        assert!(Writeback::open(&root, 3).is_err() && !is_empty(&root, 4).unwrap());
        for (file, text) in [
            ("writeback", ""),
            ("backing_dev", "none\n"),
            ("bd_stat", "       2        1        9\n"),
            ("dev", "252:3\n"),
            ("disksize", "1048576\n"),
            ("mm_stat", "4096 12 12288 0 12288 0 0 0 0\n"),
        ] {
            std::fs::write(block.join(file), text).unwrap();
        }
        assert!(has_writeback(&root, 3) && !is_empty(&root, 3).unwrap());
        assert_eq!(event_number(&root, 3).unwrap(), device_number(252, 3));
        let mut writeback = Writeback::open(&root, 3).unwrap();
        assert_eq!(writeback.counts(), BackingCounts { held: 2, reads: 1, writes: 9 });
        assert!(!writeback.write(1234).unwrap());
        assert_eq!(std::fs::read_to_string(block.join("writeback")).unwrap(), "page_index=1234");
        std::fs::write(block.join("bd_stat"), "3 1 10\n").unwrap();
        assert!(writeback.write(7).unwrap());
    }

    #[test]
    fn a_device_is_found_by_its_swap_area() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let own = Identity { uuid: [9; 16], label: [0; 16] };
        std::fs::create_dir_all(root.path("/dev")).unwrap();
        for (number, identity) in [(0, Identity::default()), (2, own)] {
            std::fs::create_dir_all(root.path(format!("/sys/block/zram{number}"))).unwrap();
            std::fs::write(root.path(format!("/sys/block/zram{number}/disksize")), "65536\n")
                .unwrap();
            std::fs::write(root.path(path(number)), "").unwrap();
            swap::format_as(&root.path(path(number)), 1 << 20, &identity).unwrap();
        }
        assert_eq!(holding(&root, &own).unwrap(), Some(2));
        std::fs::write(root.path("/sys/block/zram2/disksize"), "0\n").unwrap();
        assert_eq!(holding(&root, &own).unwrap(), None);
    }

    #[test]
    fn the_algorithm_in_effect_is_in_brackets() {
        let folder = tempfile::tempdir().unwrap();
        let block = folder.path().join("sys/block/zram0");
        std::fs::create_dir_all(&block).unwrap();
        let root = Root::at(folder.path());
        assert_eq!(algorithm(&root, "zram0").unwrap(), None);
        std::fs::write(block.join("comp_algorithm"), "lzo [lzo-rle] lz4 zstd \n").unwrap();
        assert_eq!(algorithm(&root, "zram0").unwrap().as_deref(), Some("lzo-rle"));
        let offered = ["lzo", "lzo-rle", "zstd", "lz"].map(|name| offers(&root, name).unwrap());
        assert_eq!(offered, [Some(true), Some(true), Some(true), Some(false)]);
    }
}
