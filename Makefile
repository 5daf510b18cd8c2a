# `make demo` and `make test` need Python 3.11+ and nothing else: each builds .venv with what it lacks.
PYTHON ?= python3
BIN := .venv/bin
UV := $(shell command -v uv 2>/dev/null)
INSTALL := $(if $(UV),$(UV) pip install --python $(BIN)/python,$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile) -c constraints.txt

.PHONY: demo test lint types pytest quick studies mutants fuzz format hooks constraints clean

demo: .venv/runtime
	$(BIN)/measureflow simulate

test: lint types pytest

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev
	$(BIN)/basedpyright --pythonpath $(BIN)/python

pytest: .venv/dev
	$(BIN)/pytest -q -n 2 --dist worksteal

quick: lint types
	$(BIN)/python tests/quick.py

studies: .venv/runtime
	$(BIN)/measureflow study run all --json studies.json

mutants: .venv/dev
	$(BIN)/python tests/mutants.py

fuzz: .venv/dev
	$(BIN)/python tests/fuzz.py

format: .venv/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

hooks: .venv/dev
	$(BIN)/pre-commit install

constraints:
	uv pip compile pyproject.toml --extra all --group dev --universal --python-version 3.11 --no-header --no-annotate -o constraints.txt

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis

$(BIN)/python:
	$(if $(UV),$(UV) venv --python $(PYTHON) .venv,$(PYTHON) -m venv .venv)

# The native kernel is compiled against the headers of the very jaxlib that will run it, hence without build isolation.
# The pip that comes with Python 3.11 does not know dependency groups, hence a newer one.
NATIVE := $(addprefix src/measureflow/sums/native/,*.cc *.h *.inc constants.py)
SOURCES := pyproject.toml constraints.txt build_native.py $(wildcard $(NATIVE))

.venv/build: $(SOURCES) | $(BIN)/python
	$(INSTALL) "pip>=25.1"
	$(INSTALL) --group build
	@touch $@

.venv/runtime: .venv/build
	$(INSTALL) --no-build-isolation -e .
	@touch $@

.venv/dev: .venv/build
	$(INSTALL) --no-build-isolation -e ".[all]" --group dev
	@touch .venv/runtime $@
