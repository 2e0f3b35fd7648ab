"""`pagewise advise pagesize`: which page size to take on a target, and how to set it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated, Any, TypeAlias

import typer

from pagewise.advice.page_size import TARGETS
from pagewise.commands.captured import captured
from pagewise.commands.options import Json
from pagewise.commands.pagesize_verify import described as described_trial
from pagewise.commands.pagesize_verify import tried
from pagewise.errors import UsageError
from pagewise.models.page_size_curves import Curves
from pagewise.references import is_references
from pagewise.terminal import facts, pasted, show, show_json, watched
from pagewise.units import PAGE_BYTES, format_percent, format_range, format_size

EXAMPLES = (
    "pagewise advise pagesize examples/page-size/photo.pwf --memory 80% --storage optane-ssd",
    "pagewise advise pagesize --memory 80% --storage ufs-3.1 --verify -- xz -k -c /bin/bash",
)

# What `pagewise pagesize` asks as well.
Memory: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="SIZE|SHARE", help="Memory of the program: 64MiB, or 80% of its footprint."
    ),
]
Storage: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="DEVICE",
        help="Where pages come back from: storage of `pagewise devices`, such as optane-ssd, "
        "or a file of `pagewise devices probe`.",
    ),
]
TargetName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="TARGET",
        help=f"Where it is to be set: {', '.join(row.name for row in TARGETS)}; default: "
        "transparent huge pages of the processor that the program is made for.",
    ),
]
Verify: TypeAlias = Annotated[
    bool,
    typer.Option("--verify", help="Try the size on the program as well: needs root."),
]
Rounds: TypeAlias = Annotated[
    int, typer.Option(metavar="N", min=1, max=1000, help="Runs with each size, to verify.")
]


def pagesize(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE | -- COMMAND...",
            help="A trace of memory references (.pwf), or a program to capture one of; for "
            "--verify the program, after its trace where there is one.",
            show_default=False,
        ),
    ],
    memory: Memory,
    storage: Storage,
    target: TargetName = None,
    verify: Verify = False,
    rounds: Rounds = 5,
    json: Json = False,
) -> None:
    """Say which page size to take, what it gains and costs, how to set it and how to undo it.

    Only sizes that the target has are taken; the answer says what that costs against the best
    of 1 to 32 KiB.
    """
    from pagewise.advice.page_size.advise import advise_page_size
    from pagewise.reference_curves import curves

    has_trace = is_references(words[0])
    command = words[1:] if has_trace else words
    if verify and not command:
        raise UsageError("--verify runs the program", hint="write it at the end: -- COMMAND")
    with (
        nullcontext(words[0]) if has_trace else captured(words) as trace,
        watched("counting") as progress,
    ):
        counts = curves(trace, progress=progress)
    advice = advise_page_size(counts, memory=memory, storage=storage, target=target)
    if verify:
        verify_advice(advice, counts, command, rounds)
    if json:
        show_json(advice)
    else:
        show(*described(advice))


def verify_advice(advice: dict[str, Any], counts: Curves, command: list[str], rounds: int) -> None:
    """Tries the advised size on the program, and adds what was measured to the advice."""
    from pagewise.huge_pages.forecast import forecast

    page_bytes = advice["page_bytes"]
    if page_bytes == PAGE_BYTES:
        advice["notes"].append("nothing to verify: these are the pages of today")
        return
    trial = tried(command, page_bytes, rounds)
    advice["verification"] = trial | {"forecast": forecast(counts, page_bytes)}


def described(advice: dict[str, Any]) -> list[Any]:
    """The advice as text and tables."""
    sizes = ", ".join(format_size(size) for size in advice["sizes_bytes"])
    parts: list[Any] = [
        facts(
            [
                ("memory", f"{format_size(advice['memory_bytes'])} of {footprint(advice)}"),
                ("storage", advice["storage"]),
                ("target", f"{advice['target']}: {sizes}"),
                ("take", f"pages of {format_size(advice['page_bytes'])}"),
                ("  gain over 4 KiB", format_range(advice["gain"], format_percent)),
                ("  against the ideal", ideal(advice)),
                (
                    "  memory it takes",
                    f"up to {advice['footprint_factor']:.2f} times that of 4 KiB",
                ),
            ]
        )
    ]
    parts += pasted(advice["settings"])
    if trial := advice.get("verification"):
        parts += ["", *described_trial(trial)]
    return [*parts, *(f"note: {note}" for note in advice["notes"])]


def footprint(advice: dict[str, Any]) -> str:
    """All memory of the program."""
    return f"{format_size(advice['footprint_bytes'])} that the program uses in 4 KiB pages"


def ideal(advice: dict[str, Any]) -> str:
    """What the target's sizes cost."""
    best = format_size(advice["ideal_bytes"])
    if advice["regret"] == 0:
        return f"none better of 1 to 32 KiB ({best})"
    return f"{format_percent(advice['regret'])} slower than {best}"
