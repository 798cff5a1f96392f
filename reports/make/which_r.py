"""The study ``which-r``: which separation serves a private federation best, at an epsilon and a dimension.

Its store has the cases, and what was found at each setting. A case is what one command does, ``fedsim decide FILE
--set ...``, with its overrides and those of epsilon and mechanism. All take an hour and a half of processor time, half
of it at d = 100,000, which has half the rounds, and fewer variants and seeds than the others.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from fedsim import Scenario
from fedsim.common.formatting import listing, number
from fedsim.learning.components import build_problem
from fedsim.learning.problems.problem import Solvable, Solved
from fedsim.pages.trial_tables import standings
from fedsim.trials.contrasts import interval
from fedsim.trials.decide import decide
from fedsim.trials.decision import aim_of, planned_seeds
from fedsim.trials.executors import backend_of
from fedsim.trials.trials import Trials
from reports.make.kept import SCENARIOS, Record, read_store, write_store
from reports.make.words import table

EPSILONS = (8, 2, 1)
PARTS = ("bias_loss", "participation_noise_loss", "privacy_noise_loss")
TWIN = "excess_loss"  # above the twin, where there is one


def scenario_of(case: Record) -> Scenario:
    """Return the scenario that decides a case."""
    sets = (f"privacy.epsilon={case['epsilon']}", f"privacy.mechanism={case['mechanism']}", *case["overrides"])
    return Scenario.load(SCENARIOS / "studies" / f"{case['file']}.fedsim.yaml", sets)


def run() -> None:
    """Decide all cases again, and keep what they find."""
    cases = read_store("which-r")
    for case in cases:
        sys.stderr.write(f"{case['problem']}, epsilon {case['epsilon']}, {case['mechanism']}\n")
        with tempfile.TemporaryDirectory() as folder:
            decide(scenario_of(case), folder, backend_of("process", 1))
            case["settings"] = found_in(Path(folder), scenario_of(case))
        write_store("which-r", cases)


def found_in(decision: Path, scenario: Scenario) -> list[Record]:
    """Return what a decision found at each setting; losses are above the optimum."""
    trials = Trials.read(decision)
    aim = aim_of(trials).metric
    values = trials.samples(aim)
    if aim.endswith(".loss"):
        values = values - [_least(scenario, scenario.seed + k) for k in range(values.shape[1])]
    twin = scenario.learning is not None and scenario.learning.reference == "uniform"
    parts = (*PARTS, TWIN) if twin else PARTS
    means = {"pace": "rounds.per_day"} | {part: f"learning.fedavg.{part}" for part in parts}
    columns: dict[str, Any] = {"name": trials.names, "seeds": planned_seeds(trials)}
    columns |= dict(zip(("loss", "half"), interval(values), strict=True)) | {"standing": standings(trials)}
    columns |= {name: interval(trials.samples(metric)).mean for name, metric in means.items()}
    columns |= {path.rpartition(".0.")[2]: trials.numbers(path) for path in trials.tuned}
    return [{name: _short(column[row]) for name, column in columns.items()} for row in range(len(trials.names))]


def _least(scenario: Scenario, seed: int) -> float:
    assert scenario.learning is not None
    choice = scenario.learning.problem
    problem = build_problem(choice.kind, choice.options, clients=scenario.devices, seed=seed)
    assert isinstance(problem, Solvable | Solved)
    return float(problem.evaluate(problem.solve() if isinstance(problem, Solvable) else problem.optimum)["loss"])


def _short(value: Any) -> Any:
    return value if isinstance(value, str) else float(f"{value:.4g}") if np.isfinite(value) else None


def table_of() -> str:
    """Return the table of reports/studies.md: a row for each problem and mechanism, a column for each epsilon."""
    rows = dict[str, dict[int, str]]()
    for case in read_store("which-r"):
        settings, best = case["settings"], _best(case)
        tied = [_r(each) for each in settings if each["standing"] in {"best", "tied"}]
        ties = f" ({tied[0]}\N{EN DASH}{tied[-1]})" if len(tied) > 1 else ""
        losses = f"{number(settings[0]['loss'], 2)}\N{RIGHTWARDS ARROW}{number(best['loss'], 2)}"
        more = [each for each in ("amplified", "regions") if _is(case, each)]
        more += ["other seeds"] * ("seed=5001" in case["overrides"])
        words = ", ".join((case["problem"], case["mechanism"], *more))
        rows.setdefault(words, {})[case["epsilon"]] = f"{losses} at {_r(best)}{ties}"
    head = ("", *(f"epsilon {epsilon}" for epsilon in EPSILONS))
    return table(head, [[words, *(cells.get(each, "") for each in EPSILONS)] for words, cells in rows.items()])


def sentence() -> str:
    """Say where the best separation lies where rounds may wait, and which are worse in every case."""
    cases = [case for case in read_store("which-r") if not (_is(case, "amplified") or _is(case, "regions"))]
    best = [_r(_best(case)) for case in cases]
    paces = [100 * _best(case)["pace"] / case["settings"][0]["pace"] for case in cases]
    open_ = {_r(each) for case in cases for each in case["settings"] if each["standing"] in {"best", "tied"}}
    never = [r for r in map(_r, cases[0]["settings"]) if r not in open_]
    low, high = [r for r in never if r < min(best)], [r for r in never if r > max(best)]
    rest = sum(_is(case, "amplified") for case in read_store("which-r"))
    return (
        f"In all {len(cases)} cases with phones that come and go (all but the {rest} amplified ones, and those of "
        f"regions) the best R lies where rounds already wait for phones: from {min(best)} to "
        f"{max(best)}, at {min(paces):.0f} to {max(paces):.0f} % of the pace of R = 0. Those up to {max(low)} are "
        f"worse in each of them, and so is {listing([str(r) for r in high])}."
    )


def regions() -> str:
    """Say what a separation does where regions are unequally available, beside the same rounds of clients at random."""
    cases = [case for case in read_store("which-r") if _is(case, "regions")]
    best = [_r(_best(case)) for case in cases]
    above = [(case["settings"][0][TWIN], _best(case)[TWIN]) for case in cases]
    tied = [[_r(each) for each in case["settings"] if each["standing"] in {"best", "tied"}] for case in cases]
    phones = scenario_of(cases[0]).model_dump(mode="json")["population"]
    nights = listing([f"{100 * each['availability']['charging']['night']['chance']:.0f} %" for each in phones])
    at_0, at_best = (listing([number(each, 2) for each in losses]) for losses in zip(*above, strict=True))
    epsilons, least, most = [f"{case['epsilon']}" for case in cases], min(map(min, tied)), max(map(max, tied))
    return (
        f"With regions whose phones charge in {nights} of nights (`which-r-regions`), the best R is "
        f"{listing(list(map(str, best)))} at epsilon {listing(epsilons)}, and what ties goes from {least} to {most}. "
        f"The loss lies {at_0} above that of the same rounds with clients drawn uniformly at R = 0, and {at_best} at "
        "the best R."
    )


def _is(case: Record, kind: str) -> bool:
    return str(case["file"]).endswith(kind)


def _best(case: Record) -> Record:
    return next(each for each in case["settings"] if each["standing"] == "best")


def _r(setting: Record) -> int:
    name, value = str(setting["name"]).replace("\N{NO-BREAK SPACE}", " ").rsplit(" = ", 1)
    return int(value) - (name != "R")
