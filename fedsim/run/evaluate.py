"""Measures the log of a run, and trains its optimizers over it."""

import math
from pathlib import Path

import numpy as np
import polars as pl

from fedsim.availability.population import recorded_names
from fedsim.common import files
from fedsim.common.keyed import Purpose, stream
from fedsim.common.progress import Report, silent
from fedsim.log.journal import AnyLog
from fedsim.log.recorder import TemporaryParticipations
from fedsim.measure.count import Watch
from fedsim.measure.facts import facts_of
from fedsim.measure.frequencies import available_time, clients_table
from fedsim.measure.metrics import count_of, measure, split
from fedsim.measure.metrics.metric import Setting
from fedsim.measure.metrics.own import own_described
from fedsim.measure.series import Homes, SeriesCounter, by_day, drawn_together, reached_of
from fedsim.measure.session_costs import Taken
from fedsim.measure.shares import judge_shares
from fedsim.population import residence
from fedsim.run.examples import Examples
from fedsim.run.federation import PreparedFederation
from fedsim.run.run import Run
from fedsim.selection import needs_feedback
from fedsim.simulation import Learner, transitions_table
from fedsim.simulation.check_ins import check_ins_of
from fedsim.theory.prediction import convergence_table, pull_of


def setting_of(federation: PreparedFederation) -> Setting:
    """Return what metrics read of a scenario and its population."""
    scenario, population, replicate = federation.scenario, federation.population, federation.replicate
    living = residence(population)
    groups: dict[str, dict[str, int]] = {name: {} for name in population.group_names}
    for group, zone, count in zip(living.group, living.zone, np.bincount(living.of_client), strict=True):
        groups[population.group_names[group]][population.zone_names[zone]] = int(count)
    server, figures = scenario.server, dict[str, float]()
    if scenario.privacy is not None:
        from fedsim.privacy.bounds import enforced_bounds
        from fedsim.privacy.guarantee import guarantee

        figures = guarantee(scenario.privacy, enforced_bounds(scenario, population)).figures
    return Setting(
        server.wanted,
        server.buffer or scenario.sync_server.cohort,
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
        else lambda times_s: check_ins_of(scenario, federation.devices, replicate, times_s),
        taken=None if population.device is None else Taken(scenario, population),
    )


def learner_of(federation: PreparedFederation) -> Learner | None:
    """Return the first optimizer, to be trained in step with the simulation; None where the rule needs no feedback.

    A `LearningError` says which problem or optimizer fails.
    """
    if federation.scenario.learning is None or not needs_feedback(federation.scenario.server.selection):
        return None
    from fedsim.run.training import first_in_step

    return first_in_step(federation, federation.scenario.learning)


def evaluate(
    federation: PreparedFederation,
    log: AnyLog,
    progress: Report = silent,
    watch: Watch | None = None,
    checkpoint: tuple[Path, str] | None = None,
) -> Run:
    """Measure the participation of a log against theory, and train the scenario's optimizers over it.

    The participations are read some rows at a time. `watch` is given each part of them. Training keeps its
    state in the file `checkpoint`, with a text that says of which log it is, and goes on from there. Errors are those
    of `simulate`.
    """
    scenario, population, replicate = federation.scenario, federation.population, federation.replicate
    devices = federation.devices
    theory = None if isinstance(federation.theory, str) else federation.theory
    pi, method = (theory.pi, theory.method) if theory is not None else (None, None)
    transitions = None
    if chosen := scenario.records.transitions:
        transitions = transitions_table(scenario, population, chosen, log.ended_s, replicate, devices)
    setting = setting_of(federation)
    available = federation.available or available_time(scenario, population, log.ended_s, replicate, devices)
    counter = SeriesCounter(Homes.of_population(population), scenario, log.rounds, log.ended_s)
    examples = Examples(federation, log, available)
    watches = [*([] if watch is None else [watch]), counter.add, examples.add]
    with TemporaryParticipations(files.ROWS) as temporary:
        training = None
        if scenario.learning is not None:
            from fedsim.run.training import Training

            training = Training(federation, scenario.learning, log, temporary, checkpoint)
            watches.append(training.watch)
        counted = count_of(log, setting, watches)
        clients = clients_table(population, counted, pi, method)
        recorded = recorded_names(devices, stream(scenario.seed, replicate, Purpose.AVAILABILITY))
        clients = clients if recorded is None else clients.with_columns(device=recorded)
        metrics = measure(log, clients, setting, counted, federation.own_metrics, available)
        study = scenario.theory.convergence
        convergence = None if study is None else convergence_table(scenario, population, study)
        learning = None
        if training is not None:
            reported, pull = counted.reported, None if theory is None else pull_of(scenario, population, theory)
            shares = reported / max(1, reported.sum())
            learning, of_learning = training.train(progress, shares, counted.pull, pull, available)
            metrics |= of_learning
    if scenario.log is not None:
        unknown = scenario.log.unknown
        metrics |= {key: math.nan for key in metrics if (of := split(key)[0]) is not None and of.needs in unknown}
    series = counter.series() | examples.series() | {"reached": reached_of(counted.firsts_s)}
    if scenario.privacy is not None:
        series["contributions"] = pl.DataFrame([vars(counted.contributions)])
    series |= judge_shares(scenario, clients, log.rounds, metrics, series)
    return Run(
        scenario=scenario,
        replicate=replicate,
        facts=facts_of(metrics, series, own_described(scenario, federation.own_metrics)),
        series=series,
        simulated_s=log.ended_s,
        rounds=log.rounds,
        log=log.participations,
        clients=clients,
        gauges=log.gauges,
        learning=learning,
        transitions=transitions,
        convergence=convergence,
        models={} if training is None else training.models,
        own_metrics=federation.own_metrics,
    )
