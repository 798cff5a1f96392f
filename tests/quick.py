"""The quick set: what ``-m "not long"`` leaves out, and says so at the end.

Tests marked `long` are left out, and so are those marked `campaign`: long ones that continuous integration leaves out,
too. A test by hypothesis is in both sets: the quick one runs a tenth of its examples, and all of them make it a long
test. So ``-m "not long"`` and ``-m long`` together run whatever plain ``pytest`` runs.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

ONE_OF, AT_LEAST = 10, 3
"""Of how many examples the quick set runs one, and how many of each test at least."""


def few_of(examples: int) -> int:
    """Return how many of the examples of a test the quick set runs."""
    return min(examples, max(AT_LEAST, examples // ONE_OF))


class QuickSet:
    """Takes the long part out of a run of pytest, counts it and tells of it, also where pytest-xdist has workers.

    Parameters
    ----------
    config
        Of this run: the quick set is run where its ``-m`` excludes `long`.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._quick = "not long" in str(config.option.markexpr)
        self._full: dict[Any, settings] = {}
        self._tests: Counter[str] = Counter()
        self._examples = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Give tests by hypothesis fewer examples, or call them long: before pytest looks at the markers."""
        for item in items:
            if item.get_closest_marker("campaign"):
                item.add_marker("long")
            function: Any = getattr(item, "obj", None)
            if not hasattr(function, "hypothesis") or item.get_closest_marker("long"):
                continue
            full = self._full.setdefault(function, function._hypothesis_internal_use_settings)
            few = few_of(full.max_examples)
            if few == full.max_examples:
                continue
            if self._quick:
                function._hypothesis_internal_use_settings = settings(full, max_examples=few)
                self._examples += full.max_examples - few
            else:
                item.add_marker("long")

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Count the long tests that are left out, by the folder that they are in."""
        if self._quick:
            long = (item for item in items if item.get_closest_marker("long"))
            self._tests.update(str(Path(item.nodeid.partition("::")[0]).parent) for item in long)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """As a worker: hand over what was counted."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["left_out"] = (dict(self._tests), self._examples)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker has counted: all of them collect the same tests."""
        tests, self._examples = getattr(node, "workeroutput", {}).get("left_out", (self._tests, self._examples))
        self._tests = Counter(tests)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was left out, why, and how to run it."""
        if not self._tests and not self._examples:
            return
        folders = ", ".join(f"{count} in {folder}" for folder, count in sorted(self._tests.items()))
        terminalreporter.section("left out of the quick set, for its time")
        for number, what in (
            (self._tests.total(), f"tests marked long: {folders}"),
            (self._examples, f"examples of tests by hypothesis, of which one in {ONE_OF} is run"),
        ):
            if number:
                terminalreporter.line(f"{number:,} {what}")
        terminalreporter.line("`make test-all` runs them.")
