"""The checks of S0, S1 and S2 that need launches, each under every reading of the open choices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from statistics import fmean

from pagewise.recording import Progress
from pagewise.types import Lifecycle, Visit
from pagewise_studies import launch_phones as phones
from pagewise_studies.launch_fit import Rates
from pagewise_studies.launch_phones import Key, Outcomes
from pagewise_studies.launch_tables import io_mib, later, launch_s, launches
from pagewise_studies.verdict import Choices, Reading, Verdict, judge, load_checks

CHECKS = load_checks("launch-simulated")
LEVEL = 0.25
"""Launch times closer than this are alike (S0.7)."""


@dataclass(frozen=True)
class Judged:
    """A real run beside its life; launches are medians after the first round."""

    name: str
    real_s: float
    simulated_s: float
    real_io_mib: float
    simulated_io_mib: float
    real_kills: int
    simulated_kills: int
    speed: float
    rates: Rates

    @property
    def difference(self) -> float:
        """By how much the model's median exceeds the real one, as a share of the latter."""
        return self.simulated_s / self.real_s - 1


@dataclass(frozen=True)
class Inputs:
    """The inputs of the checks: all lives, and the model beside real runs."""

    lives: Outcomes
    judged: Sequence[Judged]
    seeds: Sequence[int]

    def mean(self, key: Key, measure: Callable[[Lifecycle], float]) -> float:
        """The mean of ``measure`` over the lives of all seeds."""
        return fmean(
            measure(self.lives[Key(key.phone, key.below, key.choices, seed)]) for seed in self.seeds
        )

    def pairs(self, phone: str) -> Iterator[tuple[Choices, Key, Key]]:
        """The keys of a phone with and without swap, under each reading."""
        for choices in phones.common_choices():
            for killed in phones.with_killers(choices):
                yield (
                    killed,
                    Key(phone, "swap on", choices, 0),
                    Key(phone, "swap off", killed, 0),
                )

    def scarcity(self, app: str, order: str) -> Iterator[tuple[Choices, float, float, Visit]]:
        """Launch times in ample and in short memory, in seconds, and the visit in short memory."""
        for key, life in self.lives.items():
            if (key.phone, key.below) != (app, f"{phones.SHORT}, {order}"):
                continue
            ample = self.lives[Key(app, phones.AMPLE, key.choices[:3], 0)]["visits"][-1]
            short = life["visits"][-1]
            yield key.choices, launch_s(ample), launch_s(short), short

    def hybrid_cuts(
        self, size: str | None = None, used: str | None = None
    ) -> Iterator[tuple[Choices, float, float]]:
        """Change of the mean launch against flash swap, and ratio of the mean launch to no swap."""
        for key in self.lives:
            if key.below != "hybrid" or key.seed != self.seeds[0]:
                continue
            if size not in (None, key.choice("NVM")) or used not in (None, key.choice("used")):
                continue
            common = key.choices[:4]
            taken = self.mean(key, _later_mean)
            flash = self.mean(Key(key.phone, "flash", common, 0), _later_mean)
            for killed in phones.with_killers(common):
                off = self.mean(Key(key.phone, "no swap", killed, 0), _later_mean)
                choices = (*key.choices, killed[-1])
                yield choices, taken / flash - 1, taken / off


def _later_mean(life: Lifecycle) -> float:
    return fmean(later(life))


def _volume(life: Lifecycle) -> float:
    return io_mib(life["visits"])


def _top(life: Lifecycle) -> float:
    return life["skew"]["top_share"]["0.1"]


def verdicts(inputs: Inputs) -> list[Verdict]:
    """The verdict of each check, in the order of the sheets."""
    readings: dict[str, list[Reading]] = {
        **_skew(inputs),
        **_volumes(inputs),
        **_launches(inputs),
        **_crowds(inputs),
        **_nvm(inputs),
        **_hybrid(inputs),
        **_scarcity(inputs),
    }
    found = [
        judge(check, "lives", readings[name]) for name, check in CHECKS.items() if name in readings
    ]
    return [*found, *model_verdicts(inputs)]


def _skew(inputs: Inputs) -> dict[str, list[Reading]]:
    order, small = [], []
    for choices, on, off in inputs.pairs(phones.SMALL):
        tops = [
            inputs.mean(key, _top) for key in (on, Key(phones.LARGE, on.below, on.choices, 0), off)
        ]
        order.append(Reading(choices, tops[0] > tops[1] > tops[2], tops[0]))
        small.append(Reading(choices, tops[0] >= 0.70, tops[0]))
    return {"skew_order": order, "skew_small": small}


def _volumes(inputs: Inputs) -> dict[str, list[Reading]]:
    found = {}
    for name, phone, low, high in (
        ("ratio_small", phones.SMALL, 5.0, 8.0),
        ("ratio_large", phones.LARGE, 0.0, 1.3),
    ):
        found[name] = [
            Reading(choices, low <= ratio <= high, ratio)
            for choices, on, off in inputs.pairs(phone)
            for ratio in [inputs.mean(on, _volume) / inputs.mean(off, _volume)]
        ]
    return found


def _first_mean(life: Lifecycle) -> float:
    return fmean(launches(life["visits"][: len(life["visits"]) // phones.ROUNDS]))


def _span(life: Lifecycle) -> float:
    """The slowest round after the first, over the quickest one."""
    count = len(life["visits"]) // phones.ROUNDS
    rounds = [
        fmean(launches(life["visits"][turn * count : (turn + 1) * count]))
        for turn in range(1, phones.ROUNDS)
    ]
    return max(rounds) / min(rounds)


def _launches(inputs: Inputs) -> dict[str, list[Reading]]:
    found: dict[str, list[Reading]] = {"launch_first": [], "launch_flat": []}
    for phone in (phones.SMALL, phones.LARGE):
        for choices, on, off in inputs.pairs(phone):
            read = (("phone", phone), *choices)
            first = inputs.mean(on, _first_mean) / inputs.mean(off, _first_mean)
            found["launch_first"].append(
                Reading(read, 1 / (1 + LEVEL) <= first <= 1 + LEVEL, first)
            )
            span = inputs.mean(off, _span)
            found["launch_flat"].append(Reading(read, span <= 1 + LEVEL, span))
    for name, phone, low, high in (
        ("launch_small", phones.SMALL, 2.0, 3.5),
        ("launch_large", phones.LARGE, 0.0, 1 + LEVEL),
    ):
        found[name] = [
            Reading(choices, low <= ratio <= high, ratio)
            for choices, on, off in inputs.pairs(phone)
            for ratio in [inputs.mean(on, _later_mean) / inputs.mean(off, _later_mean)]
        ]
    return found


def _crowds(inputs: Inputs) -> dict[str, list[Reading]]:
    on, off = [], []
    for choices in phones.common_choices():
        small, large, crowded = (
            inputs.mean(Key(phone, "swap on", choices, 0), _later_mean) for phone in phones.PHONES
        )
        holds = 0.5 <= crowded / small <= 2 and crowded >= 2 * large
        on.append(Reading(choices, holds, crowded / small))
        for killed in phones.with_killers(choices):
            few, many = (
                inputs.mean(Key(phone, "swap off", killed, 0), _later_mean)
                for phone in (phones.LARGE, phones.CROWDED)
            )
            ratio = many / few
            off.append(Reading(killed, 1 / (1 + LEVEL) <= ratio <= 1 + LEVEL, ratio))
    return {"apps_on": on, "apps_off": off}


def _nvm(inputs: Inputs) -> dict[str, list[Reading]]:
    falls, small, large = [], [], []
    for profile, used, order in product(phones.PROFILES, phones.USED, phones.ORDERS):
        choices = phones.shown_with(used, order)
        read: Choices = (("profile", profile), ("used", used), ("order", order))
        volume = {
            size: inputs.mean(
                Key(phones.SMALL, str(size), (*choices, ("profile", profile)), 0), _volume
            )
            for size in phones.NVM_MIB
        }
        sizes = list(phones.NVM_MIB)
        is_falling = all(volume[more] <= 1.01 * volume[less] for less, more in pairwise(sizes))
        falls.append(Reading(read, is_falling, volume[sizes[-1]] / volume[0]))
        for killed in phones.with_killers(choices):
            off = inputs.mean(Key(phones.SMALL, "swap off", killed, 0), _volume)
            both = (*read, killed[-1])
            is_more = all(volume[size] > off for size in (0, 32, 64))
            small.append(Reading(both, is_more, volume[64] / off))
            is_less = all(volume[size] <= off for size in (256, 512, 1024))
            large.append(Reading(both, is_less, volume[256] / off))
    return {"nvm_falls": falls, "nvm_small": small, "nvm_large": large}


def launch_readings(seeds: Sequence[int], progress: Progress | None) -> list[Reading]:
    """Whether hybrid swap cuts launches by 40 %, from new lives; for the study `multiswap`."""
    lives = phones.live(phones.hybrid_lives(seeds), progress)
    return hybrid_readings(Inputs(lives, (), seeds))


def hybrid_readings(inputs: Inputs) -> list[Reading]:
    """Whether hybrid swap cuts launches by 40 %."""
    return [Reading(choices, cut <= -0.4, cut) for choices, cut, _ in inputs.hybrid_cuts()]


def _hybrid(inputs: Inputs) -> dict[str, list[Reading]]:
    off = [Reading(choices, ratio <= 1.5, ratio) for choices, _, ratio in inputs.hybrid_cuts()]
    return {"hybrid_cut": hybrid_readings(inputs), "hybrid_off": off}


def _scarcity(inputs: Inputs) -> dict[str, list[Reading]]:
    found: dict[str, list[Reading]] = {
        name: []
        for name in (
            "slower",
            "slower_small",
            "slower_large",
            "kills_small",
            "kills_large",
            "reclaim_first",
        )
    }
    apps = list(phones.NEEDS_KB)
    serial = {app: list(inputs.scarcity(app, "serial")) for app in apps}
    first = {app: list(inputs.scarcity(app, "reclaim-first")) for app in apps}
    for index, (choices, *_) in enumerate(serial[apps[0]]):
        ratios = [serial[app][index][2] / serial[app][index][1] for app in apps]
        kills = [serial[app][index][3]["kills"] for app in apps]
        rises = all(less <= more for less, more in pairwise(ratios))
        found["slower"].append(Reading(choices, min(ratios) > 1 and rises, fmean(ratios) - 1))
        found["slower_small"].append(Reading(choices, 1.2 <= ratios[0] <= 1.6, ratios[0]))
        found["slower_large"].append(Reading(choices, 2.5 <= ratios[-1] <= 4, ratios[-1]))
        few = kills[:-1]
        found["kills_small"].append(Reading(choices, min(few) >= 2 and max(few) <= 4, fmean(few)))
        found["kills_large"].append(Reading(choices, 10 <= kills[-1] <= 20, kills[-1]))
        change = fmean(first[app][index][2] / serial[app][index][2] - 1 for app in apps)
        found["reclaim_first"].append(Reading(choices, change < 0, change))
    return found


def model_verdicts(inputs: Inputs) -> Iterator[Verdict]:
    """The verdicts on the model, from the runs that it was not fitted to."""
    medians = [
        Reading((("run", run.name),), abs(run.difference) <= 0.25, run.difference)
        for run in inputs.judged
    ]
    yield judge(CHECKS["real"], "real runs", medians)
    pairs = [
        (run.real_s < other.real_s) == (run.simulated_s < other.simulated_s)
        for run, other in combinations(inputs.judged, 2)
        if max(run.real_s, other.real_s) > (1 + LEVEL) * min(run.real_s, other.real_s)
    ]
    share = sum(pairs) / len(pairs)
    yield judge(CHECKS["real_order"], "real runs", [Reading((), share == 1, share)])
