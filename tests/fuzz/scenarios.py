"""Scenarios drawn from the JSON Schema: small ones of which most are valid, with the files that they name."""

import gzip
import io
import json
import random
import re
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fedsim.scenario import Scenario
from tests.fuzz.mutations import mutate

LENGTHS = ["1s", "20s", "90s", "5m", "30m", "1h", "8h", "PT8H", "1d12h", "0.5m"]
FIGURES = ["rounds.count", "participation.most", "rounds.duration.mean", "participation.p99"]
LISTED = ["weight", "separation", "cooldown", "time_zone", "speed", "most", "samples", "device", "joins", "leaves"]
TRACE = [("device", "start_s", "end_s")] + [(f"d{d}", 7200 * h, 7200 * h + 5400) for d in range(4) for h in range(12)]
OPTIONS = {"batch_size": 3, "local_steps": 2, "replicas": 40, "devices": 20, "cohort": 3, "concurrency": 3, "buffer": 2}
OPTIONS |= {
    "rounds": 20,
    "replicates": 2,
    "minimum_reports": 1,
    "threshold": 1,
    "separations": 5,
    "separation": 4,
    "most": 9,
    "evaluate_every": 4,
}
"""The largest of whole numbers, so that no case takes long."""
PROBLEMS: list[Any] = ["quadratic", "robust_regression", {"kind": "softmax_regression", "data": "digits"}]
PROBLEMS[2]["data"] = {"kind": "npz", "path": "d.npz"}


@cache
def schema() -> dict[str, Any]:
    """Return that of the models, which says what must be there, and has the drafts that pydantic writes."""
    return Scenario.model_json_schema()


class Maker:
    """Draws a scenario; the files that it names are in `files`."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.files, self.devices = draw, dict[str, list[tuple[Any, ...]]](), 1
        self.all_devices = 0
        self.named: dict[str, Callable[[], Any]] = {
            "Group": self.group,
            "Column": lambda: None,
            "Shock": self.shock,
            "Stop": self.stop,
            "Trace": self.trace,
            "Sweep": self.sweep,
            "Expectation": lambda: {"check": self.check(), "over": "every"},
            "Decide": lambda: {draw.choice(["minimize", "maximize"]): draw.choice(FIGURES[:3])},
            "Drift": lambda: {"figures": draw.sample(FIGURES, draw.randint(0, 2)), "fingerprint": ["rounds"]},
            "Privacy": self.privacy,
            "CheckIns": lambda: {
                **draw.choice([{"every": "30m"}, {"every": "1h"}, {"wanted": 3}]),
                "window": draw.choice(["1m", "20m"]),
            },
            "HabitDrift": lambda: {"over": "2d", draw.choice(["night_chance", "outing_chance"]): 0.4},
            "RollOutClientTime": lambda: {"kind": "roll_out", "times": ["0s", "5m", "1h"], "shares": [0.2, 0.5, 1.0]},
            "DeviceShares": lambda: {"kind": "shares", "shares": {"kirin-970": 1.0, "jetson-nano": 0.5}},
        }

    def scenario(self) -> dict[str, Any]:
        """Draw all of it; keys that a run needs are there, and others by chance."""
        made: dict[str, Any] = self.mapping(schema(), 0.15)
        made.pop("extends", None)
        if self.draw.random() < 0.9:
            made.pop("log", None)  # a log is measured, and what it names is not there
        if "jobs" in made:
            made["jobs"] = {name: self.of_definition("SharedJob") for name in self.draw.choice(["a", "ab", "abc"])}
            for job in made["jobs"].values():
                job.pop("groups", None)
        elif "server" not in made:
            made["server"] = self.value(schema()["properties"]["server"], "server")
        self.complete_servers([made.get("server", {}), *(job["server"] for job in made.get("jobs", {}).values())])
        if self.draw.random() < 0.9 and all(group.get("left_out") for group in made["population"]):
            made["population"][0].pop("left_out")
        if self.draw.random() < 0.9 and {"loss_proportional", "oort"} & set(re.findall(r"\w+", str(made))):
            made.setdefault("learning", self.of_definition("Learning"))
        if self.draw.random() < 0.9 and "'partial': True" in str(made):
            made.setdefault("learning", self.of_definition("Learning"))
        if self.draw.random() < 0.9 and "training" in (made.get("privacy") or {}):
            made.setdefault("learning", self.of_definition("Learning"))
        metrics = {each["kind"] if isinstance(each, dict) else each: each for each in made.get("metrics") or []}
        made |= {"metrics": list(metrics.values())} if metrics else {}
        excluded = ["server", "learning", "privacy", "starts", "job", "beside"]
        for key in excluded if "jobs" in made else ["matching", "alone", "job", "beside"]:
            made.pop(key, None)
        if made.get("decide") and not made.get("sweep"):
            made.pop("decide")
        if not any("samples" in (group.get("session") or {}) for group in made["population"]):
            made.pop("prices", None)
            for server in [made.get("server", {}), *(job["server"] for job in made.get("jobs", {}).values())]:
                server.pop("uplink", None)
        return made

    def complete_servers(self, servers: list[dict[str, Any]]) -> None:
        """Give most of them what `grace` and `overtime` need."""
        for server in servers:
            needed: dict[str, Any] = {"over_select": 1.5} if "grace" in server else {}
            needed |= {"deadline": "10m", "minimum_reports": 1} if "overtime" in server else {}
            server.update(needed if self.draw.random() < 0.9 else {})

    def mapping(self, found: dict[str, Any], chance: float = 0.3) -> dict[str, Any]:
        required = found.get("required", [])
        made = {}
        for key, each in found.get("properties", {}).items():
            if key in required or self.draw.random() < chance:
                made[key] = self.value(each, key)
        if {"low", "high"} <= set(made) and type(made["low"]) is type(made["high"]):
            text = isinstance(made["low"], str)  # with units, which are not in the order of letters
            made["low"], made["high"] = [made["low"]] * 2 if text else sorted([made["low"], made["high"]])
        return made

    def value(self, found: dict[str, Any], key: str) -> Any:  # noqa: PLR0912
        draw = self.draw
        if key == "local_steps":  # of all clients
            self.devices = self.all_devices
        if key in {"problem", "charts"}:
            return draw.choice(PROBLEMS) if key == "problem" else []
        if "$ref" in found:
            name = found["$ref"].rpartition("/")[2]
            return self.column(key) if name == "Column" else self.of_definition(name)
        if options := found.get("anyOf") or found.get("oneOf"):
            own = ["Component", "OwnDrawn", "OptimizerChoice"]
            options = [
                each
                for each in options
                if each.get("$ref", "").rpartition("/")[2] not in own and each.get("pattern") != ":"
            ]
            return self.value(draw.choice(options), key)
        if "const" in found:
            return found["const"]
        if "enum" in found:
            return draw.choice(found["enum"])
        match found.get("type"):
            case "null":
                return None
            case "boolean":
                return draw.random() < 0.5
            case "integer":
                least = 1 if key in {"most", "values"} else found.get("minimum", 0)
                return draw.randint(least, max(least, OPTIONS.get(key, 6)))
            case "number":
                return self.number(found)
            case "string":
                return self.text(found, key)
            case "array":
                few = found.get("minItems", 0) + draw.randrange(3)
                few = min(few, found.get("maxItems", few))
                many = self.devices if key in LISTED or key == "values" else few
                return [self.value(found["items"], key) for _ in range(many)]
            case _ if "propertyNames" in found:
                return {"kirin-970": 1.0, "jetson-nano": 0.5}
            case _:
                return self.mapping(found)

    def of_definition(self, name: str) -> Any:
        if name in self.named:
            return self.named[name]()
        return self.mapping(schema()["$defs"][name])

    def number(self, found: dict[str, Any]) -> float:
        least = found.get("minimum", found.get("exclusiveMinimum", -3.0))
        most = min(found.get("maximum", found.get("exclusiveMaximum", 3.0)), least + 3.0)
        if "concentration" in str(found.get("title", "")).lower():
            return 1.0  # smaller ones make lengths of centuries
        if "minimum" in found and self.draw.random() < 0.1:
            return float(least)
        return round(least + (most - least) * (0.01 + 0.98 * self.draw.random()), 3) or 0.5

    def text(self, found: dict[str, Any], key: str) -> Any:
        draw, examples = self.draw, found.get("examples", [])
        if key == "expect":
            return self.check()
        if key == "headline":
            return draw.choice(FIGURES)
        if key == "name":
            return f"n-{draw.randrange(99)}"
        if key == "gauges":
            return draw.choice(["1h", "10m", "3h"])
        if "90s" in examples:
            return draw.choice(["90s", "1h", "1d", "30d"] if key == "patience" else LENGTHS)
        if "22:30" in examples:
            return f"{draw.randrange(24):02}:{draw.randrange(60):02}"
        if examples:
            return draw.choice(examples)
        return draw.choice(["a", "b", "x y", "é漢", "<b>", "[red]", "%s", "-1"]) + str(draw.randrange(99))

    def check(self) -> str:
        pick = self.draw.choice
        return f"{pick(FIGURES)} {pick(['<=', '>=', '==', '<'])} {pick([0, 1, 5, 0.5])}"

    def group(self) -> dict[str, Any]:
        self.devices = self.draw.randint(4, 20)
        self.all_devices += self.devices
        made = self.mapping(schema()["$defs"]["Group"], 0.25)
        return made | {"devices": self.devices, "name": f"g{self.draw.randrange(10**6)}"}

    def stop(self) -> dict[str, Any]:
        made: dict[str, Any] = {"rounds": self.draw.randint(1, 20)}
        if self.draw.random() < 0.3:
            made["duration"] = self.draw.choice(LENGTHS[2:])
            if self.draw.random() < 0.3 and made["duration"] in LENGTHS[2:5]:
                del made["rounds"]
        return made

    def shock(self) -> dict[str, Any]:
        draw = self.draw
        made: dict[str, Any] = draw.choice(
            [
                {"every": "8h", "length": "30m"},
                {"down": 0.1, "length": {"kind": "exponential", "mean": "10m"}},
                {"windows": [{"begin": "2026-01-05T00:30:00Z", "end": "2026-01-05T02:00:00Z"}]},
                {"days": ["2026-01-05"]},
                self.mapping(schema()["$defs"]["Shock"], 0.4),
            ]
        )
        if draw.random() < 0.3 or ("down" in made and not {"share", "correlation"} & set(made)):
            made = made | draw.choice([{"share": 0.5}, {"of": "server"}, {"of": "zone", "zones": ["UTC"]}])
        return {"name": f"s{draw.randrange(10**6)}", **made}

    def privacy(self) -> dict[str, Any]:
        draw = self.draw
        how = draw.choice([{"noise_multiplier": 1.5}, {"epsilon": 4.0}])
        kind = draw.choice(["independent", "sqrt", "banded", "blt"])
        return {"delta": 1e-05, "mechanism": kind, **how} | draw.choice([{}, {"clip": 1.0, "training": "noise"}])

    def sweep(self) -> dict[str, Any]:
        draw = self.draw
        axes: list[tuple[str, list[Any]]] = [
            *(("server.cohort", [1, 2]), ("seed", [3, 4]), ("population.*.separation", [0, 1])),
            *(("stop.rounds", [2, 3]), ("population[0].devices", [5, 6]), ("learning.step_size", [0.1, 0.2])),
        ]
        made: dict[str, Any] = {"grid": dict(draw.sample(axes, draw.randint(0, 2)))}
        if draw.random() < 0.3:
            made["zip"] = dict(draw.sample(axes, 1))
        return made | draw.choice([{}, {"seeds": 2}, {"seeds": [1, 7]}])

    def column(self, key: str) -> dict[str, Any]:
        value = {
            "separation": 2,
            "most": 5,
            "local_steps": 2,
            "cooldown": "90s",
            "time_zone": "UTC",
            "joins": 20,
            "leaves": 28_800,
            "device": "kirin-970",
        }.get(key, 1.5)
        name = f"{key}{len(self.files)}.{self.draw.choice(['csv', 'parquet'])}"
        self.files[name] = [(key,), *[(value,)] * self.devices]
        return {"kind": "column", "file": name, "column": key}

    def trace(self) -> dict[str, Any]:
        name = f"t{len(self.files)}.{self.draw.choice(['csv', 'parquet'])}"
        self.files[name] = TRACE
        made = self.mapping(schema()["$defs"]["Trace"], 0.1)
        return made | {"file": name, "base": "2026-01-05T00:00:00Z", "require": None, "since": None, "until": None}


HOSTILE = "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\nclass Law:\n    pass\n"


@cache
def bombs() -> dict[str, bytes]:
    """Return files that are small, and large when they are unpacked; by their names."""
    made, packed = {}, io.BytesIO()
    pl.DataFrame({"weight": pl.repeat(1.5, 11_000_000, eager=True)}).write_parquet(packed)
    made["bomb.parquet"] = packed.getvalue()
    packed = io.BytesIO()
    pl.DataFrame({"weight": ["x" * 2**24] * 40}).write_parquet(packed, compression="zstd")
    made["wide.parquet"] = packed.getvalue()
    made["bomb.csv"] = gzip.compress(b"weight\n" + b"1.5\n" * 10**7)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr("weight.csv", b"1.5\n" * 10**7)
    made["zip.csv"] = packed.getvalue()
    head = str({"descr": "<f8", "fortran_order": False, "shape": (10**10, 100)}).encode().ljust(117) + b"\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as members:
        for name in ("x_train", "y_train", "x_test", "y_test"):
            members.writestr(f"{name}.npy", b"\x93NUMPY\1\0v\0" + head + bytes(10**7))
    made["bomb.npz"] = packed.getvalue()
    return made


def add_guest(draw: random.Random, folder: Path, made: dict[str, Any]) -> None:
    """Let a scenario name a module, which must not be run, or a bomb; or put a lock file of others beside it."""
    group = made["population"][0]
    match draw.randrange(4):
        case 0:
            (folder / "guest.py").write_text(HOSTILE, encoding="utf-8")
            where, key = draw.choice(
                [(made.get("server", group), "selection"), (group, "availability"), (group, "weight")]
            )
            where[key] = {"kind": "guest:Law"}
        case 1:
            name = draw.choice(["bomb.parquet", "wide.parquet", "bomb.csv", "zip.csv"])
            (folder / name).write_bytes(bombs()[name])
            group["weight"] = {"kind": "column", "file": name, "column": "weight"}
        case 2:
            (folder / "bomb.npz").write_bytes(bombs()["bomb.npz"])
            problem = {"kind": "softmax_regression", "data": {"kind": "npz", "path": "bomb.npz"}}
            made["learning"] = {"problem": problem, "optimizers": ["fedavg"], "step_size": 0.1}
        case _:
            lock = Path("scenarios/paper/synthetic.fedsim.lock.json").read_bytes()
            path = folder / "case.fedsim.lock.json"
            path.write_bytes(lock)
            mutate(draw, path)


def write_scenario(draw: random.Random, folder: Path) -> Path:
    """Draw a scenario into a folder; some of them extend another file there."""
    maker = Maker(draw)
    made = maker.scenario()
    for name, (header, *rows) in maker.files.items():
        table = pl.DataFrame(rows, schema=list(map(str, header)), orient="row")
        (table.write_parquet if name.endswith("parquet") else table.write_csv)(folder / name)
    inputs, targets = np.arange(24.0).reshape(8, 3), np.arange(8) % 2
    np.savez(folder / "d.npz", x_train=inputs, y_train=targets, x_test=inputs[:2], y_test=targets[:2])
    if draw.random() < 0.06:
        add_guest(draw, folder, made)
    if draw.random() < 0.2:
        base = {key: made.pop(key) for key in draw.sample(sorted(made), len(made) // 2)}
        (folder / "base.fedsim.yaml").write_text(json.dumps(base), encoding="utf-8")
        made["extends"] = "base.fedsim.yaml"
    path = folder / "case.fedsim.yaml"
    path.write_text(json.dumps(made, indent=draw.choice([None, 1])), encoding="utf-8")
    return path


OPTIMIZERS: list[Any] = [
    *("fedavg", "fedprox", "scaffold", {"kind": "fednova"}, {"kind": "fednova", "effective": 3.0}),
    *({"kind": "feddyn", "mu": mu} for mu in (1.0, 10.0)),
    *(
        {"kind": "debiased_fedavg", "counts": counts, "forgetting": forgetting}
        for counts in ("pulls", "shares", "steps")
        for forgetting in (None, 0.05, 0.9)
    ),
    {"kind": "oracle_weighted", "source": "log"},
]


def write_unequal_work(draw: random.Random, folder: Path) -> Path:
    """Draw a scenario of unequal work, partial reports, habits that drift, holidays, and clients held out."""
    pick, groups = draw.choice, list[dict[str, Any]]()
    for number in range(draw.randint(1, 3)):
        habits: dict[str, Any] = {"kind": "habits", "require": pick([["charging"], ["charging", "network"], ["idle"]])}
        if draw.random() < 0.7:
            to = {"plug_in": pick(["20:00", "01:15"]), "night_chance": pick([0.2, 1.0]), "outing_chance": 0.2}
            habits["drift"] = {"over": pick(["1d", "36h", "10d"]), **dict(draw.sample(sorted(to.items()), 2))}
        if draw.random() < 0.5:
            habits["holidays"] = [{"first": "2026-01-05", "last": pick(["2026-01-05", "2026-02-01"])}]
        plain: dict[str, Any] = {
            "download": "5s",
            "train": pick(["60s", {"kind": "exponential", "mean": "80s"}]),
            "upload": "2s",
        }
        plain |= {"speed": pick([1.0, {"kind": "lognormal", "median": 1, "sigma": 0.7}])}
        link = {"down": {"kind": "lognormal", "median": "2Mbps", "sigma": 1}, "up": "1Mbps"}
        work = {"model": "2MB", "samples": 900, "device": "snapdragon-410", "link": link}
        away = pick([habits, habits, "always", {"kind": "renewal", "on": "5m", "off": "200s"}])
        group: dict[str, Any] = {"name": f"g{number}", "devices": draw.randint(4, 12), "separation": draw.randint(0, 2)}
        groups.append(group | {"availability": away, "session": pick([plain, plain, work])})
    devices = sum(group["devices"] for group in groups)
    limits: dict[str, Any] = {"deadline": pick(["20s", "70s", "3m"]), "partial": draw.random() < 0.6}
    limits |= {"cooldown_from": pick(["selected", "reported"])}
    server: dict[str, Any] = {"cohort": 3, "over_select": pick([1.0, 1.4]), "shortage": pick(["wait", "proceed"])}
    server |= {"pause": pick(["0s", "20m"]), "minimum_reports": pick([0, 2])}
    if draw.random() < 0.3:
        server = {"mode": "buffered", "concurrency": 3, "buffer": pick([1, 2, 4]), "max_staleness": pick([None, 2])}
    pl.DataFrame({"k": [draw.randint(1, 9) for _ in range(devices)]}).write_csv(folder / "steps.csv")
    steps: Any = pick(
        [
            *(4, [draw.randint(1, 9) for _ in range(devices)], {"kind": "column", "file": "steps.csv", "column": "k"}),
            *({"kind": "uniform", "low": 1, "high": 9}, {"kind": "deadline", "most": 12}),
            *([] if limits["partial"] else [{"kind": "epochs", "epochs": 1.5}]),
        ]
    )
    methods = [each if isinstance(each, dict) else {"kind": each} for each in draw.sample(OPTIMIZERS, 4)]
    learning = {
        "problem": {"kind": "sampled_quadratic", "samples": 8, "dimension": 3},
        "optimizers": [each | {"name": f"m{place}"} for place, each in enumerate(methods)],
        "local_steps": steps,
        "step_size": 0.05,
        "batch_size": pick([2, 5]),
        "evaluate_every": 3,
        "held_out": pick([None, 5]),
        "reference": pick(["none", "uniform"]),
    }
    made = {
        "schema_version": 1,
        "seed": draw.randint(0, 99),
        "start": pick(["2026-01-05T00:00:00Z", "2026-01-09T20:30:00Z"]),
    }
    made |= {"stop": {"rounds": draw.randint(1, 20), "duration": "3d"}, "population": groups}
    path = folder / "case.fedsim.yaml"
    path.write_text(json.dumps(made | {"server": server | limits, "learning": learning}), encoding="utf-8")
    return path
