"""Tables and figures of the page-size study: programs, best sizes, readings and regret."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from pagewise.models.page_size_curves import footprint_bytes
from pagewise.models.page_size_time import (
    DENOMINATORS,
    FIRST_TOUCHES,
    TLB_LEVELS,
    Model,
    Terms,
)
from pagewise.units import PAGE_BYTES, format_count, format_share, format_size
from pagewise_studies.figure import Figure, Point
from pagewise_studies.page_size_cells import (
    FITTED_BYTES,
    NVM,
    PAPER_BYTES,
    SHARES,
    STORAGES,
    TARGET_BYTES,
    WALKS,
    Cell,
    Program,
    best_of,
    gain,
    kept,
    machine_of,
    regret,
)
from pagewise_studies.page_size_vms import VMS
from pagewise_studies.table import Row, Table

FIXED_BYTES = (PAGE_BYTES, 8192, 16384, 32768, 65536)
SHOWN_SHARES = (0.2, 0.5, 0.8)
SHOWN_STORAGE = "optane-ssd"


def programs_table(programs: Sequence[Program]) -> Table:
    """The table of programs: references, references past the filter, and footprint by page size."""
    return Table(
        "programs",
        "The programs",
        "*Past the filter*: references that missed 64 blocks of 512 bytes, the denominator "
        "`memory`. *Footprint*: memory for every page, in pages of 4 KiB. The last columns show "
        "the footprint in larger pages, as a multiple.",
        [
            {
                "program": program.name,
                "input": name,
                "references": format_count(curves.references),
                "past the filter": format_count(curves.steps),
                "footprint": format_size(footprint_bytes(curves)),
                **{
                    f"in {format_size(size)}": footprint_bytes(curves, size)
                    / footprint_bytes(curves)
                    for size in TARGET_BYTES[1:]
                },
            }
            for program in programs
            for name, curves in (("first", program.curves), *program.others.items())
        ],
    )


def best_table(programs: Sequence[Program], terms: Terms) -> Table:
    """The table of the best size for each program, memory and storage, with its gain."""
    rows: list[Row] = []
    for storage, program in itertools.product(STORAGES, programs):
        machine = machine_of(storage, terms)
        row: dict[str, str] = {"storage": storage, "program": program.name}
        for share in SHARES:
            cell = Cell(program.curves, share, machine)
            judged = cell.judged(FITTED_BYTES)
            if PAGE_BYTES in judged:
                total = cell.total_ns(cell.rates(judged))
                best = min(total, key=total.__getitem__)
                text = f"{format_size(best)} ({gain(total, best) * 100:.0f} %)"
            else:
                text = ""
            row[format_share(share)] = text
        rows.append(row)
    return Table(
        "best",
        "The best size by memory, and its gain over 4 KiB",
        "Sizes are 512 B to 64 KiB that leave 64 frames. Memory is a share of the footprint.",
        rows,
    )


def readings_table(programs: Mapping[str, Program], terms: Terms) -> Table:
    """The table of the gain under each reading of the paper's open choices."""
    rows: list[Row] = []
    for references, cold, levels, (walk, cached) in itertools.product(
        DENOMINATORS, FIRST_TOUCHES, TLB_LEVELS, WALKS
    ):
        filled = replace(
            terms,
            references=references,
            cold=cold,
            tlb_levels=levels,
            walk=walk,
            cached_levels=cached,
        )
        row: dict[str, str] = {
            "references": references,
            "first touches": cold,
            "TLB levels": str(levels),
            "accesses of a walk": str(filled.walk_accesses),
        }
        for nvm in NVM:
            gains: dict[bool, list[float]] = {False: [], True: []}
            for vm in VMS:
                cell = vm.cell(programs, nvm, filled)
                total = cell.total_ns(cell.rates(cell.judged(PAPER_BYTES)))
                if PAGE_BYTES in total:
                    gains[vm.is_hdd].append(gain(total, kept(total)))
            row[nvm] = mean_share(gains[False])
            row[f"most, {nvm}"] = mean_share([max(gains[False], default=0.0)])
        row["HDD machines"] = mean_share(gains[True])
        rows.append(row)
    return Table(
        "readings",
        "The mean gain of the twelve machines under every reading",
        "Mean and largest gain (*most*) of the ten NVM machines, and mean gain of the two with a "
        "hard disk, with sizes from 1 to 32 KiB. The paper has 38 % and 56 %, and no gain on a "
        "hard disk. *References*: time per reference past the filter (`memory`) or per reference "
        "of the processor (`cpu`). *First touches*: each reads storage (`counted`), each clears a "
        "page (`zero-fill`), or those that write clear a page and the others read storage "
        "(`file-only`).",
        rows,
    )


def mean_share(shares: Sequence[float]) -> str:
    """The mean of the shares as a percentage; empty if there are none."""
    return format_share(fmean(shares)) if shares else ""


def fixed_table(programs: Sequence[Program], terms: Terms) -> Table:
    """The table of the regret of a single size for all cells, against the best size of each."""
    rows: list[Row] = []
    for storage in STORAGES:
        machine = machine_of(storage, terms)
        cells = [Cell(program.curves, share, machine) for program in programs for share in SHARES]
        judged = [
            (cell, cell.total_ns(cell.rates(sizes)))
            for cell in cells
            if set(FIXED_BYTES) <= set(sizes := cell.judged(FITTED_BYTES))
        ]
        regrets = {
            f"always {format_size(size)}": [regret(total, size) for _, total in judged]
            for size in FIXED_BYTES
        }
        regrets["best of 4, 16, 64 KiB"] = [
            regret(total, best_of(cell, TARGET_BYTES)) for cell, total in judged
        ]
        means = {name: mean_share(values) for name, values in regrets.items()}
        rows.append({"storage": storage, "cells": len(judged), **means})
    return Table(
        "fixed",
        "One size for everything",
        "Mean regret compared with the best size from 512 B to 64 KiB, over the programs and "
        "memories in which 64 KiB leaves 64 frames.",
        rows,
    )


def figures(programs: Sequence[Program], terms: Terms) -> list[Figure]:
    """Figs. 2 and 3 of each program."""
    return [
        *(
            _fig2(program, storage, terms)
            for storage, program in itertools.product(("hdd", *NVM), programs)
        ),
        *(_fig3(program, terms) for program in programs),
    ]


def _fig2(program: Program, storage: str, terms: Terms) -> Figure:
    """Time for translation and for data by page size, with half of the footprint as memory.

    The axis is logarithmic, since beyond a cliff a hard disk takes a thousand times as long.
    """
    cell = Cell(program.curves, 0.5, machine_of(storage, terms))
    times = cell.times(cell.judged(FITTED_BYTES))
    return Figure(
        name=f"page-size-fig2-{program.name}-{storage}",
        title=f"Fig. 2: {program.name} on {storage}, half of its footprint as memory",
        x_label="page size",
        y_label="time per reference, ns",
        points=tuple(
            Point(format_size(size), series, float(value))
            for size, time in times.items()
            for series, value in (
                ("address translation", time.translation_ns),
                ("data access", time.data_ns),
                ("together", time.total_ns),
            )
        ),
        config={"figure": "fig2", "program": program.name, "storage": storage, "terms": str(terms)},
        is_categorical=True,
        is_joined=True,
        has_log_y=True,
        chart=f"Fig. 2: half of the footprint as memory, {storage}",
        view=program.name,
        group="fig2",
    )


def _fig3(program: Program, terms: Terms) -> Figure:
    """Time from the paper's fits and from the counts, at three memories."""
    points = []
    for share in SHOWN_SHARES:
        cell = Cell(program.curves, share, machine_of(SHOWN_STORAGE, terms))
        sizes = cell.judged(FITTED_BYTES)
        if len(sizes) < 2:
            continue
        models: tuple[tuple[str, Model], ...] = (
            ("counted", "exact"),
            ("the paper's fits", "paper"),
        )
        for series, model in models:
            total = cell.total_ns(cell.rates(sizes, model))
            points += [
                Point(format_size(size), f"{format_share(share)}, {series}", value)
                for size, value in total.items()
            ]
    return Figure(
        name=f"page-size-fig3-{program.name}",
        title=f"Fig. 3: {program.name} on {SHOWN_STORAGE}, model and simulation",
        x_label="page size",
        y_label="time per reference, ns",
        points=tuple(points),
        config={"figure": "fig3", "program": program.name, "terms": str(terms)},
        is_categorical=True,
        is_joined=True,
        has_log_y=True,
        chart=f"Fig. 3: model and simulation at three memories, {SHOWN_STORAGE}",
        view=program.name,
    )
