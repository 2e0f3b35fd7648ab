"""Compare the I/O time of swap architectures on a recording, with 256 MiB of fast tier.

python examples/simulate_swap.py [TRACE]
"""

import sys
from pathlib import Path

import pagewise as pw

SHIPPED = Path(__file__).parent / "phone-2g" / "phone-2g.pgr"
ARCHITECTURES = ("flash", "priority", "hierarchical", "nvm-cache", "adaptive")


def main(path: str) -> None:
    for architecture in ARCHITECTURES:
        outcome = pw.simulate(
            path, architecture=architecture, fast_tier="256MiB", fast="4/5us", slow="90/40us"
        )
        print(
            f"{architecture:12} {outcome['io_time_s']:7.2f} s of I/O,"
            f" {outcome['slow']['reads']:,} slow reads, {outcome['fast']['writes']:,} fast writes"
        )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(SHIPPED))
