# make demo: set up, run the paper's experiment, say where the report is.  make test: set up, check and test everything.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TEST_READY := $(VENV)/.ready-for-tests
.PHONY: demo test test-all style types quick replay reports studies schema clean
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

# Without what takes long, and with one in ten examples of the tests by hypothesis.
quick: $(TEST_READY)
	$(BIN)/pytest -n 2 -m "not long"

# Everything: also long simulations against theory, the paper's claims, runs that are killed, and all examples.
test-all: style types
	$(BIN)/pytest -n 2

# Every scenario of the repository but those of MNIST, which take long: its limits, and that no figure has drifted from its
# lock file. Needs the same extras as the reports.
replay: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[data,torch]'
	find scenarios -name '*.fedsim.yaml' ! -name 'mnist-*' | sort | xargs $(BIN)/fedsim replay --locked

# Needs the extras: scikit-learn's digits, and PyTorch for the network.
reports: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[data,torch,test]'
	$(BIN)/python reports/make.py
	$(BIN)/fedsim playground --out docs/playground.html
	$(BIN)/python reports/two_speeds.py
	$(BIN)/python reports/validation.py
	$(BIN)/python reports/claims.py
	$(BIN)/python reports/screenshots.py

# What takes many draws: half an hour on one idle core. With names after them, the scripts make some of it.
studies: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[data,torch]'
	$(BIN)/python reports/draws.py
	$(BIN)/python reports/scaling.py
	$(BIN)/python reports/networks.py
	$(BIN)/python reports/claims.py

schema: $(READY)
	$(BIN)/fedsim schema --out scenarios/fedsim.schema.json

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
