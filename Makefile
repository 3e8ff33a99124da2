# Every command of development. Needs only Python >= 3.11 and make (GNU make 3.81 or newer).

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
PYTHON := $(BIN)/python
# Present when .venv has what `make run` needs, and when it also has what the checks need.
RUN_STAMP := $(VENV)/.run
STAMP := $(VENV)/.ready
RUN_LOCK := requirements/run.txt
LOCK := requirements/dev.txt
CLIENTS := .clients
WORKERS ?= auto
PATHS := src tests tools $(wildcard bench)

.DEFAULT_GOAL := help
.PHONY: help setup clients run test format lint types imports sizes pytest docs bench lock clean

help: ## Show this list
	@echo "usage: make <target>"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1|\2/p' Makefile | awk -F '|' '{ printf "%-10s %s\n", $$1, $$2 }'

setup: $(STAMP) ## Prepare .venv with everything that development needs

# Creates .venv unless it already has a working Python >= 3.11 with pip. The interpreter is probed by running
# it: a name on PATH may be a shim for a version that is not installed.
define ensure_venv
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
endef

# Installs the packages of one lock, then dragoman itself from src. Both locks include what builds it.
define install_lock
@echo "== setup: installing $$(grep -c '^[a-z]' $(1)) packages of $(1)"
@$(PYTHON) -m pip install -qq --disable-pip-version-check --require-hashes -r $(1)
@echo "== setup: installing dragoman"
@$(PYTHON) -m pip install -qq --disable-pip-version-check --no-build-isolation --no-deps -e .
endef

$(RUN_STAMP): $(RUN_LOCK) pyproject.toml
	$(ensure_venv)
	$(call install_lock,$(RUN_LOCK))
	@touch $(RUN_STAMP)

# The development lock holds every package of the runtime lock at the same version.
$(STAMP): $(LOCK) $(RUN_LOCK) pyproject.toml
	$(ensure_venv)
	$(call install_lock,$(LOCK))
	@touch $(RUN_STAMP) $(STAMP)

clients: $(CLIENTS)/.ready ## Install the published agents and SDKs that the end-to-end tests run

$(CLIENTS)/.ready: $(STAMP) $(wildcard tools/clients/*) requirements/e2e.txt requirements/node.txt requirements/templates.txt
	@tools/clients/install.sh $(PYTHON) $(CLIENTS)
	@touch $@

run: $(RUN_STAMP) ## Start the gateway; with AGENT=claude (codex, gemini, opencode) an agent. ARGS="..." adds arguments
	@$(BIN)/dragoman $(if $(AGENT),run $(AGENT),serve) $(ARGS)

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

# Tests that fail beside others run once more alone. A test with an error, or with an example that hypothesis
# found, fails again. One that passes alone depends on the load of the machine: its name is printed, so that it can be fixed.
pytest: setup
	@$(BIN)/pytest -q -n $(WORKERS) || { test $$? -eq 1 && echo "== pytest: the failed tests again, alone" && \
	  $(BIN)/pytest -q -rp --last-failed --last-failed-no-failures=none; }

docs: setup ## Build the documentation site into site/
	@$(BIN)/zensical build --strict
	@echo "open site/index.html"

bench: setup ## Run the benchmark
	@$(PYTHON) -m bench

# The locks name no index and no machine, so that they install from the index that pip is configured to use.
COMPILE := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --no-emit-find-links --no-header --quiet

lock: setup ## Resolve the dependencies again, into requirements/
	@$(COMPILE) pyproject.toml --group build --group dev --upgrade --output-file $(LOCK)
	@$(COMPILE) pyproject.toml --group build --constraints $(LOCK) --output-file $(RUN_LOCK)
	@for name in e2e node; do \
	  $(COMPILE) requirements/$$name.in --constraints $(LOCK) --no-annotate --upgrade --output-file requirements/$$name.txt; \
	done
	@$(COMPILE) requirements/templates.in --no-deps --no-annotate --upgrade --output-file requirements/templates.txt
	@echo "wrote $(RUN_LOCK), $(LOCK), requirements/e2e.txt, requirements/node.txt, requirements/templates.txt"

clean: ## Remove .venv, the clients, caches and build output
	@rm -rf $(VENV) $(CLIENTS) build dist site .cache htmlcov .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
