"""A buffered server by brute force: its log, and FedBuff trained while it runs, as a server would."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
from hypothesis import strategies as st

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import Course, LocalWork, Optimizer, replay_together
from fedsim.learning.cohorts import Cohorts

from .cases import Quadratic
from .optimizers.by_hand import Vector, change


@dataclass(frozen=True)
class Case:
    """N clients, `concurrency` at work, reports taken `buffer` at a time; lengths by client and drawn, or alike."""

    clients: int = 7
    concurrency: int = 4
    buffer: int = 2
    versions: int = 30
    seed: int = 0
    alike: bool = False
    lost: float = 0.1
    """Share of the sessions that end without a report."""


@dataclass(frozen=True)
class Session:
    """One session of the brute-force run."""

    version: int
    position: int
    client: int
    selected_s: float
    ended_s: float
    reports: bool


def sessions_of(case: Case) -> tuple[list[tuple[Session, int]], list[float]]:
    """Return each session with the version at its end, in the order of the ends, and when each version began."""
    draws = partial(stream(case.seed, 0, Purpose.SESSION).uniforms, 0)
    speed = 1.0 + np.arange(case.clients) % 3
    running: list[Session] = []
    ended: list[tuple[Session, int]] = []
    began, waiting, now, used, position = [0.0], 0, 0.0, 0, 0
    while len(began) <= case.versions:
        busy = {session.client for session in running}
        free = [client for client in range(case.clients) if client not in busy]
        for _ in range(min(case.concurrency - len(running), len(free))):
            choice, length, loss = (float(draws(used + k)[0]) for k in range(3))
            used += 3
            client = free.pop(int(choice * len(free)))
            takes = 10.0 if case.alike else float(np.ceil(20 * length)) * speed[client]
            reports = loss >= case.lost
            running.append(Session(len(began) - 1, position, client, now, now + takes, reports))
            position += 1
        now = min(session.ended_s for session in running)
        ending = [session for session in running if session.ended_s == now]
        running = [session for session in running if session.ended_s > now]
        for session in sorted(ending, key=lambda session: (session.version, session.position)):
            ended.append((session, len(began) - 1))
            waiting += session.reports
            if waiting == case.buffer:
                began, waiting, position = [*began, now], 0, 0
    return [(session, version) for session, version in ended if version < case.versions], began


def buffered_tables(case: Case) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the log of a case: the rounds, and the participations."""
    ended, began = sessions_of(case)
    rounds = pl.DataFrame({"round": list(range(case.versions)), "closed_s": began[1 : case.versions + 1]})
    rows = [
        (
            session.version,
            session.client,
            session.position,
            session.selected_s,
            session.ended_s,
            "reported" if session.reports else "dropped",
            version - session.version if session.reports else None,
        )
        for session, version in ended
    ]
    names = ["round", "client", "position", "selected_s", "ended_s", "outcome", "staleness"]
    return rounds, pl.DataFrame(rows, schema=names, orient="row").sort("round", "position")


@dataclass(frozen=True)
class Report:
    """What one session brought: from which version, at which start point, and how far it went from there."""

    session: Session
    version: int
    downloaded: Vector
    start: Vector
    change: Vector

    @property
    def staleness(self) -> int:
        return self.version - self.session.version


def serve(
    case: Case,
    problem: Quadratic,
    local_steps: int,
    step: float,
    rule: Callable[[Vector, list[Report]], Vector],
    start: Callable[[Session, int, list[Vector]], Vector] | None = None,
) -> Vector:
    """Return the last model of a server that turns a model and the reports of its full buffer into the next model.

    Clients start from what they download, or where `start` says, given the session, the version in which it ends, and
    the models so far.
    """
    models, buffer = [np.zeros(problem.dimension)], list[Report]()
    for session, version in sessions_of(case)[0]:
        if session.reports:
            downloaded = models[session.version]
            begun = downloaded if start is None else start(session, version, models)
            work = change(problem, session.client, begun, local_steps, step)
            buffer.append(Report(session, version, downloaded, begun, work))
        if len(buffer) == case.buffer:
            models.append(rule(models[-1], buffer))
            buffer = []
    return models[-1]


def online(case: Case, problem: Quadratic, local_steps: int, step: float, exponent: float, divide: str) -> Vector:
    """Return the last model of a FedBuff server that trains each client as soon as it downloads."""

    def rule(x: Vector, buffer: list[Report]) -> Vector:
        weights = np.array([(1.0 + report.staleness) ** -exponent for report in buffer])
        total = weights.sum() if divide == "weights" else len(buffer)
        return np.asarray(x + weights @ np.array([report.change for report in buffer]) / total)

    return serve(case, problem, local_steps, step, rule)


def replayed(case: Case, optimizer: Optimizer, problem: Quadratic, local_steps: int, step: float) -> Vector:
    """Return the last model of an optimizer that is trained over the log of a case."""
    cohorts = Cohorts.read(*buffered_tables(case), case.clients, case.buffer)
    course = Course(cohorts, {"it": optimizer}, stream(1, 0, Purpose.OPTIMIZER))
    [trained] = replay_together([course], LocalWork.checked(problem, local_steps, step), evaluate_every=10**9)
    return trained.ends["it"].last


CASES = st.builds(
    Case,
    clients=st.integers(5, 12),
    concurrency=st.integers(1, 5),
    buffer=st.integers(1, 6),
    versions=st.integers(1, 25),
    seed=st.integers(0, 10**6),
)
