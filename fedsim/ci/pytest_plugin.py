"""A pytest plugin: scenario files (``*.fedsim.yaml``) are collected like tests, an item for each condition.

Nothing of fedsim is imported until there is a scenario file to collect: this module is loaded by every pytest run of an
environment that has fedsim in it.
"""

import re
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fedsim.ci.lock import Lock, Mode
    from fedsim.ci.replay import FileOutcome
    from fedsim.scenario import Scenario

_UPDATED = "fedsim_update"
_PERMISSIONS = {
    "allow-plugins": "let scenarios run code of your own (kind: module:Name)",
    "allow-outside": "let scenarios read files outside their folder",
}
_LINE = re.compile(r":(\d+):\d+")


class FedsimWarning(UserWarning):
    """A limit of severity warn was missed."""


class ExpectationMissedError(Exception):
    """A condition was not kept, a figure has drifted, or the scenario could not be run; the message has the place."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--fedsim-update``, and what scenarios are allowed: options, and settings of the same names."""
    group = parser.getgroup("fedsim")
    group.addoption("--fedsim-update", action="store_true", help="bring the lock files of scenarios up to date")
    for name, meaning in _PERMISSIONS.items():
        group.addoption(f"--fedsim-{name}", action="store_true", help=meaning)
        parser.addini(f"fedsim_{name.replace('-', '_')}", meaning, type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", "fedsim: a condition or a locked figure of a scenario file (*.fedsim.yaml)")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect ``*.fedsim.yaml``."""
    if not file_path.name.endswith(".fedsim.yaml"):
        return None
    collector: pytest.Collector = ScenarioFile.from_parent(parent, path=file_path)
    return collector


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what ``--fedsim-update`` did."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    lines = [text for report in reports for name, text in getattr(report, "user_properties", ()) if name == _UPDATED]
    if lines:
        terminalreporter.section("fedsim lock files")
        for line in dict.fromkeys(lines):
            terminalreporter.write_line(line)


class ScenarioFile(pytest.File):
    """A scenario file: run once in each process that has an item of it, when the first of them is run."""

    _lock: "Lock | None" = None

    @property
    def shown_path(self) -> Path:
        """The file as messages call it: relative to the working folder, if it is inside."""
        here = Path.cwd()
        return self.path.relative_to(here) if self.path.is_relative_to(here) else self.path

    def collect(self) -> Iterator["ScenarioItem"]:
        """Give an item for each condition, figure and table; one alone for a scenario that is wrong."""
        from fedsim.ci.lock import LockError, lock_path, read_lock
        from fedsim.common.errors import ScenarioError
        from fedsim.common.printable import printable
        from fedsim.measure.limits import check_study

        try:
            scenario = self._loaded()
            mistakes = check_study(scenario)
        except ScenarioError as error:
            mistakes = list(error.mistakes)
        if mistakes:
            yield ScenarioItem.from_parent(self, name="scenario", index=0, place=mistakes[0].place)
            return
        # Read before any item is run: with pytest-xdist, another process may have brought it up to date by then.
        with suppress(LockError):
            self._lock = read_lock(lock_path(self.path), scenario.permissions)
        names: list[str] = []
        for index, (name, place) in enumerate(self._items(scenario)):
            # Two conditions may be written alike and differ in what they are over.
            shown = printable(name)
            names.append(shown if shown not in names else f"{shown} [{index}]")
            yield ScenarioItem.from_parent(self, name=names[-1], index=index, place=place)

    def _items(self, scenario: "Scenario") -> Iterator[tuple[str, str]]:
        """Give names and places in the order of `fedsim.ci.remarks.remarks`."""
        from fedsim.ci.lock import compare_with_lock, lock_path, unused_values
        from fedsim.ci.replay import in_ci

        lock = self._lock or {}
        listed = [
            (" ".join(expectation.check.split()), scenario.mistake(("expect", index, "check"), "").place)
            for index, expectation in enumerate(scenario.expect)
        ]
        comparisons = compare_with_lock(scenario, lock, "", {}, {})
        if in_ci() or self.config.getoption("--fedsim-update"):
            comparisons += unused_values(scenario, lock, str(lock_path(self.shown_path)))
        words = {"figure": "", "fingerprint": "fingerprint of ", "lock": "lock "}
        listed += [(words[each.kind] + each.name, each.place) for each in comparisons]
        yield from listed or [("runs", f"{self.shown_path}:1:1")]

    def _loaded(self) -> "Scenario":
        from fedsim.common.errors import Mistake, ScenarioError
        from fedsim.scenario import open_scenario
        from fedsim.scenario.permissions import Permissions

        may = Permissions(self._allowed("allow-plugins"), self._allowed("allow-outside"))
        inside = self.path.resolve().is_relative_to(self.config.rootpath.resolve())
        if self.path.is_symlink() and not (may.outside or inside):
            message = "leads outside the tests' folder; if you trust it, give --fedsim-allow-outside"
            raise ScenarioError([Mistake(f"{self.shown_path}:1:1", (), message)])
        return open_scenario(self.shown_path, may)

    def _allowed(self, name: str) -> bool:
        return bool(self.config.getoption(f"--fedsim-{name}") or self.config.getini(f"fedsim_{name.replace('-', '_')}"))

    @cached_property
    def outcome(self) -> "FileOutcome":
        """What comes of running the scenario, which is done on first access."""
        from fedsim.ci.replay import FileOutcome, conclude, in_ci, replicates_of, run_replicate
        from fedsim.common.errors import ScenarioError

        file, update = self.shown_path, bool(self.config.getoption("--fedsim-update"))
        mode: Mode = "update" if update else "locked" if in_ci() else "check"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the test run makes of warnings is about its own code
            try:
                scenario = self._loaded()
            except ScenarioError as error:
                return FileOutcome.of_mistakes(file, error)
            answers = [run_replicate(each) for each in replicates_of(file, scenario)]
            return conclude(file, scenario, answers, mode, self._lock)


class ScenarioItem(pytest.Item):
    """A condition of a scenario, a locked figure or a locked table."""

    parent: ScenarioFile

    def __init__(self, *, index: int, place: str, **rest: Any) -> None:
        super().__init__(**rest)
        self._index = index
        line = _LINE.fullmatch(place.removeprefix(str(self.parent.shown_path)))  # it may be in a file that is extended
        self._line = int(line[1]) - 1 if line else 0
        self.add_marker("fedsim")

    def runtest(self) -> None:
        """Judge it."""
        from fedsim.ci.remarks import remarks
        from fedsim.common.printable import printable

        outcome = self.parent.outcome
        listed = remarks(outcome)
        if outcome.status == "skip":
            pytest.skip("\n".join(remark.line for remark in listed))
        if outcome.errors:
            raise ExpectationMissedError("\n".join(remark.line for remark in listed if remark.level == "error"))
        if self._index >= len(listed):
            return
        remark, position = listed[self._index], self._index - len(outcome.judgements)
        if outcome.mode == "update" and position >= 0:
            each = outcome.comparisons[position]
            text = f"{outcome.file}: {each.action:<6}  {remark.name}  {each.values}"
            self.user_properties.append((_UPDATED, printable(text.rstrip())))
        if remark.level == "error":
            raise ExpectationMissedError(remark.line)
        if remark.level == "warning":
            self.warn(FedsimWarning(remark.line))
        if remark.level == "note":
            pytest.skip(remark.line)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show ``FILE:LINE:COLUMN: error: ...``, as compilers do."""
        if isinstance(excinfo.value, ExpectationMissedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Say where the condition stands."""
        return self.path, self._line, self.name
