# Everything a developer types. `make` alone lists it.
.DEFAULT_GOAL := help
.PHONY: help env demo demo-failure test test-fast test-all flaky coverage bench fuzz zoo zoo-on-yarn check fmt docs dist site pictures clean

# Which Python makes .venv: python3 on PATH unless said otherwise (make env PYTHON=python3.12).
export PYTHON

# A module path or home of the caller's shell would mix other packages into the environment's own.
unexport PYTHONPATH PYTHONHOME

bin := .venv/bin

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' Makefile | expand -t 20

env: ## create or repair .venv, complete, with .venv/bin/tony; under a second when nothing changed
	@scripts/env

demo: env ## train on real data over a chief, two workers and an evaluator, and print where everything is
	@$(bin)/python scripts/demo.py

demo-failure: env ## the same, while a worker and then the application master are killed
	@$(bin)/python scripts/demo_failure.py

test: env ## all that CI does: system packages, checks, the tests that your changes need
	@scripts/system-packages
	@$(MAKE) --no-print-directory check
	scripts/test

test-fast: env ## the inner loop: checks and the tests that start no process, below 3 minutes
	@$(MAKE) --no-print-directory check
	scripts/test --fast

test-all: env ## as `make test`, with every test
	@scripts/system-packages --long
	@$(MAKE) --no-print-directory check
	scripts/test --long

# make flaky TESTS="tests/e2e/test_ports.py -k taken" REPEATS=200 LOAD=0
REPEATS ?= 20
LOAD ?= 8
TESTS ?=

flaky: env ## repeat suspects under load: TESTS (those that failed last), REPEATS (20), LOAD (8 busy processes)
	@$(bin)/python scripts/flaky --repeats $(REPEATS) --load $(LOAD) $(TESTS)

coverage: env ## as `make test`, and say which lines no test ran; takes twice as long
	@scripts/system-packages
	scripts/test --coverage

bench: env ## measure what tony costs: a table, and bench/results.md
	@$(bin)/python -m bench

# make fuzz SECONDS=600 TARGETS="yaml replay"
SECONDS ?= 60
TARGETS ?=

fuzz: env ## look for inputs that break something: SECONDS (60) for each of TARGETS (all); keeps the corpus
	@scripts/fuzz --seconds $(SECONDS) $(TARGETS)

# make zoo ONLY="torch jax"
ONLY ?=

zoo-on-yarn: env ## as `make zoo`, some of them on a small Hadoop cluster: tests/zoo/results-on-yarn.md
	@scripts/zoo --yarn $(ONLY)

zoo: env ## run failing jobs, and compare what `tony why` says with what it should: tests/zoo/results.md
	@scripts/zoo $(ONLY)

check: env ## format, lint, spelling, types, generated docs, links of the site
	$(bin)/ruff format --check --quiet .
	$(bin)/ruff check --quiet .
	$(bin)/codespell
	$(bin)/mypy
	@if [ -f scripts/generate_docs.py ]; then set -x; $(bin)/python scripts/generate_docs.py --check; fi
	scripts/site

fmt: env ## format, and fix what the linter can
	$(bin)/ruff check --fix --quiet .
	$(bin)/ruff format .

docs: env ## write the generated docs again
	$(bin)/python scripts/generate_docs.py

dist: env ## build the wheel and the source archive into dist/
	@rm -rf dist
	@$(bin)/python -m build --quiet --no-isolation --outdir dist .
	@ls dist/*

site: env ## build the documentation site into site/
	@scripts/site
	@echo "to read it: python3 -m http.server --directory site"

pictures: env ## take the README's pictures and its recording anew, of real jobs; pictures need Chromium
	@$(bin)/python scripts/pictures/record.py
	@$(bin)/python scripts/pictures/take.py

clean: ## remove everything that make made, .venv included
	rm -rf .venv .cache build dist site demo-output src/*.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*
	find src tests bench scripts examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
