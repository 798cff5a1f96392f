"""Measures the log of a run, and trains its optimizers over it."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsim.availability.population import Strata, recorded_names, strata
from fedsim.common.keyed import Purpose, stream
from fedsim.common.progress import Report, silent
from fedsim.log import Recorded
from fedsim.measure.fleet import fleet_of
from fedsim.measure.metrics import measure, tally_of
from fedsim.measure.metrics.metric import Setting
from fedsim.measure.metrics.own import Own
from fedsim.measure.participation import available_time, clients_table
from fedsim.measure.tally import Watch
from fedsim.population import Population, residence
from fedsim.run.cautions import by_day, drawn_together
from fedsim.run.finished import Outcome
from fedsim.scenario import Scenario
from fedsim.selection import needs_feedback
from fedsim.simulation import Learner, transitions_table
from fedsim.simulation.check_ins import check_ins_of
from fedsim.theory.prediction import applicable, convergence_table, pull_of


@dataclass(frozen=True)
class Ready:
    """What was made of a scenario to check it: population, cells, own metrics, and notes on its availability models."""

    population: Population
    devices: Strata
    own: Sequence[Own]
    notes: Sequence[str]


def setting_of(scenario: Scenario, population: Population, replicate: int = 0) -> Setting:
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
    return Setting(
        server.wanted,
        scenario.start,
        groups,
        server.concurrency,
        figures,
        fixed_size=server.fixed_size,
        fixed_divisor=scenario.divisor is not None,
        by_day=by_day(scenario),
        together=drawn_together(scenario),
        check_ins=None
        if server.check_ins is None
        else lambda times_s: check_ins_of(scenario, strata(scenario, population), replicate, times_s),
        fleet=fleet_of(scenario, population, replicate),
    )


def learner_of(scenario: Scenario, population: Population, replicate: int = 0) -> Learner | None:
    """Return the first optimizer, to be trained in step with the simulation; None where the law needs no feedback.

    A `LearningError` says which problem or optimizer fails.
    """
    if scenario.learning is None or not needs_feedback(scenario.server.selection):
        return None
    from fedsim.run.training import first_in_step

    return first_in_step(scenario, scenario.learning, population, replicate)


def evaluate(
    scenario: Scenario,
    ready: Ready,
    log: Recorded,
    replicate: int = 0,
    report: Report = silent,
    watch: Watch | None = None,
    checkpoint: tuple[Path, str] | None = None,
) -> Outcome:
    """Measure the participation of a log against theory, and train the scenario's optimizers over it.

    The participations are read some rows at a time. `watch` is given each part of them. Training keeps its
    state in the file `checkpoint`, with a text that says of which log it is, and goes on from there. Errors are those
    of `simulate`.
    """
    population, devices = ready.population, ready.devices
    theory = applicable(scenario, population)
    pi, method = (theory.pi, theory.method) if theory is not None else (None, None)
    chosen = scenario.records.transitions
    transitions = None
    if chosen:
        transitions = transitions_table(scenario, population, chosen, log.ended_s, replicate, devices)
    setting = setting_of(scenario, population, replicate)
    watches = [] if watch is None else [watch]
    with ExitStack() as opened:
        training = None
        if scenario.learning is not None:
            from fedsim.run.training import Training

            training = opened.enter_context(
                Training(scenario, scenario.learning, population, log, replicate, checkpoint)
            )
            watches.append(training.watch)
        tallies = tally_of(log, setting, watches)
        clients = clients_table(population, tallies.run, pi, method)
        recorded = recorded_names(devices, stream(scenario.seed, replicate, Purpose.AVAILABILITY))
        clients = clients if recorded is None else clients.with_columns(device=recorded)
        available = available_time(scenario, population, log.ended_s, replicate, devices)
        metrics = measure(log, clients, setting, tallies, ready.own, available)
        study = scenario.theory.convergence
        convergence = None if study is None else convergence_table(scenario, population, study)
        learning = None
        if training is not None:
            reported, pull = tallies.run.reported, None if theory is None else pull_of(scenario, population, theory)
            shares = reported / max(1, reported.sum())
            learning, of_learning = training.train(report, shares, tallies.run.pull, pull, available)
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
        models={} if training is None else training.models,
    )
