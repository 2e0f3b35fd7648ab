"""Advice on a page size: targets, settings, notes and forecasts."""

import json
import mmap
import platform
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hand_curves import HandCurve, HandCurves, dense

import pagewise as pw
from pagewise import cli
from pagewise.advice.page_size import TARGETS, Target, arm64, machines, mthp, target
from pagewise.advice.page_size.advise import advise_page_size, memory_of
from pagewise.advice.setting import Setting
from pagewise.errors import UsageError
from pagewise.huge_pages import settings
from pagewise.huge_pages.forecast import forecast
from pagewise.models.page_size import memory_to_judge
from pagewise.models.page_size_time import Hardware
from pagewise.references import import_references
from pagewise.units import format_size

MIB = 2**20
names = pytest.mark.parametrize("row", TARGETS, ids=lambda row: row.name)


@names
def test_a_target_has_4_kib_and_never_8(row: Target) -> None:
    sizes = row.sizes()
    assert sizes[0] == 4096 and 8192 not in sizes
    assert sizes == sorted(set(sizes))
    assert row.settings(4096) == []


@names
def test_every_setting_can_be_pasted_and_undone(row: Target) -> None:
    for size in row.sizes()[1:]:
        assert row.settings(size)
        for setting in row.settings(size):
            assert setting.title and setting.note and setting.apply != setting.undo
            for script in (setting.apply, setting.undo):
                subprocess.run(["sh", "-n", "-c", script], check=True, timeout=60)


def test_sizes_of_this_kernel_are_taken() -> None:
    if mmap.PAGESIZE == 4096 and settings.sizes():
        here = "arm64-4k-mthp" if platform.machine() == "aarch64" else "x86-mthp"
        assert target().name == target(here).name == here
        assert target().sizes() == [4096, *settings.sizes()]
    assert mthp.sizes(is_here=False) == list(mthp.USUAL)


def test_boot_arguments_and_switches_use_the_words_of_the_kernel() -> None:
    assert mthp.boot_arguments(65536) == "thp_anon=64K:always"
    assert mthp.boot_arguments(2 * MIB) == "thp_anon=2M:always"
    lines = mthp.tmpfiles(16384).splitlines()
    assert [line.split()[-1] for line in lines] == ["never", "always"]
    assert "hugepages-2048kB" in lines[0] and "hugepages-16kB" in lines[1]
    (line,) = mthp.tmpfiles(2 * MIB).splitlines()
    assert line.endswith("always")
    assert ElementTree.fromstring(machines.LIBVIRT).find("hugepages/page") is not None


def test_an_unknown_target_is_refused_with_the_known_targets() -> None:
    with pytest.raises(UsageError, match="no target 'arm'") as error:
        target("arm")
    assert "arm64-16k" in str(error.value.hint)


@pytest.mark.parametrize(
    ("architecture", "name"),
    [("aarch64", "arm64-4k-mthp"), ("arm", "arm64-4k-mthp"), ("x86_64", "x86-mthp"),
     ("i386", "x86-mthp"), ("riscv64", "glibc")],
)  # fmt: skip
def test_the_target_is_that_of_the_programs_processor(architecture: str, name: str) -> None:
    curves = replace(dense(), architecture=architecture)
    advice = advise_page_size(curves, memory="100%", storage="optane-ssd")
    assert advice["target"] == name
    asked = advise_page_size(curves, memory="100%", storage="optane-ssd", target="qemu")
    assert asked["target"] == "qemu"


def test_a_cut_run_gets_a_note() -> None:
    curves = replace(dense(), cut="the file was cut off")
    advice = advise_page_size(curves, memory="100%", storage="optane-ssd", target="x86-mthp")
    assert advice["notes"][0] == "the file was cut off: the counts cover the run up to there"


@pytest.mark.parametrize("kept", ["kernel=kernel8.img\n[pi4]\nkernel=other.img\n", "# none\n"])
def test_the_undo_of_the_raspberry_pi_restores_its_configuration(tmp_path: Path, kept: str) -> None:
    config = tmp_path / "config.txt"
    config.write_text(kept)
    (setting,) = (each for each in arm64.kernel_16k() if "Raspberry" in each.title)

    def pasted(script: str) -> None:
        assert arm64.CONFIG in script
        here = script.replace(arm64.CONFIG, str(config)).replace("reboot", "true")
        subprocess.run(["sh", "-e", "-c", here], check=True, timeout=60)

    for _ in range(2):
        pasted(setting.apply)
    chosen = [line for line in config.read_text().splitlines() if line.startswith("kernel=")]
    assert chosen == ["kernel=kernel_2712.img"]
    pasted(setting.undo)
    assert config.read_text() == kept and list(tmp_path.iterdir()) == [config]


@pytest.mark.parametrize("ways", [arm64.kernel_16k, arm64.kernel_64k])
def test_the_undo_of_your_own_kernel_restores_its_configuration(
    tmp_path: Path, ways: Callable[[], list[Setting]]
) -> None:
    (setting,) = (each for each in ways() if "Your own" in each.title)
    config = tmp_path / ".config"
    config.write_text("CONFIG_ARM64_4K_PAGES=y\nCONFIG_OTHER=m\n")
    changing = "sed -i s/4K/larger/ .config && true"
    script = setting.apply.replace("make olddefconfig", "true")
    script = re.sub(r"scripts/config [^&]*&& true", changing, script)
    assert changing in script
    for pasted in (script, script, setting.undo):
        subprocess.run(["sh", "-e", "-c", pasted], cwd=tmp_path, check=True, timeout=60)
    assert config.read_text() == "CONFIG_ARM64_4K_PAGES=y\nCONFIG_OTHER=m\n"
    assert list(tmp_path.iterdir()) == [config]


def test_advice_is_restricted_to_the_target() -> None:
    advice = advise_page_size(dense(), memory="16MiB", storage="optane-ssd", target="arm64-16k")
    assert advice["sizes_bytes"] == [4096, 16384]
    assert (advice["page_bytes"], advice["ideal_bytes"]) == (16384, 32768)
    assert advice["regret"] > 0 and "32 KiB would be best" in advice["notes"][0]
    assert advice["gain"]["low"] <= advice["gain"]["typical"] <= advice["gain"]["high"]
    assert any("linux-image-arm64-16k" in each["apply"] for each in advice["settings"])
    assert not any("not judged" in note for note in advice["notes"])
    small = advise_page_size(dense(), memory="16MiB", storage="optane-ssd", target="qemu")
    assert small["unjudged_bytes"] == [2 * MIB]
    assert "not judged: 2 MiB" in small["notes"][0]
    assert "the only size of qemu" in small["notes"][1]
    needed = memory_to_judge(2 * MIB)
    assert format_size(needed) in small["notes"][0]
    for memory, is_judged in ((needed, True), (needed - 2, False)):
        advice = advise_page_size(dense(), memory=memory, storage="optane-ssd", target="x86-thp")
        assert ("2097152" in advice["time_ns"]) == is_judged
    whole = advise_page_size(dense(), memory="16MiB", storage="optane-ssd", target="arm64-64k")
    assert whole["page_bytes"] == 65536 and whole["gain"]["typical"] > advice["gain"]["typical"]


def test_pages_of_4_kib_need_no_setting() -> None:
    # Larger pages only take more memory.
    curves = HandCurves({512 << step: HandCurve(1024, {90: 1}, 1024) for step in range(13)})
    advice = advise_page_size(curves, memory="100%", storage="optane-ssd", target="x86-thp")
    assert (advice["page_bytes"], advice["settings"]) == (4096, [])


def test_a_gain_too_small_to_take_gets_a_note() -> None:
    # A billion references have one fault instead of 64.
    curves = HandCurves(
        {size: HandCurve(64, {}, 64) for size in (512 << step for step in range(13))},
        steps=1_000_000_000,
    )
    curves.sizes[65536] = HandCurve(1, {}, 1)
    advice = advise_page_size(curves, memory="8MiB", storage="optane-ssd", target="arm64-64k")
    assert advice["page_bytes"] == 4096
    assert "64 KiB is the fastest of these sizes with this memory" in str(advice["notes"])
    larger = advise_page_size(dense(), memory="8MiB", storage="optane-ssd", target="arm64-64k")
    assert larger["page_bytes"] == 65536 and "fastest" not in str(larger["notes"])


def test_a_margin_that_leaves_no_memory_is_named() -> None:
    with pytest.raises(UsageError, match=r"less 100 % \(--margin\) is too small"):
        advise_page_size(dense(), memory="4MiB", storage="optane-ssd", margin=1.0)


def test_transparent_pages_with_short_memory_get_a_note() -> None:
    asked = {"storage": "optane-ssd", "target": "x86-mthp"}
    short = advise_page_size(dense(), memory="80%", **asked)
    assert short["page_bytes"] > 4096 and "reads transparent huge pages back" in short["notes"][-1]
    ample = advise_page_size(dense(), memory="16MiB", **asked)
    assert ample["page_bytes"] > 4096 and "that every page grows" in ample["notes"][-1]
    base = advise_page_size(dense(), memory="80%", storage="optane-ssd", target="arm64-16k")
    assert not any("transparent" in note or "grows" in note for note in base["notes"])


def test_memory_is_a_size_or_a_share_of_the_footprint() -> None:
    assert memory_of("80%", 1000) == 800
    assert memory_of("64MiB", 1000) == 64 * MIB
    assert memory_of(4096, 1000) == 4096


def test_a_forecast_has_the_figures_computed_by_hand() -> None:
    # 100 pages of anonymous memory become 10; files are mapped by 64 KiB at both sizes.
    curves = HandCurves(
        {
            4096: HandCurve(pages=140, depths={100: 1000}, cold_written=100),
            65536: HandCurve(pages=13, depths={}, cold_written=10),
        }
    )
    hardware = Hardware(fault_ns=1000, zero_ns_per_byte=0.125, second_tlb_ns=10, dram_ns=50)
    result = forecast(curves, 65536, hardware)
    assert result["minor_faults"] == {"base": 103, "chosen": 13}
    in_faults = 100 * (1000 + 512) - 10 * (1000 + 8192)
    assert result["cpu_s_saved"]["low"] == pytest.approx(in_faults / 1e9)
    in_walks = (1140 - 13) * 10 + (140 - 13) * 50
    assert result["cpu_s_saved"]["high"] == pytest.approx((in_faults + in_walks) / 1e9)


@pytest.fixture(scope="module")
def dense_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that goes through 8 MiB five times, with a reference every 512 bytes."""
    folder = tmp_path_factory.mktemp("dense")
    text, trace = folder / "dense.csv", folder / "dense.pwf"
    places = "\n".join(hex(0x10000000 + place) for place in range(0, 8 * MIB, 512))
    text.write_text("address\n" + 5 * f"{places}\n")
    import_references(text, trace)
    return trace


def ran(*words: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = cli.run([str(word) for word in words])
    return status, *capsys.readouterr()


def test_the_command_advises_from_a_trace(
    dense_trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["advise", "pagesize", dense_trace, "--memory", "100%", "--storage", "optane-ssd"]
    status, output, diagnostics = ran(*words, "--target", "arm64-16k", "--json", capsys=capsys)
    assert (status, diagnostics) == (0, "")
    advice = json.loads(output)
    assert advice["schema"] == "pagewise.advice-page-size/1"
    assert (advice["page_bytes"], advice["memory_bytes"]) == (16384, 8 * MIB)
    assert advice["settings"][0]["undo"]
    status, output, _ = ran(*words, capsys=capsys)
    assert status == 0 and "gain over 4 KiB" in output and "To undo:" in output
    for setting in target().settings(advise_size(output)):
        assert setting.apply in output, "a line was broken"


def test_advise_pagesize_is_pagesize(
    dense_trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [dense_trace, "--storage", "optane-ssd", "--margin", "0"]
    alias, name = (
        ran(*words, *options, capsys=capsys) for words in (["advise", "pagesize"], ["pagesize"])
    )
    assert alias == name and alias[0] == 0
    found, answer = (
        json.loads(ran(*words, *options, "--json", capsys=capsys)[1])
        for words in (["advise", "pagesize"], ["pagesize"])
    )
    # `advise pagesize --json` has its own fields, and all of those of `pagesize --json`.
    assert found == {**answer, **answer["advice"]}
    assert found["schema"] == "pagewise.advice-page-size/1"
    (tmp_path / "advice.json").write_text(json.dumps(found))
    assert pw.report([tmp_path / "advice.json"], tmp_path / "page.html")["panels"][0] == "page-size"


def advise_size(output: str) -> int:
    """The recommended size in the text."""
    found = re.search(r"pages of (\d+) KiB", output)
    assert found
    return int(found[1]) * 1024


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        (["--storage", "4/5us"], 2, "not known"),
        (["--target", "vax"], 2, "no target"),
        (["--memory", "64KiB"], 2, "too small"),
        (["--memory", "lots"], 2, "not a size"),
        (["--verify"], 2, "--verify needs the program"),
        (["--", "true"], 2, "only --verify runs true"),
    ],
)
def test_an_invalid_command_is_refused_with_a_reason(
    dense_trace: Path,
    capsys: pytest.CaptureFixture[str],
    change: list[str],
    status: int,
    message: str,
) -> None:
    words = ["advise", "pagesize", dense_trace, "--memory", "100%", "--storage", "optane-ssd"]
    found, _, diagnostics = ran(*words, *change, capsys=capsys)
    assert found == status and message in diagnostics


def test_a_file_that_is_neither_trace_nor_program_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["advise", "pagesize", "absent.pwf", "--memory", "100%", "--storage", "optane-ssd"]
    status, _, diagnostics = ran(*words, capsys=capsys)
    assert status == 3 and "absent.pwf: neither a trace" in diagnostics


def test_the_command_writes_the_guests_of_a_host(
    dense_trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "host.toml"
    file.write_text(
        f'storage = "optane-ssd"\n[[vm]]\nname = "one"\nworkload = "{dense_trace}"\n'
        'memory = "100%"\narchitecture = "arm64"\n'
    )
    output = tmp_path / "guests"
    status, text, diagnostics = ran("pagesize", "apply", file, "-o", output, capsys=capsys)
    assert status == 0 and "one needs a kernel with base pages of 64 KiB" in diagnostics
    assert "one" in text and (output / "one" / "qemu.args").read_text().startswith("-name one")
    status, _, diagnostics = ran("pagesize", "apply", file, "-o", output, capsys=capsys)
    assert status == 2 and "--force" in diagnostics
    words = ["pagesize", "apply", file, "-o", output, "--force", "--json"]
    status, text, _ = ran(*words, capsys=capsys)
    assert status == 0 and json.loads(text)["guests"][0]["page_bytes"] == 65536
    file.write_text(file.read_text().replace(str(dense_trace), "absent.pwf"))
    status, _, diagnostics = ran(*words, capsys=capsys)
    assert status == 3 and "absent.pwf" in diagnostics
