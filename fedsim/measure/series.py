"""Small tables of the participations, for charts and for intervals of shares, counted in the pass over the log.

``starts`` are sessions begun, by ``time_zone`` and ``slot`` (quarters of an hour); ``reports`` and ``weights`` are the
reports that were taken by ``span`` of the run, of each ``group`` and ``time_zone`` and of each class of clients by
weight, ``part``; ``staleness`` are the reports of a buffered server by ``group``, by how many versions they were late,
and by ``outcome``; ``reached`` is by when, ``time_s``, how many clients had taken part. Each has a column ``len``. What
nobody can ask is not there: homes that are too many, classes where all weigh the same, the staleness of rounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsim.common.arrays import Floats, Ints
from fedsim.common.files import slices
from fedsim.common.instants import DAY_S
from fedsim.population import Population, residence
from fedsim.scenario import Scenario

SLOT_S = 900.0
"""Seconds into which the starts of sessions are gathered: the offset of every time zone is a multiple of it."""

_HOME = ("group", "time_zone")
_POINTS = 160  # of a curve
_MOST_HELD = 16  # tables of counts, which are then summed
SPANS = 20  # equal spans of a run in which reports are counted
FEWEST_ROUNDS, FEWEST_DAYS = 10 * SPANS, 5  # of a run that has spans
_MOST_HOMES = 4_096  # with more groups and zones than these, they are not counted by spans
TENTH = 10
"""Clients are parted by weight into so many equal parts; fewer than twice as many clients are parts by themselves."""


@dataclass(frozen=True)
class Homes:
    """Where clients live: the pairs of a group and a time zone, the row (N,) of each client, and its weight (N,)."""

    pairs: pl.DataFrame
    of_client: NDArray[np.integer]
    weight: Floats

    @classmethod
    def of_population(cls, population: Population) -> "Homes":
        """Return those of a population."""
        living = residence(population)
        names = ((population.group_names, living.group), (population.zone_names, living.zone))
        pairs = pl.DataFrame([pl.Series(labels, dtype=pl.String).gather(each) for labels, each in names], schema=_HOME)
        return cls(pairs, living.of_client, population.weight)

    @classmethod
    def of_table(cls, clients: pl.DataFrame) -> "Homes":
        """Return those of a table of clients in the order of their numbers."""
        pairs = clients.select(_HOME).unique(maintain_order=True)
        numbered = pairs.with_row_index("home")
        home = clients.select(_HOME).join(numbered, on=_HOME, how="left", nulls_equal=True, maintain_order="left")
        return cls(pairs, home["home"].to_numpy(), clients["weight"].to_numpy())


def drawn_together(scenario: Scenario) -> int:
    """Return how many clients one draw of the selection rule takes: a whole group, or one client."""
    return scenario.server.wanted if scenario.server.selection.kind == "groups" else 1


def by_day(scenario: Scenario) -> bool:
    """Say whether the availability of devices may depend on the time of day, so that chance is judged by whole days."""
    kinds = {group.availability.kind for group in scenario.population}
    return scenario.log is not None or not kinds <= {"always", "renewal"}


@dataclass(frozen=True)
class EqualSpans:
    """Equal spans of a run: of its rounds or, where availability follows the clock, of its whole days."""

    rounds: int
    days: int | None = None

    @classmethod
    def of(cls, scenario: Scenario, rounds: pl.DataFrame, ended_s: float) -> "EqualSpans":
        """Return those of a run with these rounds, which ended at that time."""
        days = int(ended_s // DAY_S) if by_day(scenario) else None
        return cls(1 + int(rounds["round"].to_numpy().max(initial=0)), days)

    @property
    def number(self) -> int:
        """How many spans there are; 1 where there are too few rounds or days."""
        if self.days is not None:
            return self.days // -(-self.days // SPANS) if self.days >= FEWEST_DAYS else 1
        return SPANS if self.rounds >= FEWEST_ROUNDS else 1

    def at(self, taken: pl.DataFrame) -> Ints:
        """Return the span of each report; the last one has what the others leave of the run."""
        at = taken["round"].cast(pl.Int64).to_numpy() * self.number // self.rounds
        if self.days and self.number > 1:
            days = max(1, -(-self.days // SPANS))
            at = (taken["selected_s"].fill_null(0.0).to_numpy() // (days * DAY_S)).astype(np.int64)
        return np.asarray(np.clip(at, 0, self.number - 1))


def series_of(
    participations: pl.DataFrame | pl.LazyFrame,
    clients: pl.DataFrame,
    scenario: Scenario,
    rounds: pl.DataFrame,
    ended_s: float,
) -> dict[str, pl.DataFrame]:
    """Count the participations of tables alone, by themselves; those of clients that are not there are left out.

    Raises
    ------
    polars.exceptions.PolarsError, OSError
        The table cannot be read.
    """
    buffered = scenario.server.concurrency is not None
    counter, firsts_s = SeriesCounter(Homes.of_table(clients), scenario, rounds, ended_s), [np.empty(0)]
    for each in slices(participations, *_NEEDED, "gap", *(("staleness",) if buffered else ())):
        part = each.filter(pl.col("client") < len(clients))
        counter.add(part)
        firsts_s.append(part.filter(pl.col("gap").is_null())["selected_s"].to_numpy())
    return counter.series() | {"reached": reached_of(np.sort(np.concatenate(firsts_s)))}


_NEEDED = ("client", "round", "selected_s", "outcome")
_EMPTY = pl.DataFrame(schema=dict(zip(_NEEDED, (pl.Int32, pl.Int32, pl.Float64, pl.String), strict=True)))


class SeriesCounter:
    """Counts participations for the series, part by part."""

    def __init__(self, homes: Homes, scenario: Scenario, rounds: pl.DataFrame, ended_s: float) -> None:
        self._homes, self._buffered = homes, scenario.server.concurrency is not None
        self._pairs = homes.pairs.with_columns(home=pl.int_range(len(homes.pairs), dtype=pl.Int64))
        self._spans = EqualSpans.of(scenario, rounds, ended_s)
        kinds = {
            "reports": homes.of_client if len(homes.pairs) <= _MOST_HOMES else None,
            "weights": weight_classes(homes.weight, drawn_together(scenario)),
        }
        self._kinds = {name: kind for name, kind in kinds.items() if kind is not None and len(kind)}
        self._counts = {
            name: np.zeros((self._spans.number, int(kind.max()) + 1), dtype=np.int64)
            for name, kind in self._kinds.items()
        }
        self._tables: dict[str, list[pl.DataFrame]] = {}
        self.add(_EMPTY.with_columns(staleness=pl.lit(None, pl.Int32)))  # tables have their types without any row

    def add(self, part: pl.DataFrame) -> None:
        """Take the next participations."""
        home = pl.Series(self._homes.of_client[part["client"].to_numpy()], dtype=pl.Int64)
        part = part.with_columns(home=home, outcome=pl.col("outcome").cast(pl.String))
        slot = (pl.col("selected_s") / SLOT_S).floor().cast(pl.Int64)
        self._count("starts", part.select("home", slot=slot).drop_nulls(), "home", "slot")
        taken = part.filter(outcome="reported")
        span = self._spans.at(taken)
        for name, kind in self._kinds.items():
            counts = self._counts[name]
            cell = span * counts.shape[1] + kind[taken["client"].to_numpy()]
            counts += np.bincount(cell, minlength=counts.size).reshape(counts.shape)
        if self._buffered:
            reports = part.filter(pl.col("outcome").is_in(["reported", "stale"])).drop_nulls("staleness")
            self._count("staleness", reports, "home", "staleness", "outcome")

    def _count(self, name: str, part: pl.DataFrame, *by: str) -> None:
        held = self._tables.setdefault(name, [])
        held.append(part.group_by(by).len())
        if len(held) > _MOST_HELD:
            self._tables[name] = [pl.concat(held).group_by(by).agg(pl.col("len").sum())]

    def _counted(self, name: str, *by: str) -> pl.DataFrame:
        counts = pl.concat(self._tables[name]).join(self._pairs, on="home")
        return counts.group_by(by).agg(pl.col("len").sum()).sort(by)

    def series(self) -> dict[str, pl.DataFrame]:
        """Return what was counted."""
        series = {"starts": self._counted("starts", "time_zone", "slot")}
        if self._buffered:
            series["staleness"] = self._counted("staleness", "group", "staleness", "outcome")
        for name, counts in self._counts.items():
            parts = self._homes.pairs if name == "reports" else pl.DataFrame({"part": np.arange(counts.shape[1])})
            each = pl.DataFrame({"span": np.repeat(np.arange(len(counts)), counts.shape[1])})
            repeated = pl.concat([parts] * len(counts)) if len(counts) > 1 else parts
            series[name] = pl.concat([each, repeated], how="horizontal").with_columns(len=counts.ravel())
        return series


def reached_of(firsts_s: Floats) -> pl.DataFrame:
    """Return the series ``reached`` of the times, in order, at which clients took part for the first time."""
    firsts_s = firsts_s[~np.isnan(firsts_s)]
    number = np.unique(np.linspace(1, len(firsts_s), min(len(firsts_s), _POINTS)).astype(np.int64))
    return pl.DataFrame({"time_s": firsts_s[number - 1], "len": number})


def by_span(series: Mapping[str, pl.DataFrame], name: str) -> Ints | None:
    """Return a series of reports as an array, (spans, parts); None where it is not there."""
    table = series.get(name)
    return None if table is None else table["len"].to_numpy().reshape(int(table["span"].max()) + 1, -1)  # type: ignore[arg-type]


def weight_classes(weight: Floats, together: int) -> NDArray[np.integer] | None:
    """Part clients by weight, the heaviest being 0, those of one weight together; None where all weigh the same.

    Without equals each class has as many clients as are chosen at once; else it is a tenth, of which the first and the
    last are of one size, or a single client where there are fewer than 20. Equals are where their middle would be; so
    few weights that they need no more classes have one each.
    """
    clients = len(weight)
    if not clients or weight.min() == weight.max():
        return None
    levels, of_client, sizes = np.unique(-weight, return_inverse=True, return_counts=True)
    size = together if together > 1 else 1 if clients < 2 * TENTH else clients // TENTH
    parts = clients // size if together > 1 or size == 1 else TENTH
    if len(levels) > parts:
        inner = np.rint(np.linspace(size, clients - size, max(parts - 1, 1)))
        middle = np.cumsum(sizes) - sizes / 2
        of_client = np.unique(np.searchsorted(inner, middle, side="right"), return_inverse=True)[1][of_client]
    return of_client.astype(np.min_scalar_type(parts))
