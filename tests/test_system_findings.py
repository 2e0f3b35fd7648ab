"""The box at the top of a report on a system trace."""

from pathlib import Path

from phone_traces import EXAMPLE

import pagewise


def test_the_report_of_a_system_trace_begins_with_its_findings(tmp_path: Path) -> None:
    results = [
        dict(find(EXAMPLE)) for find in (pagewise.launches, pagewise.kills, pagewise.pressure)
    ]
    slowest = max(results[0]["launches"], key=lambda launch: launch["duration_s"])
    page = tmp_path / "phone.html"
    pagewise.report(results, page)
    text = page.read_text()
    assert "<h1>System trace of phone</h1>" in text
    assert f"is the slowest launch, of {slowest['process']}." in text
    assert f"{len(results[1]['kills'])} kills" in text
    assert "in all; 1 of 1 came back within" in text
    assert "of files were read again after they had left memory." in text
    assert "e+05 us" not in text
