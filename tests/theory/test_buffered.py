"""The mean field of a buffered server: its balances, its limits, and a server that is simulated event by event."""

import heapq
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtri

from fedsim.common.errors import ChainError
from fedsim.common.keyed import Purpose, stream
from fedsim.theory import stationary
from fedsim.theory.buffered import Asynchronous, LengthDistribution, asynchronous

LOGNORMAL = 60.0 * np.exp(0.5 * ndtri((np.arange(4096) + 0.5) / 4096) - 0.125)
ZIPF = 1.0 / np.arange(1.0, 101.0)


def ask(
    clients: int = 100,
    *,
    weights: NDArray[np.float64] | None = None,
    separation: int = 0,
    cooldown_s: float = 0.0,
    concurrency: int = 20,
    buffer: int = 5,
    values: NDArray[np.float64] = LOGNORMAL,
    fast: float = 3.0,
    rule: str = "successive",
    rest_from: str = "selected",
    max_staleness: int | None = None,
) -> Asynchronous:
    """Return a question about clients of which every second is fast."""
    speed = np.where(np.arange(clients) % 2, fast, 1.0)
    return Asynchronous(
        weights=np.ones(clients) if weights is None else weights,
        separation=np.full(clients, separation),
        cooldown_s=np.full(clients, cooldown_s),
        lengths=LengthDistribution.of(np.zeros(clients, dtype=np.int64), speed, [values]),
        concurrency=concurrency,
        buffer=buffer,
        rule=rule,
        rest_from=rest_from,
        max_staleness=max_staleness,
    )


@dataclass
class Simulated:
    """A buffered server event by event, in continuous time; every selection is one client by weight."""

    question: Asynchronous
    versions: int
    seed: int = 0

    def run(self) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:
        """Return who was selected and when, in order, and the end of the run."""
        asked, clients = self.question, len(self.question.weights)
        draw = partial(stream(self.seed, 0, Purpose.SESSION).uniforms, 0)
        barred = np.zeros(clients, dtype=np.int64)
        events: list[tuple[float, int, int]] = []
        back: dict[int, list[int]] = {}
        chosen: list[int] = []
        when: list[float] = []
        now, version, taken, running = 0.0, 0, 0, 0

        def rest(client: int) -> None:
            barred[client] += 1
            back.setdefault(version + 1 + int(asked.separation[client]), []).append(client)
            if asked.cooldown_s[client]:
                barred[client] += 1
                heapq.heappush(events, (now + float(asked.cooldown_s[client]), 0, client))

        while version < self.versions:
            while running < asked.concurrency and len(free := np.flatnonzero(barred == 0)):
                sums = np.cumsum(asked.weights[free])
                one, length = (float(draw(2 * len(chosen) + k)[0]) for k in range(2))
                client = int(free[np.searchsorted(sums, one * sums[-1])])
                chosen.append(client)
                when.append(now)
                barred[client] += 1
                running += 1
                values = asked.lengths.values[0]
                lasts = float(values[int(length * len(values))]) / float(asked.lengths.speed[client])
                heapq.heappush(events, (now + lasts, 1, client))
                if asked.rest_from == "selected":
                    rest(client)
            now, ends, client = heapq.heappop(events)
            barred[client] -= 1
            if ends:
                running -= 1
                taken += 1
                if asked.rest_from == "reported":
                    rest(client)
            if taken == asked.buffer:
                taken, version = 0, version + 1
                for one_back in back.pop(version, []):
                    barred[one_back] -= 1
        return np.array(chosen), np.array(when), now


CASES = {
    "equal": ask(),
    "by weight": ask(weights=ZIPF),
    "separation": ask(weights=ZIPF, separation=6),
    "cool-down": ask(weights=ZIPF, cooldown_s=150.0),
    "from reports": ask(weights=ZIPF, separation=4, cooldown_s=30.0, rest_from="reported"),
    "places to spare": ask(cooldown_s=400.0),
    "nearly spare": ask(cooldown_s=300.0),
    "large buffer": ask(separation=1, buffer=40),
}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_a_simulated_server_agrees(name: str) -> None:
    """The share of the slow clients and the number of versions an hour, by 40 batches of a long run.

    Sampling error at 4 standard errors, which batch means of 39 degrees of freedom exceed three times in 10,000 (16
    comparisons: one run in 200 with other seeds), and beside it what the mean field says of its own error.
    """
    asked, batches = CASES[name], 40
    flow = asynchronous(asked)
    chosen, when, end = Simulated(asked, 60_000 // asked.buffer).run()
    late = when > 0.1 * end
    slow = [part % 2 == 0 for part in np.array_split(chosen[late], batches)]
    shares = np.array([part.mean() for part in slow])
    pace = np.diff(when[late][np.linspace(0, late.sum() - 1, batches + 1).astype(int)]) / (late.sum() / batches)
    for measured, predicted in ((shares, float(flow.stationary.pi[::2].sum())), (pace, 1.0 / float(flow.rate.sum()))):
        error = measured.std(ddof=1) / np.sqrt(batches)
        estimate = flow.stationary.error_bound
        assert estimate is not None
        assert abs(measured.mean() - predicted) < 4.0 * error + estimate * predicted
        # The comparison means something: neither error is large.
        assert error + estimate * predicted < 0.08 * predicted


@settings(max_examples=40)
@given(
    separation=st.integers(0, 8),
    cooldown_s=st.sampled_from([0.0, 30.0, 200.0, 2000.0]),
    buffer=st.sampled_from([1, 3, 10, 50]),
    concurrency=st.integers(1, 60),
    rest_from=st.sampled_from(["selected", "reported"]),
    weights=st.sampled_from([None, ZIPF]),
)
def test_predicted_places_versions_and_sessions_balance(
    separation: int,
    cooldown_s: float,
    buffer: int,
    concurrency: int,
    rest_from: str,
    weights: NDArray[np.float64] | None,
) -> None:
    """Places are all taken or nobody waits; a version is as long as its reports take; nobody is in two sessions."""
    asked = ask(
        weights=weights,
        separation=separation,
        cooldown_s=cooldown_s,
        buffer=buffer,
        concurrency=concurrency,
        rest_from=rest_from,
    )
    if 100 / (separation + 1) < buffer:
        with pytest.raises(ChainError, match="cannot come together for ever"):
            asynchronous(asked)
        return
    flow = asynchronous(asked)
    busy = float(flow.rate @ asked.lengths.mean())
    assert flow.stationary.pi.sum() == pytest.approx(1.0)
    assert flow.utilisation == pytest.approx(min(1.0, busy / concurrency))
    assert (flow.wait_s == 0).all() or busy == pytest.approx(concurrency, rel=1e-8)
    assert flow.version_s * flow.rate.sum() == pytest.approx(buffer, rel=1e-8)
    assert (flow.rate * asked.lengths.mean() < 1.0 + 1e-9).all()
    assert (flow.rate * max(cooldown_s, separation * flow.version_s) < 1.0 + 1e-9).all()


def test_fast_devices_are_over_represented_unless_everybody_waits_long() -> None:
    """At equal weights 3:1 in speed gives up to 3:1 in participation; a cool-down evens it out."""
    ratios = [
        float(flow.stationary.pi[1] / flow.stationary.pi[0])
        for flow in (
            asynchronous(ask(cooldown_s=cooldown_s, concurrency=places))
            for places, cooldown_s in ((99, 0.0), (60, 0.0), (20, 0.0), (20, 150.0), (20, 600.0))
        )
    ]
    assert 2.7 < ratios[0] < 3.0
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] == pytest.approx(1.0, abs=0.001)


def test_equal_devices_take_part_equally() -> None:
    """Whatever they wait for."""
    for asked in (ask(fast=1.0), ask(fast=1.0, separation=3, cooldown_s=100.0), ask(fast=1.0, cooldown_s=900.0)):
        np.testing.assert_allclose(asynchronous(asked).stationary.pi, 0.01, rtol=1e-9)


def test_without_a_wait_the_cycle_is_session_and_cooldown() -> None:
    """r_i = 1 / E[max(S_i, c_i)], written out over the values of S."""
    asked = ask(cooldown_s=400.0, rest_from="selected")
    flow = asynchronous(asked)
    for client, speed in ((0, 1.0), (1, 3.0)):
        cycle = np.maximum(LOGNORMAL / speed, 400.0).mean()
        # With a buffer of 5 and few versions in flight, a separation of 0 keeps nobody out for longer.
        assert flow.rate[client] == pytest.approx(1.0 / cycle, rel=1e-12)
    reported = asynchronous(replace(asked, rest_from="reported"))
    assert reported.rate[0] == pytest.approx(1.0 / (LOGNORMAL.mean() + 400.0), rel=1e-12)


def test_sessions_in_step_are_rounds() -> None:
    """With equal lengths a server of C places is one of cohorts of C, and R + 1 versions are (R + 1) B / C rounds."""
    same = np.array([60.0])
    for buffer, separation, rounds in ((20, 3, 3), (10, 3, 1), (10, 4, 2), (4, 0, 0)):
        asked = ask(weights=ZIPF, values=same, fast=1.0, separation=separation, buffer=buffer, rule="midzuno")
        expected = stationary(ZIPF, rounds, 20, "midzuno")
        flow = asynchronous(asked)
        np.testing.assert_array_equal(flow.stationary.pi, expected.pi)
        assert flow.stationary.method == expected.method
        assert flow.version_s == 60.0 * buffer / 20
        assert flow.rate.sum() * 60.0 == pytest.approx(20.0)


def test_discarded_reports_make_versions_longer() -> None:
    """A version needs as many reports as before, and fewer of them are taken."""
    free, strict = (asynchronous(ask(buffer=1, max_staleness=most)) for most in (None, 8))
    assert strict.version_s > 1.2 * free.version_s
    assert asynchronous(ask(buffer=1, max_staleness=10_000)).version_s == pytest.approx(free.version_s)


@pytest.mark.parametrize("values", [np.array([100.0]), np.array([100.0, 200.0])])
def test_sessions_that_all_miss_the_deadline_have_no_answer(values: NDArray[np.float64]) -> None:
    """They never complete a version, neither where they stay in step nor where they do not."""
    late = ask(values=values, fast=1.0, concurrency=20, buffer=5)
    late = replace(late, lengths=LengthDistribution.of(late.lengths.group, late.lengths.speed, [values], 10.0))
    with pytest.raises(ChainError, match="after the deadline"):
        asynchronous(late)


def test_reports_that_are_all_too_stale_have_no_answer() -> None:
    """At the length that versions have, no report is fresh enough."""
    question = ask(40, values=np.array([100.0]), fast=2.0, separation=2, concurrency=3, buffer=2, max_staleness=0)
    with pytest.raises(ChainError, match="staler than max_staleness"):
        asynchronous(question)


def test_what_the_mean_field_cannot_say() -> None:
    """Each refusal names what would be needed."""
    with pytest.raises(ChainError, match="the 50 reports of a version cannot come together for ever"):
        asynchronous(ask(separation=4, buffer=50))
    with pytest.raises(ChainError, match="does not know 'cyclic'"):
        asynchronous(ask(rule="cyclic"))
    with pytest.raises(ChainError, match="of several places 'midzuno' gives one alone by weight"):
        asynchronous(ask(weights=ZIPF, values=np.array([60.0]), rule="midzuno"))


@given(
    speed=st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=1, max_size=5),
    bound=st.floats(0, 300),
    limit_s=st.sampled_from([np.inf, 100.0, 40.0]),
)
def test_expectations_of_lengths(speed: list[float], bound: float, limit_s: float) -> None:
    """Against sums over the values, client by client."""
    values = [np.array([30.0, 10.0, 200.0, 50.0]), np.array([60.0])]
    group = np.arange(len(speed)) % 2
    lengths = LengthDistribution.of(group, np.array(speed), values, limit_s)
    means = (
        lengths.mean(),
        lengths.excess(np.full(len(speed), bound)),
        lengths.share_up_to(np.full(len(speed), bound)),
        lengths.report_share(),
    )
    for client, (place, pace) in enumerate(zip(group, speed, strict=True)):
        whole = values[place] / pace
        cut = np.minimum(whole, limit_s)
        expected = (
            cut.mean(),
            np.maximum(cut - bound, 0).mean(),
            (cut <= bound * (1 + 1e-12)).mean(),
            (whole <= limit_s).mean(),
        )
        np.testing.assert_allclose([each[client] for each in means], expected, atol=1e-9)
    assert lengths.distinct() == (1 if len(speed) == 0 else None)
