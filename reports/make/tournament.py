"""The tournament of methods: all ways to debias over the same cohorts of six worlds, on two problems each.

Worlds, problems and methods are the points and optimizers of ``scenarios/studies/tournament.fedsim.yaml``. The step of
each method is tuned for each point from one grid, over a participation of its own (a seed that is none of the study's);
the steps that were best are written into the scenario, which is run as a sweep over ten seeds. Grid and results are
kept; what is there is not computed again. `fedsim report` makes the page, and this what docs/learning.md says.
"""

import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np

from fedsim import Scenario, simulate
from fedsim.common.arrays import Floats
from fedsim.findings.formatting import listing, number
from fedsim.findings.tournament import leaders, ranks
from fedsim.sweeps.decision import interval, told_apart
from fedsim.sweeps.plan import points_of
from reports.make.kept import SCENARIOS, kept_sweep, read_store, write_store
from reports.make.runs import kept_sweep_page, run_kept_sweep

SCENARIO = SCENARIOS / "studies" / "tournament.fedsim.yaml"
STEPS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
TUNING_SEED = 101
SEEDS = 10
TARGET = 0.05  # a loss above the optimum
WORLDS = {
    "chain-0": "Chain, R = 0",
    "chain-8": "Chain, R = 8",
    "continents": "Three continents",
    "own": "Own separations",
    "drop-outs": "Drop-outs",
    "buffered": "Buffered, a third slow",
}
PROBLEMS = ("quadratic", "digits")

Case = tuple[str, str]
CASES = tuple(product(WORLDS, PROBLEMS))
"""The points of the sweep, in its order."""


class Method(NamedTuple):
    """An optimizer of the scenario, and how many models of d parameters it keeps."""

    name: str  # in the scenario
    words: str  # on pages
    server: str = "1"  # models at the server; n are the participants so far
    client: str = "0"  # models at a client


METHODS = (
    Method("fedavg", "FedAvg"),
    Method("fedprox", "FedProx"),
    Method("debiased", "Debiased FedAvg"),
    Method("debiased_prior", "Debiased FedAvg with a prior"),
    Method("known", "FedAvg by the log's frequencies"),
    Method("foreseen", "FedAvg by foreseen frequencies"),
    Method("fedau", "FedAU"),
    Method("fedbuff", "FedBuff"),
    Method("debiased_fedbuff", "Debiased FedBuff"),
    Method("fedvarp", "FedVARP", "n + 2"),
    Method("mifa", "MIFA", "n + 2"),
    Method("scaffold", "SCAFFOLD", "2", "1"),
    Method("amplified", "Amplified FedAvg", "2"),
    Method("amplified_scaffold", "Amplified SCAFFOLD", "3", "2"),
    Method("fedawe", "FedAWE", "1", "1"),
    Method("focus", "FOCUS", "2", "1"),
    Method("area", "AREA", "1", "1"),
    Method("ace", "ACE", "n + 2"),
    Method("fadas", "FADAS", "4"),
)


def scenario_of(case: Case, steps: Sequence[float] = STEPS, **changes: Any) -> Scenario:
    """Return the scenario of a case with each method at each of these steps, called ``NAME-INDEX``."""
    scenario = Scenario.load(SCENARIO)
    assert scenario.sweep is not None
    there = points_of(scenario)[CASES.index(case)].scenario
    assert there.learning is not None
    optimizers = [
        {**each.model_dump(mode="json"), "name": f"{method.name}-{index}", path.rpartition(".")[2]: step}
        for each, method, path in zip(there.learning.optimizers, METHODS, scenario.sweep.tuned, strict=True)
        for index, step in enumerate(steps)
    ]
    return there.with_values({"learning.optimizers": optimizers, **changes})


def grid_of(case: Case) -> dict[str, Any]:
    """Train every method with every step over the tuning participation: the distance from the optimum of each."""
    begin = time.process_time()
    metrics = simulate(scenario_of(case, seed=TUNING_SEED)).metrics
    found = {name: value if np.isfinite(value) else None for name, value in metrics.items()}
    grid = {method.name: [found[f"learning.{method.name}-{k}.bias"] for k in range(len(STEPS))] for method in METHODS}
    return {"grid": grid, "seconds": round(time.process_time() - begin, 1)}


def best(grid: Sequence[float | None]) -> float:
    """Return the step with the least distance; a run that diverged has none."""
    known = [np.inf if each is None or not np.isfinite(each) else each for each in grid]
    return STEPS[int(np.argmin(known))]


def best_steps(tuning: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the best step of each method in each case."""
    return {method.name: [best(tuning[" ".join(case)]["grid"][method.name]) for case in CASES] for method in METHODS}


def with_steps(scenario: str, tuning: Mapping[str, Any]) -> str:
    """Return the scenario file with the steps that were best."""
    for index, steps in enumerate(best_steps(tuning).values()):
        listed = ", ".join(f"{step:g}" for step in steps)
        scenario = re.sub(rf"(\n    learning\.optimizers\.{index}\.\w*step_size: ).*", rf"\g<1>[{listed}]", scenario)
    return scenario


def measured(what: str) -> Floats:
    """Return a figure of every method, (methods, cases, seeds), NaN where a run has none."""
    return np.stack([kept_sweep("tournament").samples(f"learning.{each.name}.{what}") for each in METHODS])


def kept() -> dict[str, Any]:
    """Return the grid, and how long it all took; an empty one where there is none."""
    found: dict[str, Any] = read_store("tournament", {"tuning": {}})
    return found


def run() -> None:
    """Tune what is missing, write the steps into the scenario, run it, keep how long it took, and write the page."""
    known = kept()
    missing = [case for case in CASES if " ".join(case) not in known["tuning"]]
    begin = time.perf_counter()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for case, found in zip(missing, pool.map(grid_of, missing), strict=True):
            known["tuning"][" ".join(case)] = found
            write_store("tournament", known)
            sys.stderr.write(f"{' '.join(case)}: tuned in {found['seconds']} s of processor time\n")
    SCENARIO.write_text(with_steps(SCENARIO.read_text(encoding="utf-8"), known["tuning"]), encoding="utf-8")
    run_kept_sweep("studies/tournament")
    known["wall_s"] = round(known.get("wall_s", 0.0) + time.perf_counter() - begin)
    write_store("tournament", known)
    sys.stderr.write(f"{known['wall_s']} s on two processes\n")
    kept_sweep_page("studies/tournament")


LEAST = 1e-6  # distances below are not told apart
STANDINGS = (
    *("method", f"mean rank of {len(METHODS)}", "distance, quadratic", "distance, digits"),
    *("models at the server", "models at a client"),
)


def _named(rows: Sequence[int]) -> str:
    return listing([METHODS[row].words for row in rows])


def _distance(value: float) -> str:
    return f"< {number(LEAST, 1)}" if value < LEAST else number(value, 1 if value < 1e-3 else 2)


def sentences() -> list[str]:
    """Say what follows: who has the least bias, who of those that keep nothing, and what the usual ones leave."""
    values, rounds = measured("bias"), measured("rounds_to_target")
    first, soonest = leaders(values)[1], leaders(rounds)[1]
    stateless, on_server = (_among(values, asked) for asked in (_stateless, lambda method: method.client == "0"))
    avg, debiased = ([method.name for method in METHODS].index(name) for name in ("fedavg", "debiased"))
    apart = values[avg] - values[debiased]
    told, mean = told_apart(apart), interval(apart)[0]
    better, worse = int((told & (mean > 0)).sum()), int((told & (mean < 0)).sum())
    few = "at most a few numbers kept of each client"
    return [
        f"Least bias, by the mean rank over {len(CASES)} cases and {SEEDS} seeds: {_led_by(first)}.",
        f"Least bias with nothing kept on the device: {_led_by(on_server)}.",
        f"Least bias with {few} and no frequencies known beforehand: {_led_by(stateless)}.",
        f"Fewest rounds to a loss {TARGET} above the optimum: {_led_by(soonest)}; with {few}: "
        f"{_led_by(_among(rounds, _stateless))}.",
        f"Debiased FedAvg leaves less bias than FedAvg in {better} of {len(CASES)} cases and more in {worse} (paired "
        "tests, Holm's correction).",
    ]


def _led_by(rows: Sequence[int]) -> str:
    """Name those that lead, and say where they tie."""
    return _named(rows) + (" (a tie)" if len(rows) > 1 else "")


def _among(values: Floats, asked: Callable[[Method], bool]) -> list[int]:
    """Return those that lead among the methods that are asked for."""
    rows = [row for row in leaders(values)[0] if asked(METHODS[row])]
    return [rows[row] for row in leaders(values[rows])[1]]


def _stateless(method: Method) -> bool:
    return method.client == "0" and "n" not in method.server and method.name not in {"known", "foreseen"}


def ranking(values: Floats) -> list[list[str]]:
    """Return a row for each method in the order of the mean ranks: rank, geometric mean distances, and memory."""
    (mean, half), rows = interval(ranks(values)), []
    for row in leaders(values)[0]:
        method, cells = METHODS[row], [METHODS[row].words, f"{mean[row]:.1f} ± {half[row]:.1f}"]
        for problem in PROBLEMS:
            own = values[row, [case[1] == problem for case in CASES]]
            known = own[np.isfinite(own)]
            told = _distance(float(np.exp(np.log(known).mean()))) if len(known) else ""
            lost = own.size - len(known)
            cells.append(f"{told} ({lost} of {own.size} diverged)".lstrip() if lost else told)
        rows.append([*cells, method.server, method.client])
    return rows
