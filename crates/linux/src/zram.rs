//! Zram devices: reads their state and statistics, and adds and removes devices.

use std::path::PathBuf;

use crate::counters::Counters;
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
