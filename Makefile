# `make build` and `make test` need nothing but Python 3.11 or newer and a package index.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.installed

# What pytest makes of the test modules is kept for the next lot of tests.
unexport PYTHONDONTWRITEBYTECODE

# The tests take every processor by processes: threads within them would only wait for each other.
test sweep nightly: export OMP_NUM_THREADS := 1

.PHONY: build check lowered test sweep nightly lint clean

build: $(SETUP)  ## Check, render and verify every spec, and write generated/.
	$(BIN)/tilegen build

check: $(SETUP)  ## What CI asks of a tree: every instance lowered, every byte as the specs give it, linters and types.
	$(MAKE) --jobs=2 lowered lint

lowered: $(SETUP)
	$(BIN)/tilegen build --check --verify all

test: $(SETUP)  ## The suite, the golden tests of generated/ included. GPU tests skip where there is no GPU.
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow" --durations=15

sweep: $(SETUP)  ## The slow tests: lowering sweeps over many kernels, and the wheel in a fresh environment.
	$(BIN)/python -m pytest -n auto --dist worksteal -m "slow and not nightly" --durations=15

nightly: $(SETUP)  ## What takes too long for every change: a kill at every write, fresh environments, wide interpreter runs.
	$(BIN)/python -m pytest -n auto --dist worksteal -m nightly

lint: $(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# torch comes first and pinned: an unpinned one may pull several gigabytes.
$(SETUP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
