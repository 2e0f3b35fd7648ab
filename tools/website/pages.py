"""The pages of the site: the repository's Markdown, with links that lead within the site.

A README becomes the index of its folder. A link to another file of the repository becomes a
download, and a link to a folder leads to a page that lists its files. The menus are the lists of
docs/README.md; a page that is not in them stops the build.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from os.path import normpath, relpath
from pathlib import Path

LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
ELSEWHERE = re.compile(r"[a-z]+:")
KIND = re.compile(r"(?m)^\*\*([\w-]+)\*\*(?= (?:pages )?\w+)")
GENERATED = {
    "Reference": ["docs/commands", "docs/api"],
    "Explanation": ["studies/index"],
    "Measurements": ["docs/report"],
}
"""Pages that docs/README.md does not list, most of which the build writes, by menu."""
BELOW = {"docs/studies/index": "docs/studies", "docs/decisions/index": "docs/decisions"}
"""Folders whose pages are listed below their index."""


def write(root: Path, source: Path, pictures: list[Path]) -> None:
    """Writes every page below ``source``; ``pictures`` are those of the report."""
    markdown = [path for path in tracked(root) if is_page(path)]
    linked = {target for path in markdown for target in copied(root, path, source)}
    # Notebooks read the recordings of the repository.
    for path in sorted((root / "examples").iterdir()):
        if not (source / "examples" / path.name).exists() and path.suffix != ".md":
            (source / "examples" / path.name).symlink_to(path)
    for target in sorted(linked):
        if (root / target).is_dir():
            list_folder(root, target, source)
        elif not (source / target).exists():
            (source / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / target, source / target)
    write_report_page(source, pictures)
    add_menus(root, source)


def tracked(root: Path) -> list[Path]:
    """The files of the repository, and those that git would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, timeout=60)
    return [Path(line) for line in sorted(set(run.stdout.splitlines())) if (root / line).exists()]


def is_page(path: Path) -> bool:
    """Whether a file is a page of the site."""
    return path.suffix in (".md", ".ipynb") and (
        path.parts[0] in ("docs", "examples", "studies") or len(path.parts) == 1
    )


def copied(root: Path, path: Path, source: Path) -> set[str]:
    """Copies a page, and returns the files and folders other than pages that it links to."""
    others: set[str] = set()

    def rewritten(link: re.Match[str]) -> str:
        if ELSEWHERE.match(link[2]):
            return link[0]
        target = normpath(path.parent / link[2])
        if (root / target).is_dir():
            readme = Path(target, "README.md")
            if not (root / readme).is_file():
                others.add(target)
            target = str(readme)
        elif Path(target).suffix not in (".md", ".ipynb"):
            others.add(target)
        return f"{link[1]}{relpath(page_of(target), path.parent)}{link[3] or ''}{link[4]}"

    text = (root / path).read_text()
    copy = source / page_of(path)
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(LINK.sub(rewritten, text))
    return others


def page_of(path: Path | str) -> str:
    """The path of a file in the site's source."""
    page = Path(path)
    return str(page.with_name("index.md") if page.name == "README.md" else page)


def list_folder(root: Path, folder: str, source: Path) -> None:
    """Writes the page of a folder without a README: the names and sizes of its files."""
    rows = [
        f"| `{path.relative_to(root / folder)}` | {path.stat().st_size:,} |"
        for path in sorted((root / folder).rglob("*"))
        if path.is_file()
    ]
    lines = ["---", "orphan: true", "---", f"# Files of {folder}", "", "The repository has these."]
    page = source / folder / "index.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join([*lines, "", "| file | bytes |", "|---|--:|", *rows, ""]))


def write_report_page(source: Path, pictures: list[Path]) -> None:
    """Writes the page with the pictures of the report, or with what is missing."""
    lines = ["# The report of the demo", ""]
    if pictures:
        lines += [
            "`make demo` writes this report, one file that loads nothing. The build of these pages",
            "made it again, and took the pictures. <a href='../report.html'>Open the report</a>.",
            "",
        ]
        for picture in pictures:
            name = picture.stem.partition("-")[2]
            lines += [f"## {name.capitalize()}", "", f"![The report, {name}]({picture.name})", ""]
    else:
        lines += [
            "`make demo` writes a report, one file that loads nothing. These pages were built",
            "without pictures of it.",
            "",
        ]
    (source / "docs/report.md").write_text("\n".join(lines))


def add_menus(root: Path, source: Path) -> None:
    """Appends the menus to the first page, and to the indexes of folders their pages."""
    index = source / "index.md"
    menus = menus_of((root / "docs/README.md").read_text())
    listed = {page for names in menus.values() for page in names}
    text = index.read_text() + menu("Start", ["docs/index"])
    for kind, names in menus.items():
        text += menu(kind, [*names, *GENERATED.get(kind, [])])
    index.write_text(text)
    for page, folder in BELOW.items():
        names = sorted(set(names_in(source, folder)) - {page} - listed)
        path = source / f"{page}.md"
        path.write_text(path.read_text() + menu("", [relpath(name, folder) for name in names]))


def names_in(source: Path, folder: str) -> list[str]:
    """The pages of a folder, as menus name them."""
    found = [path for path in (source / folder).glob("*") if path.suffix in (".md", ".ipynb")]
    return [str(path.relative_to(source).with_suffix("")) for path in found]


def menus_of(text: str) -> dict[str, list[str]]:
    """The pages that docs/README.md lists, by kind; each page only under its first kind."""
    _, _, listing = text.partition("\n## Every page, by kind\n")
    parts = KIND.split(listing)[1:]
    seen: set[str] = set()
    menus = {}
    for kind, part in zip(parts[::2], parts[1::2], strict=True):
        targets = (
            page_of(
                Path(normpath(f"docs/{link[2]}")) / ("README.md" if link[2].endswith("/") else "")
            )
            for link in LINK.finditer(part)
            if not ELSEWHERE.match(link[2])
        )
        names = dict.fromkeys(str(Path(target).with_suffix("")) for target in targets)
        menus[kind] = [name for name in names if name not in seen]
        seen.update(names)
    return menus


def menu(caption: str, names: Iterable[str]) -> str:
    """A menu of the sidebar."""
    options = [f":caption: {caption}"] if caption else []
    return "\n".join(["", "", "```{toctree}", ":hidden:", *options, "", *names, "```", ""])
