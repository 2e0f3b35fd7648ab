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
    few, single = "too few returns: needs more", "1 further reading left out: no hit"
    found = text._reasons(
        [
            verdict("A", "x", f"a filter. 2 further readings left out: {few}"),
            verdict("B", "x", f"another. 2 further readings left out: {few}; {single}"),
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


def test_what_runs_show_is_listed_once_and_named_by_the_first_check() -> None:
    seen = ". Seen here: a 1; b 2"
    found = text._reasons([verdict("A", "x", f"one{seen}"), verdict("B", "x", f"two{seen}")])
    assert found == [
        "- **A**: one. Seen here:",
        "  - a 1",
        "  - b 2",
        "- **B**: two. Seen here: the same as for A.",
    ]


def test_a_column_of_our_own_targets_is_not_called_the_papers() -> None:
    def header(*figures: str) -> tuple[str, list[str]]:
        more = {"statement": "", "verdict": "holds", "ours": "", "readings": 1, "holding": 1}
        names, rows = text._claims(
            [{**verdict("A", "x", ""), **more, "paper": figure} for figure in figures]
        )
        return names[4], [row[4] for row in rows]

    assert header("2x (target)", "none (target)") == ("target", ["2x", "none"])
    assert header("2x (target)", "80 %") == ("paper or target", ["2x (target)", "80 %"])
    assert header("80 %") == ("paper", ["80 %"])


def test_an_interval_in_parentheses_is_explained() -> None:
    plain = {**verdict("A", "x", ""), "ours": "1.00x to 2.00x"}
    assert text._how_to_read([plain]) == text.HOW_TO_READ
    for ours in ("1.39x (1.23x to 1.62x)", "3.11 us per thread (3.06 to 3.17 us per thread)"):
        assert "95 % interval" in text._how_to_read([plain, {**plain, "ours": ours}])
