"""Random scenarios of one to four jobs on one fleet, as plain data, and their simulation."""

import random
from typing import Any

from fedsim.common.errors import ScenarioError, StalledError
from fedsim.log import fingerprint
from fedsim.log.recorder import InMemoryLog
from fedsim.run.preflight import preflight
from fedsim.scenario import Scenario
from fedsim.scenario.document import Document
from fedsim.simulation.jobs import simulate_jobs

POLICIES = ("first_come", "random", "by_weight", "fair_share", "shortest_demand")
Ended = tuple[float, StalledError | None]


def random_jobs(number: int, jobs: int | None = None) -> dict[str, Any]:
    """Return the scenario of a number; half of them live by whole minutes: most instants have several events."""
    rng = random.Random(number)
    minutes = rng.random() < 0.5
    of = rng.choice

    def time(words: list[str]) -> Any:
        law = {"kind": "lognormal", "median": of(words), "sigma": 0.6}
        return of(words) if minutes or rng.random() < 0.3 else law

    def availability() -> Any:
        renewal = {"kind": "renewal", "on": of(["20m", "2h"]), "off": of(["10m", "1h"])}
        return of(["always", renewal, renewal, {"kind": "habits", "require": ["charging"]}])

    groups = [
        {
            "name": name,
            "devices": rng.randint(6, 25),
            "weight": of([1, 3]),
            "separation": of([0, 0, 2]),
            "cooldown": of(["0s", "0s", "3m"]),
            "availability": availability(),
            "session": {"download": time(["1m"]), "train": time(["1m", "4m"]), "upload": of(["0s", "1m"])},
        }
        for name in ("first", "second", "third")[: rng.randint(1, 3)]
    ]
    if rng.random() < 0.1:
        groups[0]["session"] = {"download": "0s", "train": "0s", "upload": "0s"}
    names = [group["name"] for group in groups]

    def server() -> dict[str, Any]:
        shared = {"cooldown_from": of(["selected", "reported"]), "patience": of(["1h", "30d", "30d", "30d"])}
        if rng.random() < 0.4:
            places = {"mode": "buffered", "concurrency": rng.randint(1, 8), "buffer": rng.randint(1, 4)}
            return {**shared, **places, "deadline": of([None, "3m"]), "max_staleness": of([None, 2])}
        return {
            **shared,
            "cohort": rng.randint(1, 5),
            "over_select": of([1, 1.5]),
            "deadline": of([None, "2m", "5m"]),
            "minimum_reports": of([0, 0, 1]),
            "pause": of(["1m", "7m"]) if minutes else of(["13s", "5m"]),
            "selection": of(["midzuno", "uniform", "successive", "cyclic", "bernoulli"]),
            "shortage": of(["wait", "wait", "proceed", "skip"]),
        }

    def job() -> dict[str, Any]:
        found: dict[str, Any] = {"server": server(), "weight": of([1, 2.5])}
        if rng.random() < 0.4:
            found["groups"] = rng.sample(names, rng.randint(1, len(names)))
        if rng.random() < 0.4:
            found["separation"] = of([0, 1, 4])
        if rng.random() < 0.3:
            found["cooldown"] = of(["2m", "30m"])
        if rng.random() < 0.3:
            found["participations"] = {"most": rng.randint(2, 8)}
        if rng.random() < 0.3:
            found["session"] = {"download": "1m", "train": time(["2m"]), "upload": "1m"}
        if rng.random() < 0.3:
            found["starts"] = of(["11m", "2h"])
        if rng.random() < 0.5:
            found["stop"] = of([{"rounds": 12}, {"duration": "3h"}, {"rounds": 25, "duration": "4h"}])
        return found

    several = {"matching": of(POLICIES), "most_a_day": of([None, 2, 5])}
    return {
        "seed": number,
        "stop": of([{"duration": "6h"}, {"duration": "1d6h"}, {"rounds": 30, "duration": "10h"}]),
        "population": groups,
        "jobs": {name: job() for name in ("a", "b", "c", "d")[: jobs or rng.randint(1, 4)]},
        "records": {"gauges": of(["7m", "1h", None]), "gauge_sample": of([None, 7]), "eligible": rng.random() < 0.5},
        **several,
    }


def simulated(scenario: Scenario, engine: str, replicate: int = 0) -> dict[str, tuple[Scenario, InMemoryLog, Ended]]:
    """Return for each job its scenario, its log, and how it ended; a `ScenarioError` if one can't work."""
    views, ready = {}, {}
    for name in scenario.jobs:
        views[name] = scenario.of_job(name).with_values({"engine": engine})
        made = preflight(views[name], replicate)
        ready[name] = (views[name], made.population, made.devices)
    sinks = {name: InMemoryLog() for name in views}
    ends = simulate_jobs(sinks, scenario, ready, replicate)
    for name, (ended_s, _) in ends.items():
        sinks[name].ended_s = ended_s
    return {name: (views[name], sinks[name], ends[name]) for name in views}


def scenario_of(number: int, jobs: int | None = None) -> Scenario | None:
    """Return the scenario of a number, None if it has a mistake: a cohort that is larger than the groups allow."""
    try:
        found = Scenario.of_document(Document(random_jobs(number, jobs), in_a_file=False))
        for name in found.jobs:
            preflight(found.of_job(name))
    except ScenarioError:
        return None
    return found


def told(found: dict[str, tuple[Scenario, InMemoryLog, Ended]]) -> dict[str, list[str]]:
    """Return what two engines must agree on: the bytes of every table, and how each job ended."""
    return {
        name: [*map(fingerprint, (log.rounds, log.participations, log.gauges)), str(ended)]
        for name, (_, log, ended) in found.items()
    }
