# Everything a developer or CI does. `make` alone lists the targets.
#
# The environment is .venv, made from PYTHON and the lock file; whichever package index pip is set
# up for serves, since the lock names versions and hashes but no host.

PYTHON ?= python3
TESTARGS ?=
WORKERS ?= 2
EVALARGS ?=
AUDITARGS ?=
ON_16 := tests/isolation tests/memory/test_rls.py tests/memory/test_jobs.py tests/memory/test_checks.py \
	tests/threads/test_models.py tests/threads/test_pipeline.py tests/threads/test_runs.py \
	tests/threads/test_run_sequence.py tests/threads/test_summaries.py tests/threads/test_sweep.py \
	tests/threads/api/test_running.py tests/governance/test_keys.py tests/governance/test_audit.py

VENV := .venv
# Relative on purpose: a checkout may lie below a path with spaces.
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
UV_VERSION := 0.13.9
CODE := config governance memory threads

# pip, mypy and friends keep caches in HOME; where that is missing or closed they get a place here.
WRITABLE_HOME := $(shell [ -n "$$HOME" ] && [ -d "$$HOME" ] && [ -w "$$HOME" ] && echo yes)
ifneq ($(WRITABLE_HOME),yes)
export HOME := $(CURDIR)/var/home
endif
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# A caller's settings or another environment must not leak into ours.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV DJANGO_SETTINGS_MODULE

.DEFAULT_GOAL := help
.PHONY: help run test test-16 test-all lint audit format lock bench eval crash soak soak-short fuzz browser messages docs clean

help: ## List the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | \
		while IFS='|' read -r name text; do printf '%-18s %s\n' "$$name" "$$text"; done

run: $(STAMP) ## Serve Credence with its own database and two demo tenants; Ctrl-C stops all
	@exec $(BIN)/python -m config.local.run

test: $(STAMP) ## Run the tests (TESTARGS="-k name" to choose)
	@exec $(BIN)/python -m pytest -n $(WORKERS) $(TESTARGS)

test-16: $(STAMP) ## Run what touches the database on PostgreSQL 16, which the same package carries
	@PG_VERSION=16 exec $(BIN)/python -m pytest -n $(WORKERS) $(ON_16) $(TESTARGS)

test-all: $(STAMP) ## Run the tests and the slow ones
	@exec $(BIN)/python -m pytest -n $(WORKERS) -m "not bench and not crash and not browser and not soak" $(TESTARGS)

bench: $(STAMP) ## Measure; reports, asserts nothing
	@exec $(BIN)/python -m pytest -m bench -p no:randomly -s --timeout 1200 $(TESTARGS)

eval: $(STAMP) ## Measure what search finds; needs ../shared (EVALARGS="--sets locomo-dev --quick")
	@exec $(BIN)/python -m tests.evaluation.run $(EVALARGS)

crash: $(STAMP) ## Kill real processes at every step and count what survives
	@exec $(BIN)/python -m pytest -m crash -p no:randomly --timeout 600 $(TESTARGS)

soak: $(STAMP) ## Traffic with faults for SOAK_MINUTES (30); writes docs/soak.md (see tests/soak/run.py)
	@exec $(BIN)/python -m tests.soak.run

soak-short: $(STAMP) ## The same for a minute, as a test
	@exec $(BIN)/python -m pytest -m soak -p no:randomly --timeout 900 $(TESTARGS)

fuzz: $(STAMP) ## Ask every operation of the OpenAPI document FUZZ_EXAMPLES (200) generated requests, at random
	@FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-200} exec $(BIN)/python -m pytest tests/fuzz -n $(WORKERS) --timeout 1200 $(TESTARGS)

browser: $(STAMP) ## Walk through a staff day in headless Chromium; writes docs/figures/governance
	@exec $(BIN)/python -m pytest -m browser -p no:randomly --timeout 600 $(TESTARGS)

messages: $(STAMP) ## Compile the Chinese words of the admin (governance/locale)
	@exec $(BIN)/python -m tests.catalogue

docs: $(STAMP) ## Build the docs site into var/site, strictly: links, anchors, no other host
	@exec $(BIN)/python -m docs.site.build

lint: $(STAMP) ## Check style, types, imports, dependencies, spelling, templates, migrations
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy $(CODE) docs/site tests
	$(BIN)/lint-imports --no-cache
	$(BIN)/deptry .
	$(BIN)/codespell
	@if [ -d templates ]; then echo "djlint templates"; $(BIN)/djlint --quiet --lint templates; fi
	DJANGO_SETTINGS_MODULE=config.settings.test $(BIN)/python manage.py check --fail-level WARNING
	DJANGO_SETTINGS_MODULE=config.settings.test $(BIN)/python -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run

audit: $(STAMP) ## Look the locked packages up among known advisories and versions taken back
	@exec $(BIN)/python -m tests.dependencies $(AUDITARGS)

format: $(STAMP) ## Put the code into shape
	$(BIN)/python -m ruff check --fix-only --quiet .
	$(BIN)/python -m ruff format .

# uv resolves for all platforms and Python versions at once; it lives in a throwaway environment.
LOCK_OPTIONS := --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --no-annotate --no-header --no-config
lock: ## Write the lock files anew from pyproject.toml (LOCKARGS="--upgrade" for newer versions)
	@set -e; tools=$$(mktemp -d); trap 'rm -rf "$$tools"' EXIT; \
	$(PYTHON) -m venv "$$tools/venv"; \
	"$$tools/venv/bin/python" -m pip install --quiet uv==$(UV_VERSION); \
	"$$tools/venv/bin/uv" pip compile pyproject.toml $(LOCK_OPTIONS) $(LOCKARGS) \
		--output-file requirements.lock; \
	"$$tools/venv/bin/uv" pip compile pyproject.toml --group dev --constraint requirements.lock \
		$(LOCK_OPTIONS) $(LOCKARGS) --output-file requirements-dev.lock

clean: ## Remove the environment and the caches; keeps var/, where the data is
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find $(CODE) tests -type d -name __pycache__ -prune -exec rm -rf {} +

# The stamp says "whole": an interrupted install is begun anew.
$(STAMP): requirements-dev.lock
	@mkdir -p "$$HOME"
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' || { \
		echo "Credence needs Python 3.11 to 3.14; choose one: make PYTHON=python3.13 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments. On Debian and Ubuntu, as root:" >&2; \
		echo "    apt-get install python3-venv" >&2; exit 1; }
	@echo "Making $(VENV) (once; a minute or two)"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --require-hashes -r requirements-dev.lock
	@touch $(STAMP)
