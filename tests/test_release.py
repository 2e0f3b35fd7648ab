"""`make release`: what it refuses, and what it writes; nothing here releases anything."""

import datetime
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import release  # noqa: E402 - a script of tools/
import sbom  # noqa: E402 - a script of tools/

BESIDE_CRATES = {
    "pagewise": {
        "pkg:npm/echarts@6.1.0",
        "pkg:pypi/annotated-doc@0.0.7",
        "pkg:pypi/jinja2@3.1.6",
        "pkg:pypi/markdown-it-py@4.3.0",
        "pkg:pypi/markupsafe@3.0.4",
        "pkg:pypi/mdurl@0.1.2",
        "pkg:pypi/numpy",
        "pkg:pypi/pygments@2.21.0",
        "pkg:pypi/rich@15.0.0",
        "pkg:pypi/scipy",
        "pkg:pypi/shellingham@1.5.4",
        "pkg:pypi/typer@0.28.0",
    },
    "pagewise-agent": {
        "pkg:deb/debian/elfutils?arch=source",
        "pkg:deb/debian/gcc-12?arch=source",
        "pkg:deb/debian/glibc?arch=source",
        "pkg:deb/debian/zlib?arch=source",
    },
}
"""The package URLs of the parts that are no crates."""
CHANGELOG = "# Changelog\n\n## 0.2.0 - unreleased\n\n- new\n\n## 0.1.0 - 2026-01-01\n\n- old\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small repository with a version and a changelog, in place of this one."""
    for name in release.VERSIONED:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    for command in (
        ["init", "-q"],
        ["config", "user.name", "a"],
        ["config", "user.email", "a@example.org"],
        ["add", "-A"],
        ["commit", "-qm", "first"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True, timeout=300)
    monkeypatch.setattr(release, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("0.2", "not MAJOR.MINOR.PATCH"),
        ("0.0.9", "older than"),
        ("0.3.0", "no section `## 0.3.0 - unreleased`"),
        ("0.1.0", "no section `## 0.1.0 - unreleased`"),
    ],
)
def test_a_version_that_does_not_fit_is_refused(tree: Path, version: str, why: str) -> None:
    with pytest.raises(release.Refused, match=why):
        release.release(version, is_dry=True)


def test_a_tree_with_changes_or_the_tag_is_refused(tree: Path) -> None:
    subprocess.run(
        ["git", "tag", "v0.2.0"],
        cwd=tree,
        check=True,
        timeout=300,
    )
    with pytest.raises(release.Refused, match="tagged already"):
        release.release("0.2.0", is_dry=True)
    (tree / "new").write_text("")
    with pytest.raises(release.Refused, match=r"not clean:\n\?\? new"):
        release.release("0.2.0", is_dry=True)


def test_a_machine_where_git_has_no_name_is_refused_before_the_tests(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, "/dev/null")
    for name in ("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"):
        monkeypatch.delenv(name, raising=False)
    for option in (["user.useConfigOnly", "true"], ["--unset", "user.email"]):
        subprocess.run(["git", "config", *option], cwd=tree, check=True, timeout=300)
    with pytest.raises(release.Refused, match="GIT_COMMITTER_IDENT"):
        release.release("0.2.0", is_dry=True)


def test_a_dry_run_writes_notes_and_changes_no_tracked_file(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(release, "run", lambda *words: commands.append(words))
    release.release("0.2.0", is_dry=True)
    assert (tree / "build/release/NOTES.md").read_text() == "- new\n"
    assert all(words[1].startswith("tools/") for words in commands if words[0] == sys.executable)
    assert not [words for words in commands if words[0] in ("make", "git")]
    status = subprocess.run(
        ["git", "diff", "--stat"], cwd=tree, capture_output=True, text=True, timeout=300
    )
    assert status.stdout == ""


def test_the_version_is_set_in_every_manifest_and_the_changelog() -> None:
    for name in release.VERSIONED:
        text = (ROOT / name).read_text()
        changed = release.with_version(text, "7.8.9")
        lines = [pair for pair in zip(text.splitlines(), changed.splitlines(), strict=True)]
        assert [new for old, new in lines if old != new] == ['version = "7.8.9"'], name
    assert tomllib.loads((ROOT / "studies/pyproject.toml").read_text())["project"]["version"] == (
        release.current_version()
    )
    assert "## 0.2.0 - 2026-12-01\n" in release.dated(
        CHANGELOG, "0.2.0", datetime.date(2026, 12, 1)
    )


def test_the_tag_is_last_and_what_is_built_has_the_time_of_its_commit(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(release, "run", lambda *words: commands.append(words))
    monkeypatch.setattr(release, "audited", list)
    add_interface(tree)
    release.release("0.2.0", is_dry=False)
    calls = [words[:2] for words in commands]
    assert calls.index(("make", "dist-setup")) < calls.index(("make", "test-all"))
    last = calls[-4:]
    assert last == [("git", "commit"), ("make", "dist"), ("make", "test-dist"), ("git", "tag")]
    assert "## 0.2.0 - unreleased" not in (tree / "CHANGELOG.md").read_text()


def test_a_failure_after_the_commit_says_how_to_undo_it(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[tuple[str, ...]] = []

    def run(*words: str) -> None:
        commands.append(words)
        if words == ("make", "test-dist"):
            raise release.Refused("make test-dist failed")

    monkeypatch.setattr(release, "run", run)
    monkeypatch.setattr(release, "audited", list)
    add_interface(tree)
    with pytest.raises(release.Refused, match=r"test-dist failed; .*git reset --keep HEAD~1"):
        release.release("0.2.0", is_dry=False)
    assert ("git", "tag") not in [words[:2] for words in commands]


def add_interface(tree: Path) -> None:
    """Commits the list of options and functions that a release must have."""
    folder = tree / "tests/compat/0.2.0"
    folder.mkdir(parents=True)
    (folder / "interface.json").write_text("{}\n")
    for command in (["add", "-A"], ["commit", "-qm", "interface"]):
        subprocess.run(["git", *command], cwd=tree, check=True, timeout=300)


def test_an_audit_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert [line.split(":")[1] for line in release.audited()] == [
        " not installed, so known vulnerabilities were not looked up"
    ] * 2


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        ("exit 0", "audit: nothing found"),
        (
            "echo 'ERROR: rich: Dependency not found on PyPI and could not be audited' >&2; exit 1",
            "audit: no data available here, so known vulnerabilities were not looked up",
        ),
    ],
)
def test_an_audit_without_data_does_not_pass_for_one_that_found_nothing(
    monkeypatch: pytest.MonkeyPatch, script: str, wanted: str
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(release, "AUDITS", {"audit": ["sh", "-c", script]})
    assert list(release.audited()) == [wanted]


def test_an_audit_that_finds_something_refuses_the_release_without_the_other_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = "echo 'rich could not be audited'; echo 'Found 1 known vulnerability in x'; exit 1"
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(release, "AUDITS", {"audit": ["sh", "-c", script]})
    with pytest.raises(release.Refused, match="Found 1 known vulnerability"):
        list(release.audited())


def test_an_audit_that_finds_something_stops_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name)
    found = "echo 'Found 1 known vulnerability'; exit 1"
    monkeypatch.setattr(release, "AUDITS", {"audit": ["sh", "-c", found]})
    with pytest.raises(release.Refused, match="Found 1 known vulnerability"):
        list(release.audited())


@pytest.mark.parametrize("program", ["pagewise", "pagewise-agent"])
def test_the_list_of_parts_has_a_checksum_and_a_licence_for_each_crate(program: str) -> None:
    try:
        bill = sbom.bill_of(program)
    except RuntimeError as error:
        pytest.skip(str(error))
    assert json.loads(json.dumps(bill)) == bill and bill["bomFormat"] == "CycloneDX"
    crates = [part for part in bill["components"] if part.get("purl", "").startswith("pkg:cargo/")]
    assert len(crates) > 40
    assert all(part["licenses"] and len(part["hashes"][0]["content"]) == 64 for part in crates)
    references = [part["bom-ref"] for part in bill["components"]]
    assert len(references) == len(set(references))
    names = {part["name"] for part in bill["components"]}
    assert {"parquet", "zstd"} <= names and "syn" not in names
    beside = {
        part["purl"]
        for part in bill["components"]
        if "purl" in part and not part["purl"].startswith("pkg:cargo/")
    }
    assert beside == BESIDE_CRATES[program]


def test_the_list_of_parts_has_the_python_libraries_that_pagewise_names() -> None:
    listed = {part["name"]: part.get("version") for part in sbom.python_libraries()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for requirement in project["dependencies"]:
        name, is_pinned, version = requirement.partition("==")
        assert listed[re.split("[<>=]", name)[0]] == (version if is_pinned else None)


def test_the_licences_of_vendored_libraries_are_those_that_they_declare() -> None:
    for part in sbom.python_libraries():
        (licence,) = (row["license"]["id"] for row in part["licenses"])
        about = importlib.metadata.metadata(part["name"])
        declared = [about["License-Expression"], about["License"], *about.get_all("Classifier", [])]
        assert licence.split("-")[0] in " ".join(filter(None, declared)), part["name"]
