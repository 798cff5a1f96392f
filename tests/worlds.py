"""Random small worlds as plain data, for `tests.oracle` and, as a scenario, for fedsim."""

import random
from typing import Any

from fedsim import Scenario

LAWS = ["midzuno", "uniform", "successive", "groups", "cyclic", "bernoulli", "poisson"]
PHASES = ("download", "train", "upload")
Json = dict[str, Any]


KINDS = {
    "snapdragon-888": (0.02289, [0.3626, 5.5, 1.739]),
    "raspberry-pi-4": (0.18564, [3.0, 3.0, 3.0]),
    "snapdragon-410": (0.246, [0.3626, 3.6, 1.739]),
}
"""Classes of devices: seconds of a training step, and watts while it downloads, trains and uploads."""


def with_fleet(data: Json, number: int) -> Json:
    """Return a world in which groups may have sessions from work, or churn, and servers gates, or check-ins."""
    draws = random.Random(10**6 + number)
    for each in data["groups"]:
        kind, samples = draws.choice(list(KINDS)), draws.choice([100, 400])
        link: Json = {way: (draws.choice([1e6, 4e6]), draws.choice([0.0, 0.8])) for way in ("down", "up")}
        if draws.random() < 0.8:
            work = {"device": kind, "samples": samples, "train": samples * KINDS[kind][0], "watts": KINDS[kind][1]}
            each["work"] = link | work | {"model": draws.choice([10**6, 4 * 10**6]), "update": 5 * 10**5}
            if draws.random() < 0.5:
                each["work"]["at_work"] = (0.4, (5e5, 0.5), (8e6, 0.0))
            each["speed"] = 1
    for each in data["groups"]:
        if draws.random() < 0.4:
            each["joins"] = [draws.choice([0, 0, 60, 500]) for _ in range(each["devices"])]
            each["leaves"] = [draws.choice([10**8, 10**8, 10**8, 2500]) for _ in range(each["devices"])]
    if data["server"]["law"] != "groups" and draws.random() < 0.4:
        data["server"]["check_ins"] = draws.choice([(300, 100), (120, 60), (120, 120)])
        if data["server"]["check_ins"] == (120, 120):
            data["server"]["wanted"] = draws.randint(2, 6)
    if "buffer" not in data["server"] and draws.random() < 0.5:
        cohort = data["server"]["cohort"]
        data["server"]["gate"] = (draws.randint(1, cohort), draws.choice([0.0, 5.0, 30.0]), draws.choice([0.0, 0.2]))
    if "buffer" not in data["server"] and any("work" in each for each in data["groups"]) and draws.random() < 0.5:
        data["server"]["uplink"] = draws.choice([4e5, 1e6, 4e6])
    if any("work" in each for each in data["groups"]):
        data.pop("steps", None)
    return data


def world(number: int, *, always: bool = False, rounds: int = 25, buffered: bool = False) -> Json:
    """Return world `number`: groups of devices and a server; durations are seconds."""
    draws = random.Random(number)
    pick = draws.choice
    cohort, law = draws.randint(1, 4), pick(LAWS)
    groups = [
        group(draws, pick([cohort, 2 * cohort, 3 * cohort]), law, always=always) for _ in range(draws.randint(1, 3))
    ]
    server: Json = {
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
    other = random.Random(f"closing of {number}")
    if server["over_select"] > 1 and law not in {"poisson", "bernoulli"} and other.random() < 0.5:
        server["grace"] = other.choice([5.0, 30.0])
    if server["deadline"] and other.random() < 0.5:
        server |= {"minimum_reports": 1, "overtime": other.choice([5.0, 30.0])}
    if buffered and law in {"midzuno", "uniform", "successive", "cyclic"}:
        server |= {"concurrency": cohort, "buffer": pick([1, cohort, cohort + 1])}
    steps = {"steps": pick([2, 5])} if server["deadline"] and number % 3 == 0 else {}
    return {"groups": groups, "server": server, "rounds": rounds, **steps}


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
    server |= {
        key: f"{server[key]}s" for key in ("deadline", "pause", "grace", "overtime") if server.get(key) is not None
    }
    del server["law"]
    if (gate := server.pop("gate", None)) is not None:
        server["secure_aggregation"] = {"threshold": gate[0], "unmasking": f"{gate[1]}s", "drop_out": gate[2]}
    if "uplink" in server:
        server["uplink"] = f"{server['uplink']:.0f}bps"
    if "check_ins" in server:
        every, window = server["check_ins"]
        pace = {"wanted": server.pop("wanted")} if "wanted" in server else {"every": f"{every}s"}
        server["check_ins"] = {**pace, "window": f"{window}s"}
    if "buffer" in server:
        wanted = ("concurrency", "buffer", "deadline", "selection", "cooldown_from", "check_ins")
        server = {"mode": "buffered"} | {key: server[key] for key in wanted if key in server}
    groups = []
    for each in data["groups"]:
        phases = zip(PHASES, each["phases"], strict=True)
        session: Json = {
            name: f"{x}s" if fixed else {"kind": "exponential", "mean": f"{x}s"} for name, (fixed, x) in phases
        }
        own = {key: each[key] for key in ("devices", "weight", "separation")} | {"cooldown": f"{each['cooldown']}s"}
        own["session"] = session | {"speed": each["speed"]}
        if (work := each.get("work")) is not None:
            own["session"] = {
                **{key: work[key] for key in ("samples", "device")},
                **{key: f"{work[key]}B" for key in ("model", "update")},
                "link": {
                    way: {"kind": "lognormal", "median": f"{work[way][0]:.0f}bps", "sigma": work[way][1]}
                    for way in ("down", "up")
                },
            }
            if "at_work" in work:
                share, *laws = work["at_work"]
                own["session"]["link"]["work"] = {"share": share} | {
                    way: {"kind": "lognormal", "median": f"{speed:.0f}bps", "sigma": sigma}
                    for way, (speed, sigma) in zip(("down", "up"), laws, strict=True)
                }
        own |= {key: [f"{x}s" for x in each[key]] for key in ("joins", "leaves") if key in each}
        if each["most"] is not None:
            own["participations"] = {"most": each["most"]}
        if each["on_off"] is not None:
            on, off = each["on_off"]
            own["availability"] = {"kind": "renewal", "on": f"{on}s", "off": f"{off}s"}
        groups.append(own)
    if "steps" in data:
        steps = {"kind": "deadline", "most": data["steps"]}
        learning = {"problem": "quadratic", "optimizers": ["fedavg"], "step_size": 0.1, "local_steps": steps}
        top = {"learning": learning} | top
    base = {"stop": {"rounds": data["rounds"]}, "population": groups, "server": server, "records": {"gauges": None}}
    return Scenario.model_validate(base | top)
