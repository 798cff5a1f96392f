"""The result of a simulation, its way back from a run directory, and its report, made by a later room, `report`."""

import math
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from fedsim.common.arguments import path_of, short_repr
from fedsim.common.arrays import Floats
from fedsim.common.files import read_table, sole_writer
from fedsim.common.instants import readable_time
from fedsim.limits.verdict import Judgement, judge
from fedsim.log import Fingerprint, Recorded
from fedsim.measure.metrics import describe, of_jobs
from fedsim.measure.metrics.own import Own
from fedsim.population import Population
from fedsim.run.cautions import why_nothing
from fedsim.run.finished import CHECKSUMS, JOBS, MODELS, Outcome, check_one, declared_by, open_finished
from fedsim.run.run_directory import Provenance, open_run_directory, write_run
from fedsim.scenario import Scenario
from fedsim.scenario.permissions import Permissions

if TYPE_CHECKING:
    from fedsim.findings.gathered import Gathered
    from fedsim.report.document import ReportDocument

_MOST_SHOWN = 15
_FIRST = (
    ("rounds", "rounds.count", "{:,.0f}"),
    ("L1 distance from uniform, reports", "participation.reported_l1_uniform", "{:.6f}"),
    ("L1 distance from uniform, pull", "participation.pull_l1_uniform", "{:.6f}"),
    ("L1 distance from uniform, measured", "participation.l1_uniform", "{:.6f}"),
    ("... that equal chances for all would give", "participation.l1_chance", "{:.6f}"),
    ("L1 distance from uniform, theory", "participation.l1_uniform_theory", "{:.6f}"),
    ("L1 distance between the two", "participation.l1_chain", "{:.6f}"),
    ("... that sampling noise alone would give", "participation.l1_noise", "{:.6f}"),
    ("time that rounds waited for clients", "rounds.waiting_share", "{:.1%}"),
)
_UNDER = {"participation.l1_chance": "participation.l1_uniform", "participation.l1_noise": "participation.l1_chain"}
"""Figures that are shown only if another one is."""
_REACHED = {"participation.reported_l1_uniform", "participation.pull_l1_uniform"}
_SAME = 1e-9  # of reports, or of pulls, and of selections


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Result(Outcome):
    """One run of a scenario in memory: its tables and figures, as `fedsim.run.finished.Outcome` names them."""

    participations: pl.DataFrame
    jobs: Mapping[str, "Result"] = field(default_factory=dict)  # of several on one fleet, each as a run of its own
    _own: tuple[Own, ...] | None = None  # the metrics of its own that a loaded run declares; None of one in memory

    def __repr__(self) -> str:
        """Return some lines with what was run and its key figures."""
        figures, nothing = figure_lines(self.metrics), why_nothing(self.metrics)
        lines = [f"  error: {nothing}"] if nothing else []
        lines += [f"  {line}" for line in figures[:_MOST_SHOWN]]
        lines += [f"  and {len(figures) - _MOST_SHOWN} more"] if len(figures) > _MOST_SHOWN else []
        clients, sessions = len(self.clients), len(self.participations)
        size = f"{len(self.rounds):,} rounds, {clients:,} clients, {sessions:,} participations"
        head = f"<Result of {short_repr(self.scenario.name)}: {size}, {readable_time(self.simulated_s)} simulated"
        return "\n".join([head, *lines]) + ">"

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The tables that there are, by the name of their file."""
        return {name: table for name, table in self.by_name().items() if isinstance(table, pl.DataFrame)}

    def model(self, name: str, which: Literal["average", "last"] = "average") -> Floats:
        """Return a model that an optimizer left behind, shape (d,): the mean over the last half, or the last one.

        A `LearningError` says which there are if not this one, as after divergence.
        """
        from fedsim.learning.kept_models import model_named

        return model_named(self.models, f"{name}.{which}", "the run")

    @property
    def verdict(self) -> list[Judgement]:
        """What became of the scenario's limits; those on several replicates stay unjudged."""
        return judge(self.scenario, [self.metrics], self._own)

    def save(self, directory: str | Path, provenance: Provenance | None = None) -> Path:
        """Write the run directory: tables, metrics, and last the manifest, which says that all is there.

        Every file is written under a temporary name and renamed, so a run that is killed leaves whole files or none. A
        `RunError` says that the directory cannot be written, or holds files that are not a run's.
        """
        folder = path_of("directory", directory, "the folder to write")
        with sole_writer(folder, "run"):
            open_run_directory(folder)
            for name, job in self.jobs.items():
                job.save(folder / JOBS / name)
            write_run(folder, self, provenance or Provenance(), own=self._own)
        return folder

    def report(self, path: str | Path) -> Path:
        """Write the report of this run as one self-contained HTML file; a `RunError` says why it cannot be written."""
        page = path_of("path", path, "the file to write")
        with tempfile.TemporaryDirectory() as folder:
            return write_run_report(self.save(Path(folder) / "run"), page, plugins=self.scenario.permissions.plugins)

    def _repr_html_(self) -> str:
        """Show the run in a notebook: the answer, key figures, and who took part."""
        from fedsim.report.page import notebook_fragment

        with tempfile.TemporaryDirectory() as folder:
            return notebook_fragment(self.save(Path(folder) / "run"))


def figure_lines(metrics: Mapping[str, float]) -> list[str]:
    """Return the figures to be read first, one per line: rounds, distances, waits, losses, the user's own metrics."""
    metrics = {name: value for name, value in metrics.items() if ".alone." not in name}
    if jobs := of_jobs(metrics):
        lines = (line for name, own in jobs.items() for line in (f"job {name}:", *figure_lines(own)))
        return [*lines, *figure_lines({name: x for name, x in metrics.items() if not name.startswith("job.")})]
    shown, selected = list[tuple[str, str]](), metrics.get("participation.l1_uniform", math.nan)
    for words, name, form in _FIRST:
        idle = name == "rounds.waiting_share" and metrics.get(name) == 0
        same = name in _REACHED and not abs(metrics.get(name, math.nan) - selected) > _SAME
        second = name == "participation.l1_uniform" and len(shown) > 1
        if name in metrics and _UNDER.get(name, name) in metrics and not idle and not same:
            shown.append(("... selections" if second else words, form.format(metrics[name])))
    for name, loss in metrics.items():
        if name.startswith("learning.") and name.endswith(".loss"):
            settled, diverged = (
                metrics.get(name.replace(".loss", each)) == 1.0 for each in (".converged", ".diverged")
            )
            optimizer = name.removeprefix("learning.").removesuffix(".loss")
            state = " (diverged)" if diverged else "" if settled else " (not converged)"
            shown.append((f"loss of {optimizer}{state}", f"{loss:.6f}"))
    shown += [(name, f"{value:.6g}") for name, value in metrics.items() if describe(name) is None]
    return [f"{words:<42} {figure:>12}" for words, figure in shown]


def load(directory: str | os.PathLike[str], *, allow_plugins: bool = False, allow_outside: bool = False) -> Result:
    """Read a run directory: the same result as `fedsim.simulate` gave, tables, figures and scenario.

    Nothing is run or imported. The two permissions are for what is done with ``result.scenario`` afterwards.

    Parameters
    ----------
    directory
        As ``fedsim run`` or `Result.save` wrote it. Files that the scenario names are looked for next to the scenario
        file that the manifest names, or in the working folder if it names none.
    allow_plugins, allow_outside
        As in `Scenario.load`.

    Raises
    ------
    RunError
        If it is no run directory, its run has not ended, or a file is missing, damaged, or not the one that the run
        wrote; the message names it.
    """
    folder = path_of("directory", directory, "a run directory")
    found = open_finished(folder)
    found.document.permissions = Permissions(allow_plugins, allow_outside)
    models: dict[str, Floats] = {}
    if MODELS in found.manifest.get(CHECKSUMS, {}):
        from fedsim.learning.kept_models import read_models

        models = read_models(folder / MODELS)
    tables: dict[str, Any] = {name: read_table(folder / f"{name}.parquet", "the run wrote it") for name in found.tables}
    may = {"allow_plugins": allow_plugins, "allow_outside": allow_outside}
    return Result(
        **tables,
        jobs={name: load(folder / JOBS / name, **may) for name in found.scenario.jobs},
        scenario=found.scenario,
        replicate=int(found.manifest["replicate"]),
        metrics=found.metrics,
        simulated_s=float(found.manifest["simulated_s"]),
        models=models,
        _own=declared_by(found.manifest),
    )


def load_one(directory: Path, *, allow_plugins: bool = False, allow_outside: bool = False) -> Result:
    """Read a run directory as `load`; a `RunError` says which directories to name instead of that of several jobs."""
    result = load(directory, allow_plugins=allow_plugins, allow_outside=allow_outside)
    check_one(directory, result.scenario)
    return result


class PageData:
    """Gathers what the page shows of the participations of a run, and hashes them, while they are measured."""

    def __init__(self, scenario: Scenario, population: Population, log: Recorded) -> None:
        from fedsim.findings.gathered import Asked, gatherer_of

        self.fingerprint = Fingerprint(log.participations.lazy().collect_schema())
        self._gatherers = [gatherer_of(population, Asked.of(scenario, log.rounds, log.ended_s))]

    def watch(self, part: pl.DataFrame) -> None:
        """Take the next participations."""
        self._gatherers[0].add(part)
        self.fingerprint.add(part)

    def take(self) -> "Gathered":
        """Return what was gathered, once: the page needs the memory."""
        return self._gatherers.pop().gathered()


def write_run_report(
    directory: Path,
    page: Path | None = None,
    *,
    plugins: bool = False,
    tell: Callable[[str], None] = lambda _: None,
    data: PageData | None = None,
    found: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write the report of a run directory, by default into it, with the errors of `fedsim.report.write_report`.

    Charts of the scenario's own are drawn if `plugins` may run; `tell` gets a message for each that failed. With `data`
    the participations are not read again. `found` gets the answer of the run, and each warning.
    """
    from fedsim import report

    gathered = None if data is None else data.take()

    def said(document: "ReportDocument") -> None:
        for failure in document.failures:
            tell(failure)
        for text in (document.finding, *(f"note: {each.text}" for each in document.answer if each.warns)):
            found(text)

    return report.write_report(directory, page, plugins=plugins, gathered=gathered, found=said)
