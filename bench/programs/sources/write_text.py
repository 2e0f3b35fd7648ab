"""Writes N MiB of text, half of it repeated: python3 write_text.py FILE MIB."""

import random
import sys

path, size = sys.argv[1], int(sys.argv[2]) << 20
draw = random.Random(7)
words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(2, 9))) for _ in range(5000)]
lines: list[str] = []
written = 0
with open(path, "w") as file:
    while written < size:
        if lines and draw.random() < 0.5:
            line = draw.choice(lines)
        else:
            line = " ".join(draw.choices(words, k=12)) + "\n"
            lines.append(line)
        written += file.write(line)
