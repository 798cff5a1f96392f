"""What a report needs of the participations, gathered in one pass: the table itself may be too large to keep."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from fedsim.analysis.contributions import Contributions, Counter
from fedsim.common.arrays import Floats, Ints
from fedsim.common.files import slices
from fedsim.experiment.cautions import drawn_together
from fedsim.log import BUFFERED
from fedsim.population import Population, residence
from fedsim.scenario import Scenario

SLOT_S = 900.0
"""Seconds into which the starts of sessions are gathered: the offset of every time zone is a multiple of it."""

_HOME = ("group", "time_zone")
_REPORTS = {"taken": "reported", "discarded": "stale"}
_BITS = 40  # of the number of a pair; the others are of its kind
_DENSE = 1 << 20  # pairs that are counted in an array with an element for each, and that are held at most
_NEEDED = ("client", "round", "selected_s", "ended_s", "outcome", "gap")
POINTS = 160  # at most so many points of one line: about three pixels each in the page
SPANS = 20  # equal spans of the rounds in which turns are counted
TENTH = 10
"""The heaviest and the lightest of so many equal parts are compared; of fewer than twice as many clients, one each."""


@dataclass(frozen=True)
class Gathered:
    """The participations, gathered."""

    outcomes: pl.DataFrame  # ``outcome``, ``len``: how sessions ended
    gaps: pl.DataFrame  # ``separation``, ``gap``, ``len``: rounds since a client's last participation, by its R
    starts: pl.DataFrame  # ``group``, ``time_zone``, ``slot``, ``len``: sessions begun, by quarters of an hour
    firsts: pl.DataFrame  # ``first_s``: when each client that reported was selected for its first report, in order
    # ``client``, ``round``, ``selected_s``, ``ended_s``, ``outcome``: all sessions of the clients asked for
    chosen: pl.DataFrame
    # (20, 2) reports of the heaviest and of the lightest clients by span; None where all weigh the same
    turns: Ints | None = None
    # How often and how far apart clients contributed; None where nothing is promised of that
    contributions: Contributions | None = None
    buffered: "BufferedSessions | None" = None  # the sessions of a buffered server; None where it runs rounds


@dataclass(frozen=True)
class Asked:
    """What is asked of the participations of a run beside what is of every run."""

    chosen: Sequence[int] = ()  # clients whose sessions are wanted one by one
    # Clients that are chosen together: how many of the heaviest and the lightest are compared, where it is not 1
    together: int = 1
    rounds: int | None = None  # how many rounds there are; None where no turns are asked for
    promised: bool = False  # whether something is promised of contributions
    simulated_s: float | None = None  # when the run of a buffered server ended; None where it runs rounds

    @classmethod
    def of(
        cls, scenario: Scenario, transitions: pl.DataFrame | None, rounds: pl.DataFrame, simulated_s: float
    ) -> "Asked":
        """Return what the page of a run asks."""
        return cls(
            [] if transitions is None else transitions["client"].unique().to_list(),
            drawn_together(scenario),
            1 + int(rounds["round"].to_numpy().max(initial=0)),
            scenario.privacy is not None,
            None if scenario.server.concurrency is None else simulated_s,
        )


def gather(participations: pl.LazyFrame, clients: pl.DataFrame, asked: Asked = Asked()) -> Gathered:
    """Gather the participations of a run directory, whose clients have a group, a separation and a weight.

    Clients are numbered from 0 on; participations of others than these are left out.

    Raises
    ------
    polars.exceptions.PolarsError, OSError
        The table cannot be read.
    """
    clients = clients.sort("client")
    homes = clients.select(_HOME).unique(maintain_order=True)
    home = clients.join(homes.with_row_index("home"), on=_HOME, how="left", nulls_equal=True, maintain_order="left")
    weight = clients["weight"].to_numpy() if asked.rounds is not None else np.empty(0)
    needed = (*_NEEDED, *(() if asked.simulated_s is None else ("staleness",)))
    empty = participations.select(needed).head(0).collect()
    gatherer = Gatherer(clients["separation"].to_numpy(), weight, homes, home["home"].to_numpy(), asked, empty)
    for part in slices(participations, *needed):
        gatherer.add(part.filter(pl.col("client") < len(clients)))
    return gatherer.gathered()


def gatherer_of(population: Population, asked: Asked) -> "Gatherer":
    """Return what gathers the participations of a population as they are measured."""
    living = residence(population)
    names = (
        [population.group_names[each] for each in living.group],
        [population.zone_names[each] for each in living.zone],
    )
    homes = pl.DataFrame(dict(zip(_HOME, names, strict=True)), schema=dict.fromkeys(_HOME, pl.String))
    empty = pl.DataFrame(schema=BUFFERED)
    return Gatherer(population.separation, population.weight, homes, living.of_client, asked, empty)


class Gatherer:
    """Gathers participations, part by part.

    `separation` and `weight` (N,) are those of the clients, and `home` (N,) is the row of each in `homes`, a group and
    a time zone each. `empty` has no participations, but the types of their columns.
    """

    def __init__(
        self, separation: Ints, weight: Floats, homes: pl.DataFrame, home: Ints, asked: Asked, empty: pl.DataFrame
    ) -> None:
        self._asked, self._home = asked, home.astype(np.int64, copy=False)
        self._homes = homes.with_columns(home=pl.int_range(len(homes), dtype=pl.Int64))
        self._separations, self._kind = np.unique(separation, return_inverse=True)
        self._weight_class = None if asked.rounds is None else _weight_classes(weight, asked.together)
        self._turns = np.zeros(3 * SPANS, dtype=np.int64)
        self._counter = Counter(len(separation)) if asked.promised else None
        self._first_s = np.full(len(separation), np.inf)
        self._gaps, self._starts = _Pairs(len(self._separations)), _Pairs(len(homes))
        self._reports = {way: _Pairs(len(homes)) for way in _REPORTS}
        self._outcomes: list[pl.DataFrame] = []
        self._sessions: list[pl.DataFrame] = []
        # Of beginnings and ends in each span of a buffered server's run: how many there are, and the sum of their times
        self._number, self._sum_s = np.zeros((2, 2, POINTS + 1))
        self.add(empty)  # the tables have their types, however few participations there are

    @property
    def _width_s(self) -> float:
        return max(self._asked.simulated_s or 0.0, 1e-9) / POINTS

    def add(self, part: pl.DataFrame) -> None:
        """Take the next participations."""
        if self._counter is not None:
            self._counter.add(part)
        client = part["client"].to_numpy()
        home = self._home[client]
        self._outcomes.append(part.group_by("outcome").len())
        self._gaps.add(self._kind[client], part["gap"])
        self._starts.add(home, (part["selected_s"] / SLOT_S).floor())
        self._sessions.append(part.filter(pl.col("client").is_in(self._asked.chosen)).select(_NEEDED[:-1]))
        taken = (part["outcome"].cast(pl.String) == "reported").to_numpy()
        np.minimum.at(self._first_s, client[taken], part["selected_s"].fill_null(np.inf).to_numpy()[taken])
        if self._weight_class is not None and self._asked.rounds is not None:
            span = np.clip(part["round"].cast(pl.Int64).to_numpy() * SPANS // self._asked.rounds, 0, SPANS - 1)
            self._turns += np.bincount((3 * span + self._weight_class[client])[taken], minlength=len(self._turns))
        if self._asked.simulated_s is not None:
            for way, outcome in _REPORTS.items():
                own = part["outcome"] == outcome
                self._reports[way].add(home[own.to_numpy()], part["staleness"].filter(own))
            for row, name in enumerate(("selected_s", "ended_s")):
                time_s = part[name].drop_nulls().to_numpy()
                slot = np.clip(np.ceil(time_s / self._width_s), 0, POINTS).astype(np.int64)
                self._number[row] += np.bincount(slot, minlength=POINTS + 1)
                self._sum_s[row] += np.bincount(slot, time_s, POINTS + 1)

    def gathered(self) -> Gathered:
        """Return what was gathered."""
        gaps = self._gaps.counts("separation", "gap")
        starts = self._starts.counts("home", "slot").join(self._homes, on="home").select(*_HOME, "slot", "len")
        return Gathered(
            pl.concat(self._outcomes).group_by("outcome").agg(pl.col("len").sum()).sort("outcome"),
            gaps.with_columns(separation=self._separations[gaps["separation"].to_numpy()]),
            starts.sort(*_HOME, "slot"),
            pl.DataFrame({"first_s": np.sort(self._first_s[np.isfinite(self._first_s)])}),
            pl.concat(self._sessions).sort("client", "round"),
            None if self._weight_class is None else self._turns.reshape(SPANS, 3)[:, :2],
            None if self._counter is None else self._counter.contributions(),
            None if self._asked.simulated_s is None else self._buffered(),
        )

    def _buffered(self) -> "BufferedSessions":
        found = (each.counts("home", "staleness").rename({"len": way}) for way, each in self._reports.items())
        counts = pl.concat(found, how="diagonal").join(self._homes, on="home")
        reports = counts.group_by("group", "staleness").agg(pl.col(*_REPORTS).sum().cast(pl.Int64))
        # By time t, sessions have run sum (t - begin) - sum (t - end) seconds in all.
        time_s = self._width_s * np.arange(POINTS + 1.0)
        begun_s, ended_s = time_s * np.cumsum(self._number, axis=1) - np.cumsum(self._sum_s, axis=1)
        running = np.maximum(np.diff(begun_s - ended_s) / self._width_s, 0.0)
        return BufferedSessions(reports.sort("group", "staleness"), time_s[1:], running)


def _weight_classes(weight: Floats, together: int) -> Ints | None:
    """Return 0 for the heaviest clients, 1 for the lightest and 2 for the others; None where all weigh the same."""
    if len(weight) < 2 or weight.max() == weight.min():
        return None
    order = np.argsort(-weight, kind="stable")
    size = together if together > 1 else len(weight) // TENTH if len(weight) >= 2 * TENTH else 1
    found = np.full(len(weight), 2)
    found[order[:size]], found[order[-size:]] = 0, 1
    return found


class _Pairs:
    """Counts pairs of a kind (0 to `kinds` - 1) and a whole number."""

    def __init__(self, kinds: int) -> None:
        self._kinds = kinds
        self._counted: list[tuple[Ints, Ints]] = []  # pairs as one number each, and how often they came

    def add(self, kind: Ints, values: pl.Series) -> None:
        """Take some more pairs; those whose value is null are left out."""
        kind, value = kind[values.is_not_null().to_numpy()], values.drop_nulls().cast(pl.Int64).to_numpy()
        span = int(value.max(initial=0)) + 1
        if self._kinds * span <= _DENSE:
            often = np.bincount(kind * span + value)
            places = np.flatnonzero(often)
            self._counted.append(((places // span << _BITS) + places % span, often[places]))
        else:
            self._counted.append(np.unique((kind << _BITS) + value, return_counts=True))
        if sum(len(pairs) for pairs, _ in self._counted) > _DENSE:
            self._counted = [self._together()]

    def _together(self) -> tuple[Ints, Ints]:
        pairs, often = map(np.concatenate, zip(*self._counted, strict=True))
        found, place = np.unique(pairs, return_inverse=True)
        return found, np.bincount(place, often).astype(np.int64)

    def counts(self, kind: str, value: str) -> pl.DataFrame:
        """Return the kinds, the numbers, and how often each pair came (``len``), in the order of both."""
        pairs, often = self._together()
        return pl.DataFrame({kind: pairs >> _BITS, value: pairs & ((1 << _BITS) - 1), "len": often.astype(np.uint32)})


@dataclass(frozen=True)
class BufferedSessions:
    """The sessions of a buffered server, gathered."""

    # ``group``, ``staleness``, ``taken``, ``discarded``: reports, by how many versions they were late
    staleness: pl.DataFrame
    time_s: Floats  # ends of equal spans of the run, the first of which begins at 0
    running: Floats  # how many sessions ran in each span, on average
