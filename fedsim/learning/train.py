"""Learning replayed over the participation log: every optimizer sees the same cohorts in the same order.

Who takes part does not depend on the model's values, so training needs the log and nothing of the simulation.
Several logs (replicates, or a run and its unbiased twin) are walked through side by side: in each step the clients of
all their rounds, for all their optimizers, train in one array expression.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import tee
from typing import Self, TypeAlias

import numpy as np
import polars as pl

from fedsim.common.arrays import Ints
from fedsim.common.keyed import Purpose, Stream, stream
from fedsim.common.memory import SHARE, free_bytes, readable
from fedsim.learning.cohorts import Cohorts, Reports
from fedsim.learning.failures import LearningError, blame, blamed
from fedsim.learning.local_training import Altered, LocalWork, Schedule, merged, require
from fedsim.learning.minibatches import drawn_ahead
from fedsim.learning.optimizers.optimizer import Cohort, Optimizer, Remembering
from fedsim.learning.problems.problem import Problem
from fedsim.learning.trajectory import End, Trajectory

# The draw of the output belongs to no client; it is kept under an index that no client has.
_SERVER = 2**63 - 1

_WORTH_SAYING = 2**20
_Coming: TypeAlias = Iterator[tuple[Reports, Ints | None]]


def replay(
    problem: Problem,
    optimizers: Mapping[str, Optimizer],
    rounds: pl.DataFrame,
    participations: pl.DataFrame,
    *,
    local_steps: int,
    step_size: float | Schedule,
    batch_size: int | None = None,
    evaluate_every: int = 1,
    draws: Stream | None = None,
    buffer: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> pl.DataFrame:
    """Train every optimizer on the participation that the log records.

    Parameters
    ----------
    problem
        The objectives of the clients; every client of the log is one of its clients.
    optimizers
        By the name under which they appear in the result.
    rounds
        The log's rounds, columns ``round`` and ``closed_s``.
    participations
        The log's participations, columns ``round``, ``client``, ``position``, ``outcome``. Those with the
        outcome ``reported`` train, in the order of ``position``; a round without any leaves every model as it
        is.
    local_steps
        K >= 1, gradient steps of a client in a round.
    step_size
        alpha > 0, their length; or a schedule, which is called with the number of rounds that are over.
    batch_size
        Samples of each local step; full local gradients where it is None.
    evaluate_every
        Evaluate the models after this many rounds, after twice as many, and so on, and after the last round.
    draws
        Where minibatches come from; by default the stream of seed 0.
    buffer
        Reports of each step of a buffered server, whose log also has the columns ``staleness`` and ``ended_s``. A
        report counts for the version ``round + staleness``, in the order of the ends; what its client did began from
        the model, and with the step size, of version ``round``.
    progress
        Called after each round with the number of rounds done.

    Returns
    -------
    Columns ``round`` (Int32), ``closed_s`` (Float64, seconds since the start of the simulation),
    ``optimizer``, and one Float64 column for each entry of the problem's evaluation: ``loss``, ``grad_norm``,
    ... A row holds the model after the server's step of its round. The rows with ``round = -1`` and
    ``closed_s = 0`` hold the initial model.

    An optimizer whose model or loss is no longer finite has diverged: its last row says NaN, for the round
    after which the model was not finite (the loss is looked at in evaluated rounds only), and the others go
    on.

    Raises
    ------
    LearningError
        When a number is out of its range, the log has a client that the problem has not, the optimizers would need
        more memory than there is, or the code of a problem or an optimizer fails or returns arrays of a wrong shape;
        the message names it and the round.
    """
    work = LocalWork.checked(problem, local_steps, step_size, batch_size)
    course = Course(rounds, participations, optimizers, draws or stream(0, 0, Purpose.OPTIMIZER), buffer)
    return replay_together([course], work, evaluate_every=evaluate_every, progress=progress)[0].table


@dataclass(frozen=True)
class Course:
    """A log, the optimizers to be trained over it, by name, where their minibatches come from, and the buffer's size.

    The buffer is None where the log is one of synchronous rounds. Of an optimizer that has a local step size of its own
    `step_sizes` has it, by name. What training has to know of the log beforehand is found unless `cohorts` has it;
    courses that share these and the draws read the log together.
    """

    rounds: pl.DataFrame
    participations: pl.DataFrame | pl.LazyFrame
    optimizers: Mapping[str, Optimizer]
    draws: Stream
    buffer: int | None = None
    step_sizes: Mapping[str, Schedule] = field(default_factory=dict)
    cohorts: Cohorts | None = None


@dataclass(frozen=True)
class Trained:
    """What came of a course.

    Attributes
    ----------
    table
        The learning table, as `replay` returns it.
    ends
        The models of each optimizer.
    past_versions
        How many models beside its own an optimizer kept at a time at most, for reports that were still to come.
    """

    table: pl.DataFrame
    ends: Mapping[str, End]
    past_versions: int


def replay_together(
    courses: Sequence[Course],
    work: LocalWork,
    *,
    evaluate_every: int = 1,
    progress: Callable[[int], None] | None = None,
    announce: Callable[[str], None] | None = None,
) -> list[Trained]:
    """Train the optimizers of several logs side by side, with the same numbers as one by one.

    Parameters
    ----------
    courses
        The logs, which may be of different lengths.
    work
        What a client does; it holds the problem.
    evaluate_every, progress
        As in `replay`; rounds are counted in the longest log.
    announce
        Told how much memory optimizers are going to take for all participants, before they take it.

    Raises
    ------
    LearningError
        As in `replay`.
    """
    require("evaluate_every", evaluate_every, evaluate_every >= 1, "at least 1")
    clients = work.problem.clients
    logs = [
        Cohorts.read(course.rounds, course.participations, clients, course.buffer)
        if course.cohorts is None
        else course.cohorts
        for course in courses
    ]
    _provide_memory(courses, logs, work.problem, announce)
    # What a diverging optimizer overflows is no business of the others, nor of the reader: its row says NaN.
    with np.errstate(all="ignore"):
        coming = _coming(courses, logs, work)
        replays = [_Replay.start(*each, work) for each in zip(courses, logs, coming, strict=True)]
        for step in range(max(map(len, logs), default=0)):
            # 1. The servers announce their cohorts; each optimizer says how its clients train.
            under_way = [each for each in replays if step < len(each.log)]
            training = [each for each in under_way if each.announce(step, work)]
            # 2. The clients train, for all optimizers at once; the servers turn their work into their next models.
            _train(training, work)
            # 3. Now and then, and as soon as an optimizer diverges, the tables take note.
            for each in under_way:
                each.note(step, evaluate_every)
            if progress is not None:
                progress(step + 1)
        return [each.trained() for each in replays]


def _coming(courses: Sequence[Course], logs: Sequence[Cohorts], work: LocalWork) -> list[_Coming]:
    """Return what comes for each course, row after row; a log that several share is read once."""
    readers: dict[tuple[int, int], list[_Coming]] = {}
    keys = [(id(log), id(course.draws)) for course, log in zip(courses, logs, strict=True)]
    for key, course, log in zip(keys, courses, logs, strict=True):
        if key not in readers:
            readers[key] = list(tee(drawn_ahead(log.in_turn(), log.rounds, work, course.draws), keys.count(key)))
    return [readers[key].pop() for key in keys]


def _provide_memory(
    courses: Sequence[Course], logs: Sequence[Cohorts], problem: Problem, announce: Callable[[str], None] | None
) -> None:
    needed = [
        (name, optimizer.memory(log.participants, problem.dimension))
        for course, log in zip(courses, logs, strict=True)
        for name, optimizer in course.optimizers.items()
        if isinstance(optimizer, Remembering)
    ]
    needed = [(name, size) for name, size in needed if size]
    names = " and ".join(name for name, _ in needed)
    clients = max((log.participants for log in logs), default=0) if needed else 0
    what = f"what {names} remember{'s' if len(needed) == 1 else ''} of {clients:,} participants"
    total = sum(size for _, size in needed)
    _require_memory(
        f"{what} ({problem.dimension:,} parameters each)",
        total,
        "take fewer clients, a smaller model, or an optimizer that does not remember every participant's change",
    )
    if announce is not None and total >= _WORTH_SAYING:
        announce(f"allocating {readable(total)} for {what}")
    models = sum(log.past_versions * len(course.optimizers) for course, log in zip(courses, logs, strict=True))
    _require_memory(
        f"{models:,} past versions of the model, from which clients still work",
        total + 8 * models * problem.dimension,
        "take a smaller model, fewer optimizers, less concurrency or a larger buffer",
    )


def _require_memory(what: str, needed: int, hint: str) -> None:
    """Refuse to allocate more than is free; the hint says what to do about it."""
    free = free_bytes()
    if free is not None and needed > SHARE * free:
        raise LearningError(f"{what} would take {readable(needed)}, and {readable(free)} are free; {hint}")


class _LearningTable:
    """The rows of the learning table, as columns that grow: evaluates models and keeps the figures."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._numbers, self._closed_s, self._names = array("q"), array("d"), list[str]()
        self._values = {"loss": array("d"), "grad_norm": array("d")}

    def add(self, number: int, closed_s: float, run: Trajectory) -> None:
        """Evaluate a run's model and add the row; a model that is not finite is not shown to the problem."""
        values: Mapping[str, float] = {}
        if not run.diverged:
            with blame(f"problem, evaluation of optimizer {run.name!r}, round {number}"):
                values = {name: float(value) for name, value in self._problem.evaluate(run.model).items()}
                if not self._names:
                    self._values |= {name: array("d") for name in values}
                if values.keys() != self._values.keys():
                    wanted, found = ", ".join(sorted(self._values)), ", ".join(sorted(values))
                    raise LearningError(f"the evaluation has the entries {found}; expected {wanted}")
            run.diverged = not np.isfinite(values["loss"])
        self._numbers.append(number)
        self._closed_s.append(closed_s)
        self._names.append(run.name)
        for name, column in self._values.items():
            column.append(np.nan if run.diverged else values[name])

    def frame(self) -> pl.DataFrame:
        """Return the table."""
        schema = {"round": pl.Int32, "closed_s": pl.Float64, "optimizer": pl.String}
        keys = pl.DataFrame(
            {"round": np.array(self._numbers), "closed_s": np.array(self._closed_s), "optimizer": self._names},
            schema=schema,
        )
        return keys.with_columns(pl.Series(name, np.array(column)) for name, column in self._values.items())


@dataclass
class _Replay:
    """One log on its way: its optimizers, its table, and the work that is being done in this round."""

    log: Cohorts
    runs: list[Trajectory]
    table: _LearningTable
    step_sizes: Mapping[str, Schedule]
    drawn: int
    coming: _Coming
    most_kept: int = 0
    row: int = field(init=False)
    number: int = field(init=False)
    going: list[Trajectory] = field(init=False)
    minibatches: Ints | None = field(init=False)

    @classmethod
    def start(cls, course: Course, log: Cohorts, coming: _Coming, work: LocalWork) -> Self:
        problem = work.problem
        runs = [Trajectory.start(name, optimizer, problem) for name, optimizer in course.optimizers.items()]
        table = _LearningTable(problem)
        for run in runs:
            table.add(-1, 0.0, run)
            if run.diverged:
                raise LearningError("problem: the loss of the initial model is not finite")
        drawn = int(course.draws.uniforms(_SERVER, 0)[0] * len(log))
        return cls(log, runs, table, course.step_sizes, drawn, coming)

    def announce(self, step: int, work: LocalWork) -> bool:
        """Tell the optimizers who takes part; return whether there is anything to train."""
        reports, self.minibatches = next(self.coming)
        self.row, self.number = step, int(self.log.rounds[step])
        self.going = [run for run in self.runs if not run.diverged]
        if reports.begun is not None:
            self._keep()
        if not self.going or not len(reports.clients):
            return False
        staleness, alpha = self.log.staleness(step, reports), self.log.step_sizes(step, reports, work.step_size)
        for run in self.going:
            own = self.step_sizes.get(run.name)
            lengths = alpha if own is None else self.log.step_sizes(step, reports, own)
            model = run.downloaded(step, reports.begun)
            run.prepare(Cohort(self.number, reports.clients, staleness, work.steps, lengths, model))
        return True

    def _keep(self) -> None:
        """Keep the models from which later reports began, and no others."""
        for run in self.going:
            run.past = {row: model for row, model in run.past.items() if self.log.wanted(row, self.row)}
            self.most_kept = max(self.most_kept, len(run.past))
            if self.log.wanted(self.row, self.row + 1):
                run.past[self.row] = run.model.copy()

    def note(self, step: int, evaluate_every: int) -> None:
        """Write the rows that are due, and keep of the models what the end wants."""
        done, total = step + 1, len(self.log)
        due = done % evaluate_every == 0 or done == total
        for run in self.going:
            run.remember(late=2 * done > total, drawn=step == self.drawn)
            if run.diverged or due:
                self.table.add(self.number, float(self.log.closed_s[step]), run)

    def trained(self) -> Trained:
        number = int(self.log.rounds[self.drawn]) if len(self.log) else -1
        return Trained(self.table.frame(), {run.name: run.end(number) for run in self.runs}, self.most_kept)


def _train(replays: Sequence[_Replay], work: LocalWork) -> None:
    """Let the cohort of each replay train for each of its optimizers, and hand them its work.

    What is done alike is done in one array expression: plain gradient descent; that with something added to the
    gradients; and each other rule.
    """
    alike: dict[tuple[bool, int], list[tuple[Trajectory, Ints | None]]] = {}
    for each in replays:
        for run in each.going:
            key = (False, 0) if run.altered is None else (True, id(run.altered.rule))
            alike.setdefault(key, []).append((run, each.minibatches))
    for members in alike.values():
        runs = [run for run, _ in members]
        minibatches = [drawn for _, drawn in members if drawn is not None]
        clients = np.concatenate([run.cohort.clients for run in runs])
        models, own = np.empty((len(clients), work.problem.dimension)), list[slice]()
        end = 0
        for run in runs:
            own.append(slice(end, end := end + len(run.step_sizes)))
            models[own[-1]] = run.starts
        step_sizes = np.concatenate([run.step_sizes for run in runs])
        drawn = np.concatenate(minibatches, axis=1) if minibatches else None
        try:
            deltas = work.updates(clients, models, step_sizes, drawn, _together(runs))
        except Exception as error:
            raise blamed(_what(runs), error) from error
        for run, rows in zip(runs, own, strict=True):
            run.apply(deltas[rows])


def _together(runs: Sequence[Trajectory]) -> Altered | None:
    """Return what the clients of optimizers that are trained alike do other than plain steps."""
    altered = [(run.altered, len(run.cohort.clients)) for run in runs if run.altered is not None]
    return merged(altered, len(runs[0].model)) if altered else None


def _what(runs: Sequence[Trajectory]) -> str:
    """Return what is running while these train, for an error."""
    rounds = ", ".join(dict.fromkeys(str(run.cohort.round) for run in runs))
    if runs[0].altered is None or runs[0].altered.rule is None:
        return f"problem, round {rounds}"
    return f"local rule of optimizer {', '.join(dict.fromkeys(repr(run.name) for run in runs))}, round {rounds}"
