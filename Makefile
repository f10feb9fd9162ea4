# The two commands of the README are `make demo` and `make test`; both install what they need into .venv.
PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test test-all pytest pytest-all test-wheel test-versions lint stub hashes audit results docs bench bench-reliability clean

demo: .venv/report
	$(BIN)/invariance compare

# Linters and tests side by side: mypy takes one core for half a minute. Both are run to their end, whichever fails.
test: .venv/dev
	$(MAKE) --no-print-directory --jobs 2 --keep-going lint pytest

test-all: .venv/dev
	$(MAKE) --no-print-directory --jobs 2 --keep-going lint pytest-all

# Plugins by name: pytest would rewrite every file of hypothesis, whose plugin we do not need, in each of its processes.
PYTEST := PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(BIN)/pytest -p xdist -n 3 --dist loadfile --no-loadscope-reorder

pytest: .venv/dev
	$(PYTEST) -m "not slow"

pytest-all: .venv/dev
	$(PYTEST)

# The wheel as a stranger gets it: built, installed without extras into an empty environment, used in an empty folder
test-wheel: .venv/dev
	$(BIN)/python tools/test_wheel.py

# The same with the lowest and the newest versions of dependencies, in the interpreters that are here
test-versions: .venv/dev
	$(BIN)/python tools/test_wheel.py --python python3.11 --versions lowest
	for python in python3.11 python3.12 python3.13; do \
	  $(BIN)/python tools/test_wheel.py --python $$python --versions newest || exit 1; \
	done

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

stub: .venv/dev
	$(BIN)/python tools/stub.py

# What CI installs, pinned by hashes for this interpreter; after a change of pyproject.toml
hashes: .venv/dev
	$(BIN)/python tools/hashes.py

# Known weaknesses of what CI installs, by the database of PyPI; fails where that cannot be reached
audit:
	$(PYTHON) -m venv .venv/audit
	.venv/audit/bin/pip install --quiet pip-audit
	.venv/audit/bin/pip-audit --strict --require-hashes --disable-pip $(foreach pins,$(wildcard .ci/requirements-*.txt),-r $(pins))

# docs/results.md, its figures and tables of runs, from the published runs
results: .venv/report
	$(BIN)/python tools/results.py

# The site, into docs/_build/html: warnings, dead links and misspelt words are errors; no network is used
docs: .venv/docs
	$(BIN)/codespell
	$(BIN)/python docs/generate.py
	$(BIN)/sphinx-build -W -q -b html docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html

# docs/benchmarks.md from what is measured here; tables whose benchmark was not run keep their numbers
bench: .venv/dev
	$(BIN)/python benchmarks/step.py
	ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 $(BIN)/python benchmarks/step.py
	$(BIN)/python benchmarks/full_batch.py
	$(BIN)/python benchmarks/environments.py
	$(BIN)/python benchmarks/evaluation.py
	$(BIN)/python benchmarks/images.py
	$(BIN)/python benchmarks/image_step.py
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/stages.py
	$(BIN)/python benchmarks/ray_engine.py
	$(BIN)/python benchmarks/time_to_accuracy.py --classic-steps 250
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python benchmarks/large_table.py
	$(BIN)/python benchmarks/shifts.py
	$(BIN)/python benchmarks/ranks.py
	$(BIN)/python tools/benchmarks.py

# docs/reliability.md: faults, damaged input, drawn configurations, a long load; about an hour, and may be interrupted
bench-reliability: .venv/dev
	cd benchmarks && ../$(BIN)/python -m reliability

# One stamp an extra: `.venv/dev` is the environment with the extra `dev` installed.
.venv/%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[$*]'
	@touch $@

clean:
	rm -rf .venv docs/_build
