"""Writes the drawing that Inkscape opens: a map of many paths.

Usage: make_drawing.py PATHS OUT.svg
"""

import math
import sys
from pathlib import Path


def outline(number: int) -> str:
    """One path of the map as SVG."""
    x, y = number % 100 * 10, number // 100 * 10
    points = (
        f"{x + 4 * math.cos(k / 3):.2f},{y + 4 * math.sin(k / 3 + number):.2f}" for k in range(24)
    )
    return f'<path id="p{number}" fill="hsl({number % 360},60%,50%)" d="M{" L".join(points)} Z"/>'


paths, out = int(sys.argv[1]), Path(sys.argv[2])
body = "\n".join(outline(number) for number in range(paths))
out.write_text(
    f'<svg xmlns="http://www.w3.org/2000/svg" width="1000" height="1000">\n{body}\n</svg>\n'
)
