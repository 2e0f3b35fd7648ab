"""Allocation patterns under the preload library: peak memory and instructions."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from lazy.parts.exchange import PAIRS, SIZES
from lazy.places import PROGRAMS
from lazy_programs import HUNG_S, NEEDED, compiled, loaded

pytestmark = NEEDED
MODES = ("fast", "guarded", "thp")
STARTED_MIB = 4
"""Memory of the library, its tables and its thread in every program."""
MIB = 1 << 20

# Does the same work twice. The second time, between two traps, all symbols are already bound.
PAIRS_OF_CALLS = r"""
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 5, ROUNDS = 20 };

static void *obtain(const char *how, size_t bytes)
{
    if (strcmp(how, "calloc") == 0)
        return calloc(1, bytes);
    return strcmp(how, "malloc") == 0 ? malloc(bytes) : realloc(malloc(bytes / 2), bytes);
}

static void work(const char *how, size_t bytes)
{
    void *blocks[BLOCKS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int at = 0; at < BLOCKS; at++)
            *(volatile char *)(blocks[at] = obtain(how, bytes)) = 1;
        for (int at = 0; at < BLOCKS; at++)
            free(blocks[at]);
    }
}

int main(int count, char **words)
{
    size_t bytes = count > 2 ? atol(words[2]) : 0;
    work(words[1], bytes);
    raise(SIGTRAP);
    work(words[1], bytes);
    raise(SIGTRAP);
}
"""
CALLS = 100

# Frees touched blocks between two traps; freeing them twice before has bound all symbols.
FREES = r"""
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 8, ROUNDS = 3 };

int main(int count, char **words)
{
    size_t bytes = count > 1 ? atol(words[1]) : 0;
    char *blocks[BLOCKS];
    for (int round = 1; round <= ROUNDS; round++) {
        for (int at = 0; at < BLOCKS; at++)
            memset(blocks[at] = malloc(bytes), 1, bytes);
        if (round == ROUNDS)
            raise(SIGTRAP);
        for (int at = 0; at < BLOCKS; at++)
            free(blocks[at]);
    }
    raise(SIGTRAP);
}
"""
BLOCKS = 8


def figures(command: list[str | Path], environment: dict[str, str] | None) -> dict[str, Any]:
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=HUNG_S, check=True
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.slow
@pytest.mark.parametrize("sizes", SIZES)
def test_blocks_that_other_threads_free_take_at_most_twice_the_memory(
    sizes: str, tmp_path: Path
) -> None:
    """Allocating and freeing threads take turns, so peaks do not depend on the scheduler."""
    source = (PROGRAMS / "exchange.c").read_text()
    program = compiled(source, tmp_path / "exchange", f"-I{PROGRAMS}", "-std=gnu17", "-lm")
    command = [program, "turns", *SIZES[sizes], str(PAIRS)]
    stock = figures(command, None)["peak_bytes"]
    peaks = {mode: figures(command, loaded(MODE=mode))["peak_bytes"] for mode in MODES}
    assert max(peaks.values()) <= 2 * stock + STARTED_MIB * MIB, (peaks, stock)


@pytest.mark.parametrize(
    ("how", "size", "most"),
    [
        ("malloc", 64, 16),
        ("malloc", 2000, 16),
        ("calloc", 64, 19),
        pytest.param("realloc", 64, 30, marks=pytest.mark.long),
    ],
)
@pytest.mark.slow
def test_small_blocks_take_few_more_instructions(
    how: str, size: int, most: int, tmp_path: Path
) -> None:
    """Instructions of one allocation and its free, counted by single steps."""
    counter = Path(__file__).with_name("lazy_instructions.c").read_text()
    steps = compiled(counter, tmp_path / "steps")
    program = compiled(PAIRS_OF_CALLS, tmp_path / "pairs")

    def count(*variables: str) -> int:
        command = [steps, "env", *variables, program, how, str(size)]
        return int(figures(command, dict(os.environ))["instructions"])

    stock = count()
    for mode in MODES:
        under = loaded(MODE=mode)
        more = count(f"LD_PRELOAD={under['LD_PRELOAD']}", f"PAGEWISE_LAZY_MODE={mode}") - stock
        assert more <= most * CALLS, (
            f"{mode}: {more / CALLS} instructions more than {stock / CALLS}"
        )


@pytest.mark.parametrize(
    ("kib", "most"),
    [(64, (880, 880, 880)), pytest.param(256, (900, 1130, 900), marks=pytest.mark.slow)],
)
def test_a_free_of_a_pooled_block_takes_few_instructions(
    kib: int, most: tuple[int, ...], tmp_path: Path
) -> None:
    """Instructions of a free, counted by single steps; a free in ``guarded`` also closes pages."""
    counter = Path(__file__).with_name("lazy_instructions.c").read_text()
    steps = compiled(counter, tmp_path / "steps")
    program = compiled(FREES, tmp_path / "frees")
    for mode, bound in zip(MODES, most, strict=True):
        under = loaded(MODE=mode)
        variables = [f"LD_PRELOAD={under['LD_PRELOAD']}", f"PAGEWISE_LAZY_MODE={mode}"]
        command = [steps, "env", *variables, "PAGEWISE_LAZY_HELPER=off", program, str(kib << 10)]
        # A busy machine may count more, probably of what the library does from time to time.
        runs = [figures(command, dict(os.environ))["instructions"] / BLOCKS for _ in range(3)]
        assert min(runs) <= bound, f"{mode}: {runs} instructions"
