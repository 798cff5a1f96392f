"""Renewal availability: keyed, in order, and stationary from the first instant, whatever the lengths' law."""

import math
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from scipy import stats

from fedsim.availability import AvailabilityModel, available_at, between, intervals
from fedsim.availability.model import Pieces, in_seconds
from fedsim.availability.model import pieces as pieces_of
from fedsim.availability.renewal import RenewalAvailability
from fedsim.common.arrays import Floats
from fedsim.common.instants import FOREVER, to_seconds
from fedsim.common.registry import OptionError
from fedsim.population.distributions import DISTRIBUTIONS, Distribution, distribution
from fedsim.scenario.sources import Length
from tests.availability.cases import DRAWS, instants, model_of, pieces, place, renewal, whole

seconds = st.floats(1e-3, 1e6).map(lambda value: f"{value:.3f}s")
LAWS: list[Any] = [
    "60s",
    {"kind": "weibull", "mean": "60s", "shape": 0.6},
    {"kind": "weibull", "mean": "60s", "shape": 3},
    {"kind": "lognormal", "median": "40s", "sigma": 0.9},
    {"kind": "lognormal", "median": "60s", "sigma": 0},
    {"kind": "pareto", "mean": "60s", "shape": 2.5},
    {"kind": "pareto", "mean": "60s", "shape": 1.3},
]
OFF = [LAWS[3], "140s", LAWS[0], LAWS[1], LAWS[6], LAWS[2], "140s"]
KINDS = [renewal(on, off) for on, off in zip(LAWS, OFF, strict=True)]
laws = st.sampled_from(LAWS) | seconds


def exact(model: AvailabilityModel, client: int) -> Pieces:
    return pieces_of(model, client, place(), DRAWS)


def means(model: AvailabilityModel) -> tuple[float, float]:
    assert isinstance(model, RenewalAvailability)
    return model.process.on.mean, model.process.off.mean


@given(client=st.integers(0, 10**9), on=laws, off=laws)
def test_intervals_are_disjoint_and_in_order(client: int, on: Any, off: Any) -> None:
    """Two touch where a length off between them is rounded to 0."""
    first = list(islice(exact(renewal(on, off), client), 200))
    assert first[0][0] >= 0
    assert all(isinstance(time, int) for pair in first for time in pair)
    assert all(start < end for start, end in first)
    assert all(before[1] <= after[0] for before, after in pairwise(first))
    assert list(islice(pieces(renewal(on, off), client), 200)) == list(in_seconds(iter(first)))


def test_exponential_intervals_are_those_that_were_drawn() -> None:
    """Each length is rounded by itself, so that the 40th end is off by less than 41 half milliseconds."""
    first = list(islice(exact(renewal("60s", "140s"), 0), 41))
    assert first[0] == (94_002, 94_002 + 85_810)
    assert first[40][1] == pytest.approx(6_980_184.449526648, abs=41)


@pytest.mark.long
@pytest.mark.parametrize(
    ("on", "off"),
    [
        ("1ms", "2ms"),
        ("3ms", {"kind": "weibull", "mean": "2ms", "shape": 0.1}),
        ({"kind": "pareto", "mean": "1ms", "shape": 1.1}, {"kind": "pareto", "mean": "1ms", "shape": 1.3}),
        ({"kind": "weibull", "mean": "1h", "shape": 0.1}, {"kind": "weibull", "mean": "5s", "shape": 0.1}),
        ({"kind": "lognormal", "median": "1ms", "sigma": 0}, "1ms"),
        ({"kind": "lognormal", "median": "1ms", "sigma": 9}, {"kind": "lognormal", "median": "1ms", "sigma": 9}),
    ],
)
def test_lengths_of_a_few_milliseconds(on: Any, off: Any) -> None:
    """Many of them are 0, and still a batch that follows the devices says what each of them says."""
    model, clients, until = renewal(on, off), np.arange(8), 3_000
    assert isinstance(model, RenewalAvailability)
    (batch,) = model.batches([(place(), clients)], DRAWS)
    for since in (0, 1, 2, 700):
        true = [between(exact(model, client), since, until) for client in clients.tolist()]
        assert batch.at(clients, since).tolist() == [own[:1] != [] and own[0][0] == since for own in true]
        spells = batch.spells(clients, since, until)
        found = sorted(zip(*(column.tolist() for column in spells), strict=True))
        assert found == [(client, *span) for client, own in enumerate(true) for span in own]
        there = np.flatnonzero(batch.at(clients, since))
        ends = [true[client][0][1] if true[client][0][1] < until else FOREVER for client in there.tolist()]
        assert batch.ends(there, since, np.full(len(there), until - 1)).tolist() == ends


@DISTRIBUTIONS.register("a_length_of_mine")
class Short:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def quantile(self, p: Floats) -> Floats:
        return np.full(p.shape, self.seconds)


@pytest.mark.parametrize("ms", [0.001, 0.499, 0.5])
def test_a_cycle_that_would_never_advance_is_refused(ms: float) -> None:
    """Every length would be rounded to 0; with a little more it goes on."""
    mine = {"kind": "a_length_of_mine", "seconds": ms / 1000}
    with pytest.raises(OptionError, match="must last longer than a millisecond on average") as error:
        renewal(mine, mine)
    assert error.value.option == "on"
    longer = renewal({"kind": "a_length_of_mine", "seconds": 0.0011}, mine)
    assert between(exact(longer, 3), 1, 50) == [(1, 50)]


@given(
    client=st.integers(0, 10**6),
    on=st.sampled_from(LAWS),
    off=st.sampled_from(LAWS),
    instant=instants(30_000_000),
    edge=st.integers(0, 60),
    end=st.booleans(),
)
def test_one_lookup_for_many_devices_agrees_with_their_intervals(
    client: int, on: Any, off: Any, instant: int, edge: int, end: bool
) -> None:
    """At any instant, and at the very start (available) and end (not available) of an interval."""
    kind = renewal(on, off)
    clients = np.array([client + 3, client, client + 1])
    for moment in (instant, list(islice(exact(kind, client), 61))[edge][end]):
        expected = [bool(between(exact(kind, each), moment, moment + 1)) for each in clients.tolist()]
        assert available_at(kind, clients, to_seconds(moment), place(), DRAWS).tolist() == expected


@pytest.mark.parametrize("kind", KINDS, ids=range(len(KINDS)))
@pytest.mark.parametrize("instant", [0.0, 30.0, 700.0])
def test_the_share_available_is_stationary_from_the_start(kind: AvailabilityModel, instant: float) -> None:
    """On 20,000 devices the share on is mean_on / (mean_on + mean_off): binomial test, false alarm 1e-4 each of 21."""
    on, off = means(kind)
    count = int(available_at(kind, np.arange(20_000), instant, place(), DRAWS).sum())
    assert stats.binomtest(count, 20_000, on / (on + off)).pvalue > 1e-4


@pytest.mark.parametrize("kind", KINDS, ids=range(len(KINDS)))
def test_devices_come_online_at_a_constant_rate_from_the_start(kind: AvailabilityModel) -> None:
    """Starts in each tenth of the first 100 s: their number over devices is 10 / (mean_on + mean_off).

    No two devices share a draw, so the numbers of 3,000 devices in one tenth are independent and alike: a t-test on
    each tenth, false alarm 1e-4 each of 70.
    """
    starts = [[start for start, _ in whole(kind, client, 0.0, 100.0)] for client in range(3000)]
    numbers = np.array([np.histogram(own, np.linspace(0, 100, 11))[0] - [own[:1] == [0.0], *[0] * 9] for own in starts])
    expected = 10 / sum(means(kind))
    for tenth in numbers.T:
        assert stats.ttest_1samp(tenth, expected).pvalue > 1e-4


SOURCES = [TypeAdapter[Any](Length).validate_python(law) for law in LAWS]


class Numerical(Distribution):
    """A law of which no more is known than its quantiles."""

    def __init__(self, law: Distribution) -> None:
        self.quantile = law.quantile  # type: ignore[method-assign]

    def quantile(self, p: Floats) -> Floats:
        raise NotImplementedError


@pytest.mark.parametrize("numerically", [False, True])
@pytest.mark.parametrize("source", SOURCES, ids=range(len(KINDS)))
def test_lengths_and_what_is_left_of_them(source: Any, numerically: bool) -> None:
    """Kolmogorov-Smirnov on 20,000 draws against the law and its equilibrium law; false alarm 1e-4 each.

    The equilibrium law is integrated here from the lengths' law as scipy has it, and shares no formula with the draws.
    """
    theirs, law = _scipy(source), distribution(source)
    law = Numerical(law) if numerically else law
    u, v = DRAWS.uniforms(np.arange(20_000), 1), DRAWS.uniforms(np.arange(20_000), 2)
    heavy = source.kind == "pareto" and source.shape < 2
    assert law.mean == pytest.approx(float(theirs.mean()), rel=0.02 if heavy else 1e-5)
    grid = np.concatenate([[0.0], np.geomspace(1e-6, 1e7, 20_000)])
    survival = np.asarray(theirs.sf(grid), dtype=np.float64)
    steps = np.diff(grid) * (survival[1:] + survival[:-1]) / 2
    equilibrium = np.concatenate([[0.0], np.cumsum(steps)]) / theirs.mean()
    left = law.remaining(u, v)
    assert stats.kstest(left, lambda x: np.interp(x, grid, equilibrium)).pvalue > 1e-4
    if source.kind != "lognormal" or source.sigma:
        assert stats.kstest(law.draw(u), theirs.cdf).pvalue > 1e-4
        assert law.quantile(u) == pytest.approx(theirs.ppf(u), rel=1e-9)
    else:
        assert (law.draw(u) == 60.0).all()


def _scipy(law: Any) -> Any:
    if law.kind == "exponential":
        return stats.expon(scale=law.mean)
    if law.kind == "weibull":
        return stats.weibull_min(law.shape, scale=law.mean / math.gamma(1 + 1 / law.shape))
    if law.kind == "lognormal":
        return stats.lognorm(max(law.sigma, 1e-9), scale=law.median)
    return stats.pareto(law.shape, scale=law.mean * (law.shape - 1) / law.shape)


def test_the_heaviest_tails_end_in_an_interval_without_end() -> None:
    """A Pareto law just above shape 1 has a mean, but what is left of a running interval may outlast the sun."""
    kind = renewal({"kind": "pareto", "mean": "1h", "shape": 1.001}, "1h")
    endless = 0
    for client in range(200):
        found = list(islice(pieces(kind, client), 50))
        assert all(start < end for start, end in found)
        endless += math.isinf(found[-1][1])
    assert endless > 10


def test_always_is_one_interval_without_end() -> None:
    assert list(intervals(model_of("always"), 3, place(), DRAWS)) == [(0.0, np.inf)]
    assert available_at(model_of("always"), np.arange(3), 5.0, place(), DRAWS).all()
