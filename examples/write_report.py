"""Write a report about a recording: one HTML file, which needs no network to open.

python examples/write_report.py [TRACE [REPORT.html]]
"""

import sys
from pathlib import Path

import pagewise as pw

SHIPPED = Path(__file__).parent / "phone-2g" / "phone-2g.pgr"


def main(path: str, output: str) -> None:
    devices = {"fast": "zram-lz4", "slow": "ufs-3.1"}
    outcomes = [
        pw.simulate(path, architecture=architecture, fast_tier=size, **devices)
        for architecture in ("flash", "priority", "adaptive")
        for size in ("64MiB", "256MiB", "512MiB")
    ]
    written = pw.report([path, *outcomes], output, force=True)
    print(f"{written['path']}: {written['bytes']:,} bytes, sections {', '.join(written['panels'])}")


if __name__ == "__main__":
    main(
        sys.argv[1] if len(sys.argv) > 1 else str(SHIPPED),
        sys.argv[2] if len(sys.argv) > 2 else "report.html",
    )
