"""How long a run is likely to take, extrapolated from a pilot: the beginning of the run."""

import gc
import multiprocessing
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsim.common.arrays import Floats
from fedsim.common.errors import FedsimError
from fedsim.common.instants import DAY_S
from fedsim.common.memory import SHARE, limit_this_process
from fedsim.common.working_time import working_s
from fedsim.log.recorder import InMemoryLog
from fedsim.measure.series import by_day
from fedsim.run.budget import check_log_size
from fedsim.run.evaluate import evaluate, learner_of
from fedsim.run.federation import PreparedFederation
from fedsim.run.preflight import preflight
from fedsim.run.simulate import simulate
from fedsim.scenario import Scenario
from fedsim.scenario.stop import Counts, Stop
from fedsim.simulation import Enough, simulate_log

_FEWEST_ROUNDS = 4
_WHOLE_DAY = 3.0  # times its budget a pilot may take to see a whole day
_FIRST_ROUNDS = 4  # of the log that are measured, before all are
# Factors of uncertainty: of a run that was done whole, of one seen for a day or by rounds, of one seen for less.
_NOISE, _SEEN, _UNSEEN = 1.25, 1.5, 1.7
_WIDEST = 3.0**0.5  # from the estimate to either end of its range


@dataclass(frozen=True)
class Estimate:
    """Processor seconds that a run is likely to take, and between which they are likely to lie."""

    seconds: float
    low: float
    high: float


def total_estimate(estimates: Iterable[Estimate | None]) -> Estimate | None:
    """Return the sum of estimates; None where one is unknown."""
    parts = list(estimates)
    if None in parts:
        return None
    return Estimate(*(sum(getattr(each, name) for each in parts) for name in ("seconds", "low", "high")))


def pilot(scenario: Scenario, budget_s: float) -> Estimate | None:
    """Try the beginning of a run, and extrapolate the processor time of this process to the whole run of a sweep.

    The budget is for its rounds, in addition to what making the population and evaluating a log takes; up to three
    times as much, or as much as it took to begin, is spent in order to see a whole day. The estimate covers neither the
    start of the process nor a page. None if the run fails.
    """
    if multiprocessing.parent_process() is not None:
        limit_this_process(SHARE)
    try:
        return _pilot(scenario, budget_s)
    except (FedsimError, ArithmeticError, MemoryError):
        return None
    finally:
        gc.collect()  # free its memory before the next pilot


def warm_up(scenario: Scenario) -> None:
    """Do one round of a run, so that what is imported once is not counted as the runs' own time."""
    with suppress(FedsimError, ArithmeticError, MemoryError):
        simulate(scenario.model_copy(update={"stop": scenario.stop.cut(1)}))


def _pilot(scenario: Scenario, budget_s: float) -> Estimate:
    began = working_s()
    daily, federation = by_day(scenario), preflight(scenario)
    check_log_size(scenario)
    seen: list[tuple[float, ...]] = []  # counts, rounds first; simulated time, processor time

    def look(counts: Counts, now_s: float) -> None:
        now, rounds = working_s(), counts.rounds
        if not seen or rounds > seen[-1][0]:
            seen.append((*counts, now_s, now))
        if rounds <= 1:  # the first round also sets up devices, so it says nothing about the pace
            return
        first, *_, begun_s, begun = seen[min(1, len(seen) - 1)]
        spent, longest_s = now - begun, max(_WHOLE_DAY * budget_s, begun - began)
        if spent < budget_s or (rounds - first < _FEWEST_ROUNDS and spent < longest_s):
            return
        if not daily or now_s - begun_s >= DAY_S or spent >= longest_s:
            raise Enough

    log = simulate_log(scenario, federation.population, 0, look, federation.devices, learner_of(federation))
    simulated = working_s() - began
    rounds = len(log.rounds)
    counts = Counts(rounds, len(log.participations), int(log.rounds["reported"].sum()))
    whole = scenario.stop.share(counts, log.ended_s) >= 1.0
    fixed, of_a_round = _evaluation(federation, log, budget_s)
    if whole:
        seconds = simulated + fixed + of_a_round * rounds
        return Estimate(seconds, seconds / _NOISE, seconds * _NOISE)
    points = np.array(seen[1:] if len(seen) > 2 else seen, dtype=np.float64)
    place, day = _window(points[:, -2])
    guesses = []
    for since in (place, 0):
        more_s, more_rounds = _rest(points[since], points[-1], scenario.stop)
        guesses.append(simulated + more_s + fixed + of_a_round * (rounds + more_rounds))
    off = _UNSEEN if daily and not day else _SEEN
    low, high = min(guesses) / off, max(guesses) * off
    return Estimate(guesses[0], max(low, guesses[0] / _WIDEST), min(high, guesses[0] * _WIDEST))


def _window(instants: Floats) -> tuple[int, bool]:
    """Return the index from which the pace is measured, and whether whole days follow it; the first day is left out.

    Before a whole day has passed it is the second half of the pilot, when most devices have been set up.
    """
    days = int((instants[-1] - instants[0]) // DAY_S)
    if not days:
        return (len(instants) - 1) // 2, False
    since = instants[-1] - max(1, days - 1) * DAY_S
    return max(0, int(np.searchsorted(instants, since, side="right")) - 1), True


def _rest(since: NDArray[np.float64], last: NDArray[np.float64], stop: Stop) -> tuple[float, float]:
    """Return processor seconds and rounds until the stop, at the pace between two points of a pilot."""
    rounds, *_, seconds = (last - since).tolist()
    before, now = (stop.shares(Counts(*map(int, each[:-2])), each[-2]) for each in (since, last))
    paces = zip(now, np.subtract(now, before).tolist(), strict=True)
    more = min((max(0.0, 1.0 - done) / pace for done, pace in paces if pace > 0), default=np.inf)
    return (more * seconds, more * rounds) if np.isfinite(more) else (0.0, 0.0)


def _evaluation(federation: PreparedFederation, log: InMemoryLog, budget_s: float) -> tuple[float, float]:
    """Return seconds that measuring (and training on) a log takes at all, and seconds for each of its rounds."""
    rounds = len(log.rounds)
    if federation.scenario.learning is not None:
        return _training(federation, log, budget_s)
    # Where there are more clients than participations it is the clients that take time.
    number = rounds if len(log.participations) < len(federation.population) else min(_FIRST_ROUNDS, rounds)
    first = seconds = _evaluated(federation, log, number)
    if number < rounds:
        seconds, number = _evaluated(federation, log, rounds), rounds
    slope = max(0.0, seconds - first) / max(1, number - _FIRST_ROUNDS)
    return max(0.0, seconds - slope * number), slope


def _training(federation: PreparedFederation, log: InMemoryLog, budget_s: float) -> tuple[float, float]:
    """Return the same of a log that is trained on: what comes before may take long, and is done once."""
    seen: list[tuple[float, float]] = []  # rounds, processor time
    rounds, began = len(log.rounds), working_s()

    def look(what: str, share: float, _beside: str = "", /) -> None:
        if what == "training" and share:
            seen.append((share * rounds, working_s()))
            if seen[-1][1] - seen[0][1] > budget_s:
                raise Enough

    with suppress(Enough):
        evaluate(federation, log, progress=look)
    spent = working_s() - began
    if len(seen) < 2:
        return spent, 0.0
    (first, since), (last, until) = seen[0], seen[-1]
    slope = (until - since) / max(1.0, last - first)
    return max(0.0, spent - slope * last), slope


def _evaluated(federation: PreparedFederation, log: InMemoryLog, rounds: int) -> float:
    """Measure the first rounds of a log; return processor seconds."""
    whole = rounds == len(log.rounds)
    ended_s = log.ended_s if whole else float(log.rounds["closed_s"][rounds - 1])
    scenario = federation.scenario
    late = pl.col("staleness").fill_null(0) if scenario.server.staleness is None else 0
    participations = log.participations.filter(pl.col("round") + late < rounds)
    stop = scenario.stop.cut(max(1, rounds))
    began = working_s()
    short = InMemoryLog((log.rounds.head(rounds), participations, log.gauges), ended_s=ended_s)
    evaluate(replace(federation, scenario=scenario.model_copy(update={"stop": stop})), short)
    return working_s() - began
