"""Several jobs on one fleet: both engines, one job as a run of one server, and what holds in every log."""

import os
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedsim.common.instants import DAY_S
from fedsim.log import fingerprint
from fedsim.log.recorder import InMemoryLog
from fedsim.run.preflight import preflight
from fedsim.scenario import Scenario
from fedsim.scenario.document import Document
from fedsim.selection.matching import POLICIES, Wish
from fedsim.simulation import simulate_log
from fedsim.simulation.arrays import precomputed
from tests.jobs import random_jobs, scenario_of, simulated, told

MANY = int(os.environ.get("FEDSIM_JOBS", "30"))
"""Random scenarios: `FEDSIM_JOBS=300 pytest tests/simulation/test_jobs.py -m long` tries more."""
TWO: dict[str, Any] = {
    "stop": {"duration": "1d"},
    "population": [
        {"name": "north", "devices": 40, "availability": {"kind": "renewal", "on": "2h", "off": "3h"}},
        {"name": "south", "devices": 20, "separation": 1},
    ],
    "jobs": {
        "keyboard": {"server": {"cohort": 5, "deadline": "5m", "pause": "2m"}, "separation": 3, "weight": 2},
        "speech": {"server": {"mode": "buffered", "concurrency": 8, "buffer": 4}, "groups": ["south"]},
    },
}


def two(**changes: object) -> Scenario:
    return Scenario.of_document(Document(TWO | changes))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_what_holds_for_random_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both engines write the same bytes, and no log breaks what jobs, fleet and days allow."""
    ran, number = 0, -1
    while ran < MANY:
        number += 1
        if (scenario := scenario_of(number)) is None or not scenario.jobs:
            continue
        monkeypatch.setattr(precomputed, "_MOST", 0 if number % 2 else 1 << 16)
        logs = simulated(scenario, "vectorized")
        assert told(logs) == told(simulated(scenario, "process")), f"scenario {number}"
        check_fleet(scenario, {name: log for name, (_, log, _) in logs.items()})
        for view, log, _ in logs.values():
            check_job(view, log)
        ran += 1


def check_fleet(scenario: Scenario, logs: dict[str, InMemoryLog]) -> None:
    """Nobody is in two sessions, whatever the job, nor in more of them a day than the fleet allows."""
    sessions = pl.concat([log.participations.select("client", "selected_s", "ended_s") for log in logs.values()])
    sessions = sessions.sort("client", "selected_s", "ended_s")
    after = sessions.select(pl.col("ended_s").shift(1).over("client"))["ended_s"]
    assert (sessions["selected_s"] >= after).drop_nulls().all()
    if scenario.most_a_day is not None:
        day = (pl.col("selected_s") // DAY_S).alias("day")
        assert sessions.group_by("client", day).len()["len"].max() in {None, *range(scenario.most_a_day + 1)}


def check_job(view: Scenario, log: InMemoryLog) -> None:
    """A job has devices of its groups alone, none too soon or too often, from its start to its end."""
    population, rows = preflight(view).population, log.participations
    group = np.array([each.left_out for each in view.population])[population.group]
    counted = rows if view.server.cooldown_from == "selected" else rows.filter(outcome="reported")
    assert not group[rows["client"].to_numpy()].any()
    starts_s, ends_s = view.starts or 0.0, view.stop.most_s
    assert rows["selected_s"].is_between(starts_s, ends_s, closed="left").all()
    assert len(log.rounds) <= view.stop.most_rounds
    often = np.bincount(counted["client"].to_numpy(), minlength=len(population))
    assert population.most is None or (often <= population.most).all()
    if view.server.selects_once or view.server.cooldown_from == "selected":
        for (client,), sessions in counted.group_by("client"):
            assert (np.diff(sessions["round"].to_numpy()) > population.separation[int(str(client))]).all()
    assert rows["ended_s"].is_between(0, log.ended_s).all()


@pytest.mark.parametrize("engine", ["process", "vectorized"])
@pytest.mark.parametrize("name", ["keyboard", "speech"])
def test_one_job_is_a_run_of_one_server(engine: str, name: str) -> None:
    """Written as a job, or at the top of the scenario: the same scenario, and the same bytes."""
    job = dict(TWO["jobs"][name])
    group_keys = {key: job.pop(key) for key in ("separation",) if key in job}
    groups = job.pop("groups", ["north", "south"])
    job.pop("weight", None)
    population = [
        {**group, **group_keys, **({} if group["name"] in groups else {"left_out": True})}
        for group in TWO["population"]
    ]
    plain = Scenario.of_document(Document({"stop": TWO["stop"], "population": population, **job, "engine": engine}))
    of_jobs = two(jobs={name: TWO["jobs"][name]}, engine=engine)
    assert of_jobs == plain
    assert not of_jobs.jobs
    ours, theirs = (simulate_log(each, preflight(each).population) for each in (of_jobs, plain))
    assert len(ours.participations) > 100
    for table in ("rounds", "participations", "gauges"):
        assert fingerprint(getattr(ours, table)) == fingerprint(getattr(theirs, table))


def test_jobs_have_draws_of_their_own_on_the_same_devices() -> None:
    """Devices, and when they are available, are those of the seed; who is selected is keyed by the name of the job."""
    scenario = two(jobs={name: {"server": {"cohort": 5, "pause": "1h"}} for name in ("a", "b")})
    views = [scenario.of_job(name, alone=True) for name in ("a", "b")]
    assert len({scenario.seed, *(view.own_seed for view in views)}) == 3
    logs = [simulate_log(view, preflight(view).population) for view in views]
    first = [log.participations.filter(round=0)["client"].to_list() for log in logs]
    assert first[0] != first[1]


def test_what_one_job_has_the_other_waits_for() -> None:
    """Ten devices and two jobs that want all of them: the policy says who is first, and the other comes after it."""
    jobs = {name: {"server": {"cohort": 10}, "weight": weight} for name, weight in (("a", 1), ("b", 3))}
    population = [{"devices": 10, "session": {"download": "0s", "train": "1m", "upload": "0s"}}]
    make = partial(two, population=population, jobs=jobs, stop={"rounds": 2})
    for policy, order in {"first_come": "abab", "by_weight": "bbaa", "fair_share": "abba"}.items():
        for engine in ("process", "vectorized"):
            logs = simulated(make(matching=policy), engine)
            begun = sorted((at, name) for name in logs for at in logs[name][1].rounds["selected_s"])
            assert begun == [(60.0 * place, name) for place, name in enumerate(order)], policy


def test_nobody_is_selected_at_the_last_instant() -> None:
    """What one job lets go when the run stops, another that waits for it does not take, whatever its server is."""
    population = [{"devices": 10, "session": {"download": "0s", "train": "7m", "upload": "0s"}}]
    for starved in ({"cohort": 5}, {"mode": "buffered", "concurrency": 8, "buffer": 4}):
        jobs = {"first": {"server": {"cohort": 10}, "weight": 3}, "second": {"server": starved}}
        scenario = two(population=population, jobs=jobs, matching="by_weight")
        runs = [simulated(scenario, engine) for engine in ("process", "vectorized")]
        assert told(runs[0]) == told(runs[1])
        assert len(runs[0]["first"][1].participations) == 2060
        assert runs[0]["second"][1].participations.is_empty()


def test_each_policy_ranks_a_wish_by_its_own_figure() -> None:
    wish = Wish("a", weight=2.0, now_s=60.0, since_s=20.0, wanted=7, sessions=30, draw=0.25)
    ranks = {name: POLICIES[name]().rank(wish) for name in POLICIES.built_in}
    assert ranks == {"first_come": 20.0, "random": 0.25, "by_weight": -2.0, "fair_share": 15.0, "shortest_demand": 7.0}


def test_a_day_has_no_more_sessions_of_a_device_than_the_fleet_allows() -> None:
    """With a limit of two the 60 devices have 120 sessions a day over both jobs, and of one server alone too."""
    population = [{"devices": 60, "session": {"download": "0s", "train": "1m", "upload": "0s"}}]
    jobs = {name: {"server": {"cohort": 6, "shortage": "proceed"}} for name in ("a", "b")}
    make = partial(two, population=population, jobs=jobs, stop={"duration": "71h"}, most_a_day=2)
    for scenario in (make(), make(jobs={"a": jobs["a"]})):
        for engine in ("process", "vectorized"):
            if scenario.jobs:
                logs = [log for _, log, _ in simulated(scenario, engine).values()]
            else:
                logs = [simulate_log(scenario.with_values({"engine": engine}), preflight(scenario).population)]
            starts = np.concatenate([log.participations["selected_s"].to_numpy() for log in logs])
            assert np.bincount((starts // DAY_S).astype(int)).tolist() == [120, 120, 120]


def test_what_a_job_lets_go_early_others_have_at_once() -> None:
    """A job that ends in the midst of a session leaves its devices to the others at that very instant."""
    population = [{"devices": 4, "session": {"download": "0s", "train": "10m", "upload": "0s"}}]
    jobs = {
        "a": {"server": {"cohort": 4}, "stop": {"duration": "4m"}},
        "b": {"server": {"cohort": 4}, "stop": {"rounds": 1}},
    }
    for engine in ("process", "vectorized"):
        logs = simulated(two(population=population, jobs=jobs), engine)
        assert logs["a"][1].participations["outcome"].to_list() == ["aborted"] * 4
        assert logs["b"][1].rounds["selected_s"].to_list() == [240.0]


def test_a_job_that_stalls_ends_and_the_others_go_on() -> None:
    """Job a wants all four devices at once, and job b always has one of them."""
    long = {"download": "0s", "train": "3h", "upload": "0s"}
    jobs = {
        "b": {"server": {"cohort": 1, "pause": "10m"}, "session": long},
        "a": {"server": {"cohort": 4, "patience": "1h"}},
    }
    for engine in ("process", "vectorized"):
        logs = simulated(two(population=[{"devices": 4}], jobs=jobs), engine)
        ended_s, error = logs["a"][2]
        assert ended_s == 3600.0
        assert "1 in a session" in str(error)
        assert "has waited 1h, which is the server's patience" in str(error)
        assert logs["b"][2] == (DAY_S, None)


def test_random_jobs_are_what_they_say() -> None:
    sizes = {len(random_jobs(number)["jobs"]) for number in range(50)}
    assert sizes == {1, 2, 3, 4}
