"""Random small worlds as plain data, for `tests.oracle` and, as a scenario, for fedsim."""

import random
from typing import Any

from fedsim import Scenario

LAWS = ["midzuno", "uniform", "successive", "groups", "cyclic", "bernoulli", "poisson"]
PHASES = ("download", "train", "upload")
Json = dict[str, Any]


def world(number: int, *, always: bool = False, rounds: int = 25, buffered: bool = False) -> Json:
    """Return world `number`: groups of devices and a server; durations are seconds."""
    draws = random.Random(number)
    pick = draws.choice
    cohort, law = draws.randint(1, 4), pick(LAWS)
    groups = [
        group(draws, pick([cohort, 2 * cohort, 3 * cohort]), law, always=always) for _ in range(draws.randint(1, 3))
    ]
    server = {
        "law": law,
        "cohort": cohort,
        "over_select": pick([1.0, 1.0, 1.5]) if law != "groups" else 1.0,
        "deadline": pick([None, None, 45.0, 90.0]),
        "pause": pick([0.0, 0.0, 20.0]) if law != "poisson" else 10.0,
        "shortage": pick(["wait", "wait", "skip", "proceed"]) if law != "groups" else pick(["wait", "skip"]),
        "cooldown_from": pick(["selected", "selected", "reported"]),
    }
    if server["shortage"] == "skip":
        server["pause"] = 10.0
    if buffered and law in {"midzuno", "uniform", "successive", "cyclic"}:
        server |= {"concurrency": cohort, "buffer": pick([1, cohort, cohort + 1])}
    return {"groups": groups, "server": server, "rounds": rounds}


def group(draws: random.Random, devices: int, law: str, *, always: bool) -> Json:
    pick = draws.choice
    apart: Any = draws.randint(0, 3)
    if law != "groups" and draws.random() < 0.3:
        apart = [draws.randint(0, 4) for _ in range(devices)]
    return {
        "devices": devices,
        "weight": pick([1, 3, [draws.choice([1, 2, 5]) for _ in range(devices)]]),
        "separation": apart,
        "cooldown": pick([0.0, 0.0, 0.0, 100.0, 400.0]),
        "speed": pick([1, 0.25, [draws.choice([0.5, 1, 3]) for _ in range(devices)]]),
        "phases": [(True, pick([0, 10])), (pick([True, False]), pick([20, 60])), (True, 5)],
        "most": pick([None, None, None, None, draws.randint(1, 9)]) if not always and law != "groups" else None,
        "on_off": None if always else pick([None, (300, 100), (2000, 2000)]),
    }


def scenario(data: Json, **top: Any) -> Scenario:
    """Return the same as a scenario."""
    server = {**data["server"], "selection": data["server"]["law"]}
    server |= {key: f"{server[key]}s" for key in ("deadline", "pause") if server[key] is not None}
    del server["law"]
    if "buffer" in server:
        wanted = ("concurrency", "buffer", "deadline", "selection", "cooldown_from")
        server = {"mode": "buffered"} | {key: server[key] for key in wanted}
    groups = []
    for each in data["groups"]:
        phases = zip(PHASES, each["phases"], strict=True)
        session: Json = {
            name: f"{x}s" if fixed else {"kind": "exponential", "mean": f"{x}s"} for name, (fixed, x) in phases
        }
        own = {key: each[key] for key in ("devices", "weight", "separation")} | {"cooldown": f"{each['cooldown']}s"}
        own["session"] = session | {"speed": each["speed"]}
        if each["most"] is not None:
            own["participations"] = {"most": each["most"]}
        if each["on_off"] is not None:
            on, off = each["on_off"]
            own["availability"] = {"kind": "renewal", "on": f"{on}s", "off": f"{off}s"}
        groups.append(own)
    base = {"stop": {"rounds": data["rounds"]}, "population": groups, "server": server, "records": {"gauges": None}}
    return Scenario.model_validate(base | top)
