"""`pagewise-agent doctor` on the running kernel."""

import json
import re
import subprocess

import pytest
from agent import AGENT
from terminals import on_a_terminal

pytestmark = pytest.mark.skipif(not AGENT.exists(), reason=f"{AGENT} is not built")

CALLS_AND_CONTROLLERS = {
    "tracefs",
    "btf",
    "fentry",
    "psi",
    "memory-cgroup",
    "freezer",
    "swapon",
    "zram",
    "zram-writeback",
    "ublk",
    "nbd",
    "fuse-loop",
    "zswap",
    "process-madvise",
    "process-mrelease",
    "mthp",
}
SOURCES = {
    f"record --{source}" for source in ("swap", "faults", "files", "block", "kills", "launches")
}


def test_every_refused_finding_says_what_the_user_loses() -> None:
    answer = subprocess.run(
        [AGENT, "doctor", "--json"], capture_output=True, text=True, check=True, timeout=300
    )
    findings = {finding["name"]: finding for finding in json.loads(answer.stdout)["findings"]}
    assert findings.keys() >= CALLS_AND_CONTROLLERS | SOURCES
    for finding in findings.values():
        assert finding["is_granted"] == ("without_it" not in finding)
        assert finding["is_granted"] or (finding["detail"] and finding["without_it"])


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_lines_wrap_at_the_width_of_a_terminal(columns: int) -> None:
    piped = subprocess.run(
        [AGENT, "doctor"], capture_output=True, text=True, check=True, timeout=300
    )
    shown = on_a_terminal([AGENT, "doctor"], columns)
    assert words(shown) == words(piped.stdout)
    longest_word = max(map(len, words(piped.stdout)))
    assert max(map(len, shown.splitlines())) <= max(columns, longest_word + 5)


def words(text: str) -> list[str]:
    """The words of a text; a command in backticks is one word, unless a line breaks it."""
    return re.findall(r"(?:`[^`\n]*`|\S)+", text)
