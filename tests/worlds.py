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


def with_partial(data: Json, number: int) -> Json:
    """Return a world whose server takes partial reports, of sessions of plain times and from work."""
    draws = random.Random(2 * 10**6 + number)
    data = with_fleet(data, number) if number % 3 == 0 else data
    data["server"].pop("uplink", None)
    data.setdefault("steps", draws.choice([1, 3, 20]))
    data["steps_by_deadline"] = bool(data["server"]["deadline"]) and draws.random() < 0.3
    if data["steps_by_deadline"] and any("work" in each for each in data["groups"]):
        data["steps_by_deadline"] = False
    other = random.Random(f"own steps of {number}")
    if not data["steps_by_deadline"] and other.random() < 0.5:
        data["steps"] = [other.choice([1, 3, 8, 20]) for each in data["groups"] for _ in range(each["devices"])]
    data["held_out"] = other.choice([None, 1, 7])
    if data["server"]["deadline"] is not None:
        data["server"]["deadline"] = draws.choice([20.0, 45.0, 90.0])
    data["server"]["partial"] = True
    return data


def with_nights(data: Json, number: int) -> Json:
    """Return a world, with partial reports in every second, whose devices charge in nights that drift over days."""
    draws = random.Random(3 * 10**6 + number)
    data = with_partial(data, number) if number % 2 else data
    data["server"] |= {"pause": draws.choice([1800.0, 5000.0]), "patience": 20 * 86_400.0}
    data["rounds"] = 40
    for each in data["groups"][: draws.randint(1, 3)]:
        each["on_off"], late = None, draws.choice([-7200, 0, 3600])
        each["nights"] = {
            "chance": (draws.choice([0.3, 1.0]), draws.choice([0.2, 0.9])),
            "plug_in": (79_200 + 1800 * draws.randint(0, 3), 84_600 + 1800 * draws.randint(0, 3)),
            "later": late,
            "length": (draws.choice([20_000, 30_000]), 28_800),
            "over": draws.choice([1, 2.5, 6]),
            "holidays": draws.choice([[], [1, 2], [3]]),
        }
    return data


def habits(nights: Json) -> Json:
    """Return those of persons who all charge in such nights and at no other time."""
    (usual, weekend), (length, long) = nights["plug_in"], nights["length"]

    def clock(seconds: int) -> str:
        return f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}"

    exact = dict.fromkeys(("between_persons", "between_days", "length_between_persons", "length_between_days"), "0s")
    night = {"plug_in": clock(usual), "plug_in_weekend": clock(weekend), "chance": nights["chance"][0], **exact}
    night |= {"length": f"{length}s", "length_weekend": f"{long}s"}
    drift = {"over": f"{nights['over'] * 86_400:.0f}s", "night_chance": nights["chance"][1]}
    drift |= {"plug_in": clock(usual + nights["later"])} if nights["later"] else {}
    charging = {"night": night, "top_up": {"per_day": 0.0, "per_day_weekend": 0.0}, "spread": 0.0}
    free = [dict.fromkeys(("first", "last"), f"2026-01-{5 + day:02}") for day in nights["holidays"]]
    return {"kind": "habits", "require": ["charging"], "charging": charging, "drift": drift, "holidays": free}


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
        "patience": 6 * 3600.0,
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
        key: f"{server[key]}s"
        for key in ("deadline", "pause", "grace", "overtime", "patience")
        if server.get(key) is not None
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
        wanted = ("concurrency", "buffer", "deadline", "selection", "cooldown_from", "check_ins", "partial", "patience")
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
        if "nights" in each:
            own["availability"] = habits(each["nights"])
            top = {"start": "2026-01-05T00:00:00Z"} | top
        if each["on_off"] is not None:
            on, off = each["on_off"]
            own["availability"] = {"kind": "renewal", "on": f"{on}s", "off": f"{off}s"}
        groups.append(own)
    if "steps" in data:
        by_deadline = data.get("steps_by_deadline", True)
        steps = {"kind": "deadline", "most": data["steps"]} if by_deadline else data["steps"]
        learning = {"problem": "quadratic", "optimizers": ["fedavg"], "step_size": 0.1, "local_steps": steps}
        learning |= {"held_out": data["held_out"]} if data.get("held_out") else {}
        top = {"learning": learning} | top
    base = {"stop": {"rounds": data["rounds"]}, "population": groups, "server": server, "records": {"gauges": None}}
    return Scenario.model_validate(base | top)
