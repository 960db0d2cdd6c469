# `make demo` and `make test` need Python 3.11, make and a C compiler; everything else they install themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install demo test test-slow test-conformance test-fuzz test-agents lint types format clean

install: $(STAMP)

demo: $(STAMP)
	$(BIN)/python -m tests.demo

test: lint types
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

test-slow: $(STAMP)
	$(BIN)/python -m pytest -m slow

test-conformance: $(STAMP)
	$(BIN)/python -m pytest -m conformance

test-fuzz: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	$(BIN)/python -m pytest -m fuzz

test-agents: $(STAMP)
	$(BIN)/python -m pytest -m agents

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(STAMP)
	$(BIN)/pyright

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
