"""Write a folder of recordings of made-up devices, some of which are unlike the others.

python examples/fleet.py [FOLDER [DEVICES [MODELS]]]

With two models or more, devices take turns; those of the second do three times as much.
Each device has a memory that is too small for its programs, and swaps by LRU. The recordings are
events CSV files (docs/formats.md). The same folder comes out every time.
"""

import random
import sys
from collections import OrderedDict
from pathlib import Path

STEP_S = 0.01
LEAKS, THRASHES, CUT, EMPTY = 123, 456, 789, 42
"""Devices where a program leaks, memory is far too small, the file was cut, or has no event."""


def main(folder: str, devices: int, models: int) -> None:
    output = Path(folder)
    output.mkdir()
    for number in range(devices):
        lines = ["time_s,event,process,page,state,kind"]
        if number != EMPTY:
            lines += recorded(number, number % models)
        text = "\n".join([*lines, ""])
        name = output / f"device-{number:04}.csv"
        name.write_text(text[: len(text) // 2] if number == CUT else text)
    print(f"{folder}: {devices:,} recordings")


def recorded(number: int, model: int) -> list[str]:
    """The page-outs and page-ins of a device, as lines."""
    draws = random.Random(number)
    pages, accesses = draws.randint(300, 500), draws.randint(1500, 3000)
    share_in_memory = draws.uniform(0.25, 0.6)
    pages, accesses = pages * (1 + 2 * model), accesses * (1 + 2 * model)
    if number == THRASHES:
        accesses, share_in_memory = 6 * accesses, 0.1
    weights = [1 / rank ** draws.uniform(0.6, 0.8) for rank in range(1, pages + 1)]
    touched = draws.choices(range(pages), weights, k=accesses)
    if number == LEAKS:
        # Every other access takes a page that the program never uses again.
        touched[::2] = range(pages, pages + len(touched[::2]))
    memory: OrderedDict[int, bool] = OrderedDict()
    lines, away = [], set()
    for at, page in enumerate(touched):
        if page in away:
            away.remove(page)
            lines.append(f"{at * STEP_S:.2f},in,1,{page},,anon")
        memory[page] = memory.pop(page, False) or draws.random() < 0.3
        if len(memory) > share_in_memory * pages:
            victim, is_dirty = memory.popitem(last=False)
            away.add(victim)
            lines.append(f"{at * STEP_S:.2f},out,1,{victim},{'D' if is_dirty else 'C'},anon")
    return lines


if __name__ == "__main__":
    main(
        sys.argv[1] if len(sys.argv) > 1 else "fleet",
        int(sys.argv[2]) if len(sys.argv) > 2 else 1000,
        int(sys.argv[3]) if len(sys.argv) > 3 else 1,
    )
