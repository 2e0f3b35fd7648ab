"""Writes the page to swipe: a long portal of cards with shadows, blurs, pictures and tables.

python bench/lazy/programs/page.py FOLDER

The page answers one turn of the mouse wheel with a swipe of 40 steps that slows down, one per frame
(`requestAnimationFrame`), and then changes its title to `swiped N`.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

CARDS, PICTURES, PARAGRAPHS, WORDS_EACH = 240, 12, 6, 55
CONVERT = "/usr/bin/convert-im6.q16"
VOCABULARY = (
    *("memory", "page", "fault", "swap", "frame", "cache", "device", "kernel", "reader"),
    *("launch", "river", "stone", "market", "weather", "city", "coast", "bridge", "report"),
)

STYLE = """
body { font-family: DejaVu Sans; margin: 8px; width: 396px; background: #fafafa }
.card { border-radius: 12px; box-shadow: 0 3px 12px rgba(0, 0, 0, .35); margin: 12px 0;
        padding: 10px; background: linear-gradient(135deg, #fff, #dde8ff) }
img { width: 100%; height: auto; border-radius: 8px }
.soft { filter: blur(1px) drop-shadow(2px 2px 4px #888) }
h2 { position: sticky; top: 0; background: rgba(255, 255, 255, .85) }
"""

SCRIPT = """
const STEPS = 40;
let swipes = 0;
addEventListener("wheel", event => {
  event.preventDefault();
  const direction = Math.sign(event.deltaY);
  let step = 0;
  function advance() {
    scrollBy(0, direction * (100 * Math.exp(-step / 20) + 60));
    if (++step < STEPS) requestAnimationFrame(advance);
    else document.title = `swiped ${++swipes}`;
  }
  requestAnimationFrame(advance);
}, { passive: false });
"""


def write_page(folder: Path) -> None:
    draw = random.Random(1)
    cards = "\n".join(card(draw, number) for number in range(CARDS))
    head = f"<meta charset=utf-8><title>ready</title><style>{STYLE}</style>"
    folder.joinpath("page.html").write_text(
        f"<!doctype html><html><head>{head}</head><body>\n{cards}\n"
        f"<script>{SCRIPT}</script></body></html>\n"
    )
    for number in range(PICTURES):
        picture(folder / f"picture{number}.jpg", number)


def card(draw: random.Random, number: int) -> str:
    # A filter needs surfaces of its own, as large as the filtered elements.
    pictures = [
        f"<img {style} loading=lazy decoding=async width=1200 height=800 "
        f"src=picture{draw.randrange(PICTURES)}.jpg>"
        for style in ("", *["class=soft"] * (number % 2))
    ]
    cells = "".join(f"<td>{draw.randrange(1000)}</td>" for _ in range(6))
    words = (" ".join(draw.choices(VOCABULARY, k=WORDS_EACH)) for _ in range(PARAGRAPHS))
    text = "".join(f"<p>{paragraph}</p>" for paragraph in words)
    return (
        f"<div class=card><h2>Article {number}</h2>{''.join(pictures)}{text}"
        f"<table><tr>{cells}</tr></table></div>"
    )


def picture(path: Path, seed: int) -> None:
    drawn = ["-size", "1200x800", "-seed", str(seed), "plasma:fractal", "-quality", "88"]
    subprocess.run([CONVERT, *drawn, str(path)], check=True)


if __name__ == "__main__":
    write_page(Path(sys.argv[1]))
