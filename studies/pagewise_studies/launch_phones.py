"""The phones of S0, S1 and S2 as simulated lives; choices that the papers leave open have names.

Sizes follow the derivations of the spec sheets. If neither a sheet nor a measurement gives a value,
it is a choice. No choice is made to reproduce a figure of a paper.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import cast

from pagewise import _core
from pagewise.lives import Killer, Library, Life, Phone, live_all
from pagewise.recording import Progress
from pagewise.types import Lifecycle
from pagewise.units import PAGE_BYTES
from pagewise_studies.verdict import Choices

PHONES = {"1 GB, 9 apps": (600, 9), "2 GB, 9 apps": (1500, 9), "2 GB, 25 apps": (1500, 25)}
"""Memory for apps in MiB, and number of apps (S0.3)."""
SMALL, LARGE, CROWDED = PHONES
MULTI_SWAP = "20 apps"
"""The phone of S1, which names no memory; it gets the memory of a 2 GB phone."""
ROUNDS = 5
APP_MIB, FILE_PERCENT = 120, 30
LIBRARIES: Library = {"name": "libraries", "mib": 64, "linked_percent": 50}
SERVICES_MIB = 64
COLD_MS = 2000.0
"""The duration of a restart without swap (S0.3: constant 2 s)."""
SWAP_MIB = 4096
FAST = "10/20us"
"""Read and write time of the NVM of anchors 2.2, between eMRAM and Optane."""

USED = {"30 %": 30, "the whole app": 100}
"""The percentage of an app that a visit uses: as measured on PCs, or all of the app (S0.3)."""
WARM = {"13 % of a cold launch": 0.13, "as a cold launch": 1.0}
"""The own time of a thawed app: as in the launch lab without a limit, or that of a cold launch."""
DEVICES = {"emmc-5.1": 250, "ufs-2.1": 800}
"""The flash of the papers' phones, and MB/s of its sequential reads (from data sheets)."""
READ_AROUND = 32
"""Pages of a file that one read brings (the kernel's VM_READAHEAD_PAGES)."""
KILLERS = {"free and file pages": "true", "free pages": "false"}
"""The pages that minfree compares with its levels: as in the driver, or as in S2's text."""
ORDERS = ("strict", "shuffled")
NVM_MIB = (0, 32, 64, 128, 256, 512, 1024)
PROFILES = ("faithful", "practical")
HYBRID_MIB = (256, 1024, 2048)
"""S1 sweeps sizes until all swapped pages fit."""
BITS, COPIES = ("0", "1"), ("keep", "free")


@dataclass(frozen=True)
class Key:
    """The key of a life: phone, tiers below its memory, choices by name, and seed."""

    phone: str
    below: str
    choices: Choices
    seed: int

    def choice(self, name: str) -> str:
        """The value of a choice."""
        return dict(self.choices)[name]


def file_read_ns(device: str) -> int:
    """A page of a file, read with its neighbours."""
    latency_ns = _core.device(device)["read_ns"]["typical"]
    return round(latency_ns / READ_AROUND + PAGE_BYTES / DEVICES[device] * 1e3)


BATCH = 64
"""Lives whose outcomes are in memory as Python objects at a time: about 200 KB each."""


Outcomes = Mapping[Key, Lifecycle]


class PackedOutcomes(Outcomes):
    """The outcomes of lives. Each is kept as compressed JSON and unpacked at each access."""

    def __init__(self) -> None:
        self._packed: dict[Key, bytes] = {}

    def add(self, key: Key, outcome: Lifecycle) -> None:
        """Adds the outcome of a life."""
        self._packed[key] = zlib.compress(json.dumps(outcome).encode(), level=1)

    def __getitem__(self, key: Key) -> Lifecycle:
        outcome: Lifecycle = json.loads(zlib.decompress(self._packed[key]))
        return outcome

    def __iter__(self) -> Iterator[Key]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


def live(wanted: Mapping[Key, Life], progress: Progress | None) -> PackedOutcomes:
    """Simulates every life, on all cores."""
    outcomes = PackedOutcomes()
    visits = {key: len(cast(list[int], life.phone["visits"])) for key, life in wanted.items()}
    total, before = sum(visits.values()), 0
    every_key = list(wanted)
    for first in range(0, len(every_key), BATCH):
        keys = every_key[first : first + BATCH]
        lives = [wanted[key] for key in keys]
        shown = _beginning_at(before, total, progress) if progress else None
        for key, outcome in zip(keys, live_all(lives, progress=shown), strict=True):
            outcomes.add(key, outcome)
        before += sum(visits[key] for key in keys)
    return outcomes


def _beginning_at(before: int, total: int, progress: Progress) -> Progress:
    """Progress of a part that begins after ``before`` of ``total`` steps."""
    return lambda done, _: progress(before + done, total)


def common_choices() -> Iterator[Choices]:
    """Every combination of the choices that S0 and S1 leave open for all phones."""
    names = ("used", "warm", "device", "order")
    for values in product(USED, WARM, DEVICES, ORDERS):
        yield tuple(zip(names, values, strict=True))


def with_killers(choices: Choices) -> Iterator[Choices]:
    """The choices of a phone with swap off: ``choices`` with each killer."""
    for killer in KILLERS:
        yield (*choices, ("minfree counts", killer))


def shown(*more: tuple[str, str]) -> Choices:
    """The reading that figures show: S0's derivations and flash of its time, then ``more``."""
    first = ("the whole app", "13 % of a cold launch", "emmc-5.1", "strict")
    return (*zip(("used", "warm", "device", "order"), first, strict=True), *more)


def thrash_lives(seeds: Sequence[int]) -> dict[Key, Life]:
    """The lives of S0's three phones, with and without swap."""
    lives = {}
    for name, choices, seed in product(PHONES, common_choices(), seeds):
        on = Key(name, "swap on", choices, seed)
        lives[on] = Life(_phone(on, *PHONES[name], swap_mib=SWAP_MIB), slow=on.choice("device"))
        for killed in with_killers(choices):
            off = Key(name, "swap off", killed, seed)
            lives[off] = Life(_phone(off, *PHONES[name]), slow=off.choice("device"))
    return lives


def nvm_lives(seeds: Sequence[int]) -> dict[Key, Life]:
    """The lives of S0 Fig. 5: swap on, with an NVM cache of storage.

    The pages that the cache moves depend on neither the device nor the own time of apps.
    """
    lives = {}
    for name, size, profile, used, order, seed in product(
        (SMALL, LARGE), NVM_MIB, PROFILES, USED, ORDERS, seeds
    ):
        choices = (*shown_with(used, order), ("profile", profile))
        key = Key(name, f"{size}", choices, seed)
        phone = _phone(key, *PHONES[name], swap_mib=SWAP_MIB, tiers_hold_files=True)
        lives[key] = Life(phone, "nvm-cache", f"{size}MiB", FAST, "emmc-5.1", profile=profile)
    return lives


def shown_with(used: str, order: str) -> Choices:
    """The reading that figures show, with this used share and order."""
    return tuple({**dict(shown()), "used": used, "order": order}.items())


def hybrid_lives(seeds: Sequence[int]) -> dict[Key, Life]:
    """The lives of S1 Fig. 5: twenty apps with hybrid swap, flash swap and no swap."""
    lives = {}
    for choices, seed in product(common_choices(), seeds):
        memory_mib = PHONES[LARGE][0]
        flash = Key(MULTI_SWAP, "flash", choices, seed)
        slow = flash.choice("device")
        phone = _phone(flash, memory_mib, 20, swap_mib=SWAP_MIB)
        lives[flash] = Life(phone, slow=slow)
        for size, bit, copy in product(HYBRID_MIB, BITS, COPIES):
            more = (("NVM", f"{size} MiB"), ("entry_bit", bit), ("flash copy", copy))
            option = {"entry_bit": bit, "flash_copy_on_promotion": copy}
            key = Key(MULTI_SWAP, "hybrid", (*choices, *more), seed)
            lives[key] = Life(phone, "hybrid", f"{size}MiB", FAST, slow, option)
        for killed in with_killers(choices):
            off = Key(MULTI_SWAP, "no swap", killed, seed)
            lives[off] = Life(_phone(off, memory_mib, 20), slow=slow)
    return lives


def _phone(
    key: Key,
    memory_mib: int,
    apps: int,
    *,
    swap_mib: int | None = None,
    tiers_hold_files: bool | None = None,
) -> Phone:
    """A phone of S0: apps of 60 to 180 MiB, launched in rounds."""
    spread = range(APP_MIB // 2, APP_MIB * 3 // 2 + 1)
    dice = random.Random(key.seed)
    sizes = [spread[len(spread) * (2 * app + 1) // (2 * apps)] for app in range(apps)]
    dice.shuffle(sizes)
    warm = WARM[key.choice("warm")]
    phone: Phone = {
        "memory_mib": memory_mib,
        "apps": [
            {
                "name": f"app{app + 1}",
                "anonymous_mib": mib - mib * FILE_PERCENT // 100,
                "file_mib": mib * FILE_PERCENT // 100,
                "libraries": [LIBRARIES["name"]],
                "cold_ms": COLD_MS,
                "warm_ms": COLD_MS * warm,
            }
            for app, mib in enumerate(sizes)
        ],
        "libraries": [LIBRARIES],
        "services_mib": SERVICES_MIB,
        "visits": _visits(apps, key.choice("order"), dice),
        "used_percent": USED[key.choice("used")],
        "killer": _killer(dict(key.choices).get("minfree counts")),
        "costs": {"file_read_ns_per_page": file_read_ns(key.choice("device"))},
        "seed": key.seed,
    }
    if swap_mib is not None:
        phone["swap_mib"] = swap_mib
    if tiers_hold_files is not None:
        phone["tiers_hold_files"] = tiers_hold_files
    return phone


def _visits(apps: int, order: str, dice: random.Random) -> list[int]:
    visits: list[int] = []
    for _ in range(ROUNDS):
        turn = list(range(apps))
        if order == "shuffled":
            dice.shuffle(turn)
        visits += turn
    return visits


def _killer(counts: str | None, order: str = "serial") -> Killer:
    """A killer by Android's table with one of its rules; None stands for no killer."""
    if counts is None:
        return {"rule": {"by": "none"}}
    options = {"file_cache_counts": KILLERS[counts]}
    return {"rule": {"by": "policy", "name": "minfree", "options": options}, "order": order}


NEEDS_KB = {
    "Play Store": 57_756,
    "Camera": 74_932,
    "Chrome": 103_900,
    "MX Player": 119_464,
    "Asphalt 8": 502_748,
}
"""The memory that the paper's apps need (S2.4)."""
CACHED, CACHED_MIB = 24, 30
"""Further cached processes and their size: those that Asphalt 8 killed and the rest of a phone.
S2.6 assumes 20 to 40 MB for each."""
NEXUS_5_MIB = 1500
MINFREE_MIB = 180
"""Short memory begins at the highest level of the framework's table (S2.2: 184,320 KB)."""
HEADROOM = {"at the killer's level": 0, "64 MiB above it": 64}
"""Free MiB above that level at the launch of the app; S2 does not give the size of its balloon."""
BUSY = {"two threads": 2, "every processor": 4}
KILL_COSTS: dict[str, dict[str, int]] = {
    "as on Linux 6.18": {},
    "as on S2's phone": {
        "signal_ns_per_thread": 3_000,
        "exit_ns_per_thread": 23_000,
        "free_ns_per_page": 1_500,
    },
}
"""The time of the phases of a kill. The defaults are those that killtrace measured. S2's victims
with 13 and 41 threads took 47 and 108 us for delivery, 271 and 1,077 us for handling, and 10 ms to
free their memory. S2 does not give its size; the model assumes 20 to 40 MB (S2.4, S2.6)."""
KILL_ORDERS = ("serial", "batch", "reclaim-first")
AMPLE, SHORT = "ample memory", "short memory"


def scarcity_lives(own_ms: Mapping[str, Mapping[str, float]]) -> dict[Key, Life]:
    """The lives of S2 Fig. 1: each app is launched in ample and in short memory.

    ``own_ms``: the own time of each app, by the choice of own times.
    """
    lives = {}
    names = ("own time", "device", "launch keeps busy")
    for app, own, device, busy in product(NEEDS_KB, own_ms, DEVICES, BUSY):
        choices = tuple(zip(names, (own, device, busy), strict=True))
        phone = _nexus(app, own_ms[own][app], BUSY[busy])
        phone["costs"] = {"file_read_ns_per_page": file_read_ns(device)}
        ample = Key(app, AMPLE, choices, 0)
        # A small app runs first, so that the system has started and its libraries are in memory.
        started = [len(phone["apps"]) - 1, 0]
        lives[ample] = Life({**phone, "memory_mib": NEXUS_5_MIB, "visits": started}, slow=device)
        for killer, headroom, costs, order in product(KILLERS, HEADROOM, KILL_COSTS, KILL_ORDERS):
            more = (("minfree counts", killer), ("free", headroom), ("a kill takes", costs))
            short = Key(app, f"{SHORT}, {order}", (*choices, *more), 0)
            lives[short] = Life(
                {
                    **phone,
                    "memory_mib": _taken_mib(phone) + MINFREE_MIB + HEADROOM[headroom],
                    "visits": [*range(1, len(phone["apps"])), 0],
                    "killer": _killer(killer, order),
                    "costs": {**phone["costs"], **KILL_COSTS[costs]},
                },
                slow=device,
            )
    return lives


def _nexus(app: str, own_ms: float, busy_threads: int) -> Phone:
    """S2's phone: the launched app, then the other four apps and the cached processes."""
    others = [name for name in NEEDS_KB if name not in (app, "Asphalt 8")]
    needs = {app: NEEDS_KB[app] // 1024, **{name: NEEDS_KB[name] // 1024 for name in others}}
    needs |= {f"cached {number + 1}": CACHED_MIB for number in range(CACHED)}
    return {
        "apps": [
            {
                "name": name,
                "anonymous_mib": mib - mib * FILE_PERCENT // 100,
                "file_mib": mib * FILE_PERCENT // 100,
                "libraries": [LIBRARIES["name"]],
                "cold_ms": own_ms,
                "warm_ms": own_ms,
            }
            for name, mib in needs.items()
        ],
        "libraries": [{**LIBRARIES, "linked_percent": 100}],
        "services_mib": SERVICES_MIB,
        "busy_threads": busy_threads,
        "killer": {"rule": {"by": "none"}},
    }


def _taken_mib(phone: Phone) -> int:
    """The memory that the cached apps hold. The kernel can drop their file pages, but the driver
    counts these too."""
    held = sum(app["anonymous_mib"] for app in phone["apps"][1:])
    return held + SERVICES_MIB
