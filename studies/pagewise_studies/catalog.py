"""The catalog of studies; pyproject.toml names each row as an entry point."""

from __future__ import annotations

from pagewise.studies import Study

MULTISWAP = Study(
    "multiswap",
    "S1 Figs. 2-4: hierarchical against hybrid swap; with --live S1 Figs. 2-5 on launch runs",
    "pagewise_studies.multiswap",
    "pagewise study multiswap",
    has_live=True,
    reads_runs=True,
)
NVM_CACHE = Study(
    "nvm-cache",
    "S0 Fig. 5: an NVM cache under recorded swap and files; with --live Fig. 5 on launch runs",
    "pagewise_studies.nvm_cache",
    "pagewise study nvm-cache --report nvm-cache.html",
    has_live=True,
    reads_runs=True,
)
PAGE_SIZE = Study(
    "page-size",
    "S4: a page size for each virtual machine",
    "pagewise_studies.page_size",
    "pagewise study page-size --report page-size.html",
)
THRASH = Study(
    "thrash",
    "S0 Figs. 1-3 on launch runs of real programs",
    "pagewise_studies.thrash",
    "pagewise study thrash examples/s0-*/*-?",
    of_runs=True,
    reads_runs=True,
)
PREDICT = Study(
    "predict",
    "pages of a launch predicted from the launch before",
    "pagewise_studies.predict",
    "pagewise study predict examples/phone-1g",
    of_runs=True,
    reads_runs=True,
)
RELAUNCH = Study(
    "relaunch",
    "launches of frozen applications with relaunchd and without",
    "pagewise_studies.relaunch",
    "pagewise study relaunch build/tiers/prefetch/with*-?",
    of_runs=True,
    reads_runs=True,
)
LAUNCH = Study(
    "launch",
    "S2 Fig. 1: what a launch in short memory waits for; with --simulated also S0 Figs. 1-3, 5 "
    "and S1 Fig. 5",
    "pagewise_studies.launch",
    "pagewise study launch examples/no-limit examples/kill-1g",
    of_runs=True,
    simulates=True,
    reads_runs=True,
)
LAZY_UNMAP = Study(
    "lazy-unmap",
    "S3: freed memory that stays mapped, on recorded allocations",
    "pagewise_studies.lazy_unmap",
    "pagewise study lazy-unmap examples/allocations/*.pgr",
    of_runs=True,
)
KILL_ANATOMY = Study(
    "kill-anatomy",
    "S2: what a kill is made of, on real kills",
    "pagewise_studies.kill_anatomy",
    "pagewise study kill-anatomy examples/kill-anatomy",
    of_runs=True,
)
