# make train   set up .venv and train the main baseline; ARGS="KEY=VALUE ..." passes overrides
# make test    set up .venv and run the tests; ARGS="..." goes to pytest
# make lint    check format and lint
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=

.PHONY: train test lint setup

train: setup
	$(BIN)/python baselines/ippo/ippo_ff_mpe.py NUM_ENVS=64 $(ARGS)

test: setup
	$(BIN)/python -m pytest $(ARGS)

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

setup: .venv/.installed

.venv/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed, $(PYTHON) is $$($(PYTHON) --version 2>&1)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@
