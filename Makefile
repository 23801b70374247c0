# Two commands do everything on a machine that has Python 3.11 or later and nothing else:
#
#     make demo    sets up .venv and plays a scripted session, offline and without a key
#     make test    sets up .venv with the test tools and runs every check
#
# PYTHON names the interpreter .venv is made with: make demo PYTHON=python3.12

PYTHON ?= python3
SEED ?= 1
# For two processors, the smallest machine: half of the tests' time is waiting. Measured there one after
# the other, 4 workers take 253 s, 5 take 240 and 6 take 246.
WORKERS ?= 5
# How many tests may be skipped; empty for any number.
SKIPS_MAX ?=
BIN := .venv/bin
# With the version, which the metadata of the installation holds.
PINS := pyproject.toml constraints.txt $(wildcard agent_cli/version.py)

# The variables, unlike -c, also reach the separate environment in which pip builds this package:
# the first for the pip that comes with Python 3.11, the second for pip 25.3 and later.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Without its caches, each of the tests' interpreters would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(BIN)/python -m pip install --quiet -c constraints.txt

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help coverage demo test lowest format soak mutants row-mutants bench bench-all pictures docs constraints clean

help:
	@echo 'make demo         set up, then play a scripted session, offline and without a key'
	@echo 'make test         set up, then run every check: format, lint, types, layers, tests'
	@echo 'make lowest       the tests with the oldest versions that pyproject.toml allows'
	@echo 'make format       format and fix what ruff can fix'
	@echo 'make coverage     run the tests once more and count the branches they take'
	@echo 'make soak         the slow tests and many more examples of the others; SEED=n repeats a run'
	@echo 'make mutants      change the source in small ways and count what the tests notice; SEED=n'
	@echo 'make row-mutants  the same for 120 sampled requirements; SEED=n'
	@echo 'make bench        speed and memory against their targets, in a few minutes'
	@echo 'make bench-all    every benchmark'
	@echo 'make pictures     draw the pictures in docs/images anew, from a real session'
	@echo 'make docs         build the documentation as a site in build/site'
	@echo 'make constraints  renew constraints.txt from the newest versions allowed'
	@echo 'make clean        remove .venv and everything generated'

demo: .venv/installed
	@echo '==> agent-cli demo'
	@$(BIN)/agent-cli demo

# The type checkers take a fifth of all the time that processors spend here, and half of the tests' time
# is waiting. So they begin first and are served last: with what the others leave idle.
# A shell's background jobs ignore Ctrl-C, and pyright is two programs: each has a process group.
APART := nice -n 19 $(BIN)/python -c 'import os, sys; os.setpgid(0, 0); os.execv(sys.argv[1], sys.argv[1:])'
test: .venv/installed-test
	@$(APART) $(BIN)/mypy --strict > .venv/mypy.txt 2>&1 & mypy=$$!; \
	$(APART) $(BIN)/pyright > .venv/pyright.txt 2>&1 & pyright=$$!; \
	trap 'kill -- $$mypy -$$mypy $$pyright -$$pyright 2> /dev/null || :' EXIT; \
	trap 'exit 130' HUP INT TERM; \
	set -e; \
	echo '==> ruff format --check'; \
	$(BIN)/ruff format --check .; \
	echo '==> ruff check'; \
	$(BIN)/ruff check .; \
	echo '==> lint-imports'; \
	$(BIN)/lint-imports --no-logo; \
	echo '==> pytest'; \
	$(BIN)/python -m pytest -m 'not slow' -n $(WORKERS) --dist worksteal $(if $(SKIPS_MAX),--skips-max $(SKIPS_MAX)); \
	echo '==> mypy --strict, begun beside the first'; \
	wait $$mypy && failed=0 || failed=1; \
	cat .venv/mypy.txt; \
	[ $$failed = 0 ]; \
	echo '==> pyright, begun beside the first'; \
	wait $$pyright && failed=0 || failed=1; \
	cat .venv/pyright.txt; \
	exit $$failed

# An environment of its own; pip cannot choose the oldest versions, uv can. What constraints.txt pins
# is another environment's, which has other packages too.
lowest: .venv/bin/python
	@echo '==> pytest with the oldest versions allowed'
	@rm -rf .venv/lowest
	@$(BIN)/python -m venv .venv/lowest
	@.venv/lowest/bin/python -m pip install --quiet uv
	@.venv/lowest/bin/python -m uv pip install --quiet --python .venv/lowest/bin/python \
	    --resolution lowest-direct -e '.[test]'
	@.venv/lowest/bin/python -m pytest -m 'not slow' -n $(WORKERS) \
	    --deselect tests/test_packaging.py::test_the_constraints_pin_this_environment \
	    --deselect tests/test_packaging.py::test_the_pinned_versions_allow_each_python_that_is_named

format: .venv/installed-test
	@echo '==> ruff format, ruff check --fix'
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

# Not part of make test: counting makes the tests take half as long again. Which tests pass is what
# make test says; those that look at what is imported find the counting.
coverage: export COVERAGE_ROOT := $(CURDIR)
coverage: .venv/installed-test
	@rm -rf .venv/coverage
	@mkdir -p .venv/coverage
	@echo '==> pytest, counted'
	@$(BIN)/python -m coverage run -m pytest -m 'not slow' -n $(WORKERS) || :
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage report

soak: .venv/installed-test
	@echo '==> pytest -m slow (SEED=$(SEED))'
	@$(BIN)/python -m pytest -m 'slow or hypothesis' --hypothesis-profile=thorough \
	    --hypothesis-seed=$(SEED) -o faulthandler_timeout=0 -ra --durations=10
	@echo '==> 50,000 composed commands against the kernel'
	@$(BIN)/python -m tests.policies.shell.campaign 50000 27000000

mutants: .venv/installed-test
	@echo '==> tests.mutants (SEED=$(SEED))'
	@$(BIN)/python -m tests.mutants --seed $(SEED) --workers $(WORKERS)

row-mutants: .venv/installed-test
	@echo '==> tests.row_mutants (SEED=$(SEED))'
	@$(BIN)/python -m tests.row_mutants --seed $(SEED) --workers $(WORKERS)

bench: .venv/installed-test
	@$(BIN)/python -m benchmarks.bars

bench-all: .venv/installed-test
	@for benchmark in benchmarks/[!_]*.py; do \
	    echo "==> $$benchmark"; \
	    $(BIN)/python -m "benchmarks.$$(basename "$$benchmark" .py)" || exit 1; \
	done

pictures: .venv/installed-test
	@echo '==> docs.pictures'
	@$(BIN)/python -m docs.pictures
	@echo '==> docs.screens'
	@$(BIN)/python -m docs.screens

docs: .venv/installed-docs
	@echo '==> mkdocs build'
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# A virtual environment of its own, without the pins and the old versions they hold. uv chooses what
# the oldest Python allows, pip only what the running one does.
constraints: .venv/bin/python
	@echo '==> renewing constraints.txt'
	@rm -rf .venv/newest
	@$(BIN)/python -m venv .venv/newest
	@env -u PIP_CONSTRAINT .venv/newest/bin/python -m pip install --quiet uv
	@.venv/newest/bin/python -m uv pip install --quiet --python .venv/newest/bin/python \
	    --python-version 3.11.0 -e '.[test]'
	@.venv/newest/bin/python -m pip uninstall --quiet --yes uv
	@grep '^#' constraints.txt > .venv/constraints.txt
	@.venv/newest/bin/python -m pip freeze --exclude-editable >> .venv/constraints.txt
	@mv .venv/constraints.txt constraints.txt
	@rm -rf .venv/newest

clean:
	@echo '==> removing .venv and generated files'
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: newer than what was installed from, so that a second run installs nothing.
.venv/installed: $(PINS) | .venv/bin/python
	@echo '==> installing agent-cli into .venv'
	@$(INSTALL) -e .
	@touch $@

# The pinned version of the test tool agent-client-protocol runs with Python 3.15, but refuses it.
.venv/installed-test: $(PINS) | .venv/bin/python
	@echo '==> installing agent-cli and the test tools into .venv'
	@$(INSTALL) --ignore-requires-python -e '.[test]'
	@touch .venv/installed $@

.venv/installed-docs: $(PINS) | .venv/bin/python
	@echo '==> installing the documentation tools into .venv'
	@$(INSTALL) -e '.[docs]'
	@touch $@

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "agent-cli needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1)." \
	        "Name another: make PYTHON=python3.11" >&2; exit 1; }
	@echo "==> creating .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }
