"""Run folders of the launch lab, small enough to count by hand."""

import json
import re
import shutil
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pagewise import _core

MIB = 2**20
SECOND = 10**9

PLAN = """\
[plan]
name = "{name}"
order = [{order}]
rounds = 2
mode = "{mode}"
{budget}
schedule = {{ kind = "round-robin" }}
{kill}
[machine]
kernel = "6.18"
[versions]
pagewise-agent = "0.1.0"
[run]
monotonic_start_ns = {start_ns}
finished = {finished}
reason = "{reason}"
"""

VISIT: dict[str, tuple[str, Any]] = {
    "visit": ("integer", 0),
    "round": ("integer", 0),
    "app": ("text", ""),
    "cold": ("flag", False),
    "launch_s": ("number", 1.0),
    "start_s": ("number", 0.0),
    "end_s": ("number", 1.0),
    "kills": ("integer", 0),
    "killed": ("text", ""),
    "oom_kills": ("integer", 0),
    "bytes_in": ("integer", 0),
    "bytes_out": ("integer", 0),
    "swap_in_bytes": ("integer", 0),
    "swap_out_bytes": ("integer", 0),
    "file_refaults": ("integer", 0),
    "major_faults": ("integer", 0),
    "memory_bytes": ("integer", MIB),
    "anonymous_bytes": ("integer", MIB),
    "program": ("text", ""),
    "free_bytes_before": ("integer", 55 * MIB),
    "free_bytes_after": ("integer", 5 * MIB),
    **{
        name: ("number", None)
        for name in (
            *("processor_s", "ready_s", "kill_s", "kswapd_s"),
            *("reclaim_s", "refault_s", "swap_in_s", "storage_s"),
            *("memory_stall_s", "io_stall_s", "cpu_stall_s"),
        )
    },
}
"""Type and default value of each column of visits.parquet."""


KILL: dict[str, tuple[str, Any]] = {
    "visit": ("integer", 0),
    "app": ("text", "app"),
    "process": ("integer", 1),
    "at_s": ("number", 0.5),
    "freed_bytes": ("integer", 30 * MIB),
    "back_s": ("number", 0.01),
}
"""Type and usual value of each column of kills.parquet."""


def write_run(
    folder: Path,
    visits: Sequence[dict[str, Any]],
    *,
    mode: str = "swap-file",
    budget: str = "650MiB",
    threshold: float = 0.4,
    start_ns: int | None = None,
    recording: str | None = None,
    processes: dict[int, str] | None = None,
    unfinished: str = "",
    minfree: str = "",
    kills: Sequence[dict[str, Any]] = (),
    without: Sequence[str] = (),
    invalid_because: Sequence[str] | None = (),
) -> Path:
    """Writes a run with these visits; entries that a visit lacks have the values of ``VISIT``.

    ``recording`` is the text of a recording of any format, which readers recognise by its content;
    ``minfree`` are further entries of the plan, such as the killer's table in that mode; ``kills``
    are rows as in ``KILL``; ``without`` names columns that the run lacks; ``invalid_because`` are
    the reasons why the run is invalid, None in a run made before runs judged themselves.
    ``start_ns`` differs from name to name if it is not given.
    """
    folder.mkdir(parents=True)
    order = ", ".join(f'"{app}"' for app in dict.fromkeys(visit["app"] for visit in visits))
    text = PLAN.format(
        name=folder.name,
        order=order,
        mode=mode,
        budget="" if mode == "no-limit" else f'budget = "{budget}"',
        kill=f"kill = {{ threshold = {threshold} }}\n{minfree}" if mode == "kill" else minfree,
        start_ns=zlib.crc32("/".join(folder.parts[-2:]).encode()) % 99991
        if start_ns is None
        else start_ns,
        finished="false" if unfinished else "true",
        reason=unfinished,
    )
    if invalid_because is not None:
        judged = f"valid = {json.dumps(not invalid_because)}\n"
        text = f"{judged}invalid_because = {json.dumps(list(invalid_because))}\n{text}"
    (folder / "run.toml").write_text(text)
    columns = {
        name: (kind, [visit.get(name, usual) for visit in visits])
        for name, (kind, usual) in VISIT.items()
        if name not in without
    }
    write_table(folder / "visits.parquet", columns)
    if kills:
        columns = {
            name: (kind, [kill.get(name, usual) for kill in kills])
            for name, (kind, usual) in KILL.items()
        }
        write_table(folder / "kills.parquet", columns)
    if recording is not None:
        (folder / "recording.pgr").write_text(recording)
    if processes is not None:
        columns = {
            "app": ("text", list(processes.values())),
            "process": ("integer", list(processes)),
        }
        write_table(folder / "processes.parquet", columns)
    return folder


def repeated(folders: Iterable[Path]) -> list[Path]:
    """The runs and a repeat of each, with the same visits."""
    found = []
    for folder in folders:
        again = folder.with_name(f"{folder.name}-again")
        shutil.copytree(folder, again)
        about = again / "run.toml"
        text = re.sub(r"(?m)^(monotonic_start_ns = )\d+", r"\g<1>100000", about.read_text())
        about.write_text(text.replace("= 100000", f"= {100000 + len(found)}"))
        found += [folder, again]
    return found


def write_table(path: Path, columns: dict[str, tuple[str, list[Any]]]) -> None:
    """Writes a table; ``columns`` maps names to types and values."""
    listed = [
        {"name": name, "type": kind, "values": values} for name, (kind, values) in columns.items()
    ]
    _core.write_table(str(path), json.dumps({"columns": listed}))


def zstd_frame(data: bytes) -> bytes:
    """A zstd frame with uncompressed data of less than 128 KiB (RFC 8878)."""
    head = b"\x28\xb5\x2f\xfd\xa0" + len(data).to_bytes(4, "little")
    return head + (len(data) << 3 | 1).to_bytes(3, "little") + data


def rounds(apps: int, *launches_s: float, **more: Any) -> list[dict[str, Any]]:
    """A visit per second: a round of ``apps`` applications per launch time; the first is cold."""
    visits = [
        {"round": number, "app": f"app{app}", "launch_s": launch_s, "cold": number == 0, **more}
        for number, launch_s in enumerate(launches_s)
        for app in range(apps)
    ]
    return [{**visit, "start_s": float(at), "end_s": at + 0.9} for at, visit in enumerate(visits)]
