"""The run: a scenario with its tables and figures, in memory or in a directory, and its page, made by a later room."""

import math
import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from fedsim.common.arguments import path_of, short_repr
from fedsim.common.arrays import Floats
from fedsim.common.files import hash_of, sole_writer, write_arrays, write_table, write_text
from fedsim.common.instants import readable_time
from fedsim.common.json_files import as_json, finite
from fedsim.log import fingerprint
from fedsim.measure.limits import Judgement, judge
from fedsim.measure.metrics import describe
from fedsim.measure.metrics.own import OwnMetrics
from fedsim.measure.shares import of_reports
from fedsim.run.cautions import why_nothing
from fedsim.run.files import (
    ALWAYS,
    AT_TIMES,
    CHECKSUMS,
    FACTS_FILE,
    JOBS,
    MANIFEST,
    METRICS,
    MODELS,
    SERIES_FOLDER,
    Provenance,
    about_tables,
    checksums,
    identity,
    open_run_directory,
)
from fedsim.scenario import Scenario

if TYPE_CHECKING:
    from fedsim.pages.answer import Answer

_MOST_SHOWN = 15
_CHANCE = "participation.l1_chance"  # where it is not known what equal chances and separations would give
_FIRST = (
    ("rounds", "rounds.count", "{:,.0f}"),
    ("distance from uniform (TV), reports", "participation.reported_l1_uniform", "{:.1%}"),
    ("distance from uniform (TV), pull", "participation.pull_l1_uniform", "{:.1%}"),
    ("distance from uniform (TV), measured", "participation.l1_uniform", "{:.1%}"),
    ("... that equal chances would give", "participation.l1_fair", "{:.1%}"),
    ("... that independent draws would give", _CHANCE, "{:.1%}"),
    ("distance from uniform (TV), theory", "participation.l1_uniform_theory", "{:.1%}"),
    ("distance between the two (TV)", "participation.l1_chain", "{:.1%}"),
    ("... that sampling noise alone would give", "participation.l1_noise", "{:.1%}"),
    ("time that rounds waited for clients", "rounds.waiting_share", "{:.1%}"),
)
_UNDER = dict.fromkeys(("participation.l1_fair", _CHANCE), "participation.l1_uniform")
_UNDER |= {"participation.l1_noise": "participation.l1_chain"}
"""Figures that are shown only if another one is."""
_REACHED = {"participation.reported_l1_uniform", "participation.pull_l1_uniform"}
_SAME = 1e-9  # of reports, or of pulls, and of selections


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Run:
    """One run of a scenario: its tables, each ``NAME.parquet`` of ``docs/run-directory.md``, and its figures."""

    scenario: Scenario
    replicate: int = 0
    simulated_s: float
    rounds: pl.DataFrame
    log: pl.DataFrame | pl.LazyFrame  # the participations; a scan of their file where that may not fit into memory
    clients: pl.DataFrame
    gauges: pl.DataFrame
    learning: pl.DataFrame | None = None  # None if nothing is trained
    transitions: pl.DataFrame | None = None  # None if no devices are chosen
    convergence: pl.DataFrame | None = None  # None if no study is asked for
    facts: pl.DataFrame  # every measured quantity, `fedsim.measure.facts.FACTS`
    series: Mapping[str, pl.DataFrame] = field(default_factory=dict)  # small tables, for charts and intervals
    models: Mapping[str, Floats] = field(default_factory=dict)  # what training left behind, by ``NAME.last`` ...
    manifest: Mapping[str, Any] = field(default_factory=dict)  # of its directory; empty of a run in memory alone
    own_metrics: Sequence[OwnMetrics] = ()  # the scenario's own
    jobs: Mapping[str, "Run"] = field(default_factory=dict)  # of several on one fleet, each as a run of its own

    def __repr__(self) -> str:
        """Return some lines with what was run and its key figures."""
        figures = figure_lines(self)
        lines = [f"  error: {self._nothing}"] if self._nothing else []
        lines += [f"  {line}" for line in figures[:_MOST_SHOWN]]
        lines += [f"  and {len(figures) - _MOST_SHOWN} more"] if len(figures) > _MOST_SHOWN else []
        clients, sessions = len(self.clients), self.log.lazy().select(pl.len()).collect().item()
        size = f"{len(self.rounds):,} rounds, {clients:,} clients, {sessions:,} participations"
        head = f"<Result of {short_repr(self.scenario.name)}: {size}, {readable_time(self.simulated_s)} simulated"
        return "\n".join([head, *lines]) + ">"

    @cached_property
    def participations(self) -> pl.DataFrame:
        """All participations, in the order of round and position."""
        return self.log.lazy().collect()

    @property
    def kept(self) -> dict[str, pl.DataFrame | pl.LazyFrame]:
        """The tables that there are, by the name of their file; participations are not read."""
        tables = {name: self.log if name == "participations" else getattr(self, name) for name in (*ALWAYS, *AT_TIMES)}
        return {name: table for name, table in tables.items() if table is not None}

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The tables that there are, by the name of their file."""
        return {name: getattr(self, name) for name in self.kept}

    @cached_property
    def metrics(self) -> dict[str, float]:
        """The values of the facts by their keys, NaN for none; `fedsim metrics` lists what they mean."""
        return dict(self.facts.select("key", pl.col("value").fill_null(math.nan)).iter_rows())

    def fact(self, key: str) -> dict[str, Any] | None:
        """Return the fact of a key, with its interval and what it is judged by; None where there is none."""
        return next(self.facts.filter(key=key).iter_rows(named=True), None)

    @cached_property
    def known(self) -> dict[str, float]:
        """The metrics that have a finite value."""
        return {name: value for name, value in self.metrics.items() if math.isfinite(value)}

    @cached_property
    def all_reported(self) -> bool:
        """Whether every selection ended with a report that was taken, so that theory is of reports too."""
        return bool((self.clients["reported"] == self.clients["participations"]).all())

    def of_reports(self, name: str) -> float | None:
        """Return ``participation.NAME`` of what reached the model: of the reports, where they were measured."""
        return of_reports(self.known, name)

    @property
    def noun(self) -> str:
        """What the server counts by: ``round``, or ``version`` where it is buffered."""
        return self.scenario.server.noun

    @property
    def wanted(self) -> int | None:
        """Clients selected in a full round; None with a buffered server, which has no rounds."""
        return self.scenario.server.wanted if self.scenario.server.selects_once else None

    @property
    def failure(self) -> str:
        """Why the run is no success although it ended, because it stalled or took no report; "" where it is one."""
        stalled = self.manifest.get("stalled")
        return f"{stalled}. The log until then is kept" if stalled else self._nothing

    @property
    def _nothing(self) -> str:
        """Why no report was taken; "" where one was."""
        return why_nothing(self.metrics, self.scenario.server.deadline)

    def model(self, name: str, which: Literal["average", "last"] = "average") -> Floats:
        """Return a model that an optimizer left behind, shape (d,): the mean over the last half, or the last one.

        Parameters
        ----------
        name
            What the scenario calls the optimizer.
        which
            ``average`` or ``last``.

        Raises
        ------
        LearningError
            If there is none, as after divergence; it says which there are.

        >>> simulate(Scenario.load("paper/synthetic", ["stop.rounds=50"])).model("fedavg").shape
        (20,)
        """
        from fedsim.learning.kept_models import model_named

        return model_named(self.models, f"{name}.{which}", "the run")

    @property
    def verdict(self) -> list[Judgement]:
        """What became of the scenario's limits; those on several replicates stay unjudged."""
        return judge(self.scenario, [self.metrics], self.own_metrics)

    def save(self, directory: str | Path, provenance: Provenance | None = None) -> Path:
        """Write the run directory, and return it: tables, metrics, and last the manifest, which says that all is there.

        Every file is written under a temporary name and renamed, so a run that is killed leaves whole files or none.

        Parameters
        ----------
        directory
            The folder to write; a run in it is replaced.
        provenance
            The command and the files that the manifest names.

        Raises
        ------
        RunError
            If the directory cannot be written, or holds files that are not a run's.

        >>> simulate(Scenario.load("paper/synthetic", ["stop.rounds=50"])).save("runs/first").name
        'first'
        """
        folder = path_of("directory", directory, "the folder to write")
        with sole_writer(folder, "run"):
            open_run_directory(folder)
            for name, job in self.jobs.items():
                job.save(folder / JOBS / name)
            write_run(self, folder, provenance or Provenance())
        return folder

    def report(self, path: str | Path) -> Path:
        """Write the report of this run as one self-contained HTML file; a `RunError` says why it cannot be written."""
        page = path_of("path", path, "the file to write")
        return write_page(self, page, plugins=self.scenario.permissions.plugins)

    def _repr_html_(self) -> str:
        """Show the run in a notebook: the answer, key figures, and who took part."""
        from fedsim.pages.page import notebook_fragment

        return notebook_fragment(self if self.manifest else with_manifest(self))


def write_run(
    run: Run,
    folder: Path,
    provenance: Provenance,
    *,
    there: Collection[str] = frozenset(),
    fingerprints: Mapping[str, str] = MappingProxyType({}),
) -> Run:
    """Write what `Run.save` does into a folder that is ready for it; return the run with its manifest.

    `there` are the names of the tables that are written already, `fingerprints` those that are known.
    """
    about = about_tables(run.scenario, run.replicate)
    (folder / SERIES_FOLDER).mkdir(exist_ok=True)
    for name in run.kept.keys() - there:
        write_table(folder / f"{name}.parquet", getattr(run, name), about=about)
    if run.models:
        write_arrays(folder / MODELS, run.models)
    write_table(folder / FACTS_FILE, run.facts, about=about)
    for name, table in run.series.items():
        write_table(folder / SERIES_FOLDER / f"{name}.parquet", table, about=about)
    files = (*[MODELS] * bool(run.models), FACTS_FILE, *(f"{SERIES_FOLDER}/{name}.parquet" for name in run.series))
    written = with_manifest(run, provenance, fingerprints, {file: hash_of(folder / file) for file in files})
    write_text(folder / METRICS, as_json(finite(run.metrics)))
    write_text(folder / MANIFEST, as_json(written.manifest))
    return written


def with_manifest(
    run: Run,
    provenance: Provenance | None = None,
    fingerprints: Mapping[str, str] = MappingProxyType({}),
    sums: Mapping[str, str | None] = MappingProxyType({}),
) -> Run:
    """Return the run with a manifest; `fingerprints` are those of tables that are known, `sums` of other files."""
    provenance = provenance or Provenance()
    own_metrics = [vars(metric) for each in run.own_metrics for metric in each.metrics]
    manifest = {
        "name": run.scenario.name,
        "scenario_file": provenance.file,
        **identity(run.scenario, run.replicate),
        "overrides": list(provenance.overrides),
        "seed": run.scenario.seed,
        "status": "stalled" if provenance.stalled else "complete",
        **({"stalled": provenance.stalled} if provenance.stalled else {}),
        "platform": platform.platform(),
        "verdict": [judgement.as_dict() for judgement in run.verdict],
        **({"own_metrics": own_metrics} if own_metrics else {}),
        "fingerprints": {name: fingerprints.get(name) or fingerprint(table) for name, table in run.kept.items()},
        "command": provenance.command(),
        "wall_time_s": provenance.wall_time_s,
        "simulated_s": run.simulated_s,
    }
    manifest[CHECKSUMS] = {**checksums(manifest, as_json(finite(run.metrics))), **sums}
    return replace(run, manifest=manifest)


Result = Run
"""What `fedsim.simulate` returns, by the name under which people know it."""


def figure_lines(run: Run) -> list[str]:
    """Return the figures to be read first, one per line: rounds, distances, waits, losses, the user's own metrics."""
    of_jobs = [line for name, job in run.jobs.items() for line in (f"job {name}:", *figure_lines(job))]
    metrics = {name: value for name, value in run.metrics.items() if not name.startswith("job.")}
    shown, selected = list[tuple[str, str]](), metrics.get("participation.l1_uniform", math.nan)
    for words, name, form in _FIRST:
        idle = name == "rounds.waiting_share" and metrics.get(name) == 0
        same = name in _REACHED and not abs(metrics.get(name, math.nan) - selected) > _SAME
        second = name == "participation.l1_uniform" and len(shown) > 1
        unknown = math.isnan(metrics.get(name, math.nan)) or (name == _CHANCE and "participation.l1_fair" in metrics)
        if not unknown and _UNDER.get(name, name) in metrics and not idle and not same:
            value = metrics[name] / (2 if name.startswith("participation.") else 1)  # L1 as TV
            shown.append(("... selections" if second else words, form.format(value)))
    for name, loss in metrics.items():
        if name.startswith("learning.") and name.endswith(".loss"):
            optimizer = name.removesuffix(".loss")
            settled, diverged = (metrics.get(f"{optimizer}.{each}") == 1.0 for each in ("converged", "diverged"))
            state = " (diverged)" if diverged else "" if settled else " (not converged)"
            shown.append((f"loss of {optimizer.removeprefix('learning.')}{state}", f"{loss:.6f}"))
    shown += [(name, f"{value:.6g}") for name, value in metrics.items() if describe(name) is None]
    return [*of_jobs, *(f"{words:<42} {figure:>12}" for words, figure in shown)]


def write_page(
    run: Run,
    page: Path,
    *,
    plugins: bool = False,
    tell: Callable[[str], None] = lambda _: None,
    answered: Callable[["Answer"], None] = lambda _: None,
) -> Path:
    """Write the report of a run, with the errors of `fedsim.pages.write_report`.

    Charts of the scenario's own are drawn if `plugins` may run; `tell` gets a message for each that failed, and
    `answered` the answer.
    """
    from fedsim import pages

    kept = run if run.manifest else with_manifest(run)
    return pages.write_report(kept, page, plugins=plugins, tell=tell, answered=answered)
