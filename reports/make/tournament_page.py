"""What the tournament found: its page, and its table and sentences in docs/learning.md."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.patches import Rectangle
from scipy.stats import rankdata

from fedsim import Scenario
from fedsim.common.arrays import Floats
from fedsim.report.answer import Sentence
from fedsim.report.charts import Chart
from fedsim.report.document import ReportDocument
from fedsim.report.formatting import listing, number, percent
from fedsim.report.tables import Table
from fedsim.sweeps.decision import interval
from reports.make import tournament
from reports.make.runs import sweep_document
from reports.make.tournament import CASES, METHODS, PROBLEMS, SEEDS, STEPS, TARGET, WORLDS, Case, Method, measured
from reports.make.words import table

LEAST = 1e-6
"""Distances below are not told apart."""
SHORT = {"chain-0": "R = 0", "chain-8": "R = 8", "continents": "nights", "own": "own R", "drop-outs": "drop-outs"}
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
    scenario = Scenario.load(tournament.SCENARIO)
    seeds = f"{scenario.seed} to {scenario.seed + SEEDS - 1}; tuned on {tournament.TUNING_SEED}"
    note = (
        "Ranks are means over all cases, with 95 % intervals over the seeds; distances are geometric means over worlds "
        "and seeds. Memory is counted in models; n is the number of participants so far."
    )
    ranked = Table("Ranks", STANDINGS, tuple(map(tuple, ranking(values))), words=1, note=note)
    return sweep_document(
        scenario,
        tables={"ranked": ranked, "points": _figures(order), "tuned": _steps()},
        facts=(("Scenario file", "scenarios/studies/tournament.fedsim.yaml"), ("Seeds", seeds)),
        command="make studies tournament",
        source=tournament.SCENARIO.read_text(encoding="utf-8"),
        name="tournament",
        finding=f"Over {len(CASES)} cases {_named(first)} {'has' if len(first) == 1 else 'have'} the least bias.",
        answer=[Sentence(text, "", warns=False) for text in sentences()],
        charts={"bias": tuple(_chart(problem, values, order) for problem in PROBLEMS), "trends": ()},
    )


def _named(rows: Sequence[int]) -> str:
    return listing([METHODS[row].words for row in rows])


def _chart(problem: str, values: Values, order: Sequence[int]) -> Chart:
    cases = [case for case in CASES if case[1] == problem]
    found = {case: interval(values[case]) for case in cases}
    names = [METHODS[row].words for row in order]
    rows = tuple((METHODS[row].words, *(_pm(mean[row], half[row]) for mean, half in found.values())) for row in order)
    shown = np.array([mean[list(order)] for mean, _ in found.values()]).T
    best, _ = leaders(values, cases)
    never = percent(tournament.figures("participation.never_share")["continents", "quadratic"])
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
        table=Table(f"Distance from the optimum, {problem}", ("Method", *(WORLDS[world] for world, _ in cases)), rows),
        draw=partial(_draw, shown, names, [SHORT.get(world, world) for world, _ in cases]),
        height=1.7,
    )


def _draw(mean: Floats, rows: Sequence[str], columns: Sequence[str], axes: Axes) -> None:
    scale, shades = LogNorm(1e-4, 10.0, clip=True), colormaps["Blues"]
    for row, values in enumerate(mean.tolist()):
        for column, value in enumerate(values):
            known = bool(np.isfinite(value))
            shade = scale(value) if known else 1.0
            axes.add_patch(Rectangle((column, row), 1, 1, facecolor=shades(0.9 * shade), edgecolor="none"))
            ink, text = "white" if shade > 0.6 else "black", _distance(value) if known else "diverged"
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", color=ink, fontsize=6)
    axes.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
    axes.set_xticks(np.arange(len(columns)) + 0.5, columns, fontsize=6)
    axes.set_yticks(np.arange(len(rows)) + 0.5, rows, fontsize=7)
    axes.tick_params(length=0)
    axes.grid(visible=False)


def _distance(value: float) -> str:
    if value < LEAST:
        return f"< {number(LEAST, 1)}"
    return number(value, 1 if value < 1e-3 else 2)


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
            mean, half, rank, spread = (float(each[row]) for each in (*distance, *place))
            method = METHODS[row]
            cells = [f"{WORLDS[case[0]]}: {case[1]}", method.words, _pm(mean, half)]
            cells += [f"{number(rank, 3)} ± {number(spread, 2)}", _reached(rounds[case][row])]
            rows.append((*cells, _reached(hours[case][row]), method.server, method.client))
    header = (
        *("Case", "Method", "Distance from the optimum", "Rank", "Rounds to the target"),
        *("Device-hours to the target", "Models at the server", "Models at a client"),
    )
    spent = {world: found for (world, _), found in tournament.figures("sessions.device_hours").items()}
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


STANDINGS = (
    *("method", f"mean rank of {len(METHODS)}", "distance, quadratic", "distance, digits"),
    *("models at the server", "models at a client"),
)


def ranking(values: Values) -> list[list[str]]:
    """Return a row for each method in the order of the mean ranks: rank, geometric mean distances, and memory."""
    order, _ = leaders(values)
    by_seed, rows = ranks(values), []
    for row in order:
        method = METHODS[row]
        mean, half = interval(by_seed[row])
        cells = [method.words, f"{mean:.1f} ± {half:.1f}"]
        for problem in PROBLEMS:
            own = np.array([values[case][row] for case in CASES if case[1] == problem])
            known = own[np.isfinite(own)]
            told = [_distance(float(np.exp(np.log(known).mean())))] if len(known) else []
            lost = own.size - len(known)
            cells.append(" ".join(told + ([f"({lost} of {own.size} diverged)"] if lost else [])))
        rows.append([*cells, method.server, method.client])
    return rows


def standings() -> str:
    """Return the table of docs/learning.md."""
    return table(STANDINGS, ranking(measured("bias")))


def _steps() -> Table:
    """List the step of each method in each case, with a star where it lies at an edge of the grid."""
    steps = tournament.best_steps(tournament.kept()["tuning"])
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
    known, rounds = tournament.kept(), Scenario.load(tournament.SCENARIO).stop.rounds
    grid = sum(found["seconds"] for found in known["tuning"].values())
    trained = len(METHODS) * len(CASES) * (len(STEPS) + SEEDS)
    return (
        f"{trained:,} trainings of {rounds:,} rounds took {known['wall_s'] / 60:.0f} minutes on two "
        f"processes, {grid / 60:.0f} minutes of processor time of it for the grid."
    )
