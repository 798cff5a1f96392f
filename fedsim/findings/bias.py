"""What a run shows of bias: the one verdict on groups, time zones, tenths of the clients, and the run as a whole."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

import numpy as np
import polars as pl

from fedsim.analysis.noise import by_chance
from fedsim.analysis.verdict import LEVEL, POWER, compare_shares, effective_draws, evenness, without_replacement
from fedsim.common.arrays import Floats, Ints
from fedsim.common.formatting import count, cut, number
from fedsim.common.intervals import normal_quantile
from fedsim.experiment.cautions import by_day, drawn_together
from fedsim.findings.finished_run import FinishedRun
from fedsim.findings.gathered import FEWEST_DAYS, FEWEST_ROUNDS, TENTH, weight_classes

ROUNDING = 1e-9  # distances below are zero, written with the rounding errors of their sums
FEW = 30  # no ratio is said of fewer counts on either side
_MOST_PARTS = 1_000  # more groups or time zones than these are not compared
_LONGEST = 40  # characters of a name that are shown
NORMAL = 1.96
_HOMES = ("group", "zone")
_KINDS = (*_HOMES, "weight", "speed", "availability")  # in which the verdict looks at them


class Seen(Enum):
    """What there is to be seen of a bias."""

    NO_ROUNDS = "the run has no rounds"
    NOBODY = "nobody took part"
    ALONE = "there is one client"
    UNMEASURED = "the distance from uniform was not measured"
    EVEN = "no client took part more than once more often than another"
    ONCE = "nobody took part twice, and some did not at all"
    UNTESTED = "there are too few rounds or days to test"
    NONE = "chance explains it"
    BIAS = "it is more than chance"


NOBODY = {Seen.NO_ROUNDS, Seen.NOBODY, Seen.ALONE, Seen.UNMEASURED}
"""Where there is nothing to judge."""


@dataclass(frozen=True)
class ClientShare:
    """Some of the clients, and their participation share over their fair share: 1 is even."""

    kind: str  # ``group``, ``zone``, ``weight``, ``speed`` or ``availability``
    name: str  # as a person gave it, or what the tenth is called
    size: float  # share of the clients
    taken: int  # reports that were taken
    times: float  # the participation share over the fair share
    # The interval of that, at the level of this look, and the least difference from 1 that is told four times in five
    low: float = 0.0
    high: float = math.inf
    visible: float = math.inf
    told: bool = False  # whether it differs from 1 by more than chance
    level: float = LEVEL  # at which that was judged, with a correction for the other looks

    @property
    def words(self) -> str:
        """The part, as a sentence names it."""
        own = f"“{cut(self.name, _LONGEST)}”"
        return {"group": own, "zone": self.name}.get(self.kind, f"the {self.name}")


@dataclass(frozen=True)
class Bias:
    """How far participation is from uniform, as total variation distance (TV), and whether that is more than chance."""

    seen: Seen
    measured: float = 0.0  # TV of this run
    fair: float = 0.0  # TV of as many reports with equal chances for everybody
    corrected: float | None = None  # TV without what noise adds; None where too few rounds or days tell
    low: float = 0.0  # ends of the interval of that; from 0, where the whole is not told from chance
    high: float = 1.0
    whole: bool = False  # whether the distance is more than chance
    more_even: bool = False  # whether participation is more even than equal chances make it
    visible: float | None = None  # the least TV that is told from chance four times in five
    parts: tuple[ClientShare, ...] = ()
    why: str = ""  # why nothing is tested, where that is so

    @property
    def tv(self) -> float:
        """The distance without noise, or as it was measured where that is not known."""
        return self.measured if self.corrected is None else self.corrected

    def of(self, kind: str) -> tuple[ClientShare, ...]:
        """Return the parts of a kind, in their order."""
        return tuple(part for part in self.parts if part.kind == kind)

    @property
    def far(self) -> tuple[ClientShare, ClientShare] | None:
        """The groups that differ most, the higher one first, tested or not; None where it is by less than twice."""
        groups = sorted((each for each in self.of("group") if each.taken >= FEW), key=lambda each: each.times)
        return (groups[-1], groups[0]) if groups and groups[-1].times > 2 * groups[0].times else None

    @property
    def contrast(self) -> tuple[ClientShare, ClientShare] | None:
        """The two parts of a kind that differ most, where one of them is told from even; the higher one first.

        What a person set goes before what is found in the run itself: tenths by speed and by available time.
        """
        found = list[tuple[float, ClientShare, ClientShare]]()
        for kind in _KINDS:
            if found and kind in {"speed", "availability"}:
                break
            parts = self.of(kind)
            if any(part.told for part in parts):
                high, low = max(parts, key=lambda each: each.times), min(parts, key=lambda each: each.times)
                found.append((math.inf if not low.times else high.times / low.times, high, low))
        return max(found, key=lambda each: each[0])[1:] if found else None


def bias_of(run: FinishedRun) -> Bias:
    """Judge the parts of a run and the whole: at most 5 % of runs with equal chances for everybody are told biased."""
    counts, metric, scenario = run.clients["participations"].to_numpy(), run.metrics.get, run.scenario
    taken, clients, known = int(counts.sum()), len(counts), metric("participation.l1_uniform")
    if run.rounds.is_empty():
        return Bias(Seen.NO_ROUNDS)
    if not taken or clients < 2 or known is None:
        return Bias(Seen.NOBODY if not taken else Seen.ALONE if clients < 2 else Seen.UNMEASURED)
    measured, fair = known / 2, by_chance(taken, clients) / 2
    once, regular = bool(counts.max() == 1), int(counts.max()) - int(counts.min()) <= 1
    if regular and (not once or counts.min() == 1 or scenario.server.selection.kind in _IN_TURN):
        return Bias(Seen.EVEN, measured, fair, more_even=True)
    system = _System.of(run)
    wide, narrow, visible = _whole(run, system, counts)
    even = narrow <= LEVEL / 2
    corrected = metric("participation.l1_uniform_corrected") if system.noise_known else None
    low, high = (min(1.0, metric(f"participation.l1_uniform_{end}", 0.0) / 2) for end in ("low", "high"))
    parts = tuple(_parts(run, system, wide))
    seen = Seen.BIAS if wide or any(part.told for part in parts) else Seen.ONCE if once else Seen.NONE
    if seen is Seen.NONE and visible is None and not any(math.isfinite(part.visible) for part in parts):
        seen = Seen.UNTESTED
    lasting = None if corrected is None or once else corrected / 2
    why = system.why or "too few reports"
    return Bias(seen, measured, fair, lasting, low if wide else 0.0, high, wide, even, visible, parts, why)


_IN_TURN = {"cyclic", "age"}  # laws that take clients in turn, so that nothing is random where all are available
_NOT_ALONE = {*_IN_TURN, "stratified"}  # laws whose rounds are not independent of each other


@dataclass(frozen=True)
class _System:
    """What is known of how chance works in a run."""

    steady: bool  # clients are always available and drawn in rounds: chance does no more than independent draws
    independent: bool  # rounds are independent of each other too
    together: int  # clients that are drawn at once
    left: float  # variance of draws without replacement over that of draws with it
    spans: int  # spans of rounds or days by which chance is judged; 0 where there are too few
    by_day: bool

    @classmethod
    def of(cls, run: FinishedRun) -> "_System":
        scenario, clients = run.scenario, run.clients
        steady = scenario.always_available and scenario.server.selects_once
        rests = bool((clients["separation"] > 0).any() or (clients["cooldown_s"] > 0).any())
        capped = any(group.participations is not None for group in scenario.population)
        independent = steady and not rests and not capped and scenario.server.selection.kind not in _NOT_ALONE
        together, spans = drawn_together(scenario), run.gathered.by_home
        left = without_replacement(run.rounds["reported"].to_numpy(), len(clients), together)
        clocked, known = by_day(scenario), 0 if spans is None else int((spans.sum(axis=1) > 0).sum())
        return cls(steady, independent, together, left, known if known >= FEWEST_DAYS else 0, clocked)

    @property
    def noise_known(self) -> bool:
        """Whether the run itself tells the noise of its frequencies."""
        return self.spans > 0 or not self.by_day

    @property
    def why(self) -> str:
        """Why chance cannot be judged; empty where it can."""
        if self.steady or self.spans:
            return ""
        return f"fewer than {FEWEST_DAYS} days" if self.by_day else f"fewer than {FEWEST_ROUNDS} rounds"


def _whole(run: FinishedRun, system: _System, counts: Ints) -> tuple[bool, float, float | None]:
    """Return whether the whole is told biased, how probable so even a spread is, and the least TV that is told."""
    wider, narrower = evenness(counts, system.left, system.together)
    level = LEVEL / 2 if system.independent else LEVEL / 4
    quantile = -float(normal_quantile(level))
    told, visible = system.steady and wider <= level, None
    if system.steady:
        units = len(counts) / system.together
        square = (quantile + POWER) * math.sqrt(2 * max(units - 1, 1)) * system.left * system.together
        visible = min(1.0, 0.4 * math.sqrt(square / int(counts.sum())))
    corrected, high = (run.metrics.get(f"participation.l1_uniform_{name}") for name in ("corrected", "high"))
    if not system.independent and system.noise_known and corrected is not None and high is not None:
        error = (high**2 - corrected**2) / NORMAL
        told = told or corrected**2 > quantile * error + ROUNDING
        seen = min(1.0, math.sqrt(max(0.0, (quantile + POWER) * error)) / 2)
        visible = seen if visible is None else min(seen, visible)
    return told, narrower, visible


@dataclass(frozen=True, eq=False)
class ClientParts:
    """A way to part the clients, with a row for each part: arrays have an entry a row."""

    kind: str  # ``group``, ``zone``, ``weight``, ``availability`` or ``speed``
    noun: str  # what a row is
    names: tuple[str, ...]
    sizes: Floats  # the share of the clients that each has
    taken: Floats  # its share of the reports
    draws: float  # how many there were
    part: Ints | None = None  # the row of each client; None of tenths, at whose ends clients have a part in two
    spans: Ints | None = None  # (spans, rows): reports by span of the run; None where these are not known
    theory: Floats | None = None  # what theory says of `shares`; None where it says nothing
    ends: Floats | None = None  # (2, rows): those of the intervals by which `shares` are judged; None where none is

    @property
    def shares(self) -> Floats:
        """The share of the reports over that of the clients."""
        return self.taken / self.sizes

    @property
    def chance(self) -> Floats:
        """How far from 1 equal chances would put 19 of 20 shares at most."""
        return np.asarray(NORMAL * np.sqrt((1 - self.sizes) / (self.sizes * self.draws)))


def parts_of(run: FinishedRun) -> Iterator[ClientParts]:
    """Yield the ways to part the clients that the run has: by group, zone, weight, available time and speed."""
    clients, gathered, together = run.clients, run.gathered, drawn_together(run.scenario)
    counts, weight, pi = (clients[name].to_numpy() for name in ("participations", "weight", "pi"))
    total = int(counts.sum())
    if not total:
        return

    def rows(kind: str, noun: str, names: Iterable[str], part: Ints, spans: Ints | None) -> ClientParts:
        sizes, taken = np.bincount(part) / len(part), np.bincount(part, counts) / total
        theory = None if np.isnan(pi).any() else np.bincount(part, pi) / sizes
        return ClientParts(kind, noun, tuple(names), sizes, taken, total / together, part, spans, theory)

    zones = clients["time_zone"].n_unique()
    homes = clients.select("group", "time_zone").n_unique() if min(zones, run.groups) > 1 else max(zones, run.groups)
    columns = ("group", "group", "group", run.groups), ("zone", "time zone", "time_zone", zones)
    for kind, noun, column, parts in columns:
        if parts > 1 and not (kind == "zone" and homes == run.groups == parts):
            numbers = clients.select(pl.col(column).unique(maintain_order=True)).with_row_index("part")
            spans = gathered.by_home if set(gathered.homes[column]) == set(numbers[column]) else None
            if spans is not None:
                of_home = _numbered(gathered.homes, numbers)
                spans = np.stack([np.bincount(of_home, row, parts) for row in spans]).astype(np.int64)
            yield rows(kind, noun, map(str, numbers[column]), _numbered(clients, numbers), spans)
    if (classes := weight_classes(weight, together)) is not None:
        noun = "group" if together > 1 else "tenth" if len(clients) >= 2 * TENTH else "client"
        names = [f"client {each}" for each in np.argsort(-weight, kind="stable")] if noun == "client" else None
        ends = names or _between(f"heaviest {noun}", f"lightest {noun}", int(classes.max()) + 1)
        yield rows("weight", noun, ends, classes, gathered.by_weight)
    for kind, most, least in (("availability", "most available", "least available"), ("speed", "fastest", "slowest")):
        found = [run.metrics.get(f"participation.by_{kind}.{tenth}") for tenth in range(TENTH, 0, -1)]
        taken = np.array([each for each in found if each is not None]) / TENTH
        if len(taken) == TENTH:
            sizes = np.full(TENTH, 1 / TENTH)
            yield ClientParts(kind, "tenth", _between(most, least, TENTH), sizes, taken, total / together)


def _numbered(table: pl.DataFrame, numbers: pl.DataFrame) -> Ints:
    """Return the number of each row's name."""
    found = table.join(numbers, on=numbers.columns[1], how="left", nulls_equal=True, maintain_order="left")
    return found["part"].cast(pl.Int64).to_numpy()


def _between(first: str, last: str, rows: int) -> tuple[str, ...]:
    return (first, *map(str, range(2, rows)), last)


def _parts(run: FinishedRun, system: _System, wide: bool) -> Iterator[ClientShare]:
    """Judge all parts together; by weight and of tenths those at both ends."""
    total, rows = int(run.clients["participations"].sum()), list[tuple[str, str, float, float, float, float]]()
    for each in sorted(parts_of(run), key=lambda each: _KINDS.index(each.kind)):
        if len(each.names) > _MOST_PARTS and each.kind in _HOMES:
            continue
        if each.kind == "weight" and not system.spans and not system.steady:
            continue
        draws, degrees = _draws(run, system, each, wide)
        if each.kind == "weight":
            places = {0: f"heaviest {each.noun}", -1: f"lightest {each.noun}"}
        elif each.kind in _HOMES:
            places = dict(enumerate(each.names))
        else:
            places = {-1: f"{each.names[-1]} tenth", 0: f"{each.names[0]} tenth"}
        rows += [(each.kind, name, each.sizes[k], each.taken[k], draws[k], degrees) for k, name in places.items()]
    if not rows:
        return
    size, share, draws, degrees = np.array([figures for _, _, *figures in rows]).T
    judged = draws > 0
    looks = iter(compare_shares(share[judged], size[judged], draws[judged], degrees[judged], LEVEL / 2))
    for (kind, name, *_), known, own, of in zip(rows, judged, size.tolist(), share.tolist(), strict=True):
        part = ClientShare(kind, name, own, round(of * total), of / own)
        if known:
            look = next(looks)
            part = replace(part, low=look.low / own, high=look.high / own, visible=look.visible / own, told=look.told)
            part = replace(part, level=look.level)
        yield part


def _draws(run: FinishedRun, system: _System, each: ClientParts, wide: bool) -> tuple[Floats, float]:
    """Return how many independent draws know as much of each part, 0 where nothing is known; and degrees of freedom.

    Tenths are compared with tenths taken at random. Who was available for long in a run took part more often in it,
    even where all are alike in the long run: tenths by available time tell of a bias only where the whole run does.
    """
    counts, draws, degrees = run.clients["participations"].to_numpy(), np.zeros(len(each.names)), 1e6
    taken = int(counts.sum())
    if each.part is None:
        if system.noise_known and (each.kind == "speed" or wide):
            spread = float(counts.var() / counts.mean() ** 2)
            apart = spread * (TENTH - 1) / TENTH * TENTH * system.together / len(counts)
            draws = np.full(TENTH, (TENTH - 1) / apart)
        return draws, degrees
    if system.spans and each.spans is not None and not system.independent:
        between = None
        if system.by_day and each.kind in _HOMES:
            own = pl.DataFrame({"part": each.part, "counts": counts}).group_by("part").agg(pl.col("counts").var())
            variance = own.sort("part")["counts"].fill_null(0).to_numpy()
            between = np.bincount(each.part) * variance / taken**2
        draws, degrees = effective_draws(each.spans, between), len(each.spans) - 1
    if system.steady:
        draws = np.maximum(draws, taken / system.together / max(system.left, 1e-9))
    return draws, degrees


def contrast_words(high: ClientShare, low: ClientShare) -> str:
    """Say who takes part how much more often than whom; no ratio is said of fewer than 30 reports on either side."""
    group = high.kind == "group"
    one, other = (f"a client of {each.words}" if group else each.words for each in (high, low))
    less = f"one of {low.words}" if group else other
    if not low.taken and low.told:
        return f"{other} never takes part"
    one = f"by selection weight, {one}" if high.kind == "weight" else one
    if min(high.taken, low.taken) >= FEW:
        times = high.times / low.times
        many = count(times) if times >= TENTH else number(times, 2 if times >= 1.1 else 3)
        return f"{one} takes part {many} times as often as {less}"
    if min(high.taken, high.taken / high.times) >= FEW:
        return f"{one} takes part {number(high.times, 2)} times its fair share"
    return f"{one} takes part more often than {less}"


class TenthShares(NamedTuple):
    """The share of all participations that goes to the tenth of the clients that took part most."""

    most: float
    most_by_chance: float  # under equal chances for everybody, which also put some clients above others


def tenth_shares(run: FinishedRun) -> TenthShares | None:
    """Compare the busiest tenth of the clients with chance; None below 20 clients, or where nobody took part."""
    counts = np.sort(run.clients["participations"].to_numpy())
    size, taken = len(counts) // TENTH, int(counts.sum())
    if size < 2 or not taken:
        return None
    possible, reached = fair_counts(taken, len(counts))
    within = np.minimum(np.cumsum(np.diff(reached, prepend=0.0)[::-1]), size / len(counts))
    by_chance = possible[::-1] @ np.diff(within, prepend=0.0) * len(counts) / taken
    return TenthShares(float(counts[-size:].sum() / taken), float(by_chance))


def fair_counts(taken: int, clients: int) -> tuple[Ints, Floats]:
    """Return the counts that a client can have in a fair lottery, and the probabilities of no more than each."""
    share = 1 / clients
    mean = taken * share
    far = 12 * np.sqrt(mean) + 40
    counts = np.arange(max(0, int(mean - far)), min(taken, int(mean + far)) + 1)
    more = np.log((taken - counts[:-1]) / (counts[:-1] + 1) * share / (1 - share)) if clients > 1 else np.zeros(0)
    logarithms = np.concatenate([[0.0], np.cumsum(more)])
    weights = np.exp(logarithms - logarithms.max())
    return counts, np.cumsum(weights) / weights.sum()


def never_by_chance(taken: int, clients: int) -> float:
    """Return the share of N clients that as many participations with equal chances would leave out."""
    return math.exp(taken * math.log1p(-1 / clients)) if clients > 1 else float(not taken)
