"""`pagewise pagesize verify --guest` without a guest: forecast, files, figures and errors.

`tests/vm/test_page_size_trial.py` boots guests.
"""

import shutil
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from hand_curves import HandCurve, HandCurves, dense
from test_schemas import check

from pagewise import layouts
from pagewise.capture.program import find
from pagewise.capture.run import PLUGIN, capture
from pagewise.cli import run
from pagewise.commands.pagesize_guest import described
from pagewise.errors import Missing, UnreadableInput, UsageError
from pagewise.guests import boot, debian, verify
from pagewise.guests.boot import Answer, GuestFailed, Machine, modules
from pagewise.guests.forecast import Faults, faults_by_size, simple_forecast, starts
from pagewise.guests.program import copy, copy_files
from pagewise.guests.spec import parse

KIB = 1024
needs_emulator = pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="needs qemu-user")


def test_the_simple_forecast_counts_writes_by_page_reads_by_window_and_returns_by_base_page():
    curves = HandCurves(
        {
            4 * KIB: HandCurve(100, {90: 7, 30: 1000}, cold_written=60),
            16 * KIB: HandCurve(40, {30: 5}, cold_written=20),
            64 * KIB: HandCurve(15, {14: 3}, cold_written=6),
        }
    )
    files = 15 - 6
    assert simple_forecast(curves, 4 * KIB, 4 * KIB, 400 * KIB) == 60 + files
    assert simple_forecast(curves, 4 * KIB, 4 * KIB, 200 * KIB) == 60 + files + 7
    # Transparent huge pages come back by base pages.
    assert simple_forecast(curves, 16 * KIB, 4 * KIB, 200 * KIB) == 20 + files + 7
    assert simple_forecast(curves, 16 * KIB, 16 * KIB, 320 * KIB) == 20 + files + 5
    assert simple_forecast(curves, 64 * KIB, 64 * KIB, 640 * KIB) == 6 + files + 3


def test_only_kernels_with_base_pages_of_4_kib_get_the_forecast_of_the_kernel():
    forecasts = {size * KIB: Faults(20, 10, 30) for size in (4, 16)}

    def expected(size: int, of: dict[int, Faults] | None) -> Faults:
        return verify.expected_of(size, setup(), dense(), 4 << 20, of)

    simple = simple_forecast(dense(), 16 * KIB, 16 * KIB, 4 << 20)
    assert expected(4 * KIB, forecasts) == Faults(20, 10, 30)
    # A kernel of the guest has this base page.
    assert expected(16 * KIB, forecasts) == Faults(simple, simple, simple)
    assert expected(4 * KIB, None).low == simple_forecast(dense(), 4 * KIB, 4 * KIB, 4 << 20)


def test_starts_are_within_a_page_or_the_window_around_a_fault():
    assert starts(4 * KIB) == starts(64 * KIB) == [0, 2, 4, 6, 8, 10, 12, 14]
    assert starts(2 << 20) == [0, 64, 128, 192, 256, 320, 384, 448]


@needs_emulator
@pytest.mark.skipif(not PLUGIN.exists(), reason="no capture plugin: make build")
def test_a_captured_program_faults_more_often_in_less_memory(tmp_path):
    trace = tmp_path / "sort.pwf"
    source = tmp_path / "lines"
    source.write_text("".join(f"{number * 7919 % 10007}\n" for number in range(10_000)))
    capture(["sort", str(source)], trace, threads=True, stdout=subprocess.DEVNULL)
    sizes = [4 * KIB, 16 * KIB]
    ample, short = (faults_by_size(str(trace), sizes, memory) for memory in (1 << 30, 1 << 20))
    assert ample is not None and short is not None
    for size in sizes:
        assert ample[size].low <= ample[size].typical <= ample[size].high < short[size].low
    assert ample[16 * KIB].high < ample[4 * KIB].low


@needs_emulator
def test_all_files_that_a_program_opens_are_copied(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'it"s input').write_text("text")
    (tmp_path / "input").write_text("text")
    root = tmp_path / "root"
    root.mkdir()
    content_bytes = copy_files(find(["cat", "input"]), tmp_path / "log", root)
    copied = {"/" + str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert {str(tmp_path / "input"), find(["cat"]).path} <= copied
    assert any(Path(path).name.startswith("libc.so") for path in copied)
    assert any("ld-linux" in path for path in copied)
    assert not any(path.startswith(("/proc", "/sys", "/dev")) for path in copied)
    assert not (root / str(tmp_path / 'it"s input').lstrip("/")).exists()
    assert content_bytes == sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


@needs_emulator
def test_a_program_that_fails_here_starts_no_guest(tmp_path):
    with pytest.raises(UsageError, match="ended with status 1"):
        copy_files(find(["cat", str(tmp_path / "missing")]), tmp_path / "log", tmp_path / "root")


def test_outputs_get_their_folder_and_libraries_come_from_their_root(tmp_path):
    here, libraries, root = (tmp_path / name for name in ("here", "libraries", "root"))
    here.mkdir()
    library = libraries / str(here / "library.so").lstrip("/")
    library.parent.mkdir(parents=True)
    library.write_text("for another processor")
    (here / "library.so").write_text("of this machine")
    copy(str(here / "output"), None, root)
    copied = root / str(here).lstrip("/")
    assert list(copied.iterdir()) == []
    assert copy(str(here / "library.so"), str(libraries), root) == len("for another processor")
    assert (copied / "library.so").read_text() == "for another processor"


def test_paths_that_the_program_cannot_open_are_left_out(tmp_path):
    unreadable = tmp_path / "unreadable"
    unreadable.touch(mode=0)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    for path in (tmp_path / ("long" * 75), unreadable, closed / "file"):
        assert copy(str(path), None, tmp_path / "root") == 0
    closed.chmod(0o700)  # pytest removes it


def setup() -> verify.Setup:
    guest = parse(
        {
            "architecture": "arm64",
            "storage": "hdd",
            "kernels": {"arm64": {"4KiB": "small", "16KiB": "large"}},
            "vm": [{"name": "verify", "workload": "program", "memory": "100%"}],
        },
        Path(),
    )[0]
    machines = {4 * KIB: Machine("arm64"), 16 * KIB: Machine("arm64")}
    return verify.Setup(find(["cat"]), guest, machines, [4 * KIB, 16 * KIB])


def answer(folder: Path, status: int = 0, oom_kills: int = 0) -> Answer:
    (folder / "before").write_text("sectors 10\ncpu_us 100\nhuge_pages 5\n")
    (folder / "after").write_text("sectors 18\ncpu_us 350\nhuge_pages 7\n")
    (folder / "faults").write_text("3 40\n")
    (folder / "messages").write_text("xz: no such file\n")
    (folder / "memory.events").write_text(f"oom 3\noom_kill {oom_kills}\n")
    return Answer(status, "", folder, "")


def test_figures_are_what_the_guest_counted_between_start_and_end(tmp_path):
    found = verify.measured(answer(tmp_path), "xz", 16 * KIB, 4 << 20)
    assert found == verify.Measured(
        faults=43, instructions=250_000, bytes_read=8 * 512, huge_pages=2
    )
    rounds = [replace(found, faults=faults, huge_pages=faults) for faults in (50, 40, 43)]
    of_size = verify.summary(16 * KIB, rounds, Faults(20, 10, 30), dense())
    assert of_size["faults"] == {
        "forecast": 20,
        "forecast_low": 10,
        "forecast_high": 30,
        "measured": 43,
        "measured_low": 40,
        "measured_high": 50,
    }
    assert of_size["huge_pages"] == 43
    trial = {
        "schema": verify.SCHEMA,
        "command": ["xz"],
        "architecture": "arm64",
        "kernels": ["6.12"],
        "memory_bytes": 4 << 20,
        "footprint_bytes": 4 << 20,
        "rounds": 3,
        "sizes": [of_size],
        "notes": ["cut"],
    }
    check(trial, layouts.schema("pagesize-guest"))
    assert described(trial)[-1] == "note: cut"


def test_a_note_says_which_sizes_the_kernel_could_not_give():
    curves = HandCurves({size * KIB: HandCurve(100, {}, cold_written=100) for size in (4, 16, 64)})
    runs = [
        {"page_bytes": size * KIB, "huge_pages": given}
        for size, given in ((4, 0), (16, 0), (64, 49), (128, 50))
    ]
    curves.sizes[128 * KIB] = curves.sizes[64 * KIB]
    (note,) = verify.few_huge_pages(runs, setup(), curves)
    # 16 KiB is a base page of one of the kernels.
    assert "fewer pages of 64 KiB than half of the blocks" in note and "top_pad" in note
    assert verify.few_huge_pages(runs[:2] + runs[3:], setup(), curves) == []


def test_a_note_says_which_forecasts_are_lower_bounds():
    assert verify.lower_bounds(setup(), dense(), 64 * 16 * KIB, None) == []
    (note,) = verify.lower_bounds(setup(), dense(), 63 * 16 * KIB, None)
    assert "fewer than 64 pages of 16 KiB" in note
    # The filter of this trace holds fewer blocks.
    assert verify.lower_bounds(setup(), replace(dense(), exact_from=4), 63 * 16 * KIB, None) == []
    # The forecast that follows the kernel is none.
    forecasts = {4 * KIB: Faults(1, 1, 1)}
    (note,) = verify.lower_bounds(setup(), dense(), 63 * 4 * KIB, forecasts)
    assert "fewer than 64 pages of 16 KiB" in note


def test_errors_of_the_program_in_the_guest_say_what_happened(tmp_path):
    with pytest.raises(GuestFailed, match="16 KiB, with status 1: xz: no such file"):
        verify.measured(answer(tmp_path, status=1), "xz", 16 * KIB, 4 << 20)
    with pytest.raises(GuestFailed, match="too little memory for xz"):
        killed = answer(tmp_path, status=137, oom_kills=1)
        verify.measured(killed, "xz", 16 * KIB, 4 << 20)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("CONFIG_ARM64_4K_PAGES=y", 4 * KIB),
        ("CONFIG_ARM64_16K_PAGES=y", 16 * KIB),
        ("CONFIG_ARM64_64K_PAGES=y", 64 * KIB),
        ("# CONFIG_ARM64_64K_PAGES is not set", 4 * KIB),
    ],
)
def test_a_kernels_configuration_says_its_base_page(line, expected, tmp_path, monkeypatch):
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot" / "config-6.12").write_text(f"CONFIG_X=y\n{line}\n")
    monkeypatch.setattr(verify, "kernel_of", lambda machine: tmp_path)
    assert verify.base_bytes(Machine(kernel="some.deb")) == expected


@pytest.mark.parametrize(
    ("processor", "expected"),
    [
        ("X86_64", "two.deb: a second kernel with base pages of 4 KiB"),
        ("ARM64", "one.deb: not a kernel for x86-64"),
    ],
)
def test_kernels_that_do_not_fit_are_refused(processor, expected, tmp_path, monkeypatch):
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot" / "config-6.12").write_text(f"CONFIG_64BIT=y\nCONFIG_{processor}=y\n")
    monkeypatch.setattr(verify, "require", lambda machine: None)
    monkeypatch.setattr(verify, "kernel_of", lambda machine: tmp_path)
    with pytest.raises(UsageError, match=expected):
        verify.machines_of("x86-64", [Path("one.deb"), Path("two.deb")])


def emulate(monkeypatch, folder: Path, status: str) -> list[str]:
    """Replaces QEMU by results with this status; returns its command, which `boot` fills."""
    words: list[str] = []

    def run(command, **options):
        words.extend(map(str, command))
        result = folder / "of-the-guest"
        result.mkdir()
        (result / "status").write_text(status)
        (result / "output").write_text("")
        with tarfile.open(folder / "results.tar", "w") as archive:
            archive.add(result, ".")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(boot, "kernel_of", lambda machine: folder)
    monkeypatch.setattr(boot, "pack", lambda *parts: folder / "initramfs")
    monkeypatch.setattr(boot, "own_start", lambda machine: ())
    monkeypatch.setattr(boot, "run", lambda *command: None)
    monkeypatch.setattr(subprocess, "run", run)
    return words


def test_a_folder_with_a_comma_does_not_end_the_name_of_a_disk(tmp_path, monkeypatch):
    folder = tmp_path / "a,b"
    folder.mkdir()
    words = emulate(monkeypatch, folder, "0\n")
    assert boot.boot(Machine(), "", {}, folder).status == 0
    drives = [word for word in words if word.startswith("file=")]
    assert [drive.split(",format=")[0] for drive in drives] == [
        f"file={tmp_path}/a,,b/{name}" for name in ("results.tar", "disk.ext4")
    ]


def test_a_guest_that_leaves_no_status_has_failed(tmp_path, monkeypatch):
    emulate(monkeypatch, tmp_path, "")
    with pytest.raises(GuestFailed, match="the guest failed"):
        boot.boot(Machine(), "", {}, tmp_path)


def test_tools_that_take_too_long_are_named(monkeypatch):
    def run(command, timeout, **options):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(Missing, match="apt-get took longer than 300 s"):
        debian.run("apt-get", "update")
    with pytest.raises(GuestFailed, match=r"mkfs\.ext4 took longer than 300 s"):
        boot.run("mkfs.ext4", "disk")


def test_a_module_that_guests_cannot_load_is_refused(tmp_path):
    folder = tmp_path / "lib" / "modules" / "6.12"
    (folder / "kernel").mkdir(parents=True)
    (folder / "modules.builtin").write_text("")
    (folder / "kernel" / "ext4.ko.zst").write_bytes(b"packed")
    with pytest.raises(GuestFailed, match=r"ext4\.ko\.zst: packed in a way"):
        modules(tmp_path, ["ext4"])


def test_a_kernel_without_the_driver_of_a_disk_is_refused(tmp_path):
    folder = tmp_path / "lib" / "modules" / "6.12"
    (folder / "kernel").mkdir(parents=True)
    (folder / "modules.builtin").write_text("kernel/fs/ext4/ext4.ko\n")
    assert modules(tmp_path, ["ext4"]) == {}
    with pytest.raises(GuestFailed, match="has no module virtio_blk"):
        modules(tmp_path, ["ext4", "virtio_blk"])


def test_the_algorithm_that_a_module_asks_for_is_loaded_before_it(tmp_path):
    folder = tmp_path / "lib" / "modules" / "6.12"
    (folder / "kernel").mkdir(parents=True)
    (folder / "modules.builtin").write_text("")
    asks = b"\0depends=jbd2\0softdep=pre: crypto-crc32c\0"
    contents = {"ext4": asks, "jbd2": b"", "crc32c_generic": b"", "other": b""}
    for name, content in contents.items():
        (folder / "kernel" / f"{name}.ko").write_bytes(content)
    assert list(modules(tmp_path, ["ext4"])) == ["jbd2", "crc32c_generic", "ext4"]


def test_a_package_without_a_kernel_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(verify, "kernel_of", lambda machine: tmp_path)
    with pytest.raises(UnreadableInput, match="no Debian package of a kernel"):
        verify.base_bytes(Machine(kernel="some.deb"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--memory", "80%"], "--memory works only with --guest"),
        (["--kernel", "some.deb"], "--kernel works only with --guest"),
        (["--trace", "some.pwf"], "--trace works only with --guest"),
        (["--guest", "--kernel", "vmlinuz"], "--kernel vmlinuz: not a Debian package"),
        (["--guest", "--trace", "/dev/null"], "--trace /dev/null is not a trace"),
    ],
)
def test_options_that_do_not_fit_are_refused(words, expected, capsys):
    assert run(["pagesize", "verify", *words, "--", "cat"]) == 2
    assert expected in capsys.readouterr().err
