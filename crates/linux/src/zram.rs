//! Compressed swap in memory: what `/sys/block/zramN/mm_stat` says.

use crate::counters::Counters;
use crate::{Error, Root};

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

/// What device `name` holds; none where it is not set up.
///
/// # Errors
/// What the operating system refuses.
pub fn statistics(root: &Root, name: &str) -> Result<Option<Counters>, Error> {
    let size = root.read(format!("/sys/block/{name}/disksize"))?.unwrap_or_default();
    if size.trim().parse().unwrap_or(0u64) == 0 {
        return Ok(None);
    }
    let text = root.read(format!("/sys/block/{name}/mm_stat"))?;
    Ok(text.map(|text| {
        let values = text.split_whitespace().map_while(|field| field.parse().ok());
        FIELDS.iter().map(|&name| name.to_owned()).zip(values).collect()
    }))
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
    }
}
