"""Launches on simulated lives: S0 Figs. 1, 2, 3 and 5, S1 Fig. 5, S2 Fig. 1, and model checks.

`launch_phones` has the phones and the choices that the papers leave open, `launch_simulated_checks`
has the checks, and `launch_fit` fits the model to real runs of the launch lab.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median

from pagewise.comparisons import StudyResult
from pagewise.launch_runs import LaunchRun, read_run, refuse_invalid
from pagewise.lives import Life, live_all
from pagewise.recording import Progress
from pagewise_studies import launch_phones as phones
from pagewise_studies import outcome
from pagewise_studies.figure import Figure, Point, mean_point
from pagewise_studies.launch_fit import JUDGED, MORE, UNLIMITED, Fit, fit
from pagewise_studies.launch_phones import Key, Outcomes, shown
from pagewise_studies.launch_simulated_checks import Inputs, Judged, verdicts
from pagewise_studies.launch_tables import PARTS, io_mib, later, launch_s, launches, tables
from pagewise_studies.verdict import Choices

NAME = "launch-simulated"
TITLE = "Launches on simulated phones: swap, NVM, hybrid swap and low-memory kills"
SHOWN_KILLER = ("minfree counts", "free and file pages")


def simulated(
    recordings: Path,
    output: Path,
    *,
    seeds: int,
    progress: Progress | None,
    allow_invalid: bool = False,
) -> StudyResult:
    """Runs the study into the folder ``output`` and returns its ``pagewise.study/1`` object."""
    real = read_runs(recordings)
    refuse_invalid(real.values(), allow_invalid=allow_invalid)
    judged = held_to_real(real)
    lives = phones.live(paper_lives(real, seeds), progress)
    inputs = Inputs(lives, judged, list(range(seeds)))
    return outcome.assemble(
        NAME,
        output,
        title=TITLE,
        figures=list(figures(inputs)),
        verdicts=verdicts(inputs),
        tables=tables(inputs),
        inputs={
            f"{run.name}/{name}": run.folder / name
            for run in real.values()
            for name in ("run.toml", "visits.parquet")
        },
        runs=real.values(),
        arguments=f"--simulated --seeds {seeds}",
        called="launch",
        seeds=range(seeds),
        seeded="simulated phones (docs/lifecycle.md)",
    )


def read_runs(recordings: Path) -> dict[str, LaunchRun]:
    """The real runs that lives are fitted to, by name."""
    names = (*JUDGED, *MORE, *UNLIMITED)
    return {name: read_run(recordings / name) for name in names}


def paper_lives(real: dict[str, LaunchRun], seeds: int) -> dict[Key, Life]:
    """The lives of the papers' phones; the own times of apps come from all ``real`` runs."""
    everything = fit(list(real.values()), [real[name] for name in UNLIMITED])
    return {
        **phones.thrash_lives(range(seeds)),
        **phones.nvm_lives(range(seeds)),
        **phones.hybrid_lives(range(seeds)),
        **phones.scarcity_lives(own_times(everything)),
    }


def plan_lives(real: dict[str, LaunchRun]) -> list[tuple[Fit, Life]]:
    """The life of each judged run's plan, with the model that was fitted to the other runs."""
    unlimited = [real[name] for name in UNLIMITED]
    fits = [
        fit([run for other, run in real.items() if other != name], unlimited) for name in JUDGED
    ]
    return [(model, model.life(real[name])) for model, name in zip(fits, JUDGED, strict=True)]


def own_times(model: Fit) -> dict[str, dict[str, float]]:
    """Own time of a cold launch of each of S2's apps in milliseconds, by the source of the time."""
    by_need = model.ms_per_mib()
    return {
        "2 s, as S0": dict.fromkeys(phones.NEEDS_KB, phones.COLD_MS),
        f"{by_need:.1f} ms a MiB, as the launch lab": {
            app: by_need * kilobytes / 1024 for app, kilobytes in phones.NEEDS_KB.items()
        },
    }


def held_to_real(real: dict[str, LaunchRun]) -> list[Judged]:
    """Compares each judged run with the life of its plan, fitted to the other runs."""
    plans = plan_lives(real)
    lives = live_all([life for _, life in plans])
    found = []
    for name, (model, _), life in zip(JUDGED, plans, lives, strict=True):
        run = real[name]
        first = len(run.during(1, 1))
        found.append(
            Judged(
                name=name,
                real_s=median(run.launches(2)),
                simulated_s=median(launches(life["visits"][first:])),
                real_io_mib=(run.io_bytes_per_visit(2) or 0) / 2**20,
                simulated_io_mib=fmean(io_mib([visit]) for visit in life["visits"][first:]),
                real_kills=run.kills,
                simulated_kills=len(life["kills"]),
                speed=model.speed(run),
                rates=model.rates,
            )
        )
    return found


def figures(inputs: Inputs) -> Iterator[Figure]:
    """Every figure, in the order of the papers."""
    lives, seeds = inputs.lives, inputs.seeds
    yield figure_1(lives)
    yield figure_2(lives, seeds)
    yield figure_3(lives, seeds)
    for phone in (phones.SMALL, phones.LARGE):
        yield figure_5(lives, seeds, phone)
    yield figure_hybrid(lives, seeds)
    yield figure_scarcity(lives)
    yield from figures_parts(lives)
    yield figure_real(inputs.judged)


def _on(phone: str, seed: int) -> Key:
    return Key(phone, "swap on", shown(), seed)


def _off(phone: str, seed: int) -> Key:
    return Key(phone, "swap off", shown(SHOWN_KILLER), seed)


def figure_1(lives: Outcomes) -> Figure:
    """S0 Fig. 1: storage I/O of the busiest 10 % of pages and of all others."""
    points = []
    for phone in (phones.SMALL, phones.LARGE):
        for key in (_on(phone, 0), _off(phone, 0)):
            life = lives[key]
            volume = life["storage_accesses"] / 256
            top = life["skew"]["top_share"]["0.1"]
            bar = f"{phone}, {key.below}"
            points += [
                Point(bar, "top 10 % of pages", volume * top, seed="0"),
                Point(bar, "other pages", volume * (1 - top), seed="0"),
            ]
    return Figure(
        f"{NAME}-s0-fig1",
        "S0 Fig. 1: storage I/O with swap on and off",
        "",
        "storage I/O, MiB",
        tuple(points),
        {"choices": shown(SHOWN_KILLER)},
        is_categorical=True,
        is_stacked=True,
    )


def figure_2(lives: Outcomes, seeds: Sequence[int]) -> Figure:
    """S0 Fig. 2: launch time by round."""
    points = []
    for phone in (phones.SMALL, phones.LARGE):
        count = phones.PHONES[phone][1]
        for make in (_on, _off):
            for turn in range(phones.ROUNDS):
                times = [
                    time
                    for seed in seeds
                    for time in launches(
                        lives[make(phone, seed)]["visits"][turn * count : (turn + 1) * count]
                    )
                ]
                series = f"{phone}, {make(phone, 0).below}"
                points.append(mean_point(turn + 1, series, times, seeds))
    return Figure(
        f"{NAME}-s0-fig2",
        "S0 Fig. 2: launch time by round",
        "round",
        "launch time, seconds",
        tuple(points),
        {"choices": shown(SHOWN_KILLER)},
    )


def figure_3(lives: Outcomes, seeds: Sequence[int]) -> Figure:
    """S0 Fig. 3: launch time after the first round, by phone."""
    points = [
        mean_point(
            phone,
            make(phone, 0).below,
            [time for seed in seeds for time in later(lives[make(phone, seed)])],
            seeds,
        )
        for phone in phones.PHONES
        for make in (_on, _off)
    ]
    return Figure(
        f"{NAME}-s0-fig3",
        "S0 Fig. 3: launch time after the first round",
        "phone",
        "launch time, seconds",
        tuple(points),
        {"choices": shown(SHOWN_KILLER)},
        is_categorical=True,
    )


def figure_5(lives: Outcomes, seeds: Sequence[int], phone: str) -> Figure:
    """S0 Fig. 5: storage I/O by the size of the NVM; swap off is a flat line."""
    points = []
    for used in phones.USED:
        choices = phones.shown_with(used, "strict")
        for profile in phones.PROFILES:
            points += [
                mean_point(
                    size,
                    f"swap on, {profile}, a visit uses {used}",
                    [
                        io_mib(lives[_nvm(phone, size, choices, profile, seed)]["visits"])
                        for seed in seeds
                    ],
                    seeds,
                )
                for size in phones.NVM_MIB
            ]
        off = [
            io_mib(lives[Key(phone, "swap off", (*choices, SHOWN_KILLER), seed)]["visits"])
            for seed in seeds
        ]
        points += [
            mean_point(size, f"swap off, a visit uses {used}", off, seeds)
            for size in phones.NVM_MIB
        ]
    memory = phone.split(",")[0]
    return Figure(
        f"{NAME}-s0-fig5-{memory.replace(' ', '').lower()}",
        f"S0 Fig. 5: storage I/O by the size of an NVM cache, {memory}",
        "NVM, MiB",
        "storage I/O, MiB",
        tuple(points),
        {"phone": phone, "choices": shown(SHOWN_KILLER)},
        chart="S0 Fig. 5: storage I/O by the size of an NVM cache",
        view=memory,
    )


def _nvm(phone: str, size: int, choices: Choices, profile: str, seed: int) -> Key:
    return Key(phone, str(size), (*choices, ("profile", profile)), seed)


def figure_hybrid(lives: Outcomes, seeds: Sequence[int]) -> Figure:
    """S1 Fig. 5: launch time of each app with flash swap, hybrid swap of 1024 MiB and no swap."""
    points = []
    hybrid = (("NVM", "1024 MiB"), ("entry_bit", "1"), ("flash copy", "keep"))
    for series, below, more in (
        ("flash swap", "flash", ()),
        ("hybrid swap, 1024 MiB", "hybrid", hybrid),
        ("no swap", "no swap", (SHOWN_KILLER,)),
    ):
        for app in range(20):
            times = [
                visit["launch_ns"] / 1e9
                for seed in seeds
                for visit in lives[Key(phones.MULTI_SWAP, below, shown(*more), seed)]["visits"][20:]
                if visit["app"] == app and visit["launch_ns"] is not None
            ]
            points.append(mean_point(f"app{app + 1}", series, times, seeds))
    return Figure(
        f"{NAME}-s1-fig5",
        "S1 Fig. 5: launch time after the first round by app, twenty apps",
        "app",
        "launch time, seconds",
        tuple(points),
        {"choices": shown(SHOWN_KILLER), "hybrid": hybrid},
        is_categorical=True,
    )


def scarcity_choices(lives: Outcomes) -> Choices:
    """The choices for launches in figures of S2: own time, device and busy threads."""
    own = next(key.choice("own time") for key in lives if key.below == phones.AMPLE)
    return (("own time", own), ("device", "emmc-5.1"), ("launch keeps busy", "two threads"))


SHORT_CHOICES = (
    SHOWN_KILLER,
    ("free", "at the killer's level"),
    ("a kill takes", "as on S2's phone"),
)


def figure_scarcity(lives: Outcomes) -> Figure:
    """S2 Fig. 1: launch time of five apps in ample and in short memory."""
    choices = scarcity_choices(lives)
    points = []
    for app in phones.NEEDS_KB:
        rows = [(phones.AMPLE, choices)]
        rows += [
            (f"{phones.SHORT}, {order}", (*choices, *SHORT_CHOICES)) for order in phones.KILL_ORDERS
        ]
        points += [
            Point(app, below, launch_s(lives[Key(app, below, taken, 0)]["visits"][-1]))
            for below, taken in rows
        ]
    return Figure(
        f"{NAME}-s2-fig1",
        "S2 Fig. 1: launch time in ample and in short memory",
        "app",
        "launch time, seconds",
        tuple(points),
        {"choices": [choices, SHORT_CHOICES]},
        is_categorical=True,
    )


def figures_parts(lives: Outcomes) -> Iterator[Figure]:
    """Parts of the launch time, in three views: S0's phones with swap on, with swap off, and S2's
    apps in short memory.
    """
    choices = (*scarcity_choices(lives), *SHORT_CHOICES)
    serial = f"{phones.SHORT}, serial"
    visits = {
        f"S0's phones, {swap}": {
            name: lives[phone(name, 0)]["visits"][phones.PHONES[name][1] :]
            for name in phones.PHONES
        }
        for swap, phone in (("swap on", _on), ("swap off", _off))
    }
    visits["S2's apps, short memory"] = {
        app: lives[Key(app, serial, choices, 0)]["visits"][-1:] for app in phones.NEEDS_KB
    }
    title = "Launch time by what it was spent on"
    for number, (view, bars) in enumerate(visits.items(), 1):
        points = [
            Point(bar, words, fmean(visit[part] for visit in launched) / 1e9)
            for bar, launched in bars.items()
            for part, words in PARTS.items()
        ]
        yield Figure(
            f"{NAME}-parts-{number}",
            f"{title}: {view}",
            "",
            "launch time, seconds",
            tuple(points),
            {"view": view, "choices": [shown(SHOWN_KILLER), choices]},
            is_categorical=True,
            is_stacked=True,
            chart=title,
            view=view,
        )


def figure_real(judged: Sequence[Judged]) -> Figure:
    """Median launches in the model and in the launch lab."""
    points = [
        Point(run.name, series, value)
        for run in judged
        for series, value in (("real run", run.real_s), ("simulated life", run.simulated_s))
    ]
    return Figure(
        f"{NAME}-real",
        "Median launch after the first round: real runs and their lives",
        "run",
        "launch time, seconds",
        tuple(points),
        {"runs": [run.name for run in judged]},
        is_categorical=True,
    )
