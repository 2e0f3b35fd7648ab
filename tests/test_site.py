"""The documentation site: every page is in a menu, and links lead to pages of the site."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from website import pages  # noqa: E402 - a package of tools/


def test_every_page_is_in_a_menu() -> None:
    menus = pages.menus_of((ROOT / "docs/README.md").read_text())
    listed = {name for names in menus.values() for name in names}
    missing = {
        path.relative_to(ROOT).with_suffix("").as_posix()
        for path in (ROOT / "docs").rglob("*.md")
        if path.name != "README.md" and path.parent.name not in ("studies", "decisions")
    } - listed
    assert not missing, f"docs/README.md, section `Every page, by kind`, lacks {missing}"
    assert {"Tutorials", "How-to", "Reference", "Explanation", "Measurements"} == menus.keys()


def test_links_are_rewritten_to_pages_of_the_site(tmp_path: Path) -> None:
    root, source = tmp_path / "root", tmp_path / "source"
    (root / "docs/runs").mkdir(parents=True)
    (root / "docs/runs/a.toml").write_text("a = 1\n")
    (root / "README.md").write_text("# R\n")
    (root / "docs/a.md").write_text(
        "[r](../README.md#x) [runs](runs) [file](runs/a.toml) [b](b.md#c) [web](https://a.test/)\n"
    )
    others = pages.copied(root, Path("docs/a.md"), source)
    assert (source / "docs/a.md").read_text() == (
        "[r](../index.md#x) [runs](runs/index.md) [file](runs/a.toml) [b](b.md#c)"
        " [web](https://a.test/)\n"
    )
    assert others == {"docs/runs", "docs/runs/a.toml"}
