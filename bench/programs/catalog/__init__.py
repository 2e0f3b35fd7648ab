"""The catalog of programs, in the order of the page: one module for each family."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

from programs.catalog import (
    allocators,
    collectors,
    cpython,
    debuggers,
    limits,
    runtimes,
    servers,
    tools,
)
from programs.program import Program

FAMILIES: tuple[ModuleType, ...] = (
    runtimes,
    collectors,
    servers,
    tools,
    debuggers,
    limits,
    allocators,
    cpython,
)

PROGRAMS: dict[str, Program] = {
    program.name: replace(program, family=family.__name__.rpartition(".")[2])
    for family in FAMILIES
    for program in family.PROGRAMS
}
