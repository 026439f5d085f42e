# Every target works from a bare checkout: it makes the virtual environment and installs what it needs first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SITE := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir build/docs
DEMO := $(VENV)/.demo
PAGES := README.md docs/who-is-right.md docs/explanations.md docs/performance.md docs/attention.md docs/vision.md docs/method.md docs/which-models.md

.PHONY: help install demo test check format bench study embedded tables docs all clean

help:  ## Show what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

# The demo needs a third of what the tests need: installed alone, it is there in a minute or two.
$(DEMO): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[demo]'
	touch $@

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(DEMO) $@

install: $(STAMP)  ## Make the virtual environment and install diffmask with its tools

demo: $(DEMO)  ## Explain twenty sentences, compare with rivals, end in a report for a browser (under a minute, no GPU, no downloads)
	$(BIN)/diffmask demo

test: $(STAMP)  ## Run the tests; those that need Chromium say so where there is none
	$(BIN)/python -m pytest -n auto -rs

check: $(STAMP)  ## Lint, formatting, types, and that README and docs agree with results/
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/diffmask tables --check $(PAGES)
	$(SITE) --quiet

format: $(STAMP)  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## Measure what explaining and fitting cost, and how fast exact search is, as ratios to plain runs
	$(BIN)/python -m benchmarks.performance
	$(BIN)/python -m benchmarks.erasure
	$(BIN)/python -m benchmarks.cold_start
	$(BIN)/python -m benchmarks.bulk

study: $(STAMP)  ## Run the digit study in full: 20 seeds, each with its own model
	$(BIN)/diffmask study digits --seeds 20 --jobs 2

embedded: $(STAMP)  ## Make the embedded model and its probes again (needs DIFFMASK_DATA and ENCODER=a MiniLM directory)
	$(BIN)/diffmask study embedded-model --seeds 1 --jobs 2 --encoder $(ENCODER)
	cp runs/embedded-model/*.safetensors runs/embedded-model/*.json runs/embedded-model/README.md src/diffmask/embedded/sentiment/
	rm -f src/diffmask/embedded/sentiment/seed-*.json src/diffmask/embedded/sentiment/trained.json

tables: $(STAMP)  ## Fill the tables in README and docs from results/
	$(BIN)/diffmask tables $(PAGES)

docs: $(STAMP)  ## Build the documentation into build/docs; open build/docs/index.html
	$(SITE)

all: check test

clean:  ## Remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
