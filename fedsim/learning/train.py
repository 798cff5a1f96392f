"""Learning replayed over the participation log: every optimizer sees the same cohorts in the same order.

Who takes part does not depend on the model, so training needs the log and nothing of the simulation. Several logs
(replicates, or a run and its unbiased twin) are replayed side by side: in each step the clients of all their rounds,
for all their optimizers, train in one array expression.
"""

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, tee
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats, Ints
from fedsim.common.errors import line_of
from fedsim.common.keyed import Purpose, Stream, stream
from fedsim.common.memory import SHARE, free_bytes, readable_bytes
from fedsim.learning.checkpoint import Checkpoint
from fedsim.learning.cohorts import Cohorts, Reports
from fedsim.learning.failures import LearningError, learning_error_from, reraise_as_learning_error
from fedsim.learning.local_training import LocalWork, StepSchedule, merge_altered, require, with_minibatches
from fedsim.learning.optimizers.optimizer import Cohort, Optimizer, SizedState
from fedsim.learning.problems.problem import Problem
from fedsim.learning.trajectory import End, Trajectory

# The draw of the output iterate belongs to no client; this index is no client's.
_SERVER = 2**63 - 1

_WORTH_SAYING = 2**20
_State: TypeAlias = tuple[int, tuple[Any, ...], tuple[dict[str, Any], ...]]
_Coming: TypeAlias = Iterator[tuple[Reports, Ints | None]]


def replay(
    problem: Problem,
    optimizers: Mapping[str, Optimizer],
    rounds: pl.DataFrame,
    participations: pl.DataFrame,
    *,
    local_steps: int | Ints,
    step_size: float | StepSchedule,
    batch_size: int | None = None,
    evaluate_every: int = 1,
    draws: Stream | None = None,
    buffer: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> pl.DataFrame:
    """Train every optimizer, under the name that it has in the result, on the participation that the log records.

    `rounds` has the columns ``round`` and ``closed_s``; `participations` has ``round``, ``client``, ``position`` and
    ``outcome``. Those with the outcome ``reported`` train, in the order of ``position``; a round without any leaves
    every model as it is. They take `local_steps` steps, K >= 1 or K_i of shape (N,), or those of a column ``steps``, of
    length `step_size` > 0, which may be a schedule: it is called with the number of rounds over. Each step is along the
    gradient over `batch_size` samples, of the stream `draws` (by default that of seed 0), or the full local gradient.

    `buffer` is how many reports a step of a buffered server takes, whose log also has the columns ``staleness`` and
    ``ended_s``. A report counts for the version ``round + staleness``, in the order of the ends; its client's work
    began from the model, and with the step size, of version ``round``.

    Returns the columns ``round`` (Int32), ``closed_s`` (Float64, seconds since the start of the simulation),
    ``optimizer``, and a Float64 column for each entry of the problem's evaluation, after the server's step of the
    round, every `evaluate_every` rounds and after the last; rows with ``round = -1`` and ``closed_s = 0`` hold the
    initial model. An optimizer whose model, or loss in an evaluated round, is not finite has diverged: its last row is
    NaN, and the others go on. `progress` is called after each round with the number of rounds done.

    Raises a `LearningError` that names the culprit and the round if a number is out of its range, the log has a client
    that the problem has not, the optimizers would need more memory than there is, or the code of a problem or an
    optimizer fails or returns arrays of a wrong shape.
    """
    work = LocalWork.checked(problem, local_steps, step_size, batch_size)
    cohorts = Cohorts.read(rounds, participations, problem.clients, buffer)
    course = Course(cohorts, optimizers, draws or stream(0, 0, Purpose.OPTIMIZER))
    return replay_together([course], work, evaluate_every=evaluate_every, progress=progress)[0].table


@dataclass(frozen=True)
class Course:
    """A log, the optimizers to train over it by name, and where their minibatches come from.

    `step_sizes` has the optimizers' own local step sizes, by name; `start` is the first model, (d,), in place of the
    problem's. Courses that share cohorts and draws read the log together.
    """

    cohorts: Cohorts
    optimizers: Mapping[str, Optimizer]
    draws: Stream
    step_sizes: Mapping[str, StepSchedule] = field(default_factory=dict)
    start: Floats | None = None


@dataclass(frozen=True)
class Trained:
    """The learning table of a course, as `replay` returns it, and the models of each optimizer.

    `past_versions` is how many older models an optimizer kept at a time at most, for reports still to come.
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
    checkpoint: Checkpoint | None = None,
    until: float = -np.inf,
) -> list[Trained]:
    """Train the optimizers of several logs, which may differ in length, with the same numbers as one by one.

    Parameters and errors are those of `replay`; rounds are counted in the longest log. `announce` is called with a
    sentence on the memory that optimizers are going to take for all participants, before they take it. From the state
    of a `checkpoint` training goes on, if it has one, and its own is kept there; what fails from there is begun anew.
    Training ends as soon as each optimizer of the first course has been seen with a loss of at most `until`.
    """
    require("evaluate_every", evaluate_every, evaluate_every >= 1, "at least 1")
    _provide_memory(courses, work.problem, announce)

    def begin() -> list[_Replay]:
        return [_Replay(*each, work) for each in zip(courses, _coming(courses, work), strict=True)]

    def go_on(replays: list[_Replay], done: int) -> list[Trained]:
        for step in range(done, max((len(each.log) for each in replays), default=0)):
            # 1. The servers announce their cohorts; each optimizer says how its clients train.
            under_way = [each for each in replays if step < len(each.log)]
            training = [one for each in under_way for one in each.announce(step, work)]
            # 2. The clients train, for all optimizers at once; the servers turn their work into their next models.
            _train(training, work)
            # 3. Models are evaluated when that is due, and as soon as an optimizer diverges.
            for each in under_way:
                each.note(step, evaluate_every)
            if checkpoint is not None and checkpoint.due:
                checkpoint.keep(step + 1, tuple(each.state() for each in replays))
            if progress is not None:
                progress(step + 1)
            if replays and all(run.least <= until for run in replays[0].runs):
                break
        return [each.trained() for each in replays]

    # A diverging optimizer overflows; its row says NaN, so warnings are not needed.
    with np.errstate(all="ignore"):
        replays = begin()
        begun = tuple(each.state() for each in replays)
        if checkpoint is not None and (kept := checkpoint.read(begun)) is not None:
            try:
                return go_on(replays, _resume(replays, *kept, announce))
            except Exception:  # noqa: BLE001  perhaps somebody has made up the state
                for each, state in zip(replays, begun, strict=True):
                    each.restore(state)  # the lists of the optimizers, which are those of the next replays too
                replays = begin()
        return go_on(replays, 0)


def _resume(
    replays: Sequence["_Replay"], done: int, states: Sequence[_State], announce: Callable[[str], None] | None
) -> int:
    """Put replays where they were after so many steps, and their logs; return these."""
    if not 0 < done <= max(len(each.log) for each in replays):
        raise ValueError("no such step")
    if announce is not None:
        announce(f"training goes on after {done:,} rounds")
    for each, state in zip(replays, states, strict=True):
        each.restore(state)
        deque(islice(each.coming, done), maxlen=0)
    return done


def _coming(courses: Sequence[Course], work: LocalWork) -> list[_Coming]:
    """Return the reports and minibatches of each course, row after row; a log that several share is read once."""
    readers: dict[tuple[int, int], list[_Coming]] = {}
    keys = [(id(course.cohorts), id(course.draws)) for course in courses]
    for key, course in zip(keys, courses, strict=True):
        if key not in readers:
            turns = course.cohorts.in_turn()
            drawn = with_minibatches(turns, course.cohorts.rounds, work, course.draws)
            readers[key] = list(tee(drawn, keys.count(key)))
    return [readers[key].pop() for key in keys]


def _provide_memory(courses: Sequence[Course], problem: Problem, announce: Callable[[str], None] | None) -> None:
    needed = [
        (name, size)
        for course in courses
        for name, optimizer in course.optimizers.items()
        if isinstance(optimizer, SizedState) and (size := _memory_of(name, optimizer, course.cohorts, problem))
    ]
    names = " and ".join(name for name, _ in needed)
    clients = max((course.cohorts.participants for course in courses), default=0) if needed else 0
    what = f"what {names} remember{'s' if len(needed) == 1 else ''} of {clients:,} participants"
    total = sum(size for _, size in needed)
    _require_memory(
        f"{what} ({problem.dimension:,} parameters each)",
        total,
        "take fewer clients, a smaller model, or an optimizer that does not remember every participant's change",
    )
    if announce is not None and total >= _WORTH_SAYING:
        announce(f"allocating {readable_bytes(total)} for {what}")
    models = sum(course.cohorts.past_versions * len(course.optimizers) for course in courses)
    _require_memory(
        f"{models:,} past versions of the model, from which clients still work",
        total + 8 * models * problem.dimension,
        "take a smaller model, fewer optimizers, less concurrency or a larger buffer",
    )


def _memory_of(name: str, optimizer: SizedState, log: Cohorts, problem: Problem) -> int:
    with reraise_as_learning_error(f"optimizer {name!r}, memory", optimizer.memory):
        size: object = optimizer.memory(log.participants, problem.dimension)
        if not isinstance(size, int):
            raise LearningError(f"must return a whole number of bytes, and returned {size!r}")
        return size


def _require_memory(what: str, needed: int, hint: str) -> None:
    """Refuse to allocate more than is free; the hint says what to do about it."""
    free = free_bytes()
    if free is not None and needed > SHARE * free:
        raise LearningError(f"{what} would take {readable_bytes(needed)}, and {readable_bytes(free)} are free; {hint}")


class _LearningTable:
    """Evaluates models, and keeps the rows of the learning table as columns that grow."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._numbers, self._closed_s, self._names = array("q"), array("d"), list[str]()
        self._values = {"loss": array("d"), "grad_norm": array("d")}

    def add(self, number: int, closed_s: float, run: Trajectory) -> None:
        """Evaluate a run's model and add the row; NaN for a model that is not finite."""
        values: Mapping[str, float] = {}
        if not run.diverged:
            evaluate = self._problem.evaluate
            with reraise_as_learning_error(f"problem, evaluation of optimizer {run.name!r}, round {number}", evaluate):
                values = {name: float(value) for name, value in evaluate(run.model).items()}
                if not self._names:
                    self._values |= {name: array("d") for name in values}
                if values.keys() != self._values.keys():
                    wanted, entries = ", ".join(sorted(self._values)), ", ".join(sorted(values))
                    raise LearningError(f"the evaluation has the entries {entries}; expected {wanted}")
            run.diverged = not np.isfinite(values["loss"])
            if number >= 0 and not run.diverged:
                run.least = min(run.least, values["loss"])
        self._numbers.append(number)
        self._closed_s.append(closed_s)
        self._names.append(run.name)
        for name, column in self._values.items():
            column.append(np.nan if run.diverged else values[name])

    @property
    def columns(self) -> tuple[Any, ...]:
        """What was added so far."""
        return self._numbers, self._closed_s, self._names, self._values

    @columns.setter
    def columns(self, columns: tuple[Any, ...]) -> None:
        self._numbers, self._closed_s, self._names, self._values = columns

    def frame(self) -> pl.DataFrame:
        """Return the table."""
        keys = {"round": np.array(self._numbers), "closed_s": np.array(self._closed_s), "optimizer": self._names}
        values = {name: np.array(column) for name, column in self._values.items()}
        types = {"round": pl.Int32, "closed_s": pl.Float64, "optimizer": pl.String}
        return pl.DataFrame(keys | values, schema_overrides=types)


class _Replay:
    """The replay of one log: its optimizers, its table, and the work of the current round."""

    def __init__(self, course: Course, coming: _Coming, work: LocalWork) -> None:
        self.log, self.coming, self.step_sizes = course.cohorts, coming, course.step_sizes
        self.runs = [Trajectory(name, each, work.problem, course.start) for name, each in course.optimizers.items()]
        self.table = _LearningTable(work.problem)
        for run in self.runs:
            self.table.add(-1, 0.0, run)
            if run.diverged:
                place = line_of(work.problem.evaluate)
                raise LearningError(f"problem: the loss of the initial model is not finite{place and f' ({place})'}")
        self.drawn = int(course.draws.uniforms(_SERVER, 0)[0] * len(self.log))
        self.most_kept, self.going = 0, list[Trajectory]()

    def announce(self, step: int, work: LocalWork) -> list[tuple[Trajectory, Ints | None]]:
        """Announce the cohort to the optimizers; return those whose clients train, with their minibatches."""
        reports, minibatches = next(self.coming)
        self.going = [run for run in self.runs if not run.diverged]
        if reports.begun is not None:
            self._keep(step)
        number = int(self.log.rounds[step])
        if not len(reports.clients):
            for run in self.going:
                run.step_alone(Cohort(number, reports.clients))
            return []
        staleness, alpha = self.log.staleness(step, reports), self.log.step_sizes(step, reports, work.step_size)
        steps = work.steps_of(reports.clients) if reports.steps is None else reports.steps
        for run in self.going:
            schedule = self.step_sizes.get(run.name)
            lengths = alpha if schedule is None else self.log.step_sizes(step, reports, schedule)
            model = run.downloaded(step, reports.begun)
            run.prepare(Cohort(number, reports.clients, staleness, work.steps, lengths, model, steps=steps))
        return [(run, minibatches) for run in self.going]

    def _keep(self, step: int) -> None:
        """Keep the models from which later reports began, and drop the others."""
        for run in self.going:
            run.past = {row: model for row, model in run.past.items() if self.log.wanted(row, step)}
            self.most_kept = max(self.most_kept, len(run.past))
            if self.log.wanted(step, step + 1):
                run.past[step] = run.model.copy()

    def note(self, step: int, evaluate_every: int) -> None:
        """Write the rows that are due, and update the models that `End` needs."""
        done, total = step + 1, len(self.log)
        due = done % evaluate_every == 0 or done == total
        for run in self.going:
            run.remember(late=2 * done > total, drawn=step == self.drawn)
            if run.diverged or due:
                self.table.add(int(self.log.rounds[step]), float(self.log.closed_s[step]), run)

    def state(self) -> _State:
        """Return what has changed since the beginning."""
        return self.most_kept, self.table.columns, tuple(run.changed for run in self.runs)

    def restore(self, state: _State) -> None:
        """Go on from what `state` returned."""
        self.most_kept, self.table.columns, changed = state
        for run, change in zip(self.runs, changed, strict=True):
            run.changed = change

    def trained(self) -> Trained:
        number = int(self.log.rounds[self.drawn]) if len(self.log) else -1
        return Trained(self.table.frame(), {run.name: run.end(number) for run in self.runs}, self.most_kept)


def _train(training: Sequence[tuple[Trajectory, Ints | None]], work: LocalWork) -> None:
    """Train the cohort of each optimizer, with these minibatches, and hand over the changes.

    There is one array expression for plain gradient descent, one for that with something added to the gradients, and
    one for each other rule.
    """
    alike: dict[tuple[bool, int], list[tuple[Trajectory, Ints | None]]] = {}
    for run, minibatches in training:
        key = (False, 0) if run.altered is None else (True, id(run.altered.rule))
        alike.setdefault(key, []).append((run, minibatches))
    for members in alike.values():
        runs = [run for run, _ in members]
        batches = [drawn for _, drawn in members if drawn is not None]
        clients = np.concatenate([run.cohort.clients for run in runs])
        models, places = np.empty((len(clients), work.problem.dimension)), list[slice]()
        end = 0
        for run in runs:
            places.append(slice(end, end := end + len(run.step_sizes)))
            models[places[-1]] = run.starts
        step_sizes = np.concatenate([run.step_sizes for run in runs])
        drawn = np.concatenate(batches, axis=1) if batches else None
        altered = [(run.altered, len(run.cohort.clients)) for run in runs if run.altered is not None]
        try:
            merged, steps = merge_altered(altered) if altered else None, np.concatenate([r.cohort.steps for r in runs])
            alike_steps = work.own_steps is None and (steps == work.steps).all()
            deltas = work.updates(clients, models, step_sizes, drawn, merged, None if alike_steps else steps)
        except BaseException as error:
            raise learning_error_from(_running(runs), error, _asked(runs, work)) from error
        for run, rows in zip(runs, places, strict=True):
            run.apply(deltas[rows])


def _asked(runs: Sequence[Trajectory], work: LocalWork) -> object:
    """Return the method of a user's own that these called to train, if there is one."""
    rules = [run.altered.rule for run in runs if run.altered is not None]
    of_problem = [getattr(work.problem, name, None) for name in ("descend", "select", "gradients")]
    return next((each for each in (*rules, *of_problem) if line_of(each)), None)


def _running(runs: Sequence[Trajectory]) -> str:
    """Return whose code runs while these train, for an error."""
    rounds = ", ".join(dict.fromkeys(str(run.cohort.round) for run in runs))
    if runs[0].altered is None or runs[0].altered.rule is None:
        return f"problem, round {rounds}"
    return f"local rule of optimizer {', '.join(dict.fromkeys(repr(run.name) for run in runs))}, round {rounds}"
