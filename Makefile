# make demo: set up, run the paper's experiment, say where the report is.  make test: set up, check and test everything.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TEST_READY := $(VENV)/.ready-for-tests
.PHONY: demo fuzz fuzz-directories fuzz-signals test test-all style types quick oracle enforcement replay reports studies schema docs consoles dist clean
.DELETE_ON_ERROR:

demo: $(READY)
	$(BIN)/fedsim run scenarios/paper/synthetic.fedsim.yaml --out runs/demo
	@echo
	@echo "Open $(CURDIR)/runs/demo/report.html in a browser."

# Two at a time: pytest's workers wait for each other at the end of their work, and mypy for nobody.
test: $(TEST_READY)
	@$(MAKE) --no-print-directory --jobs=2 style types quick

style: $(TEST_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(TEST_READY)
	$(BIN)/mypy

# Without what takes long, and with one in ten examples of the tests by hypothesis. `make test ROOM=theory` leaves out the
# tests that a change in fedsim/theory cannot affect.
quick: $(TEST_READY)
	@tests=$$($(if $(ROOM),$(BIN)/python -m tests.affected $(ROOM),echo tests)) && set -x && \
	$(BIN)/pytest -n 2 --dist worksteal -m "not long" $$tests

# Everything: also long simulations against theory, the paper's claims, runs that are killed, and all examples.
test-all: style types
	$(BIN)/pytest -n 2 --dist worksteal

# Scenarios drawn from the JSON Schema for every command, and as many valid ones for both engines, also resumed:
# make fuzz CASES=100000 FROM=300.
CASES ?= 1000
FROM ?= 0
# Root runs them as nobody, if nobody can read this folder and Python; otherwise without its capabilities.
AS_NOBODY = setpriv --reuid=65534 --regid=65534 --clear-groups
NOBODY = $(shell [ "$$(id -u)" != 0 ] || { $(AS_NOBODY) sh -c '$(BIN)/python -c "import pytest, tests"' >/dev/null 2>&1 && \
	echo $(AS_NOBODY); } || echo setpriv --inh-caps=-all --bounding-set=-all)
fuzz: $(TEST_READY)
	FEDSIM_SCENARIOS_CASES=$(CASES) FEDSIM_SCENARIOS_FROM=$(FROM) $(NOBODY) $(BIN)/python -m pytest -p no:cacheprovider -s \
		tests/fuzz/test_scenarios.py

# Accidents of all kinds to files of run, sweep and decision directories.
fuzz-directories: $(TEST_READY)
	FEDSIM_DIRECTORIES=$(CASES) FEDSIM_DIRECTORIES_FROM=$(FROM) $(NOBODY) $(BIN)/python -m pytest -p no:cacheprovider -s \
		-m long tests/fuzz/test_directories.py

# Signals, kills, full disks and failing writes at random moments of all commands that write.
fuzz-signals: $(TEST_READY)
	FEDSIM_FAULTS_CASES=$(CASES) FEDSIM_FAULTS_SEED=$(FROM) $(BIN)/pytest -s tests/faults

# Random runs of both servers against what they promise, and each client's influence by dense matrices.
enforcement: $(TEST_READY)
	FEDSIM_ENFORCEMENT=500 $(BIN)/pytest -m long tests/privacy/test_enforced.py

# An independent simulator, theory, refusals, kills and where models rest: 100 times as many cases as `make test-all` has,
# with seeds from FROM on.
oracle: $(TEST_READY)
	FEDSIM_ORACLE=100 FEDSIM_ORACLE_FROM=$(FROM) $(BIN)/pytest -s tests/test_oracle.py tests/learning/test_worlds.py

# Every scenario of the repository but those of MNIST, which take long: its limits, and that no figure has drifted from its
# lock file. Needs the same extras as the reports.
replay: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[data,torch]'
	find scenarios -name '*.fedsim.yaml' ! -name 'mnist-*' ! -name 'which-*' | sort | xargs $(BIN)/fedsim replay --locked

# Needs the extras: scikit-learn's digits, and PyTorch for the network.
reports: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[data,torch,test]'
	$(BIN)/python -m reports.make pages
	$(BIN)/fedsim playground --out docs/playground.html
	$(BIN)/python -m reports.make studies rates validation
	$(BIN)/python -m reports.make screenshots

# What takes many draws and seeds: the numbers that the documentation quotes. `make studies rates scaling` runs those whose
# names begin so; a wrong name lists all.
STUDIES ?= $(if $(filter studies,$(firstword $(MAKECMDGOALS))),$(wordlist 2,$(words $(MAKECMDGOALS)),$(MAKECMDGOALS)))
ifeq (studies,$(firstword $(MAKECMDGOALS)))
$(wordlist 2,$(words $(MAKECMDGOALS)),$(MAKECMDGOALS)):
	@:
endif
studies: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[data,torch]'
	$(BIN)/python -m reports.make studies $(STUDIES)

# What is made of the descriptions in the package: the schema, and the pages of docs/reference.
schema: $(READY)
	$(BIN)/fedsim schema --out scenarios/fedsim.schema.json
	$(BIN)/python docs/reference.py

# The site, in build/site; any warning is an error.
docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The outputs beneath the commands of pages; those that end in "..." are shortened by hand and left.
consoles: $(READY)
	$(BIN)/python docs/consoles.py README.md docs/tutorial.md $(filter-out docs/questions/README.md,$(wildcard docs/questions/*.md))

# Wheel and source archive; FEDSIM_HOME=https://HOST/OWNER/fedsim says where the links of the README lead.
dist: $(VENV)/pyvenv.cfg
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build
	$(BIN)/python -m build --outdir dist .

$(VENV)/pyvenv.cfg:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedsim needs Python 3.11 or newer; try: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(READY): $(VENV)/pyvenv.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(TEST_READY): $(VENV)/pyvenv.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ $(READY)

clean:
	rm -rf $(VENV) runs build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
