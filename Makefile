# Everything a fresh machine needs is Python 3.11 or newer, and make. `make` alone lists what there is.

VENV   := .venv
BIN    := $(VENV)/bin
OLDEST := .venv-oldest-spark
PYTHON ?= python3
# How many processes run the tests, and what is passed on: make run ARGS="--help", make test ARGS="-k kinds".
WORKERS ?= auto
ARGS    ?=

PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses=4 --dist=loadgroup

.DEFAULT_GOAL := help
.PHONY: help install run test coverage test-deep test-oldest-spark bench lint format clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 20

install: $(VENV)/installed-test ## make .venv with all that developing and testing need

run: $(VENV)/installed ## run the demonstration: real flights against thousands of subscriptions
	@$(BIN)/palio demo $(if $(ARGS),$(ARGS),--spark)

test: $(VENV)/installed-test lint ## lint, then the tests: what CI runs
	$(PYTEST) --hypothesis-profile=ci $(ARGS)

coverage: $(VENV)/installed-test ## the tests with coverage of lines and branches; slower
	$(PYTEST) --hypothesis-profile=ci --cov --cov-report=term $(ARGS)

test-deep: $(VENV)/installed-test ## all tests, the long ones too, with thousands of examples each; then the oldest Spark
	$(PYTEST) -o faulthandler_timeout=7200 --hypothesis-profile=deep -m "" $(ARGS)
	$(MAKE) test-oldest-spark

test-oldest-spark: $(OLDEST)/installed ## the tests on Spark with the oldest version that is supported
	$(OLDEST)/bin/python -m pytest -n $(WORKERS) --maxprocesses=4 --dist=loadgroup --hypothesis-profile=ci \
		tests/spark tests/oracles tests/cli -k spark $(ARGS)

bench: $(VENV)/installed-test ## one table: Palio beside its alternatives, same work, same run
	$(BIN)/python benchmarks/matching.py $(ARGS)

lint: $(VENV)/installed-test ## style, format, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(VENV)/installed-test ## put the code into the form that lint asks for
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what tests and tools left behind (not .venv)
	rm -rf build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# A stamp says for which pyproject.toml the environment was made; what only runs Palio needs no test tools.
$(VENV)/installed: pyproject.toml
	$(make-environment)
	@echo "Installing Palio, Spark and what they need into $(VENV); Spark alone is 400 MB, so this may take minutes"
	@$(BIN)/python -m pip install --quiet --editable '.[spark,sigma]'
	@touch $@

$(VENV)/installed-test: pyproject.toml
	$(make-environment)
	@echo "Installing Palio, Spark and the test tools into $(VENV); Spark alone is 400 MB, so this may take minutes"
	@$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $(VENV)/installed $@

# Beside the other one, which has the newest Spark.
$(OLDEST)/installed: pyproject.toml
	@$(PYTHON) -m venv --clear $(OLDEST)
	@echo "Installing Palio and the oldest Spark it supports into $(OLDEST)"
	@$(OLDEST)/bin/python -m pip install --quiet --editable '.[test]' 'pyspark==4.1.*'
	@touch $@

# Made anew when its Python is gone or was left half-made, kept otherwise.
define make-environment
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "Palio needs Python 3.11 or newer; $(PYTHON) is not. Name one: make PYTHON=python3.12 ..." >&2; exit 1; }
@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || { \
	echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
endef
