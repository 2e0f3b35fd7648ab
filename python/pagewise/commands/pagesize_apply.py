"""`pagewise pagesize apply`: a page size for each virtual machine of a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pagewise.commands.options import Force, Json
from pagewise.terminal import Part, figures, say, show, show_json, watched
from pagewise.units import format_percent, format_range, format_size

if TYPE_CHECKING:
    from pagewise.measurements import GuestAnswer

EXAMPLES = ("pagewise pagesize apply examples/page-size/vms-1.toml -o guests",)


def apply(
    file: Annotated[
        str,
        typer.Argument(metavar="VMS.toml", help="The virtual machines.", show_default=False),
    ],
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="DIR", help="Write a folder for each guest here."),
    ],
    force: Force = False,
    json: Json = False,
) -> None:
    """Choose a page size for each guest, and write the arguments to start it with.

    DIR/NAME/ gets kernel-arguments, qemu.args (for xargs -a), libvirt.xml, and undo, which says how
    to undo them; for x86-64 also tmpfiles.conf, for use inside the guest. This machine does not
    change.
    """
    from pagewise.guests.apply import apply as applied
    from pagewise.reference_curves import curves

    with watched("choosing", counted="guests") as progress:
        result = applied(file, output, curves, force=force, progress=progress)
    for note in (note for guest in result["guests"] for note in guest["notes"]):
        say(f"note: {note}")
    if json:
        show_json(result)
        return
    count = len(result["guests"])
    guests = "one guest" if count == 1 else f"{count} guests"
    written = f"{output}: {guests}; to undo, see {output}/NAME/undo"
    show(_table(result["guests"]), "", written)


def _table(guests: list[GuestAnswer]) -> Part:
    """A row for each guest."""
    columns = ["guest", "workload", "storage", "memory", "pages", "gain", "regret", "footprint"]
    rows = [
        [
            guest["name"],
            guest["workload"],
            guest["storage"],
            format_size(guest["memory_bytes"]),
            format_size(guest["page_bytes"]),
            format_range(guest["gain"], format_percent),
            format_percent(guest["regret"]),
            f"{guest['footprint_factor']:.2f}x",
        ]
        for guest in guests
    ]
    return figures(columns, rows, words=3)
