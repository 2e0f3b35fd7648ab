"""Show what a recording holds, what it lost, and which analyses that rules out.

python examples/describe_recording.py [TRACE]
"""

import sys
from pathlib import Path

import pagewise as pw

SHIPPED = Path(__file__).parent / "phone-2g" / "phone-2g.pgr"


def main(path: str) -> None:
    info = pw.info(path)
    header = info["header"]
    print(f"{header['kind']}: {header['events']:,} events in {info['duration_s']} s")
    for loss in header["losses"]:
        print(f"lost: {loss['count']:,} {loss['what']}")
    for question in info["ruled_out"]:
        print(f"ruled out: {question}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(SHIPPED))
