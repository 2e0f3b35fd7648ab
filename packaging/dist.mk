# What users install: the wheels, the static agents, the Debian packages, and their checksums. Included by the Makefile.
# dist: everything, in the folder dist.   dist-agents, dist-wheel, dist-wheel-aarch64, dist-examples, dist-debs: the parts.   dist-setup: installs the compilers.
.PHONY: dist dist-setup dist-agents dist-wheel dist-wheel-aarch64 dist-examples dist-debs

MACHINES := x86_64 aarch64 armv7
AGENTS   := $(MACHINES:%=dist/pagewise-agent-%)
PACKAGER := packaging/wheel.sh packaging/assemble_wheel.sh packaging/examples.txt tools/cross.sh tools/preload_libraries.sh

# An agent alone lacks the long texts of GNU, which LICENSES.txt has.
dist: dist-agents dist-wheel dist-wheel-aarch64 dist-examples dist-debs
	install -m 644 python/pagewise/licenses.txt dist/LICENSES.txt
	cd dist && sha256sum $$(ls | grep -v '^SHA256SUMS$$') > SHA256SUMS
	@ls -l dist

dist-setup:
	tools/dist_setup.sh

dist-agents: $(AGENTS)

$(AGENTS) &: $(SOURCES) tools/static_agents.sh tools/cross.sh tools/cross_libraries.sh
	tools/static_agents.sh dist $(MACHINES)

dist-wheel: dist/.wheel-x86_64
dist-wheel-aarch64: dist/.wheel-aarch64
dist/.wheel-%: dist/pagewise-agent-% $(SOURCES) $(PACKAGER) $(wildcard capture/*.c capture/*.h) | .venv/bin/maturin
	rm -f dist/*_$*.whl
	packaging/wheel.sh $* dist/pagewise-agent-$* dist
	@touch $@

# The examples that these wheels leave out.
dist-examples: dist/.wheel-examples
dist/.wheel-examples: packaging/examples_wheel.py packaging/deb.py packaging/examples.txt $(shell find examples -type f) \
    Cargo.toml pyproject.toml | .venv/bin/maturin
	rm -f dist/*_examples-*.whl
	$(PYTHON) packaging/examples_wheel.py dist
	@touch $@

# Debian's words for the processors of the agents.
DEBIAN_x86_64 := amd64
DEBIAN_aarch64 := arm64
DEBIAN_armv7 := armhf
DEB_TOOLS := packaging/deb.py packaging/front_pages.py $(wildcard packaging/debian/* packaging/*.service packaging/*.toml packaging/*.conf)

dist-debs: dist/.deb-desk-x86_64 dist/.deb-desk-aarch64 $(MACHINES:%=dist/.deb-agent-%)

build/vendored: packaging/debian/vendored.txt | .venv/bin/maturin
	rm -rf $@
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --target $@ -r $<

dist/.deb-desk-%: dist/.wheel-% build/vendored .venv/.built $(DEB_TOOLS)
	rm -f dist/pagewise-memory_*_$(DEBIAN_$*).deb
	$(PYTHON) packaging/deb.py desk $$(ls dist/*_$*.whl) build/vendored dist
	@touch $@

# The preload libraries are for x86_64 and aarch64 only.
dist/.deb-agent-%: dist/pagewise-agent-% dist/pagewise-agent-x86_64 $(DEB_TOOLS) tools/preload_libraries.sh | .venv/bin/maturin
	mkdir -p build/preload/$*
	[ $* = armv7 ] || tools/preload_libraries.sh $* build/preload/$*
	rm -f dist/pagewise-agent_*_$(DEBIAN_$*).deb
	$(PYTHON) packaging/deb.py agent $< build/preload/$* $(DEBIAN_$*) dist
	@touch $@
