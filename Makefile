# `make` alone lists the targets. Every target that needs the environment depends on `install`, which compares a stamp
# and returns at once when nothing changed.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

VENV_PYTHON := .venv/bin/python
# Without a suffix, so that tools do not find them by themselves.
PYTHON_SCRIPTS := $(shell grep -lE '^\#!.*python3?$$' scripts/*)
# Tests run in several processes, each file in one of them: one more than there are processors, because some of them
# wait; and not many more, for a container may have a share of them only. They are started with -bb too, which they do
# not inherit.
TEST_PROCESSES ?= $(shell n=$$(nproc); echo $$((n < 5 ? n + 1 : 6)))
IN_PARALLEL := --dist loadfile --no-loadscope-reorder --tx '$(TEST_PROCESSES)*popen//python=$(VENV_PYTHON) -bb'
# Narrows a test run: make test ARGS='-k rename -x'. Or options of a benchmark: make bench-history ARGS='--db kept.db'
ARGS ?=
# What `make fuzz-files` does much of.
FUZZED_FILES := tests/cli/test_damaged_databases.py tests/contract/test_hostile_names.py tests/cli/test_hostile_files.py
# Cases of others: faults that people met on comparable filesystems, and a program `run` that runs them in a directory.
CASES ?= ../shared/cases

.PHONY: help demo test test-fast test-programs bench bench-quick bench-history bench-sync load-api fuzz fuzz-api \
	fuzz-mount fuzz-files cases stress soak endure crash faults hostile install lint type format docs lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

demo: install ## Set up, then show an agent's plain file tools at work on mounted memory
	@echo 'demo: mounting two stores in a temporary workspace and working on them'
	@scripts/demo

test: install ## Set up, then run every test, real mounts included (ARGS='-k name' narrows)
	@echo 'test: running all tests, real mounts included; make test-programs has those of other programs'
	$(VENV_PYTHON) -bb -m pytest $(IN_PARALLEL) -m 'not programs' $(ARGS)

test-fast: install ## Run the tests that need no mount
	@echo 'test-fast: running the tests that need no mount'
	$(VENV_PYTHON) -bb -m pytest $(IN_PARALLEL) -m 'not mount' $(ARGS)

test-programs: install ## Install editors and tools from Debian, and try them on a mount beside a disk
	@scripts/install-programs
	@echo 'test-programs: running each program on a mount and on a disk, and comparing'
	$(VENV_PYTHON) -bb -m pytest $(IN_PARALLEL) -m programs tests/programs $(ARGS)

bench: install ## Measure memfs beside tmpfs, disk and other FUSE filesystems, against its bars (some 15 minutes)
	@scripts/setup bench
	@echo 'bench: measuring; results go to build/bench'
	$(VENV_PYTHON) scripts/bench $(ARGS)

bench-quick: install ## The same in under two minutes
	@scripts/setup bench
	@echo 'bench-quick: measuring; results go to build/bench-quick'
	$(VENV_PYTHON) scripts/bench --quick --out build/bench-quick $(ARGS)

bench-history: install ## Compare a store of 1,000,000 versions with one of 2,000 (minutes; ARGS='--db FILE' keeps it)
	@echo 'bench-history: making both stores and measuring'
	$(VENV_PYTHON) scripts/bench-history $(ARGS)

bench-sync: install ## Compare the official SDK's session memory sync with a mount (minutes; ARGS='--format json')
	@echo 'bench-sync: giving an agent its memory both ways and measuring'
	$(VENV_PYTHON) scripts/bench-sync $(ARGS)

load-api: install ## Put load on the HTTP API beside busy mounts, and look for what is lost (two minutes)
	@echo 'load-api: serving, mounting and working'
	$(VENV_PYTHON) scripts/load-api $(ARGS)

endure: install ## Work for two hours on eight mounts, API and CLI, and look for what grows or is left (ARGS='--hours 0.1')
	@echo 'endure: serving, mounting and working'
	$(VENV_PYTHON) scripts/endure $(ARGS)

soak: install ## Hold many sessions on one store against each other (ten minutes; ARGS='--seconds 30 sessions')
	@echo 'soak: mounting one store many times and working'
	$(VENV_PYTHON) scripts/soak $(ARGS)

crash: install ## Kill what works on a database, and take its power, and look for what is lost (half an hour; ARGS='power')
	@echo 'crash: mounting, serving and writing, and killing at any moment'
	$(VENV_PYTHON) scripts/crash $(ARGS)

fuzz-api: install ## Try the HTTP API with ten times as much chance as the tests do, other each time (ARGS='-k stateful')
	@echo 'fuzz-api: trying what the OpenAPI document describes, and much that it does not'
	MEMFS_FUZZ=10 $(VENV_PYTHON) -bb -m pytest tests/api/test_openapi.py tests/api/test_fuzz.py $(ARGS)

fuzz-mount: install ## Compare random file operations on a mount and a tmpfs (minutes; other ones each time)
	@echo 'fuzz-mount: comparing a mount with a tmpfs'
	MEMFS_FUZZ=20 $(VENV_PYTHON) -bb -m pytest -o faulthandler_timeout=5000 tests/mount/test_differential.py $(ARGS)

fuzz-files: install ## Damage databases, and give every entrance odd names, files and settings (minutes; others each time)
	@echo 'fuzz-files: trying commands on damaged databases, and odd input at every entrance'
	MEMFS_FUZZ=20 $(VENV_PYTHON) -bb -m pytest -o faulthandler_timeout=5000 $(FUZZED_FILES) $(ARGS)

fuzz: fuzz-files fuzz-api fuzz-mount ## Run every fuzzer: fuzz-files, fuzz-api and fuzz-mount (half an hour)

cases: install ## Run cases of others in a fresh mounted store (CASES=DIRECTORY has them, ARGS='A01 H03' chooses)
	@echo 'cases: mounting a store and running the cases of $(CASES) in it'
	$(VENV_PYTHON) scripts/cases '$(CASES)' $(ARGS)

hostile: install ## Let an agent try to hurt a mounted store (minutes; ARGS='--scale 0.1 removed listings')
	@echo 'hostile: mounting two stores, attacking one and reading in the other'
	$(VENV_PYTHON) scripts/hostile $(ARGS)

stress: install ## Put stress-ng, fio and bonnie++ on a mount, beside a tmpfs (minutes; ARGS='rename fio' chooses)
	@scripts/install-stressors
	@echo 'stress: working on a mount and a tmpfs at once, then looking at what is left'
	$(VENV_PYTHON) scripts/stress $(ARGS)

faults: install ## Let calls below memfs fail at random, and look for what is lost (minutes; ARGS='--rounds 20')
	@echo 'faults: mounting, serving, writing and failing'
	$(VENV_PYTHON) scripts/faults $(ARGS)

install: ## Install missing system packages, and memfs with its tools in .venv
	@scripts/setup

lint: install ## Check style and formatting
	@echo 'lint: checking style and formatting'
	$(VENV_PYTHON) -m ruff check . $(PYTHON_SCRIPTS)
	$(VENV_PYTHON) -m ruff format --check . $(PYTHON_SCRIPTS)

type: install ## Check types (mypy --strict)
	@echo 'type: checking types'
	$(VENV_PYTHON) -m mypy --scripts-are-modules memfs tests docs/guide/examples $(PYTHON_SCRIPTS)

format: install ## Format the code and fix what can be fixed
	@echo 'format: rewriting files in place'
	$(VENV_PYTHON) -m ruff check --fix-only . $(PYTHON_SCRIPTS)
	$(VENV_PYTHON) -m ruff format . $(PYTHON_SCRIPTS)

lock: ## Put on record anew what install installs: the newest versions in pyproject.toml's ranges, with hashes
	@scripts/lock

docs: install ## Write the reference page of the commands anew, from their help
	@echo 'docs: writing what is generated'
	$(VENV_PYTHON) scripts/reference

clean: ## Remove .venv, caches and build output
	@echo 'clean: removing .venv, caches and build output'
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find memfs tests -depth -name __pycache__ -type d -exec rm -rf {} +
