"""Runs a function on each of many recordings: in turn, in threads, or on a Ray cluster.

The answers come in the order of the recordings, so that results have the same bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from pagewise import _core
from pagewise.engines import refuse_unknown
from pagewise.fleet import Answer, FiguresOf, Runner, answer, in_turn

AHEAD = 2
"""How many recordings per worker are begun before the answer of the first is taken."""


@contextmanager
def runner_named(name: str, *, address: str | None, jobs: int | None) -> Iterator[Runner]:
    """Reads recordings with the engine called ``name``, ``jobs`` at once, while the block runs.

    By default ``local`` reads them in turn, so that no two need memory at the same time. Raises
    UsageError for an unknown engine, and Missing without Ray.
    """
    refuse_unknown(name, address)
    if name == "local":
        yield in_turn if jobs is None or jobs == 1 else partial(in_threads, jobs)
        return
    from pagewise.engines.ray import connected

    with connected(address, jobs) as engine:
        yield engine.answers


def in_threads(jobs: int, paths: Sequence[str], figures_of: FiguresOf) -> Iterator[Answer]:
    """The answer for each path, from ``jobs`` threads: the core releases Python's lock.

    Ctrl-C reaches only the main thread, which then stops the others.
    """
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="recording")
    waiting: deque[Future[Answer]] = deque()
    try:
        for path in paths:
            waiting.append(pool.submit(answer, path, figures_of))
            if len(waiting) >= AHEAD * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BaseException:
        _core.stop_running(True)
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        _core.stop_running(False)
