"""Ask what to take for a board with 1 GiB of memory and an eMMC, and what Linux can do today.

python examples/advise_swap.py [TRACE]
"""

import sys
from pathlib import Path

import pagewise as pw

SHIPPED = Path(__file__).parent / "phone-2g" / "phone-2g.pgw.zst"


def main(path: str) -> None:
    advice = pw.advise(path, fast="zram-lz4", slow="emmc-5.1", memory="1GiB")
    for name, choice in (("best", advice["worth"]), ("stock Linux today", advice["today"])):
        if choice is None:
            print(f"{name}: no fast tier")
            continue
        print(
            f"{name}: {choice['fast_tier_bytes'] / 2**20:.0f} MiB, "
            f"{choice['io_share']['typical']:.0%} of the I/O time of the eMMC alone, "
            f"up to {choice['memory']['taken_bytes']['typical'] / 2**20:.0f} MiB of memory"
        )
    print(advice["settings"][0]["apply"])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(SHIPPED))
