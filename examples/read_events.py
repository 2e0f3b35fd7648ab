"""Read a recording: its content, and its events as columns.

python examples/read_events.py [TRACE]
"""

import sys
from pathlib import Path

import numpy

import pagewise as pw

SHIPPED = Path(__file__).parent / "phone-2g" / "phone-2g.pgr"


def main(path: str) -> None:
    trace = pw.read(path)
    header = trace.info()["header"]
    print(f"{trace}: a {header['kind']} recording of {header['events']:,} events")

    # One column as a numpy array; the whole table as an Arrow stream for polars, pyarrow or duckdb:
    # polars.DataFrame(trace).
    pages, counts = numpy.unique(trace.column("page"), return_counts=True)
    busiest = counts.argmax()
    print(f"page {pages[busiest]} appears in {counts[busiest]} events, more than any other")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(SHIPPED))
