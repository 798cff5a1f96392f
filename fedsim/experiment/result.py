"""The result of a simulation."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from fedsim.common.arguments import path_of, shown
from fedsim.common.locked import sole_writer
from fedsim.common.progress import readable
from fedsim.experiment.key_figures import key_figures
from fedsim.experiment.outcome import Outcome
from fedsim.experiment.presentation import notebook_html, write_report
from fedsim.experiment.run_directory import Provenance, open_run_directory, write_run
from fedsim.limits.verdict import Judgement, judge

_MOST_SHOWN = 15


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Result(Outcome):
    """One run of a scenario in memory: its tables and figures, as `fedsim.experiment.outcome.Outcome` names them."""

    participations: pl.DataFrame

    def __repr__(self) -> str:
        """Say in some lines what was run and the key figures; the figures are all in `metrics`."""
        figures = list(key_figures(self.metrics))
        lines = [f"  {words:<42} {figure:>12}" for words, figure in figures[:_MOST_SHOWN]]
        lines += [f"  and {len(figures) - _MOST_SHOWN} more"] if len(figures) > _MOST_SHOWN else []
        clients, sessions = len(self.clients), len(self.participations)
        size = f"{len(self.rounds):,} rounds, {clients:,} clients, {sessions:,} participations"
        head = f"<Result of {shown(self.scenario.name)}: {size}, {readable(self.simulated_s)} simulated"
        return "\n".join([head, *lines]) + ">"

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The tables that there are, by the name of their file."""
        return {name: table for name, table in self.by_name().items() if isinstance(table, pl.DataFrame)}

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
        folder = path_of("directory", directory, "the folder to write")
        with sole_writer(folder, "run"):
            open_run_directory(folder)
            write_run(folder, self, provenance or Provenance())
        return folder

    def report(self, path: str | Path) -> Path:
        """Write the report of this run as one self-contained HTML file.

        Raises
        ------
        RunError
            If it cannot be written.
        """
        page = path_of("path", path, "the file to write")
        with tempfile.TemporaryDirectory() as folder:
            return write_report(self.save(Path(folder) / "run"), page, plugins=self.scenario.permissions.plugins)

    def _repr_html_(self) -> str:
        """Show the run in a notebook: the answer, key figures, and who took part."""
        with tempfile.TemporaryDirectory() as folder:
            return notebook_html(self.save(Path(folder) / "run"))
