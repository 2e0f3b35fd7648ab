"""Prints a spreadsheet as CSV: texts in every third column, numbers in the others.

Usage: page_size_sheet.py ROWS COLUMNS SEED
"""

import random
import sys

rows, columns, seed = map(int, sys.argv[1:])
draw = random.Random(seed)
print(",".join(f"column {column}" for column in range(columns)))
for _ in range(rows):
    print(
        ",".join(
            f"{draw.random() * 1e4:.4f}" if column % 3 else f"item {draw.randrange(5000)}"
            for column in range(columns)
        )
    )
