"""Trains the optimizers of a scenario over the log of its run, and over its unbiased twin; the cost of a target."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats, Ints
from fedsim.common.instants import DAY_S, HOUR_S
from fedsim.common.keyed import Purpose, stream
from fedsim.common.progress import Report
from fedsim.learning import (
    Course,
    LearningError,
    LocalWork,
    Optimizer,
    Problem,
    Trained,
    biases,
    build_optimizer,
    build_problem,
    replay_together,
    summarise,
)
from fedsim.learning.checkpoint import Checkpoint
from fedsim.learning.cohorts import Cohorts, Reading
from fedsim.learning.expected import expected_optimizer
from fedsim.learning.failures import as_floats_of_shape, reraise_as_learning_error
from fedsim.learning.held_out import among, devices_of, generalisation, places_of
from fedsim.learning.in_step import InStep
from fedsim.learning.kept_models import model_named, models_of, read_models
from fedsim.learning.private import Noise, Private, with_privacy
from fedsim.learning.problems.problem import Solvable, Solved
from fedsim.learning.server_updates import Composed
from fedsim.learning.who_pays import who_pays
from fedsim.log.journal import AnyLog
from fedsim.log.recorder import TemporaryParticipations
from fedsim.measure.frequencies import AvailableTime
from fedsim.measure.metrics import metric_part
from fedsim.measure.series import by_day
from fedsim.population import Population
from fedsim.population.sessions import whole_steps
from fedsim.privacy.bounds import enforced_bounds
from fedsim.privacy.guarantee import guarantee, mechanism_of
from fedsim.run.federation import PreparedFederation
from fedsim.run.reference import UniformClients
from fedsim.scenario import Scenario
from fedsim.scenario.learning import Learning, OptimizerChoice
from fedsim.scenario.sources import MOST_STEPS, ByEpochs
from fedsim.theory.available_prediction import by_weights


class Training:
    """Trains the optimizers of a scenario, after it has read the participations of the log once.

    With ``reference: uniform`` the first optimizer is also trained on the twin of `fedsim.run.reference`; its
    rows carry the name `Learning.twin`; its participations are kept in `temporary`.
    """

    def __init__(
        self,
        federation: PreparedFederation,
        learning: Learning,
        log: AnyLog,
        temporary: TemporaryParticipations,
        checkpoint: tuple[Path, str] | None = None,
    ) -> None:
        scenario, population = federation.scenario, federation.population
        self._checkpoint = None if checkpoint is None else Checkpoint(*checkpoint)
        self._federation, self._learning = federation, learning
        self._log, self._temporary = log, temporary
        self.models = dict[str, Floats]()
        self._reading = Reading(log.rounds, len(population), scenario.server.buffer)
        asked = learning.target_loss is not None or learning.target_above_optimum is not None
        self._spent = SessionTime(log.rounds["closed_s"].to_numpy()) if asked else None
        draws = stream(scenario.own_seed, federation.replicate, Purpose.REFERENCE)
        self._twin = None if learning.twin is None else UniformClients(len(population), scenario.server, draws)

    def watch(self, part: pl.DataFrame) -> None:
        """Take the next participations of the log."""
        self._reading.add(part)
        if self._spent is not None:
            self._spent.add(part)
        if self._twin is not None:
            self._temporary.add(self._twin.reassign(part))

    def train(
        self,
        progress: Report,
        shares: Floats,
        frequency: Floats,
        pi: Floats | None,
        available: AvailableTime | None = None,
    ) -> tuple[pl.DataFrame, dict[str, float]]:
        """Return the learning table of the run and its metrics, after all participations were taken.

        `shares`, (N,), are the clients' shares of the reports, `frequency` their pulls, and `pi` the pulls that theory
        predicts, if it does. A `LearningError` says which problem or optimizer fails.
        """
        federation, learning, log = self._federation, self._learning, self._log
        scenario, population, replicate = federation.scenario, federation.population, federation.replicate
        work = _work(scenario, learning, population, available)
        problem, draws = work.problem, stream(scenario.own_seed, replicate, Purpose.OPTIMIZER)
        foreseen = cache(lambda: by_weights(scenario, population, log.rounds, replicate)(population.weight).shares)
        steps = work.steps_of(np.arange(len(population)))
        plain = {each.label: _build(each, pi, frequency, shares, foreseen, steps) for each in learning.optimizers}
        names = [*map(metric_part, population.group_names)]
        optimizers = _with_privacy(scenario, learning, plain, noise=_noise(federation))
        lengths = {each.label: each.local_step_size for each in learning.optimizers if each.local_step_size is not None}
        cohorts = self._reading.cohorts(log.participations)
        courses = [Course(cohorts, optimizers, draws, lengths, _start(scenario, learning))]
        reference = learning.twin
        if reference is not None:
            courses.append(self._reference(reference, courses[0], steps))
        if learning.loss_parts:
            quiet = {name + suffix: length for name, length in lengths.items() for suffix in (_QUIET, _EXPECTED)}
            quieter_ones = _quieter(scenario, learning, plain, work, frequency)
            courses.append(replace(courses[0], optimizers=quieter_ones, step_sizes=quiet))
        above = learning.target_above_optimum
        target = learning.target_loss if above is None else _least(problem) + above
        if learning.stop_at_target and target is not None:
            courses = _until(target, courses, work, learning, progress)
        cohorts = courses[0].cohorts
        trained = _replayed(courses, work, learning, progress, checkpoint=self._checkpoint)
        cycle_s = DAY_S if by_day(scenario) else None
        quieter = summarise(trained.pop().table, cycle_s) if learning.loss_parts else {}
        ends = trained[0].ends
        table, self.models = pl.concat([part.table for part in trained]), models_of(ends)
        metrics = summarise(table, cycle_s) | _needs(optimizers, problem.dimension, cohorts)
        for name, private in _private(optimizers).items():
            metrics[f"learning.{name}.dropped_updates"] = float(len(private.not_finite))
            metrics |= {f"learning.{name}.clip": each for each in private.clips[-1:]}
        if quieter or scenario.chooses_by_optimum:
            metrics |= _loss_parts(problem, metrics, quieter, list(optimizers))
        metrics |= _excess("loss", metrics, optimizers, reference)
        for part in trained:
            metrics |= _of_models(problem, part)
        metrics |= who_pays(problem, ends, shares, population.group, names)
        metrics |= generalisation(problem, ends, population.group, names)
        metrics |= _excess("average_loss", metrics, optimizers, reference)
        if self._spent is not None and target is not None:
            sent = {name: metrics[key] for name in optimizers if (key := f"learning.{name}.sent_mb") in metrics}
            metrics |= to_target(trained[0].table, self._spent, target, sent, cohorts)
        last = max(0, len(cohorts) - 1)
        how: dict[str, Any] = {"own_step_sizes": {name: length(last) for name, length in lengths.items()}}
        how |= {"local_steps": None if scenario.server.partial else work.each_takes, "step_size": work.step_size(last)}
        metrics |= biases(problem, optimizers, ends, frequency if pi is None else pi, **how)
        if learning.target_above_optimum is not None and isinstance(problem, Solvable):
            optimum = _solved(problem)
            for name, models in ends.items():
                metrics[f"learning.{name}.bias"] = float(np.linalg.norm(models.average - optimum))
        return table, metrics

    def _reference(self, name: str, course: Course, steps: Ints) -> Course:
        """Return the course over the twin of a run, for the first optimizer under this name."""
        first, clients = self._learning.optimizers[0], len(self._federation.population)
        even = np.full(clients, 1.0 / clients)
        lengths = {name: course.step_sizes[first.label]} if first.label in course.step_sizes else {}
        optimizers = {name: _build(first, even, even, even, lambda: even, steps)}
        buffer, participations = self._federation.scenario.server.buffer, self._temporary.participations()
        cohorts = Cohorts.read(self._log.rounds, participations, clients, buffer)
        return Course(cohorts, optimizers, course.draws, lengths, course.start)


def _until(
    target: float, courses: Sequence[Course], work: LocalWork, learning: Learning, progress: Report
) -> list[Course]:
    """Return courses that end with the round in which the last optimizer of the first one has reached a target.

    The length decides of which models means are taken, so it must be known before the models are kept. Where one never
    reaches it, they go on to their ends.
    """
    first = replace(courses[0], optimizers=deepcopy(courses[0].optimizers))  # which count what they did
    (tried,) = _replayed([first], work, learning, progress, "training until the target", until=target)
    reached = tried.table.filter(pl.col("round") >= 0, pl.col("loss") <= target).group_by("optimizer").first()["round"]
    if len(reached) < len(first.optimizers):
        return list(courses)
    rows = int(np.searchsorted(first.cohorts.rounds, reached.to_numpy().max(), side="right"))
    cut = {id(each.cohorts): each.cohorts.first(rows) for each in courses}
    return [replace(each, cohorts=cut[id(each.cohorts)]) for each in courses]


def _replayed(
    courses: Sequence[Course],
    work: LocalWork,
    learning: Learning,
    progress: Report,
    what: str = "training",
    checkpoint: Checkpoint | None = None,
    until: float = -np.inf,
) -> list[Trained]:
    """Train the optimizers of courses, and report how much of the longest is done."""
    longest = max(len(course.cohorts) for course in courses)

    def look(done: int) -> None:
        if done % 64 == 0 or done == longest or not done & (done - 1):  # the first ones tell the pace of a pilot
            progress(what, done / longest)

    return replay_together(
        courses,
        work,
        evaluate_every=learning.evaluate_every,
        progress=look,
        announce=lambda text: progress(text, 0.0),
        checkpoint=checkpoint,
        until=until,
    )


def _needs(optimizers: Mapping[str, Optimizer], dimension: int, cohorts: Cohorts) -> dict[str, float]:
    """Return what each optimizer that tells its `Footprint` keeps and sends, in MB with numbers of 4 bytes."""
    metrics, model = dict[str, float](), 4e-6 * dimension
    for name, optimizer in optimizers.items():
        if (footprint := getattr(optimizer, "footprint", None)) is not None:
            at_server = 1 + footprint.server + footprint.per_participant * cohorts.participants
            metrics[f"learning.{name}.server_mb"] = model * at_server
            metrics[f"learning.{name}.client_mb"] = model * footprint.client
            metrics[f"learning.{name}.sent_mb"] = model * footprint.sent * float(cohorts.counts.sum())
    return metrics


def _start(scenario: Scenario, learning: Learning) -> Floats | None:
    """Return the model at which the scenario lets its optimizers start, if it names one."""
    if learning.start is None:
        return None
    path = scenario.folder / learning.start.path
    return model_named(read_models(path), learning.start.model, path)


def _work(
    scenario: Scenario, learning: Learning, population: Population, available: AvailableTime | None = None
) -> LocalWork:
    """Return what a client does in a round, with the problem, whose partition may follow traits of the devices."""
    traits: dict[str, Any] = {"group": population.group, "time_zone": population.zone, "speed": population.speed}
    if available is not None and len(available.share) == len(population):
        traits["availability"] = available.share
    held_out, devices = learning.held_out or 0, len(population)
    if held_out:
        order = among(held_out, devices)
        everyone = np.concatenate([np.arange(devices), places_of(held_out, devices)])[order]
        traits = {name: values[everyone] for name, values in traits.items()}
    problem = build_problem(
        learning.problem.kind,
        learning.problem.options,
        clients=devices + held_out,
        seed=scenario.seed,
        folder=scenario.folder,
        traits=traits,
    )
    problem = devices_of(problem, np.argsort(order)[:devices]) if held_out else problem
    source = learning.local_steps
    if isinstance(source, int):
        steps: int | Ints = source
    elif isinstance(source, ByEpochs):
        each = np.broadcast_to(getattr(problem, "counts", getattr(problem, "samples", 1)), len(population))
        taken = np.ceil(source.epochs * each / (learning.batch_size or each)).astype(np.int64)
        steps = np.clip(taken, 1, MOST_STEPS)
    else:
        drawn = whole_steps(scenario, population)
        assert drawn is not None, "all other sources are drawn with the population"
        steps = drawn
    return LocalWork.checked(problem, steps, learning.step_size, learning.batch_size)


def first_in_step(federation: PreparedFederation, learning: Learning) -> InStep:
    """Return the first optimizer, to be trained in step with the simulation."""
    scenario, population, replicate = federation.scenario, federation.population, federation.replicate
    first, unknown = learning.optimizers[0], np.full(len(population), np.nan)
    optimizer = _build(first, None, unknown, unknown, lambda: unknown)
    draws, buffered = stream(scenario.own_seed, replicate, Purpose.OPTIMIZER), scenario.server.buffer is not None
    work, start = _work(scenario, learning, population), _start(scenario, learning)
    return InStep(first.label, optimizer, work, draws, first.local_step_size, start, buffered=buffered)


def _noise(federation: PreparedFederation) -> Noise | None:
    """Return the noise of a run for a clip of 1; None where training has none."""
    scenario, privacy = federation.scenario, federation.scenario.privacy
    if privacy is None or privacy.training != "noise":
        return None
    promised = guarantee(privacy, enforced_bounds(scenario, federation.population))
    start = None if scenario.learning is None else _start(scenario, scenario.learning)
    seed = scenario.own_seed
    if start is not None:  # that model may have this seed's noise already
        seed = int.from_bytes(hashlib.sha256(f"{seed} ".encode() + start.tobytes()).digest()[:8])
    draws = stream(seed, federation.replicate, Purpose.NOISE)
    return Noise(mechanism_of(privacy), promised.bounds, promised.noise_std(privacy), draws)


def _clipping(scenario: Scenario, choice: OptimizerChoice) -> tuple[float, int] | None:
    """Return the clip norm of an optimizer and the fixed divisor; None where its updates are not clipped."""
    privacy = scenario.privacy
    if privacy is None or privacy.clip is None or scenario.divisor is None:
        return None
    return choice.update_clip or privacy.clip, scenario.divisor


def _with_privacy(
    scenario: Scenario, learning: Learning, plain: Mapping[str, Optimizer], noise: Noise | None
) -> dict[str, Optimizer]:
    """Return the optimizers with the clipping and the noise of the scenario's privacy."""
    made = dict(plain)
    for choice in learning.optimizers:
        if (clipping := _clipping(scenario, choice)) is not None:
            clip, divisor = clipping
            assert scenario.privacy is not None
            adaptive, secret = scenario.privacy.adaptive_clip, scenario.privacy.amplification != "none"
            scaled = noise if noise is None or adaptive else replace(noise, scale=clip * noise.scale)
            private = partial(Private, clip=clip, divisor=divisor, noise=scaled, adaptive=adaptive, steps_alone=secret)
            made[choice.label] = with_privacy(private, plain[choice.label])
    return made


def private_optimizers(federation: PreparedFederation, learning: Learning) -> dict[str, Private]:
    """Return the optimizers of a scenario whose training adds noise, as training has them, without server updates."""
    scenario, population = federation.scenario, federation.population
    even = np.full(len(population), 1.0 / len(population))
    plain = {choice.label: _build(choice, even, even, even, lambda: even) for choice in learning.optimizers}
    return _private(_with_privacy(scenario, learning, plain, noise=_noise(federation)))


def _private(optimizers: Mapping[str, Optimizer]) -> dict[str, Private]:
    """Return those that clip updates or add noise, without server updates."""
    inner = {name: each.optimizer if isinstance(each, Composed) else each for name, each in optimizers.items()}
    return {name: each for name, each in inner.items() if isinstance(each, Private)}


def _least(problem: Problem) -> float:
    """Return the loss of the optimum."""
    if isinstance(problem, Solvable):
        return float(_evaluate(problem, _solved(problem))["loss"])
    if not isinstance(problem, Solved):
        raise LearningError(f"the optimum of {type(problem).__name__} is not known, so that no loss can be told above")
    return float(_evaluate(problem, problem.optimum)["loss"])


def _solved(problem: Solvable) -> Floats:
    with reraise_as_learning_error("problem, solve", problem.solve):
        return as_floats_of_shape("the optimum", problem.solve(), (problem.dimension,))


_QUIET, _EXPECTED = "_without_noise", "_expected"


def _quieter(
    scenario: Scenario, learning: Learning, plain: Mapping[str, Optimizer], work: LocalWork, frequency: Floats
) -> dict[str, Optimizer]:
    """Return each optimizer without the noise of privacy, and with the expected updates of clients."""
    quiet = _with_privacy(scenario, learning, plain, noise=None)
    made = {name + _QUIET: optimizer for name, optimizer in quiet.items()}
    for choice in learning.optimizers:
        clip, divisor = _clipping(scenario, choice) or (None, None)
        local = work if choice.local_step_size is None else replace(work, step_size=choice.local_step_size)
        made[choice.label + _EXPECTED] = expected_optimizer(plain[choice.label], local, frequency, clip, divisor)
    return made


def _loss_parts(
    problem: Problem, losses: Mapping[str, float], quieter: Mapping[str, float], names: Iterable[str]
) -> dict[str, float]:
    """Return the loss of each optimizer above the optimum, and its three parts, which sum to it, if `quieter` has them.

    Each part is a difference of paired runs over the same log: with and without the noise of privacy; without it, with
    cohorts and with what clients send on average. The remaining loss of the latter is the part of bias.
    """
    least, metrics = _least(problem), dict[str, float]()
    for name in names:
        total = losses[f"learning.{name}.loss"]
        parts = {"above_optimum": total - least}
        if quieter:
            quiet, mean = (quieter[f"learning.{name}{suffix}.loss"] for suffix in (_QUIET, _EXPECTED))
            noises = {"participation_noise_loss": quiet - mean, "privacy_noise_loss": total - quiet}
            parts |= {"bias_loss": mean - least, **noises}
        metrics |= {f"learning.{name}.{part}": value for part, value in parts.items()}
    return metrics


def _build(
    choice: OptimizerChoice,
    pi: Floats | None,
    frequency: Floats,
    shares: Floats,
    predicted: Callable[[], Floats],
    steps: Ints | None = None,
) -> Optimizer:
    given: dict[str, Any] = {"pi": pi, "frequency": frequency, "shares": shares, "predicted": predicted}
    given["local_steps"] = steps
    try:
        return build_optimizer(choice.kind, choice.options, **given)
    except LearningError as error:
        raise LearningError(f"learning.optimizers, {choice.label!r}: {error}") from None


def _of_models(problem: Problem, trained: Trained) -> dict[str, float]:
    """Return the losses of the average and the drawn model of each optimizer, if they are finite."""
    metrics: dict[str, float] = {}
    for name, end in trained.ends.items():
        if np.isfinite(end.average).all():
            metrics[f"learning.{name}.average_loss"] = float(_evaluate(problem, end.average)["loss"])
        if np.isfinite(end.drawn).all():
            figures = _evaluate(problem, end.drawn)
            metrics[f"learning.{name}.drawn_loss"] = float(figures["loss"])
            metrics[f"learning.{name}.drawn_grad_norm"] = float(figures["grad_norm"])
            metrics[f"learning.{name}.drawn_round"] = float(end.drawn_round)
    return metrics


def _excess(loss: str, metrics: Mapping[str, float], names: Iterable[str], reference: str | None) -> dict[str, float]:
    """Return by how much a loss of each optimizer is above that of the reference, where both are known."""
    uniform, excess = metrics.get(f"learning.{reference}.{loss}"), loss.replace("loss", "excess_loss")
    if uniform is None:
        return {}
    values = {name: metrics.get(f"learning.{name}.{loss}") for name in names}
    return {f"learning.{name}.{excess}": value - uniform for name, value in values.items() if value is not None}


def _evaluate(problem: Problem, model: Floats) -> Mapping[str, float]:
    with np.errstate(all="ignore"):
        return problem.evaluate(model)


class SessionTime:
    """Adds up the time that devices spend in sessions by the end of each round, part by part of the participations.

    `closed_s`, (T,), says when each round closed, in ascending order.
    """

    def __init__(self, closed_s: Floats) -> None:
        self._edges = np.concatenate([[0.0], closed_s])
        self._parts: Floats = np.zeros(len(closed_s) + 1)
        self._whole: Ints = np.zeros(len(closed_s) + 2, dtype=np.int64)

    def add(self, part: pl.DataFrame) -> None:
        """Take the next sessions: columns ``selected_s`` and ``ended_s``."""
        begun_s, ended_s = part["selected_s"].to_numpy(), part["ended_s"].to_numpy()
        last = len(self._parts) - 1
        first, end = (np.searchsorted(self._edges[1:], each) for each in (begun_s, ended_s))
        within, across = ended_s - begun_s, first < end
        within[across] = self._edges[first[across] + 1] - begun_s[across]
        self._parts += np.bincount(first, within, last + 1)
        self._parts += np.bincount(end[across], ended_s[across] - self._edges[end[across]], last + 1)
        np.add.at(self._whole, first[across] + 1, 1)
        np.add.at(self._whole, end[across], -1)

    def until(self, closed_s: float) -> float:
        """Return the seconds that were spent until a round closed, whatever became of the sessions."""
        whole = np.cumsum(self._whole)[: len(self._edges) - 1] * np.diff(self._edges)
        row = int(np.searchsorted(self._edges[1:], closed_s)) + 1
        return float((self._parts[:row] + whole[:row]).sum())


def to_target(
    learning: pl.DataFrame, spent: SessionTime, target: float, sent: Mapping[str, float], cohorts: Cohorts
) -> dict[str, float]:
    """Return when each optimizer's loss was first seen at or below a target.

    That is ``time_to_target`` (s), ``rounds_to_target``, ``device_hours_to_target``, what devices had spent in sessions
    by then, whatever became of them, and ``sent_mb_to_target`` where all that clients `sent` is known; NaN
    where the loss was never so low. The initial model does not count.
    """
    figures, reports = dict[str, float](), np.cumsum(cohorts.counts)
    for name in learning["optimizer"].unique(maintain_order=True):
        reached = learning.filter((pl.col("optimizer") == name) & (pl.col("round") >= 0) & (pl.col("loss") <= target))
        costs = dict.fromkeys(("time", "rounds", "device_hours", *(["sent_mb"] if name in sent else [])), np.nan)
        if len(reached):
            closed_s, number = float(reached["closed_s"][0]), int(reached["round"][0])
            costs |= {"time": closed_s, "rounds": number + 1.0, "device_hours": spent.until(closed_s) / HOUR_S}
            if name in sent:
                costs["sent_mb"] = sent[name] * float(reports[np.searchsorted(cohorts.rounds, number)] / reports[-1])
        figures |= {f"learning.{name}.{figure}_to_target": value for figure, value in costs.items()}
    return figures
