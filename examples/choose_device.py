"""Replay a recording on every known slow device, and list its I/O time.

python examples/choose_device.py [TRACE]
"""

import sys
from pathlib import Path

import pagewise as pw

SHIPPED = Path(__file__).parent / "phone-2g" / "phone-2g.pgr"


def main(path: str) -> None:
    flash = pw.simulate(path, architecture="flash", fast_tier=0, fast="dram", slow="ufs-3.1")
    reads, writes = flash["slow"]["reads"], flash["slow"]["writes"]
    for device in pw.devices():
        read_ns, write_ns = device["read_ns"]["typical"], device["write_ns"]["typical"]
        seconds = (reads * read_ns + writes * write_ns) / 1e9
        print(f"{device['name']:12} {seconds:9.2f} s of I/O, as the only swap device")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(SHIPPED))
