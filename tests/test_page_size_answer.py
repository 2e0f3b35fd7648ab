"""The answer of `pagewise pagesize`: advice, curves by memory, and what was assumed."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from commands import ran
from hand_curves import dense, scattered

from pagewise.models.page_size_time import HARDWARE, PAPER, TODAY
from pagewise.page_size_answer import answer
from pagewise.report.shapes import flaw

MIB = 2**20
EXAMPLES = Path(__file__).parents[1] / "examples"


def answered(curves, memory="80%", terms=PAPER):
    return answer(
        curves,
        "dense.pwf",
        memory=memory,
        storage="optane-ssd",
        target="x86-mthp",
        terms=terms,
        model="exact",
        margin=0.0,
    )


def test_the_curve_is_that_of_the_advice():
    found = answered(dense())
    assert flaw("page-size", json.loads(json.dumps(found))) is None
    assert found["memory_bytes"] == round(0.8 * 4 * MIB)
    asked = next(
        each for each in found["memories"] if each["memory_bytes"] == found["memory_bytes"]
    )
    total = {
        str(size): translation + data
        for size, translation, data in zip(
            asked["sizes_bytes"], asked["translation_ns"], asked["data_ns"], strict=True
        )
    }
    for size, time_ns in found["advice"]["time_ns"].items():
        assert total[size] == pytest.approx(time_ns)
    assert asked["paper_ns"] is not None and len(asked["sampled_ns"]) == len(total)


def test_memories_without_a_size_to_judge_are_left_out():
    # A tenth of 256 KiB has fewer than 64 frames at every page size.
    shares = [each["share"] for each in answered(dense(64), memory="1MiB")["memories"]]
    assert shares == pytest.approx([0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 4.0], rel=1e-4)


def test_the_assumptions_are_in_the_answer():
    found = answered(scattered(), terms=TODAY)
    assert found["assumed"]["terms"]["cold"] == "file-only"
    assert found["assumed"]["hardware"]["tlb_entries"] == 64
    # Every piece of 512 bytes takes a whole page at every page size.
    assert found["program"]["footprint_factors"]["65536"] == 16


def test_options_reach_the_assumptions_and_have_the_defaults_of_the_model(
    capsys: pytest.CaptureFixture[str],
) -> None:
    trace = str(EXAMPLES / "page-size" / "photo.pwf")
    command = ["pagesize", trace, "--json"]
    _, output, _ = ran(*command, capsys=capsys)
    assumed = json.loads(output)["assumed"]
    assert assumed["hardware"] == asdict(HARDWARE) and assumed["terms"] == asdict(TODAY)
    nested = ["--walk", "nested", "--walk-levels", "5", "--cached-levels", "1"]
    machine = ["--tlb", "32x4", "--l2-tlb", "1024x8", "--dram", "80", "--fault", "900"]
    _, output, _ = ran(*command, *nested, *machine, capsys=capsys)
    assumed = json.loads(output)["assumed"]
    terms = asdict(replace(TODAY, walk="nested", walk_levels=5, cached_levels=1))
    hardware = replace(
        HARDWARE,
        tlb_entries=32,
        tlb_ways=4,
        second_tlb_entries=1024,
        second_tlb_ways=8,
        dram_ns=80.0,
        fault_ns=900.0,
    )
    assert assumed["terms"] == terms and assumed["hardware"] == asdict(hardware)
    status, _, diagnostics = ran(*command, "--cached-levels", "4", capsys=capsys)
    assert status == 2 and "4 of 4 levels cannot be cached" in diagnostics
    status, _, diagnostics = ran(*command, "--tlb", "64x5", capsys=capsys)
    assert status == 2 and "64 entries has no sets of 5" in diagnostics
    for option in ("--dram", "--fault"):
        status, output, diagnostics = ran(*command, option, "nan", capsys=capsys)
        assert (status, output) == (2, "")
        assert f"{option}: nan is not a time in nanoseconds" in diagnostics
