"""The Markdown of a study: what it writes once instead of in every row."""

from typing import Any

from pagewise_studies import text


def verdict(check: str, data: str, why: str) -> Any:
    return {"check": check, "part": "", "data": data, "why": why}


def test_repeats_are_named_by_the_first_and_the_last() -> None:
    runs = ["flash-0", "hybrid-0", "flash-1", "hybrid-1", "flash-2"]
    assert text._on(runs, {*runs, "kill-0"}) == "flash-0 to -2, hybrid-0 and -1"
    assert text._on(runs, set(runs)) == "all runs"
    assert text._on(["swap-40", "swap-55"], {"swap-40", "swap-55", "x"}) == "swap-40, swap-55"
    assert text._on(["scenarios"], {"scenarios"}) == "scenarios"


def test_readings_left_out_are_listed_once_by_reason() -> None:
    few, one = "too few returns: needs more", "1 further reading left out: no hit"
    found = text._reasons(
        [
            verdict("A", "x", f"a filter. 2 further readings left out: {few}"),
            verdict("B", "x", f"another. 2 further readings left out: {few}; {one}"),
            verdict("A", "y", f"a filter. 1,024 further readings left out: {few}"),
        ]
    )
    assert found[:2] == ["- **A**: a filter.", "- **B**: another."]
    assert found[-2:] == [
        f"- {few}. Left out: 2 each of A, B on x; 1,024 of A on y.",
        "- no hit. Left out: 1 of B on x.",
    ]


def test_a_code_span_and_a_percentage_stay_on_one_line() -> None:
    long = " ".join(["`pagewise simulate --as-recorded` of 13 %"] * 20)
    lines = text._paragraph(long)
    assert len(lines) > 1 and max(map(len, lines)) <= text.COLUMNS
    assert all(line.count("`") % 2 == 0 and not line.startswith("%") for line in lines)
