# Two commands are all a newcomer needs: `make serve` and `make test`.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: serve test install install-test lint unit browser e2e e2e-model e2e-simulated test-peers clean wheel-check bench-diagnosis chaos-rollouts

serve: $(VENV)/.installed  ## Install, then serve the demo model until Ctrl-C
	@exec $(BIN)/pilothouse serve

test: lint unit e2e browser  ## Lint, types, layers and tests

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

# Many tests wait more than they compute, so three run at once. Those that drive a browser run apart
# from the others, because Playwright leaves an event loop running in its process, and those that serve
# a whole installation two at once, or one after the other where a model computes. The longest files (of plugins and ops) go first: at the end
# one of them would run alone. With `--jobs 2` a model answers on one side, and on the other are a
# browser and then installations that compute nothing; not beside the tests of parts, which leave no
# core for a model that has to answer in time. Only files that have tests of a kind are read for it.
unit: lint
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder -m "not e2e and not browser" tests/plugins tests/ops tests

e2e: e2e-model e2e-simulated

# With one thread a model computes beside the browser: two would wait for one another wherever
# another process has one of their cores, which took twice as long.
e2e-model: unit
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "e2e and model" $$(grep -rlF --include='test_*.py' 'pytest.mark.model' tests)

e2e-simulated: browser
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m "e2e and not model" $$(grep -rlF --include='test_*.py' 'pytest.mark.e2e' tests)

browser: unit
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m browser $$(grep -rlF --include='test_*.py' 'pytest.mark.browser' tests)

# Outside `make test`: they take a quarter of an hour to install, into `.venv-engines`.
test-peers: $(VENV)/.installed-test  ## Attach to and launch a real vLLM and a real llama.cpp server
	ops/setup-peers.sh $(VENV) .venv-engines
	PILOTHOUSE_PEERS=.venv-engines $(BIN)/python -m pytest tests/peers

wheel-check: $(VENV)/.installed  ## Build the wheel, install it alone and start it from there
	ops/wheel-check.sh $(VENV)

bench-diagnosis: $(VENV)/.installed  ## Try the diagnosis on simulated faults, for half an hour; ARGS=--quick for a minute
	$(BIN)/python ops/bench/bench_diagnosis.py --picture ops/bench/diagnosis.svg --json /tmp/bench-diagnosis.json $(ARGS)

chaos-rollouts: $(VENV)/.installed-test  ## Kill what there is at every step of rollouts, on both databases; ARGS=--short for a minute
	PYTHONPATH=. $(BIN)/python ops/bench/bench_rollout_chaos.py --database sqlite --database postgresql $(ARGS)

clean:
	rm -rf $(VENV) .pilothouse dist .mypy_cache .ruff_cache .pytest_cache
