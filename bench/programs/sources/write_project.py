"""Writes a project in C of twenty files and a large one: python3 write_project.py FOLDER."""

import sys
from pathlib import Path

folder = Path(sys.argv[1])
folder.mkdir()


def functions(name: str, count: int) -> str:
    """Functions that a compiler has some work with."""
    text = "#include <stdio.h>\n#include <string.h>\n"
    for number in range(count):
        text += f"""
unsigned {name}_{number}(unsigned value)
{{
    unsigned table[16], sum = {number}u;
    memset(table, {number % 251}, sizeof table);
    for (unsigned at = 0; at < 16; at++)
        table[at] ^= value * (at + {number}u) >> (at & 7);
    switch (value & 7) {{
    case 0: sum += table[3] * 7u; break;
    case 1: sum ^= table[5] << 3; break;
    case 2: sum -= table[7] / 3u; break;
    default: sum += table[value & 15];
    }}
    return sum ^ (sum >> 11);
}}
"""
    return text


names = [f"part{number}" for number in range(20)]
for name in names:
    (folder / f"{name}.c").write_text(functions(name, 16))
(folder / "large.c").write_text(functions("large", 300))
declared = "".join(f"unsigned {name}_{at}(unsigned);\n" for name in names for at in range(16))
called = "".join(f"    sum = sum * 31 + {name}_{at}({at});\n" for name in names for at in range(16))
(folder / "main.c").write_text(
    f"#include <stdio.h>\n{declared}int main(void)\n{{\n    unsigned sum = 1;\n{called}"
    '    printf("sum %u\\n", sum);\n    return 0;\n}\n'
)
objects = " ".join(f"{name}.o" for name in [*names, "main"])
(folder / "Makefile").write_text(
    f"CFLAGS = -O2\nprogram: {objects}\n\t$(CC) -o $@ $^\n%.o: %.c\n\t$(CC) $(CFLAGS) -c -o $@ $<\n"
)
