"""`pagewise info`: the rows of what a recording lost."""

from pathlib import Path
from typing import Any

import pytest
from terminals import ROOT

from pagewise.commands.info import (
    FROM_BEFORE,
    answering,
    lost_records,
    original_of,
    ruled_out,
)
from pagewise.wrapping import columns


def test_reads_of_what_swap_held_before_are_not_called_lost() -> None:
    source = ROOT / "crates" / "trace" / "src" / "formats" / "swap_events.rs"
    assert f'"{FROM_BEFORE}"' in source.read_text()
    rows = lost_records([{"what": FROM_BEFORE, "count": 1234}, {"what": "records", "count": 5}])
    assert rows == [
        ("from before", "reads of slots written before the recording: 1,234"),
        ("lost records", "5: records"),
    ]


def test_losses_leave_the_values_beside_their_names() -> None:
    what = "device reads of shared memory (MAP_SHARED, tmpfs), whose pages are not recorded"
    rows = [("kind", "swap"), *lost_records([{"what": what, "count": 3882}])]
    for width in (40, 80):
        shown = [name + lines[0] for name, lines in columns(rows, width)]
        assert shown[0] == "kind          swap" and shown[1].startswith("lost records  3,882:")


def described(events: int, *, is_system: bool = True, **fields: Any) -> Any:
    """A result with what the rows about analyses and commands need."""
    header = {"system": {} if not is_system else {"sessions": 1}, "events": events, "sources": []}
    what = "every analysis: the trace has no accesses" if not events else "fault and request times"
    return {"header": header, "ruled_out": [what], "questions": [], **fields}


def test_a_system_trace_rules_out_only_the_analyses_of_accesses() -> None:
    analyses = "analyze, misses, simulate and advise swap"
    assert ruled_out(described(0)) == [("ruled out", f"{analyses}: the trace has no accesses")]
    assert ruled_out(described(5)) == [
        ("ruled out", f"only in {analyses}:"),
        ("  figures", "fault and request times"),
    ]
    assert ruled_out(described(5) | {"ruled_out": []}) == []
    every = "every analysis: the trace has no accesses"
    assert ruled_out(described(0, is_system=False)) == [("ruled out", every)]


def test_the_commands_that_answer_are_named_once_and_with_the_original_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a b.txt", "phone.perfetto-trace"):
        Path(name).touch()
    asked = {
        "when kswapd reclaimed memory (pressure)": True,
        "how much memory was free (pressure)": True,
        "which processes were killed, and why (kills)": False,
        "which apps were launched, when and for how long (launches)": True,
        "which requests went to block devices (import --as block)": True,
    }
    questions = [{"question": each, "is_answered": is_so} for each, is_so in asked.items()]
    assert answering(described(0, questions=questions)) == ["pressure", "launches"]
    assert answering(described(0)) == []
    result = described(0)
    assert original_of(result, "a b.txt") == "a b.txt"
    assert original_of(result, "-") is None
    result["header"]["sources"] = [("digest", "phone.perfetto-trace")]
    assert original_of(result, "t.parquet") == "phone.perfetto-trace"
    result["header"]["sources"] = [("digest", "elsewhere")]
    assert original_of(result, "t.parquet") is None
    result["header"]["sources"] = [("digest", "phone.perfetto-trace"), ("digest", "a b.txt")]
    assert original_of(result, "t.parquet") is None
