"""A buffered server by brute force: its log, and FedBuff trained while it runs, as a server would."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from fedsim.common.keyed import Purpose, stream

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


def online(case: Case, problem: Quadratic, local_steps: int, step: float, exponent: float, divide: str) -> Vector:
    """Return the last model of a FedBuff server that trains each client as soon as it downloads."""
    models, buffer = [np.zeros(problem.dimension)], []
    for session, version in sessions_of(case)[0]:
        if session.reports:
            work = change(problem, session.client, models[session.version], local_steps, step)
            buffer.append(((1.0 + version - session.version) ** -exponent, work))
        if len(buffer) == case.buffer:
            total = sum(weight for weight, _ in buffer) if divide == "weights" else len(buffer)
            models.append(models[-1] + sum(weight * work for weight, work in buffer) / total)
            buffer = []
    return models[-1]
