"""What a report needs of the participations, gathered in one pass: the table itself may be too large to keep."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsim.analysis.contributions import Contributions, Counter
from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.row_groups import slices
from fedsim.experiment.cautions import drawn_together
from fedsim.log import PARTICIPATIONS
from fedsim.population import Population, residence
from fedsim.report.binning import POINTS
from fedsim.scenario import Scenario

SLOT_S = 900.0
"""Seconds into which the starts of sessions are gathered: the offset of every time zone is a multiple of it."""

_HOME = ("group", "time_zone")
_REPORTS = {"taken": "reported", "discarded": "stale"}
_BITS, _MIDDLE = 40, 1 << 39
# Pairs that are counted in an array with an element for each, and that are held before they are put together
_DENSE = 1 << 20
_MANY = 100  # tables of outcomes that are held before they are put together
_NEEDED = ("client", "round", "selected_s", "ended_s", "outcome", "gap")
SPANS = 20  # equal spans of the rounds in which turns are counted
TENTH = 10
"""The heaviest and the lightest of so many equal parts are compared; of fewer than twice as many clients, one each."""


@dataclass(frozen=True)
class Gathered:
    """The participations, gathered."""

    outcomes: pl.DataFrame  # ``outcome``, ``len``: how sessions ended
    gaps: pl.DataFrame  # ``separation``, ``gap``, ``len``: rounds since a client's last participation, by its R
    starts: pl.DataFrame  # ``group``, ``time_zone``, ``slot``, ``len``: sessions begun, by quarters of an hour
    firsts: pl.DataFrame  # ``first_s``: when each client that took part did so first, in ascending order
    # ``client``, ``round``, ``selected_s``, ``ended_s``, ``outcome``: all sessions of the clients asked for
    chosen: pl.DataFrame
    # (20, 2) participations of the heaviest and of the lightest clients by span; None where all weigh the same
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

    Raises
    ------
    polars.exceptions.PolarsError, OSError
        The table cannot be read.
    """
    # What is known of each client is looked up by its row: a join would go through all clients for every part.
    homes = clients.select(_HOME).unique()
    of_client = clients if _numbered(clients["client"].to_numpy()) else clients.sort("client")
    home = None
    if len(homes) > 1:
        numbers = homes.with_row_index("home")
        joined = of_client.select(_HOME).join(numbers, on=_HOME, how="left", nulls_equal=True, maintain_order="left")
        home = joined["home"].cast(pl.Int64).to_numpy()
    needed = (*_NEEDED, *(() if asked.simulated_s is None else ("staleness",)))
    empty = participations.select(needed).head(0).collect()
    client, separation = (of_client[name].to_numpy() for name in ("client", "separation"))
    weight = clients["weight"].to_numpy() if asked.rounds is not None else np.empty(0)
    gatherer = Gatherer(client, separation, weight, homes, home, asked, empty)
    for part in slices(participations, *needed):
        gatherer.add(part)
    return gatherer.gathered()


def gatherer_of(population: Population, asked: Asked) -> "Gatherer":
    """Return what gathers the participations of a population as they are measured."""
    living = residence(population)
    names = (
        [population.group_names[each] for each in living.group],
        [population.zone_names[each] for each in living.zone],
    )
    return Gatherer(
        np.arange(len(population)),
        population.separation,
        population.weight,
        pl.DataFrame(dict(zip(_HOME, names, strict=True)), schema=dict.fromkeys(_HOME, pl.String)),
        living.of_client if len(living.group) > 1 else None,
        asked,
        pl.DataFrame(schema={name: PARTICIPATIONS[name] for name in _NEEDED}),
    )


class Gatherer:
    """Gathers participations, part by part.

    `client` (N,) has the numbers of the clients in ascending order, `separation` and `weight` (N,) are theirs, and
    `home` (N,) is the row of each in `homes`, a group and a time zone each; None where there is one home. `empty` has
    no participations, but the types of their columns.
    """

    def __init__(
        self,
        client: Ints,
        separation: Ints,
        weight: Floats,
        homes: pl.DataFrame,
        home: Ints | None,
        asked: Asked,
        empty: pl.DataFrame,
    ) -> None:
        self._client, self._numbered, self._asked = client, _numbered(client), asked
        self._weight_class = None if asked.rounds is None else _weight_classes(weight, asked.together)
        self._turns = np.zeros(3 * SPANS, dtype=np.int64)
        self._counter = Counter(int(client.max(initial=-1)) + 1) if asked.promised else None
        self._buffered = None if asked.simulated_s is None else _Buffered(asked.simulated_s, len(homes))
        self._separations = np.sort(pl.Series(separation).unique().to_numpy())
        self._kind = np.searchsorted(self._separations, separation) if len(self._separations) > 1 else None
        self._homes, self._home = homes.with_row_index("home"), home
        self._first_s = np.full(len(client), np.inf)
        self._gaps, self._starts = _Pairs(len(self._separations)), _Pairs(len(homes))
        # The tables have their types, however few participations there are.
        self._outcomes, self._unknown_clients = (
            [_outcomes(empty["outcome"])],
            [empty.select("client", first_s="selected_s")],
        )
        self._sessions = [empty.select(_NEEDED[:-1])]

    def add(self, part: pl.DataFrame) -> None:
        """Take the next participations."""
        if self._counter is not None:
            self._counter.add(part)
        row, known = self._rows(part["client"].cast(pl.Int64).to_numpy())
        self._outcomes.append(_outcomes(part["outcome"]))
        if self._asked.chosen:
            self._sessions.append(part.filter(pl.col("client").is_in(self._asked.chosen)).select(_NEEDED[:-1]))
        if known is not None:
            unknown = part.filter(~known).select("client", first_s="selected_s")
            self._unknown_clients.append(_earliest([unknown]))
            part = part.filter(known)
        home = None if self._home is None else self._home[row]
        if self._weight_class is not None:
            assert self._asked.rounds is not None
            span = np.clip(part["round"].cast(pl.Int64).to_numpy() * SPANS // self._asked.rounds, 0, SPANS - 1)
            self._turns += np.bincount(3 * span + self._weight_class[row], minlength=len(self._turns))
        if self._buffered is not None:
            self._buffered.add(home, part)
        slot = (part["selected_s"] / SLOT_S).floor().cast(pl.Int64)
        self._gaps.add(None if self._kind is None else self._kind[row], part["gap"])
        self._starts.add(home, slot)
        np.minimum.at(self._first_s, row, part["selected_s"].fill_null(np.inf).to_numpy())
        if len(self._outcomes) > _MANY:
            self._outcomes, self._unknown_clients = [_summed(self._outcomes)], [_earliest(self._unknown_clients)]

    def _rows(self, those: Ints) -> tuple[Ints, Bools | None]:
        """Return the rows of those clients that are in the table, and which are; None if all are."""
        client = self._client
        if self._numbered and those.min(initial=0) >= 0 and those.max(initial=-1) < len(client):
            return those, None
        row = those if self._numbered else np.searchsorted(client, those)
        found = (row >= 0) & (row < len(client))
        if not self._numbered:
            found[found] = client[row[found]] == those[found]
        return (row, None) if found.all() else (row[found], found)

    def gathered(self) -> Gathered:
        """Return what was gathered."""
        known = self._first_s[np.isfinite(self._first_s)]
        firsts = np.concatenate([known, _earliest(self._unknown_clients)["first_s"].to_numpy()])
        of_kind, gap, often = self._gaps.counts()
        of_home, slot, begun = self._starts.counts()
        return Gathered(
            _summed(self._outcomes).sort("outcome"),
            pl.DataFrame({"separation": self._separations[of_kind], "gap": gap, "len": often}),
            pl.DataFrame({"home": of_home, "slot": slot, "len": begun}, schema_overrides={"home": pl.UInt32})
            .join(self._homes, on="home")
            .select(*_HOME, "slot", "len")
            .sort(*_HOME, "slot"),
            pl.DataFrame({"first_s": np.sort(firsts)}),
            pl.concat(self._sessions).sort("client", "round"),
            None if self._weight_class is None else self._turns.reshape(SPANS, 3)[:, :2],
            None if self._counter is None else self._counter.contributions(),
            None if self._buffered is None else self._buffered.sessions(self._homes),
        )


def _weight_classes(weight: Floats, together: int) -> Ints | None:
    """Return 0 for the heaviest clients, 1 for the lightest and 2 for the others; None where all weigh the same."""
    if len(weight) < 2 or weight.max() == weight.min():
        return None
    order = np.argsort(-weight, kind="stable")
    size = together if together > 1 else len(weight) // TENTH if len(weight) >= 2 * TENTH else 1
    found = np.full(len(weight), 2)
    found[order[:size]], found[order[-size:]] = 0, 1
    return found


def _numbered(client: Ints) -> bool:
    """Say whether clients are numbered from 0 on without a gap, each in the row of its number."""
    return bool((client == np.arange(len(client))).all())


def _outcomes(outcome: pl.Series) -> pl.DataFrame:
    """Count each outcome: nearly all are ``reported``, so only the others are grouped."""
    most = outcome.eq_missing("reported")
    others = outcome.filter(~most).alias("outcome").to_frame().group_by("outcome").len()
    taken = pl.DataFrame({"outcome": ["reported"], "len": [most.sum()]}, schema=others.schema)
    return pl.concat([taken.filter(pl.col("len") > 0), others])


def _summed(outcomes: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(outcomes).group_by("outcome").agg(pl.col("len").sum())


def _earliest(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return when each client of these ``client``, ``first_s`` tables took part first."""
    return pl.concat(parts).drop_nulls("first_s").group_by("client").agg(pl.col("first_s").min())


class _Pairs:
    """Counts pairs of a kind (0 to `kinds` - 1) and a whole number; with one kind, kinds are given as None."""

    def __init__(self, kinds: int) -> None:
        self._kinds = kinds
        self._waiting: list[tuple[Ints, Ints]] = []  # pairs as one number each, and how often they came
        self._held = 0

    def add(self, kind: Ints | None, values: pl.Series) -> None:
        """Take some more pairs; those whose value is null are left out."""
        if values.null_count():
            kind = None if kind is None else kind[values.is_not_null().to_numpy()]
            values = values.drop_nulls()
        value = values.cast(pl.Int64).to_numpy()
        if not len(value):
            return
        least = int(value.min())
        span = int(value.max()) - least + 1
        if self._kinds * span <= _DENSE:
            often = np.bincount(value - least if kind is None else kind * span + (value - least))
            places = np.flatnonzero(often)
            pairs, counts = (places // span << _BITS) + (places % span + least + _MIDDLE), often[places]
        else:
            every = value + _MIDDLE if kind is None else (kind << _BITS) + (value + _MIDDLE)
            pairs, counts = np.unique(every, return_counts=True)
        self._waiting.append((pairs, counts))
        self._held += len(pairs)
        if self._held > _DENSE:
            self._waiting = [self._together()]

    def _together(self) -> tuple[Ints, Ints]:
        nothing = np.empty(0, dtype=np.int64)
        pairs, counts = map(np.concatenate, zip((nothing, nothing), *self._waiting, strict=True))
        found, place = np.unique(pairs, return_inverse=True)
        summed = np.zeros(len(found), dtype=np.int64)
        np.add.at(summed, place, counts)
        self._held = 0
        return found, summed

    def counts(self) -> tuple[Ints, Ints, NDArray[np.uint32]]:
        """Return the kinds, the numbers, and how often each pair came, in the order of both."""
        pairs, counts = self._together()
        return pairs >> _BITS, (pairs & ((1 << _BITS) - 1)) - _MIDDLE, counts.astype(np.uint32)


@dataclass(frozen=True)
class BufferedSessions:
    """The sessions of a buffered server, gathered."""

    # ``group``, ``staleness``, ``taken``, ``discarded``: reports, by how many versions they were late
    staleness: pl.DataFrame
    time_s: Floats  # ends of equal spans of the run, the first of which begins at 0
    running: Floats  # how many sessions ran in each span, on average


class _Buffered:
    """Gathers the sessions of a buffered server whose run ended after so many seconds, and clients of so many homes."""

    def __init__(self, simulated_s: float, homes: int) -> None:
        self._width = max(simulated_s, 1e-9) / POINTS
        self._reports = {name: (outcome, _Pairs(homes)) for name, outcome in _REPORTS.items()}
        self._number, self._sum_s = np.zeros((2, POINTS + 1)), np.zeros((2, POINTS + 1))

    def add(self, home: Ints | None, part: pl.DataFrame) -> None:
        """Take the next participations, of clients with these homes."""
        outcome = part["outcome"].cast(pl.String)
        for name, pairs in self._reports.values():
            own = (outcome == name).fill_null(value=False)
            pairs.add(None if home is None else home[own.to_numpy()], part["staleness"].filter(own))
        for row, name in enumerate(("selected_s", "ended_s")):
            time_s = part[name].drop_nulls().to_numpy()
            slot = np.clip(np.ceil(time_s / self._width), 0, POINTS).astype(np.int64)
            self._number[row] += np.bincount(slot, minlength=POINTS + 1)
            self._sum_s[row] += np.bincount(slot, time_s, POINTS + 1)

    def sessions(self, homes: pl.DataFrame) -> BufferedSessions:
        """Return what was gathered."""
        counted = []
        for name, (_, pairs) in self._reports.items():
            home, staleness, often = pairs.counts()
            columns = {"home": home, "staleness": staleness} | dict.fromkeys(self._reports, 0) | {name: often}
            kinds = dict.fromkeys(("staleness", *self._reports), pl.Int64)
            counted.append(pl.DataFrame(columns, schema={"home": pl.UInt32, **kinds}))
        stale = pl.concat(counted).join(homes, on="home").group_by("group", "staleness")
        # By time t, sessions have run sum (t - begin) - sum (t - end) seconds in all.
        time_s = self._width * np.arange(POINTS + 1.0)
        begun_s, ended_s = time_s * np.cumsum(self._number, axis=1) - np.cumsum(self._sum_s, axis=1)
        running = np.maximum(np.diff(begun_s - ended_s) / self._width, 0.0)
        return BufferedSessions(stale.agg(pl.col(*self._reports).sum()).sort("group", "staleness"), time_s[1:], running)
