"""The tournament of methods: all ways to debias over the same cohorts of six worlds, on two problems each.

Worlds, problems and methods are the points and optimizers of ``scenarios/studies/tournament.fedsim.yaml``. The step of
each method is tuned for each point from one grid, over a participation of its own (a seed that is none of the study's);
the steps that were best are written into the scenario, which is run as a sweep over ten seeds. Grid and results are
kept; what is there is not computed again. Of them the page is made, and what docs/learning.md says of the tournament.
"""

import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.patches import Rectangle
from scipy.stats import rankdata

from fedsim import Scenario, simulate
from fedsim.common.arrays import Floats
from fedsim.findings.finding import Finding
from fedsim.findings.formatting import listing, number, percent
from fedsim.report.charts import Chart
from fedsim.report.document import ReportDocument, Section
from fedsim.report.tables import Table
from fedsim.sweeps.decision import interval
from fedsim.sweeps.plan import points_of
from reports.make.kept import SCENARIOS, kept_sweep, read_store, write_store
from reports.make.runs import run_kept_sweep, sweep_document, write_page

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


def measured(what: str) -> dict[Case, Floats]:
    """Return a figure of every method by case, shape (methods, seeds), NaN where a run has none."""
    values = np.stack([kept_sweep("tournament").samples(f"learning.{each.name}.{what}") for each in METHODS], axis=1)
    return dict(zip(CASES, values, strict=True))


def figures(metric: str) -> dict[Case, float]:
    """Return a figure of the participation in each case, the mean over the seeds."""
    return dict(zip(CASES, kept_sweep("tournament").samples(metric).mean(axis=1).tolist(), strict=True))


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
    write_page(page())


LEAST = 1e-6  # distances below are not told apart
SHORT = ("R = 0", "R = 8", "nights", "own R", "drop-outs", "buffered")
"""The worlds, as columns of a chart."""
STANDINGS = (
    *("method", f"mean rank of {len(METHODS)}", "distance, quadratic", "distance, digits"),
    *("models at the server", "models at a client"),
)
Values = Mapping[Case, Floats]
"""By case, shape (methods, seeds)."""


def ranks(values: Values, cases: Sequence[Case] = CASES) -> Floats:
    """Return the mean rank of each method over some cases, by seed: 1 is the least; a run without a value is last."""
    each = [rankdata(np.where(np.isfinite(values[case]), values[case], np.inf), axis=0) for case in cases]
    mean: Floats = np.mean(each, axis=0)
    return mean


def leaders(values: Values, cases: Sequence[Case] = CASES) -> tuple[list[int], list[int]]:
    """Return the methods by mean rank, and those that ten seeds do not tell from the first: paired, 95 %."""
    by_seed = ranks(values, cases)
    order = np.argsort(by_seed.mean(axis=1), kind="stable").tolist()
    mean, half = interval(by_seed - by_seed[order[0]])
    return order, [row for row in order if row == order[0] or abs(mean[row]) <= half[row]]


def page() -> ReportDocument:
    """Return the page of the tournament."""
    values = measured("bias")
    order, first = leaders(values)
    scenario = Scenario.load(SCENARIO)
    seeds = f"{scenario.seed} to {scenario.seed + SEEDS - 1}; tuned on {TUNING_SEED}"
    note = (
        "Ranks are means over all cases, with 95 % intervals over the seeds; distances are geometric means over worlds "
        "and seeds. Memory is counted in models; n is the number of participants so far."
    )
    ranked = Table("Ranks", STANDINGS, tuple(map(tuple, ranking(values))), words=1, note=note)
    return sweep_document(
        scenario,
        sections=(
            Section("bias", "Bias and what it costs", [_chart(problem, values, order) for problem in PROBLEMS]),
            Section("points", "Settings", (), [ranked, _steps(), _figures(order)]),
        ),
        facts=(("Scenario file", "scenarios/studies/tournament.fedsim.yaml"), ("Seeds", seeds)),
        command="make studies tournament",
        source=SCENARIO.read_text(encoding="utf-8"),
        name="tournament",
        finding=f"Over {len(CASES)} cases {_named(first)} {'has' if len(first) == 1 else 'have'} the least bias.",
        answer=list(map(Finding, sentences())),
    )


def _named(rows: Sequence[int]) -> str:
    return listing([METHODS[row].words for row in rows])


def _chart(problem: str, values: Values, order: Sequence[int]) -> Chart:
    cases, names = [(world, problem) for world in WORLDS], [METHODS[row].words for row in order]
    mean, half = interval(np.array([values[case][order] for case in cases]).swapaxes(0, 1))
    rows = tuple((name, *map(_pm, *pair)) for name, *pair in zip(names, mean, half, strict=True))
    best, _ = leaders(values, cases)
    never = percent(figures("participation.never_share")["continents", "quadratic"])
    return Chart(
        name=f"distance-{problem}",
        title=f"Distance from the optimum, {problem}: {METHODS[best[0]].words} has the least by mean rank",
        description=f"The mean distance of each method in each world on {problem}, means over {SEEDS} seeds.",
        notes=(
            "The mean model over the last half of the run, and how far it is from the minimiser of the mean of all "
            "clients' objectives; mean over the seeds. Darker is farther, by decades. Methods stand in the order of "
            "their mean rank over both problems. R = 0 and 8 are the paper's chain; nights are those of three "
            f"continents, where {never} of the phones never take part, so that no method can know what they want.",
        ),
        table=Table(f"Distance from the optimum, {problem}", ("Method", *WORLDS.values()), rows),
        draw=partial(_draw, mean, names),
        height=1.7,
    )


def _draw(mean: Floats, rows: Sequence[str], axes: Axes) -> None:
    scale, shades = LogNorm(1e-4, 10.0, clip=True), colormaps["Blues"]
    for row, values in enumerate(mean.tolist()):
        for column, value in enumerate(values):
            shade, text = (scale(value), _distance(value)) if np.isfinite(value) else (1.0, "diverged")
            axes.add_patch(Rectangle((column, row), 1, 1, facecolor=shades(0.9 * shade), edgecolor="none"))
            ink = "white" if shade > 0.6 else "black"
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", color=ink, fontsize=6)
    axes.set(xlim=(0, len(SHORT)), ylim=(len(rows), 0))
    axes.set_xticks(np.arange(len(SHORT)) + 0.5, SHORT, fontsize=6)
    axes.set_yticks(np.arange(len(rows)) + 0.5, rows, fontsize=7)
    axes.tick_params(length=0)
    axes.grid(visible=False)


def _distance(value: float) -> str:
    return f"< {number(LEAST, 1)}" if value < LEAST else number(value, 1 if value < 1e-3 else 2)


def _pm(mean: float, half: float) -> str:
    if mean < LEAST:
        return f"below {number(LEAST, 1)}"
    return f"{number(mean, 3)} ± {number(half, 2)}" if np.isfinite(mean) else "diverged"


def _reached(values: Floats) -> str:
    known = values[np.isfinite(values)]
    return f"{number(float(np.median(known)), 3)} ({len(known)} of {SEEDS})" if len(known) else "never"


def _figures(order: Sequence[int]) -> Table:
    """List every method in every case: distance, rank, rounds and device-hours to the target, memory."""
    bias, rounds, hours = (measured(what) for what in ("bias", "rounds_to_target", "device_hours_to_target"))
    rows = []
    for case in CASES:
        distance, place = interval(bias[case]), interval(ranks(bias, [case]))
        for row in order:
            method, (mean, half, rank, spread) = METHODS[row], (float(each[row]) for each in (*distance, *place))
            cells = [f"{WORLDS[case[0]]}: {case[1]}", method.words, _pm(mean, half)]
            cells += [f"{number(rank, 3)} ± {number(spread, 2)}", _reached(rounds[case][row])]
            rows.append((*cells, _reached(hours[case][row]), method.server, method.client))
    header = (
        *("Case", "Method", "Distance from the optimum", "Rank", "Rounds to the target"),
        *("Device-hours to the target", "Models at the server", "Models at a client"),
    )
    spent = {world: found for (world, _), found in figures("sessions.device_hours").items()}
    grid = listing([f"{WORLDS[world]} {number(len(STEPS) * each, 3)}" for world, each in spent.items()])
    note = (
        f"Means with 95 % intervals over {SEEDS} seeds; the target is a loss {TARGET} above the optimum, "
        "medians of the seeds that came to it. n is the number of participants so far. The grid cost every method the "
        f"device-hours of {len(STEPS)} whole runs in each case, which are not in the table: {grid}."
    )
    return Table("Figures", header, tuple(rows), words=2, note=note)


def sentences() -> list[str]:
    """Say what follows: who has the least bias, who of those that keep nothing, and what the usual ones leave."""
    values, rounds = measured("bias"), measured("rounds_to_target")
    first, soonest = leaders(values)[1], leaders(rounds)[1]
    stateless, on_server = (_among(values, asked) for asked in (_stateless, lambda method: method.client == "0"))
    avg, debiased = ([method.name for method in METHODS].index(name) for name in ("fedavg", "debiased"))
    apart = [interval(values[case][avg] - values[case][debiased]) for case in CASES]
    better, worse = sum(mean > half for mean, half in apart), sum(mean < -half for mean, half in apart)
    return [
        f"By the mean rank over {len(CASES)} cases and {SEEDS} seeds, {_named(first)} "
        f"{'leaves' if len(first) == 1 else 'leave'} the least bias{_not_told(first)}.",
        "Of the methods that need no frequencies beforehand and keep at most a few numbers of each client, it is "
        f"{_named(stateless)}{_not_told(stateless)}.",
        f"Of the methods that keep nothing on the device, it is {_named(on_server)}{_not_told(on_server)}.",
        f"By the rounds to a loss {TARGET} above the optimum {_named(soonest)} {'is' if len(soonest) == 1 else 'are'} "
        f"first{_not_told(soonest)}, and of those that keep at most a few numbers of each client "
        f"{_named(_among(rounds, _stateless))}.",
        f"Debiased FedAvg leaves less bias than FedAvg in {better} of {len(CASES)} cases and more in {worse}, each "
        "told from chance by paired differences.",
    ]


def _not_told(rows: Sequence[int]) -> str:
    return "" if len(rows) == 1 else ", which these seeds do not tell apart"


def _among(values: Values, asked: Callable[[Method], bool]) -> list[int]:
    """Return those that lead among the methods that are asked for."""
    rows = [row for row in leaders(values)[0] if asked(METHODS[row])]
    return [rows[row] for row in leaders({case: values[case][rows] for case in CASES})[1]]


def _stateless(method: Method) -> bool:
    return method.client == "0" and "n" not in method.server and method.name not in {"known", "foreseen"}


def ranking(values: Values) -> list[list[str]]:
    """Return a row for each method in the order of the mean ranks: rank, geometric mean distances, and memory."""
    (mean, half), rows = interval(ranks(values)), []
    for row in leaders(values)[0]:
        method, cells = METHODS[row], [METHODS[row].words, f"{mean[row]:.1f} ± {half[row]:.1f}"]
        for problem in PROBLEMS:
            own = np.array([values[case][row] for case in CASES if case[1] == problem])
            known = own[np.isfinite(own)]
            told = _distance(float(np.exp(np.log(known).mean()))) if len(known) else ""
            lost = own.size - len(known)
            cells.append(f"{told} ({lost} of {own.size} diverged)".lstrip() if lost else told)
        rows.append([*cells, method.server, method.client])
    return rows


def _steps() -> Table:
    """List the step of each method in each case, with a star where it lies at an edge of the grid."""
    steps = best_steps(kept()["tuning"])
    header = ("Method", *(f"{WORLDS[world]}, {problem}" for world, problem in CASES))
    rows = tuple((method.words, *map(starred, steps[method.name])) for method in METHODS)
    grid = ", ".join(f"{step:g}" for step in STEPS)
    note = f"From {grid}; where the first or the last was best (*), a better one may lie beyond."
    return Table("Step sizes, as tuned", header, rows, note=note)


def starred(step: float) -> str:
    """Return a step, with a star at an edge of the grid."""
    return f"{step:g}{'*' if step in {STEPS[0], STEPS[-1]} else ''}"


def cost() -> str:
    """Return the sentence of docs/learning.md on how long it took."""
    known, rounds = kept(), Scenario.load(SCENARIO).stop.rounds
    grid = sum(found["seconds"] for found in known["tuning"].values())
    trained = len(METHODS) * len(CASES) * (len(STEPS) + SEEDS)
    return (
        f"{trained:,} trainings of {rounds:,} rounds took {known['wall_s'] / 60:.0f} minutes on two "
        f"processes, {grid / 60:.0f} minutes of processor time of it for the grid."
    )
