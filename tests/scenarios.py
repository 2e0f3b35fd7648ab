"""A small scenario, which is generated in a moment, and recordings of a load that repeats."""

from collections.abc import Callable, Iterator
from pathlib import Path

SMALL = {
    "name": "small",
    "apps": 6,
    "footprint_mib": 8,
    "memory_mib": 24,
    "libraries_mib": 4,
    "services_mib": 4,
}
HEADER = "time_s,event,process,page,state,kind"


def rounds(pages: int, count: int) -> Iterator[tuple[str, int]]:
    """``count`` rounds in which the same pages leave memory and come back."""
    for _ in range(count):
        yield from (("out", page) for page in range(pages))
        yield from (("in", page) for page in range(pages))


def write_steps(path: Path, steps: list[tuple[str, int]], time_of: Callable[[int], float]) -> Path:
    """A recording of these steps, each at its time in seconds."""
    lines = [
        f"{time_of(number):.6f},{event},1,{page},{'D' if event == 'out' else ''},anon"
        for number, (event, page) in enumerate(steps)
    ]
    path.write_text("\n".join([HEADER, *lines]) + "\n")
    return path
