"""Count the misses of eviction policies at several sizes of memory.

python examples/compare_policies.py [TRACE]
"""

import sys
from pathlib import Path

import pagewise as pw

SHIPPED = Path(__file__).parent / "phone-2g" / "phone-2g.pgr"


def main(path: str) -> None:
    result = pw.misses(path, policy=["lru", "s3-fifo", "opt"], frames=["64MiB", "256MiB", "512MiB"])
    for policy, counts in result["misses"].items():
        shares = (
            f"{int(frames):,}: {count / result['requests']:.1%}" for frames, count in counts.items()
        )
        print(f"{policy:8} misses by frames  {'   '.join(shares)}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(SHIPPED))
