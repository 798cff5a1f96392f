"""Who takes part: the shares of groups, time zones and tenths of the clients, and one verdict on them and on the whole.

At most 5 % of runs with equal chances are called biased: half of that is for the whole, and half for all its parts;
of which trends over tenths in order, as Cochran and Armitage test them, have half where there are any.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsim.common.arrays import Floats, Ints
from fedsim.common.formatting import percent
from fedsim.common.intervals import NORMAL, normal_below, normal_quantile, student_quantile
from fedsim.measure.metrics import MOST_GROUPS, metric_part
from fedsim.measure.noise import by_chance
from fedsim.measure.series import FEWEST_DAYS, FEWEST_ROUNDS, TENTH, by_day, by_span, drawn_together, weight_classes
from fedsim.measure.verdict import (
    LEVEL,
    POWER,
    compare_shares,
    effective_draws,
    evenness,
    share_variance,
    without_replacement,
)
from fedsim.scenario import Scenario

ROUNDING = 1e-9  # distances below are zero, written with the rounding errors of their sums
_HOMES = ("group", "zone")
WAYS = (*_HOMES, "weight", "speed", "availability", "client")
"""Ways to part the clients, in the order in which the verdict looks at them."""
ORDERED = ("speed", "availability")
"""Those whose tenths are in order, so that a trend over them is tested too."""
SHARES = pl.Schema(
    {
        "kind": pl.String,  # one of `WAYS`
        "noun": pl.String,  # what a row is: a group, a time zone, a tenth, a client
        "name": pl.String,  # as a person gave it, or what the tenth is called
        "key": pl.String,  # name of its fact; null where it has none
        "size": pl.Float64,  # share of the clients
        "value": pl.Float64,  # share of the reports over share of the clients: 1 is even
        "taken": pl.Int64,  # reports
        "theory": pl.Float64,  # what theory says of `value`; null where it says nothing
        "chance": pl.Float64,  # how far from 1 independent draws put all values of a kind, in 19 of 20 runs
        "low": pl.Float64,  # lower end of the interval, at the level of its test or else of the strictest one
        "high": pl.Float64,  # upper end
        "look": pl.String,  # what the verdict calls it; null where it is not tested
        "p": pl.Float64,  # of a share so far from 1, by chance; null where nothing is tested
        "significant": pl.Boolean,  # whether it differs from 1 by more than chance; null where nothing is tested
        "visible": pl.Float64,  # the least difference from 1 that is significant four times in five
        "level": pl.Float64,  # level of its test, after the correction for all of them
    }
)
"""The series ``shares``."""
BIAS = pl.Schema(
    {
        "seen": pl.String,  # a name of `fedsim.pages.bias.Seen`
        "measured": pl.Float64,  # total variation distance (TV) of the reports from uniform
        "fair": pl.Float64,  # that of as many reports with equal chances, and the same separations; null if not known
        "corrected": pl.Float64,  # TV without what noise adds; null where too few rounds or days tell
        "low": pl.Float64,  # lower end of its interval; 0 where the whole is not significant
        "high": pl.Float64,  # upper end
        "whole": pl.Boolean,  # whether the distance is more than chance
        "p": pl.Float64,  # of a distance so large, by chance
        "more_even": pl.Boolean,  # whether participation is more even than equal chances make it
        "visible": pl.Float64,  # the least TV that is significant four times in five
        "why": pl.String,  # why nothing is tested, where that is so
        "trend": pl.String,  # the way whose tenths have a significant trend, the first one; null where none has
    }
)
"""The series ``bias``, of one row."""
_IN_TURN = {"cyclic", "age"}  # rules that take clients in turn, so that nothing is random where all are available
_OF_ONE = math.sqrt(2 * math.pi)  # standard deviation of a normal share over its mean, by their TV
_NOT_ALONE = {*_IN_TURN, "stratified"}  # rules whose rounds are not independent of each other


def of_reports(metrics: Mapping[str, Any], name: str) -> float | None:
    """Return ``participation.NAME`` of what reached the model: of the reports, where these were measured."""
    reported = "reported_" * ("participation.reported_l1_uniform" in metrics)
    value = metrics.get(f"participation.{reported}{name}", math.nan)
    return value if math.isfinite(value) else None


def judge_shares(
    scenario: Scenario,
    clients: pl.DataFrame,
    rounds: pl.DataFrame,
    metrics: Mapping[str, Any],
    series: Mapping[str, pl.DataFrame],
) -> dict[str, pl.DataFrame]:
    """Return the series ``shares`` and ``bias`` of a run: its parts and the whole, judged together."""
    run = _Measured(scenario, clients, rounds, metrics, series)
    whole, complete = _whole(run), scenario.log is None or "clients" not in scenario.log.unknown
    ways = [way for way in _ways(run) if complete or way.kind == "group"]  # of those seen, groups are compared
    shares, trend = _shares(run, ways, whole, looking=whole["seen"] == "" or (not complete and run.spans > 0))
    tested = [row for row in shares if row["visible"] is not None]
    if whole["seen"] == "":
        whole["trend"] = trend
        biased = whole["whole"] or trend is not None or any(row["significant"] for row in tested)
        whole["seen"] = "BIAS" if biased else "ONCE" if run.counts.max() == 1 else "NONE"
        if whole["seen"] == "NONE" and whole["visible"] is None and not tested:
            whole["seen"] = "UNTESTED"
    return {
        "shares": pl.DataFrame(shares, schema=SHARES, orient="row"),
        "bias": pl.DataFrame([whole], schema=BIAS, orient="row"),
    }


class _Measured:
    """What is judged, and what is known of how chance works in the run."""

    def __init__(
        self,
        scenario: Scenario,
        clients: pl.DataFrame,
        rounds: pl.DataFrame,
        metrics: Mapping[str, Any],
        series: Mapping[str, pl.DataFrame],
    ) -> None:
        self.scenario, self.clients, self.metrics, self.series = scenario, clients, metrics, series
        self.counts: Ints = clients["reported"].to_numpy()  # reports of each client
        self.no_rounds, self.by_day = rounds.is_empty(), by_day(scenario)
        # Clients are always available and drawn in rounds: chance does no more than independent draws.
        self.steady = scenario.always_available and scenario.server.selects_once
        rests = bool((clients["separation"] > 0).any() or (clients["cooldown_s"] > 0).any())
        capped = any(group.participations is not None for group in scenario.population)
        # How long devices are available is recorded, and not by chance.
        self.recorded = all(group.availability.kind == "trace" for group in scenario.population)
        # Rounds are independent of each other too.
        alone = scenario.server.selection.kind not in _NOT_ALONE
        self.bound = rests or capped
        self.independent = self.steady and not self.bound and alone
        self.together = drawn_together(scenario)  # clients that are drawn at once
        # Variance of draws without replacement over that of draws with it
        self.left = without_replacement(rounds["reported"].to_numpy(), len(clients), self.together)
        spans = by_span(series, "reports")
        filled = 0 if spans is None else int((spans.sum(axis=1) > 0).sum())
        # Spans of rounds or days by which chance is judged; 0 where there are too few
        self.spans = filled if filled >= FEWEST_DAYS else 0

    @property
    def taken(self) -> int:
        """All reports."""
        return int(self.counts.sum())

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


def _whole(run: _Measured) -> dict[str, Any]:
    """Judge the distance from uniform; ``seen`` is empty where the parts have a say in it."""
    counts, clients, distance = run.counts, len(run.counts), of_reports(run.metrics, "l1_uniform")
    verdict: dict[str, Any] = dict.fromkeys(BIAS) | {"measured": 0.0, "low": 0.0, "high": 1.0, "why": ""}
    verdict |= {"whole": False, "more_even": False}
    if run.no_rounds or not run.taken or clients < 2 or distance is None:
        nobody = "ALONE" if clients < 2 else "UNMEASURED"
        return verdict | {"seen": "NO_ROUNDS" if run.no_rounds else "NOBODY" if not run.taken else nobody}
    fair = of_reports(run.metrics, "l1_fair")
    if fair is None and run.steady and not run.bound:
        fair = by_chance(run.taken // run.together, clients // run.together)
    verdict |= {"measured": distance / 2, "fair": None if fair is None else fair / 2}
    once, regular = bool(counts.max() == 1), int(counts.max()) - int(counts.min()) <= 1
    if regular and (not once or counts.min() == 1 or run.scenario.server.selection.kind in _IN_TURN):
        return verdict | {"seen": "EVEN"}
    wider, narrower = evenness(counts, run.left, run.together)
    level = LEVEL / 2 if run.independent else LEVEL / 4
    quantile = -float(normal_quantile(level))
    significant, visible, p = run.steady and wider <= level, None, [wider] if run.steady else []
    if run.steady:
        units = clients / run.together
        square = (quantile + POWER) * math.sqrt(2 * max(units - 1, 1)) * run.left * run.together
        visible = min(1.0, 0.4 * math.sqrt(square / run.taken))
    corrected, low, high = (of_reports(run.metrics, f"l1_uniform_{name}") for name in ("corrected", "low", "high"))
    if not run.independent and run.noise_known and corrected is not None and high is not None:
        error = (high**2 - corrected**2) / NORMAL
        significant = significant or corrected**2 > quantile * error + ROUNDING
        p.append(float(normal_below(np.array(-(corrected**2) / max(error, ROUNDING)))))
        seen = min(1.0, math.sqrt(max(0.0, (quantile + POWER) * error)) / 2)
        visible = seen if visible is None else min(seen, visible)
    return verdict | {
        "seen": "",
        "corrected": None if corrected is None or once or not run.noise_known else corrected / 2,
        "low": min(1.0, (low or 0.0) / 2) if significant else 0.0,
        "high": min(1.0, (high or 0.0) / 2),
        "whole": significant,
        "p": min(p, default=None),
        "more_even": narrower <= LEVEL / 2 and run.steady and not run.bound,
        "visible": visible,
        "why": run.why or "too few reports",
    }


@dataclass(frozen=True, eq=False)
class _Parts:
    """A way to part the clients, with a row for each part: arrays have an entry a row."""

    kind: str
    noun: str
    names: tuple[str, ...]
    sizes: Floats  # the share of the clients that each has
    taken: Floats  # its share of the reports
    part: NDArray[np.integer] | None = None  # the row of each client; None where some have two
    spans: Ints | None = None  # (spans, rows): reports by span of the run; None where these are not known
    theory: Floats | None = None  # what theory says of the share of reports over that of clients

    def looks(self) -> dict[int, str]:
        """Return the rows at which the verdict looks, and what it calls them: by weight and of tenths both ends."""
        if self.kind in _HOMES:
            return dict(enumerate(self.names))
        if self.kind == "client":
            return {}
        if self.kind == "weight":
            named = ("heaviest client", "lightest client") if self.noun == "client" else (self.names[0], self.names[-1])
            return dict(zip((0, len(self.names) - 1), named, strict=True))
        return {TENTH - 1: f"{self.names[-1]} tenth", 0: f"{self.names[0]} tenth"}

    def key(self, row: int) -> str | None:
        """Return the name of the fact of a row."""
        if self.kind in _HOMES:
            part = metric_part(self.names[row])
            return f"{self.kind}.{part}.reported_ratio" if len(self.names) <= MOST_GROUPS else None
        tenth = row + 1 if self.kind == "weight" else TENTH - row
        return f"participation.reported_by_{self.kind}.{tenth}" if self.noun == "tenth" else None


def _ways(run: _Measured) -> Iterator[_Parts]:
    """Yield the ways to part the clients that the run has."""
    clients, total = run.clients, run.taken
    weight, pi = clients["weight"].to_numpy(), clients["pi"]
    if not total:
        return
    has_theory = not pi.null_count() and not pi.is_nan().any()
    has_theory = has_theory and bool((clients["reported"] == clients["participations"]).all())

    def rows(kind: str, noun: str, names: Iterable[str], part: NDArray[np.integer], spans: Ints | None) -> _Parts:
        sizes, taken = np.bincount(part) / len(part), np.bincount(part, run.counts) / total
        theory = np.bincount(part, pi.to_numpy()) / sizes if has_theory else None
        return _Parts(kind, noun, tuple(names), sizes, taken, part, spans, theory)

    reports, of_home = run.series.get("reports"), by_span(run.series, "reports")
    zones, groups = clients["time_zone"].unique().sort(), clients["group"].unique(maintain_order=True)
    for kind, noun, column, names in (("group", "group", "group", groups), ("zone", "time zone", "time_zone", zones)):
        if len(names) < 2:
            continue
        if kind == "group" or not len(names) == len(groups) == clients.select("group", "time_zone").n_unique():
            spans = None
            if reports is not None and of_home is not None and set(reports[column]) == set(names):
                place = reports[column].head(of_home.shape[1]).cast(pl.Enum(names)).to_physical().to_numpy()
                spans = np.stack([np.bincount(place, row, len(names)) for row in of_home]).astype(np.int64)
            yield rows(kind, noun, names, clients[column].cast(pl.Enum(names)).to_physical().to_numpy(), spans)
    if (classes := weight_classes(weight, run.together)) is not None:
        parts = np.bincount(classes)
        single, tenths = bool(parts.max() == 1), len(parts) == TENTH or run.together > 1
        equal = single or (bool(parts[0] > 1 and np.ptp(parts) <= 1) and tenths)
        noun = "class" if not equal else "client" if single else "group" if run.together > 1 else "tenth"
        first, last = (noun, noun) if equal else (percent(float(parts[end] / len(weight))) for end in (0, -1))
        each_client = [f"client {each}" for each in np.argsort(-weight, kind="stable")] if noun == "client" else None
        ends = each_client or _between(f"heaviest {first}", f"lightest {last}", len(parts))
        yield rows("weight", noun, ends, classes, by_span(run.series, "weights"))
    for kind, most, least in (("speed", "fastest", "slowest"), ("availability", "most available", "least available")):
        ratios = [of_reports(run.metrics, f"by_{kind}.{tenth}") for tenth in range(TENTH, 0, -1)]
        taken = np.array([each for each in ratios if each is not None]) / TENTH
        if len(taken) == TENTH and len(clients) >= 2 * TENTH:
            yield _Parts(kind, "tenth", _between(most, least, TENTH), np.full(TENTH, 1 / TENTH), taken)
    if 1 < len(clients) < 2 * TENTH and classes is None:
        yield rows(
            "client", "client", (f"device {each}" for each in range(len(clients))), np.arange(len(clients)), None
        )


def _between(first: str, last: str, rows: int) -> tuple[str, ...]:
    return (first, *map(str, range(2, rows)), last)


def _shares(
    run: _Measured, ways: Iterable[_Parts], whole: Mapping[str, Any], *, looking: bool
) -> tuple[list[dict[str, Any]], str | None]:
    """Judge all parts together; return the rows of ``shares``, and the first way whose tenths have a trend."""
    rows, looked, trends = list[dict[str, Any]](), list[tuple[dict[str, Any], float, float]](), dict[str, float]()
    for way in ways:
        draws, degrees = _draws(run, way, whole["whole"])
        untold = way.kind == "weight" and not run.spans and not run.steady
        looks = {} if untold or not looking else way.looks()
        if looks and way.kind in ORDERED and draws.all():
            trends[way.kind] = _trend(way, float(draws[0]))
        for row, name in enumerate(way.names):
            size, share = float(way.sizes[row]), float(way.taken[row])
            entry = dict.fromkeys(SHARES) | {"kind": way.kind, "noun": way.noun, "name": name, "key": way.key(row)}
            entry |= {"size": size, "value": share / size, "taken": round(share * run.taken), "look": looks.get(row)}
            entry["theory"] = None if way.theory is None else float(way.theory[row])
            mean, far = size * run.taken / run.together, -float(normal_quantile(LEVEL / 2 / len(way.names)))
            entry["chance"] = far * math.sqrt((1 - size) / mean) + (far**2 - 1) / (6 * mean)  # with their skewness
            if way.kind in {*ORDERED, "client"} and whole["fair"] is not None:
                entry["chance"] = far * _OF_ONE * whole["fair"] / math.sqrt(size * len(run.counts))
            if row in looks and draws[row] > 0:
                looked.append((entry, float(draws[row]), degrees))
            rows.append(entry)
    if looked:
        size, value, draws, degrees = np.array([(r["size"], r["size"] * r["value"], *rest) for r, *rest in looked]).T
        level = LEVEL / 4 if trends else LEVEL / 2
        for (entry, *_), look in zip(looked, compare_shares(value, size, draws, degrees, level), strict=True):
            entry |= {"low": look.low / entry["size"], "high": look.high / entry["size"], "p": look.p}
            entry |= {"significant": look.significant, "visible": look.visible / entry["size"], "level": look.level}
    for way in ways:
        _fill([row for row in rows if row["kind"] == way.kind], way)
    return rows, next((kind for kind, p in trends.items() if p <= LEVEL / 4 / len(trends)), None)


def _trend(way: _Parts, draws: float) -> float:
    """Return how probable a trend over parts of one size in order is by chance, at least as steep, up or down."""
    size, many = float(way.sizes[0]), len(way.sizes)
    scores = np.arange(many) - (many - 1) / 2
    # Shares of equal parts have the variance of this many draws, and the covariances of shares that sum to 1.
    error = math.sqrt(size * (1 - size) / draws * float(scores @ scores) * many / (many - 1))
    return float(2 * normal_below(np.array(-abs(float(scores @ way.taken)) / error)))


def _fill(rows: list[dict[str, Any]], way: _Parts) -> None:
    """Give rows beside looks intervals of the strictest level of these, by the spans of the run."""
    levels = [row["level"] for row in rows if row["level"] is not None]
    if not levels or way.spans is None or len(way.spans) < 2:
        return
    half = student_quantile(len(way.spans), 1 - min(levels)) * np.sqrt(share_variance(way.spans)) / way.sizes
    for row, margin in zip(rows, half.tolist(), strict=True):
        if row["low"] is None:
            row |= {"low": max(row["value"] - margin, 0.0), "high": row["value"] + margin}


def _draws(run: _Measured, way: _Parts, wide: bool) -> tuple[Floats, float]:
    """Return how many independent draws know as much of each part, 0 where nothing is known; and degrees of freedom.

    Tenths are compared with tenths taken at random. Who was available for long in a run took part more often in it,
    even where all are alike in the long run: tenths by available time tell of a bias only where the whole run does, or
    where that time is recorded.
    """
    counts, draws, degrees = run.counts, np.zeros(len(way.names)), 1e6
    if way.part is None:
        if run.noise_known and (way.kind == "speed" or wide or run.recorded):
            spread = float(counts.var() / counts.mean() ** 2)
            apart = spread * (TENTH - 1) / TENTH * TENTH * run.together / len(counts)
            if spread:  # else all have as many, which tells nothing of chance
                draws = np.full(TENTH, (TENTH - 1) / apart)
        return draws, degrees
    if run.spans and way.spans is not None and not run.independent:
        between = None
        if run.by_day and way.kind in _HOMES:
            by_part = pl.DataFrame({"part": way.part, "counts": counts}).group_by("part").agg(pl.col("counts").var())
            variance = by_part.sort("part")["counts"].fill_null(0).to_numpy()
            between = np.bincount(way.part) * variance / run.taken**2
        draws, degrees = effective_draws(way.spans, between), len(way.spans) - 1
    if run.steady:
        draws = np.maximum(draws, run.taken / run.together / max(run.left, 1e-9))
    return draws, degrees
