# `make help` lists the targets. Each one makes the environment first, which takes no time when it is made.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup check fix demo docs bench dist clean
.PHONY: test test-busy test-matrix test-kills test-rest test-real test-long test-hostile test-chaos test-chaos-groups test-chaos-send test-outages test-spark42 test-delta test-lowest

PYTHON_FOR_SETUP = $$(tools/find_python.sh)
BIN := .venv/bin
# Where byte code is not written, each process that a test starts compiles all that it imports, and each worker
# of pytest rewrites the asserts of all tests.
export PYTHONDONTWRITEBYTECODE =
# Three workers at most: one has the Spark session, one the shared brokers, one the rest; most of the time is waiting.
PYTEST_WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1); [ $$n -ge 2 ] && echo 3 || echo 1)
PYTEST = $(BIN)/python -m pytest -q
BUSY_PROCESSES ?= 8
# Of the random part of the long suite; printed, so that a failure can be repeated: make test-long SEED=...
SEED ?= $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
ARGS ?=

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:  ## make .venv: parley with its native kernel (where cargo is), Spark, tools, a Java
	@python=$(PYTHON_FOR_SETUP) && "$$python" tools/set_up.py

check: setup  ## ruff, mypy --strict, import contracts, maps, words, sizes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_maps.py
	$(BIN)/python tools/check_words.py
	$(BIN)/python tools/check_sizes.py

fix: setup  ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: setup  ## the tests of a change: a part of each kind, every release a little; ARGS="-k name" goes to pytest
	$(PYTEST) -n $(PYTEST_WORKERS) -m "not (long or matrix or kills)" $(ARGS)

test-busy:  ## `make test` beside eight processes that keep the machine busy
	@python=$(PYTHON_FOR_SETUP) && "$$python" tools/run_busy.py --processes $(BUSY_PROCESSES) $(MAKE) test

test-matrix: setup  ## what `make test` leaves out of its matrices: the other releases and cases
	$(PYTEST) -n $(PYTEST_WORKERS) -m "matrix and not (long or kills)" $(ARGS)

test-kills: setup  ## processes killed one after the other: brokers, drivers, workers, planners
	$(PYTEST) -n $(PYTEST_WORKERS) -m "kills and not long" $(ARGS)

test-rest: setup  ## test-matrix and test-kills in one run, which is shorter: while killed processes are waited for, the matrices run
	$(PYTEST) -n $(PYTEST_WORKERS) -m "(matrix or kills) and not long" $(ARGS)

test-real: setup  ## the tests against real brokers, every release (Java 17 and mvn)
	PARLEY_REAL_RELEASES=all $(PYTEST) tests/real $(ARGS)

test-long: setup  ## the long tests that need no real brokers: every kind of Spark master, random examples, 20,000 steps
	$(PYTEST) -m long --ignore=tests/real tests $(ARGS)
	@echo "random examples of seed $(SEED); to repeat them: make test-long SEED=$(SEED)"
	HYPOTHESIS_PROFILE=long $(PYTEST) -n $(PYTEST_WORKERS) -m "hypothesis and not long" \
		--hypothesis-seed=$(SEED) --randomly-seed=$(SEED) tests $(ARGS)

test-hostile: setup  ## a million hostile inputs each way, at clients and at embedded brokers
	$(BIN)/python -m parley_laboratory.hostile --inputs 1000000 $(ARGS)

test-chaos: setup  ## kill -9 of everything in an exactly-once job, 20 seeds; writes docs/proof/chaos.md
	$(BIN)/python -m tests.chaos.run --seeds 1-20 --write docs/proof/chaos.md $(ARGS)

test-chaos-groups: setup  ## kill -9 and long pauses in consumer groups, 14 seeds; writes docs/proof/group-chaos.md (Java 17, mvn)
	$(BIN)/python -m tests.chaos.groups --seeds 1-14 --write docs/proof/group-chaos.md $(ARGS)

test-chaos-send: setup  ## moves, kill -9, cuts and cancellations while records are sent, 8 seeds; writes docs/proof/send-chaos.md (Java 17, mvn)
	$(BIN)/python -m tests.chaos.send --seeds 1-8 --write docs/proof/send-chaos.md $(ARGS)

test-outages: setup  ## brokers away for 0.5 to 120 s, beside Spark's own connector; writes docs/proof/outages.md (Java 17, mvn)
	@python=$(PYTHON_FOR_SETUP) && "$$python" tools/set_up.py --env .venv-spark42 --spark 4.2.0
	$(BIN)/python -m tests.outage.run --spark-python .venv-spark42/bin/python --write docs/proof/outages.md $(ARGS)

test-spark42:  ## the Spark tests on PySpark 4.2.0, in an environment of their own
	@python=$(PYTHON_FOR_SETUP) && "$$python" tools/set_up.py --env .venv-spark42 --spark 4.2.0
	.venv-spark42/bin/python -m pytest -q -n $(PYTEST_WORKERS) -m "not (long or matrix or kills)" tests/spark $(ARGS)

test-delta:  ## Delta's and Iceberg's own JARs on tables that parley wrote, on the Spark release that they are for (mvn)
	python3 -m venv .venv-spark41 && .venv-spark41/bin/python -m pip install --quiet --prefer-binary pyspark==4.1.1
	PARLEY_DELTA_PYTHON=$(CURDIR)/.venv-spark41/bin/python $(PYTEST) -m "long and jars" tests/spark/lakes $(ARGS)

test-lowest:  ## the tests on the oldest releases that the requirements allow, in an environment of their own
	@python=$(PYTHON_FOR_SETUP) && "$$python" tools/lowest.py $(ARGS)

demo: setup  ## the main job on two embedded clusters; ARGS="--input FILE" for data of your own
	$(BIN)/parley demo $(ARGS)

docs:  ## build the documentation's site into site/, in an environment of its own; ARGS="serve" shows it while you write
	@python=$(PYTHON_FOR_SETUP) && "$$python" tools/set_up_docs.py
	PYTHONPATH=src NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs $(or $(ARGS),build --strict)

bench: setup  ## measure against Spark's own connector and other clients; writes benchmarks/RESULTS.md (Java 17 and mvn)
	@python=$(PYTHON_FOR_SETUP) && "$$python" tools/set_up.py --env .venv-spark42 --spark 4.2.0
	$(BIN)/python -m benchmarks.run $(ARGS)

dist:  ## build sdist and wheels into dist/ and try each in an environment of its own
	@python=$(PYTHON_FOR_SETUP) && "$$python" tools/dist.py $(ARGS)

clean:  ## remove environments, builds, caches and the demo's output
	rm -rf .venv .venv-spark42 .venv-spark41 .venv-lowest .venv-docs build cluster/build pipelines/build dist site native/target demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -f src/parley/kernel/_native*.so
