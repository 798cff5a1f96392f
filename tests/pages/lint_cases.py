"""Pages of random scenarios of every kind: runs, sweeps and comparisons, small enough that each takes seconds."""

import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import ValidationError

import fedsim
from fedsim.common.errors import FedsimError
from fedsim.pages import write_report
from fedsim.run.files import Provenance
from fedsim.run.simulate import record
from fedsim.scenario import Scenario
from tests.fuzz.scenarios import TRACE
from tests.pages.runs import report_comparison

Json = dict[str, Any]

PLAIN = ["phones", "tablets", "europe", "asia"]
ODD = ["a device of free", 'the "old" ones', "東京のスマホ", "<b>bold</b>", "all", "a, b and c", "less than half"]
LAWS = ["midzuno", "uniform", "successive", "groups", "cyclic", "bernoulli", "poisson", "age", "stratified"]
OPTIMIZERS = ["fedavg", "debiased_fedavg", "fedau", "fedvarp", "mifa", "scaffold", "oracle_weighted"]
SWEPT: list[tuple[str, list[Any]]] = [
    ("population.*.separation", [0, 1, 3]),
    ("population.*.separation", [0, 2]),
    ("server.cohort", [1, 2, 3]),
    ("server.pause", ["0s", "1m"]),
    ("server.selection", ["uniform", "successive", "cyclic"]),
    ("population.*.availability", ["always", {"kind": "renewal", "on": "1h", "off": "3h"}]),
]
CHECKS = ["participation.l1_uniform < 0.5", "rounds.shortage_share <= 10%", "rounds.duration.p95 <= 2m"]


@dataclass(frozen=True)
class Case:
    """A page, and the directories that it is of: one, or the two that it compares."""

    number: int
    kind: str  # ``run``, ``sweep`` or ``comparison``
    page: Path
    directories: tuple[Path, ...]


def draw_case(number: int, folder: Path) -> Case:
    """Write the page of case `number`: of ten, six are runs, two are sweeps, and two comparisons."""
    kind = ["run", "run", "sweep", "run", "comparison", "run", "run", "sweep", "run", "comparison"][number % 10]
    for attempt in range(100):
        draws, place = random.Random(1_000 * number + attempt), folder / f"{number}-{attempt}"
        place.mkdir(parents=True)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # of models that diverge
                return _MAKERS[kind](number, draws, place)
        except (FedsimError, ValidationError):
            continue  # separations that nobody could keep, or what two settings exclude
    raise AssertionError(f"case {number}: no scenario that can run in 100 attempts")


def _run(number: int, draws: random.Random, folder: Path) -> Case:
    directory = _recorded(draw_scenario(draws, folder), folder / "run")
    return Case(number, "run", directory / "report.html", (directory,))


def _recorded(data: Json, directory: Path) -> Path:
    record(Scenario.model_validate(data), directory, Provenance())
    return directory


def _sweep(number: int, draws: random.Random, folder: Path) -> Case:
    data = draw_scenario(draws, folder, small=True)
    axes = dict(draws.sample(SWEPT, draws.choice([1, 1, 2])))
    if data["server"].get("mode") == "buffered":
        axes = {key: values for key, values in axes.items() if key.startswith("population")} or dict(SWEPT[:1])
    if data.get("learning") and draws.random() < 0.3:
        axes = {"learning.optimizers": [[each] for each in draws.sample(OPTIMIZERS, 3)]}
    data["sweep"] = {"grid": axes, "seeds": draws.choice([1, 2, 3, 3])}
    if draws.random() < 0.5:
        figure = "participation.tv_uniform" if draws.random() < 0.5 else "rounds.duration.mean"
        data["decide"] = {"minimize": figure}
        if draws.random() < 0.5:
            data["decide"]["subject_to"] = ["rounds.per_day >= 100"]
    directory = folder / "sweep"
    planned, executor = Scenario.model_validate(data), "concurrent.futures:ThreadPoolExecutor"
    fedsim.sweep(planned, directory, executor=executor, workers=1, retries=0)
    return Case(number, "sweep", write_report(directory), (directory,))


def _comparison(number: int, draws: random.Random, folder: Path) -> Case:
    data = draw_scenario(draws, folder)
    other = data | {"seed": data["seed"] + 1} if draws.random() < 0.3 else data | {"server": {**data["server"]}}
    if draws.random() < 0.5:
        other["population"] = [{**each, "separation": draws.choice([0, 1, 2])} for each in data["population"]]
    elif data["server"].get("mode") != "buffered":
        other["server"] = {**data["server"], "selection": draws.choice(LAWS[:3])}
    if draws.random() < 0.2:
        other["stop"] = {"rounds": 30}
    one, two = (_recorded(each, folder / name) for name, each in (("one", data), ("two", other)))
    return Case(number, "comparison", report_comparison(one, two, folder / "comparison"), (one, two))


_MAKERS: dict[str, Callable[[int, random.Random, Path], Case]] = {
    "run": _run,
    "sweep": _sweep,
    "comparison": _comparison,
}


def draw_scenario(draws: random.Random, folder: Path, *, small: bool = False) -> Json:
    """Draw a scenario as data; what it names lies in the folder."""
    pick = draws.choice
    cohort = draws.randint(1, 5)
    buffered = draws.random() < 0.15
    names = draws.sample(PLAIN, 3) if draws.random() < 0.5 else draws.sample([*PLAIN, *ODD], 3)
    laws = {"uniform", "midzuno", "successive", "cyclic"} if buffered else set(LAWS)
    law = pick([each for each in LAWS if each in laws])
    groups = [_group(draws, name, cohort, law, folder) for name in names[: draws.randint(1, 3)]]
    made: Json = {
        "name": pick(["n-7", "three continents", "<script>alert(1)</script>", "東京", "the best of all"]),
        "seed": draws.randrange(2**31),
        "population": groups,
        "server": _buffered(draws, cohort, law) if buffered else _server(draws, cohort, law, groups),
        "stop": _stop(draws, small),
        "records": {"gauges": pick(["1h", "10m", None]), "eligible": draws.random() < 0.3},
    }
    if draws.random() < 0.3:
        made["question"] = pick(["Who takes part less than a fair share?", "Is <i>R = 2</i> enough?"])
    if draws.random() < 0.2:
        made["records"]["transitions"] = [0, 1]
    if draws.random() < 0.3:
        made["expect"] = draws.sample(CHECKS, draws.randint(1, 3))
    if draws.random() < 0.2:
        made["shocks"] = [_shock(draws)]
    if draws.random() < 0.45:
        made["learning"] = _learning(draws, buffered)
        if draws.random() < 0.3 and not buffered:
            mechanism = pick(["independent", "banded", "blt"])
            made["privacy"] = {"delta": 1e-5, "mechanism": mechanism, "noise_multiplier": pick([0.2, 1.5])}
            made["privacy"] |= {"clip": 1.0, "training": "noise"}
    return made


def _group(draws: random.Random, name: str, cohort: int, law: str, folder: Path) -> Json:
    pick = draws.choice
    devices = cohort * draws.randint(2, 12) if law == "groups" else draws.randint(4, 60)
    made: Json = {"name": name, "devices": devices}
    made["weight"] = pick([1, 1, 3, {"kind": "zipf", "exponent": 1.5}, {"kind": "lognormal", "sigma": 1}])
    made["separation"] = pick([0, 0, 1, 2, 4, {"kind": "uniform", "low": 0, "high": 3}])
    if law == "groups":
        made["separation"] = pick([0, 1])
    if draws.random() < 0.15:
        made["cooldown"] = pick(["10m", "3h"])
    if draws.random() < 0.15:
        made["participations"] = {"most": draws.randint(1, 9)}
    if draws.random() < 0.4:
        made["time_zone"] = pick(["Asia/Tokyo", "America/New_York", "Europe/Berlin"])
    available = draws.random()
    if available < 0.25:
        made["availability"] = {"kind": "renewal", "on": pick(["20m", "4h"]), "off": pick(["20m", "8h"])}
    elif available < 0.4:
        made["availability"] = "habits"
    elif available < 0.48:
        file = folder / "trace.csv"
        pl.DataFrame(TRACE[1:], schema=list(map(str, TRACE[0])), orient="row").write_csv(file)
        made["availability"] = {"kind": "trace", "file": str(file), "base": "2026-01-05T00:00:00Z"}
    elif available < 0.5:
        made["availability"] = {"kind": "renewal", "on": "1m", "off": "60d"}
    if draws.random() < 0.5:
        made["session"] = {"train": pick([{"kind": "exponential", "mean": "60s"}, "30s", "2m"])}
        made["session"]["speed"] = pick([1, {"kind": "lognormal", "sigma": 0.5}])
    return made


def _server(draws: random.Random, cohort: int, law: str, groups: list[Json]) -> Json:
    pick = draws.choice
    made: Json = {"cohort": cohort, "selection": law, "patience": "1d"}
    if law != "groups":
        made["over_select"] = pick([1.0, 1.0, 1.5])
    made["shortage"] = pick(["wait", "skip"] if law == "groups" else ["wait", "wait", "proceed", "skip"])
    made["deadline"] = pick([None, None, None, "100s", "2m", "5m"]) if draws.random() < 0.95 else "20s"
    made["pause"] = pick(["0s", "30s"]) if made["shortage"] != "skip" and law != "poisson" else "30s"
    made["minimum_reports"] = pick([0, 0, 0, cohort])
    made["cooldown_from"] = pick(["selected", "selected", "reported"])
    return made


def _buffered(draws: random.Random, cohort: int, law: str) -> Json:
    pick = draws.choice
    return {
        "mode": "buffered",
        "concurrency": 2 * cohort,
        "buffer": cohort,
        "max_staleness": pick([None, 0, 2]),
        "deadline": pick([None, "2m"]),
        "selection": law,
        "patience": "1d",
    }


def _stop(draws: random.Random, small: bool) -> Json:
    rounds = draws.choice([2, 30, 60] if small else [1, 5, 40, 150, 400, 400, 600])
    return {"rounds": rounds, "duration": draws.choice(["1s", "1h", "5d", "5d", "5d"] if rounds > 1 else ["5d"])}


def _shock(draws: random.Random) -> Json:
    made: Json = draws.choice(
        [
            {"every": "8h", "length": "30m"},
            {"down": 0.1, "length": {"kind": "exponential", "mean": "10m"}},
            {"windows": [{"begin": "2026-01-05T00:30:00Z", "end": "2026-01-05T02:00:00Z"}]},
        ]
    )
    return {"name": draws.choice(["outage", "all of it"])} | made | draws.choice([{}, {"share": 0.5}, {"of": "server"}])


def _learning(draws: random.Random, buffered: bool) -> Json:
    pick, methods = draws.choice, ["fedbuff", "debiased_fedbuff", "fedavg"] if buffered else OPTIMIZERS
    chosen: list[Any] = draws.sample(methods, draws.randint(1, 3))
    if draws.random() < 0.3:
        chosen[0] = {"kind": chosen[0], "name": pick(["the best", "mine-2"])}
    return {
        "problem": pick(["quadratic", "quadratic", "robust_regression"]),
        "optimizers": chosen,
        "step_size": pick([0.01, 0.1, 0.1, 0.1, 30.0]),
        "local_steps": pick([1, 5]),
        "evaluate_every": pick([1, 5, 10]),
        "reference": pick(["none", "uniform"]),
        "loss_parts": draws.random() < 0.2,
    }
