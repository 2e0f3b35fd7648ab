//! Compressed swap in memory: devices of our own, and what `/sys/block/zramN/mm_stat` says.

use std::path::PathBuf;

use crate::counters::Counters;
use crate::{Error, Root, Setting};

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

/// Names of the zram devices, set up or not.
///
/// # Errors
/// What the operating system refuses.
pub fn devices(root: &Root) -> Result<Vec<String>, Error> {
    let names = root.list("/sys/block")?;
    Ok(names.into_iter().filter(|name| name.starts_with("zram")).collect())
}

/// How many bytes of pages device `name` takes; 0 where it is not set up.
///
/// # Errors
/// What the operating system refuses.
pub fn bytes(root: &Root, name: &str) -> Result<u64, Error> {
    let text = root.read(format!("/sys/block/{name}/disksize"))?.unwrap_or_default();
    Ok(text.trim().parse().unwrap_or(0))
}

/// The algorithm that device `name` compresses with: of those that the kernel lists, the one in
/// brackets.
///
/// # Errors
/// What the operating system refuses.
pub fn algorithm(root: &Root, name: &str) -> Result<Option<String>, Error> {
    let text = root.read(format!("/sys/block/{name}/comp_algorithm"))?.unwrap_or_default();
    let chosen = |word: &str| Some(word.strip_prefix('[')?.strip_suffix(']')?.to_owned());
    Ok(text.split_whitespace().find_map(chosen))
}

/// What device `name` holds; none where it is not set up.
///
/// # Errors
/// What the operating system refuses.
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

/// Adds a device and says its number. Those in use are left alone.
///
/// # Errors
/// What the operating system refuses, such as a kernel whose zram cannot add devices.
pub fn add(root: &Root) -> Result<u32, Error> {
    // Reading this file is what adds the device.
    let path = "/sys/class/zram-control/hot_add";
    let text = root.read(path)?;
    text.and_then(|text| text.trim().parse().ok()).ok_or_else(|| {
        Error::unexpected(path, "no zram device can be added; as root: modprobe zram")
    })
}

/// Where device `number` is.
pub fn path(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/zram{number}"))
}

/// What gives device `number` a compressor (its own default without) and a size, in order.
pub fn settings(number: u32, compressor: Option<&str>, bytes: u64) -> Vec<Setting> {
    let file = |name: &str| format!("/sys/block/zram{number}/{name}");
    let compressor = compressor.map(|name| Setting::new(file("comp_algorithm"), name));
    compressor.into_iter().chain([Setting::new(file("disksize"), bytes)]).collect()
}

/// Empties device `number`, which is no swap area any more, and removes it; one that is gone is no
/// matter.
///
/// # Errors
/// What the operating system refuses.
pub fn remove(root: &Root, number: u32) -> Result<(), Error> {
    if !root.exists(format!("/sys/block/zram{number}")) {
        return Ok(());
    }
    Setting::new(format!("/sys/block/zram{number}/reset"), 1).apply(root)?;
    Setting::new("/sys/class/zram-control/hot_remove", number).apply(root)
}

/// Removes the devices that are not set up, but `others`.
///
/// # Errors
/// What the operating system refuses.
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
    fn the_algorithm_in_effect_is_in_brackets() {
        let folder = tempfile::tempdir().unwrap();
        let block = folder.path().join("sys/block/zram0");
        std::fs::create_dir_all(&block).unwrap();
        let root = Root::at(folder.path());
        assert_eq!(algorithm(&root, "zram0").unwrap(), None);
        std::fs::write(block.join("comp_algorithm"), "lzo [lzo-rle] lz4 zstd \n").unwrap();
        assert_eq!(algorithm(&root, "zram0").unwrap().as_deref(), Some("lzo-rle"));
    }
}
