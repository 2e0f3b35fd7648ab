"""Get advice for a board with 1 GiB of memory and an eMMC, from all that stock Linux can do.

python examples/advise_swap.py [TRACE]
"""

import sys
from pathlib import Path

import pagewise as pw

SHIPPED = Path(__file__).parent / "phone-1g-long" / "phone-1g-long.pgr"


def main(path: str) -> None:
    advice = pw.advise(path, fast="zram-lz4", slow="emmc-5.1", memory="1GiB")
    evidence, today, best = advice["evidence"], advice["today"], advice["best"]
    print(f"evidence: {evidence['verdict']}: {evidence['reason']}")
    if evidence["remedy"]:
        print(evidence["remedy"])
    for name, choice in (("today", today), ("best at this size", best)):
        if choice is not None:
            print(
                f"{name}: {choice['architecture']}, {choice['fast_tier_bytes'] / 2**20:.0f} MiB, "
                f"{choice['io_share']['typical']:.0%} of the I/O time without a fast tier"
            )
    for setting in advice["settings"][:1]:
        print(setting["apply"])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(SHIPPED))
