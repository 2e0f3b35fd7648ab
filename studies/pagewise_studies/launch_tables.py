"""The tables of simulated launches, and the counts in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal, TypeAlias

from pagewise.types import Lifecycle, Visit
from pagewise_studies import launch_phones as phones
from pagewise_studies.figure import spread
from pagewise_studies.launch_phones import Key
from pagewise_studies.table import Row, Table

if TYPE_CHECKING:
    from pagewise_studies.launch_simulated_checks import Inputs

Part: TypeAlias = Literal[
    "own_ns",
    "swap_in_ns",
    "file_first_ns",
    "file_refault_ns",
    "direct_reclaim_ns",
    "kill_wait_ns",
    "contention_ns",
]
PARTS: dict[Part, str] = {
    "own_ns": "own time",
    "swap_in_ns": "swap-ins",
    "file_first_ns": "first reads of files",
    "file_refault_ns": "file refaults",
    "direct_reclaim_ns": "direct reclaim",
    "kill_wait_ns": "waiting for victims",
    "contention_ns": "processor taken by others",
}
"""The parts of a launch, and their names on the page."""
Visits = Sequence[Visit]


def launches(visits: Visits) -> list[float]:
    """Launch times in seconds, of the answered launches only."""
    return [visit["launch_ns"] / 1e9 for visit in visits if visit["launch_ns"] is not None]


def launch_s(visit: Visit) -> float:
    """The launch time of a visit in seconds; infinite if the launch was not answered."""
    return inf if visit["launch_ns"] is None else visit["launch_ns"] / 1e9


def later(life: Lifecycle) -> list[float]:
    """Launch times after the first round."""
    return launches(life["visits"][len(life["visits"]) // phones.ROUNDS :])


def io_mib(visits: Visits) -> float:
    """Reads and writes of the slow device, in MiB."""
    return float(sum(visit["slow_reads"] + visit["slow_writes"] for visit in visits)) / 256


def tables(inputs: Inputs) -> list[Table]:
    """Every table."""
    return [real(inputs), thrash(inputs), scarcity(inputs), hybrid(inputs)]


def real(inputs: Inputs) -> Table:
    """The table of the model beside the runs that it was not fitted to."""
    return Table(
        "real",
        "Real runs and their lives",
        "Launches are medians after the first round, I/O is per visit after the first round, and "
        "kills are of the whole run. Each life is fitted to the other runs. *Speed*: the duration "
        "of the first round of a run without swap, relative to the other runs. *Swap-in* and *file "
        "page*: the time to read one page, fitted to the other runs.",
        [
            {
                "run": run.name,
                "real, s": run.real_s,
                "simulated, s": run.simulated_s,
                "difference": run.difference,
                "real I/O, MiB": run.real_io_mib,
                "simulated I/O, MiB": run.simulated_io_mib,
                "real kills": run.real_kills,
                "simulated kills": run.simulated_kills,
                "speed": run.speed,
                "swap-in, us": run.rates.swap_us,
                "file page, us": run.rates.file_us,
            }
            for run in inputs.judged
        ],
        shares=("difference",),
    )


def thrash(inputs: Inputs) -> Table:
    """The table of S0's phones, under the choices with the largest effect."""

    def rows() -> Iterator[Row]:
        for phone in phones.PHONES:
            for used in phones.USED:
                choices = phones.shown_with(used, "strict")
                killer = ("minfree counts", "free and file pages")
                for key in (
                    Key(phone, "swap on", choices, 0),
                    Key(phone, "swap off", (*choices, killer), 0),
                ):
                    yield _thrash_row(key, used, inputs.lives[key])

    return Table(
        "thrash",
        "S0's phones",
        "Launches after the first round. The phone has emmc-5.1 flash, a thawed app's own time is "
        "13 % of a cold launch, and apps come in the same order in every round (seed 0). *Hot*: "
        "share of launches that find all they use in memory. *Top 10 %*: share of accesses. The "
        "last six columns split the launch time, in seconds.",
        list(rows()),
        shares=("top 10 %", "hot"),
    )


def _thrash_row(key: Key, used: str, life: Lifecycle) -> Row:
    times = later(life)
    mean, std = spread(times)
    rest = life["visits"][len(life["visits"]) // phones.ROUNDS :]
    return {
        "phone": key.phone,
        "swap": key.below,
        "a visit uses": used,
        "launch mean, s": mean,
        "std": std,
        "median, s": median(times),
        "hot": sum(visit["kind"] == "hot" for visit in rest) / len(rest),
        "I/O, MiB": io_mib(life["visits"]),
        "top 10 %": life["skew"]["top_share"]["0.1"],
        "kills": len(life["kills"]),
        **{words: fmean(visit[part] for visit in rest) / 1e9 for part, words in PARTS.items()},
    }


def scarcity(inputs: Inputs) -> Table:
    """The table of S2's apps, over all choices."""
    rows: list[Row] = []
    for app, kilobytes in phones.NEEDS_KB.items():
        for order in phones.KILL_ORDERS:
            pairs = list(inputs.scarcity(app, order))
            slowdowns = [short / ample - 1 for _, ample, short, _ in pairs]
            visits = [visit for *_, visit in pairs]
            rows.append(
                {
                    "app": app,
                    "need, MiB": round(kilobytes / 1024),
                    "killed": order,
                    "slowdown, least": min(slowdowns),
                    "slowdown, median": median(slowdowns),
                    "slowdown, most": max(slowdowns),
                    "kills": fmean(visit["kills"] + visit["oom_kills"] for visit in visits),
                    **{
                        f"{words}, ms": fmean(visit[part] for visit in visits) / 1e6
                        for part, words in PARTS.items()
                        if part not in ("own_ns", "swap_in_ns")
                    },
                }
            )
    return Table(
        "scarcity",
        "S2's apps in short memory",
        "Over all choices that S2 leaves open: the slowdowns are the least, median and most, the "
        "other columns are means, with *kills* and times of a launch. First reads of files take as "
        "long in ample memory. *Killed*: `serial`, one victim after the other; `batch`, as many at "
        "once as the killer's table requires; `reclaim-first`, one after the other, where the "
        "killer frees a victim's memory while its threads exit.",
        rows,
        shares=("slowdown, least", "slowdown, median", "slowdown, most"),
    )


def hybrid(inputs: Inputs) -> Table:
    """The table of S1's twenty apps: launches with hybrid swap, flash swap and no swap."""
    rows: list[Row] = []
    for size in phones.HYBRID_MIB:
        for used in phones.USED:
            cuts = list(inputs.hybrid_cuts(f"{size} MiB", used))
            rows.append(
                {
                    "NVM": f"{size} MiB",
                    "a visit uses": used,
                    "against flash swap, best": min(cut for _, cut, _ in cuts),
                    "median": median(cut for _, cut, _ in cuts),
                    "worst": max(cut for _, cut, _ in cuts),
                    "times no swap, median": median(ratio for _, _, ratio in cuts),
                }
            )
    return Table(
        "hybrid",
        "Hybrid swap against flash swap and no swap, twenty apps in 1500 MiB",
        "Change of the mean launch after the first round: best, median and worst over all other "
        "choices. Negative is faster. *Times no swap*: the launch time relative to that without "
        "swap.",
        rows,
        shares=("against flash swap, best", "median", "worst"),
    )
