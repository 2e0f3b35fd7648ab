# demo: analyzes the recordings in examples/.   check: the fast tests, lint and types.
# docs: builds the documentation site in build/site; it opens without a network.
# test: the tests that need no emulated guest and are not marked long; test-desk and test-live are its Python parts.
# kernel: builds Linux 6.12 with the patches of kernel/ in build/kernel, from Debian's source.
# test-vm: the tests in emulated guests.   test-dist: those of the site and of dist/.   test-all: all, as CI runs them; of those of dist/ only test-install unless `make dist` ran.
# test-install: builds the wheel for x86-64, and installs it on a bare Debian 12 as a new user would.
# build: puts the commands in .venv/bin/.   bench: compares with other tools.   fuzz: each parser, policy family and the preload library, SECONDS each.
# bench-lazy: compares lazy unmapping with other allocators on real programs; needs root, takes 15 minutes.
# tiers: measures swapd and relaunchd, also on emulated eMMC, and studies the runs; needs root, takes about 57 minutes.
# bench-programs: runs whole programs with and without the preload library; needs root, takes 40 minutes.
# recordings: makes the launch runs of lab/matrix.toml, all recorded; needs root, takes hours, restartable.
# traces: captures the traces of study page-size; installs their programs, takes 20 minutes.
# studies: makes the pages of docs/studies again whose data are there.
# release: checks, versions, notes and artifacts of VERSION=x; publishes nothing.
# dist: what users install, in dist/: wheels, static agents, Debian packages (packaging/dist.mk).
# install, uninstall: the agent, its manual pages and units, as root.   clean: removes what was built.
# kills: kills processes, three repeats, and studies how long that takes; needs root and a quiet machine, takes ten minutes.
# launches: launches a filler of five sizes in ample and in short memory, and studies that; needs root, takes half an hour.
# lab-setup: installs real applications.   lab: launches nine of them in a phone's memory, and studies that; needs root, takes 45 minutes.
.PHONY: demo docs release test test-all test-rust test-desk test-live test-vm test-dist test-install kernel check check-rust check-python build install uninstall bench bench-lazy bench-programs fuzz kills tiers recordings studies lab-setup lab launches traces clean
.DELETE_ON_ERROR:

PYTHON  := .venv/bin/python
SECONDS ?= 600
SOURCES := $(shell find crates python/pagewise devices -type f \
             -not -path '*/__pycache__/*' -not -name '*.so') Cargo.toml Cargo.lock pyproject.toml

# The plugin that `pagewise capture` loads into QEMU. Building it does not need QEMU.
PLUGIN := python/pagewise/capture/qemu_capture.so

demo:
	@MAKE=$(MAKE) tools/demo.sh

# Each command that the tests start would compile its modules again if the environment forbade Python to keep them.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/build/pycache

# Each test that cannot run here writes a line to this file; tools/skipped.sh counts them.
SKIPPED := $(CURDIR)/build/skipped-tests.txt
test test-all check: export PAGEWISE_SKIPPED := $(SKIPPED)

# Tests marked long take about ten seconds each, or more; most repeat what others try, with more settings.
test: MARKED := -m "not long"
test: .venv/.test-extras build
	@mkdir -p build && : > $(SKIPPED)
	@$(MAKE) --no-print-directory test-rust
	@$(MAKE) --no-print-directory --keep-going --output-sync=line --jobs=2 test-desk test-live MARKED='$(MARKED)'
	@tools/skipped.sh $(SKIPPED)

test-all: .venv/.test-extras build
	@mkdir -p build && : > $(SKIPPED)
	@$(MAKE) --no-print-directory test-rust
	@$(MAKE) --no-print-directory --keep-going --output-sync=line --jobs=2 test-vm test-desk test-live test-dist
	@$(MAKE) --no-print-directory test-install
	@tools/skipped.sh $(SKIPPED)

test-rust:
	cargo test --release --quiet --workspace --lib --bins --tests $(AGENT_FEATURES) -- --include-ignored

test-desk:
	$(PYTHON) -m pytest -q $(MARKED) -n 2 --dist loadfile --ignore=tests/vm --ignore=tests/live --ignore=tests/dist

# Tests that change this machine run one after the other.
test-live:
	$(PYTHON) -m pytest -q $(MARKED) tests/live

# Guests are emulated, each on one processor, so they run beside all other tests.
test-vm: .venv/.test-extras build
	$(PYTHON) -m pytest -q tests/vm

# The site, and what is in dist.
test-dist: .venv/.test-extras build
	$(PYTHON) -m pytest -q tests/dist

# Builds no more of dist than this needs.
test-install: .venv/.test-extras build
	@$(MAKE) --no-print-directory MACHINES=x86_64 dist-wheel
	$(PYTHON) -m pytest -q tests/dist/test_install.py -k 'pipx and bookworm'

# A kernel with lazy unmapping, for guests; see docs/kernel.md.
kernel:
	kernel/build.sh build/kernel

check: .venv/.test-extras build
	@mkdir -p build && : > $(SKIPPED)
	@$(MAKE) --no-print-directory --keep-going --output-sync=target --jobs=2 check-python check-rust
	@tools/skipped.sh $(SKIPPED)
	@$(PYTHON) tools/readability.py

check-rust:
	cargo fmt --all --check
	cargo clippy --release --quiet --workspace $(AGENT_FEATURES) -- -D warnings
	cargo test --release --quiet --workspace --lib --bins --tests $(AGENT_FEATURES)

check-python:
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	$(PYTHON) -m pytest -m "not slow" -q -n 2 --dist worksteal --ignore=tests/vm --ignore=tests/live --ignore=tests/dist

build: .venv/.built .venv/.studies .venv/.agent $(PLUGIN)

docs: build .venv/.docs-extras
	$(PYTHON) tools/docs.py

.venv/.docs-extras: pyproject.toml | .venv/.built
	VIRTUAL_ENV=$(CURDIR)/.venv .venv/bin/maturin develop --release --quiet --extras docs
	@touch $@ .venv/.built

release: build
	$(PYTHON) tools/release.py $(VERSION)

lab-setup:
	tools/lab_setup.sh

RECORDINGS ?= build/recordings
lab: build lab-setup
	$(PYTHON) tools/recordings.py $(RECORDINGS) --row footprint-9 --row s0-emmc --row s0-swap
	.venv/bin/pagewise study thrash $(RECORDINGS)/footprint-9/*-? $(RECORDINGS)/s0-emmc/*-? $(RECORDINGS)/s0-swap/*-? \
	    examples/*-2g* examples/no-limit-25apps -o build/study-thrash --report build/study-thrash/report.html --force

launches: build
	$(PYTHON) tools/recordings.py $(RECORDINGS) --row s2-five-ample --row s2-five
	.venv/bin/pagewise study launch $(RECORDINGS)/s2-five*/*-? $(RECORDINGS)/s2-five-ample/*-?? \
	    -o build/study-launch --report build/study-launch/report.html --force

KILLS ?= build/kill-anatomy
kills: build
	$(PYTHON) tools/kill_anatomy.py $(KILLS)
	.venv/bin/pagewise study kill-anatomy $(KILLS) --report $(KILLS)/report.html --force

TIERS ?= build/tiers
tiers: build
	tools/tiers.sh $(TIERS)

# The pages of docs/studies; those whose data are absent stay as they are.
studies: build
	$(PYTHON) tools/studies.py

recordings: build lab-setup
	$(PYTHON) tools/recordings.py $(RECORDINGS)

TRACES ?= build/page-size
traces: build
	tools/page_size_traces.sh $(TRACES)

bench: build
	VIRTUAL_ENV=$(CURDIR)/.venv .venv/bin/maturin develop --release --quiet --extras bench
	$(PYTHON) bench/run.py

bench-lazy: build
	tools/bench_lazy_setup.sh
	PYTHONPATH=bench $(PYTHON) -m lazy.run

bench-programs: build
	tools/bench_programs_setup.sh
	PYTHONPATH=bench $(PYTHON) -m programs.run

fuzz:
	SECONDS_EACH=$(SECONDS) fuzz/run.sh
	SECONDS_EACH=$(SECONDS) fuzz/lazy.sh
	SECONDS_EACH=$(SECONDS) fuzz/programs.sh

.venv/bin/maturin: pyproject.toml tools/prerequisites.sh
	tools/prerequisites.sh demo
	python3 -m venv .venv
	$(PYTHON) -m pip install --quiet --disable-pip-version-check 'maturin==1.16.0' 'wheel==0.48.0'
	@touch $@

.venv/.built: .venv/bin/maturin $(SOURCES)
	VIRTUAL_ENV=$(CURDIR)/.venv .venv/bin/maturin develop --release --quiet
	@touch $@

# Editable, like pagewise: changed sources count at once, and only new entry points need an installation.
.venv/.studies: studies/pyproject.toml | .venv/.built
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --editable studies
	@touch $@

# Evaluated when a recipe runs, since `make test` may just have installed clang.
AGENT_FEATURES = $(shell tools/agent_features.sh)

# Changes when clang or libelf is installed or removed, so that the agent is rebuilt.
.venv/.agent-features: FORCE | .venv/.built
	@tools/agent_features.sh > $@.new 2>/dev/null
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
FORCE:

.venv/.agent: .venv/.built .venv/.agent-features
	cargo build --release --quiet -p agent -p allocations $(AGENT_FEATURES)
	cargo build --profile preload --quiet -p lazy
	install -m 755 target/release/pagewise-agent .venv/bin/
	install -m 755 target/preload/libpagewise_lazy.so target/release/libpagewise_allocations.so .venv/lib/
	@touch $@

# Installs the agent, its manual pages, and the units of killd, relaunchd and swapd on this machine; packagers set DESTDIR. Keeps existing settings.
PREFIX = /usr/local
UNIT = $(DESTDIR)/etc/systemd/system/pagewise-killd.service
SETTINGS = $(DESTDIR)/etc/pagewise.d/killd.toml
RELAUNCHD_UNIT = $(DESTDIR)/etc/systemd/system/pagewise-relaunchd.service
RELAUNCHD_SETTINGS = $(DESTDIR)/etc/pagewise.d/relaunchd/relaunchd.toml
SWAPD_UNIT = $(DESTDIR)/etc/systemd/system/pagewise-swapd.service
SWAPD_SETTINGS = $(DESTDIR)/etc/pagewise.d/swapd.conf
install: .venv/.agent
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin .venv/bin/pagewise-agent
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/lib .venv/lib/libpagewise_lazy.so .venv/lib/libpagewise_allocations.so
	.venv/bin/pagewise-agent manual $(DESTDIR)$(PREFIX)/share/man/man1
	test -e $(SETTINGS) || install -D -m 644 packaging/killd.toml $(SETTINGS)
	install -D -m 644 packaging/pagewise-killd.service $(UNIT)
	test -e $(RELAUNCHD_SETTINGS) || install -D -m 644 packaging/relaunchd.toml $(RELAUNCHD_SETTINGS)
	install -D -m 644 packaging/pagewise-relaunchd.service $(RELAUNCHD_UNIT)
	test -e $(SWAPD_SETTINGS) || install -D -m 644 packaging/swapd.conf $(SWAPD_SETTINGS)
	install -D -m 644 packaging/pagewise-swapd.service $(SWAPD_UNIT)
	sed -i 's|/usr/bin/pagewise-agent|$(PREFIX)/bin/pagewise-agent|' $(UNIT) $(RELAUNCHD_UNIT) $(SWAPD_UNIT)

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/pagewise-agent $(UNIT) $(RELAUNCHD_UNIT) $(SWAPD_UNIT) $(DESTDIR)$(PREFIX)/share/man/man1/pagewise-agent*.1
	rm -f $(DESTDIR)$(PREFIX)/lib/libpagewise_lazy.so $(DESTDIR)$(PREFIX)/lib/libpagewise_allocations.so

$(PLUGIN): $(wildcard capture/*.c capture/*.h)
	$(CC) -std=c17 -O3 -fPIC -shared -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter \
	    capture/plugin.c -o $@

.venv/.test-extras: .venv/bin/maturin
	tools/prerequisites.sh test
	VIRTUAL_ENV=$(CURDIR)/.venv .venv/bin/maturin develop --release --quiet --extras test,ray,docs
	@touch $@ .venv/.built

clean:
	rm -rf .venv target build dist report.html

include packaging/dist.mk
