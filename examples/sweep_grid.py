"""Run a grid of two architectures at three sizes on one recording, and write one table.

python examples/sweep_grid.py [TRACE [RESULTS.parquet]]
"""

import sys
import tempfile
from pathlib import Path

import pagewise as pw

SHIPPED = Path(__file__).parent / "phone-2g" / "phone-2g.pgr"
SPEC = """\
traces = ["{trace}"]
sizes = ["64MiB", "256MiB", "512MiB"]

[[device]]
fast = "zram-lz4"
slow = "ufs-3.1"

[[architecture]]
name = "priority"

[[architecture]]
name = "adaptive"
"""


def main(path: str, output: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "grid.toml"
        spec.write_text(SPEC.format(trace=Path(path).resolve()))
        result = pw.sweep(spec, output)
    print(
        f"{result['output']}: {result['cells']} cells, {result['kept']} of them from an earlier run"
    )


if __name__ == "__main__":
    main(
        sys.argv[1] if len(sys.argv) > 1 else str(SHIPPED),
        sys.argv[2] if len(sys.argv) > 2 else "results.parquet",
    )
