# make run    set up, then run the three C++ examples and one Python script
# make test   set up with the test tools, then run the whole test suite
# make check  everything else that .ci/run checks: lint, types, import direction
#
# The environment lives in .venv; the stamps in it record what is installed already.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
LOCK := --constraint constraints.txt

EXAMPLES := leaky_relu_backward sigmoid_backward swish_backward
PYTHON_SOURCES := $(shell find src -name '*.py')
# What the build reads. The rest of src/ is used as it stands and needs no new build.
BUILD_SOURCES := pyproject.toml setup.py $(wildcard src/nonpu/*.py src/nonpu/capi/front/*) \
	$(filter $(addprefix src/nonpu/,capi/% codegen/% engine/% ops/% spec/%),$(PYTHON_SOURCES))

# make's own defaults for CC and CXX say nothing about this machine, so they count only where somebody set them.
found = $(firstword $(foreach name,$(if $(filter default undefined,$(origin $1)),,$(firstword $($1))) $2,$(shell command -v $(name))))
CC_FOUND := $(call found,CC,cc gcc clang)
CXX_FOUND := $(call found,CXX,g++ clang++ c++)

.PHONY: run test check lint types imports format docs clean distclean
.DELETE_ON_ERROR:
.NOTPARALLEL:

run: $(VENV)/.package
ifeq ($(CXX_FOUND),)
	@echo 'make run: no C++ compiler found, so the three C++ programs are left out: install g++ or clang++, or set CXX' >&2
else
	@set -e; for example in $(EXAMPLES); do \
		echo "examples/$$example.cpp"; $(BIN)/nonpu run examples/$$example.cpp; echo; \
	done
endif
	@echo examples/two_phase.py; $(BIN)/nonpu run examples/two_phase.py

test: $(VENV)/.package $(VENV)/.tools
	$(BIN)/python -m pytest -n auto $(PYTEST_ARGS)

check: lint types imports

lint: $(VENV)/.tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.tools
	$(BIN)/mypy

imports: $(VENV)/.tools
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.tools
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

docs: $(VENV)/.package
	$(BIN)/python -m nonpu.codegen.docs
	$(BIN)/python -m nonpu.codegen.stubs

clean:
	rm -rf build dist src/*.egg-info src/nonpu/_core*.so src/nonpu/toolkit src/nonpu/engine/kernels
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	rm -f $(VENV)/.installed $(VENV)/.package $(VENV)/.tools

distclean: clean
	rm -rf $(VENV)

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'make: Python 3.11 or later is needed; name one with PYTHON=...' >&2; exit 1; }
	@echo 'Making $(VENV)'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.build-requirements: $(VENV)/.created constraints.txt
	@echo 'Installing the build requirements'
	@$(PIP) install $(LOCK) setuptools wheel cffi numba llvmlite numpy
	@touch $@

# Without isolation, so that the build uses the locked releases that were installed above.
$(VENV)/.installed: $(VENV)/.build-requirements $(BUILD_SOURCES)
	@test -n '$(CC_FOUND)' || { echo 'make: no C compiler found: install gcc or clang, or set CC' >&2; exit 1; }
	@echo 'Building and installing nonpu (compiles the kernels: this can take a minute)'
	@CC='$(if $(filter default undefined,$(origin CC)),$(CC_FOUND),$(CC))' \
		$(PIP) install $(LOCK) --no-build-isolation --editable .
	@touch $@

# Compiled ahead: where PYTHONDONTWRITEBYTECODE is set, every start would compile the package again.
$(VENV)/.package: $(VENV)/.installed $(PYTHON_SOURCES)
	@$(BIN)/python -m compileall -q src/nonpu
	@touch $@

# nonpu itself is installed by then, so this adds what the extras name and builds nothing again.
$(VENV)/.tools: $(VENV)/.build-requirements pyproject.toml | $(VENV)/.installed
	@echo 'Installing the test tools'
	@$(PIP) install $(LOCK) 'nonpu[test,verify,torch,dask]'
	@touch $@
