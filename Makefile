# One verb per task; `make help` lists them. Everything is made inside the checkout: .venv, frontend/node_modules.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

VENV ?= .venv
BIN := $(VENV)/bin
PORT ?= 8000
CORES := $(shell nproc 2>/dev/null || echo 2)
# Test processes: many tests wait for the processes that they start. No more than 8, for each may
# read a profile of half a gigabyte.
JOBS ?= $(shell echo $$(($(CORES) > 4 ? 8 : 2 * $(CORES))))

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The tests start some hundred Python processes: without cached bytecode each compiles its modules.
unexport PYTHONDONTWRITEBYTECODE
# Chromium without a window of its own loads a page in a third of the time.
export DLPROF_CHROMIUM ?= $(or $(shell command -v chromium-headless-shell chromium chromium-browser google-chrome | head -1),/usr/bin/chromium-headless-shell)

# Checkouts share what is known of files that are the same: from nothing it takes minutes of a core.
export MYPY_CACHE_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/open-dlprof/mypy

DEMO_NAME := resnet50_amp
DEMO_DIR := demo/out
PAGE := viewer/static/dlprof/.vite/manifest.json
PAGE_SOURCES := $(shell find frontend docs/views -type f -not -path '*/node_modules/*' 2>/dev/null)
# What the page takes from the API's declarations and the translations, and what those are written in.
DECLARED := docs/openapi.json frontend/src/api/types.ts frontend/src/table/declared.ts frontend/src/i18n/zh.ts
API_SOURCES := $(shell find aggregator viewer -name '*.py' -o -name '*.sql' -o -name '*.toml' -o -name '*.po' 2>/dev/null)
NPM := cd frontend && npm --no-audit --no-fund --no-update-notifier

.PHONY: help demo demo-capture test test-all tests checks setup system system-test frontend lint format types imports frontend-check texts unit browser fuzz bench coverage wheel docs pictures lock clean site release

help: ## List the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

# --- see it ---------------------------------------------------------------------------------------

demo: $(VENV)/.runtime $(PAGE) $(DEMO_DIR)/dlprof_dldb.sqlite ## Analyze the bundled profile and open the viewer on port 8000 (PORT=)
	$(BIN)/dlprofviewer --port $(PORT) $(DEMO_DIR)/dlprof_dldb.sqlite

$(DEMO_DIR)/$(DEMO_NAME).sqlite: demo/$(DEMO_NAME).sqlite.xz | $(VENV)/bin/python
	mkdir -p $(DEMO_DIR)
	$(BIN)/python -c "import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), open(sys.argv[2], 'wb'))" $< $@

$(DEMO_DIR)/dlprof_dldb.sqlite: $(DEMO_DIR)/$(DEMO_NAME).sqlite | $(VENV)/.runtime
	$(BIN)/dlprof --database=$< --output_path=$(DEMO_DIR) --profile_name="ResNet-50 AMP" \
		--reports=summary,detail,kernel,iteration --force=true

# The Python of the training is TRAIN_PYTHON; --nsys_path and other options of dlprof are CAPTURE.
demo-capture: $(VENV)/.runtime ## Profile demo/train.py on this machine's GPU, and replace the bundled profile by it
	$(BIN)/dlprof --mode=pytorch --output_path=build/demo --nsys_base_name=$(DEMO_NAME) --force=true \
		$(CAPTURE) $(or $(TRAIN_PYTHON),python) demo/train.py
	PYTHONPATH=. $(BIN)/python scripts/shrink_capture.py demo build/demo/$(DEMO_NAME).sqlite

# --- set-up ---------------------------------------------------------------------------------------

# The system's own programs come first: they make the virtual environment and build the page.
setup: system-test $(VENV)/.dev frontend/node_modules/.package-lock.json ## Install all that development and the tests need
	@if [ -e .git ]; then git config core.hooksPath .githooks; fi

system system-test:
	@scripts/setup_system.sh $(if $(findstring test,$@),test,demo)

$(VENV)/bin/python: | system
	"$${PYTHON:-$$(scripts/find_python.sh)}" -m venv $(VENV)
	@$(BIN)/pip install -q -c constraints.txt uv || echo "set-up: uv was not found: pip does what it would do faster"

INSTALL := scripts/install_packages.sh $(BIN)

$(VENV)/.runtime: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) -c constraints.txt -e ".[viewer]"
	touch $@

# After the other: two installations at once into one environment do not end well.
$(VENV)/.dev: $(VENV)/.runtime
	$(INSTALL) -c constraints.txt -e ".[dev]"
	touch $@

# Markers and counts of operations are tested with PyTorch's CPU build where pip finds one. Then one
# process loads, and so compiles, what each test process would compile for itself.
TORCH ?= torch==2.13.0+cpu

$(VENV)/.torch: $(VENV)/.dev
	@$(INSTALL) -c constraints.txt "$(TORCH)" 2>/dev/null \
		|| echo "$(TORCH) was not found: tests that need PyTorch are skipped (TORCH= names another)"
	@$(BIN)/pytest --collect-only -q tests >/dev/null || true
	touch $@

frontend/node_modules/.package-lock.json: frontend/package-lock.json | system
	$(NPM) ci
	touch $@

# Both programs leave a file alone that says the same already: the page is built again only when a
# declaration of the API changed, not with every line of Python.
build/.declared: scripts/write_openapi.py frontend/scripts/generate.mjs $(API_SOURCES) | $(VENV)/.runtime
	$(BIN)/python scripts/write_openapi.py
	node frontend/scripts/generate.mjs
	@mkdir -p build && touch $@

$(DECLARED): build/.declared
	@test -f $@ || { rm -f $< && $(MAKE) $<; }

$(PAGE): frontend/node_modules/.package-lock.json $(DECLARED) $(PAGE_SOURCES)
	$(NPM) run build

frontend: $(PAGE) ## Build the viewer's page into viewer/static/dlprof

# --- check ----------------------------------------------------------------------------------------

test: ## Set up whatever is missing, then run every check and all tests but those of tests/thorough.txt
	+@$(MAKE) -j$$(($(CORES) + 1)) --output-sync=target tests checks MARK="not thorough"

# HARM_PYTHONS: further Pythons, each with another PyTorch, that run the programs of tests/harm.
test-all: ## The same with all tests, and more examples of every property
	+@DLPROF_MUTANTS=120 $(MAKE) -j$$(($(CORES) + 1)) --output-sync=target tests checks
	+@for python in $(HARM_PYTHONS); do \
		DLPROF_HARM_PYTHON=$$python $(BIN)/pytest tests/harm/test_programs.py tests/harm/test_faults.py; done

# Beside the checks, which take one core. A line with a plus sign is shown while it runs.
tests: setup $(VENV)/.torch $(PAGE)
	+@$(BIN)/pytest $(PARALLEL) $(if $(MARK),-m "$(MARK)")

# The files in the order of tests/conftest.py: those that take longest begin first.
PARALLEL := -n $(JOBS) --dist loadfile --no-loadscope-reorder

checks: setup lint types imports frontend-check frontend

lint: $(VENV)/.dev ## ruff: rules and format; vulture: unused code; messages of new commits
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/vulture
	$(BIN)/python scripts/check_commits.py

format: $(VENV)/.dev ## Let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.dev ## mypy --strict
	@mkdir -p $(MYPY_CACHE_DIR)
	@# One at a time: a second one would wait seconds for each file. It loads Django's settings.
	DLPROF_STATE_DIR=$(MYPY_CACHE_DIR)/state $(if $(shell command -v flock),flock $(MYPY_CACHE_DIR)/lock) $(BIN)/mypy

imports: $(VENV)/.dev ## import-linter: who may import whom
	$(BIN)/lint-imports --no-logo

frontend-check: frontend/node_modules/.package-lock.json $(DECLARED) ## Lint, types and unit tests of the page
	$(NPM) run lint
	$(NPM) run typecheck
	$(NPM) test

texts: $(VENV)/.dev $(DECLARED) ## Update the Chinese translations from the sentences, and list those to translate (ACCEPT=1: reworded ones are right)
	@$(BIN)/python scripts/update_texts.py $(if $(ACCEPT),--accept)

unit: $(VENV)/.dev ## The quick tests of single modules
	$(BIN)/pytest -q -n $(CORES) -p no:playwright tests/unit

browser: $(VENV)/.dev $(PAGE) ## The tests in headless Chromium
	$(BIN)/pytest -m browser

coverage: $(VENV)/.dev $(PAGE) ## All Python tests with branch coverage
	$(BIN)/pytest $(PARALLEL) --cov --cov-report=term

fuzz: $(VENV)/.dev ## 2,000 damaged databases and exports (MUTANTS=)
	DLPROF_MUTANTS=$(or $(MUTANTS),2001) $(BIN)/pytest -n $(JOBS) tests/fuzz

bench: $(VENV)/.dev $(DEMO_DIR)/$(DEMO_NAME).sqlite ## Measure the engine on the bundled profile (PROFILES="FILE ..." BENCH="--tiles 1,3,10")
	$(BIN)/python -m benchmarks $(or $(PROFILES),$(DEMO_DIR)/$(DEMO_NAME).sqlite) $(BENCH)

# --- ship -----------------------------------------------------------------------------------------

wheel: $(VENV)/.dev ## Build sdist and wheel into dist/
	$(BIN)/python -m build

release: $(VENV)/.dev ## Build a release into dist/ and check it: KEY= signs, DRAFT=1 for a version without a date
	$(BIN)/python scripts/release.py $(if $(KEY),--key "$(KEY)") $(if $(DRAFT),--draft)

site: $(VENV)/.dev docs/openapi.json ## Build the documentation site into build/site; a broken link is an error
	rm -rf build/site build/docs
	mkdir -p build && cp -r docs build/docs && mkdir build/docs/measurements
	cp benchmarks/[A-Z]*.md build/docs/measurements/
	$(BIN)/sphinx-build -q -j 2 -W --keep-going -b html -c docs build/docs build/site

docs: $(VENV)/.dev ## Write docs/dldb-schema.md from the schema, the option tables of docs/cli.md from the commands
	PYTHONPATH=. $(BIN)/python scripts/write_cli_docs.py
	PYTHONPATH=. $(BIN)/python scripts/write_message_docs.py
	PYTHONPATH=. $(BIN)/python scripts/write_schema_docs.py

# The profile is made anew: an older engine may have given other advice.
pictures: $(VENV)/.dev $(PAGE) ## Renew the pictures of every view in docs/img (needs Chromium); CHECK=1 fails if one was stale
	rm -f $(DEMO_DIR)/dlprof_dldb.sqlite
	$(MAKE) $(DEMO_DIR)/dlprof_dldb.sqlite
	PYTHONPATH=. $(BIN)/python scripts/take_screenshots.py $(if $(CHECK),--check)

lock: ## Renew constraints.txt from the newest versions that pyproject.toml allows
	rm -rf build/lock && "$${PYTHON:-$$(scripts/find_python.sh)}" -m venv build/lock
	build/lock/bin/pip install -q -e ".[dev,pytorch]"
	{ sed -n '/^#/p' constraints.txt; build/lock/bin/pip freeze --exclude-editable; } > build/constraints.txt
	mv build/constraints.txt constraints.txt && rm -rf build/lock

clean: ## Remove what was built; .venv and node_modules stay
	rm -rf build dist $(DEMO_DIR) $(DECLARED) viewer/static/dlprof .coverage .coverage.* htmlcov .mypy_cache .ruff_cache .pytest_cache .hypothesis test-results
