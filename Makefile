# Two commands are all a newcomer needs: `make serve` and `make test`.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: serve test install install-test lint unit clean wheel-check

serve: $(VENV)/.installed  ## Install, then serve the demo model until Ctrl-C
	@exec $(BIN)/pilothouse serve

test: lint unit  ## Lint, types, layers and tests

install: $(VENV)/.installed
install-test: $(VENV)/.installed-test

$(VENV)/.installed: pyproject.toml constraints.txt
	ops/setup.sh $(VENV)
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	ops/setup-test.sh $(VENV)
	@touch $@

lint: $(VENV)/.installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.installed-test
	$(BIN)/python -m pytest

wheel-check: $(VENV)/.installed-test  ## Build the wheel, install it alone and start it from there
	ops/wheel-check.sh $(VENV)

clean:
	rm -rf $(VENV) .pilothouse dist .mypy_cache .ruff_cache .pytest_cache
