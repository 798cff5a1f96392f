"""The functions that the templates beside this file call: numbers from the stores, or from theory."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import permutations
from runpy import run_path
from types import SimpleNamespace
from typing import cast

import numpy as np

from fedsim import Scenario, chain
from fedsim.population import build_population
from fedsim.theory import Stationary, convergence, distances, mixing, stationary
from reports.make.kept import ROOT, SCENARIOS, Kept, Record, above_by_separation, above_uniform, of
from reports.make.words import mean_and_half, rounds_taken, signed, with_error, with_interval, with_range

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


def small_law(separation: int) -> Stationary:
    """Return the stationary law of the small chain."""
    return stationary(SMALL, separation)


def independent() -> float:
    """Return how far the stationary law at R = 0 is from the weights."""
    return float(np.abs(small_law(0).pi - SMALL / SMALL.sum()).max())


@cache
def closed_form_error() -> float:
    """Return the largest difference between the closed form and enumeration."""
    laws = [[stationary(SMALL, r, method=each).pi for each in ("closed-form", "exact")] for r in range(5)]
    return float(np.abs(np.diff(laws, axis=1)).max())


def state_counts() -> str:
    """Count states, followers and predecessors of three chains; they are as many as the formulas say."""
    found, parts = check("irreducibility"), []
    for clients, cohort, separation, states, each in ((6, 1, 2, 30, 4), (6, 2, 1, 30, 12), (6, 2, 2, 360, 2)):
        every = found.states(clients, cohort, separation)
        after = [found.successors(state, clients, cohort) for state in every]
        before = Counter(state for states in after for state in states)
        assert len(every) == states, (clients, cohort, separation)
        assert {*map(len, after), *(before[state] for state in every)} == {each}, (clients, cohort, separation)
        parts.append(f"({clients}, {cohort}, {separation}): {states} states, {each} each way")
    return "; ".join(parts)


def neighbours() -> str:
    """Write what follows one state of the paper's example, and what precedes another."""
    found = check("irreducibility")

    def written(states: list[tuple[tuple[int, ...], ...]]) -> str:
        return ", ".join("(" + ", ".join(str(cohort[0] + 1) for cohort in state) + ")" for state in states)

    before = [state for state in found.states(4, 1, 2) if ((0,), (3,)) in found.successors(state, 4, 1)]
    return f"{written(found.successors(((1,), (0,)), 4, 1))} follow; {written(before)} precede"


def equal_weights() -> float:
    """Return the largest distance from uniform, over all R, of a chain of equal weights."""
    return max(stationary(np.ones(6), r).l1_uniform for r in range(6))


@cache
def figure_1(*separations: int) -> str:
    """Write the distances from uniform of the paper's first figure."""
    weights = build_population(Scenario.load(SCENARIOS / "paper" / "bias-vs-separation.fedsim.yaml")).weight
    return ", ".join(f"{value:.4f}" for value in distances(weights, list(separations)))


def by_theory(separation: int) -> float:
    """Return the distance from uniform of the synthetic problem's participation, by theory."""
    return chain(SCENARIOS / "paper" / "debiased-synthetic.fedsim.yaml", separation=separation)[0].l1_uniform


@cache
def evolution(separation: int, rounds: int = 60) -> tuple[float, float]:
    """Return how far eta_R(t) by the paper's matrices is from `convergence`, and the L1 distance from pi_R at the end.

    They begin with the window of the clients 0 to R - 1, the first of them the last to take part.
    """
    windows = list(permutations(range(len(SMALL)), separation))
    choice = np.array([[0.0 if i in window else SMALL[i] for i in range(len(SMALL))] for window in windows])
    choice /= choice.sum(axis=1, keepdims=True)
    matrix = check("mixing_conjecture").transition_matrix(separation)
    phi, eta = np.eye(len(windows))[0], list[np.ndarray]()
    for _ in range(rounds):
        eta.append(choice.T @ phi)
        phi = matrix.T @ phi
    waits = [max(0, separation - place) for place in range(len(SMALL))]
    found = convergence(SMALL, separation, rounds=rounds, start=waits)
    return float(np.abs(found.eta - eta).max()), float(np.abs(eta[-1] - found.limit.pi).sum())


@cache
def near_uniform(*sizes: int) -> str:
    """Write N times the largest L1 at R = N - 2 over ten draws of weights within half of their mean."""
    parts = []
    for clients in sizes:
        draws = np.random.default_rng(clients).uniform(0.5, 1.5, (10, clients))
        largest = max(float(distances(weights, [clients - 2])[0]) for weights in draws)
        parts.append(f"{clients * largest:.2f} at N = {clients}")
    return ", ".join(parts)


@cache
def total_variation(*separations: int) -> str:
    """Write the sum of d(t) in mixing times, after checking the other two statements of the lemma."""
    found = [check("appendix_lemmas").total_variation(r) for r in separations]
    assert all(falls and times for falls, times, _ in found)
    return ", ".join(f"{ratio:.2f}" for _, _, ratio in found)


@cache
def mixing_times(*separations: int) -> str:
    """Write mixing times of the small chain."""
    return ", ".join(str(mixing(SMALL, r).mixing_time) for r in separations)


@cache
def bias_of_counts(*separations: int) -> str:
    """Write how far the mean of counted frequencies is from the limit, of which 1/t is extrapolated away."""
    means = {r: check("appendix_lemmas").mean_frequencies(r, 400) for r in separations}
    return "; ".join(
        f"R = {r}: " + ", ".join(f"{np.abs(mean[t - 1] - (2 * mean[399] - mean[199])).max():.4f}" for t in (10, 100))
        for r, mean in means.items()
    )


def network_verdict(runs: list[Record]) -> str:
    """Say whether FedAvg lies above Debiased FedAvg, participation by participation, by both metrics."""
    told, sure = [], []
    for what, words in (("average_loss", "mean models"), ("loss", "single models")):
        avg, debiased = (above_uniform(runs, name, what=what) for name in ("fedavg", "debiased_fedavg"))
        apart = avg - debiased
        mean, half = mean_and_half(apart)
        sure.append(mean > half)
        told.append(f"by {with_interval(apart, 4)} of {words}, in {int((apart > 0).sum())} of {len(apart)}")
    verdict = "yes" if all(sure) else "in part" if any(sure) else "not decided"
    return f"{verdict}: FedAvg lies above Debiased FedAvg {' and '.join(told)}"


def figure_3_verdict(short: list[Record], long: list[Record]) -> str:
    """Say in how many participations the order of the paper's Figure 3 is seen, and whether a distance stays.

    `short` are records of all separations, `long` of one, whose losses above uniform are compared from mark to mark.
    """
    fedavg, debiased = (above_by_separation(short, name, "loss") for name in ("fedavg", "debiased_fedavg"))
    falls: np.ndarray = np.all(np.diff(np.array(list(fedavg.values())), axis=0) < 0, axis=0)
    apart = [str(r) for r, above in debiased.items() if above.mean() > mean_and_half(above)[1]]
    where = f"at R = {', '.join(apart)}" if apart else "nowhere"
    first, last = (above_at(long, "fedavg", mark) for mark in (0, -1))
    change, half = mean_and_half(last - first)
    how = "grows" if change > half else "shrinks" if -change > half else "does not change by more than chance"
    return "; ".join(
        [
            f"FedAvg's bias falls with R in {int(falls.sum())} of {len(falls)}",
            f"Debiased FedAvg lies above uniform by more than chance {where}",
            f"{sum(each['converged'] for each in short)} of {len(short)} runs have settled",
            f"later, at R = 0, FedAvg's distance {how}: {signed(first.mean(), 3)}, {signed(last.mean(), 3)}",
        ]
    )


def losses_at(records: Sequence[Record], name: str, mark: int) -> np.ndarray:
    """Return single models' losses until a mark."""
    return np.array([each["losses"][mark] for each in of(records, name)])


def fallen(records: Sequence[Record], name: str, separation: int | None = None) -> str:
    """Say by what share of the loss runs still fall from their third quarter to the last, and how many have settled."""
    runs = of(records, name, separation)
    drift = f"{100 * np.mean([each['drift'] for each in runs]):.3g} %"
    return f"{drift} | {sum(each['converged'] for each in runs)} of {len(runs)}"


def above_at(records: Sequence[Record], name: str, mark: int, separation: int | None = None) -> np.ndarray:
    """Return by how much single models' losses until a mark lie above those of uniform participation."""
    at = [each | {"at": each["losses"][mark]} for each in records]
    return above_uniform(at, name, separation, what="at")


Figures = Mapping[str, Mapping[str, float]]
"""Metrics by the name of the scenario."""
Scales = Mapping[str, Mapping[str, Sequence[float]]]
"""A value for each seed, by figure, by scale."""
CLOSE = 0.02
"""Figures that differ by less than this share, or by less than three standard errors, are kept."""


def compared(value: float, form: str, low: float, high: float, within: str) -> str:
    """Write a measured figure, and whether it lies where it agrees with the published one."""
    return f"{form.format(value)} | {'yes' if low <= value <= high else f'**no** ({within} would)'}"


def faster(figures: Figures) -> float:
    """Return how many times sooner the buffered server reaches the loss."""
    rounds, buffer = figures["papaya-rounds"], figures["papaya-buffer"]
    return rounds["learning.fedavg.time_to_target"] / buffer["learning.fedbuff.time_to_target"]


def fewer(figures: Figures) -> float:
    """Return how many times fewer sessions the buffered server begins on the way to the loss."""
    begun = [
        own[f"learning.{name}.rounds_to_target"] * own["sessions.count"] / own["rounds.count"]
        for own, name in ((figures["papaya-rounds"], "fedavg"), (figures["papaya-buffer"], "fedbuff"))
    ]
    return begun[0] / begun[1]


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


def _by_separation(records: list[Record], name: str, separation: int | None, write: Callable[[np.ndarray], str]) -> str:
    """Write an optimizer's loss above uniform, at one separation or at each."""
    if separation is not None:
        return write(above_uniform(records, name, separation))
    return "; ".join(f"R = {r}: {write(values)}" for r, values in above_by_separation(records, name).items())


class Placeholders:
    """The numbers of the stores, by the names that the templates call them by."""

    def __init__(self, kept: Kept) -> None:
        self.rates, self.networks, self.what_ifs = kept["rates"], kept["networks"], kept["what-ifs"]
        self.draws, self.validation = kept["draws"], kept["validation"]
        self._figure_3 = kept["figure-3"]
        self.scaling, self._two_speeds, self._clipping = kept["scaling"], kept["two-speeds"], kept["clipping"]

    def running_frequencies(self, *separations: int) -> str:
        """Write how far running frequencies are from their limit after 100 rounds."""
        l1, error = self._two_speeds["running_l1"], self._two_speeds["running_l1_error"]
        pairs = {r: [l1[str(r)]["100"], 1.96 * error[str(r)]] for r in separations}
        return "; ".join(f"R = {r}: {with_error(pair, 3)}" for r, pair in pairs.items())

    def lemma_3(self, what: str, digits: int, *rounds: int) -> str:
        """Write t times the squared errors of frequencies or weights, by separation."""
        return "; ".join(
            f"R = {r}: " + ", ".join(with_error([t * value for value in found[what][str(t)]], digits) for t in rounds)
            for r, found in self.rates["lemma_3"].items()
        )

    def settled_draws(self, study: str, *separations: int) -> set[int]:
        """Return the draws in which all runs have settled: those at these separations, and the uniform one."""
        records = [each for each in self.draws[study]["records"] if each["separation"] in {None, *separations}]
        return {each["draw"] for each in records} - {each["draw"] for each in records if not each["converged"]}

    def larger_with_random_groups(self, separation: int) -> int:
        """Return in how many draws FedAvg's bias is larger with random groups than with consecutive ones."""
        studies = (self.draws[f"synthetic-{groups}long-draws"]["records"] for groups in ("random-groups-", ""))
        random, consecutive = (above_uniform(records, "fedavg", separation) for records in studies)
        return int((random > consecutive).sum())

    def synthetic(self, name: str, separation: int | None = None) -> str:
        """Write an optimizer's loss above uniform on the synthetic problem, at one separation or at each."""
        settled = self.settled_draws("synthetic-long-draws", 0, 8)
        records = [each for each in self.draws["synthetic-long-draws"]["records"] if each["draw"] in settled]
        return _by_separation(records, name, separation, with_range)

    def digits(self, name: str, separation: int | None = None) -> str:
        """Write the same of digits."""
        return _by_separation(self.draws["digits-draws"]["records"], name, separation, with_interval)

    def l1_uniform(self, separation: int) -> str:
        """Write the L1 distance from uniform of the participations of the synthetic problem."""
        runs = of(self.draws["synthetic-long-participations"]["records"], "fedavg", separation)
        return with_interval(np.array([each["l1_uniform"] for each in runs]), 3)

    def rounds_within(self, share: str, problem: str, name: str, separation: int) -> str:
        """Write the rounds until an optimizer is within a share of uniform's descent from its end."""
        runs = of(self.draws[f"{problem}-participations"]["records"], name, separation)
        return rounds_taken([each["rounds_within"][share] for each in runs])

    def falling(self) -> int:
        """Return in how many draws of digits FedAvg's bias falls with the separation."""
        by_r = list(above_by_separation(self.draws["digits-draws"]["records"], "fedavg").values())
        return int((np.diff(by_r, axis=0) < 0).all(axis=0).sum())

    def unsettled(self) -> str:
        """Say in how many draws of digits FedAvg has not settled at R = 0."""
        count = sum(not each["converged"] for each in of(self.draws["digits-draws"]["records"], "fedavg", 0))
        return f"At R = 0 FedAvg has not settled in {count} of 10" if count else "All have settled"

    def network(self, study: str, name: str, what: str, digits: int = 4) -> str:
        """Write by how much a loss of the network lies above uniform."""
        return with_interval(above_uniform(self.networks[study]["records"], name, what=what), digits)

    def settled(self, study: str, name: str) -> str:
        """Say how many runs of the network have settled, and by what share of the loss they still fall, if known."""
        runs = of(self.networks[study]["records"], name)
        drift = f"{100 * np.mean([each['drift'] for each in runs]):.2f} %" if "drift" in runs[0] else ""
        return f"{sum(each['converged'] for each in runs)} of {len(runs)} | {drift}"

    @property
    def figure_3(self) -> list[Record]:
        """The records of all separations."""
        return [each for name, study in self._figure_3.items() if "long" not in name for each in study["records"]]

    def images(self, study: str) -> Record:
        """Return a study of the network on images."""
        return cast(Record, self._figure_3[study])

    def clipped(self, kind: str, training: str, clip: float | None) -> str:
        """Write the bias that a clip leaves."""
        return with_interval(np.array([found[f"{kind} {training} {clip}"] for found in self._clipping.values()]), 3)

    def largest_weights(self) -> str:
        """Write how large the first weights of Debiased FedAvg became."""
        seen = np.array(self.networks["weights-r0"]["largest_weights"])
        return f"{np.median(seen):.0f} in the median of ten runs ({seen.min():.0f} to {seen.max():.0f})"

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

    def lost(self, metric: str) -> str:
        """Write what share of a metric's value at R = 0 is lost at R = 20, in per cent."""
        long, none = (self.values(f"separation-versus-speed-{r}", metric) for r in (20, 0))
        return with_interval(100.0 - 100.0 * long / none, 0)

    def debiased_nearer(self) -> str:
        """Say with how many seeds Debiased FedAvg ends nearer to the optimum than FedAvg."""
        debiased, avg = (self.values("time-zones", f"learning.{each}.bias") for each in ("debiased_fedavg", "fedavg"))
        return f"{int((debiased < avg).sum())} of {len(avg)}"

    def chasing(self, metric: str) -> str:
        """Say of each law that chases loss how a metric differs from that of uniform selection, by separation."""
        said = list[str]()
        for law in ("oort", "power_of_choice", "loss_proportional", "refl"):
            parts = list[str]()
            for r in (0, 20):
                more = self.values(f"chasing-{law}-{r}", metric) - self.values(f"chasing-uniform-{r}", metric)
                mean, half = mean_and_half(more)
                word = f"{abs(mean):.3f} ± {half:.3f} {'more' if mean > 0 else 'less'}"
                parts.append(f"{'no difference' if abs(mean) <= half else word} at R = {r}")
            said.append(f"`{law}`: {', '.join(parts)}")
        return f"Distance from uniform participation, compared with `uniform`: {'; '.join(said)}."

    @property
    def servers(self) -> list[tuple[str, str, str]]:
        """The studies of rounds and buffers: their names, what the server does, and the cool-down."""
        servers = {"rounds-100": "rounds of 100", "rounds-80": "first 80 of 100"}
        servers |= {"buffer-10": "buffer of 10", "buffer-100": "buffer of 100"}
        waits = (("0s", "none"), ("30m", "30 min"))
        return [(f"{name}-{wait}", words, said) for wait, said in waits for name, words in servers.items()]

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
