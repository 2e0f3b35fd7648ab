use super::*;

#[test]
fn builtin_devices_come_quickest_first() {
    let names: Vec<String> = names().collect();
    assert_eq!(names.len(), BUILTIN.len());
    let place = |name: &str| names.iter().position(|other| other == name).unwrap();
    assert!(place("dram") < place("zram-lz4") && place("zram-lz4") < place("ufs-3.1"));
    assert_eq!(place("hdd"), names.len() - 1);
}

#[test]
fn every_builtin_device_has_the_name_of_its_file_and_the_origin_of_its_figures() {
    for (file, text) in BUILTIN {
        let device = Device::from_toml(text, file).unwrap();
        assert_eq!(*file, device.name);
        assert!(!device.summary.is_empty());
        for latency in [&device.read, &device.write] {
            assert!(!latency.provenance.source.is_empty(), "{file}");
            assert_eq!(latency.provenance.date.len(), "2026-11-20".len(), "{file}");
            if latency.provenance.source.contains("recalled") {
                assert!(!latency.provenance.verified, "{file}");
            }
        }
    }
}

#[test]
fn typical_is_the_geometric_mean_of_the_range() {
    let ufs = Device::resolve("ufs-3.1").unwrap();
    assert_eq!(ufs.read.typical_ns, 89_443);
    assert_eq!((ufs.read.low_ns, ufs.read.high_ns), (80_000, 100_000));
}

#[test]
fn a_pair_takes_its_unit_from_the_write() {
    for (text, read_ns, write_ns) in [
        ("90/40us", 90_000, 40_000),
        ("4us/5us", 4_000, 5_000),
        ("500ns/1.5ms", 500, 1_500_000),
        ("1/0us", 1_000, 0),
        ("2/1s", 2_000_000_000, 1_000_000_000),
    ] {
        let device = Device::resolve(text).unwrap();
        assert_eq!((device.read.typical_ns, device.write.typical_ns), (read_ns, write_ns));
        assert_eq!(device.name, text);
    }
}

#[test]
fn only_memory_has_a_compression_ratio() {
    let in_memory: Vec<String> =
        builtin().filter(|device| device.compression.is_some()).map(|device| device.name).collect();
    assert_eq!(in_memory, ["dram", "zram-lz4", "zram-zstd"]);
    let zram = Device::resolve("zram-lz4").unwrap().compression.unwrap();
    assert_eq!((zram.low, zram.typical, zram.high), (2.06, 2.06, 2.06));
}

#[test]
fn disks_and_flash_have_a_queue_depth_and_devices_like_memory_have_none() {
    let has = |name: &str| Device::resolve(name).unwrap().queue_depth.is_some();
    let like_memory = ["dram", "optane-pmem", "stt-mram", "zram-lz4", "pcm", "zram-zstd"];
    assert_eq!(like_memory.map(has), [false; 6]);
    let others = ["hdd", "sd-a1", "emmc-5.1", "ufs-3.1", "sata-ssd", "nvme", "optane-ssd"];
    assert_eq!(others.map(has), [true; 7]);
}

#[test]
fn a_device_serves_its_queue_depth_at_a_time_or_one_operation() {
    let units = |text| Device::resolve(text).unwrap().units();
    assert_eq!(["ufs-3.1", "emmc-5.1", "sd-a1", "90/40us"].map(units), [9, 2, 1, 1]);
}

#[test]
fn a_queue_depth_beyond_any_device_is_refused() {
    let text = BUILTIN.iter().find(|(name, _)| *name == "sd-a2").unwrap().1;
    let with = |high: &str| text.replace("high = 2.8", &format!("high = {high}"));
    assert!(Device::from_toml(&with("65536.0"), "mine").is_ok());
    for high in ["65537.0", "1e15"] {
        let error = Device::from_toml(&with(high), "mine").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device);
        assert_eq!(error.to_string(), "mine: [queue_depth] must be at most 65536");
    }
}

#[test]
fn a_transfer_of_a_page_takes_about_as_long_as_a_page_read() {
    let transfers: Vec<(Device, Transfer)> = builtin()
        .filter_map(|device| device.transfer.clone().map(|transfer| (device, transfer)))
        .collect();
    assert!(transfers.iter().any(|(device, _)| device.name == "hdd"));
    for (device, transfer) in transfers {
        let bytes_ns = 4096.0 * 1e3 / transfer.bandwidth_mb_s.typical;
        let ratio = (transfer.setup.typical_ns as f64 + bytes_ns) / device.read.typical_ns as f64;
        assert!((0.5..2.0).contains(&ratio), "{}: {ratio}", device.name);
    }
}

#[test]
fn an_unknown_device_is_refused_with_the_known_names() {
    let unknown = Device::resolve("flsh").unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::Usage);
    assert!(unknown.to_string().contains("ufs-3.1"), "{unknown}");
    for text in ["90/40", "90us/40", "90/40 parsecs", "1e99/1us", "90/-4us", "2000s/2000s"] {
        assert_eq!(Device::resolve(text).unwrap_err().kind(), ErrorKind::Usage, "{text}");
    }
}

#[test]
fn a_file_that_contradicts_itself_is_refused() {
    let text = |low: &str| {
        format!(
            "name='x'\n[read]\nlow_us={low}\nhigh_us=2\nsource='s'\ndate='d'\nverified=true\n\
                 [write]\nlow_us=1\nhigh_us=2\nsource='s'\ndate='d'\nverified=true\n"
        )
    };
    assert!(Device::from_toml(&text("1"), "mine").is_ok());
    for low in ["3", "-1", "nan"] {
        let error = Device::from_toml(&text(low), "mine").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device);
        assert!(error.to_string().starts_with("mine: [read]"), "{error}");
    }
    let figures = "source='s'\ndate='d'\nverified=true\n";
    let transfer = format!(
        "{}[transfer.setup]\nlow_us=1\nhigh_us=2\n{figures}\
             [transfer.bandwidth_mb_s]\nlow=0\nhigh=2\n{figures}",
        text("1")
    );
    let error = Device::from_toml(&transfer, "mine").unwrap_err();
    assert!(error.to_string().starts_with("mine: [transfer.bandwidth_mb_s]"), "{error}");
}

#[test]
fn a_ratio_makes_a_device_faster_by_that_factor() {
    let slow = Device::resolve("90/40us").unwrap();
    let fast = slow.faster_by(LatencyRatio { slow_to_fast_read: 15.0, write_to_read: 2.0 });
    assert_eq!((fast.read.typical_ns, fast.write.typical_ns), (6_000, 12_000));
    assert_eq!(latency_ratios().len(), 9);
}

#[test]
fn every_builtin_device_has_times_for_larger_pages() {
    for device in builtin() {
        let larger = device.with_pages_of(16384);
        for (small, large) in [(&device.read, &larger.read), (&device.write, &larger.write)] {
            assert!(
                large.low_ns >= small.low_ns && large.high_ns > small.high_ns,
                "{}",
                device.name
            );
            assert!(large.low_ns <= large.typical_ns && large.typical_ns <= large.high_ns);
        }
        // Reading four pages at once takes about as long as one after another, or is faster.
        assert!(10 * larger.read.typical_ns <= 42 * device.read.typical_ns, "{}", device.name);
        assert_eq!(device.with_pages_of(4096), device);
    }
}

#[test]
fn a_larger_page_adds_the_transfer_of_its_further_bytes() {
    let larger = Device::resolve("ufs-3.1").unwrap().with_pages_of(16384);
    // 12,288 bytes at 2,100, 1,733 and 1,430 MB/s.
    let read = &larger.read;
    assert_eq!([read.low_ns, read.typical_ns, read.high_ns], [85_851, 96_534, 108_593]);
    assert!(!read.provenance.verified);
    // At most four writes of 50 us.
    let write = &larger.write;
    assert_eq!([write.low_ns, write.typical_ns, write.high_ns], [30_851, 78_551, 200_000]);
}

#[test]
fn a_device_file_may_have_a_bandwidth_of_writes() {
    let section = |name: &str, figures: &str| {
        format!("[{name}]\n{figures}\nsource = \"x\"\ndate = \"2026-11-20\"\nverified = true\n")
    };
    let text = [
        "name = \"card\"\n".to_owned(),
        section("read", "low_us = 10.0\nhigh_us = 10.0"),
        section("write", "low_us = 20.0\nhigh_us = 20.0"),
        section("transfer.setup", "low_us = 9.0\nhigh_us = 9.0"),
        section("transfer.bandwidth_mb_s", "low = 1000\nhigh = 1000"),
        section("transfer.write_bandwidth_mb_s", "low = 100\nhigh = 400"),
    ];
    let larger = Device::from_toml(&text.concat(), "card.toml").unwrap().with_pages_of(16384);
    let write = &larger.write;
    assert_eq!([write.low_ns, write.typical_ns, write.high_ns], [50_720, 81_440, 142_880]);
    assert_eq!(larger.read.typical_ns, 22_288);
    assert!(write.provenance.verified);
    let wrong = text.concat().replace("low = 100\n", "low = 0\n");
    let error = Device::from_toml(&wrong, "card.toml").unwrap_err().to_string();
    assert!(error.contains("[transfer.write_bandwidth_mb_s]"), "{error}");
}

#[test]
fn times_given_by_the_caller_apply_to_the_page() {
    let device = Device::resolve("90/40us").unwrap();
    assert_eq!(device.with_pages_of(16384), device);
}

#[test]
fn unknown_times_of_larger_pages_are_bounded() {
    let larger = Device::resolve("sata-ssd").unwrap().with_pages_of(16384);
    let read = &larger.read;
    assert_eq!([read.low_ns, read.typical_ns, read.high_ns], [91_000, 208_998, 480_000]);
    assert!(read.provenance.source.contains("at most 4 operations"));
}
