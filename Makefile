# `make help` lists the targets. Each one makes the environment first, which takes no time when it is made.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup check fix test test-real test-long test-hostile test-chaos test-spark42 demo bench clean

PYTHON_FOR_SETUP = $$(tools/find_python.sh)
BIN := .venv/bin
# Three workers at most: one has the Spark session, one the shared brokers, one the rest; most of the time is waiting.
PYTEST_WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1); [ $$n -ge 2 ] && echo 3 || echo 1)
ARGS ?=

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:  ## make .venv: parley with its native kernel (where cargo is), Spark, tools, a Java
	@python=$(PYTHON_FOR_SETUP) && "$$python" tools/set_up.py

check: setup  ## ruff, mypy --strict, import contracts, file map, sizes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_filemap.py
	$(BIN)/python tools/check_sizes.py

fix: setup  ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: setup  ## all tests but the long ones; ARGS="-k name" goes to pytest
	$(BIN)/python -m pytest -q -n $(PYTEST_WORKERS) -m "not long" $(ARGS)

test-real: setup  ## the tests against real brokers, every release (Java 17 and mvn)
	PARLEY_REAL_RELEASES=all $(BIN)/python -m pytest -q tests/real $(ARGS)

test-long: setup  ## the long tests that need no real brokers: every kind of Spark master, 10,000 batches, 20,000 steps
	$(BIN)/python -m pytest -q -m long --ignore=tests/real tests $(ARGS)

test-hostile: setup  ## a million hostile inputs each way, at clients and at embedded brokers
	$(BIN)/python -m parley.testing.hostile --inputs 1000000 $(ARGS)

test-chaos: setup  ## kill -9 of everything in an exactly-once job, 20 seeds; writes docs/chaos.md
	$(BIN)/python -m tests.chaos.run --seeds 1-20 --write docs/chaos.md $(ARGS)

test-spark42:  ## the Spark tests on PySpark 4.2.0, in an environment of their own
	@python=$(PYTHON_FOR_SETUP) && "$$python" tools/set_up.py --env .venv-spark42 --spark 4.2.0
	.venv-spark42/bin/python -m pytest -q -m "not long" tests/spark $(ARGS)

demo: setup  ## the main job on an embedded cluster; ARGS="--input FILE" for data of your own
	$(BIN)/parley demo $(ARGS)

bench: setup  ## measure against Spark's own connector and other clients; writes benchmarks/RESULTS.md (Java 17 and mvn)
	@python=$(PYTHON_FOR_SETUP) && "$$python" tools/set_up.py --env .venv-spark42 --spark 4.2.0
	$(BIN)/python -m benchmarks.run $(ARGS)

clean:  ## remove environments, builds, caches and the demo's output
	rm -rf .venv .venv-spark42 build native/target demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -f src/parley/kernel/_native*.so
