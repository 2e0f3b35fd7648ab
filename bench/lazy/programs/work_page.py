"""Writes a page that works while it loads, for browsers that are started and not swiped.

python bench/lazy/programs/work_page.py FOLDER      (after page.py, whose cards and pictures it has)

Its script makes and drops large arrays, draws on a canvas, and lays out text. The page shows a sum
over all of that, so the pictures of two browsers are equal only if they computed the same.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from page import STYLE, card

CARDS, TURNS = 4, 40
SCRIPT = """
const BYTES = [131072, 262144, 1048576, 65536, 4194304, 524288];
const canvas = document.createElement("canvas");
canvas.width = 600;
canvas.height = 400;
const draw = canvas.getContext("2d", { willReadFrequently: true });
let sum = 0;
const add = number => { sum = (Math.imul(sum, 31) + number) | 0; };
for (let turn = 0; turn < TURNS; turn++) {
  const block = new Uint8Array(BYTES[turn % BYTES.length]).fill(turn);
  for (let at = 0; at < block.length; at += 4096) add(block[at] + at);
  add(JSON.stringify(Array.from({ length: 2000 }, (_, at) => ({ at, name: `row ${at}` }))).length);
  draw.fillStyle = `rgb(${turn * 5}, ${255 - turn * 5}, 128)`;
  draw.fillRect(turn * 7, turn * 5, 300, 200);
  const picture = draw.getImageData(0, 0, canvas.width, canvas.height).data;
  for (let at = 0; at < picture.length; at += 997) add(picture[at]);
  const box = document.createElement("div");
  box.innerHTML = "<p>one two three <b>four</b> five</p>".repeat(60 + turn);
  document.body.append(box);
  add(box.childElementCount + Math.sign(box.offsetHeight));
  box.remove();
}
document.getElementById("sum").textContent = `sum ${sum}`;
"""


def write_page(folder: Path) -> None:
    draw = random.Random(2)
    cards = "\n".join(card(draw, number) for number in range(CARDS))
    # The browser draws the page once, with its pictures.
    cards = cards.replace("loading=lazy decoding=async", "decoding=sync")
    head = f"<meta charset=utf-8><title>work</title><style>{STYLE}</style>"
    script = SCRIPT.replace("TURNS", str(TURNS))
    folder.joinpath("work.html").write_text(
        f"<!doctype html><html><head>{head}</head><body><h1 id=sum></h1>\n{cards}\n"
        f"<script>{script}</script></body></html>\n"
    )


if __name__ == "__main__":
    write_page(Path(sys.argv[1]))
