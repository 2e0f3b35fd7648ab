"""The licences of pagewise and of all that it contains, as tools/licenses.py wrote them."""

from __future__ import annotations

from importlib import resources

RULE = "-" * 80
"""The line before and after the heading of each text."""


def text() -> str:
    """The names, versions and licences of all parts, then the texts of the licences."""
    return (resources.files("pagewise") / "licenses.txt").read_text(encoding="utf-8")


def parts() -> list[tuple[str, str]]:
    """Each part with its version, and its licences."""
    head = text().partition(RULE)[0]
    _, _, table = head.partition("\n\n")
    rows = (line.rpartition("  ") for line in table.splitlines() if line.strip())
    return [(name.strip(), licence) for name, _, licence in rows]
