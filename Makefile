# Every target does its own set-up and reuses what is there. `make` alone lists them.
VENV   := .venv
BIN    := $(VENV)/bin
# The Python of the environment that is there; `make book PYTHON=python3.12` makes it anew with another one.
PYTHON ?= $(shell command -v $(BIN)/python || command -v python3.11 || command -v python3)
# Where pip also looks for torch: the address of PyTorch's own index of CPU builds makes set-up small on Linux, where the plain package index gives a CUDA build.
TORCH_INDEX ?=
# Settings of the user that would lead packages elsewhere do not count.
PIP    := env -u PIP_TARGET -u PIP_PREFIX PIP_USER=0 $(BIN)/python -m pip install --disable-pip-version-check $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
# The environment is rebuilt when a pin or the Python changes: the stamp carries a checksum of the files and of the version that define it.
PINS   := $(shell { cat lock.txt pyproject.toml; $(or $(PYTHON),:) --version; } | cksum | tr ' ' '-')
STAMP  := $(VENV)/.set-up-$(PINS)
ifeq ($(shell id -u),0)
SUDO   :=
else
SUDO   := sudo
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help book pdf test test-full size mutants check bench gpu lab lint clean setup pins browser proofs release newest

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

book: $(STAMP)  ## run every chapter at the paper profile and build the pages
	@$(BIN)/iclbook build --profile paper

pdf: book  ## the built pages as one PDF, _build/book.pdf (needs chromium)
	@$(BIN)/iclbook pdf

# One worker a core, up to four, each computing with one thread.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n logical --maxprocesses 4 --dist loadgroup --no-loadscope-reorder --durations 15
test: $(STAMP) browser lint  ## what every change must pass: style, tests, replays, chapters at both profiles, pages in a browser
	@$(PYTEST) -m "not full"

test-full: $(STAMP) browser lint  ## all tests: emulated processors, kills, clusters, long replays, every browser width and theme as well (hours)
	@$(PYTEST)
	@$(MAKE) --no-print-directory mutants

PAPERS ?=
mutants: $(STAMP)  ## plant faults between the runs and the records, and list those that no test and no reference sees (a quarter of an hour a paper; PAPERS=he2025 for one)
	@$(BIN)/python tests/mutants.py $(PAPERS)

check: $(STAMP)  ## run the notebooks headless at the smoke profile and compare every recorded value
	@$(BIN)/iclbook check --profile smoke

bench: $(STAMP)  ## measure the trainer's speed (writes benchmarks/*.json)
	@OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks
	@OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.floors

size: $(STAMP)  ## how large the book is to carry
	@$(BIN)/python -m benchmarks.size

# A GPU machine may bring its own Python with torch: make gpu GPU_PYTHON=python3 (what needs papermill is then left out).
GPU_PYTHON ?= $(BIN)/python
STAGE ?=
AT_ONCE ?= 1
MINUTES ?= 9.5
DRAW ?=
PRICE ?=
gpu:  ## all that a GPU machine should be asked, in calls of under ten minutes: repeat it until it says that all is done (STAGE=tests for one stage, AT_ONCE=10 trainings side by side, DRAW=3 for those of another draw, PRICE=3 dollars an hour for the page)
	@$(GPU_PYTHON) -m benchmarks.gpu --minutes $(MINUTES) --at-once $(AT_ONCE) $(if $(STAGE),--stage $(STAGE)) $(if $(DRAW),--draw $(DRAW)) $(if $(PRICE),--price $(PRICE))

draw: $(STAMP)  ## predict what another draw changes, draw everything random anew, judge it by the frozen rules and show it on the page Replication (DRAW=3; hours, and it goes on where it was stopped)
	@test -n "$(DRAW)" || { echo "error: which draw? Say make draw DRAW=3."; exit 2; }
	@ICLBOOK_DRAW=$(DRAW) $(BIN)/python -m iclbook.replication
	@for folder in results/*/paper; do $(BIN)/iclbook train $$(basename $$(dirname $$folder)) --draw $(DRAW) || exit; done
	@$(BIN)/iclbook check --profile paper --draw $(DRAW) --update
	@$(BIN)/iclbook check --profile paper --update
	@$(BIN)/iclbook build --profile paper

lab: $(STAMP)  ## open the chapters in JupyterLab
	@$(BIN)/python -m iclbook.book.lab

.PHONY: page-kernels
page-kernels: $(STAMP)  ## compile the C sources for the page into book/assets/models/kernels (needs clang and lld)
	@$(BIN)/python -m iclbook.native.webassembly

proofs:  ## compile the Coq proofs of nagy2026 and print the axioms they use (needs coqc)
	@$(MAKE) --no-print-directory -C proofs

lint: $(STAMP)  ## style only
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

setup: $(STAMP)  ## the environment only
	@echo "the environment is ready: . $(BIN)/activate"

# The hashes of torch's CPU builds stand in requirements.txt: uv asks the plain package index alone.
pins: $(STAMP)  ## write lock.txt, every package with its hashes, from requirements.txt (versions stay where they fit; UPGRADE=1 takes new ones)
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-emit-index-url $(if $(UPGRADE),--upgrade) \
	  --custom-compile-command "make pins" --output-file lock.txt requirements.txt
	@awk 'FNR == NR { if (sub(/^# +--hash=/, "--hash=")) { lines = lines "    " $$1 " \\\n"; cpu[$$1] }; next } !($$1 in cpu) { print } /^torch==/ { printf "%s", lines }' \
	  requirements.txt lock.txt > lock.new && mv lock.new lock.txt

release: book  ## one archive of a clean tag, in dist/: pages, executed notebooks, results, checksums, wheel, lock, sources
	@$(BIN)/python -m benchmarks.release

# Beside the pinned packages, which have the rest: what makes pages, at its newest. Jupyter Book itself, which only writes the configuration, stays.
NEWEST := sphinx myst-parser myst-nb sphinx-book-theme sphinx-copybutton sphinx-design sphinx-togglebutton sphinxcontrib-bibtex sphinx-external-toc
newest: $(STAMP)  ## test the pages under the newest Sphinx, MyST and theme (CONTRIBUTING.md: when the page stack ends)
	@rm -rf .cache/newest && $(PIP) --quiet --target .cache/newest $(NEWEST) 2>/dev/null || { echo "error: the newest packages could not be installed"; exit 2; }
	@PYTHONPATH=$(CURDIR)/.cache/newest $(BIN)/python -m sphinx --version
	@PYTHONPATH=$(CURDIR)/.cache/newest OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 0 -m "not full and not browser" tests/test_book_build.py

clean:  ## remove the pages and the executed notebooks; results, checkpoints and the environment stay
	rm -rf _build executed .cache/ipython .pytest_cache .ruff_cache

$(STAMP):
	@test -n "$(PYTHON)" || { echo "error: there is no Python. Install Python 3.11, 3.12 or 3.13."; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] < (3, 11))' || \
	  { echo "error: $$($(PYTHON) --version) is too old. Install Python 3.11, 3.12 or 3.13, or name one: make PYTHON=python3.12"; exit 2; }
	@echo "setting up $(VENV) (once; a minute from pip's cache): with a CPU build of torch about 0.5 GB to fetch and 2 GB on disk; with a CUDA build several GB more."
	@{ test "$$($(BIN)/python --version 2>/dev/null)" = "$$($(PYTHON) --version)" && $(BIN)/python -m pip --version >/dev/null 2>&1; } || \
	  $(PYTHON) -m venv --clear $(VENV) || \
	  { rm -rf $(VENV); echo "error: no virtual environment could be made. Install the venv module (Debian: apt-get install python3-venv)."; exit 2; }
	@torch=$$(sed -n 's/^\(torch==[^ ]*\).*/\1/p' lock.txt); \
	if $(PIP) --quiet --dry-run --no-deps --ignore-installed $$torch+cpu >/dev/null 2>&1; then \
	  awk '/^[^ ]/ { keep = !/^(cuda|nvidia|triton)/ } keep' lock.txt | sed 's/^torch==[^ ]*/&+cpu/' > $(VENV)/lock.txt; \
	else cp lock.txt $(VENV)/lock.txt; test "$$(uname)" != Linux || \
	  echo "this package index gives torch as a CUDA build. For the CPU build: make TORCH_INDEX=ADDRESS, with the address for CPU that pytorch.org/get-started shows"; fi
	@$(PIP) --progress-bar off --no-compile --no-deps --only-binary :all: --require-hashes -r $(VENV)/lock.txt || \
	  { echo "error: the packages could not be installed. What pip says above names the reason; when it is gone, repeat the command."; exit 2; }
	@$(PIP) --quiet --no-deps --no-build-isolation -e .
	@$(BIN)/python -m pip check >/dev/null || { $(BIN)/python -m pip check; echo "error: lock.txt does not hold all that its packages need. Write it anew: make pins"; exit 2; }
	@$(BIN)/python -m compileall -q src
	@rm -f $(VENV)/.set-up-*; touch $@

# The page tests drive a real browser, and compile the C sources for the page once more. Debian and its relatives install both by name; elsewhere say what is missing.
BROWSER = $(shell grep -qi '^ID=ubuntu' /etc/os-release 2>/dev/null && echo chromium-browser chromium-chromedriver || echo chromium chromium-driver)
browser:
	@if command -v chromedriver >/dev/null && command -v chromium >/dev/null && command -v clang >/dev/null && command -v wasm-ld >/dev/null; then :; \
	elif ! command -v apt-get >/dev/null; then \
	  if command -v chromedriver >/dev/null && command -v chromium >/dev/null; then echo "clang or lld is missing: what pages run is not compiled anew"; exit 0; fi; \
	  echo "error: the page tests need chromium and chromedriver. Install both, or leave those tests out: $(BIN)/pytest -m 'not browser'"; exit 2; \
	elif test -n "$(SUDO)" && ! command -v sudo >/dev/null; then \
	  echo "error: the page tests need chromium, chromedriver, clang and lld, and installing them needs root. Run: apt-get install $(BROWSER) clang lld"; exit 2; \
	else echo "installing chromium, its driver, clang and lld for the page tests"; \
	  $(SUDO) apt-get update -qq && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(BROWSER) clang lld >/dev/null || \
	  { echo "error: packages could not be installed (see above). Install $(BROWSER), clang and lld by hand, then repeat."; exit 2; }; \
	fi
