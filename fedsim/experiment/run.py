"""From a scenario to its result: simulate, measure, train."""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import polars as pl

from fedsim.analysis.metrics import measure, tally_of
from fedsim.analysis.metrics.metric import Setting
from fedsim.analysis.participation import available_time, clients_table
from fedsim.analysis.tally import Watch
from fedsim.common.arguments import whole
from fedsim.common.instants import readable_time
from fedsim.common.progress import Report, silent
from fedsim.experiment.budget import check_log_size
from fedsim.experiment.outcome import Outcome
from fedsim.experiment.preflight import Ready, made_ready
from fedsim.experiment.result import Result
from fedsim.log import Recorded
from fedsim.population import Population, residence
from fedsim.scenario import Scenario, as_scenario
from fedsim.simulation import Progress, simulate_log, transitions_table
from fedsim.theory.prediction import applicable, convergence_table

_SECONDS_BETWEEN = 0.1


def setting_of(scenario: Scenario, population: Population) -> Setting:
    """Return what metrics read of a scenario and its population."""
    living = residence(population)
    groups: dict[str, dict[str, int]] = {name: {} for name in population.group_names}
    for group, zone, count in zip(living.group, living.zone, np.bincount(living.of_client), strict=True):
        groups[population.group_names[group]][population.zone_names[zone]] = int(count)
    server = scenario.server
    figures: dict[str, float] = {}
    if scenario.privacy is not None:
        from fedsim.privacy.bounds import enforced_bounds
        from fedsim.privacy.guarantee import guarantee

        figures = guarantee(scenario.privacy, enforced_bounds(scenario, population)).figures
    return Setting(server.wanted, scenario.start, groups, server.concurrency, figures, server.fixed_size)


def simulate(scenario: Scenario | str | os.PathLike[str], *, replicate: int = 0, report: Report = silent) -> Result:
    """Simulate a scenario, measure its participation against theory, and train its optimizers.

    Parameters
    ----------
    scenario
        What to run, or the name of its file.
    replicate
        Which repetition, from 0: another one has other draws, the same one the same bytes.
    report
        Called with what is being done, and how much of it is done.

    Raises
    ------
    ScenarioError
        If the scenario cannot work, as far as that can be known beforehand.
    ChainError
        If a convergence study asks for a separation that cannot be kept.
    StalledError
        If the federation can never make progress again.
    LearningError
        If a problem or an optimizer fails.
    """
    scenario, replicate = as_scenario(scenario), whole("replicate", replicate)
    ready = made_ready(scenario, replicate)
    check_log_size(scenario)
    log = simulate_log(scenario, ready.population, replicate, progress_reporter(scenario, report), ready.devices)
    return Result(**vars(evaluate(scenario, ready, log, replicate, report)))


def progress_reporter(scenario: Scenario, report: Report) -> Progress:
    """Return a callback that reports the progress of a simulation: simulated time, rounds, and their pace."""
    stop = scenario.stop
    of_how_many = f" of {stop.rounds:,}" if stop.rounds else ""
    first: tuple[int, float] | None = None
    tenth, said = -1, 0.0

    def simulated(rounds: int, now_s: float) -> None:
        nonlocal first, tenth, said
        now = time.monotonic()
        first = first or (rounds, now)
        share = stop.share(rounds, now_s)
        if int(share * 10) == tenth and now - said < _SECONDS_BETWEEN:  # the words can take longer than a round
            return
        tenth, said = int(share * 10), now
        pace = (rounds - first[0]) / max(now - first[1], 1e-3)
        words = [f"{rounds:,}{of_how_many} rounds", f"{readable_time(now_s)} simulated"]
        words += [f"{pace:,.{0 if pace >= 10 else 1}f} rounds/s"] if rounds > first[0] else []
        report("simulating", share, ", ".join(words))

    return simulated


def evaluate(
    scenario: Scenario,
    ready: Ready,
    log: Recorded,
    replicate: int = 0,
    report: Report = silent,
    watched_by: Callable[[pl.DataFrame | None], Watch] | None = None,
) -> Outcome:
    """Measure the participation of a log against theory, and train the scenario's optimizers over it.

    The participations are read some rows at a time. `watched_by` gets the table of transitions, if the scenario records
    them, and returns a callback for each part of the participations. Errors are those of `simulate`.
    """
    population, devices = ready.population, ready.devices
    theory = applicable(scenario, population)
    pi, method = (theory.pi, theory.method) if theory is not None else (None, None)
    chosen = scenario.records.transitions
    transitions = None
    if chosen:
        transitions = transitions_table(scenario, population, chosen, log.ended_s, replicate, devices)
    setting = setting_of(scenario, population)
    watches = [] if watched_by is None else [watched_by(transitions)]
    with ExitStack() as opened:
        training = None
        if scenario.learning is not None:
            from fedsim.experiment.training import Training

            training = opened.enter_context(Training(scenario, scenario.learning, population, log, replicate))
            watches.append(training.watch)
        tallies = tally_of(log, setting, watches)
        clients = clients_table(population, tallies.run.counts, pi, method)
        available = available_time(scenario, population, log.ended_s, replicate, devices)
        metrics = measure(log, clients, setting, tallies, ready.own, available)
        study = scenario.theory.convergence
        convergence = None if study is None else convergence_table(scenario, population, study)
        learning = None
        if training is not None:
            reported = tallies.run.reported
            learning, of_learning = training.train(report, reported / max(1, reported.sum()), pi)
            metrics |= of_learning
    return Outcome(
        scenario=scenario,
        replicate=replicate,
        metrics=metrics,
        simulated_s=log.ended_s,
        rounds=log.rounds,
        participations=log.participations,
        clients=clients,
        gauges=log.gauges,
        learning=learning,
        transitions=transitions,
        convergence=convergence,
    )
