"""The guests of one host: their spec file, and the files to start them."""

import json
import re
import resource
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hand_curves import HandCurve, HandCurves, dense
from test_schemas import check

from pagewise import layouts
from pagewise.advice.page_size import machines, mthp
from pagewise.errors import UnreadableInput, UnwritableOutput, UsageError
from pagewise.guests.apply import apply
from pagewise.guests.spec import load, parse
from pagewise.reference_curves import curves

MIB = 2**20
HOST = """
storage = "optane-ssd"
kernel_arguments = "root=/dev/vda1 quiet"

[kernels.arm64]
"4KiB" = "it's small"
"16KiB" = "vmlinuz-16k"

[[vm]]
name = "dense-x86"
workload = "dense.pwf"
memory = "16MiB"

[[vm]]
name = "dense-arm"
workload = "dense.pwf"
memory = "16MiB"
architecture = "arm64"
system_memory = "100MiB"

[[vm]]
name = "flat"
workload = "flat.pwf"
memory = "100%"
storage = "hdd"
architecture = "arm64"
host_huge_pages = true
"""
FLAT = HandCurves({512 << step: HandCurve(1024, {90: 1}, 1024) for step in range(13)})
CURVES = {"dense.pwf": dense(), "flat.pwf": FLAT}


def curves_of(path: Path) -> HandCurves:
    return CURVES[path.name]


@pytest.fixture
def host(tmp_path: Path) -> Path:
    path = tmp_path / "host.toml"
    path.write_text(HOST)
    return path


def test_each_guest_gets_its_own_size(host: Path, tmp_path: Path) -> None:
    result = apply(host, tmp_path / "out", curves_of)
    check(result, layouts.schema("pagesize-apply"))
    x86, arm, flat = result["guests"]
    assert x86["page_bytes"] > 4096 and x86["page_bytes"] != 8192
    short = f"{x86['page_bytes'] // 1024}K" if x86["page_bytes"] < MIB else "2M"
    assert x86["kernel_arguments"] == f"root=/dev/vda1 quiet thp_anon={short}:always"
    # arm64 has only the kernels in the file.
    assert (arm["page_bytes"], arm["kernel"]) == (16384, str(tmp_path / "vmlinuz-16k"))
    assert (flat["page_bytes"], flat["kernel"]) == (4096, str(tmp_path / "it's small"))
    for guest in (arm, flat):
        assert guest["kernel_arguments"] == "root=/dev/vda1 quiet transparent_hugepage=madvise"
    assert [bool(guest["settings"]) for guest in result["guests"]] == [True, True, False]
    assert [guest["memory_bytes"] for guest in result["guests"]] == [16 * MIB, 16 * MIB, 4 * MIB]


def test_the_files_of_a_guest_start_it(host: Path, tmp_path: Path) -> None:
    result = apply(host, tmp_path / "out", curves_of)
    for guest in result["guests"]:
        folder = tmp_path / "out" / guest["name"]
        assert sorted(map(str, folder.iterdir())) == sorted(guest["files"])
        arguments = (folder / "kernel-arguments").read_text().strip()
        assert arguments == guest["kernel_arguments"]
        words = subprocess.check_output(
            ["xargs", "-a", folder / "qemu.args", "printf", "%s\\n"], text=True, timeout=60
        ).splitlines()
        assert words == shlex.split((folder / "qemu.args").read_text())
        domain = ElementTree.fromstring((folder / "libvirt.xml").read_text())
        assert domain.findtext("name") == guest["name"]
        memory = int(domain.findtext("memory") or 0) * MIB
        assert memory >= guest["memory_bytes"] + 100 * MIB
        assert f"{memory // MIB}M" in words
        if guest["kernel"]:
            assert words[-4:] == ["-kernel", guest["kernel"], "-append", arguments]
            assert domain.findtext("os/cmdline") == arguments
        is_backed = guest["name"] == "flat"
        assert ("hugetlb=on" in " ".join(words)) == is_backed
        assert (domain.find("memoryBacking/hugepages/page") is not None) == is_backed
        assert (folder / "tmpfiles.conf").exists() == (guest["architecture"] == "x86-64")


def test_the_undo_of_the_files_restores_the_host_and_the_guest(
    host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, inside = tmp_path / "nr_hugepages", tmp_path / "tmpfiles.conf"
    monkeypatch.setattr(machines, "POOL", str(pool))
    monkeypatch.setattr(mthp, "TMPFILES", str(inside))
    x86, arm, flat = apply(host, tmp_path / "out", curves_of)["guests"]
    pool.write_text("7\n")
    inside.touch()  # stands for the file in the guest dense-x86
    (needed,) = (note for note in flat["notes"] if "reserved pages" in note)
    subprocess.run(["sh", "-e", "-c", needed.partition(": ")[2]], check=True, timeout=60)
    words = (tmp_path / "out" / "flat" / "qemu.args").read_text()
    (memory,) = set(re.findall(r",size=(\d+)M", words))
    assert int(pool.read_text()) == 7 + int(memory) // 2
    for guest in (x86, arm, flat):
        undo = tmp_path / "out" / guest["name"] / "undo"
        subprocess.run(["sh", "-e", undo], check=True, timeout=60)
    assert pool.read_text() == "7\n" and not inside.exists()


def test_a_workload_of_another_processor_or_of_a_cut_run_gets_a_note(
    host: Path, tmp_path: Path
) -> None:
    known = replace(dense(), architecture="aarch64", cut="the capture was interrupted")
    x86, arm, _ = apply(host, tmp_path / "out", lambda _: known)["guests"]
    cut = "the capture was interrupted: the counts cover the run up to there"
    other = "its workload is a program for arm64, but the guest is x86-64"
    assert x86["notes"][:2] == [f"dense-x86: {cut}", f"dense-x86: {other}"]
    assert arm["notes"][0] == f"dense-arm: {cut}" and other not in str(arm["notes"])


def test_no_file_is_overwritten_without_force(host: Path, tmp_path: Path) -> None:
    apply(host, tmp_path / "out", curves_of)
    with pytest.raises(UsageError, match="exists"):
        apply(host, tmp_path / "out", curves_of)
    apply(host, tmp_path / "out", curves_of, force=True)


def test_a_full_disk_leaves_the_files_of_all_guests_or_none(host: Path, tmp_path: Path) -> None:
    long, out = tmp_path / "long.toml", tmp_path / "parent" / "out"
    long.write_text(f'{HOST.replace("quiet", "loud")}\nkernel_arguments = "{5000 * "a"}"\n')
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(UnwritableOutput, match="out: "):
            apply(long, out, curves_of)
        assert not out.parent.exists()
        apply(host, out, curves_of)
        written = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        with pytest.raises(UnwritableOutput, match="out: "):
            apply(long, out, curves_of, force=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == written
    apply(long, out, curves_of, force=True)
    assert "loud" in (out / "dense-x86" / "kernel-arguments").read_text()
    assert {path.name for path in out.iterdir()} == {"dense-x86", "dense-arm", "flat"}


def test_a_guest_too_small_for_larger_pages_gets_a_note(tmp_path: Path) -> None:
    table = {"workload": "dense.pwf", "memory": "10%", "storage": "optane-ssd"}
    path = tmp_path / "host.toml"
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in table.items())
    path.write_text(f'architecture = "arm64"\n[[vm]]\nname = "small"\n{lines}')
    (guest,) = apply(path, tmp_path / "out", curves_of)["guests"]
    assert guest["page_bytes"] == 4096
    assert "the only size of the guest that could be judged" in guest["notes"][1]
    assert "needs a kernel with base pages of 4 KiB" in guest["notes"][2]


def test_a_missing_kernel_gets_a_note(host: Path, tmp_path: Path) -> None:
    (tmp_path / "it's small").touch()
    x86, arm, flat = apply(host, tmp_path / "out", curves_of)["guests"]
    (of_host,) = x86["notes"]
    assert of_host.startswith(
        "dense-x86: the host must hold the guest's memory in pages of 128 KiB"
    )
    assert x86["host_page_bytes"] == x86["page_bytes"] == 131072
    assert not any("does not exist" in note for note in flat["notes"])
    assert arm["notes"][0] == f"dense-arm starts from {arm['kernel']}, which does not exist here"


def test_a_guest_without_an_answer_is_named_and_no_file_is_written(
    host: Path, tmp_path: Path
) -> None:
    host.write_text(HOST.replace('"16MiB"', '"64KiB"', 1))
    with pytest.raises(UsageError, match=r"host\.toml: vm 'dense-x86': .*too small"):
        apply(host, tmp_path / "out", curves_of)
    assert not (tmp_path / "out").exists()


GUEST = {"name": "a", "workload": "a.pwf", "memory": "80%", "storage": "hdd"}


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({}, "no guest"),
        ({"vm": []}, "no guest"),
        ({"vm": [1]}, "not a table"),
        ({"vm": [{}]}, "needs 'name'"),
        ({"vm": [GUEST | {"name": "../a"}]}, "not a name"),
        ({"vm": [GUEST | {"name": ".."}]}, "not a name"),
        ({"vm": [GUEST | {"name": "a" * 65}]}, "not a name"),
        ({"vm": [GUEST, GUEST]}, "two guests have the name 'a'"),
        ({"vm": [GUEST | {"storag": "hdd"}]}, "vm 'a' has unknown entries: storag"),
        ({"vm": [{"name": "a", "workload": "a.pwf", "storage": "hdd"}]}, "needs 'memory'"),
        ({"vm": [GUEST | {"architecture": "mips"}]}, "no architecture 'mips'"),
        ({"vm": [GUEST | {"host_huge_pages": "no"}]}, "true or false"),
        ({"vm": [GUEST | {"kernel_arguments": "a\nb"}]}, "one line"),
        ({"vm": [GUEST | {"walk": "sideways"}]}, "walk: 'sideways'"),
        ({"vm": [GUEST | {"cached_levels": 4}]}, "cached_levels: 4 is not from 0 to 3"),
        ({"vm": [GUEST | {"walk_levels": 2.5}]}, "walk_levels: 2.5 is not a whole number"),
        ({"vm": [GUEST | {"tlb": 0}]}, "tlb: 0 is not from 1 to 65536"),
        ({"vm": [GUEST | {"dram_ns": "fast"}]}, "dram_ns: 'fast' is not a number"),
        ({"vm": [GUEST | {"fault_ns": float("nan")}]}, "fault_ns: nan is not from"),
        ({"vm": [GUEST | {"system_memory": "lots"}]}, "vm 'a': system_memory: not a size"),
        ({"vm": [GUEST | {"system_memory": float("inf")}]}, "system_memory: inf is not a size"),
        ({"vm": [GUEST | {"system_memory": True}]}, "system_memory: True is not a size"),
        ({"vm": [GUEST], "kernels": {"mips": {}}}, "unknown entries: mips"),
        ({"vm": [GUEST], "kernels": {"arm64": "vmlinuz"}}, "not a table"),
        ({"vm": [GUEST], "kernels": {"arm64": {"big": "vmlinuz"}}}, "not a size"),
        ({"vm": [GUEST], "kernels": {"arm64": {"2MiB": "k"}}}, "not a base page of this"),
        ({"vm": [GUEST], "kernels": {"x86-64": {"16KiB": "k"}}}, "not a base page of this"),
        ({"vm": [GUEST], "kernels": {"arm64": {"4KiB": ["k"]}}}, "not a path on one line"),
        ({"vm": [GUEST], "kernels": {"arm64": {"4KiB": "k\n-snapshot"}}}, "not a path on one line"),
    ],
)
def test_an_invalid_file_is_refused_with_its_fault(spec: dict[str, object], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse(spec, Path())


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput):
        load(tmp_path / "absent.toml")
    path = tmp_path / "bad.toml"
    path.write_text("[[vm]\n")
    with pytest.raises(UsageError, match="not a TOML file"):
        load(path)
    path.write_text("vm = " + "[" * 5000 + "]" * 5000)
    with pytest.raises(UsageError, match="not a TOML file"):
        load(path)
    path.write_text("vms = 1\n")
    with pytest.raises(UsageError, match=r"bad\.toml: the file has unknown entries: vms"):
        load(path)


HOSTS = [
    Path(__file__).parents[1] / "examples" / "page-size" / f"vms-{number}.toml"
    for number in range(1, 6)
]


@pytest.mark.slow
def test_every_guest_of_the_paper_has_an_answer(tmp_path: Path) -> None:
    for host in HOSTS:
        result = apply(host, tmp_path / host.stem, curves)
        for guest in result["guests"]:
            assert guest["page_bytes"] in (4096, *(16384 << step for step in range(8)))
            assert guest["storage"] != "hdd" or guest["page_bytes"] == 4096
            assert all(Path(file).read_text() for file in guest["files"])


def test_the_scenarios_of_the_paper_ship() -> None:
    hosts = [load(path) for path in HOSTS]
    assert [len(host) for host in hosts] == [3, 3, 2, 2, 2]
    guests = [guest for host in hosts for guest in host]
    assert [guest.name for guest in guests] == [f"vm-{number}" for number in range(1, 13)]
    assert {guest.name for guest in guests if guest.storage == "hdd"} == {"vm-6", "vm-12"}
