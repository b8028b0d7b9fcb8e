# The front door. Every target is self-sufficient: it needs python3, pip and make only.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
RUN    := $(VENV)/.run
DEV    := $(VENV)/.dev
BENCH  := $(VENV)/.bench
# One more than a laptop's two cores: tests of the network wait a third of their time.
JOBS   ?= 3
# Where shapes and types are checked at every call, and by what: it takes its time, so one
# run in CI does it.
MINIMISING := veilsum.minimise.costs,veilsum.minimise.methods,veilsum.minimise.engines,veilsum.minimise.arrays,veilsum.minimise.executions,veilsum.minimise.curvature,veilsum.minimise.device_masks,veilsum.minimise.ranks
SHAPES := veilsum.numbers,veilsum.masks,veilsum.graphs,veilsum.models,veilsum.privacy,veilsum.drivers,$(MINIMISING),typechecker.checker

.PHONY: demo demo-relay paper test test-shapes test-all check format lint types imports docs bench lock dist wheelhouse pythons clean help

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

demo: $(RUN)  ## five hospitals on a network fit one regression; one is killed on the way
	$(BIN)/python examples/hospitals.py out/hospitals

demo-relay: $(RUN)  ## the same, four of them dial-only, over a relay that is killed on the way
	$(BIN)/python examples/relayed.py out/relayed

paper: $(RUN)  ## reproduce the paper's Section V: numbers, figures, in out/paper
	$(BIN)/veilsum paper --out out/paper

# Workers share the cores: threads of linear algebra would wait for each other.
test test-shapes test-all: export OPENBLAS_NUM_THREADS = 1
test: $(DEV)  ## the tests to run while you work; all of one folder: make test AT=tests/questions
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow" $(or $(AT),--quick)

test-shapes: $(DEV)  ## the tests that every change must pass; shapes and types are checked at every call
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow" --jaxtyping-packages=$(SHAPES) \
	  --durations=50 --junitxml=out/tests.xml

test-all: $(DEV)  ## every test, the slow and statistical ones too
	$(BIN)/python -m pytest -n $(JOBS) --hypothesis-profile=all

check: format lint types imports docs test-shapes  ## all that CI runs

format: $(DEV)
	$(BIN)/ruff format --check .

lint: $(DEV)
	$(BIN)/ruff check .

types: $(DEV)
	$(BIN)/mypy

imports: $(DEV)
	$(BIN)/lint-imports

docs: $(DEV)  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(BENCH)  ## run the benchmarks: ratios, side by side
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/samplers.py
	$(BIN)/python benchmarks/codec.py
	$(BIN)/python benchmarks/protocol.py
	$(BIN)/python benchmarks/jobs.py
	$(BIN)/python benchmarks/rules.py
	$(BIN)/python benchmarks/ledger.py
	$(BIN)/python benchmarks/engines.py
	$(BIN)/python benchmarks/sweep.py
	$(BIN)/python benchmarks/network.py
	$(BIN)/python benchmarks/relay.py
	$(BIN)/python benchmarks/reports.py
	$(BIN)/python benchmarks/planner_page.py

# With extras: pip 23 takes `coverage[toml]` for another package than the `coverage` that is
# pinned, and refuses all as soon as there is a newer one.
lock: $(DEV)  ## compile requirements/*.txt anew, with hashes and no host
	for name in run dev bench; do (cd requirements && ../$(BIN)/uv pip compile --quiet --universal \
	  --python-version 3.11 --generate-hashes --no-strip-extras --no-header --no-annotate $$name.in -o $$name.txt); done

# A commit's wheel and source archive have the same bytes wherever they are built: every file
# is dated as the commit is.
dist: export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct 2>/dev/null || echo 1767225600)
dist: $(DEV)  ## wheel, source archive and list of parts (CycloneDX) into out/dist
	rm -rf out/dist
	$(BIN)/python -m hatchling build -d out/dist
	$(BIN)/cyclonedx-py requirements requirements/run.txt --pyproject pyproject.toml \
	  --short-PURLs --output-reproducible -o out/dist/veilsum.cdx.json
	cd out/dist && sha256sum * > SHA256SUMS && cat SHA256SUMS

# For a machine of the same kind that reaches no package index:
#   pip install --no-index --find-links wheelhouse --require-hashes -r wheelhouse/requirements.txt
wheelhouse: dist  ## every wheel that an offline machine needs, with hashes, into out/wheelhouse
	rm -rf out/wheelhouse
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --only-binary :all: \
	  --require-hashes -r requirements/run.txt -d out/wheelhouse
	cp out/dist/*.whl out/dist/veilsum.cdx.json out/wheelhouse
	(cat requirements/run.txt; cd out/dist; sha256sum *.whl | \
	  sed 's/\([0-9a-f]*\)  veilsum-\([^-]*\)-.*/veilsum==\2 --hash=sha256:\1/') \
	  > out/wheelhouse/requirements.txt
	cd out/wheelhouse && sha256sum * > SHA256SUMS && wc -l < SHA256SUMS

pythons:  ## the tests under every Python from 3.11 to 3.14 that this machine has
	@for version in 3.11 3.12 3.13 3.14; do \
	  if command -v python$$version > /dev/null; \
	  then $(MAKE) test PYTHON=python$$version VENV=.venv-$$version || exit 1; \
	  else echo "python$$version: not on this machine, not run"; fi; done

clean:  ## remove what the other targets made
	rm -rf $(VENV) .venv-3.* out site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(RUN): requirements/run.txt pyproject.toml | $(BIN)/python
	$(PIP) --require-hashes -r requirements/run.txt
	$(PIP) --no-deps --no-build-isolation -e .
	touch $@

$(DEV): requirements/dev.txt $(RUN)
	$(PIP) --require-hashes -r requirements/dev.txt
	touch $@

# Peers to compare with: nothing but `make bench` needs them.
$(BENCH): requirements/bench.txt $(DEV)
	$(PIP) --require-hashes -r requirements/bench.txt
	touch $@
