"""The result of a simulation."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from fedsim.experiment.run_directory import Provenance, open_run_directory, write_run
from fedsim.limits.verdict import Judgement, judge
from fedsim.scenario import Scenario


@dataclass(frozen=True)
class Result:
    """One run of a scenario.

    Attributes
    ----------
    scenario
        What was run.
    replicate
        Which repetition.
    rounds, participations, clients, gauges
        The log's tables, as polars frames; columns as documented in ``docs/run-directory.md``.
    learning
        Loss and gradient norm of each optimizer by round; None if the scenario trains nothing.
    transitions
        When the conditions of chosen devices changed; None if the scenario chooses none.
    convergence
        The table of `fedsim.theory.prediction.convergence_table`; None if the scenario asks for no such study.
    metrics
        Figures by name; `fedsim.analysis.describe` says what each means.
    simulated_s
        Simulated seconds from start to end.
    """

    scenario: Scenario
    replicate: int
    rounds: pl.DataFrame
    participations: pl.DataFrame
    clients: pl.DataFrame
    gauges: pl.DataFrame
    learning: pl.DataFrame | None
    transitions: pl.DataFrame | None
    convergence: pl.DataFrame | None
    metrics: dict[str, float]
    simulated_s: float

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The tables by the name of their file."""
        tables = {
            "rounds": self.rounds,
            "participations": self.participations,
            "clients": self.clients,
            "gauges": self.gauges,
        }
        extra = {"learning": self.learning, "transitions": self.transitions, "convergence": self.convergence}
        return tables | {name: table for name, table in extra.items() if table is not None}

    @property
    def verdict(self) -> list[Judgement]:
        """What became of the scenario's limits; those on several replicates stay unjudged."""
        return judge(self.scenario, [self.metrics])

    def save(self, directory: str | Path, provenance: Provenance | None = None) -> Path:
        """Write the run directory: tables, metrics, and last the manifest, which says that all is there.

        Every file is written under a temporary name and renamed, so a run that is killed leaves whole files or none.

        Raises
        ------
        RunError
            If it cannot be written, or holds files that are not a run's.
        """
        folder = open_run_directory(directory)
        write_run(
            folder,
            self.scenario,
            self.replicate,
            self.tables,
            self.metrics,
            self.simulated_s,
            provenance or Provenance(),
        )
        return folder

    def report(self, path: str | Path) -> Path:
        """Write the report of this run as one self-contained HTML file.

        Raises
        ------
        RunError
            If it cannot be written.
        """
        from fedsim.report.page import document_of, write_document

        with tempfile.TemporaryDirectory() as folder:
            document = document_of(self.save(Path(folder) / "run"), self.scenario.permissions.plugins)
            return write_document(document, Path(path), None)

    def _repr_html_(self) -> str:
        """Show the run in a notebook: the answer, key figures, and who took part."""
        from fedsim.report.notebook import notebook_html

        with tempfile.TemporaryDirectory() as folder:
            return notebook_html(self.save(Path(folder) / "run"))
