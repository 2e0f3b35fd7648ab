"""The machine of a recording, and the options and settings that follow from it."""

import json
import shlex
import subprocess
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pagewise as pw
from pagewise import _core
from pagewise.advice import served, stock_linux
from pagewise.advice.machine import (
    FAST,
    SLOW,
    SLOW_ALGORITHMS,
    SLOW_BY_VERSION,
    Completed,
    Options,
    completed,
    recorded,
    swap_disk,
)
from pagewise.advice.memory import Board, board
from pagewise.advice.setting import Setting
from pagewise.advice.stock_linux import Place
from pagewise.advice.trial import Trial
from pagewise.cli import run
from pagewise.commands.info import summary
from pagewise.errors import UsageError
from pagewise.recording import Trace

MIB = 2**20
UFS = {
    "name": "sda",
    "class": "ufs",
    "version": "3.1",
    "model": "KLUDG4UHDC-B0E1",
    "is_rotational": False,
    "is_removable": False,
}
PARTITION = {
    "path": "/dev/sda5",
    "kind": "partition",
    "bytes": 2048 * MIB,
    "priority": -2,
    "disk": UFS,
}
ZRAM = {"path": "/dev/zram0", "kind": "zram", "bytes": 512 * MIB, "priority": 100, "disk": None}
COUNTS = {
    "algorithm": "zstd",
    "bytes": 512 * MIB,
    "orig_data_bytes": 300 * MIB,
    "mem_used_bytes": 100 * MIB,
}
PHONE: dict[str, Any] = {
    "machine": "aarch64",
    "kernel": "6.12.1",
    "processors": 8,
    "memory_bytes": 4096 * MIB,
    "sources": ["swap"],
    "absent": [],
    "system": {
        "limit_bytes": None,
        "areas": [ZRAM, PARTITION],
        "root": {**UFS, "name": "sdb"},
        "zram": {"zram0": COUNTS},
        "features": {
            "zswap": None,
            "has_zram": True,
            "has_fuse_loop": True,
            "has_nbd": False,
            "has_ublk": False,
            "keeps_zeros_out": True,
            "has_mthp": False,
            "has_psi": True,
            "cgroup_version": 2,
        },
    },
}


def phone(**system: Any) -> dict[str, Any]:
    """The phone's machine, with some facts about its swap replaced."""
    machine = recorded({"recorder": deepcopy(PHONE)})
    assert machine is not None
    return {**machine, **system}


def disk(**facts: Any) -> dict[str, Any]:
    """A phone without swap areas and zram, and with its root on this disk."""
    return phone(areas=[], zram={}, root={**UFS, **facts})


def defaults(machine: Mapping[str, Any] | None, **given: Any) -> Completed:
    return completed(machine, Options(**given), "work.pgr")


def test_every_option_follows_from_a_phone():
    found = defaults(phone())
    assert (found.fast, found.slow, found.memory) == ("zram-zstd", "ufs-3.1", 4096 * MIB)
    assert found.compression == 3
    reasons = {default.option: default.why for default in found.defaults}
    assert list(reasons) == ["fast", "slow", "memory", "compression"]
    assert reasons["slow"] == "the recorded machine's sda is UFS 3.1"
    assert reasons["fast"] == "the recorded machine's zram0 compresses with zstd"
    assert "300 MiB in 100 MiB" in found.compression_source == reasons["compression"]


def test_options_of_the_caller_override_the_machine():
    given = {"fast": "dram", "slow": "emmc-5.1", "memory": "1GiB", "compression": 2.0}
    found = defaults(phone(), **given)
    assert found == Completed(**given, defaults=[])
    assert found.compression_source == "given by the caller"
    # zram's ratio does not apply to another fast device, and would make it a tier in memory.
    assert defaults(phone(), fast="optane-ssd").compression is None
    assert defaults(phone(), fast="zram-zstd").compression == 3


@pytest.mark.parametrize(
    ("facts", "device", "words"),
    [
        ({"version": "2.2"}, "ufs-2.1", "UFS 2.2"),
        ({"version": "4.0"}, "ufs-4.0", "UFS 4.0"),
        ({"class": "emmc", "version": None}, "emmc-5.1", "eMMC"),
        ({"class": "sd", "version": "A2"}, "sd-a2", "an SD card of class A2"),
        ({"class": "nvme", "version": None}, "nvme", "an NVMe disk"),
        ({"class": "sata-ssd", "version": None}, "sata-ssd", "a SATA SSD"),
        ({"class": "hdd", "version": None}, "hdd", "a hard disk"),
    ],
)
def test_disks_are_devices(facts: dict[str, Any], device: str, words: str):
    found = defaults(disk(**facts))
    assert found.slow == device
    assert f"the recorded machine's sda is {words}" in [each.why for each in found.defaults]


@pytest.mark.parametrize(
    ("facts", "candidate"),
    [
        ({"class": "virtual"}, "nvme, sata-ssd or hdd"),
        ({"version": None}, "ufs-2.1, ufs-3.1 or ufs-4.0"),
        ({"version": "5.0"}, "ufs-2.1, ufs-3.1 or ufs-4.0"),
        ({"class": "sd", "version": None}, "sd-a1 or sd-a2"),
        ({"class": "unknown"}, "`pagewise devices`"),
    ],
)
def test_a_disk_of_unknown_speed_needs_a_name(facts: dict[str, Any], candidate: str):
    with pytest.raises(UsageError, match=r"^work\.pgr: --slow is needed: .*sda is") as caught:
        defaults(disk(**facts))
    assert candidate in str(caught.value.hint)
    assert "pagewise devices probe FOLDER -o sda.toml" in str(caught.value.hint)


def test_an_error_names_every_option_that_is_needed():
    with pytest.raises(UsageError, match="--fast and --slow are needed: the recording does not"):
        defaults(None)
    with pytest.raises(UsageError, match=r": --fast is needed: the recording does not"):
        defaults(None, slow="hdd")
    bare = disk(**{"class": "virtual"})
    bare["features"] = {**bare["features"], "has_zram": False}
    with pytest.raises(UsageError, match=r"--fast and --slow are needed: .*neither.*; .*virtual"):
        defaults(bare)
    assert defaults(None, fast="dram", slow="hdd").defaults == []


def test_the_defaults_are_names_of_devices():
    known = {device["name"] for device in _core.devices()["devices"]}
    by_version = {name for versions in SLOW_BY_VERSION.values() for name in versions.values()}
    assert {FAST, *SLOW.values(), *by_version, *SLOW_ALGORITHMS.values()} <= known


def test_zram_without_enough_pages_has_no_ratio():
    few = phone(zram={"zram0": {**COUNTS, "orig_data_bytes": MIB, "mem_used_bytes": MIB // 2}})
    assert defaults(few).compression is None
    zeros = phone(zram={"zram0": {**COUNTS, "mem_used_bytes": 0}})
    assert defaults(zeros).compression is None
    random = phone(zram={"zram0": {**COUNTS, "mem_used_bytes": 310 * MIB}})
    assert defaults(random).compression == 1


def test_the_fast_device_is_the_closest_device():
    lzo = phone(zram={"zram0": {**COUNTS, "algorithm": "lzo-rle"}})
    found = defaults(lzo)
    assert found.fast == "zram-lz4" and "closest" in found.defaults[0].why
    for features, word in [({"has_zram": True}, "zram"), ({"zswap": False}, "zswap")]:
        bare = {**dict.fromkeys(("has_zram",), False), "zswap": None, **features}
        found = defaults(phone(zram={}, features=bare))
        assert (found.fast, found.defaults[0].why) == (
            "zram-lz4",
            f"the recorded machine's kernel has {word}",
        )


def test_the_disk_is_that_of_the_area_used_first():
    assert swap_disk(phone())["name"] == "sda"
    card = {**PARTITION, "priority": 5, "disk": {**UFS, "name": "mmcblk0"}}
    assert swap_disk(phone(areas=[PARTITION, card]))["name"] == "mmcblk0"
    assert swap_disk(phone(areas=[ZRAM]))["name"] == "sdb"
    assert swap_disk(phone(areas=[{**PARTITION, "disk": None}])) is None


def test_the_limit_of_a_group_is_its_memory():
    found = defaults(phone(limit_bytes=1024 * MIB))
    assert found.memory == 1024 * MIB


def test_recordings_that_do_not_say_have_no_machine():
    older = {name: value for name, value in PHONE.items() if name != "system"}
    assert recorded({"recorder": older}) is recorded({}) is None


@pytest.mark.parametrize(
    "other",
    [{"kernel": "5.10.0"}, {"machine": "x86_64"}, {"processors": 2}, {"memory_bytes": 512 * MIB}],
)
def test_joined_recordings_of_two_machines_have_no_machine(other: dict[str, Any]):
    alike = {**PHONE, "command": ["sleep", "1"]}
    assert recorded({"recorder": PHONE, "further_recorders": [alike]}) is not None
    assert recorded({"recorder": PHONE, "further_recorders": [alike, {**PHONE, **other}]}) is None


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 pages go out one after the other and come in again, twenty times in two minutes."""
    path = tmp_path_factory.mktemp("machine") / "work.csv"
    lines = ["time_s,event,process,page,state,kind"]
    for number in range(24_000):
        event, state = ("in", "") if number // 600 % 2 else ("out", "D")
        lines.append(f"{number / 200:.3f},{event},1,{number % 600},{state},anon")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def work(plain: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The plain recording with the phone as its machine."""
    known = Trace.info

    def info(trace: Trace, **options: Any) -> dict[str, Any]:
        found = known(trace, **options)
        return {**found, "header": {**found["header"], "recorder": PHONE}}

    monkeypatch.setattr(Trace, "info", info)
    return plain


def test_advice_needs_no_option(work: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["advise", "swap", str(work)]) == 0
    text, diagnostics = capsys.readouterr()
    assert "slow device ufs-3.1: the recorded machine's sda is UFS 3.1\n" in diagnostics
    assert "memory 4 GiB: all of the recorded machine's\n" in diagnostics
    assert "compression 3 to 1: the recorded machine's zram0 held 300 MiB" in diagnostics
    assert "ufs-3.1 only" in text and "compression 3 to 1: the recorded machine's" in text
    assert run(["advise", "swap", str(work), "--json", "--slow", "hdd"]) == 0
    text, diagnostics = capsys.readouterr()
    result = json.loads(text)
    assert result["slow"]["name"] == "hdd" and "slow device" not in diagnostics
    taken = {default["option"]: default["value"] for default in result["defaults"]}
    assert taken == {"--fast": "zram-zstd", "--memory": 4096 * MIB, "--compression": 3}
    assert result["machine"]["areas"] == [ZRAM, PARTITION]
    assert result["memory"]["board_bytes"] == 4096 * MIB


def test_advice_without_machine_or_options_names_them(
    plain: Path, capsys: pytest.CaptureFixture[str]
):
    assert run(["advise", "swap", str(plain)]) == 2
    assert "work.csv: --fast and --slow are needed" in capsys.readouterr().err
    result = pw.advise(plain, fast="zram-lz4", slow="ufs-3.1")
    assert (result["machine"], result["defaults"]) == (None, [])


def test_info_says_which_machine(plain: Path):
    found = pw.info(plain)
    assert "machine" not in dict(summary(found))
    rows = summary({**found, "header": {**found["header"], "recorder": PHONE}})
    text = "\n".join(f"{name}: {value}" for name, value in rows)
    assert "machine: Linux 6.12.1, aarch64, 8 processors, 4 GiB of memory" in text
    assert "/dev/sda5, partition on sda (UFS 3.1, KLUDG4UHDC-B0E1), 2 GiB, priority -2" in text
    assert "zram0: zstd, 512 MiB, 3 to 1" in text
    assert (
        "zram, FUSE and loop devices, pages of zeros not written to swap, PSI, cgroup version 2"
        in text
    )


def memory_board() -> Board:
    found = board(_core.device("zram-lz4"), None, None)
    assert found is not None
    return found


def texts(machine: Mapping[str, Any] | None, architecture: str, swap_mib: int = 700) -> list[str]:
    """The settings for 256 MiB of zram, each with its undo."""
    place = Place(machine, swap_mib * MIB, "zram-lz4")
    found = stock_linux.settings(memory_board(), 256 * MIB, architecture, place)
    assert len(found) == 3
    return [f"{setting.apply}\n{setting.undo}" for setting in found]


BARE: dict[str, Any] = {"areas": [], "zram": {}}


@pytest.mark.parametrize("architecture", ["priority", "hierarchical"])
def test_a_swap_file_is_made_if_there_is_no_area(architecture: str):
    for text in texts(phone(**BARE), architecture):
        lines = text.replace("\\\n", "").splitlines()
        made = next(line for line in lines if line.startswith("fallocate"))
        path = "/swapfile.pagewise"
        # zram holds 256 of the 700 MiB; pages in zswap's pool also have slots in the area.
        size = 768 if "zswap" in text else 512
        for part in (f"-l {size}M {path}", f"chmod 600 {path}", f"mkswap {path}", "swapon -p 1"):
            assert part in made
        assert f"swapoff {path} && rm {path}" in lines[-1]
    assert all("fallocate" in text for text in texts(None, architecture))


@pytest.mark.parametrize("architecture", ["priority", "hierarchical"])
def test_the_machines_own_area_stays(architecture: str):
    for text in texts(phone(areas=[PARTITION], zram={}), architecture):
        assert not any(word in text for word in ("swapfile", "fallocate", "/dev/sda5"))
    high = {**PARTITION, "priority": 200}
    generator, by_hand, _ = texts(phone(areas=[high], zram={}), "priority")
    assert "swap-priority = 201" in generator and "swapon -p 201 /dev/zram0" in by_hand


def test_a_fast_tier_that_holds_all_swap_gets_a_reserve_file():
    assert all("-l 256M" in text for text in texts(phone(**BARE), "priority", swap_mib=100)[:2])


def test_undo_restores_the_machines_own_zram():
    place = Place(phone(), 700 * MIB, "zram-lz4")
    generator, by_hand, zswap = stock_linux.settings(memory_board(), 256 * MIB, place=place)
    first = by_hand.apply.splitlines()[0]
    assert first == "swapoff /dev/zram0 && echo 1 > /sys/block/zram0/reset"
    size = 512 * MIB
    assert f"zramctl /dev/zram0 --algorithm zstd --size {size}" in by_hand.undo
    assert "mkswap /dev/zram0 && swapon -p 100 /dev/zram0" in by_hand.undo
    assert "systemctl restart" in generator.undo and "systemctl stop" not in generator.undo
    assert "swapoff /dev/zram0" in zswap.apply and "swapon -p 100 /dev/zram0" in zswap.undo


@pytest.mark.parametrize("architecture", ["priority", "hierarchical"])
def test_a_mapped_device_lies_before_the_machines_own_area(architecture: str):
    def mapped(machine: Mapping[str, Any]) -> list[Setting]:
        place = Place(machine, 700 * MIB, "optane-ssd")
        found = stock_linux.settings(None, 256 * MIB, architecture, place)
        return [setting for setting in found if setting.title.startswith("dm-")]

    for setting in mapped(phone(areas=[PARTITION])):
        assert setting.apply.startswith("swapoff /dev/sda5 &&")
        assert setting.undo.endswith("swapon /dev/sda5")
        assert "SLOW" not in setting.apply + setting.undo + setting.note
    file = {**PARTITION, "kind": "file", "path": "/my swap"}
    for setting in mapped(phone(areas=[file])):
        assert setting.apply.startswith("swapoff '/my swap' &&")
        assert setting.undo.endswith("swapon '/my swap'")
        assert "SLOW" not in setting.note + setting.undo and "/dev/SLOW" not in setting.apply
    assert all("/swapfile" not in setting.note for setting in mapped(phone(**BARE)))


STUBS = r"""
called() { printf '%s ' "$@" >> calls; echo >> calls; }
for name in swapoff swapon dmsetup dd; do eval "$name() { called $name \"\$@\"; }"; done
blockdev() { echo 4096; }
losetup() { called losetup "$@"; case "$1" in --find|--noheadings) echo /dev/loop7;; esac; }
"""
"""Shell functions that write down how they are called, in place of the programs."""


def calls(lines: str, folder: Path) -> list[str]:
    """The calls of a new shell that runs these lines, and refuses variables that are not set."""
    (folder / "calls").unlink(missing_ok=True)
    command = ["bash", "-u", "-c", f"{STUBS}\n{lines}"]
    subprocess.run(command, check=True, cwd=folder, timeout=60)
    return [line.strip() for line in (folder / "calls").read_text().splitlines()]


@pytest.mark.parametrize("target", ["dm-writecache", "dm-cache"])
def test_a_mapped_device_lies_before_a_swap_file(target: str, tmp_path: Path):
    file = {**PARTITION, "kind": "file", "path": "/my swap", "priority": 5}
    place = Place(phone(areas=[file]), 700 * MIB, "optane-ssd")
    found = stock_linux.settings(None, 256 * MIB, "hierarchical", place)
    (setting,) = (each for each in found if each.title.startswith(f"{target}:"))
    applied = calls(setting.apply, tmp_path)
    assert applied[:2] == [
        "swapoff /my swap",
        "losetup --find --show --direct-io=on /my swap",
    ]
    (mapped,) = (call for call in applied if call.startswith("dmsetup create swap-cached"))
    assert " /dev/loop7 " in mapped and "0 4096 " in mapped
    # A discard would punch holes into the file.
    assert ("writecache" in mapped) != ("2 writeback no_discard_passdown" in mapped)
    undone = calls(setting.undo, tmp_path)
    assert undone[0] == "swapoff /dev/mapper/swap-cached"
    assert undone[-3:] == [
        "losetup --noheadings --output NAME -j /my swap",
        "losetup --detach /dev/loop7",
        "swapon -p 5 /my swap",
    ]


def test_without_a_fast_tier_the_machines_own_area_is_enough():
    assert stock_linux.settings(None, None, place=Place(phone(), 700 * MIB)) == []
    (setting,) = stock_linux.settings(None, None, place=Place(phone(**BARE), 700 * MIB))
    assert "fallocate -l 768M" in setting.apply


def test_a_kernel_without_zswap_gets_no_setting_for_it(work: Path):
    advice = pw.advise(work)
    assert PHONE["system"]["features"]["zswap"] is None
    assert advice["today"]["architecture"] == "priority"
    titles = [setting["title"] for setting in advice["settings"]]
    assert len(titles) == 2 and not any("zswap" in title for title in titles)


@pytest.mark.parametrize(
    ("fast", "algorithm", "expected"),
    [
        ("zram-zstd", "zstd", "zstd"),
        ("zram-lz4", "lzo-rle", "lzo-rle"),
        ("zram-lz4", "zstd", "lz4"),
        ("zram-zstd", "lz4", "zstd"),
        ("dram", "lz4", "lz4"),
        ("zram-lz4", "lz4; reboot", "lz4"),
        ("zram-lz4", None, "lz4"),
    ],
)
def test_the_compression_algorithm_is_one_of_the_kernels(
    fast: str, algorithm: str | None, expected: str
):
    machine = phone(zram={"zram0": {**COUNTS, "algorithm": algorithm}})
    assert Place(machine, 0, fast).algorithm == expected


@pytest.mark.parametrize("path", ["/x; reboot/zram0", "/x$(reboot)/zram0", "/x'`reboot`'/zram0"])
def test_names_in_a_recording_never_run_as_commands(path: str):
    machine = phone(areas=[{**ZRAM, "path": path}], zram={})
    lines = "\n".join(texts(machine, "hierarchical")).splitlines()
    named = [shlex.split(line.removesuffix("\\")) for line in lines if "reboot" in line]
    assert len(named) == 5 and all(path in words for words in named)
    escape = phone(areas=[{**ZRAM, "path": "/dev/\x1b[2Jzram0"}], zram={})
    assert all("\x1b" not in text for text in texts(escape, "priority"))


SWAP_FILE = {**PARTITION, "kind": "file", "path": "/my swap"}
MACHINES = [None, phone(), phone(**BARE), phone(areas=[PARTITION]), phone(areas=[SWAP_FILE])]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("architecture", ["priority", "hierarchical"])
def test_settings_are_scripts(machine: Mapping[str, Any] | None, architecture: str):
    device = stock_linux.settings(None, 64 * MIB, place=Place(machine, 700 * MIB))
    of_devices = [text for each in device for text in (each.apply, each.undo)]
    for text in [*texts(machine, architecture), *of_devices]:
        checked = subprocess.run(
            ["bash", "-n"], input=text, text=True, capture_output=True, timeout=60
        )
        assert (checked.returncode, checked.stderr) == (0, "")


def with_carriers(**found: bool | None) -> dict[str, Any]:
    """The phone with other answers to what swapd can serve through there."""
    machine = phone()
    return {**machine, "features": {**machine["features"], **found}}


def test_swapd_runs_what_stock_linux_does_not_have():
    for machine in (phone(), with_carriers(has_fuse_loop=False, has_ublk=True)):
        assert served.missing(machine, 4096) is None
    older = with_carriers(has_fuse_loop=False, has_nbd=None, has_ublk=None)
    for machine in (None, with_carriers(has_fuse_loop=None), older):
        assert "doctor" in str(served.missing(machine, 4096))
        assert served.is_offered(machine, 4096)
    for machine, page_bytes, why in (
        (with_carriers(has_fuse_loop=False), 4096, "neither ublk, NBD, nor FUSE"),
        (phone(), 16384, "4 KiB"),
    ):
        assert why in str(served.missing(machine, page_bytes))
        assert not served.is_offered(machine, page_bytes)


@pytest.mark.parametrize("machine", [None, phone(), phone(**BARE), phone(areas=[PARTITION])])
def test_settings_of_swapd_are_scripts_that_name_its_options(machine: Mapping[str, Any] | None):
    options = {"victims_in_memory": "write", "window": "64"}
    place = Place(machine, 700 * MIB, "optane-ssd")
    service, by_hand = served.settings("adaptive", 96 * MIB + 4096, options, place)
    for setting in (service, by_hand):
        for text in (setting.apply, setting.undo):
            checked = subprocess.run(
                ["bash", "-n"], input=text, text=True, capture_output=True, timeout=60
            )
            assert (checked.returncode, checked.stderr) == (0, "")
        words = setting.apply.replace("\\\n", "")
        assert "--size 768MiB --fast 98308KiB --fast-on /dev/FAST" in words
        assert "--policy adaptive --option victims_in_memory=write " in words
        has_area = bool(machine and machine["areas"] and machine["areas"] != [ZRAM])
        # swapd should not be the only area.
        assert ("fallocate -l 256M /swapfile.pagewise" in words) != has_area
        assert ("rm /swapfile.pagewise" in setting.undo) != has_area
    assert "98 MiB" in service.note and "30 to 40 us" in service.note and "FUSE" in service.note
    assert ("doctor" in service.note) == (machine is None)


@pytest.mark.parametrize("machine", [None, phone(), phone(**BARE)])
@pytest.mark.parametrize(
    ("ratio", "memory"), [(2.0, "--fast 136MiB"), (1.0, "--fast 272MiB"), (9.0, "--fast 64MiB")]
)
def test_a_tier_in_memory_is_one_that_swapd_compresses(
    machine: Mapping[str, Any] | None, ratio: float, memory: str
):
    tier = replace(memory_board(), compression={"low": ratio, "typical": ratio, "high": ratio})
    place = Place(machine, 700 * MIB, "zram-zstd")
    for setting in served.settings("hybrid", 256 * MIB, {}, place, tier):
        for text in (setting.apply, setting.undo):
            checked = subprocess.run(
                ["bash", "-n"], input=text, text=True, capture_output=True, timeout=60
            )
            assert (checked.returncode, checked.stderr) == (0, "")
        words = setting.apply.replace("\\\n", "")
        assert f"--size 768MiB {memory} --compress zstd --slow" in " ".join(words.split())
        assert "--fast-on" not in words
        has_zram = machine is not None and ZRAM in machine["areas"]
        assert ("swapoff /dev/zram0" in words) == has_zram
        assert ("swapon -p 100 /dev/zram0" in setting.undo) == has_zram


def test_advice_offers_swapd_where_it_runs(work: Path, monkeypatch: pytest.MonkeyPatch):
    # At a size that holds all pages, as here, the best of all is one of stock Linux.
    monkeypatch.setattr(Trial, "best_at", lambda self, size: "adaptive")
    on_device = pw.advise(work, fast="optane-ssd", slow="ufs-3.1")
    best = on_device["best"]
    assert (best["by"], best["can_run"], best["missing"]) == ("swapd", True, None)
    offered = [each for each in on_device["settings"] if each["title"].startswith("swapd: ")]
    assert len(offered) == 2 and best["architecture"] in offered[0]["title"]
    assert offered[0]["note"].startswith(best["architecture"].capitalize())
    in_memory = pw.advise(work)
    assert (in_memory["best"]["by"], in_memory["best"]["can_run"]) == ("swapd", True)
    offered = [each for each in in_memory["settings"] if each["title"].startswith("swapd: ")]
    assert len(offered) == 2 and "--compress " in offered[0]["apply"]
