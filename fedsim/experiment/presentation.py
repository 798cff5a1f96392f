"""How a run is shown to a person: the one module that asks a later room for something, the reports for their pages.

A report is made from a run directory and imports nothing of this room. But whoever holds a `Result` looks there for
``result.report("out.html")``, and a notebook for what to display; and a run directory is complete with its report.
"""

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


class Watching:
    """Gathers what the page shows of the participations of a run, and hashes them, while they are measured.

    Attributes
    ----------
    gatherer, fingerprint
        What has gathered and hashed them.
    """

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


def write_report(
    directory: Path,
    page: Path | None = None,
    *,
    plugins: bool = False,
    tell: Callable[[str], None] = lambda _: None,
    watching: "Watching | None" = None,
) -> Path:
    """Write the report of a run directory: into it, or elsewhere; return the page.

    Charts of the scenario's own are drawn if `plugins` may run; `tell` is told which of them failed, and why. Errors
    are those of `fedsim.report.write_report`. Where somebody was `watching` while the participations were measured,
    they are not read again.
    """
    from fedsim import report

    gathered = None if watching is None or watching.gatherer is None else watching.gatherer.gathered()
    return report.write_report(directory, page, plugins=plugins, tell=tell, gathered=gathered)


def notebook_html(directory: Path) -> str:
    """Return what a notebook shows of a run directory, as `fedsim.report.notebook.notebook_html` does."""
    from fedsim.report.notebook import notebook_html

    return notebook_html(directory)
