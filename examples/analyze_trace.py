"""Analyze a recording: how skewed its accesses are, and how much is used only once.

python examples/analyze_trace.py [TRACE]
"""

import sys
from pathlib import Path

import pagewise as pw

SHIPPED = Path(__file__).parent / "phone-2g" / "phone-2g.pgr"


def main(path: str) -> None:
    analysis = pw.analyze(path)
    print(f"{analysis['accesses']:,} accesses to {analysis['pages']:,} pages")
    for share_of_pages, share_of_accesses in analysis["top_share"].items():
        print(f"busiest {float(share_of_pages):5.0%} of pages: {share_of_accesses:.1%} of accesses")
    print(f"accessed exactly once: {analysis['single_access']['pages']:.1%} of pages")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(SHIPPED))
