"""The documentation site as `make docs` builds it: every link works, nothing is remote."""

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

ROOT = Path(__file__).parents[2]
NEEDS = ("sphinx", "furo", "myst_nb")
LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("source", "src"), ("iframe", "src")}
"""Attributes whose address the browser loads with the page."""


class Elements(HTMLParser):
    """The addresses and the identifiers of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.identifiers: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if (tag, name) in LOADED and value:
                self.loaded.append(value)
            elif (tag, name) == ("a", "href") and value:
                self.links.append(value)
            elif name == "id" and value:
                self.identifiers.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for module in NEEDS:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"the Python package {module} is not installed: make .venv/.docs-extras")
    output = tmp_path_factory.mktemp("site") / "site"
    run = subprocess.run(
        [sys.executable, str(ROOT / "tools/docs.py"), "--quick", "-o", str(output)],
        capture_output=True,
        text=True,
        timeout=850,
    )
    assert run.returncode == 0, run.stderr
    return output


def broken(site: Path) -> Iterator[str]:
    """The links of every page that lead nowhere, and what it loads from elsewhere."""
    found = {path: Elements(path) for path in site.rglob("*.html") if path.name != "report.html"}
    assert len(found) > 100
    for path, elements in found.items():
        for address in elements.loaded:
            if re.match(r"(https?:)?//", address):
                yield f"{path.name} loads {address}"
        for address in elements.links:
            target, fragment = urldefrag(address)
            if re.match(r"[a-z]+:|//", address):
                continue
            page = (path.parent / unquote(target)).resolve() if target else path
            if not page.exists():
                yield f"{path.name}: {address}"
            elif fragment and page in found and unquote(fragment) not in found[page].identifiers:
                yield f"{path.name}: no heading {address}"


def test_the_site_opens_offline_and_every_link_leads_somewhere(site: Path) -> None:
    version = re.search(r'(?m)^version = "(.*)"', (ROOT / "Cargo.toml").read_text())
    assert version and f"pagewise {version[1]}" in (site / "index.html").read_text()
    assert (site / "searchindex.js").stat().st_size > 100_000
    assert not list(broken(site))
    reference = (site / "docs/api.html").read_text()
    assert 'id="pagewise.analyze"' in reference and "single_access" in reference
    assert "--by" in (site / "docs/commands.html").read_text()
