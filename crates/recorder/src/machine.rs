//! Describes the swap areas, disks and features of the machine in the header of a recording.

use std::path::Path;

use linux::cgroup::MemoryGroup;
use linux::gauge::Gauge;
use linux::{Root, disk, features, swap, zram};
use trace::recording::{Disk, Features, SwapArea, System, Zram};

/// The machine at present; `group` is the recorded group. Figures that cannot be read are absent.
pub fn system(root: &Root, kernel: &str, group: Option<&MemoryGroup>) -> System {
    let zram = zram::devices(root).unwrap_or_default();
    System {
        limit_bytes: group.and_then(|group| limit_bytes(root, group)),
        areas: swap::areas(root)
            .unwrap_or_default()
            .into_iter()
            .map(|found| area(root, found))
            .collect(),
        root: disk::under(root, Path::new("/")).map(disk_words),
        zram: zram
            .into_iter()
            .filter_map(|name| Some((name.clone(), compressed(root, &name)?)))
            .collect(),
        features: feature_words(features::features(root, kernel)),
    }
}

/// The limit of `group`, if it is less than the memory of the machine.
fn limit_bytes(root: &Root, group: &MemoryGroup) -> Option<u64> {
    let total = |group| Some(Gauge::open(root, group).ok()?.read(false)?.total);
    total(Some(group)).filter(|&limit| total(None).is_some_and(|all| limit < all))
}

fn area(root: &Root, area: swap::Area) -> SwapArea {
    let is_zram =
        area.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("zram"));
    let kind = match area.is_file {
        true => "file",
        false if is_zram => "zram",
        false => "partition",
    };
    SwapArea {
        disk: if kind == "zram" { None } else { disk::under(root, &area.path).map(disk_words) },
        path: area.path.display().to_string(),
        kind: kind.to_owned(),
        bytes: area.bytes,
        priority: area.priority,
    }
}

/// The figures of zram device `name`; None if it is not set up.
fn compressed(root: &Root, name: &str) -> Option<Zram> {
    let counts = zram::statistics(root, name).ok()??;
    let count = |field| counts.get(field).copied().unwrap_or(0);
    Some(Zram {
        algorithm: zram::algorithm(root, name).ok().flatten(),
        bytes: zram::bytes(root, name).ok()?,
        orig_data_bytes: count("orig_data_bytes"),
        mem_used_bytes: count("mem_used_bytes"),
    })
}

fn disk_words(disk: disk::Disk) -> Disk {
    Disk {
        name: disk.name,
        class: disk.class.name().to_owned(),
        version: disk.version,
        model: disk.model,
        is_rotational: disk.is_rotational,
        is_removable: disk.is_removable,
    }
}

fn feature_words(features: features::Features) -> Features {
    Features {
        zswap: features.zswap,
        has_zram: features.has_zram,
        has_fuse_loop: Some(features.has_fuse_loop),
        has_nbd: Some(features.has_nbd),
        has_ublk: Some(features.has_ublk),
        keeps_zeros_out: features.keeps_zeros_out,
        has_mthp: features.has_mthp,
        has_psi: features.has_psi,
        cgroup_version: features.cgroup_version,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Root, path: &str, text: &str) {
        let path = root.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn an_empty_machine_has_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let no = Some(false);
        let features =
            Features { has_fuse_loop: no, has_nbd: no, has_ublk: no, ..Features::default() };
        let expected = System { features, ..System::default() };
        assert_eq!(system(&Root::at(folder.path()), "6.18.0", None), expected);
    }

    #[test]
    fn areas_of_every_kind_have_their_disk_and_zram_its_counts() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let swaps = "Filename Type Size Used Priority\n\
                     /dev/zram0 partition 1024 0 100\n\
                     /dev/sda2 partition 4096 0 -2\n\
                     /data/swap file 2048 0 -3\n";
        write(&root, "/proc/swaps", swaps);
        write(&root, "/proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
        let disk = "/sys/devices/pci0/ata1/host0/block/sda";
        write(&root, &format!("{disk}/queue/rotational"), "0\n");
        for (part, number) in [("sda1", "8:1"), ("sda2", "8:2")] {
            write(&root, &format!("{disk}/{part}/partition"), "1\n");
            for link in [format!("/sys/class/block/{part}"), format!("/sys/dev/block/{number}")] {
                let link = root.path(link);
                std::fs::create_dir_all(link.parent().unwrap()).unwrap();
                std::os::unix::fs::symlink(root.path(format!("{disk}/{part}")), link).unwrap();
            }
        }
        write(&root, "/sys/block/zram0/disksize", "1048576\n");
        write(&root, "/sys/block/zram0/mm_stat", "819200 300000 409600 0 409600 0 0 0 0\n");
        write(&root, "/sys/block/zram0/comp_algorithm", "lzo [zstd]\n");
        write(&root, "/sys/block/zram1/disksize", "0\n");

        let found = system(&root, "6.18.0", None);
        let areas = found.areas.iter().map(|area| {
            let disk = area.disk.as_ref().map(|disk| (disk.name.as_str(), disk.class.as_str()));
            (area.kind.as_str(), area.bytes, area.priority, disk)
        });
        let ssd = Some(("sda", "sata-ssd"));
        let expected = [
            ("zram", 1 << 20, 100, None),
            ("partition", 4 << 20, -2, ssd),
            ("file", 2 << 20, -3, ssd),
        ];
        assert_eq!(areas.collect::<Vec<_>>(), expected);
        assert_eq!(found.root.unwrap().name, "sda");
        let zram = Zram {
            algorithm: Some("zstd".to_owned()),
            bytes: 1 << 20,
            orig_data_bytes: 819_200,
            mem_used_bytes: 409_600,
        };
        assert_eq!(found.zram, [("zram0".to_owned(), zram)].into());
        assert!(found.features.has_zram);
    }
}
