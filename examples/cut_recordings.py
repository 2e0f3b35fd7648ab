"""Cuts the recordings in this folder from the raw ones; needs the raw folder, numpy and zstd.

    python examples/cut_recordings.py RAW_FOLDER

What it changes, and nothing else: events of processes outside the ten applications are dropped;
each process of an application is named after it instead of its command; the visit logs
are copied. Times, pages, slots and pids stay as recorded.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
RECORDINGS = ("swap700", "swap1400")
VISIT_LOGS = ("base", "kill700", "kill700b", "kill1400", "swap700", "swap1400")

# The order in which the driver starts them; each becomes a child of the driver.
APPLICATIONS = (
    "web1", "nodets", "java1", "web2", "pyast", "sql", "nodejson", "web3", "java2", "web4",
)  # fmt: skip

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
PAGE_OUT, SWAP_IN, EXEC, EXIT, FORK = 1, 4, 6, 7, 8
DEVICE_WRITE = 2


def read_raw(path: Path) -> tuple[int, dict[str, np.ndarray]]:
    """The columns of a raw recording and the time of its start in ns."""
    data = subprocess.run(["zstd", "-dcq", path], capture_output=True, check=True).stdout
    magic, count, start = np.frombuffer(data, "<u8", 3)
    assert magic == MAGIC, path
    columns, offset = {}, 24
    for name, kind in COLUMNS:
        columns[name] = np.frombuffer(data, kind, count, offset)
        offset += columns[name].nbytes
    return int(start), columns


def applications(columns: dict[str, np.ndarray]) -> dict[int, str]:
    """The application of each process that belongs to one: the driver's n-th child with pages."""
    forks = columns["type"] == FORK
    parent = dict(
        zip(columns["tgid"][forks].tolist(), columns["value"][forks].tolist(), strict=True)
    )
    touching = np.unique(columns["tgid"][np.isin(columns["type"], (PAGE_OUT, SWAP_IN))]).tolist()

    def lineage(process: int) -> list[int]:
        line = [process]
        while line[-1] in parent:
            line.append(parent[line[-1]])
        return line

    lines = [lineage(process) for process in touching]
    shared = set.intersection(*(set(line[1:]) for line in lines))
    roots = sorted({next(p for p in reversed(line) if p not in shared) for line in lines})
    assert len(roots) <= len(APPLICATIONS), roots
    names = name_roots(roots, columns)
    family = {}
    for process in {*parent, *touching}:
        root = next((p for p in lineage(process) if p in names), None)
        if root is not None:
            family[process] = names[root]
    return family


def name_roots(roots: list[int], columns: dict[str, np.ndarray]) -> dict[int, str]:
    """Names each root by what it executed first, in the driver's order of starting."""
    command = {"chromium-headle": "web", "node": "node", "java": "java", "python3": "py"}
    kinds = {"nodets": "node", "nodejson": "node", "pyast": "py", "sql": "py"}
    waiting = list(APPLICATIONS)
    names = {}
    for root in roots:
        execs = np.nonzero((columns["type"] == EXEC) & (columns["tgid"] == root))[0]
        comms = [
            (columns["value"][i].tobytes() + columns["entry"][i].tobytes()).split(b"\0")[0].decode()
            for i in execs
        ]
        kind = next(command[comm] for comm in reversed(comms) if comm in command)
        name = next(n for n in waiting if kinds.get(n, n.rstrip("0123456789")) == kind)
        waiting.remove(name)
        names[root] = name
    return names


def cut(start: int, columns: dict[str, np.ndarray], family: dict[int, str]) -> bytes:
    """The raw bytes with the applications' events alone, preceded by one name per process."""
    keep = np.isin(columns["tgid"], list(family)) & np.isin(
        columns["type"], (PAGE_OUT, SWAP_IN, EXIT, 3)
    )
    count = len(family)
    names = [family[process].encode().ljust(16, b"\0") for process in sorted(family)]
    time = np.cumsum(columns["dt_ns"].astype(np.int64))[keep]
    head = {
        "dt_ns": np.zeros(count, "<i4"),
        "type": np.full(count, EXEC, "u1"),
        "flags": np.zeros(count, "u1"),
        "tgid": np.array(sorted(family), "<u4"),
        "value": np.array([int.from_bytes(n[:8], "little") for n in names], "<u8"),
        "entry": np.array([int.from_bytes(n[8:], "little") for n in names], "<u8"),
        "aux": np.zeros(count, "<u4"),
    }
    body = {name: columns[name][keep] for name, _ in COLUMNS}
    body["dt_ns"] = np.diff(time, prepend=0).astype("<i4")
    parts = [np.array([MAGIC, count + keep.sum(), start], "<u8").tobytes()]
    parts += [np.concatenate([head[n], body[n]]).astype(k).tobytes() for n, k in COLUMNS]
    return b"".join(parts)


def main() -> None:
    raw = Path(sys.argv[1])
    for recording in RECORDINGS:
        start, columns = read_raw(raw / f"{recording}.pgw.zst")
        family = applications(columns)
        output = FOLDER / f"{recording}.pgw.zst"
        subprocess.run(
            ["zstd", "-19", "-qf", "-o", output], input=cut(start, columns, family), check=True
        )
    for log in VISIT_LOGS:
        text = subprocess.run(
            ["zstd", "-dcq", raw / f"{log}.json.zst"], capture_output=True, check=True
        ).stdout
        (FOLDER / f"{log}.visits.json").write_bytes(text)


if __name__ == "__main__":
    main()
