"""The functions that the templates beside this file call: numbers from the stores, or from theory."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from runpy import run_path
from types import SimpleNamespace

import numpy as np

from fedsim import Scenario
from fedsim.population import build_population
from fedsim.theory import convergence, distances, stationary
from reports.make.kept import ROOT, SCENARIOS, Kept, Record, above_by_separation, above_uniform, of
from reports.make.words import rounds_taken, with_error, with_interval

SMALL = np.array([6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
"""The weights of the paper's statements that are computed here: N = 6, B = 1."""


def check(name: str) -> SimpleNamespace:
    """Return what one of the independent scripts of docs/checks defines."""
    return SimpleNamespace(**run_path(str(ROOT / "docs" / "checks" / f"{name}.py")))


def page(name: str, folder: str = "paper") -> str:
    """Return a link to a scenario."""
    return f"[`{name}`](../scenarios/{folder}/{name}.fedsim.yaml)"


def script(name: str) -> str:
    """Return a link to an independent script."""
    return f"[`{name}.py`](checks/{name}.py)"


def small(value: float) -> str:
    """Write a difference, whose last digits are of rounding and change with the processor."""
    return "below 1e-12" if value < 1e-12 else f"{value:.0e}"


@cache
def closed_form_error() -> float:
    """Return the largest difference between the closed form and enumeration."""
    both = [[stationary(SMALL, r, method=each).pi for each in ("closed-form", "exact")] for r in range(5)]
    return float(np.abs(np.diff(both, axis=1)).max())


def state_counts() -> str:
    """Count states, followers and predecessors of three chains."""
    chain, parts = check("irreducibility"), []
    for size in ((6, 1, 2), (6, 2, 1), (6, 2, 2)):
        every = chain.states(*size)
        after = [chain.successors(state, *size[:2]) for state in every]
        before = Counter(state for states in after for state in states)
        [each] = {*map(len, after), *before.values()}
        parts.append(f"{size}: {len(every)} states, {each} each way")
    return "; ".join(parts)


def equal_weights() -> float:
    """Return the largest distance from uniform, over all R, of a chain of equal weights."""
    return max(stationary(np.ones(6), r).l1_uniform for r in range(6))


@cache
def figure_1(*separations: int) -> str:
    """Write the distances from uniform of the paper's first figure."""
    weights = build_population(Scenario.load(SCENARIOS / "paper" / "bias-vs-separation.fedsim.yaml")).weight
    return ", ".join(f"{value:.4f}" for value in distances(weights, list(separations)))


def left_after(rounds: int, separation: int) -> float:
    """Return the L1 distance from pi_R of who takes part so late; the heaviest have just taken part at the start."""
    waits = [max(0, separation - place) for place in range(len(SMALL))]
    course = convergence(SMALL, separation, rounds=rounds, start=waits)
    return float(np.abs(course.eta[-1] - course.limit.pi).sum())


@cache
def near_uniform(cohort: int, *sizes: int) -> str:
    """Write N times the largest L1 at R = N/B - 2 over ten draws of weights within half of their mean."""
    parts = []
    for clients in sizes:
        draws = np.random.default_rng(clients).uniform(0.5, 1.5, (10, clients))
        largest = max(float(distances(weights, [clients // cohort - 2], cohort)[0]) for weights in draws)
        parts.append(f"{clients * largest:.2f} at N = {clients}")
    return ", ".join(parts)


@cache
def total_variation(*separations: int) -> str:
    """Write the sum of d(t) in mixing times, after checking the other two statements of the lemma."""
    checked = [check("appendix_lemmas").total_variation(r) for r in separations]
    assert all(falls and times for falls, times, _ in checked)
    return ", ".join(f"{ratio:.2f}" for _, _, ratio in checked)


@cache
def bias_of_counts(*separations: int) -> str:
    """Write how far the mean of counted frequencies is from the limit, of which 1/t is extrapolated away."""
    means = {r: check("appendix_lemmas").mean_frequencies(r, 400) for r in separations}
    return "; ".join(
        f"R = {r}: " + ", ".join(f"{np.abs(mean[t - 1] - (2 * mean[399] - mean[199])).max():.4f}" for t in (10, 100))
        for r, mean in means.items()
    )


def fallen(records: Sequence[Record], name: str, separation: int | None = None) -> str:
    """Say by what share of the loss runs still fall in the end, if known, and how many have settled."""
    runs = of(records, name, separation)
    drift = f"{100 * np.mean([each['drift'] for each in runs]):.3g} %" if "drift" in runs[0] else ""
    return f"{drift} | {sum(each['converged'] for each in runs)} of {len(runs)}"


def falling(records: Sequence[Record], what: str = "average_loss") -> str:
    """Say in how many draws, or participations, FedAvg's bias falls with the separation."""
    above = np.array(list(above_by_separation(records, "fedavg", what).values()))
    return f"{(np.diff(above, axis=0) < 0).all(axis=0).sum()} of {above.shape[1]}"


def by_separation(records: Sequence[Record], name: str, write: Callable[[np.ndarray], str]) -> str:
    """Write an optimizer's loss above uniform at each separation."""
    return "; ".join(f"R = {r}: {write(values)}" for r, values in above_by_separation(records, name).items())


def above_at(records: Sequence[Record], name: str, mark: int, separation: int | None = None) -> np.ndarray:
    """Return by how much single models' losses until a mark lie above those of uniform participation."""
    at = [each | {"at": each["losses"][mark]} for each in records]
    return above_uniform(at, name, separation, what="at")


Scales = Mapping[str, Mapping[str, Sequence[float]]]
"""A value for each seed, by figure, by scale."""
CLOSE = 0.02
"""Figures that differ by less than this share, or by less than three standard errors, are kept."""


def compared(value: float, form: str, low: float, high: float, within: str) -> str:
    """Write a measured figure, and whether it lies where it agrees with the published one."""
    return f"{form.format(value)} | {'yes' if low <= value <= high else f'**no** ({within} would)'}"


def verdict(figure: str, scale: str, measured: Scales) -> str:
    """Say whether a figure is kept at a scale: yes, divided, or no."""
    large, small = (np.array(measured[each][figure]) for each in ("1", scale))
    factor = int(scale.partition(",")[0].partition("/")[2])
    error = math.sqrt(large.var(ddof=1) / len(large) + small.var(ddof=1) / len(small))
    apart = abs(small.mean() - large.mean())
    if apart <= max(CLOSE * abs(large.mean()), 3 * error):
        return "yes"
    scaled_up = abs(small.mean() * factor - large.mean())
    return "divided" if scaled_up <= max(CLOSE * abs(large.mean()), 3 * factor * error) else "**no**"


def at_scale(figure: str, scale: str, measured: Scales) -> str:
    """Write the mean of a figure at a scale, and, of a smaller one, the spread of a run and whether it is kept."""
    values = np.array(measured[scale][figure])
    spread = "" if scale == "1" else f" ({values.std(ddof=1):.2g}), {verdict(figure, scale, measured)}"
    return f"{values.mean():.4g}{spread}"


class Placeholders:
    """The numbers of the stores, by the names that the templates call them by."""

    def __init__(self, kept: Kept) -> None:
        self.rates, self.networks, self.what_ifs = kept["rates"], kept["networks"], kept["what-ifs"]
        self.draws, self.images = kept["draws"], kept["figure-3"]
        self.scaling: Scales = self._studies("scaling-")
        self.validation = self._studies("validation-")

    def _studies(self, prefix: str) -> dict[str, dict[str, list[float]]]:
        """Return the metrics of the what-ifs whose names begin so, by the rest of the name."""
        names = (name for name in self.what_ifs if name.startswith(prefix))
        return {name.removeprefix(prefix): self.what_ifs[name]["metrics"] for name in names}

    def running_frequencies(self, *separations: int) -> str:
        """Write how far running frequencies are from their limit after 100 rounds."""
        return "; ".join(f"R = {r}: {with_error(self.rates['running'][str(r)], 3)}" for r in separations)

    def lemma_2(self, what: str, digits: int, *rounds: int) -> str:
        """Write t times the squared errors of frequencies or weights, by separation."""
        return "; ".join(
            f"R = {r}: " + ", ".join(with_error([t * value for value in errors[what][str(t)]], digits) for t in rounds)
            for r, errors in self.rates["lemma_2"].items()
        )

    def floor_orders(self) -> str:
        """Write FedAvg's floor over the squared L1 distance of pi from uniform, by separation."""
        weights = np.arange(1, 21) ** -1.5
        orders = {
            r: floor / stationary(weights, int(r)).l1_uniform ** 2
            for r, (floor, _) in self.rates["floor"].items()
            if r != "19"
        }
        return ", ".join(f"{value:.2f} at R = {r}" for r, value in orders.items())

    def settled_draws(self, study: str, *separations: int) -> set[int]:
        """Return the draws in which all runs have settled: those at these separations, and the uniform one."""
        records = [each for each in self.draws[study]["records"] if each["separation"] in {None, *separations}]
        return {each["draw"] for each in records} - {each["draw"] for each in records if not each["converged"]}

    @property
    def synthetic(self) -> list[Record]:
        """The records of the synthetic problem in the draws in which all runs have settled."""
        settled = self.settled_draws("synthetic-long-draws", 0, 8)
        return [each for each in self.draws["synthetic-long-draws"]["records"] if each["draw"] in settled]

    def rounds_within(self, share: str, problem: str, name: str, separation: int) -> str:
        """Write the rounds until an optimizer is within a share of uniform's descent from its end."""
        runs = of(self.draws[f"{problem}-participations"]["records"], name, separation)
        return rounds_taken([each["rounds_within"][share] for each in runs])

    @property
    def figure_3(self) -> list[Record]:
        """The records of all separations."""
        return [each for name, study in self.images.items() if "long" not in name for each in study["records"]]

    def values(self, study: str, metric: str) -> np.ndarray:
        """Return a metric of a study by seed."""
        return np.array(self.what_ifs[study]["metrics"][metric], dtype=float)

    def average(self, study: str, metric: str) -> float:
        """Return the mean of a metric over the seeds."""
        return float(self.values(study, metric).mean())

    def mean(self, study: str, metric: str, digits: int, scale: float = 1.0) -> str:
        """Write the mean of a metric over the seeds with its interval."""
        return with_interval(scale * self.values(study, metric), digits)

    def known(self, study: str, optimizer: str, what: str) -> str:
        """Write the mean of an optimizer's figure, where every seed has it."""
        metric = f"learning.{optimizer}.{what}"
        missing = None in self.what_ifs[study]["metrics"].get(metric, [None])
        return "" if missing else self.mean(study, metric, 3)

    def available_by_hour(self) -> list[tuple[float, int]]:
        """Return the share of the phones that is available and the hour of the day, by share."""
        shares = [(f"population.available_share.local.{hour:02d}", hour) for hour in range(24)]
        return sorted((100 * self.average("night-charging", metric), hour) for metric, hour in shares)

    @property
    def servers(self) -> list[tuple[str, str, str]]:
        """The studies of rounds and buffers: their names, what the server does, and the cool-down."""
        servers = {"rounds-100": "rounds of 100", "rounds-80": "first 80 of 100"}
        servers |= {"buffer-10": "buffer of 10", "buffer-100": "buffer of 100"}
        waits = (("0s", "none"), ("30m", "30 min"))
        return [(f"{name}-{wait}", words, cooldown) for wait, cooldown in waits for name, words in servers.items()]

    def reached(self, study: str, name: str) -> str:
        """Write time and device-hours to the target, and the distance from the optimum."""
        metrics, seeds = (self.what_ifs[study][each] for each in ("metrics", "seeds"))
        runs = [metrics.get(f"learning.{name}.{what}") for what in ("time_to_target", "device_hours_to_target")]
        times, hours = ([value for value in values or [] if value is not None] for values in runs)
        distance = f"{self.average(study, f'learning.{name}.bias'):.2f}"
        if not times:
            return f"never |  | {distance}"
        minutes = float(np.mean(times)) / 60.0
        words = f"{minutes:.0f} min" if minutes < 60 else f"{minutes / 60:.1f} h"
        some = "" if len(times) == seeds else f" in {len(times)} of {seeds}"
        return f"{words}{some} | {np.mean(hours):.0f} | {distance}"
