"""Weights of the server under which participation is a wanted one, and what they cost, tried by simulating."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import polars as pl

from fedsim.common.arrays import Bools, Floats
from fedsim.common.errors import ChainError
from fedsim.common.instants import DAY_S
from fedsim.common.progress import Report, silent
from fedsim.learning.cohorts import frequencies
from fedsim.measure.contributions import pulls
from fedsim.measure.frequencies import l1
from fedsim.measure.metrics.metric import updates_of
from fedsim.run.chain import participation_of
from fedsim.run.federation import PreparedFederation
from fedsim.run.preflight import preflight
from fedsim.run.simulate import progress_reporter
from fedsim.scenario import Scenario
from fedsim.selection.laws import law_of
from fedsim.simulation.engine import simulate_log
from fedsim.theory.available_prediction import ExpectedReports, by_weights, why_not
from fedsim.theory.prediction import all_report, before_the_chain
from fedsim.theory.wanted_weights import fitted, weights_for

REACHED = 0.01
"""A client whose expected share is this close to the wanted one, relative, has it."""
_CLOSE, _STEPS = 1e-4, 60
_PASSES = 2  # over what is simulated, since weights move the instants of selections
_NONE = 1e-9  # of a fair share: what is expected of a device that is never there


@dataclass(frozen=True)
class SimulatedShares:
    """What a simulation of the scenario gave."""

    tv: float  # distance of the clients' shares from the wanted ones
    updates_per_day: float  # rounds that took a report
    reports_per_day: float


@dataclass(frozen=True, eq=False)
class Design:
    """Weights for a wanted participation. Shares are of the pull on the model; arrays are (N,)."""

    weights: Floats = field(repr=False)  # mean 1
    wanted: Floats = field(repr=False)  # sum 1
    expected: Floats = field(repr=False)  # what theory expects under the weights, sum 1
    method: str  # which theory that is
    before: SimulatedShares  # with the scenario's own weights
    after: SimulatedShares
    error: float | None = None  # of an expected share, relative, as theory estimates it; None where it does not
    other_seed: SimulatedShares | None = None  # where devices come and go, which another seed draws anew

    @property
    def missed(self) -> Bools:
        """Clients whose expected share is more than 1 % away from the wanted one."""
        return np.abs(self.expected / self.wanted - 1.0) > REACHED


def design(scenario: Scenario, target: Floats | None = None, progress: Report = silent) -> Design:
    """Find the weights under which clients move the model in proportion to `target`, (N,) positive; alike by default.

    Always-available clients are answered by the chain, others by the mean field of devices that come and go over the
    rounds of a simulation. Scenarios are simulated without their sweep, and without training.

    Raises
    ------
    ScenarioError
        If the scenario cannot work.
    ChainError
        If the target makes no sense, or no theory covers the scenario.
    """
    scenario = participation_of(scenario)
    server = scenario.server
    if not server.selects_once:
        raise ChainError("weights are found for synchronous rounds, and this scenario's server is buffered")
    federation = preflight(scenario)
    population, size = federation.population, len(federation.population)
    wanted = np.full(size, 1.0) if target is None else np.asarray(target, dtype=np.float64)
    if wanted.shape != (size,):
        raise ChainError(
            f"the target is {wanted.size:,} numbers, and there are {size:,} clients: give each a positive one"
        )
    if (bad := np.flatnonzero(~(np.isfinite(wanted) & (wanted > 0)))).size:
        raise ChainError(f"the target of client {bad[0]:,} is {wanted[bad[0]]:g}: it must be positive and finite")
    wanted = wanted / wanted.sum()
    chained = before_the_chain(scenario, population, most=size) is None and all_report(scenario, population)
    if not chained and (unknown := why_not(scenario, population)):
        raise ChainError(f"the mean field of devices that come and go does not know of {unknown}")
    trial = partial(_trial, federation, wanted, progress)
    before, rounds = trial(population.weight, "with the weights as they are")
    if chained:
        solution = weights_for(
            wanted, population.separation, server.wanted, law_of(server), means=scenario.divisor is None
        )
        method = "the mean field of the chain" if solution.method == "mean-field" else "the chain"
        after, _ = trial(solution.weights, "with the new weights")
        return Design(solution.weights, wanted, solution.shares, method, before, after, solution.error)
    weights, method = population.weight * size, "the mean field of devices that come and go"
    for number in range(_PASSES):
        progress(f"finding weights, {number + 1} of {_PASSES}", 0.0)
        expects = partial(_expected, by_weights(scenario, population, rounds))
        weights = fitted(expects, wanted, weights, close=_CLOSE, steps=_STEPS)
        expected = expects(weights)
        after, rounds = trial(weights, f"with new weights, {number + 1} of {_PASSES}")
    other, _ = trial(weights, "with another seed", 1)
    return Design(weights, wanted, expected, method, before, after, None, other)


def _expected(by_weight: Callable[[Floats], ExpectedReports], weights: Floats) -> Floats:
    return np.maximum(by_weight(weights / weights.sum()).shares, _NONE / len(weights))


def _trial(
    federation: PreparedFederation, wanted: Floats, progress: Report, weights: Floats, how: str, replicate: int = 0
) -> tuple[SimulatedShares, pl.DataFrame]:
    """Simulate with these weights, (N,); return its outcome, and the table of rounds."""

    def named_progress(what: str, share: float, beside: str = "", /) -> None:
        progress(f"{what} {how}", share, beside)

    scenario, population = federation.scenario, replace(federation.population, weight=weights / weights.sum())
    log = simulate_log(scenario, population, replicate, progress_reporter(scenario, named_progress), federation.devices)
    share = pulls if scenario.divisor is None else frequencies
    shares = share(log.participations, len(wanted))
    counted = updates_of(log.rounds, buffered=False), log.rounds["reported"]
    updates, reports = (int(each.sum()) / (log.ended_s / DAY_S or np.nan) for each in counted)
    return SimulatedShares(l1(shares, wanted) / 2, updates, reports), log.rounds
