"""Laws that go by feedback, each against an implementation of its own, written from the papers client by client."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.selection import Feedback, Law, Remembering, Request
from fedsim.selection.laws import CheckedSelection
from tests.selection.cases import law_of, request, shown

CLIENTS = 24


def race(asked: Request, rates: dict[int, float], count: int, index: int = 0) -> list[int]:
    """Exponential clocks with these rates: who comes first, one by one."""
    times = {each: -math.log(float(asked.uniforms(each, index)[0])) / max(rate, 1e-300) for each, rate in rates.items()}
    return sorted(times, key=lambda each: (times[each], each))[:count]


class OwnOort:
    """Oort, read independently: dictionaries, one client at a time; names as in the paper's Algorithm 1."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.o = options
        self.epsilon, self.least, self.percentile = (
            options["exploration"],
            options["least_exploration"],
            options["preferred"],
        )
        self.u = dict.fromkeys(range(CLIENTS), 1.0)
        self.d: dict[int, float] = {}
        self.last: dict[int, int] = {}
        self.round, self.exploited, self.fresh, self.history = 0, list[int](), set[int](), list[float]()

    def told(self, told: Feedback) -> None:
        known = [told.samples[k] * told.rms_losses[k] for k in range(len(told.clients)) if told.reported[k]]
        for k, i in enumerate(told.clients.tolist()):
            missing = sum(known) / len(known) if known else 0.0
            self.u[i] = float(told.samples[k] * told.rms_losses[k]) if told.reported[k] else missing
            self.d[i], self.last[i] = float(told.took_s[k]), max(1, self.round)
            self.fresh.add(i)

    def select(self, asked: Request, eligible: list[int]) -> list[int]:
        o, step = self.o, self.o["pacer_step"]
        self.round += 1
        gained = [self.u[i] for i in self.exploited if i in self.fresh]
        self.history.append(sum(gained) / (len(gained) + 1e-4))
        self.fresh = set()
        if self.round >= 2 * step and self.round % step == 0:
            old, new = sum(self.history[-2 * step : -step]), sum(self.history[-step:])
            if abs(new - old) <= 0.1 * old:
                self.percentile = min(1.0, self.percentile + o["pacer_delta"])
            elif abs(new - old) >= 5 * old:
                self.percentile = max(o["pacer_delta"], self.percentile - o["pacer_delta"])
        usual = sum(self.d.values()) / len(self.d) if self.d else 1.0
        times = sorted(self.d.get(i, usual) for i in range(CLIENTS))
        limit = times[min(int(round(CLIENTS * self.percentile, 9)), CLIENTS - 1)] if self.percentile < 1 else math.inf

        def slowed(i: int, value: float) -> float:
            took = self.d.get(i, usual)
            return value * (limit / max(1e-4, took)) ** o["penalty"] if took > limit else value

        positive = sorted(self.u[i] for i in eligible if self.u[i] > 0) or [0.0]
        clip, least = positive[min(int(len(positive) * o["clip"]), len(positive) - 1)], positive[0] * 0.999
        scores = {}
        for i in (i for i in eligible if i in self.last):
            part = (min(self.u[i], clip) - least) / max(positive[-1] - least, 1e-4)
            scores[i] = slowed(i, max(part + math.sqrt(0.1 * math.log(self.round) / self.last[i]), 1e-300))
        self.epsilon = max(self.epsilon * o["exploration_decay"], self.least)
        chance = float(asked.uniforms(0, 3)[0]) if asked.count == 1 else 0.0
        most = min(int(asked.count * (1 - self.epsilon) + chance), len(scores))
        ranked = sorted(scores, key=lambda i: (-scores[i], i))
        if most < len(ranked):
            ranked = [i for i in ranked if scores[i] >= o["cut_off"] * scores[ranked[most]]]
        chosen = self.exploited = race(asked, {i: scores[i] for i in ranked}, most, 0)
        if len(self.last) < CLIENTS:
            values = {i: slowed(i, self.u[i]) for i in eligible if i not in self.last}
            missing = min(len(values), asked.count - len(chosen))
            ranked = sorted(values, key=lambda i: (-values[i], i))[: int(o["window"] * missing)]
            chosen = chosen + race(asked, {i: values[i] for i in ranked}, missing, 1)
        else:
            self.epsilon = self.least = 0.0
        rest = dict.fromkeys((i for i in eligible if i not in chosen), 1.0)
        chosen = chosen + race(asked, rest, asked.count - len(chosen), 2)
        self.exploited = self.exploited if len(self.last) < CLIENTS else chosen
        return chosen


class OwnPowerOfChoice:
    def __init__(self, options: dict[str, Any]) -> None:
        self.d, self.loss = options["candidates"], dict.fromkeys(range(CLIENTS), math.inf)

    def told(self, told: Feedback) -> None:
        self.loss |= {int(told.clients[k]): float(told.losses[k]) for k in np.flatnonzero(told.reported)}

    def select(self, asked: Request, eligible: list[int]) -> list[int]:
        drawn = race(asked, dict.fromkeys(eligible, 1 / CLIENTS), max(self.d, asked.count))
        return sorted(drawn, key=lambda i: -self.loss[i])[: asked.count]


class OwnLossProportional:
    def __init__(self, options: dict[str, Any]) -> None:
        self.share, self.loss = options["exploration"], dict[int, float]()

    def told(self, told: Feedback) -> None:
        self.loss |= {int(told.clients[k]): float(told.losses[k]) for k in np.flatnonzero(told.reported)}

    def select(self, asked: Request, eligible: list[int]) -> list[int]:
        evenly = math.floor(self.share * asked.count + float(asked.uniforms(0, 2)[0]))
        largest = max(self.loss.values(), default=1.0)
        rates = {i: max(self.loss.get(i, largest), 1e-300) for i in eligible}
        chosen = race(asked, rates, asked.count - evenly)
        rest = sorted((i for i in eligible if i not in chosen), key=lambda i: float(asked.uniforms(i, 1)[0]))
        return chosen + rest[:evenly]


class OwnRefl:
    def __init__(self, options: dict[str, Any]) -> None:
        self.alpha: float = options["smoothing"]
        self.mu: float | None = None
        self.seen = [dict.fromkeys(range(CLIENTS), 0) for _ in range(24)]
        self.asked = [0] * 24

    def told(self, told: Feedback) -> None:
        self.mu = told.lasted_s if self.mu is None else (1 - self.alpha) * told.lasted_s + self.alpha * self.mu

    def select(self, asked: Request, eligible: list[int]) -> list[int]:
        now = int(asked.now_s / 3600) % 24
        self.asked[now] += 1
        for i in eligible:
            self.seen[now][i] += 1
        then = int((asked.now_s + 1.5 * (self.mu or 0)) / 3600) % 24
        chances = {i: (self.seen[then][i] + 1) / (self.asked[then] + 2) for i in eligible}
        return sorted(eligible, key=lambda i: (chances[i], float(asked.uniforms(i)[0])))[: asked.count]


def oort_options(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "exploration": float(rng.uniform(0, 1)),
        "exploration_decay": float(rng.uniform(0.7, 1)),
        "least_exploration": float(rng.uniform(0, 0.4)),
        "preferred": float(rng.choice([0.1, 0.5, 0.97, 1.0])),
        "penalty": float(rng.choice([0, 0.5, 2])),
        "pacer_step": int(rng.integers(1, 6)),
        "pacer_delta": float(rng.uniform(0, 0.3)),
        "clip": float(rng.choice([0.5, 0.9, 1])),
        "cut_off": float(rng.choice([0.05, 0.7, 1])),
        "window": float(rng.choice([1, 2.5, 5])),
    }


KINDS: dict[str, Any] = {
    "oort": (OwnOort, oort_options),
    "power_of_choice": (OwnPowerOfChoice, lambda rng: {"candidates": int(rng.integers(1, 20))}),
    "loss_proportional": (OwnLossProportional, lambda rng: {"exploration": float(rng.uniform(0, 1))}),
    "refl": (OwnRefl, lambda rng: {"smoothing": float(rng.uniform(0, 0.9))}),
}


def feedback_of(rng: np.random.Generator, number: int, chosen: list[int]) -> Feedback:
    n = len(chosen)
    reported = rng.random(n) < 0.8
    losses, rms = (np.where(reported, rng.choice([0.0, 0.3, 1.0, 7.0]) * rng.random(n), np.nan) for _ in range(2))
    samples = np.where(reported, rng.integers(1, 50, n), np.nan)
    took = rng.lognormal(3, 1, n)
    return Feedback(
        number, float(took.max(initial=1.0)), np.array(chosen, np.int64), took, reported, losses, rms, took, samples
    )


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_selections_are_those_of_an_independent_reading(kind: str, seed: int) -> None:
    """Forty selections with random eligible clients, losses, durations and options; restored into a new law halfway."""
    rng = np.random.default_rng(seed)
    own, drawn = KINDS[kind]
    options = drawn(rng)
    law, plain = (law_of(kind, np.full(CLIENTS, 1 / CLIENTS), 4, 0, **options) for _ in range(2)), own(options)
    used, spare = law
    for number in range(40):
        mask = rng.random(CLIENTS) < 0.7
        eligible = np.flatnonzero(mask).tolist()
        count = min(int(rng.integers(1, 8)), len(eligible))
        asked = request(number, count)
        asked = Request(asked.number, count, number, asked.draws, now_s=number * 2_000.0)
        chosen = used.select(asked, shown(mask)).tolist()
        assert chosen == plain.select(asked, eligible)
        assert len(set(chosen)) == count
        if rng.random() < 0.9:
            told = feedback_of(rng, number, chosen)
            plain.told(told)
            taking(used).take_feedback(told)
        if number == 20:
            remembers(spare).restore(remembers(used).state())
            used = spare


def taking(law: Law) -> Any:
    return law


def remembers(law: Law) -> Remembering:
    assert isinstance(law, Remembering)
    return law


def test_oort_prefers_fast_clients_with_large_losses() -> None:
    """After everybody was heard of once, with equal losses but for one, or equal lengths but for one."""
    law = law_of("oort", np.full(10, 0.1), 2, 0, exploration=0.0, least_exploration=0.0, preferred=0.8)
    losses, took = np.ones(10), np.full(10, 60.0)
    losses[3], took[7] = 9.0, 600.0
    everyone, reported = np.arange(10), np.ones(10, dtype=bool)
    first = []
    for number in range(400):
        law = law_of("oort", np.full(10, 0.1), 2, 0, exploration=0.0, least_exploration=0.0, preferred=0.8, cut_off=0.0)
        taking(law).take_feedback(Feedback(0, 60.0, everyone, took, reported, losses, losses, losses, np.ones(10)))
        law.select(request(2 * number, 2), shown([True] * 10))
        first.append(int(law.select(request(2 * number + 1, 1), shown([True] * 10))[0]))
    counts = np.bincount(first, minlength=10)
    assert counts[3] > 4 * np.delete(counts, [3, 7]).mean() > 12 * counts[7]


def test_a_law_of_ones_own_is_told() -> None:
    class Own:
        def __init__(self) -> None:
            self.told = 0

        def select(self, asked: Any, candidates: Any) -> Any:
            return np.flatnonzero(candidates.all_eligible())[: asked.count]

        def take_feedback(self, feedback: Feedback) -> None:
            self.told += feedback.round

    own = Own()
    CheckedSelection(own, "own:Own").take_feedback(feedback_of(np.random.default_rng(0), 7, [1, 2]))
    assert own.told == 7
