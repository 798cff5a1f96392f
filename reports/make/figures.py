"""The learning figures of the paper: a scenario at several separations, its page, and what one run says of a claim."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from fedsim import Scenario
from fedsim.common.arrays import Floats
from fedsim.common.formatting import capitalized, count, equation, listing, number, percent, signed
from fedsim.pages.answer import BIAS, COST, MODEL, NEXT, TRUST, Answer, Check, Section, Sentence, State
from fedsim.pages.charts import Chart
from fedsim.pages.charts.learning import Curve, curve_chart, curve_of
from fedsim.pages.charts.marks import set_scale
from fedsim.pages.charts.sweep_lines import Line, Lines, lines_chart
from fedsim.pages.charts.sweep_settings import IntervalRows, interval_chart
from fedsim.pages.methods import INITIAL_ROUND
from fedsim.pages.metric_wording import tv
from fedsim.pages.tables import Table
from fedsim.trials.decision import L1
from fedsim.trials.trials import Axis
from reports.make.kept import SCENARIOS, UNIFORM
from reports.make.runs import sweep_document
from reports.make.words import NAMES

FIGURES: Mapping[str, tuple[int, ...]] = {
    "fedavg-synthetic": (0, 4, 8, 12, 16, 19),
    "debiased-synthetic": (0, 4, 8, 12, 16, 19),
    "three-methods-synthetic": (8,),
    "fedavg-digits": (0, 4, 8, 12),
    "debiased-digits": (0, 4, 8, 12),
    "three-methods-digits": (8,),
    "network-digits": (0, 8),
    "mnist-sample": (8,),
    "quadratic-bias": (0, 4, 8, 12),
}
SHOWN = ("loss", "average_loss", "excess_loss", "grad_norm", "accuracy", "bias", "bias_predicted", "converged")

Results = Mapping[int, Mapping[str, float]]
"""Metrics by separation."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and what came of it."""

    claim: str
    figure: str  # the name of the scenario and page that test it
    measured: str  # the numbers, in words
    verdict: str  # what they come to
    status: str  # pass, warn where it holds in part, or fail


# What one run says of the paper's claims: each function returns the numbers and the verdict.


def _above(results: Results, name: str) -> dict[int, float]:
    """Return by how much an optimizer's average loss lies above that of FedAvg under uniform participation."""
    losses = {r: [found[f"learning.{each}.average_loss"] for each in (name, UNIFORM)] for r, found in results.items()}
    return {r: own - uniform for r, (own, uniform) in losses.items()}


def _rounded(value: float) -> str:
    """Write a difference from uniform with its sign and two digits: one run knows no more."""
    return signed(value, lambda each: number(each, 2))


def _listed(results: Results, name: str) -> str:
    return ", ".join(f"{_rounded(value)} ({equation('R', r)})" for r, value in _above(results, name).items())


def _at_one(results: Results, **words: str) -> str:
    """Write by how much optimizers lie above uniform at the one separation of a figure."""
    return ", ".join(f"{label} {_rounded(*_above(results, name).values())}" for name, label in words.items())


def _falls(results: Results, slack: float = 0.0) -> bool:
    """Say whether FedAvg's bias falls with the separation."""
    return all(late < early + slack for early, late in pairwise(_above(results, "fedavg").values()))


def _holds(verdict: bool) -> str:
    return "holds" if verdict else "does not hold"


def _smaller_bias(results: Results) -> tuple[str, str]:
    above = _above(results, "fedavg")
    least = min(above, key=lambda r: abs(above[r]))
    verdict = _holds(_falls(results, slack=2e-5))
    if verdict == "holds" and least != max(above):
        verdict += f" up to R = {least}, then levels off"
    return f"loss of FedAvg above unbiased training: {_listed(results, 'fedavg')}", verdict


def _as_uniform(results: Results, tolerance: float) -> tuple[str, str]:
    missed = [f"R = {r}" for r, value in _above(results, "debiased_fedavg").items() if not abs(value) <= tolerance]
    text = f"loss of Debiased FedAvg above unbiased training: {_listed(results, 'debiased_fedavg')}"
    kept = f"within {tolerance:g}"
    return text, f"holds in part: not at {', '.join(missed)}, {kept} at the others" if missed else f"holds {kept}"


def _fedavg_stays(results: Results) -> tuple[str, str]:
    [avg], [debiased] = (_above(results, name).values() for name in ("fedavg", "debiased_fedavg"))
    return f"loss above unbiased training: {_at_one(results, fedavg='FedAvg', debiased_fedavg='Debiased')}", _holds(
        avg > 2 * abs(debiased)
    )


def _fedvarp_stays(results: Results, tolerance: float) -> tuple[str, str]:
    [above] = _above(results, "fedvarp").values()
    text = f"loss above unbiased training: {_at_one(results, fedvarp='FedVARP', fedavg='FedAvg')}"
    return text, "does not reproduce" if above < tolerance else "holds"


def _network(results: Results) -> tuple[str, str]:
    text = "loss above unbiased training: " + "; ".join(
        f"{name} {_listed(results, name)}" for name in sorted(NAMES, key=lambda each: "debiased" not in each)
    )
    avg, debiased = (_above(results, name) for name in ("fedavg", "debiased_fedavg"))
    return text, "holds" if _falls(results) and all(debiased[r] < avg[r] for r in results) else "holds in part"


def _sample(results: Results) -> tuple[str, str]:
    """Compare the three methods at one separation; only runs that have settled decide anything."""
    text = f"loss above unbiased training: {_at_one(results, **{name: name for name in NAMES})}"
    settled = sum(found[f"learning.{name}.converged"] for found in results.values() for name in NAMES)
    undecided = f"not decided: {settled:.0f} of {len(NAMES)} runs have settled"
    return text, undecided if settled < len(NAMES) else _fedavg_stays(results)[1]


def _as_predicted(results: Results) -> tuple[str, str]:
    pairs = {r: [found[f"learning.fedavg.bias{of}"] for of in ("", "_predicted")] for r, found in results.items()}
    text = "; ".join(
        f"{found:.3f} at {equation('R', r)}, predicted {foreseen:.3f}" for r, (found, foreseen) in pairs.items()
    )
    close = all(abs(found - foreseen) <= 0.1 * foreseen + 0.02 for found, foreseen in pairs.values())
    return (
        f"distance from the optimum: {text}",
        "holds: the distance is within 10 % of the predicted one" if close else "holds in part",
    )


Measured = Callable[[Results], tuple[str, str]]
CLAIMS: dict[str, dict[str, Measured]] = {
    "network-digits": {"Debiased FedAvg removes the bias of a three-layer network too (digits)": _network},
    "mnist-sample": {"FedAvg stays biased on 5,000 images of MNIST at R = 8": _sample},
    "quadratic-bias": {"FedAvg ends where theory says": _as_predicted},
}
for _problem, _tolerance in (("synthetic", 2e-4), ("digits", 1e-3)):
    _near, _biased = partial(_as_uniform, tolerance=_tolerance), partial(_fedvarp_stays, tolerance=_tolerance)
    CLAIMS |= {
        f"fedavg-{_problem}": {f"Larger R, smaller bias of FedAvg ({_problem})": _smaller_bias},
        f"debiased-{_problem}": {
            f"Debiased FedAvg reaches the loss of uniform participation for every R ({_problem})": _near
        },
        f"three-methods-{_problem}": {
            f"FedAvg stays biased at R = 8 ({_problem})": _fedavg_stays,
            f"FedVARP stays biased at R = 8 ({_problem})": _biased,
        },
    }


def claims_of(figure: str, results: Results) -> list[Claim]:
    """Return the paper's claims that a figure tests."""
    rows = []
    for claim, measured in CLAIMS[figure].items():
        text, verdict = measured(results)
        partly = any(words in verdict for words in ("in part", "except", "not decided"))
        rows.append(Claim(claim, figure, text, verdict, "warn" if partly else "fail" if "not" in verdict else "pass"))
    return rows


def figure_page(name: str, results: Results, tables: Mapping[int, pl.DataFrame], over_draws: Sequence[Claim]) -> Answer:
    """Return a learning figure of the paper, from metrics and learning tables by separation.

    `over_draws` are the claims that it tests as they come out over draws of the data.
    """
    scenario = Scenario.load(SCENARIOS / "paper" / f"{name}.fedsim.yaml")
    names = [each for each in tables[min(tables)]["optimizer"].unique(maintain_order=True) if each != UNIFORM]
    claims = claims_of(name, results)
    return sweep_document(
        scenario,
        sections=(
            Section("bias", "Bias and what it costs", _bias(results, names)),
            Section("trends", "Along the sweep", _losses(names, tables)),
            Section("points", "Settings", (), [_table(results)]),
        ),
        facts=(("Scenario file", f"scenarios/paper/{name}.fedsim.yaml"), ("Seed", str(scenario.seed))),
        command=f"python -m reports.make pages {name}",
        name=name,
        setup=_setup(scenario, results),
        picture="predicted",  # where there is one
        headline=unbroken(_of_whom(name, len(claims)) + "; ".join(f"“{each.claim}” {each.verdict}" for each in claims)),
        sentences=[*_participation(results), *_answer(scenario, results, _missed(results, tables), over_draws)],
        checks=list(_settled(scenario, claims)),
    )


def unbroken(text: str) -> str:
    """Keep R and its value, and a number and its per cent, on one line."""
    return text.replace("R = ", equation("R", "")).replace(" %", "\N{NARROW NO-BREAK SPACE}%")


def _of_whom(name: str, claims: int) -> str:
    """Say whose claims a figure tests."""
    return "Beyond the paper: " if name == "quadratic-bias" else f"The paper's claim{'s' * (claims > 1)}: "


def _missed(results: Results, tables: Mapping[int, pl.DataFrame]) -> str:
    """Say how much of what unbiased training gains each method misses; empty without unbiased training."""
    first = min(tables)
    start = tables[first].filter(optimizer=UNIFORM, round=INITIAL_ROUND)["loss"]
    if not len(start):
        return ""
    gained = {r: float(start[0]) - found[f"learning.{UNIFORM}.average_loss"] for r, found in results.items()}
    known = [name for name in NAMES if f"learning.{name}.average_loss" in results[first]]
    shares = {name: {r: above / gained[r] for r, above in _above(results, name).items()} for name in known}

    def missed(share: float) -> str:
        return "none" if share <= 0 else percent(share) if share < 1 else "more than all"

    (name, own), *others = shares.items()
    last = max(results)
    if own[first] >= 1 and last > first:
        began = f"{NAMES[name]} ends worse than untrained at R = {first}"
        return f"{began}, and misses {missed(own[last])} of the gain at R = {last}."
    text = f"{NAMES[name]} misses {missed(own[first])} of unbiased training's gain"
    if not others and len(results) > 1:
        return f"{text} at R = {first}, {missed(own[last])} at R = {last}."
    ways = dict[str, list[str]]()
    for name, own in others[:1] if len(results) > 1 else others:
        ways.setdefault(missed(own[first]), []).append(NAMES[name])
    rest = ", ".join(f"{' and '.join(names)} {share}" for share, names in ways.items())
    at = f" at R = {first}" if len(results) > 1 else ""
    return f"{text}{at}, {rest}." if rest else f"{text}{at}."


def _setup(scenario: Scenario, results: Results) -> str:
    ways = listing([str(r) for r in sorted(results)])
    devices, rounds = count(scenario.devices, "device"), count(scenario.stop.rounds or 0, "round")
    return f"R = {ways} (rounds a device waits); {devices}, cohort {scenario.sync_server.cohort}, {rounds}, one seed"


_CHANCE = "participation.l1_chance"


def _participation(results: Results) -> Iterator[Sentence]:
    """Say how far participation is from uniform at the first separation and at the last."""
    ways = [(tv(found[L1]), f"at R = {r}", found) for r, found in sorted(results.items()) if L1 in found]
    if ways:
        last = f", {' '.join(ways[-1][:2])}" if len(ways) > 1 else ""
        share, at, first = ways[0]
        chance = f"; equal chances: {tv(first[_CHANCE])}" if _CHANCE in first else ""
        yield Sentence(f"Participation is {share} from uniform (TV{chance}) {at}{last}.", BIAS, (L1,))


def _cost(results: Results) -> str:
    """Say what the runs take of devices and time: the same at every separation, or from the first to the last."""

    def over(metric: str) -> str:
        ends = dict.fromkeys(number(results[r].get(metric), 3) for r in (min(results), max(results)))
        return " to ".join(ends)

    at = "" if len(results) == 1 else " at each R"
    return f"{over('sessions.device_hours')} device-hours{at}; {over('rounds.per_day')} rounds per simulated day."


def _answer(scenario: Scenario, results: Results, missed: str, over_draws: Sequence[Claim]) -> Iterator[Sentence]:
    """Say what participation does to the model, what the runs cost, how sure the verdict is, and what to do next."""
    claims = claims_of(scenario.name, results)
    if missed:
        yield Sentence(unbroken(missed), MODEL)
    for each in claims:
        yield Sentence(f"{capitalized(each.measured)}.", MODEL)
    yield Sentence(_cost(results), COST)
    sweep = f"fedsim sweep scenarios/paper/{scenario.name}.fedsim.yaml --set "
    if list(_settled(scenario, claims)):
        return
    text = "One seed at each R: small differences may be chance."
    if over_draws:
        alike = {each.status for each in over_draws} == {each.status for each in claims}
        problem, who = (
            claims[0].figure.rpartition("-")[2],
            "Debiased FedAvg" if "debiased" in claims[0].figure else "FedAvg",
        )
        measured = over_draws[0].measured[max(0, over_draws[0].measured.find(problem)) :]
        found = re.search(r"(R = 0: )?([\N{MINUS SIGN}\d.]+ (?:± [\d.]+|\(.*?\)))", measured)
        draws = re.search(rf"{problem}: (\d+)", measured) or re.search(r"(\d+) (?:settled draws|draws|part)", measured)
        assert found is not None, measured
        assert draws is not None, measured
        at, verdict = " at R = 0" if found[1] else "", "The same verdict" if alike else "Not quite the same"
        text = f"{verdict} from {draws[1]} other draws: {who} ends {found[2]} off{at}."
    yield Sentence(unbroken(text), TRUST)
    yield Sentence("Run it with other seeds of your own.", NEXT, command=f"{sweep}sweep.seeds=5")


def _settled(scenario: Scenario, claims: Sequence[Claim]) -> Iterator[Check]:
    """Say that losses have not settled, where a claim is not decided for that."""
    if unsettled := next((each.verdict for each in claims if "not decided" in each.verdict), ""):
        few = unsettled.rpartition(": ")[2].replace("runs", "losses")
        text = f"{few}: they show how far training got, not where it ends."
        command = f"fedsim sweep scenarios/paper/{scenario.name}.fedsim.yaml --set "
        command += f"stop.rounds={10 * (scenario.stop.rounds or 0)}"
        yield Check("settled", State.CAUTION, text, remedy="Run 10 times as long.", command=command)


def _bias(results: Results, names: Sequence[str]) -> tuple[Chart, ...]:
    """Draw the bias that is left at each separation, and beside it what theory says where the optimum is known."""
    separations = np.array(sorted(results), dtype=np.float64)
    if len(separations) < 2:
        above = np.array([*(value for name in names for value in _above(results, name).values())])[::-1]
        one_run = IntervalRows(
            tuple(names[::-1]),
            above,
            np.full(len(names), np.nan),
            np.ones(len(names), dtype=bool),
            ("one run", ""),
            "loss above unbiased training (left of 0: none)",
            0.0,
        )
        return (interval_chart(one_run, "excess", "What bias is left", ("One seed: there are no intervals.",)),)
    axis = Axis(("separation",), ("separation",), "separation R (rounds)", separations, ())
    rows, unknown = np.arange(len(separations)), np.full(len(separations), np.nan)

    def values(what: str) -> Floats:
        return np.array([results[int(r)].get(f"learning.{what}", np.nan) for r in separations])

    uniform = values(f"{UNIFORM}.average_loss")
    lines = tuple(
        Line(name, rows, separations, np.abs(values(f"{name}.average_loss") - uniform), unknown) for name in names
    )
    data = Lines("loss, distance from unbiased training", axis, lines, 0, logarithmic=True)
    note = (
        "The loss of the mean model over the last half of the rounds, and how far it is from that of FedAvg under "
        "uniform participation, above it or below; signs are in the table of figures."
    )
    left = lines_chart(data, "excess", "What bias is left", (note,))
    measured, foreseen = (values(f"fedavg.{what}") for what in ("bias", "bias_predicted"))
    if not np.isfinite(measured).all():
        return (left,)
    line = Line("fedavg", rows, separations, measured, unknown, foreseen)
    data = Lines("distance of the mean model from the optimum", axis, (line,), 0)
    note = "Theory: the optimum of the objective in which clients weigh as much as the chain says that they take part."
    return left, lines_chart(data, "predicted", "Where FedAvg ends, predicted and measured", (note,))


def _losses(names: Sequence[str], tables: Mapping[int, pl.DataFrame]) -> tuple[Chart, ...]:
    """Draw the losses by rounds, a chart for each optimizer and all over the same span, with a line for each R."""
    shown = {name: _curves(name, tables) for name in names}
    ends = np.concatenate([curve.points.mean for curves in shown.values() for curve in curves if len(curve.points.x)])
    low, high = float(ends.min()), float(ends.max())
    margin, far = 0.04 * (high - low), low > 0 and high > 4 * low

    def after(axes: Axes) -> None:
        set_scale(axes, "y", far)
        axes.set_ylim(*((low / 1.1, high * 1.1) if far else (low - margin, high + margin)))

    note = "Charts of the other optimizers have the same axis."
    return tuple(
        curve_chart(f"loss-{name}", f"Loss of “{name}”", curves, "rounds done", "loss", (note,), after=after)
        for name, curves in shown.items()
    )


def _curves(name: str, tables: Mapping[int, pl.DataFrame]) -> tuple[Curve, ...]:
    own = [(f"R = {r}", False, table.filter(optimizer=name)) for r, table in sorted(tables.items())]
    own.append(("FedAvg, uniform", True, tables[min(tables)].filter(optimizer=UNIFORM)))
    points = [table.sort("round").select(x=pl.col("round") + 1, value="loss") for _, _, table in own]
    return tuple(curve_of(*own[color][:2], color, each) for color, each in enumerate(points))


def _table(results: Results) -> Table:
    """List the figures of every optimizer at every separation."""
    columns = [what for what in SHOWN if any(key.endswith(f".{what}") for found in results.values() for key in found)]
    rows = []
    for separation, found in sorted(results.items()):
        for name in dict.fromkeys(key.split(".")[1] for key in found if key.startswith("learning.")):
            cells = [number(found.get(f"learning.{name}.{what}"), 5) for what in columns]
            rows.append((str(separation), name, *cells))
    header = ("R", "Optimizer", *(what.replace("_", " ").capitalize() for what in columns))
    note = (
        "Means over the last half of the rounds; the average loss is that of the mean of the server's models there, "
        "the excess is over FedAvg under uniform participation."
    )
    return Table("Figures", header, tuple(rows), words=2, note=note)
