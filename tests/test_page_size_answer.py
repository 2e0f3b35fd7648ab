"""The answer of `pagewise pagesize`: advice, curves by memory, and what was assumed."""

import json

import pytest
from hand_curves import dense, scattered

from pagewise.models.page_size_time import PAPER, TODAY
from pagewise.page_size_answer import answer
from pagewise.report.shapes import flaw

MIB = 2**20


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
