# `make demo` and `make test` are all a newcomer needs; both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ENV ?= alfworld
SEED ?= 1

# The CPU build of torch comes from a folder of wheels where PIP_FIND_LINKS names one, else from PyTorch's own CPU index.
TORCH_SOURCE := $(if $(PIP_FIND_LINKS),--find-links "$(PIP_FIND_LINKS)",--torch-backend cpu)
UV := $(shell command -v uv 2>/dev/null || echo $(BIN)/uv)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-full test-compose lint docs docs-serve lock clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

setup: $(VENV)/.installed ## Make .venv with the locked versions of everything

$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "gagpo needs Python 3.11 or newer: make setup PYTHON=python3.11"'
	command -v cc >/dev/null || command -v gcc >/dev/null || { echo 'gagpo needs a C compiler, with which two of ALFWorld'\''s packages are built: apt-get install build-essential, or what your system calls it'; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	command -v uv >/dev/null || test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	UV_LINK_MODE=copy $(UV) pip install --quiet --compile-bytecode $(TORCH_SOURCE) --python $(BIN)/python -r requirements.lock
	$(UV) pip install --quiet --no-deps --python $(BIN)/python --editable .
	touch $@

demo: setup ## Train a small policy with GAGPO and show it getting better (10 minutes); ENV=alfworld or webshop
	$(BIN)/gagpo demo $(ENV) --seed $(SEED)

test: setup lint ## Run every quick test that this machine can run
	$(BIN)/python -m pytest -m "not slow" $(PYTEST_ARGS)

test-full: setup lint ## Run the slow tests too (long differential runs, a real pretrained model)
	$(BIN)/python -m pytest -m "not compose" $(PYTEST_ARGS)

test-compose: setup ## Build the images, run a job on them, kill containers meanwhile; needs a Docker engine
	$(BIN)/python -m pytest tests/compose -m compose -s $(PYTEST_ARGS)

lint: setup ## Format check, lint, types, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: setup ## Build the documentation site into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

docs-serve: setup ## Show the documentation site at http://127.0.0.1:8008, built anew with every change
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve --dev-addr 127.0.0.1:8008

lock: ## Resolve pyproject.toml into requirements.lock anew
	$(UV) pip compile --quiet --no-header --no-emit-index-url --no-emit-find-links $(TORCH_SOURCE) --python $(BIN)/python \
		--extra env --extra policy-cpu --extra trainer --extra local --extra gym --extra mcp --extra mlflow --extra docs --extra dev pyproject.toml --output-file requirements.lock

clean: ## Remove .venv and caches, never runs or data
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build *.egg-info
