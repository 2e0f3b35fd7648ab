"""`pagewise devices`: times and endurance of known devices; `probe` measures a disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pagewise import _core
from pagewise.commands.help import Group
from pagewise.commands.options import Force, Json, epilog
from pagewise.terminal import figures, show, show_json
from pagewise.units import format_number

if TYPE_CHECKING:
    from pagewise.types import Device, Latency

app = typer.Typer(
    cls=Group,
    help="List the devices that --fast and --slow accept, or measure your own disk.",
    invoke_without_command=True,
    epilog=epilog(["pagewise devices"]),
)


@app.callback()
def run(context: typer.Context, json: Json = False) -> None:
    """List the devices that --fast and --slow accept, or measure your own disk.

    Times are microseconds for one 4 KiB page: the typical time, which simulations use, and its
    range in parentheses.
    """
    if context.invoked_subcommand is None:
        list_devices(json)


@app.command("list", epilog=epilog(["pagewise devices list --json"]))
def list_devices(json: Json = False) -> None:
    """List every device with its times, endurance and source."""
    result = _core.devices()
    if json:
        show_json(result)
        return
    rows = [
        [
            device["name"],
            device["summary"],
            times(device["read_ns"]),
            times(device["write_ns"]),
            transfer(device),
            cycles(device),
        ]
        for device in result["devices"]
    ]
    columns = ["device", "what", "read us", "write us", "larger reads", "rated cycles"]
    show(figures(columns, rows, words=2))


@app.command("probe", epilog=epilog(["pagewise devices probe /mnt/card -o my-card.toml"]))
def probe(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A folder on the disk with enough space for the test file.",
            show_default=False,
        ),
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="DEVICE.toml", help="The device file to write.")
    ] = "probed-device.toml",
    size: Annotated[
        str, typer.Option(metavar="SIZE", help="Size of the test file; larger is more accurate.")
    ] = "256MiB",
    seconds: Annotated[
        int,
        typer.Option(metavar="SECONDS", min=1, max=3600, help="Length of each measurement."),
    ] = 5,
    force: Force = False,
    json: Json = False,
) -> None:
    """Measure reads and writes of a disk with fio, and write a device file.

    Give the file to --fast, --slow or --storage. On the disk, probe writes only a new test file,
    and removes it.
    """
    from pagewise import probe as prober

    result = prober.probe(path, output, size=size, seconds=seconds, force=force)
    if json:
        show_json(result)
    else:
        show(
            f"{output}: read {short(result['read_us']['typical'])} us, "
            f"write {short(result['write_us']['typical'])} us per 4 KiB page"
        )
        setup, rate = result["setup_us"], result["bandwidth_mb_s"]
        if setup and rate:
            show(f"larger reads: {larger(setup['typical'], rate['typical'])}")


def times(figure: Latency) -> str:
    """A time in microseconds with its range."""
    low, typical, high = (ns / 1000 for ns in (figure["low"], figure["typical"], figure["high"]))
    if low == high:
        return short(typical)
    return f"{short(typical)} ({short(low)}-{short(high)})"


def transfer(device: Device) -> str:
    """Setup time and bandwidth of reads, for comparing page sizes."""
    known = device.get("transfer")
    if known is None:
        return "not known"
    return larger(known["setup_ns"]["typical"] / 1000, known["bandwidth_mb_s"]["typical"])


def larger(setup_us: float, bandwidth_mb_s: float) -> str:
    """Setup time and bandwidth in words."""
    return f"{short(setup_us)} us + {short(bandwidth_mb_s)} MB/s"


def short(figure: float) -> str:
    """Three significant digits, without an exponent."""
    return format_number(figure, 3)


def cycles(device: Device) -> str:
    """Rated program-erase cycles."""
    rated = device.get("rated_cycles")
    return "none known" if rated is None else f"{rated['typical']:.2g}"
