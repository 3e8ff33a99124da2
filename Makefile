# Everything a developer runs. Needs only Python >= 3.11 and make (GNU make 3.81 or newer).

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
PYTHON := $(BIN)/python
STAMP := $(VENV)/.ready
LOCK := requirements/dev.txt
CLIENTS := .clients
WORKERS ?= auto
PATHS := src tests tools $(wildcard bench)

.DEFAULT_GOAL := help
.PHONY: help setup clients run test format lint types imports sizes pytest bench lock clean

help: ## Show this list
	@echo "usage: make <target>"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1|\2/p' Makefile | awk -F '|' '{ printf "%-10s %s\n", $$1, $$2 }'

setup: $(STAMP) ## Prepare .venv with everything that developing needs

# The interpreter is probed by running it: a name on PATH may be a shim for a version that is not installed.
$(STAMP): $(LOCK) pyproject.toml
	@set -e; found=""; \
	for name in python3 python3.13 python3.12 python3.11; do \
	  if "$$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    found="$$name"; break; \
	  fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "error: no Python >= 3.11 with venv found among python3, python3.13, python3.12, python3.11" >&2; \
	  echo "hint: install Python 3.11 or newer (Debian, Ubuntu: apt install python3 python3-venv; macOS: brew install python)" >&2; \
	  exit 1; \
	fi; \
	if ! $(PYTHON) -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	  echo "== setup: creating $(VENV) with $$found"; \
	  rm -rf $(VENV); "$$found" -m venv $(VENV); \
	fi
	@echo "== setup: installing $(LOCK)"
	@$(PYTHON) -m pip install -qq --disable-pip-version-check --require-hashes -r $(LOCK)
	@$(PYTHON) -m pip install -qq --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $(STAMP)

clients: $(CLIENTS)/.ready ## Install the published agents and SDKs that the end-to-end tests run

$(CLIENTS)/.ready: $(STAMP) $(wildcard tools/clients/*) requirements/e2e.txt requirements/node.txt
	@tools/clients/install.sh $(PYTHON) $(CLIENTS)
	@touch $@

run: setup ## Start the gateway: the embedded model, or what dragoman.toml says
	@$(BIN)/dragoman serve

test: setup clients ## Run every check: format, lint, types, imports, sizes, tests
	@echo "== ruff format --check"
	@$(BIN)/ruff format --check --quiet $(PATHS) || { echo "hint: make format" >&2; exit 1; }
	@echo "== ruff check"
	@$(BIN)/ruff check --quiet $(PATHS)
	@echo "== mypy"
	@$(BIN)/mypy --no-error-summary
	@echo "== lint-imports"
	@$(MAKE) --no-print-directory imports
	@echo "== sizes"
	@$(PYTHON) tools/check_sizes.py src
	@echo "== pytest"
	@$(MAKE) --no-print-directory pytest
	@echo "== all checks passed"

format: setup ## Rewrite the code in the project's format
	@$(BIN)/ruff check --quiet --fix-only --select I $(PATHS)
	@$(BIN)/ruff format $(PATHS)

lint: setup ## Run the checks that need no tests: format, lint, types, imports, sizes
	@$(BIN)/ruff format --check $(PATHS)
	@$(BIN)/ruff check $(PATHS)
	@$(BIN)/mypy
	@$(MAKE) --no-print-directory imports
	@$(PYTHON) tools/check_sizes.py src

imports: setup
	@output=$$($(BIN)/lint-imports 2>&1) || { echo "$$output"; exit 1; }

pytest: setup
	@$(BIN)/pytest -q -n $(WORKERS)

bench: setup ## Run the benchmark
	@$(PYTHON) -m bench

# The lock names no index and no machine, so that it installs from wherever pip is set up to look.
lock: setup ## Resolve the dependencies again, into requirements/
	@$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --no-header --upgrade --quiet --output-file $(LOCK)
	@for name in e2e node; do $(BIN)/uv pip compile requirements/$$name.in --constraints $(LOCK) --universal \
	  --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate \
	  --upgrade --quiet --output-file requirements/$$name.txt; done
	@echo "wrote $(LOCK), requirements/e2e.txt, requirements/node.txt"

clean: ## Remove .venv, the clients, caches and build output
	@rm -rf $(VENV) $(CLIENTS) build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
