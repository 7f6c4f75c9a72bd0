# Two commands need nothing but Python >= 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# Two pips must not fill one environment at a time.
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: demo test quick check format docs site package notebooks bench leaderboard clean

demo: $(VENV)/.core
	$(BIN)/python -m recallatk demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal

# While you work: no servers, no browser, one engine of each family, fewer examples (tests/cost_marks.py).
quick: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal --hypothesis-profile quick \
	  -m 'not slow and not server and not browser'

check: $(VENV)/.dev
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/generate_docs.py --check
	$(BIN)/python scripts/bundle_charts.py --check
	@$(MAKE) --no-print-directory site package

format: $(VENV)/.dev
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

docs: $(VENV)/.dev
	$(BIN)/python scripts/generate_docs.py

# Every warning is an error: a broken link, a page that no menu has.
site: $(VENV)/.dev
	$(BIN)/python scripts/build_site.py

# The wheel and the source archive, as they would be published, and the wheel tried in place of this checkout.
package: $(VENV)/.dev
	rm -rf build/dist
	$(BIN)/python -m build --quiet --no-isolation --outdir build/dist
	$(BIN)/python -m twine check --strict build/dist/*
	$(BIN)/python scripts/try_install.py build/dist/*.whl

notebooks: $(VENV)/.dev
	$(BIN)/python scripts/run_notebooks.py

bench: $(VENV)/.dev
	$(PIP) install --quiet --editable '.[bench]'
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/fingerprint.py
	$(BIN)/python benchmarks/opening.py
	$(BIN)/python benchmarks/truth.py
	$(BIN)/python benchmarks/scoring.py
	$(BIN)/python benchmarks/interval_coverage.py
	$(BIN)/python benchmarks/probe_statistics.py
	$(BIN)/python benchmarks/probe.py
	$(BIN)/python benchmarks/gate.py
	$(BIN)/python benchmarks/separation.py
	$(BIN)/python benchmarks/robustness.py
	$(BIN)/python benchmarks/engine_overhead.py
	$(BIN)/python benchmarks/stages.py
	$(BIN)/python benchmarks/tap.py
	$(BIN)/python benchmarks/harness.py
	$(BIN)/python benchmarks/index_memory.py
	$(BIN)/python benchmarks/open_loop.py
	$(BIN)/python benchmarks/tuning.py
	$(BIN)/python benchmarks/publish.py

# About ten minutes on a quiet machine: docs/leaderboard.md, and a site in build/leaderboard/site.
leaderboard: $(VENV)/.dev
	$(BIN)/python benchmarks/leaderboard.py
	$(BIN)/python scripts/generate_docs.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache recallatk-demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps say what is installed, so that a second `make demo` installs nothing, and an installation
# that was interrupted is begun again.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "recallatk needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) --version > /dev/null
	@touch $@

$(VENV)/.core: pyproject.toml $(VENV)/.made
	$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.made
	$(PIP) install --quiet --editable '.[dev]'
	@touch $(VENV)/.core $@
