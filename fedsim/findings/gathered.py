"""What a report needs of the participations, gathered in one pass: the table itself may be too large to keep."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats, Ints
from fedsim.common.files import slices
from fedsim.common.instants import DAY_S
from fedsim.common.intervals import half_width
from fedsim.log import BUFFERED
from fedsim.measure.contributions import Contributions, Counter
from fedsim.population import Population, residence
from fedsim.run.cautions import by_day, drawn_together
from fedsim.scenario import Scenario

SLOT_S = 900.0
"""Seconds into which the starts of sessions are gathered: the offset of every time zone is a multiple of it."""

_HOME = ("group", "time_zone")
_MOST_HELD = 16  # tables of counts, which are then summed
_NEEDED = ("client", "round", "selected_s", "outcome")
SPANS = 20  # equal spans of a run in which reports are counted
FEWEST_ROUNDS, FEWEST_DAYS = 10 * SPANS, 5  # of a run that has spans
_MOST_HOMES = 4_096  # with more groups and zones than these, they are not counted by spans
TENTH = 10
"""Clients are parted by weight into so many equal parts; fewer than twice as many clients are parts by themselves."""


@dataclass(frozen=True)
class Gathered:
    """The participations, gathered."""

    outcomes: pl.DataFrame  # ``outcome``, ``len``: how sessions ended
    starts: pl.DataFrame  # ``time_zone``, ``slot``, ``len``: sessions begun, by quarters of an hour
    homes: pl.DataFrame  # ``group``, ``time_zone``: the pairs that occur
    # Reports by span of the run: (spans, homes), and (spans, classes), which are those of `weight_classes`; None where
    # homes are too many, all clients weigh the same, or it was not asked
    by_home: Ints | None = None
    by_weight: Ints | None = None
    # How often and how far apart clients contributed; None where nothing is promised of that
    contributions: Contributions | None = None
    # ``group``, ``staleness``, ``outcome``, ``len``: reports of a buffered server, by how many versions they were late;
    # None where it runs rounds
    staleness: pl.DataFrame | None = None


@dataclass(frozen=True)
class Asked:
    """What is asked of the participations of a run beside what is of every run."""

    together: int = 1  # clients that are chosen at once
    rounds: int | None = None  # how many rounds there are; None where no reports by span are asked for
    days: int | None = None  # how many whole days there are, where availability follows the clock
    promised: bool = False  # whether something is promised of contributions
    buffered: bool = False  # whether the server is

    @classmethod
    def of(cls, scenario: Scenario, rounds: pl.DataFrame, simulated_s: float) -> "Asked":
        """Return what the page of a run asks."""
        return cls(
            drawn_together(scenario),
            1 + int(rounds["round"].to_numpy().max(initial=0)),
            int(simulated_s // DAY_S) if by_day(scenario) else None,
            scenario.privacy is not None,
            scenario.server.concurrency is not None,
        )

    @property
    def spans(self) -> int:
        """Spans in which reports are counted: equal ones of the rounds, or of days; 1 where there are too few."""
        if self.days is not None:
            return self.days // -(-self.days // SPANS) if self.days >= FEWEST_DAYS else 1
        return SPANS if (self.rounds or 0) >= FEWEST_ROUNDS else 1


def by_number(clients: pl.DataFrame) -> pl.DataFrame:
    """Sort clients by number, as a run has written them: a copy of 10^8 would take 9 GB."""
    return clients if clients["client"].is_sorted() else clients.sort("client")


def gather(participations: pl.LazyFrame, clients: pl.DataFrame, asked: Asked = Asked()) -> Gathered:
    """Gather the participations of a run directory, whose clients have a group and a weight.

    Clients are numbered from 0 on; participations of others than these are left out.

    Raises
    ------
    polars.exceptions.PolarsError, OSError
        The table cannot be read.
    """
    clients = by_number(clients)
    homes = clients.select(_HOME).unique(maintain_order=True)
    home = clients.join(homes.with_row_index("home"), on=_HOME, how="left", nulls_equal=True, maintain_order="left")
    weight = clients["weight"].to_numpy() if asked.rounds is not None else np.empty(0)
    needed = (*_NEEDED, *(("staleness",) if asked.buffered else ()))
    empty = participations.select(needed).head(0).collect()
    gatherer = Gatherer(weight, homes, home["home"].to_numpy(), asked, empty)
    for part in slices(participations, *needed):
        gatherer.add(part.filter(pl.col("client") < len(clients)))
    return gatherer.gathered()


def gatherer_of(population: Population, asked: Asked) -> "Gatherer":
    """Return what gathers the participations of a population as they are measured."""
    living = residence(population)
    names = ((population.group_names, living.group), (population.zone_names, living.zone))
    homes = pl.DataFrame([pl.Series(own, dtype=pl.String).gather(each) for own, each in names], schema=_HOME)
    empty = pl.DataFrame(schema=BUFFERED)
    return Gatherer(population.weight, homes, living.of_client, asked, empty)


class Gatherer:
    """Gathers participations, part by part.

    `weight` (N,) is that of the clients, and `home` (N,) is the row of each in `homes`, a group and a time zone each.
    `empty` has no participations, but the types of their columns.
    """

    def __init__(self, weight: Floats, homes: pl.DataFrame, home: Ints, asked: Asked, empty: pl.DataFrame) -> None:
        self._asked, self._home = asked, home.astype(np.int64, copy=False)
        self._homes = homes.with_columns(home=pl.int_range(len(homes), dtype=pl.Int64))
        counted = {"by_home": self._home if len(homes) <= _MOST_HOMES else None}
        counted["by_weight"] = weight_classes(weight, asked.together)
        self._kinds = {name: kind for name, kind in counted.items() if asked.rounds is not None and kind is not None}
        self._counts = {name: np.zeros((asked.spans, kind.max() + 1), int) for name, kind in self._kinds.items()}
        self._counter = Counter(len(home)) if asked.promised else None
        self._tables: dict[str, list[pl.DataFrame]] = {}
        self.add(empty)  # the tables have their types, however few participations there are

    def add(self, part: pl.DataFrame) -> None:
        """Take the next participations."""
        if self._counter is not None:
            self._counter.add(part)
        home = pl.Series(self._home[part["client"].to_numpy()])
        part = part.with_columns(home=home, outcome=pl.col("outcome").cast(pl.String))
        self._count("outcomes", part, "outcome")
        slot = (pl.col("selected_s") / SLOT_S).floor().cast(pl.Int64)
        self._count("starts", part.select("home", slot=slot).drop_nulls(), "home", "slot")
        taken = part.filter(outcome="reported")
        span = self._span(taken)
        for name, kind in self._kinds.items():
            counts = self._counts[name]
            cell = span * counts.shape[1] + kind[taken["client"].to_numpy()]
            counts += np.bincount(cell, minlength=counts.size).reshape(counts.shape)
        if self._asked.buffered:
            reports = part.filter(pl.col("outcome").is_in(["reported", "stale"])).drop_nulls("staleness")
            self._count("staleness", reports, "home", "staleness", "outcome")

    def _count(self, name: str, part: pl.DataFrame, *by: str) -> None:
        held = self._tables.setdefault(name, [])
        held.append(part.group_by(by).len())
        if len(held) > _MOST_HELD:
            self._tables[name] = [pl.concat(held).group_by(by).agg(pl.col("len").sum())]

    def _counted(self, name: str, *by: str) -> pl.DataFrame:
        counts = pl.concat(self._tables[name])
        if "home" in counts.columns:
            counts = counts.join(self._homes, on="home")
        return counts.group_by(by).agg(pl.col("len").sum()).sort(by)

    def _span(self, taken: pl.DataFrame) -> Ints:
        """Return the span of each report; the last one has what the others leave of the run."""
        asked = self._asked
        at = taken["round"].cast(pl.Int64).to_numpy() * asked.spans // (asked.rounds or 1)
        if asked.days and asked.spans > 1:
            days = max(1, -(-asked.days // SPANS))
            at = (taken["selected_s"].fill_null(0.0).to_numpy() // (days * DAY_S)).astype(np.int64)
        return np.asarray(np.clip(at, 0, asked.spans - 1))

    def gathered(self) -> Gathered:
        """Return what was gathered."""
        return Gathered(
            self._counted("outcomes", "outcome"),
            self._counted("starts", "time_zone", "slot"),
            self._homes.select(_HOME),
            **self._counts,
            contributions=None if self._counter is None else self._counter.contributions(),
            staleness=self._counted("staleness", "group", "staleness", "outcome") if self._asked.buffered else None,
        )


def weight_classes(weight: Floats, together: int) -> Ints | None:
    """Part clients by weight, the heaviest being 0; None where all weigh the same.

    Each class has as many clients as are chosen at once; else it is a tenth, of which the first and the last are of one
    size, or a single client where there are fewer than 20.
    """
    clients = len(weight)
    if clients < 2 or weight.max() == weight.min():
        return None
    size = together if together > 1 else 1 if clients < 2 * TENTH else clients // TENTH
    parts = clients // size if together > 1 or size == 1 else TENTH
    inner = np.rint(np.linspace(size, clients - size, max(parts - 1, 1))).astype(np.int64)
    found = np.empty(clients, dtype=np.int64)
    found[np.argsort(-weight, kind="stable")] = np.searchsorted(inner, np.arange(clients), side="right")
    return found


def share_margins(counts: Ints | Floats) -> Floats | None:
    """Return half of the 95 % interval of each column's share of all (spans, columns), by the spans; None for one."""
    spans, total = len(counts), counts.sum(axis=1, keepdims=True)
    if spans < 2 or not total.any():
        return None
    rest = counts - total * (counts.sum(axis=0) / total.sum())
    error = np.sqrt(np.square(rest).sum(axis=0) * spans / (spans - 1)) / total.sum()
    return np.asarray(half_width(1.0, spans) * error)
