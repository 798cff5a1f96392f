"""Several training jobs that share a fleet: what each brings, and the scenario of one of them."""

import copy
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, WrapSerializer, WrapValidator

from fedsim.scenario.component import BuiltIn, Component, Kinds
from fedsim.scenario.document import Document
from fedsim.scenario.learning import Learning
from fedsim.scenario.privacy import Privacy
from fedsim.scenario.server import Server
from fedsim.scenario.session import AnySession, Participations
from fedsim.scenario.sources import ClientTimeSource, RoundsSource
from fedsim.scenario.stop import Stop
from fedsim.scenario.strict import Positive, SparseModel
from fedsim.scenario.units import Duration

MOST_JOBS = 32
JobName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,49}$")]
"""Part of the names of metrics and folders."""
Matching = Annotated[BuiltIn | Component, Kinds(role="matching policy")]
_PARTS = ("server", "learning", "privacy")
"""What a scenario without jobs has at its top instead."""
_OF_GROUPS = ("separation", "cooldown", "participations", "session")
_OF_ALL = {"jobs", "job", "matching", "alone", "stop"}
_OF_ALL |= {"sweep", "choose", "decide", "headline", "expect", "drift", "replicates"}


class SharedJob(SparseModel):
    """One training task on the fleet."""

    server: Server
    """How its server selects clients and takes their reports: in rounds, or by a buffer."""
    learning: Learning | None = None
    """What is trained over its part of the log; nothing, where it is not given."""
    privacy: Privacy | None = None
    """What it promises to each client; nothing, where it is not given."""
    weight: Positive = 1.0
    """What it counts beside the others, to a `matching` that asks: by_weight, fair_share."""
    groups: Annotated[list[str], Field(min_length=1)] | None = None
    """Names of the groups whose devices it takes; all, where this is not given."""
    separation: RoundsSource | None = None
    """R_i in its own rounds, instead of that of every group."""
    cooldown: ClientTimeSource | None = None
    """Wall-clock time before a client may take part in this job again, instead of that of every group."""
    participations: Participations | None = None
    """How often each client may take part in this job, instead of what every group says."""
    session: AnySession | None = None
    """How long a participation in this job takes, or its work, instead of what every group says. Work that `needs` much
    memory leaves out classes of devices."""
    starts: Duration | None = None
    """When its server opens the first round, from the beginning of the run; at once, where it is not given."""
    stop: Stop | None = None
    """When this job ends; with the run, where it is not given."""

    unwritten = frozenset({"learning", "privacy", "groups", *_OF_GROUPS, "starts", "stop"})


_IN_JOBS = object()
"""In place of the server of a scenario whose jobs have servers of their own."""


def server_in_jobs(data: Any) -> Any:
    """Return the data of a scenario so that it needs no server where its jobs have theirs."""
    if not isinstance(data, dict) or not data.get("jobs"):
        return data
    if given := [key for key in _PARTS if data.get(key) is not None]:
        raise ValueError(f"has `jobs`, and beside them `{given[0]}`: each job has its own; move it into one of them")
    return {**data, "server": _IN_JOBS}


ServerOrJobs = Annotated[
    Server,
    WrapValidator(lambda server, handler: None if server is _IN_JOBS else handler(server)),
    WrapSerializer(lambda server, handler: None if server is None else handler(server)),
]
"""The server of a scenario; None where its jobs have theirs, which nobody asks for then."""


def document_of_job(
    written: Document, name: str, jobs: Mapping[str, SharedJob], groups: Sequence[str], run: Stop, *, alone: bool
) -> Document:
    """Return the plain data of a scenario with one job's server and what else it brings, in a scenario's own keys.

    `written` are those of the scenario, which has these jobs, groups by name, and its stop. Unless it is `alone`, the
    data say which jobs are beside it. Every value keeps its place in the file.
    """
    job, path = jobs[name], ("jobs", name)
    document = written.copy_without(_OF_ALL)
    keys = {key: value for key, value in written.data["jobs"][name].items() if value is not None}

    def put(to: tuple[str | int, ...], key: str) -> None:
        at = document.data
        for step in to[:-1]:
            at = at[step]
        at[to[-1]] = copy.deepcopy(keys[key])
        start = (*path, key)
        document.places.update({to + k[len(start) :]: v for k, v in written.places.items() if k[: len(start)] == start})

    for key in keys:
        if key in _PARTS or key == "starts":
            put((key,), key)
        elif key in _OF_GROUPS:
            for index in range(len(groups)):
                put(("population", index, key), key)
    for index, group in enumerate(groups):
        if job.groups is not None and group not in job.groups:
            document.data["population"][index]["left_out"] = True
    document.data["stop"] = (job.stop or run).within(run)
    if len(jobs) > 1:
        document.data["job"] = name
        if not alone:
            document.data["beside"] = [other for other in jobs if other != name]
    return document
