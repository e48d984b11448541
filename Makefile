# Everything runs in .venv, which is built when it is missing and brought up to date when
# pyproject.toml or plant/pyproject.toml changes. Needed beforehand: Python 3.11 or newer, make, a package index.

PYTHON  ?= python3
WORKERS ?= 2
TORCH   ?= 2.13.0
DATA    ?=
OUT     ?=
MACHINE ?=
MINUTES ?= 10
COUNT   ?= 200

BIN   := .venv/bin
STAMP := .venv/.installed
# Both distributions, as editable installations.
BOTH  := --editable '.[all]' --editable './plant[all]'
TORCH_STAMP := .venv/.installed-torch-$(TORCH)
DOCS_STAMP  := .venv/.installed-docs

# The dependency groups of pyproject.toml need pip 25.1; a new environment may have an older one.
NEW_PIP := pip install --quiet --upgrade 'pip>=25.1'

# One BLAS thread for each test process: more would fight for the same cores.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# Numba's cache does not notice edits in another file, so every run of the tests starts with an
# empty one. Use: $(FRESH_CACHE) pytest ...
FRESH_CACHE := cache=$$(mktemp -d) && trap 'rm -rf "$$cache"' EXIT && trap 'exit 1' HUP INT TERM && \
	$(ONE_THREAD) NUMBA_CACHE_DIR="$$cache"

PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-live lint test test-all test-torch test-oldest coverage fuzz mutants bench \
	bench-over-time reproduce docs registry dist clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## build .venv with all that development needs

$(STAMP): pyproject.toml plant/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "kernelstream needs Python 3.11 or newer; name one: make PYTHON=python3.12"; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv || { \
		echo "Could not make .venv. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	$(BIN)/python -m $(NEW_PIP)
	$(BIN)/python -m pip install --quiet $(BOTH) --group dev
	@touch $@

demo: $(STAMP) ## see it work
	$(BIN)/python examples/demo.py

demo-live: $(STAMP) ## a plant, a broker and the live page of a monitor, until Ctrl-C
	$(BIN)/python examples/operation/demo_live.py --open

lint: $(STAMP) ## style, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint ## lint, then the tests; this is what the continuous integration runs
	$(FRESH_CACHE) $(PYTEST) -m "not slow and not cuda"

# Lines of compiled passes cannot be followed, so the tests that are nearest to them run once more as
# plain Python, and the two counts are joined; pyproject.toml has what is counted.
PASSES := stream trackers estimators/test_adaptive.py anomaly/monitor/test_normal.py
coverage: $(STAMP) ## which lines and branches the tests reach; open build/coverage/index.html
	$(FRESH_CACHE) $(PYTEST) -m "not slow and not cuda" --cov --cov-report=
	NUMBA_DISABLE_JIT=1 $(ONE_THREAD) $(PYTEST) -m "not slow and not cuda" --cov --cov-append \
		--cov-report=html --cov-report=term:skip-covered $(PASSES:%=tests/%)

# pytest exits with 5 when it finds no test, which is no failure for the slow ones.
test-all: test ## test, then the slow tests, then the tests without compilation
	$(FRESH_CACHE) $(PYTEST) -m "slow and not cuda" || test $$? -eq 5
	NUMBA_DISABLE_JIT=1 HYPOTHESIS_PROFILE=no-jit $(ONE_THREAD) $(PYTEST) -m "not slow and not cuda"

$(TORCH_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet torch==$(TORCH)
	@touch $@

test-torch: $(TORCH_STAMP) ## install PyTorch, test the array namespaces with it
	$(FRESH_CACHE) $(PYTEST) -m "not cuda" tests/arrays/test_namespaces.py tests/arrays/test_devices.py

# scikit-learn 1.6 asks for SCIPY_ARRAY_API where array-api-compat is installed.
test-oldest: ## test with the oldest versions that pyproject.toml allows, on Python 3.11
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { \
		echo "The oldest versions are those for Python 3.11: make test-oldest PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv build/oldest
	build/oldest/bin/python -m $(NEW_PIP)
	build/oldest/bin/python -m pip install --quiet --constraint oldest.txt $(BOTH) --group test
	$(FRESH_CACHE) SCIPY_ARRAY_API=1 build/oldest/bin/python -m pytest -n $(WORKERS) -m "not slow and not cuda"

fuzz: $(STAMP) ## attacks with random seeds, MINUTES=10 of them; a failure prints how to see it again
	$(BIN)/python -m fuzz --minutes $(MINUTES)

mutants: $(STAMP) ## COUNT=200 single changes in the core, each against the tests nearest to it
	$(BIN)/python -m mutants --count $(COUNT) --workers $(WORKERS) $(if $(OUT),--out $(OUT))

bench: $(STAMP) ## beside what people use today, in one run; DATA=PATH with mnist.npz, OUT=PATH for pictures
	$(BIN)/python -m benchmarks $(if $(DATA),--data $(DATA)) $(if $(OUT),--out $(OUT) --json $(OUT)/benchmark.json --markdown $(OUT)/benchmark.md)

# Needs a Python of the version in asv.conf.json; the commit is built in an environment of its own.
bench-over-time: $(STAMP) ## time this commit with asv, beside the runs in benchmarks/over_time/results
	$(BIN)/python -m pip install --quiet --group bench
	$(ONE_THREAD) $(BIN)/asv run $(if $(MACHINE),--machine $(MACHINE)) --show-stderr 'HEAD^!'

reproduce: $(STAMP) ## the papers' experiments again; DATA=PATH is a folder with mnist.npz and so on
	$(ONE_THREAD) $(BIN)/python -m reproductions $(if $(DATA),--data $(DATA))

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet $(BOTH) --group docs
	@touch $@

# Warnings are errors, also for references that lead nowhere. Nothing is fetched, and pages and
# examples that did not change are not built again; docs/conf.py has the rest.
docs: $(DOCS_STAMP) ## build the documentation; open build/docs/index.html
	$(ONE_THREAD) $(BIN)/python -m sphinx -b html -W --keep-going -n -q \
		-d build/doctrees docs build/docs

registry: $(STAMP) ## write the lists that are generated from the named parts: registry.json, docs/api
	$(BIN)/python -m tests.registry

dist: $(STAMP) ## wheels and source archives of both distributions in dist/
	$(BIN)/python -m pip install --quiet --group release
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m build --outdir dist plant
	$(BIN)/python -m twine check --strict dist/*

clean: ## remove .venv, caches and everything built
	rm -rf .venv .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	rm -rf build dist demo.png docs/gallery docs/api/generated
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
