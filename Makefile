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

# Many tests wait more than they compute, so three run at once; those that drive a browser, two, and
# those that serve a whole installation have the machine to themselves. Apart from each other, because
# Playwright leaves an event loop running in its process. The longest files (of plugins) go first: at
# the end one of them would run alone.
unit: $(VENV)/.installed-test
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder -m "not e2e and not browser" tests/plugins tests
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m browser
	$(BIN)/python -m pytest -m e2e

wheel-check: $(VENV)/.installed-test  ## Build the wheel, install it alone and start it from there
	ops/wheel-check.sh $(VENV)

clean:
	rm -rf $(VENV) .pilothouse dist .mypy_cache .ruff_cache .pytest_cache
