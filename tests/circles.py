"""Circles between the files of a crate: files that use each other's items, also by way of others.

A path such as `crate::text::read` is resolved to the file that defines it, through re-exports and
private imports. A re-export counts as no use by itself; test modules do not count. A file also uses
the files that add methods to its types, `impl T` beside T, if it calls one that no other file has.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

Segments = tuple[str, ...]

# Comments and literals, which may hold anything.
WORDS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^'\\])'""", re.DOTALL
)
TESTS = re.compile(r"#\[cfg\(test\)\]\s*mod \w+ \{")
MODULE = re.compile(r"((?:#\[[^\]]*\]\s*)*)(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;")
USE = re.compile(r"(?<!\w)((?:pub(?:\([^)]*\))?\s+)?)use\s+([^;]+);")
DEFINED = re.compile(
    r"\b(?:fn|struct|enum|trait|type|const|static|union|mod|macro_rules!)\s+(?:mut\s+)?(\w+)"
)
FUNCTION = re.compile(r"\bfn\s+(\w+)")
GENERICS = r"<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>"
IMPL = re.compile(
    rf"\bimpl\b(?:\s*{GENERICS})?\s+((?:\w+\s*::\s*)*\w+)(?:\s*{GENERICS})?\s*(?:where[^{{]*)?\{{"
)


@dataclass(eq=False)
class Module:
    """One file of a crate, with its imports as (path, name here, whether it is handed on)."""

    path: Path
    parent: "Module | None"
    code: str = ""
    children: dict[str, "Module"] = field(default_factory=dict)
    uses: list[tuple[Segments, str, bool]] = field(default_factory=list)

    @cached_property
    def defined(self) -> set[str]:
        """The names of the items that are written in the file."""
        return set(DEFINED.findall(self.code))

    def defines(self, name: str) -> bool:
        """Whether an item of this name is written in the file."""
        return name in self.defined

    def root(self) -> "Module":
        """The file that the crate begins with."""
        return self.parent.root() if self.parent else self

    def files(self) -> Iterator["Module"]:
        """This file and all below it."""
        yield self
        for child in self.children.values():
            yield from child.files()


def load(path: Path, parent: Module | None = None) -> Module:
    """The module of a file, with the files of its own modules."""
    module = Module(path, parent)
    code = TESTS.split(WORDS.sub(_blank, path.read_text()))[0]
    code = re.sub(r"pub\(in [^)]*\)", "pub", _without_inner_modules(code))
    folder = path.parent if path.stem in ("mod", "lib", "main") else path.with_suffix("")
    for attributes, name in MODULE.findall(code):
        for file in (folder / f"{name}.rs", folder / name / "mod.rs"):
            if file.exists() and "cfg(test)" not in attributes:
                module.children[name] = load(file, module)
    for visibility, tree in USE.findall(code):
        module.uses += [(path, name, bool(visibility)) for path, name in _expand(tree, ())]
    module.code = MODULE.sub("", USE.sub("", code))
    return module


def _blank(literal: re.Match[str]) -> str:
    return '""' if literal[0].endswith('"') else " "


def _without_inner_modules(code: str) -> str:
    """Code in which `super` in modules written in the file itself is that file."""
    for module in re.finditer(r"\bmod\s+\w+\s*\{", code):
        end = _closing(code, module.end() - 1)
        inner = code[module.start() : end].replace("super::", " self::")
        code = code[: module.start()] + inner + code[end:]
    return code


def _closing(code: str, opening: int) -> int:
    """The place of the brace that closes the one at `opening`."""
    depth = 0
    for place in range(opening, len(code)):
        depth += (code[place] == "{") - (code[place] == "}")
        if depth == 0:
            return place
    return len(code)


def _expand(tree: str, before: Segments) -> Iterator[tuple[Segments, str]]:
    """The paths of a tree of imports, each with its name here."""
    group = re.fullmatch(r"\s*((?:\w+\s*::\s*)*)\{(.*)\}\s*", tree, re.DOTALL)
    if not group:
        path, _, alias = tree.strip().partition(" as ")
        segments = before + tuple(re.findall(r"\w+|\*", path))
        if len(segments) > 1 and segments[-1] == "self":
            segments = segments[:-1]
        if segments:
            yield segments, alias.strip() or segments[-1]
        return
    depth, part = 0, ""
    for letter in group[2] + ",":
        if letter == "," and depth == 0:
            if part.strip():
                yield from _expand(part, before + tuple(re.findall(r"\w+", group[1])))
            part = ""
        else:
            depth += (letter == "{") - (letter == "}")
            part += letter


def resolve(
    module: Module, segments: Segments, passed: tuple[tuple[Module, str], ...] = ()
) -> Module | None:
    """The file that defines what a path in `module` names; none outside the crate."""
    here: Module | None = module
    for place, segment in enumerate(segments):
        if here is None or segment == "*":
            return here
        if segment == "crate" and place == 0:
            here = here.root()
        elif segment == "super":
            here = here.parent
        elif segment in here.children:
            here = here.children[segment]
        elif segment != "self":
            for path, name, _ in here.uses:
                if name == segment and (here, name) not in passed:
                    return resolve(here, path + segments[place + 1 :], (*passed, (here, name)))
            for path, name, _ in here.uses:
                if name == "*" and (here, str(path)) not in passed:
                    target = resolve(here, path, (*passed, (here, str(path))))
                    if target and target is not here and target.defines(segment):
                        return target
            return here if place > 0 or here.defines(segment) else None
    return here


def uses(module: Module) -> dict[Module, set[str]]:
    """The files of the crate that a file uses, with the paths by which it does."""
    paths = [
        path
        for path, name, is_handed_on in module.uses
        if not is_handed_on or re.search(rf"\b{re.escape(name)}\b", module.code)
    ]
    heads = "|".join(["crate", "super", "self", *module.children])
    written = re.findall(rf"(?<![\w:.])(?:{heads})(?:\s*::\s*\w+)+", module.code)
    paths += [tuple(re.findall(r"\w+", path)) for path in written]
    found: dict[Module, set[str]] = {}
    for path in paths:
        target = resolve(module, path)
        if target and target is not module:
            found.setdefault(target, set()).add("::".join(path))
    return found


def methods(module: Module) -> Iterator[tuple[Segments, list[str]]]:
    """The types that a file adds methods to by `impl T`, with the names of these methods."""
    for block in IMPL.finditer(module.code):
        body = module.code[block.end() : _closing(module.code, block.end() - 1)]
        yield tuple(re.findall(r"\w+", block[1])), FUNCTION.findall(body)


Graph = dict[Module, dict[Module, set[str]]]


def graph_of(root: Path) -> Graph:
    """What each file uses of the crate whose first file is `root`."""
    graph = {module: uses(module) for module in load(root).files()}
    files_with: dict[str, set[Module]] = {}
    for module in graph:
        for name in FUNCTION.findall(module.code):
            files_with.setdefault(name, set()).add(module)
    for module in graph:
        for owner, names in methods(module):
            home = resolve(module, owner)
            if home is None or home is module:
                continue
            for name in (name for name in names if files_with[name] == {module}):
                if re.search(rf"(?:\.|\b(?:Self|{owner[-1]})\s*::)\s*{name}\b", home.code):
                    graph[home].setdefault(module, set()).add(f"{owner[-1]}::{name}")
    return graph


def circles(graph: Graph, without: Path | None = None) -> list[dict[Path, list[str]]]:
    """The circles of a crate, each with the paths that close it, as if no file used `without`.

    They are the strongly connected components, by Tarjan's algorithm.
    """
    index: dict[Module, int] = {}
    low: dict[Module, int] = {}
    stack: list[Module] = []
    found: list[dict[Path, list[str]]] = []

    def visit(module: Module) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for target in (target for target in graph[module] if target.path != without):
            if target not in index:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], index[target])
        if low[module] == index[module]:
            members = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(members) > 1:
                found.append(
                    {
                        member.path: sorted(
                            path
                            for target, paths in graph[member].items()
                            if target in members
                            for path in paths
                        )
                        for member in members
                    }
                )

    for module in graph:
        if module not in index:
            visit(module)
    return found
