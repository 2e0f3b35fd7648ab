"""The inputs of the measurements: written once into build/bench/, equal on every machine.

20 M requests over 1 M pages, Zipf 1.0, numpy's generator with seed 42. The same sequence exists
as oracleGeneral (24-byte records, random 64-bit ids, next access filled in), as our own
trace, and as VSCSI block requests of which 30 % are writes, imported into our own trace.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import pagewise as pw

FOLDER = Path(__file__).parent.parent / "build" / "bench"
REQUESTS = 20_000_000
PAGES = 1_000_000
WRITE_SHARE = 0.3
TEXT_LINES = 4_000_000

# Pages per request in the three Pixel 6a recordings of MobileBlockIOTraces (403,833 requests, 7.26
# pages and 54.7 bytes of text each), pooled: (pages, share of the requests), with a longer tail
# than any named distribution. In addition: a burst of one process has 1.55 requests, reads are
# 0.38 of them, and 0.17 of them begin where the previous request ended.
PHONE_PAGES = (
    (1, 0.6553),
    (2, 0.0634),
    (3, 0.0269),
    (4, 0.0508),
    (5, 0.0118),
    (6, 0.0451),
    (7, 0.0081),
    (8, 0.0070),
    (11, 0.0356),
    (15, 0.0132),
    (22, 0.0300),
    (30, 0.0205),
    (46, 0.0060),
    (91, 0.0060),
    (128, 0.0183),
    (175, 0.0009),
    (512, 0.0014),
)
PHONE_READ_SHARE = 0.38
PHONE_SEQUENTIAL_SHARE = 0.17
PHONE_PROCESS_CHANGE_SHARE = 1 / 1.55

ORACLE = np.dtype([("seconds", "<u4"), ("id", "<u8"), ("bytes", "<u4"), ("next", "<i8")])
VSCSI = np.dtype(
    [
        ("serial", "<u4"),
        ("bytes", "<u4"),
        ("segments", "<u4"),
        ("command", "<u2"),
        ("version", "<u2"),
        ("block", "<u8"),
        ("microseconds", "<u8"),
    ]
)
READ, WRITE = 0x28, 0x2A
VSCSI_VERSION_1 = 1 << 8
PHONE_HEADER = "proces,device,rw_flag,sector,size,timestamp\n"
SECTORS_PER_PAGE = 8


def ranks() -> np.ndarray:
    """The requested page of each request, 0 the most popular."""
    path = FOLDER / "ranks.npy"
    if not path.exists():
        generator = np.random.default_rng(42)
        weights = np.cumsum(1 / np.arange(1, PAGES + 1))
        drawn = [
            np.searchsorted(weights, generator.random(size) * weights[-1]).astype(np.uint32)
            for size in np.diff([*range(0, REQUESTS, 1 << 20), REQUESTS])
        ]
        save(path, lambda aside: np.save(aside, np.concatenate(drawn)))
    return np.load(path)


def oracle() -> Path:
    path = FOLDER / "zipf.oracleGeneral"
    if not path.exists():
        sequence = ranks()
        ids = np.random.default_rng(43).integers(0, 2**63, size=PAGES, dtype=np.uint64)
        records = np.zeros(REQUESTS, ORACLE)
        records["seconds"] = np.arange(REQUESTS) // 1000
        records["id"] = ids[sequence]
        records["bytes"] = 1
        records["next"] = next_request(sequence)
        save(path, records.tofile)
    return path


def next_request(sequence: np.ndarray) -> np.ndarray:
    """For each request, the number of the next one to the same page, from 1; -1 if none comes."""
    by_page = np.argsort(sequence, kind="stable")
    following = np.full(len(sequence), -1, np.int64)
    is_same = sequence[by_page[:-1]] == sequence[by_page[1:]]
    following[by_page[:-1][is_same]] = by_page[1:][is_same] + 1
    return following


def own() -> Path:
    return imported(FOLDER / "zipf.parquet", oracle, format="oracle")


def vscsi() -> Path:
    path = FOLDER / "zipf.vscsi"
    if not path.exists():
        generator = np.random.default_rng(44)
        places = generator.permutation(1 << 24)[:PAGES].astype(np.uint64)
        records = np.zeros(REQUESTS, VSCSI)
        records["serial"] = np.arange(REQUESTS)
        records["bytes"] = 4096
        records["segments"] = 1
        records["command"] = np.where(generator.random(REQUESTS) < WRITE_SHARE, WRITE, READ)
        records["version"] = VSCSI_VERSION_1
        records["block"] = places[ranks()] * SECTORS_PER_PAGE
        records["microseconds"] = 1_000_000 + np.arange(REQUESTS, dtype=np.uint64) * 100
        save(path, records.tofile)
    return path


def own_with_writes() -> Path:
    return imported(FOLDER / "zipf-writes.parquet", vscsi, format="vscsi")


def blockcsv() -> Path:
    """Requests of one page as text, in the format of the phone recordings.

    Processes take turns in bursts of eight requests.
    """
    path = FOLDER / "requests-1.csv"

    def write(aside: Path) -> None:
        generator = np.random.default_rng(45)
        sectors = generator.integers(0, 1 << 24, TEXT_LINES) * SECTORS_PER_PAGE
        is_write = generator.random(TEXT_LINES) < WRITE_SHARE
        with aside.open("w") as file:
            file.write(PHONE_HEADER)
            for line in range(TEXT_LINES):
                flag = "W" if is_write[line] else "R"
                file.write(
                    f"app-{20000 + line // 8 % 10},8388608,{flag},{sectors[line]},8,"
                    f"{48746 + line / 10000:.6f}\n"
                )

    if not path.exists():
        save(path, write)
    return path


def blockcsv_phone() -> Path:
    """Requests as text with the distribution of sizes, processes and order on the phone.

    Places are drawn from 64 GiB if a request does not continue the previous one.
    """
    path = FOLDER / "requests-phone.csv"

    def write(aside: Path) -> None:
        generator = np.random.default_rng(47)
        sizes, shares = np.array(PHONE_PAGES).T
        pages = generator.choice(sizes.astype(int), TEXT_LINES, p=shares / shares.sum())
        places = generator.integers(0, 1 << 24, TEXT_LINES)
        is_next = generator.random(TEXT_LINES) < PHONE_SEQUENTIAL_SHARE
        is_read = generator.random(TEXT_LINES) < PHONE_READ_SHARE
        is_change = generator.random(TEXT_LINES) < PHONE_PROCESS_CHANGE_SHARE
        process = np.where(is_change, generator.integers(0, 500, TEXT_LINES), -1)
        place, name = 0, ""
        with aside.open("w") as file:
            file.write(PHONE_HEADER)
            for line in range(TEXT_LINES):
                place = place if is_next[line] else int(places[line])
                if process[line] >= 0 or not name:
                    name = f"kworker/u{process[line] % 9}:{process[line]}-{20000 + process[line]}"
                flag = "R" if is_read[line] else "W"
                sector, sectors = place * SECTORS_PER_PAGE, pages[line] * SECTORS_PER_PAGE
                file.write(f"{name},8388608,{flag},{sector},{sectors},{48746 + line / 10000:.6f}\n")
                place += int(pages[line])

    if not path.exists():
        save(path, write)
    return path


def ftrace() -> Path:
    """Requests of one page as the kernel prints block_rq_issue."""
    path = FOLDER / "requests.ftrace"

    def write(aside: Path) -> None:
        generator = np.random.default_rng(46)
        sectors = generator.integers(0, 1 << 24, TEXT_LINES) * SECTORS_PER_PAGE
        is_write = generator.random(TEXT_LINES) < WRITE_SHARE
        with aside.open("w") as file:
            file.write("# tracer: nop\n#\n")
            for line in range(TEXT_LINES):
                flag = "W" if is_write[line] else "R"
                pid = 20000 + line // 8 % 10
                file.write(
                    f"{'app':>16}-{pid:<7} [00{line % 2}] ..... {1827 + line / 10000:12.6f}: "
                    f"block_rq_issue: 254,0 {flag} 4096 () {sectors[line]} + 8 be,0,4 [app]\n"
                )

    if not path.exists():
        save(path, write)
    return path


def imported(path: Path, make, *, format: str) -> Path:
    if not path.exists():
        pw.import_trace([make()], path, format=format)
    return path


def save(path: Path, write) -> None:
    """Writes to a temporary file and renames it, so no interrupted run leaves a partial one."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    aside = path.with_name("aside-" + path.name)
    write(aside)
    aside.replace(path)
