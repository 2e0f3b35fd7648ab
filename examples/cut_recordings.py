"""Cuts the recordings in this folder from runs of the launch lab; needs polars and zstd.

    python examples/cut_recordings.py RUN_FOLDER...

For each run NAME, it writes to examples/NAME/

- `visits.parquet`, as it is;
- `run.toml` without the names of folders;
- `NAME.pgw.zst`, if the run swapped: every page of an application swapped out or in, and the
  exits. Times and latencies are truncated to microseconds.
- `NAME.blocks.csv.zst`, of the four phones with nine applications: every request to a disk, in
  the columns of `blockcsv`. The requests of the other runs would take 20 MB.

Processes are named after their application. Other processes are left out of the swap events, and
named `other` in block I/O. Nothing is sampled.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars

import pagewise as pw
from pagewise import _core

FOLDER = Path(__file__).resolve().parent
WITH_BLOCKS = ("phone-1g", "kill-1g", "phone-2g", "kill-2g")
MAGIC = 0x31574750
COLUMNS = (
    ("dt_ns", "<i4"),
    ("type", "u1"),
    ("flags", "u1"),
    ("tgid", "<u4"),
    ("value", "<u8"),
    ("entry", "<u8"),
    ("aux", "<u4"),
)
SWAP_OUT, SWAP_IN, EXIT, WRITE = (
    _core.kinds().index(name) for name in ("swap_out", "swap_in", "exit", "write")
)
TYPES = {SWAP_OUT: 1, SWAP_IN: 4, EXIT: 7}
"""The type of each event in a .pgw file."""
EXEC = 6
MAJOR, SHARED = 4, 8
MICROSECOND = 1000
LONGEST_GAP_NS = 2_000_000_000
"""The longest time between two events of a .pgw file, which stores differences in 32 bits."""


def swap_events(trace: Path, applications: dict[int, str]) -> tuple[dict[str, np.ndarray], int]:
    """The columns of the applications' swap events, and their number."""
    header = pw.read(trace).header
    pids = np.array([process["pid"] for process in header["processes"]], "<u4")
    events = polars.read_parquet(trace).filter(polars.col("event").is_in(list(TYPES)))
    kind, flags = events["event"].to_numpy(), events["flags"].to_numpy()
    actor = pids[events["process"].to_numpy()]
    # An exit has no page; for all other swap events, the space names the page's owner.
    owned = kind != EXIT
    space = events["space"].to_numpy()
    owner = np.where(owned, pids[np.maximum(space, 1) - 1], actor)
    keep = np.isin(owner, list(applications)) & ((space > 0) | ~owned)
    # Processors may store their events slightly out of order.
    times = np.maximum.accumulate(events["time_ns"].to_numpy()[keep])
    times = times // MICROSECOND * MICROSECOND
    kind, flags = kind[keep], flags[keep]
    took = np.minimum(events["duration_ns"].to_numpy()[keep], 2**32 - 1)
    columns = {
        "dt_ns": np.diff(times, prepend=0),
        "type": np.vectorize(TYPES.get, otypes=["u1"])(kind),
        "flags": ((flags & MAJOR) != 0) * 2 * (kind == SWAP_IN)
        + ((flags & SHARED) != 0) * 2 * (kind == SWAP_OUT),
        "tgid": owner[keep],
        "value": np.where(kind == EXIT, 0, events["address"].to_numpy()[keep]),
        "entry": np.zeros(len(kind)),
        "aux": np.where(kind == SWAP_OUT, actor[keep], took // MICROSECOND * MICROSECOND),
    }
    return columns, len(kind)


def naming(processes: np.ndarray, applications: dict[int, str]) -> dict[str, np.ndarray]:
    """An exec event for each of ``processes``, which names it after its application."""
    text = [applications[process].encode().ljust(16, b"\0") for process in processes.tolist()]
    count = len(text)
    return {
        "dt_ns": np.zeros(count),
        "type": np.full(count, EXEC),
        "flags": np.zeros(count),
        "tgid": processes,
        "value": np.frombuffer(b"".join(t[:8] for t in text), "<u8"),
        "entry": np.frombuffer(b"".join(t[8:] for t in text), "<u8"),
        "aux": np.zeros(count),
    }


def bridged(columns: dict[str, np.ndarray], applications: dict[int, str]) -> dict[str, np.ndarray]:
    """The columns with redundant execs between events that are far apart."""
    fillers = columns["dt_ns"] // LONGEST_GAP_NS
    before = np.repeat(np.arange(len(fillers)), fillers)
    execs = naming(columns["tgid"][before], applications)
    execs["dt_ns"] = np.full(len(before), LONGEST_GAP_NS)
    columns = {**columns, "dt_ns": columns["dt_ns"] - fillers * LONGEST_GAP_NS}
    return {name: np.insert(columns[name], before, execs[name]) for name in columns}


def pack(columns: dict[str, np.ndarray], applications: dict[int, str], start_ns: int) -> bytes:
    """The bytes of a .pgw file."""
    head = naming(np.array(list(applications)), applications)
    body = bridged(columns, applications)
    parts = [np.array([MAGIC, len(head["type"]) + len(body["type"]), start_ns], "<u8").tobytes()]
    parts += [
        head[name].astype(kind).tobytes() + body[name].astype(kind).tobytes()
        for name, kind in COLUMNS
    ]
    return b"".join(parts)


def block_requests(trace: Path, applications: dict[int, str]) -> bytes:
    """The block requests as `blockcsv`, with neighbouring pages of a request joined."""
    header = pw.read(trace).header
    pids = [process["pid"] for process in header["processes"]]
    name = np.array([applications.get(pid, "other") for pid in pids] or ["other"])
    events = polars.read_parquet(trace)
    time, address = events["time_ns"].to_numpy() // MICROSECOND, events["address"].to_numpy()
    process, write = events["process"].to_numpy(), events["event"].to_numpy()
    device = events["space"].to_numpy()
    follows = (
        (np.diff(address.astype(np.int64)) == 1)
        & (np.diff(time) == 0)
        & (np.diff(write.astype(np.int8)) == 0)
        & (np.diff(device.astype(np.int64)) == 0)
    )
    first = np.flatnonzero(np.r_[True, ~follows])
    size = np.add.reduceat(events["bytes"].to_numpy().astype(np.int64), first)
    table = polars.DataFrame(
        {
            "time_us": time[first],
            "process": name[process[first]],
            "device": [header["devices"][number] for number in device[first]],
            "op": np.where(write[first] == WRITE, "W", "R"),
            "sector": address[first] * 8,
            "sectors": size // 512,
        }
    )
    return table.write_csv().encode()


def compress(data: bytes, output: Path) -> None:
    """Compresses to ``output`` with zstd at its best level."""
    subprocess.run(["zstd", "-19", "-qf", "-o", output], input=data, check=True)


def cut(run: Path) -> None:
    """Writes the recordings of one run to its folder here."""
    name = run.name
    output = FOLDER / name
    output.mkdir(exist_ok=True)
    shutil.copy(run / "visits.parquet", output)
    described = (run / "run.toml").read_text()
    (output / "run.toml").write_text(re.sub(r"/\S*/(?=[\w.-]+)", "", described))
    processes = polars.read_parquet(run / "processes.parquet")
    applications = dict(zip(processes["process"], processes["app"], strict=True))
    with tempfile.TemporaryDirectory() as scratch:
        swap, block = Path(scratch) / "swap.parquet", Path(scratch) / "block.parquet"
        pw.import_trace(run / "recording.pgr", swap)
        columns, count = swap_events(swap, applications)
        if count > np.count_nonzero(columns["type"] == TYPES[EXIT]):
            start_ns = pw.read(swap).header["start_ns"]
            compress(pack(columns, applications, start_ns), output / f"{name}.pgw.zst")
        if name in WITH_BLOCKS:
            pw.import_trace(run / "recording.pgr", block, as_="block")
            compress(block_requests(block, applications), output / f"{name}.blocks.csv.zst")


def main() -> None:
    for run in sys.argv[1:]:
        cut(Path(run))
        print(run)


if __name__ == "__main__":
    main()
