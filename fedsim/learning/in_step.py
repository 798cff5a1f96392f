"""One optimizer that trains while the simulation goes on, and tells the losses and norms of the clients that reported.

Its models are those that `fedsim.learning.train` finds afterwards, by replay of the log, for the same optimizer.
"""

from typing import cast

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Stream
from fedsim.learning.failures import LearningError, as_floats_of_shape, reraise_as_learning_error
from fedsim.learning.local_training import LocalWork, StepSchedule, merge_altered
from fedsim.learning.optimizers.optimizer import Cohort, Optimizer
from fedsim.learning.problems.problem import Telling
from fedsim.learning.trajectory import Trajectory
from fedsim.log.columns import Arrays
from fedsim.selection import Feedback
from fedsim.simulation import Closed


class InStep:
    """Trains an optimizer, called `name`, with the reports of each round, or of each version of a buffered server.

    The problem of `work` must tell losses; `step_size` is the optimizer's own, if it has one, and `start` the first
    model, (d,), if it is not the problem's.
    """

    def __init__(
        self,
        name: str,
        optimizer: Optimizer,
        work: LocalWork,
        draws: Stream,
        step_size: StepSchedule | None = None,
        start: Floats | None = None,
        *,
        buffered: bool = False,
    ) -> None:
        self._work, self._draws, self._step_size, self._buffered = work, draws, step_size or work.step_size, buffered
        self._run = Trajectory(name, optimizer, work.problem, start)
        self._past = {0: self._run.model}  # by version, of a buffered server

    def train(self, closed: Closed) -> Feedback:
        """Train with the reports of a round; a `LearningError` if it diverges, or a class of a user's own fails."""
        taken, number = np.flatnonzero(closed.reported), closed.number
        losses, norms = np.empty((0, 1)), np.empty(0)
        with np.errstate(all="ignore"):
            if len(taken):
                losses, norms = self._step(
                    number,
                    closed.clients[taken],
                    closed.versions[taken],
                    None if closed.steps is None else closed.steps[taken],
                )
            else:
                self._run.step_alone(Cohort(number, closed.clients[taken]))
            mean, squares = losses.mean(axis=1), np.sqrt(np.square(losses).mean(axis=1))
        if self._run.diverged or not np.isfinite(squares).all():
            raise LearningError(
                f"optimizer {self._run.name!r} has diverged in round {number:,}, so that there are no losses of "
                "clients to select by; a smaller step_size may help"
            )
        if self._buffered:
            self._past = {each: model for each, model in self._past.items() if each >= closed.oldest}
            self._past[number + 1] = self._run.model
        order = np.searchsorted(taken, closed.arrivals)
        closed.answers = [mean[order], squares[order], norms[order], np.full(len(order), float(losses.shape[1]))]
        return closed.feedback()

    def _step(self, number: int, clients: Ints, versions: Ints, counts: Ints | None) -> tuple[Floats, Floats]:
        """Train clients (B,) from versions (B,); return the losses of their samples there, (B, n), and norms (B,)."""
        run, work = self._run, self._work
        lengths = np.array([self._step_size(version) for version in versions.tolist()], dtype=np.float64)
        model = np.stack([self._past[version] for version in versions.tolist()]) if self._buffered else run.model
        steps = work.steps_of(clients) if counts is None else counts
        run.prepare(Cohort(number, clients, number - versions, work.steps, lengths, model, steps=steps))
        starts = np.array(np.broadcast_to(run.starts, (len(clients), len(run.model))))
        batches = work.minibatches(self._draws, versions if self._buffered else number, clients)
        altered = None if run.altered is None else merge_altered([(run.altered, len(clients))])
        problem = cast("Telling", work.problem)
        with reraise_as_learning_error(f"problem, round {number}", problem.losses):
            deltas = work.updates(clients, starts, run.step_sizes, batches, altered, counts)
            returned = problem.losses(clients, np.broadcast_to(model, starts.shape))
            losses = as_floats_of_shape("the array of losses", returned, (len(clients), np.shape(returned)[-1]))
        run.apply(deltas)
        return losses, np.linalg.norm(deltas, axis=1)

    def state(self) -> Arrays | None:
        """Return the model; None where the optimizer remembers more, which is not kept: such a run begins anew."""
        return {"model": self._run.model} if self._run.state is None else None

    def restore(self, state: Arrays) -> None:
        """Go on from what `state` returned."""
        self._run.model = as_floats_of_shape("the model", state["model"], self._run.model.shape)
