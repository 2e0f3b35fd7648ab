"""The project's rules that a machine can check; docs/architecture.md gives the reasons."""

import ast
import itertools
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from circles import WORDS, circles

from pagewise import _core
from pagewise.commands import COMMANDS
from pagewise.studies import studies

ROOT = Path(__file__).resolve().parents[1]

# The crates that each crate may depend on; dev-dependencies may add testkit.
MAY_DEPEND_ON = {
    "types": set(),
    "policy": {"types"},
    "trace": {"types"},
    "devices": {"types"},
    "sim": {"types", "policy", "trace", "devices"},
    "python": {"types", "policy", "trace", "devices", "sim"},
    "testkit": {"types"},
    "linux": {"types"},
    "killer": {"types", "policy", "linux"},
    "swapd": {"types", "policy", "trace", "devices", "linux"},
    "lazy": {"types", "policy"},
    "recorder": {"types", "trace", "linux"},
    "launch": {"types", "policy", "trace", "linux", "recorder", "killer"},
    "allocations": set(),
    "agent": {
        "types",
        "policy",
        "trace",
        "devices",
        "linux",
        "recorder",
        "launch",
        "killer",
        "swapd",
    },
}

LINES_MAX = 800
WRITTEN_BY_TOOLS = ("python/pagewise/types.py",)
CODE_SUFFIXES = (".rs", ".c", ".h", ".py", ".js", ".css", ".html", ".sh", ".toml")
UNSAFE_ALLOWED = (
    "crates/types/src/prefetch.rs",
    "crates/types/src/huge_pages.rs",
    "crates/trace/src/renumber",
    "crates/linux/",
    "crates/lazy/",
    "crates/allocations/",
    "crates/testkit/src/counting.rs",
)


def tracked_files() -> list[Path]:
    """Every file git knows or would add, without vendored ones."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    ).stdout
    paths = (ROOT / line for line in listing.splitlines())
    return [path for path in paths if path.is_file() and "vendor" not in path.parts]


def files(*suffixes: str) -> list[Path]:
    return [path for path in tracked_files() if path.suffix in suffixes]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def without_tests(source: str) -> str:
    """Rust source up to its test module."""
    return re.split(r"#\[cfg\(test\)\]\s*mod \w+ \{", source)[0]


def modules_of_tests(path: Path) -> set[Path]:
    """The files of the test modules that a Rust file declares."""
    folder = path.parent if path.stem in ("mod", "lib") else path.with_suffix("")
    names = re.findall(r"#\[cfg\(test\)\]\s*mod (\w+);", path.read_text())
    return {folder / f"{name}.rs" for name in names}


def without_comments(source: str) -> str:
    return re.sub(r"//[^\n]*", "", source)


def test_dependencies_point_one_way() -> None:
    metadata = json.loads(
        subprocess.run(
            ["cargo", "metadata", "--no-deps", "--format-version", "1", "--offline"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout
    )
    crates = {package["name"]: package for package in metadata["packages"]}
    assert crates.keys() == MAY_DEPEND_ON.keys(), "a new crate needs its row in MAY_DEPEND_ON"
    for name, package in crates.items():
        for dependency in package["dependencies"]:
            if dependency["name"] not in crates:
                continue
            allowed = MAY_DEPEND_ON[name] | ({"testkit"} if dependency["kind"] == "dev" else set())
            assert dependency["name"] in allowed, f"{name} must not depend on {dependency['name']}"


CATALOG_REASON = "the catalog names its members, which implement what the same file defines"
PARTS_REASON = "one structure in several files: the parts see the fields of the whole"
# Circles that stay, by the beginnings of the names of their files.
HARMLESS_CIRCLES = {
    ("crates/policy/src/eviction/",): CATALOG_REASON,
    ("crates/policy/src/kill/",): CATALOG_REASON,
    ("crates/policy/src/placement/",): CATALOG_REASON,
    ("crates/sim/src/alloc/allocators/",): CATALOG_REASON,
    ("crates/sim/src/misses/",): CATALOG_REASON,
    ("crates/sim/src/swap/",): CATALOG_REASON,
    ("crates/testkit/src/eviction/",): CATALOG_REASON,
    ("crates/trace/src/formats/",): CATALOG_REASON,
    ("crates/trace/src/references/formats/",): CATALOG_REASON,
    ("crates/linux/src/groups",): "the two versions of cgroups behind the trait that both fill",
    ("crates/killer/src/driver",): PARTS_REASON,
    ("crates/policy/src/retention/",): PARTS_REASON,
    ("crates/recorder/src/kills/",): PARTS_REASON,
    ("crates/sim/src/refs/",): PARTS_REASON,
    ("crates/sim/src/scenario/",): PARTS_REASON,
    ("crates/testkit/src/swap/",): PARTS_REASON,
    ("crates/trace/src/renumber/",): PARTS_REASON,
    (
        "crates/lazy/src/bins.rs",
        "crates/lazy/src/spans.rs",
    ): "the lists of free spans are threaded through the tags of the spans",
}


def test_files_of_a_crate_form_no_circles() -> None:
    needed = set()
    for first in ("lib.rs", "main.rs"):
        for root in sorted((ROOT / "crates").glob(f"*/src/{first}")):
            for circle in circles(root):
                files = {relative(Path(file)): paths for file, paths in circle.items()}
                listed = [key for key in HARMLESS_CIRCLES if all(f.startswith(key) for f in files)]
                assert listed, f"a circle: move what several of these share below them: {files}"
                needed.update(listed)
    assert needed == HARMLESS_CIRCLES.keys(), "a circle was cut: take it off the list"


def test_every_rust_file_is_compiled() -> None:
    texts = {path: path.read_text() for path in files(".rs") if "src" in path.parts}
    for path in texts:
        module = path.parent if path.stem == "mod" else path.with_suffix("")
        declared = re.compile(rf'\bmod {module.name};|path = "[\w/]*{module.name}\.rs"')
        parents = [file for file in texts if module.parent in (file.parent, file.with_suffix(""))]
        assert module.name in ("lib", "main") or any(
            declared.search(texts[parent]) for parent in parents
        ), f"{relative(path)}: no `mod {module.name};` names it"


def test_pagewise_imports_no_study() -> None:
    for path in (ROOT / "python").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            back = [name for name in names if name.split(".")[0] == "pagewise_studies"]
            assert not back, f"{relative(path)} imports {back}: move what it needs into pagewise"


def test_files_stay_readable() -> None:
    long = {
        relative(path): lines
        for path in files(*CODE_SUFFIXES)
        if (lines := len(path.read_text().splitlines())) > LINES_MAX
        and relative(path) not in WRITTEN_BY_TOOLS
    }
    assert not long, f"over {LINES_MAX} lines; which idea in them needs its own file? {long}"


def test_unsafe_stays_where_it_is_allowed() -> None:
    for path in files(".rs"):
        text = path.read_text()
        if relative(path).startswith(UNSAFE_ALLOWED):
            blocks, reasons = len(re.findall(r"\bunsafe\s*\{", text)), text.count("SAFETY:")
            assert reasons >= blocks, f"{relative(path)}: {blocks} unsafe blocks, {reasons} reasons"
        else:
            assert not re.search(r"\bunsafe\s*(\{|fn|impl)", without_comments(text)), relative(path)


@pytest.mark.parametrize(
    ("crate", "forbidden"),
    [
        (
            "policy",
            r"std::(time|fs|env|net|process|thread|io|sync::(?!Arc))\b|Hash(Map|Set)|rand::",
        ),
        ("sim", r"std::(time|fs|env|net|process|thread)\b|SystemTime|Instant\b|rand::"),
    ],
)
def test_decisions_are_pure(crate: str, forbidden: str) -> None:
    paths = set((ROOT / "crates" / crate / "src").rglob("*.rs"))
    for path in paths - set().union(*map(modules_of_tests, paths)):
        found = re.search(forbidden, without_comments(without_tests(path.read_text())))
        assert not found, f"{relative(path)} uses {found and found[0]}"


def test_retention_allocates_nothing() -> None:
    for path in (ROOT / "crates/policy/src/retention").glob("*.rs"):
        found = re.search(r"\b(Vec|Box|String|Arc|Rc|BTree\w+|vec!|format!)", path.read_text())
        assert not found, f"{relative(path)} uses {found and found[0]}, yet runs inside malloc"


def test_only_trace_knows_foreign_formats() -> None:
    for path in files(".rs"):
        if not relative(path).startswith(("crates/trace/", "fuzz/")):
            used = re.findall(r"formats::(\w+)", without_comments(path.read_text()))
            assert set(used) <= {"CATALOG"}, f"{relative(path)} uses formats::{used}"


# Pronouns and verbs that say nothing of what they name.
NO_NAMES = re.compile(r"(?<![\w.])(one|told|said)\b")


def test_names_in_rust_are_nouns() -> None:
    for path in files(".rs"):
        source = path.read_text()
        strings = "".join(match[0] for match in WORDS.finditer(source) if match[0][-1] == '"')
        captured = re.search(r"\{(one|told|said)\b[^}]*\}", strings)
        found = NO_NAMES.search(WORDS.sub(" ", source)) or captured
        assert not found, f"{relative(path)}: {found and found[0]}: which noun is it?"


# Words of the glossary that name more than one type, and why these mean the same.
SEVERAL_TYPES = {
    "Candidate": (
        "a choice among others: of a kill policy, of a placement in the arena, of an advice",
        "crates/lazy/src/placement.rs",
        "crates/policy/src/kill/mod.rs",
        "python/pagewise/answers.py",
    ),
    "Cell": (
        "a cell in progress, the request for it, and the cell of study page-size",
        "crates/sim/src/swap/driver.rs",
        "python/pagewise/grids/cells.py",
        "studies/pagewise_studies/page_size_cells.py",
    ),
    "Decision": (
        "a decision, and its row in the result of a replay",
        "crates/policy/src/kill/mod.rs",
        "crates/sim/src/kills/outcome.rs",
    ),
    "Kill": (
        "a kill as killd logs it and as a recording of kills has it, with Python's view of each",
        "crates/launch/src/watch.rs",
        "crates/trace/src/kills/kill.rs",
        "python/pagewise/launch_runs.py",
        "studies/pagewise_studies/kill_measurement.py",
    ),
    "Killer": (
        "killd, the killers of the launch lab and of a simulated phone, and who killed a victim",
        "crates/killer/src/driver.rs",
        "crates/launch/src/watch.rs",
        "crates/sim/src/lifecycle/killer.rs",
        "crates/trace/src/kills/kill.rs",
    ),
    "Outcome": (
        "the outcome of a simulation, and Python's view of it",
        "crates/sim/src/swap/outcome.rs",
        "python/pagewise/advice/costs.py",
    ),
    "Page": (
        "what a simulation keeps of each page",
        "crates/policy/src/placement/adaptive/page.rs",
        "crates/sim/src/alloc/space.rs",
        "crates/sim/src/lifecycle/memory.rs",
        "crates/sim/src/refs/read_ahead.rs",
        "crates/sim/src/refs/stack.rs",
        "crates/sim/src/scenario/memory.rs",
    ),
    "PageSize": (
        "the option, and the result of advising one",
        "python/pagewise/answers.py",
        "python/pagewise/commands/options.py",
    ),
    "Setting": (
        "a setting, and its row in an advice",
        "python/pagewise/advice/setting.py",
        "python/pagewise/answers.py",
    ),
    "Share": (
        "a share in results of Rust and of Python",
        "crates/sim/src/shares.rs",
        "python/pagewise/answers.py",
    ),
    "Skew": (
        "the skew of a set of pages, and of a whole trace as a study reads it",
        "crates/sim/src/analysis/skew.rs",
        "studies/pagewise_studies/skew.py",
    ),
    "Victim": (
        "a victim as killd, the kernel's notice, a replay and a recording of kills see it",
        "crates/killer/src/victims.rs",
        "crates/recorder/src/notices.rs",
        "crates/sim/src/kills/outcome.rs",
        "crates/trace/src/kills/victim.rs",
    ),
    "Visit": (
        "a visit as planned, as simulated, and as measured",
        "crates/launch/src/schedule.rs",
        "crates/sim/src/lifecycle/outcome.rs",
        "python/pagewise/launch_runs.py",
    ),
    "Weight": (
        "a weight as measured, and as recorded",
        "crates/linux/src/weight.rs",
        "crates/trace/src/recording/moment.rs",
    ),
}
TYPE_IN_RUST = re.compile(r"(?m)^(?:pub(?:\([^)]*\))? )?(?:struct|enum|union|trait|type) (\w+)")
TYPE_IN_PYTHON = re.compile(r"(?m)^class (\w+)|^(\w+): TypeAlias\b")
# Models and fixtures have the names of what they stand for, and generated types those of Rust.
OWN_NAMES = ("crates/testkit/", "tests/", "fuzz/", "bench/", "tools/", *WRITTEN_BY_TOOLS)


def words_of_the_glossary() -> list[str]:
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)[1:]
    return [word.strip() for row in rows for word in row.split(",")]


def types_in(path: Path) -> list[str]:
    """The types that a file defines, without those of its tests."""
    if path.suffix == ".rs":
        return TYPE_IN_RUST.findall(without_tests(path.read_text()))
    return [first or second for first, second in TYPE_IN_PYTHON.findall(path.read_text())]


def test_a_word_of_the_glossary_names_one_type() -> None:
    paths = {path for path in files(".rs", ".py") if not relative(path).startswith(OWN_NAMES)}
    paths = {path for path in paths if "tests" not in path.parts}
    paths -= set().union(*(modules_of_tests(path) for path in paths if path.suffix == ".rs"))
    defined: dict[str, set[str]] = {}
    for path in paths:
        for name in types_in(path):
            defined.setdefault(name, set()).add(relative(path))
    names = {
        "".join(part[:1].upper() + part[1:] for part in re.split(r"[ -]", word))
        for word in words_of_the_glossary()
    }
    several = {name: defined[name] for name in names & defined.keys() if len(defined[name]) > 1}
    listed = {name: set(row[1:]) for name, row in SEVERAL_TYPES.items()}
    assert several == listed, (
        "a word of docs/glossary.md names one type: give another type a name that says more, or "
        "list it in SEVERAL_TYPES if it means the same"
    )


def waits_without_limit(call: ast.Call) -> bool:
    """Whether a call starts a command and waits for its end without a timeout."""
    function = ast.unparse(call.func)
    waits = re.fullmatch(r"subprocess\.(run|call|check_\w+)|.*\.communicate", function)
    named = {keyword.arg for keyword in call.keywords}
    # The options in a dictionary are unknown, so they count as a timeout.
    return bool(waits) and not named & {"timeout", None}


def test_no_test_waits_for_a_command_without_a_limit() -> None:
    for path in (path for path in files(".py") if relative(path).startswith("tests/")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and waits_without_limit(node):
                pytest.fail(f"{relative(path)}:{node.lineno}: timeout= is missing")


def test_paths_named_in_documents_exist() -> None:
    missing = []
    ours = re.compile(
        r"(capture|crates|python|studies|devices|examples|tests|fuzz|bench|docs|tools|lab)/"
    )
    for document in files(".md"):
        for quoted, linked in re.findall(r"`([^`\s]+)`|\]\(([^)#\s]+)", document.read_text()):
            path = quoted or linked
            if path.startswith("http") or any(mark in path for mark in "<*{"):
                continue
            if (ours.match(path) or linked) and not (
                (ROOT / path).exists() or (document.parent / path).exists()
            ):
                missing.append(f"{relative(document)}: {path}")
    assert not missing, missing


def test_no_path_of_a_machine() -> None:
    pattern = re.compile(r"(?<![\w.])/(work|home|root|Users)/\w")
    named = [
        relative(path)
        for path in files(*CODE_SUFFIXES, ".md", "")
        if pattern.search(path.read_text(errors="replace"))
    ]
    assert not named, named


def test_no_command_installs_pagewise_from_a_registry() -> None:
    # Another project has the name pagewise in the Python registry.
    installs = re.compile(r"\b(pip3?|pipx|uvx?)\b.*['\" ]pagewise\b")
    found = [
        f"{relative(path)}: {line.strip()}"
        for path in files(*CODE_SUFFIXES, ".md", "")
        for line in path.read_text(errors="replace").splitlines()
        if installs.search(line) and path != Path(__file__)
    ]
    assert not found, found


def test_dependencies_have_a_reason_and_a_pin() -> None:
    section = (ROOT / "Cargo.toml").read_text().split("[workspace.dependencies]")[1].split("\n[")[0]
    previous = ""
    for line in filter(None, section.splitlines()):
        if " = " in line and "path = " not in line:
            assert previous.startswith("#"), f"no reason given for: {line}"
        previous = line
    for path in (ROOT / "pyproject.toml", ROOT / "studies" / "pyproject.toml"):
        text = path.read_text()
        project = tomllib.loads(text)["project"]
        extras = project.get("optional-dependencies", {}).values()
        for requirement in [*project["dependencies"], *itertools.chain.from_iterable(extras)]:
            line = next(line for line in text.splitlines() if requirement in line)
            assert "#" in line, f"no reason given for: {requirement}"
            assert re.search(r"==|<", requirement), f"not pinned: {requirement}"


def test_the_studies_have_the_version_of_pagewise() -> None:
    studies = tomllib.loads((ROOT / "studies" / "pyproject.toml").read_text())
    crates = tomllib.loads((ROOT / "Cargo.toml").read_text())
    assert studies["project"]["version"] == crates["workspace"]["package"]["version"]


CATALOGS = {
    "formats": ("docs/formats.md", _core.formats),
    "reference-formats": ("docs/formats.md", _core.reference_formats),
    "policies": ("docs/analyses.md", _core.policies),
    "architectures": ("docs/architectures.md", _core.architectures),
    "allocators": ("docs/allocations.md", _core.allocators),
    "devices": ("docs/devices.md", lambda: _core.devices()["devices"]),
    "kill-policies": ("docs/killd.md", _core.kill_policies),
}


@pytest.mark.parametrize("family", CATALOGS)
def test_every_row_of_a_catalog_is_documented(family: str) -> None:
    document, rows = CATALOGS[family]
    text = (ROOT / document).read_text()
    named = set(re.findall(r"^(?:\| `|- `|##+ )([\w.-]+)`?", text, re.MULTILINE))
    absent = {row["name"] for row in rows()} - named
    assert not absent, f"{document} lacks {absent}: add a row `| name |` or a section `## name`"


def test_every_option_of_an_architecture_is_documented() -> None:
    text = (ROOT / "docs" / "architectures.md").read_text()
    absent = {
        f"{row['name']}: {option['name']}"
        for row in _core.architectures()
        for option in row["options"]
        if f"`{option['name']}" not in text
    }
    assert not absent, f"docs/architectures.md lacks the options {sorted(absent)}"


def test_the_glossary_has_each_word_once_in_order() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text()
    words = [word.lower() for word in re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)[1:]]
    ordered = sorted(set(words), key=lambda word: word.replace(",", ""))
    assert words == ordered, "docs/glossary.md: one row a word, in alphabetical order"


def test_every_command_and_study_is_documented() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text() for page in pages)
    named = [row.name for row in COMMANDS] + [f"study {row.name}" for row in studies()]
    absent = [
        name for name in named if f"pagewise {name}" not in text and f"make {name}" not in text
    ]
    assert not absent, f"no document shows {absent}: add `pagewise NAME` to README.md or docs/"


def test_skipped_tests_are_counted() -> None:
    for path in files(".rs"):
        if relative(path) != "crates/testkit/src/skip.rs":
            assert not re.search(r'println!\("skipp', path.read_text()), (
                f"{relative(path)}: call testkit::skipped, so that make test counts it"
            )


def test_allocation_logs_use_the_numbers_of_recordings() -> None:
    # The library may depend on libc alone, so it writes the numbers of kinds and flags itself.
    constant = re.compile(r"pub const (\w+): u8 = (\d+);")
    written = constant.findall((ROOT / "crates/allocations/src/log.rs").read_text())
    read = constant.findall((ROOT / "crates/trace/src/recording/mod.rs").read_text())
    assert written and set(written) <= set(read)
