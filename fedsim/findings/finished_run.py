"""A run directory, read and checked: the only thing that a report is made from."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import polars as pl

from fedsim.common.errors import RunError
from fedsim.common.files import reading
from fedsim.common.json_files import read_figures, read_object
from fedsim.common.outcomes import COUNTED_OUTCOMES
from fedsim.common.regular_files import regular
from fedsim.experiment.finished import check_one
from fedsim.findings.gathered import Asked, Gathered, by_number, gather
from fedsim.scenario import Scenario, read_resolved

Json: TypeAlias = "Mapping[str, Json] | list[Json] | str | int | float | None"

INITIAL_ROUND = -1  # the round under which the learning table keeps the initial model
_ROUNDS = ("round", "opened_s", "selected_s", "closed_s", "selected", *COUNTED_OUTCOMES, "outcome")
_PARTICIPATIONS = ("round", "client", "selected_s", "ended_s", "outcome", "gap")
_CLIENTS = (
    *("client", "group", "weight", "separation", "participations", "frequency", "pi", "pi_method"),
    *("cooldown_s", "time_zone"),
)
_OF_SELECTIONS = ("participation.l1_", "participation.tv_")
_GAUGES = ("time_s", "group", "time_zone", "available", "eligible", "in_session")
_TRANSITIONS = ("time_s", "client", "condition", "on")
_LEARNING = ("round", "closed_s", "optimizer", "loss", "grad_norm")
_CONVERGENCE = ("separation", "round", "tv", "noise_floor")


@dataclass(frozen=True)
class FinishedRun:
    """What a run left behind."""

    name: str  # the scenario's name, as a person wrote it: text, never markup
    manifest: Mapping[str, Json]  # the whole of `manifest.json`
    scenario: Scenario  # what was run
    # The tables of the same name
    rounds: pl.DataFrame
    clients: pl.DataFrame
    participations: pl.LazyFrame  # a scan of their table, which may be larger than the memory
    gathered: Gathered  # the participations, gathered
    # The population counted at a steady cadence; None where the scenario asks for no gauges
    gauges: pl.DataFrame | None
    # When the conditions of chosen devices changed; None where the scenario chooses none
    transitions: pl.DataFrame | None
    learning: pl.DataFrame | None  # the learning table; None where the scenario has no learning
    convergence: pl.DataFrame | None  # the table of a convergence study; None where the scenario asks for none
    metrics: Mapping[str, float]  # the named metrics that have a finite value
    # Where not every selection ended with a report: the metrics as they were measured; `clients` and `metrics` are of
    # the reports then, what reached the model, with ``selections`` a column beside. None where all reported.
    selected: Mapping[str, float] | None = None

    @property
    def simulated_s(self) -> float:
        """Seconds of simulated time from the start to the end of the run."""
        return _simulated_s(self.manifest, self.rounds)

    @cached_property
    def groups(self) -> int:
        """How many groups the clients are of."""
        return self.clients["group"].n_unique()

    @property
    def pull(self) -> float | None:
        """L1 distance of the clients' pulls on the model from uniform; None where these are their shares of reports."""
        pull, own = (self.metrics.get(f"participation.{name}l1_uniform") for name in ("pull_", ""))
        return None if pull is None or own is None or abs(pull - own) <= 0.01 * own else pull

    @property
    def noun(self) -> str:
        """What the server counts by: ``round``, or ``version`` where it is buffered."""
        return self.scenario.server.turn

    @property
    def wanted(self) -> int | None:
        """Clients selected in a full round; None with a buffered server, which has no rounds."""
        server = self.scenario.server
        return server.wanted if server.selects_once else None


def read_run(directory: Path, gathered: Gathered | None = None) -> FinishedRun:
    """Read a run directory; what was gathered of its participations already is not gathered again.

    Raises
    ------
    RunError
        The directory or a file is missing, unreadable, or not what a run writes; the message names it.
    """
    if not directory.is_dir():
        raise RunError(f"{directory}: no such run directory")
    path = directory / "manifest.json"
    if not path.exists() and any(directory.glob("*.parquet")):
        raise RunError(f"{path}: no such file; a run writes it last, so this one has not ended")
    manifest = read_object(path, f"{path}: no such file; is this a run directory?")
    name = manifest.get("name")
    if not isinstance(name, str):
        raise RunError(f"{path}: has no name; it was not written by a run")
    clients = by_number(_read_table(directory / "clients.parquet", _CLIENTS, every=True))
    if "reported" not in clients.columns:  # before 0.3
        clients = clients.with_columns(reported="participations")
    transitions = _read_optional(directory / "transitions.parquet", _TRANSITIONS)
    participations = directory / "participations.parquet"
    scenario, rounds = read_resolved(path, manifest), _read_table(directory / "rounds.parquet", _ROUNDS).sort("round")
    check_one(directory, scenario)
    staleness = ("staleness",) if scenario.server.staleness is None else ()
    with reading(participations):
        scan = _scan(participations, (*_PARTICIPATIONS, *staleness))
        if gathered is None:
            gathered = gather(scan, clients, Asked.of(scenario, rounds, _simulated_s(manifest, rounds)))
    figures = {name: value for name, value in read_figures(directory / "metrics.json").items() if math.isfinite(value)}
    selected = figures if (clients["reported"] != clients["participations"]).any() else None
    clients = clients.with_columns(selections="participations", participations="reported")
    if selected is not None:
        frequency = pl.col("reported") / pl.max_horizontal(1, pl.col("reported").sum())
        unknown = pl.lit(None, pl.Float64), pl.lit(None, pl.String)  # theory is of selections
        clients = clients.with_columns(frequency=frequency, pi=unknown[0], pi_method=unknown[1])
    return FinishedRun(
        name=name,
        manifest=manifest,
        scenario=scenario,
        rounds=rounds,
        clients=clients,
        participations=scan,
        gathered=gathered,
        gauges=_read_optional(directory / "gauges.parquet", _GAUGES, every=True),  # those before 0.3 tell no reasons
        transitions=transitions,
        # What else a problem measures, such as the distance from its optimum, stands beside the columns that all have.
        learning=_read_optional(directory / "learning.parquet", _LEARNING, every=True),
        convergence=_read_optional(directory / "convergence.parquet", _CONVERGENCE),
        metrics=figures if selected is None else _of_reports(figures),
        selected=selected,
    )


def _of_reports(figures: Mapping[str, float]) -> dict[str, float]:
    """Return metrics with those of reports in place of those of selections, and without what is of selections alone."""
    found = {name: value for name, value in figures.items() if not name.startswith(_OF_SELECTIONS)}
    return found | {
        name.replace("reported_", "", 1): value
        for name, value in figures.items()
        if name.startswith("participation.reported_")
    }


def _simulated_s(manifest: Mapping[str, Json], rounds: pl.DataFrame) -> float:
    known, closed = manifest.get("simulated_s"), rounds["closed_s"].max()
    return next((float(each) for each in (known, closed) if isinstance(each, int | float)), 0.0)


def _scan(path: Path, columns: tuple[str, ...]) -> pl.LazyFrame:
    frame = pl.scan_parquet(regular(path), glob=False)
    present = frame.collect_schema().names()
    if missing := [column for column in columns if column not in present]:
        raise RunError(f"{path}: lacks the columns {', '.join(missing)}")
    return frame


def _read_table(path: Path, columns: tuple[str, ...], every: bool = False) -> pl.DataFrame:
    """Read these columns of a table, or every one that it has beside them."""
    with reading(path):
        return _scan(path, columns).select(pl.all() if every else columns).collect()


def _read_optional(path: Path, columns: tuple[str, ...], every: bool = False) -> pl.DataFrame | None:
    return _read_table(path, columns, every) if path.exists() else None
