"""The project's rules that a machine can check; docs/architecture.md gives the reasons."""

import ast
import itertools
import json
import re
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from circles import WORDS, circles, graph_of

from pagewise import _core
from pagewise.commands import COMMANDS
from pagewise.studies import studies

ROOT = Path(__file__).resolve().parents[1]

# The crates that each crate may depend on; dev-dependencies may add testkit.
MAY_DEPEND_ON = {
    "unified": set(),
    "types": set(),
    "policy": {"types"},
    "trace": {"types", "unified"},
    "devices": {"types"},
    "sim": {"types", "policy", "trace", "devices"},
    "python": {"types", "policy", "trace", "devices", "sim"},
    "testkit": {"types"},
    "linux": set(),
    "daemon": {"linux"},
    "killer": {"types", "policy", "linux", "daemon"},
    "relaunch": {"types", "linux", "daemon"},
    "swapd": {"types", "policy", "trace", "devices", "linux"},
    "lazy": {"types", "policy"},
    "recorder": {"types", "trace", "linux"},
    "launch": {
        *("types", "policy", "trace", "devices", "linux", "recorder"),
        *("daemon", "killer", "relaunch"),
    },
    "allocations": set(),
    "agent": {
        *("types", "policy", "trace", "devices", "linux", "recorder", "launch"),
        *("daemon", "killer", "relaunch", "swapd"),
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


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Every node of a Python file's syntax tree, from its root."""
    return list(ast.walk(ast.parse(path.read_text())))


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


# The first files of catalogs: each names its members, which implement what that file defines, so
# the whole folder is one circle. Without the catalog, no other circle may be left.
CATALOGS_OF_FILES = {
    "crates/linux/src/groups.rs": "the trait of both versions of cgroups, and which one is mounted",
    "crates/policy/src/eviction/mod.rs": "eviction policies",
    "crates/policy/src/kill/mod.rs": "kill policies",
    "crates/policy/src/placement/mod.rs": "placements of the swap architectures",
    "crates/sim/src/alloc/allocators/mod.rs": "allocators",
    "crates/sim/src/misses/mod.rs": "ways to count misses",
    "crates/testkit/src/eviction/mod.rs": "models of the eviction policies",
    "crates/trace/src/formats/mod.rs": "formats of recordings",
    "crates/trace/src/references/formats/mod.rs": "formats of references",
    "crates/trace/src/system/formats/mod.rs": "formats of system traces",
}


def together(folder: str, *names: str) -> frozenset[str]:
    return frozenset(f"crates/{folder}/{name}.rs" for name in names)


# The other circles that stay, each with exactly its files.
HARMLESS_CIRCLES = {
    together("killer/src", "driver", "driver/act", "driver/holder", "driver/log"): (
        "one killer in several files: its loop, and the steps and log lines that the loop calls"
    ),
    together("killer/src/table", "entry", "entry/own"): (
        "one entry of the table in two files: its state, and what the end of its process frees"
    ),
    together("lazy/src", "bins", "spans"): (
        "the lists of free spans are threaded through the tags of the spans"
    ),
    together("policy/src/placement/adaptive", "history", "page", "regret", "valuation"): (
        "a page has its state in the shadow cache, whose prices follow from the ages of pages"
    ),
    together("policy/src/retention", "mod", "ages"): (
        "the lists by age hold the entries of the spans, which know their place in the lists"
    ),
    together("recorder/src/kills", "mod", "backend", "tasks"): (
        "the options of the recorder choose the parts that it is made of"
    ),
    together("relaunch/src", "driver", "driver/log"): (
        "one driver in two files: its steps, and the lines that it logs"
    ),
    together("sim/src/refs", "mod", "curve", "pages", "stack", "tlb", "trees"): (
        "one stack of pages in several files, with counts by kind of reference in each"
    ),
    together("sim/src/scenario", "mod", "apps", "schedule"): (
        "the settings of a scenario, and the phone and the visits that are made from them"
    ),
    together("swapd/src/engine", "mod", "perform"): (
        "one engine in two files: its order of requests, and the moves that it performs"
    ),
    together("testkit/src/swap", "mod", "machine", "rules"): (
        "the machine of a replay counts into the replay's outcome; its rules are in a separate file"
    ),
    together("trace/src/renumber", "mod", "extents", "probe", "table"): (
        "one hash table in several files: its parts see the fields of the whole"
    ),
}


def test_files_of_a_crate_form_no_circles() -> None:
    needed: set[object] = set()
    for first in ("lib.rs", "main.rs"):
        for root in sorted((ROOT / "crates").glob(f"*/src/{first}")):
            graph = graph_of(root)
            found = circles(graph)
            while found:
                circle = found.pop()
                files = {relative(path): paths for path, paths in circle.items()}
                catalogs = [path for path in circle if relative(path) in CATALOGS_OF_FILES]
                if len(catalogs) == 1 and all(is_below(path, catalogs[0]) for path in circle):
                    needed.add(relative(catalogs[0]))
                    inner = circles(graph, without=catalogs[0])
                    found += [rest for rest in inner if rest.keys() <= circle.keys()]
                    continue
                listed = frozenset(files)
                assert listed in HARMLESS_CIRCLES, (
                    f"a circle: move what several of these share below them: {files}"
                )
                needed.add(listed)
    unneeded = {*CATALOGS_OF_FILES, *HARMLESS_CIRCLES} - needed
    assert not unneeded, f"a circle was cut: take it off the list: {unneeded}"


def is_below(path: Path, catalog: Path) -> bool:
    """Whether a file is that of a catalog, or in the catalog's folder."""
    folder = catalog.parent if catalog.stem == "mod" else catalog.with_suffix("")
    return path == catalog or path.is_relative_to(folder)


def test_every_rust_file_is_compiled() -> None:
    texts = {path: path.read_text() for path in files(".rs") if "src" in path.parts}
    # By folder, the files that may declare its modules.
    parents_of = defaultdict(list)
    for path in texts:
        parents_of[path.parent].append(path)
        parents_of[path.with_suffix("")].append(path)
    for path in texts:
        module = path.parent if path.stem == "mod" else path.with_suffix("")
        declared = re.compile(rf'\bmod {module.name};|path = "[\w/]*{module.name}\.rs"')
        assert module.name in ("lib", "main") or any(
            declared.search(texts[parent]) for parent in parents_of[module.parent]
        ), f"{relative(path)}: no `mod {module.name};` names it"


def test_pagewise_imports_no_study() -> None:
    for path in (ROOT / "python").rglob("*.py"):
        for node in nodes_of(path):
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


def names_in_python(path: Path) -> Iterator[tuple[int, str | None]]:
    """The names that a file gives: to variables, parameters, functions, classes and imports."""
    for node in nodes_of(path):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler):
            yield node.lineno, node.name
        elif isinstance(node, ast.alias):
            yield node.lineno, node.asname


def test_names_in_python_are_nouns() -> None:
    for path in files(".py"):
        for line, name in names_in_python(path):
            assert name not in ("one", "told", "said"), f"{relative(path)}:{line}: which noun?"


NAMED_IN_SCRIPT = re.compile(
    r"\b(?:const|let|var|function|class)\s+(?:one|told|said)\b|"
    r"\b(?:one|told|said)\b(?=[\w\s,]*\)?\s*=>)"
)


def test_names_in_scripts_of_pages_are_nouns() -> None:
    for path in files(".js"):
        found = NAMED_IN_SCRIPT.search(path.read_text())
        assert not found, f"{relative(path)}: {found and found[0]}: which noun is it?"


# Openings of a doc comment that lean on the comment above it.
LEANS = re.compile(
    r"(The same|Its?|Their|They|Those|These|That|Also|And|Likewise|As above|None\.|Nothing\.|"
    r"As the \w+ above|"
    r"(What|How|How often|How long|Whether|When|Where|Why|Which) (it|they|its|their))(\b|(?<=\.))"
)


def openings_in_rust(path: Path) -> Iterator[tuple[int, str]]:
    """The first lines of the doc comments of a file, and of their sections such as `# Errors`."""
    is_first = True
    for number, line in enumerate(path.read_text().splitlines(), 1):
        comment = re.match(r"\s*//[/!] ?(.*)", line)
        if comment and is_first and comment[1]:
            yield number, comment[1]
        is_first = not comment or comment[1].startswith("# ")


def openings_in_python(path: Path) -> Iterator[tuple[int, str]]:
    """The doc comments of a file: of modules, classes, functions and fields."""
    for node in nodes_of(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.lineno, str(node.value.value)


def openings_elsewhere(path: Path) -> Iterator[tuple[int, str]]:
    """The first lines of the comments of a file in C or JavaScript, or with comments after #."""
    mark = r"/[*/]+" if path.suffix in (".c", ".h", ".js", ".css") else "#+"
    is_first = True
    for number, line in enumerate(path.read_text().splitlines(), 1):
        comment = re.match(rf"\s*{mark} ?(.*)", line)
        if comment and is_first:
            yield number, comment[1]
        is_first = not comment


def test_doc_comments_stand_alone() -> None:
    opened = [(path, openings_in_rust(path)) for path in files(".rs")]
    opened += [(path, openings_in_python(path)) for path in files(".py")]
    others = [*files(".c", ".h", ".js", ".css", ".toml", ".sh"), ROOT / "Makefile"]
    opened += [(path, openings_elsewhere(path)) for path in others]
    leaning = [
        f"{relative(path)}:{line}: {text.splitlines()[0]}"
        for path, openings in opened
        for line, text in openings
        if LEANS.match(text)
    ]
    assert not leaning, "repeat what the comment is about:\n" + "\n".join(leaning)


def defined_in(script: Path) -> set[str]:
    """Names that a script defines or imports at its top level."""
    names: set[str] = set()
    for statement in ast.parse(script.read_text()).body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names |= {
                found.id
                for target in targets
                for found in ast.walk(target)
                if isinstance(found, ast.Name)
            }
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in statement.names}
        elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names.add(statement.name)
    return names


def test_scripts_of_bench_import_what_another_defines():
    scripts = {path.stem: path for path in (ROOT / "bench").glob("*.py")}
    found = 0
    for path in scripts.values():
        for statement in ast.walk(ast.parse(path.read_text())):
            if isinstance(statement, ast.ImportFrom) and statement.module in scripts:
                missing = {alias.name for alias in statement.names} - defined_in(
                    scripts[statement.module]
                )
                assert not missing, f"{path.name}: {statement.module}.py lacks {missing}"
                found += 1
    assert found > 5


# Words of the glossary that name more than one type, and why these mean the same.
SEVERAL_TYPES = {
    "Candidate": (
        "what a choice is made from: processes to kill, free spans of the arena, architectures",
        "crates/lazy/src/placement.rs",
        "crates/policy/src/kill/mod.rs",
        "python/pagewise/answers.py",
    ),
    "Cell": (
        "one cell of a grid: while Rust replays it, as Python asks for it, and of a page-size grid",
        "crates/sim/src/swap/driver.rs",
        "python/pagewise/grids/cells.py",
        "studies/pagewise_studies/page_size_cells.py",
    ),
    "Decision": (
        "what a kill policy decides, and the same with its judgement in the result of a replay",
        "crates/policy/src/kill/mod.rs",
        "crates/sim/src/kills/outcome.rs",
    ),
    "Kill": (
        "one kill: from killd's log, from the kernel's events, and as Python reads either",
        "crates/launch/src/watch.rs",
        "crates/trace/src/kills/kill.rs",
        "python/pagewise/launch_runs.py",
        "studies/pagewise_studies/kill_measurement.py",
    ),
    "Killer": (
        "what kills: killd, the killer of a launch run or a simulated phone, the recorded sender",
        "crates/killer/src/driver.rs",
        "crates/launch/src/watch.rs",
        "crates/sim/src/lifecycle/killer.rs",
        "crates/trace/src/kills/kill.rs",
        "python/pagewise/lives.py",
    ),
    "Move": (
        "of a page between tiers, of a page in a schedule of the bound, of a mapping by mremap",
        "crates/lazy/src/pieces.rs",
        "crates/policy/src/tiers/moves.rs",
        "crates/sim/src/swap/clairvoyant/moves.rs",
    ),
    "Outcome": (
        "the counts and times of one simulation; Python's type adds those at other latencies",
        "crates/sim/src/swap/outcome.rs",
        "python/pagewise/advice/costs.py",
    ),
    "Page": (
        "the state of one page in one model; private to its file, as each model needs other fields",
        "crates/policy/src/placement/adaptive/page.rs",
        "crates/sim/src/alloc/space.rs",
        "crates/sim/src/lifecycle/memory.rs",
        "crates/sim/src/refs/read_ahead.rs",
        "crates/sim/src/refs/stack.rs",
        "crates/sim/src/scenario/memory.rs",
    ),
    "PageSize": (
        "a size of pages: the option of commands, and the answer of `pagewise pagesize`",
        "python/pagewise/answers.py",
        "python/pagewise/commands/options.py",
    ),
    "Setting": (
        "commands that set something up: as a target makes them, and as JSON has them",
        "python/pagewise/advice/setting.py",
        "python/pagewise/answers.py",
    ),
    "Share": (
        "a number from 0 to 1, whose range stands in the schema; each language needs its own type",
        "crates/sim/src/shares.rs",
        "python/pagewise/ranges.py",
    ),
    "Skew": (
        "shares of accesses by share of pages: as `analyze` counts them, and as a study reads them",
        "crates/sim/src/analysis/skew.rs",
        "studies/pagewise_studies/skew.py",
    ),
    "Victim": (
        "a process that is killed: while killd waits for it, in a notice, a replay, a recording",
        "crates/killer/src/victims.rs",
        "crates/recorder/src/notices.rs",
        "crates/sim/src/kills/outcome.rs",
        "crates/trace/src/kills/victim.rs",
    ),
    "Visit": (
        "one visit of an app: planned by the lab, simulated on a phone, measured in a run",
        "crates/launch/src/schedule.rs",
        "crates/sim/src/lifecycle/outcome.rs",
        "python/pagewise/launch_runs.py",
    ),
    "Weight": (
        "the memory that the end of a process frees: as read from the kernel, and in a recording",
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
        for node in nodes_of(path):
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
    pattern = re.compile(r"(?<![\w.])/(work|home|root|Users)/(?!0000000)\w")
    named = [
        relative(path)
        for path in files(*CODE_SUFFIXES, ".md", "")
        if pattern.search(path.read_text(errors="replace"))
    ]
    assert not named, named


def test_no_command_installs_pagewise_from_a_registry() -> None:
    # Another project has the name pagewise in the Python registry.
    own = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"]
    assert own != "pagewise"
    other = own.removeprefix("pagewise")
    installs = re.compile(rf"\b(pip3?|pipx|uvx?)\b.*['\" ]pagewise\b(?!{other}\b)")
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


# The layout of an early recorder; nothing writes it any more, so no page explains it.
NAMED_NOWHERE = {"pgw"}


@pytest.mark.parametrize("family", CATALOGS)
def test_every_row_of_a_catalog_is_documented(family: str) -> None:
    document, rows = CATALOGS[family]
    text = (ROOT / document).read_text()
    named = set(re.findall(r"^(?:\| `|- `|##+ )([\w.-]+)`?", text, re.MULTILINE))
    absent = {row["name"] for row in rows()} - named - NAMED_NOWHERE
    assert not absent, f"{document} lacks {absent}: add a row `| name |` or a section `## name`"


@pytest.mark.parametrize(
    ("command", "rows"), [("misses", _core.policies), ("simulate", _core.architectures)]
)
def test_the_changelog_lists_a_whole_catalog(
    command: str, rows: Callable[[], Sequence[Mapping[str, Any]]]
) -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    entry = re.search(rf"(?m)^- `pagewise {command}`.*(?:\n  .*)*", text)
    assert entry
    assert {row["name"] for row in rows()} <= set(re.findall(r"`([\w-]+)`", entry[0]))


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
    # The library may depend only on libc, so it writes the numbers of kinds and flags itself.
    constant = re.compile(r"pub const (\w+): u8 = (\d+);")
    written = constant.findall((ROOT / "crates/allocations/src/log.rs").read_text())
    read = constant.findall((ROOT / "crates/trace/src/recording/mod.rs").read_text())
    assert written and set(written) <= set(read)
