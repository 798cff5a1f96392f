"""Reports of runs: the one module that calls a later room (`fedsim.report`), so that a `Result` has a report."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fedsim.analysis.tally import Watch
from fedsim.log import Fingerprint, Recorded
from fedsim.population import Population
from fedsim.scenario import Scenario

if TYPE_CHECKING:
    from fedsim.report.gathered import Gatherer


class PageData:
    """Gathers what the page shows of the participations of a run, and hashes them, while they are measured."""

    def __init__(self, scenario: Scenario, population: Population, log: Recorded) -> None:
        self._scenario, self._population, self._log = scenario, population, log
        self.fingerprint = Fingerprint(log.participations.lazy().collect_schema())
        self.gatherer: Gatherer | None = None

    def begin(self, transitions: pl.DataFrame | None) -> Watch:
        """Return what is given the participations; `transitions` are of the clients whose sessions the page shows."""
        from fedsim.report.gathered import Asked, gatherer_of

        asked = Asked.of(self._scenario, transitions, self._log.rounds, self._log.ended_s)
        gatherer = self.gatherer = gatherer_of(self._population, asked)

        def watch(part: pl.DataFrame) -> None:
            gatherer.add(part)
            self.fingerprint.add(part)

        return watch


def write_run_report(
    directory: Path,
    page: Path | None = None,
    *,
    plugins: bool = False,
    tell: Callable[[str], None] = lambda _: None,
    data: PageData | None = None,
) -> Path:
    """Write the report of a run directory, by default into it, with the errors of `fedsim.report.write_report`.

    Charts of the scenario's own are drawn if `plugins` may run; `tell` gets a message for each that failed. With `data`
    the participations are not read again.
    """
    from fedsim import report

    gathered = None if data is None or data.gatherer is None else data.gatherer.gathered()
    return report.write_report(directory, page, plugins=plugins, tell=tell, gathered=gathered)


def run_as_html(directory: Path) -> str:
    """Return what a notebook shows of a run directory, as `fedsim.report.page.notebook_fragment` does."""
    from fedsim.report.page import notebook_fragment

    return notebook_fragment(directory)
