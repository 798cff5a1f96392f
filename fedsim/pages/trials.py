"""What trials answer, be they a sweep, a decision or optimizers over cases: each number a value or a contrast."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from fedsim.common.arrays import Bools, Floats
from fedsim.common.formatting import (
    capitalized,
    count,
    count_range,
    duration,
    listing,
    listing_of,
    number,
    percent,
    with_separation,
)
from fedsim.measure.metrics import split
from fedsim.pages import trial_tables as tables
from fedsim.pages.answer import BIAS, COST, MODEL, TRUST, WHAT, Answer, Check, Section, Sentence, State, Tile
from fedsim.pages.charts import Chart
from fedsim.pages.charts.plot import Rows, row_plot
from fedsim.pages.charts.sweeps import TRADE_OFF, Line, line_chart, lines_of, parts_chart, trade_off_chart
from fedsim.pages.commands import command_of
from fedsim.pages.expectations import sweep_verdict
from fedsim.pages.metric_wording import PACE_UNIT, MetricWording, tv, wording_of
from fedsim.pages.provenance import sweep_provenance
from fedsim.pages.tables import Table
from fedsim.pages.trial_checks import (
    NAMED,
    OF_EACH_JOB,
    checks_of_trials,
    limits_of,
    optimizer_facts,
    reports_and_chance,
)
from fedsim.pages.trial_tables import FIGURE_WORDS, about_of, headlines, loss_parts, means, moves, order_of
from fedsim.scenario.models import Group
from fedsim.scenario.server import SyncServer
from fedsim.trials.contrasts import Contrasts, Standing, contrasts, contrasts_of, detectable, interval, tested_together
from fedsim.trials.decision import (
    L1,
    PACE,
    PULL,
    UNDECIDED,
    aim_of,
    bias_metric,
    chosen,
    compared,
    dropped,
    is_open,
    keeping,
    trade_off,
)
from fedsim.trials.optimizers import by_optimizer, footprint, in_case, ranked
from fedsim.trials.trials import COMPLETE, Axis, Trials

_TITLE = 100  # characters of a title that names all that tie
_SHORT = 24  # characters of a name in a title
_SAME = 0.01  # device-hours that differ by no more than this share are called the same
_LOSSES = 3  # optimizers whose losses are described at most
_TRENDS = 8  # metrics with charts of their own at most
_ROWS = 24  # settings in a picture at most
_GROUPS = 3  # groups of devices named one by one at most
_PICTURE = "settings"
_FIGURES = (_PICTURE, "distance", TRADE_OFF, "ranks", "parts-*", "trend-*")


def trials_answer(trials: Trials) -> Answer:
    """Return what is said of trials: of settings which to choose, of optimizers which leads."""
    optimizers, checks = by_optimizer(trials), tuple(checks_of_trials(trials))
    sentences = _of_settings(trials) if optimizers is None else _of_optimizers(trials, optimizers)
    return Answer(
        kind="decision" if command_of(trials.meta, "decide") else "sweep",
        name=trials.name,
        headline=trials_headline(trials, checks),
        question=trials.scenario.question or "",
        setup=trials_setup(trials),
        description=trials.scenario.description,
        status=str(trials.meta.get("status") or ""),
        verdict=sweep_verdict(trials),
        checks=checks,
        sentences=(*sentences, *what_was_simulated(trials)) if trials.metrics else tuple(what_was_simulated(trials)),
        tiles=tuple(tiles_of(trials)),
        sections=tuple(_sections(trials, optimizers)),
        figures=_FIGURES,
        origins={"": sweep_provenance(trials.meta)},
    )


# The headline


def trials_headline(trials: Trials, checks: Sequence[Check]) -> str:
    """Return the first bad check; else the metric of `headline`, who leads of optimizers, or what to choose."""
    if (bad := next((each.text for each in checks if each.state is State.BAD), None)) is not None:
        return bad
    asked = trials.scenario.headline
    if asked and np.isfinite(trials.samples(asked)).any():
        return f"{capitalized(_of_metric(trials, wording_of(asked)))}."
    optimizers = by_optimizer(trials)
    return f"{capitalized(_choice(trials) if optimizers is None else _leader(optimizers))}."


def _of_metric(trials: Trials, wording: MetricWording) -> str:
    """Say between which settings a metric that is asked for lies, or which has the best."""
    if wording.less_is_better is not None:
        found = contrasts(trials, wording.metric, less_is_better=wording.less_is_better)
        return _best(trials, found, wording)
    found = contrasts(trials, wording.metric, less_is_better=True)
    least, most = int(found.order[0]), int(found.order[-1])
    low, high = (wording.write(float(found.mean[row])) for row in (least, most))
    if least == most or low == high:
        return f"{wording.the} is {low}{' at every setting' if least != most else ''}"
    by = (
        f"{wording.difference(float(found.difference[most]), float(found.half[most]))}{IN_BRACKETS[found.states[most]]}"
    )
    return (
        f"{wording.the} is lowest at {trials.names[least]} ({low}) and highest at {trials.names[most]} ({high}; {by})"
    )


def _choice(trials: Trials) -> str:
    """Say what to choose, why, what ties with it, and at what price in pace."""
    found, wording, row = compared(trials), wording_of(aim_of(trials).metric), chosen(trials)
    if found.best is None or row is None:
        return f"nothing to choose by: no run has a value of {wording.metric}"
    if row != found.best:
        even = trials.names[found.best]
        return f"{trials.names[row]} is the fastest, and the most even, {even}, shows no significant difference from it"
    if not is_open(trials):
        return _best(trials, found, wording, "" if trials.scenario.decide is None else "Choose ", _price(trials, row))
    paces = means(trials, PACE)
    fast = int(np.nanargmax(paces))
    rival = trials.names[fast] if len(trials.names[fast]) <= _SHORT else "the fastest"
    value = f"({wording.write(float(found.mean[row]))} from uniform)"
    untested = " (one seed, not tested)" if Standing.UNTESTED in found.states else ""
    lost = percent(1 - paces[row] / paces[fast])
    return f"{trials.names[row]} is the most even {value} and {lost} slower than {rival}{untested}"


def _best(trials: Trials, found: Contrasts, wording: MetricWording, choose: str = "", price: str = "") -> str:
    """Say which setting is the best by a metric, and what ties with it; or the value of the only one."""
    names, best = trials.names, found.best
    assert best is not None
    value = wording.write(float(found.mean[best]))
    if len(names) == 1:
        return f"{wording.the} is {value}"
    value = wording.mean(float(found.mean[best]), float(found.margin[best])) if choose else value
    value = f"({value}{' from uniform' if wording.is_distance else ''})"
    extreme = wording.extreme(found.less_is_better)
    first = f"{choose}{names[best]}{': it' if choose else ''} has {extreme} {value}"
    if few := found.rows(Standing.FEW):
        others = names[few[0]] if len(few) == 1 and len(names[few[0]]) <= _SHORT else count(len(few), "other")
        return f"{first}; {count(int(found.seeds[few].max()), 'seed')} are too few to test it against {others}"
    if tied := found.rows(Standing.TIED, Standing.SAME):
        every = f"{listing([names[row] for row in (best, *tied)])} tie for {extreme} {value}"
        if not choose and len(tied) < NAMED and len(every) <= _TITLE:
            return every
        others = (
            listing_of([names[row] for row in tied], NAMED, "more setting") if choose else count(len(tied), "other")
        )
        return f"{first}; {others} {'ties' if len(tied) == 1 else 'tie'} with it"
    untested = " (one seed, not tested)" if Standing.UNTESTED in found.states else ""
    return f"{first}{price}{untested}"


def _price(trials: Trials, best: int) -> str:
    """Say what the best setting was chosen from, or at what price in pace."""
    metric, _, conditions = aim_of(trials)
    found, paces = compared(trials), means(trials, PACE)
    if conditions:
        left = len(found.order)
        if left == 1:
            return ", and no other setting keeps the conditions"
        return f" of {count(left)} settings that keep the conditions"
    if trials.scenario.decide is not None and found.differs.any():
        return "; every other setting is significantly worse"
    if metric == PACE or not np.isfinite(paces).all():
        return ""
    if not paces_differ(trials):
        return ", at the same pace as all others"
    lost = 1 - paces[best] / paces.max()
    return ", and none is faster" if lost <= 0 else f", {percent(lost)} slower than the fastest"


def paces_differ(trials: Trials) -> bool:
    """Say whether settings differ in pace by more than rounding."""
    pace = means(trials, PACE)
    pace = pace[np.isfinite(pace)]
    return len(pace) > 1 and bool(np.ptp(pace) > 1e-6 * np.abs(pace).max())


def _leader(optimizers: Trials) -> str:
    """Say which optimizers lead, and how sure that is."""
    found, names, cases = ranked(optimizers), _names(optimizers), optimizers.meta["cases"]
    of = f"by mean rank over {count(len(cases), 'case')}" if len(cases) > 1 else f"of {count(len(names))}"
    first = [found.best or 0, *found.rows(*UNDECIDED)]
    if Standing.UNTESTED in found.states:
        return f"{names[first[0]]} is first, {of} (one seed, not tested)"
    if len(first) == 1:
        return f"{names[first[0]]} leads, {of}; every other is significantly worse"
    few = f": {count(int(found.seeds.max()), 'seed')} are too few to test them" if found.rows(Standing.FEW) else ""
    if len(first) > NAMED:
        return f"No optimizer leads {of}: {names[first[0]]} ties with {count(len(first) - 1)} others{few}"
    return f"{listing([names[row] for row in first])} tie for the lead, {of}{few}"


def _names(optimizers: Trials) -> list[str]:
    return [f"“{name}”" for name in optimizers.settings["optimizer"]]


# Sentences


def _of_settings(trials: Trials) -> Iterator[Sentence]:
    """Answer each question of a reader about settings."""
    pace = [PACE] if paces_differ(trials) else []
    courses = list(courses_of(trials, [bias_metric(trials), *_losses_of(trials), *pace]))
    yield from _bias(trials)
    yield from (each for each in courses if each.about == BIAS)
    model = [*_parts(trials), *(each for each in courses if each.about == MODEL)]
    yield from model or [_no_loss(trials)]
    yield from _cost(trials)
    yield from (each for each in courses if each.about == COST)
    yield from _sure(trials)


def _bias(trials: Trials) -> Iterator[Sentence]:
    """Say how biased the choice is, by what reached the model; of selections and pulls where these differ."""
    metric, names, row = bias_metric(trials), trials.names, chosen(trials)
    wording, known = wording_of(metric), interval(trials.samples(metric))
    if not np.isfinite(known.mean).any():
        yield Sentence(OF_EACH_JOB if trials.scenario.jobs else "Bias was not measured.", BIAS)
        return
    worst, (_, fair) = int(np.nanargmax(known.mean)), reports_and_chance(trials)
    if row is not None and np.isfinite(known.mean[row]):
        mean = float(known.mean[row])
        text = f"At {names[row]} it is {wording.mean(mean, float(known.half[row]))} from uniform (TV)"
        text += f"; equal chances alone would give {tv(float(fair[row]))}" if mean < 2 * fair[row] else ""
        yield Sentence(f"{text}.", BIAS, (metric,))
        if worst != row and known.mean[worst] > mean:
            text = f"The least even is {names[worst]}, with {wording.write(float(known.mean[worst]))}."
            if abs(fair[worst] - fair[row]) > 0.1 * fair[row]:  # their numbers of reports differ
                text += f" Equal chances alone would give {tv(float(fair[row]))} and {tv(float(fair[worst]))}."
            yield Sentence(text, BIAS, (metric,))
    for other in (L1, PULL):
        theirs = means(trials, other)
        apart = np.nan_to_num(np.abs(theirs - known.mean)) > 0.01 * np.nan_to_num(known.mean)
        if other != metric and apart.any():
            yield _spread(trials, other, BIAS)


def _spread(trials: Trials, metric: str, about: str, over: str = "settings") -> Sentence:
    """Say between which ends a metric lies."""
    wording, mean = wording_of(metric), means(trials, metric)
    low, high = (wording.write(float(end)) for end in (np.nanmin(mean), np.nanmax(mean)))
    ends = f"{low} to {high}" if low != high else low
    return Sentence(f"Over the {over}, {wording.the} is {ends}.", about, (metric,))


def _losses_of(trials: Trials) -> list[str]:
    """Return the metric of the loss of each optimizer, at most three: above uniform participation where it has that."""
    names = dict.fromkeys([*optimizer_facts(trials, "excess_loss"), *optimizer_facts(trials, "loss")])
    own = [name for name in names if not name.endswith("_uniform")]
    every = ([f"learning.{name}.{what}" for what in ("excess_loss", "loss")] for name in own[:_LOSSES])
    return [next(each for each in both if each in trials.metrics) for both in every]


def _no_loss(trials: Trials) -> Sentence:
    """Say why there is no loss."""
    if trials.scenario.jobs:
        return Sentence(OF_EACH_JOB, MODEL)
    if optimizer_facts(trials, "diverged_round"):
        return Sentence("Training diverged, so no loss can be compared.", MODEL)
    return Sentence("No model was trained.", MODEL)


def common_seeds(one: Floats, other: Floats) -> Bools | None:
    """Say which seeds two settings share, (seeds,); None where both have the same ones, or none together."""
    first, second = np.isfinite(one), np.isfinite(other)
    return None if (first == second).all() or not (first & second).any() else np.asarray(first & second)


def _over_common(one: Floats, other: Floats) -> str:
    both = common_seeds(one, other)
    return "" if both is None else f" over {count(int(both.sum()), 'seed')} that both have"


def courses_of(trials: Trials, metrics: Sequence[str]) -> Iterator[Sentence]:
    """Say how metrics go from one end of each of the outer lines to the other: contrasts, tested together."""
    ways, along = list[tuple[MetricWording, Line]](), trials.axis
    for metric in metrics:
        lines, wording = list(lines_of(trials, metric)), wording_of(metric)
        same = {wording.write(float(mean)) for line in lines for mean in line.mean}
        if len(same) == 1:
            some = "" if sum(len(line.points) for line in lines) == len(trials.settings) else " that has it"
            text = f"{capitalized(wording.the)} is {same.pop()} at every setting{some}."
            yield Sentence(text, about_of(wording.metric), (metric,))
            continue
        ways += [(wording, line) for line in dict.fromkeys((*lines[:1], *lines[-1:]))]
    ends = [trials.samples(wording.metric)[line.points[[0, -1]]] for wording, line in ways]
    judged = tested_together([contrasts_of(each, reference=0) for each in ends])
    for (wording, line), values, found in zip(ways, ends, judged, strict=True):
        assert along is not None
        yield Sentence(_course(wording, along, line, values, found), about_of(wording.metric), (wording.metric,))


def _course(wording: MetricWording, along: Axis, line: Line, values: Floats, found: Contrasts) -> str:
    """Say how a metric goes from one end of a line to the other."""
    where, both = f" with {line.name}" if line.name else "", common_seeds(*values)
    # Numbers of one sentence are of the same seeds.
    start, end = map(wording.write, interval(values if both is None else values[:, both]).mean.tolist())
    x, y = along.named(float(line.x[0])), along.named(float(line.x[-1]))
    apart, half = float(found.difference[1]), float(found.half[1])
    if len(line.points) < 2:
        return f"{capitalized(wording.the)} is {start} at {x}{where}."
    if start == end and (apart == 0 or not np.isfinite(apart)):
        return f"{capitalized(wording.the)} is {start} at {x} and at {y}{where}."
    by = f" ({wording.difference(apart, half)}{_over_common(*values)}{IN_BRACKETS[found.states[1]]})"
    return f"From {x} to {y}{where}, {wording.the} goes from {start} to {end}{by if np.isfinite(apart) else ''}."


IN_BRACKETS = {
    Standing.DIFFERS: ", significant",
    Standing.TIED: ", not significant",
    Standing.FEW: ", too few seeds to test",
    Standing.UNTESTED: ", not tested",
    Standing.SAME: "",
    Standing.NO_VALUE: "",
}
"""What stands behind a difference, by what its test says."""


def _parts(trials: Trials) -> Iterator[Sentence]:
    """Say where each optimizer ends closest to the optimum, what ties, and which part of its loss is the largest."""
    for each in loss_parts(trials):
        found, metric = contrasts_of(each.total), f"learning.{each.name}.{tables.TOTAL}"
        if (best := found.best) is None or len(trials.settings) < 2:
            continue
        value = wording_of(metric).mean(float(found.mean[best]), float(found.margin[best]))
        text = f"“{each.name}” ends closest to the optimum at {trials.names[best]} (loss {value} above it)"
        if tied := found.rows(*UNDECIDED):
            show = "shows" if len(tied) == 1 else "show"
            text += f"; {count(len(tied), 'other setting')} {show} no significant difference"
        elif found.differs.any() and Standing.UNTESTED not in found.states:
            text += "; every other setting is significantly farther"
        yield Sentence(f"{text}.", MODEL, (metric,))
        if largest := each.largest(best):
            text = f"The largest part of that loss of “{each.name}” is {largest[0]} ({percent(largest[1])})."
            yield Sentence(text, MODEL, (metric,))


def _cost(trials: Trials) -> Iterator[Sentence]:
    """Say what the choice costs in pace and in time of devices."""
    row, names, paces, write = chosen(trials), trials.names, means(trials, PACE), wording_of(PACE).write
    if row is None or not np.isfinite(paces[row]):
        return
    fast, pace = int(np.nanargmax(paces)), write(float(paces[row]))
    if not paces_differ(trials):
        yield Sentence(f"Every setting runs {pace}.", COST, (PACE,))
    elif fast == row:
        yield Sentence(f"{names[row]} runs {pace}, and none is faster.", COST, (PACE,))
    else:
        lost = percent(1 - paces[row] / paces[fast])
        text = (
            f"{names[row]} runs {pace}, {lost} less than the fastest, {names[fast]} with {write(float(paces[fast]))}."
        )
        yield Sentence(text, COST, (PACE,))
    rounds = np.maximum(trials.samples("rounds.count"), 1)
    spent = interval(trials.samples("sessions.device_hours") / rounds).mean
    if np.isfinite(spent[row]) and np.nanmin(spent) > 0 and np.nanmax(spent) > (1 + _SAME) * np.nanmin(spent):
        times = float(spent[row] / np.nanmin(spent))
        text = f"{percent(times)} of the device-hours per round of the cheapest setting"
        text = text if times > 1 + _SAME else "the fewest device-hours per round"
        yield Sentence(f"{names[row]} spends {text}.", COST, ("sessions.device_hours", "rounds.count"))
    ends = trade_off(trials)
    if is_open(trials) and ends is not None and len(between := ends.rows[1:-1].tolist()):
        bias, even = means(trials, bias_metric(trials)), wording_of(bias_metric(trials)).write
        ways = [f"{names[each]} ({even(float(bias[each]))} at {write(float(paces[each]))})" for each in between]
        lies = "lies" if len(between) == 1 else "lie"
        text = f"Between the fastest and the most even {lies} {listing_of(ways, NAMED)}."
        yield Sentence(text, COST, (PACE, bias_metric(trials)))


def _sure(trials: Trials) -> Iterator[Sentence]:
    """Say how other settings differ from the best, what would have been seen, and what the test was."""
    (metric, less, conditions), found, names = aim_of(trials), compared(trials), trials.names
    wording, values = wording_of(metric), trials.samples(metric)
    if (best := found.best) is None or len(names) < 2:
        return

    def beside(row: int) -> str:
        apart = wording.difference(float(found.difference[row]), float(found.half[row]))
        return f"{apart}{_over_common(values[row], values[best])}"

    if rows := found.rows(Standing.TIED, Standing.FEW):
        row, half = rows[0], float(found.half[rows[0]])
        some = listing_of([f"{names[each]} ({beside(each)})" for each in rows], NAMED, "more setting")
        text = f"No significant difference from {names[best]}: {some}."
        if found.states[row] is Standing.TIED and np.isfinite(half):
            least = detectable(half, int(found.seeds[row]), max(1, found.tests))
            text += f" A difference of {wording.difference(least, sign=False)} would have been seen."
        yield Sentence(text, TRUST, (metric,))
    if worse := found.rows(Standing.DIFFERS, Standing.UNTESTED):
        row, value = worse[0], wording.write(float(found.mean[worse[0]]))
        sure = "significantly worse" if found.states[row] is Standing.DIFFERS else "worse, not tested"
        text = f"{names[row]}, with {value}, is {sure} ({beside(row)})."
        yield Sentence(text, TRUST, (metric,))
    if (free := contrasts(trials, metric, less_is_better=less).best) is not None and not keeping(trials).kept[free]:
        value = wording.write(float(found.mean[free]))
        text = f"Without the conditions ({limits_of(trials)}) it would be {names[free]} with {value}."
        yield Sentence(text, TRUST, (metric, *(each.metric for each in conditions)))
    if rows := np.flatnonzero(dropped(trials)).tolist():
        worst = [f"{names[row]} ({beside(row)})" for row in rows if np.isfinite(found.difference[row])]
        text = f"{count(len(rows), 'setting')} had no further seeds, worse or missing a condition"
        yield Sentence(f"{text}{': ' * bool(worst)}{listing_of(worst, NAMED, 'more setting')}.", TRUST, (metric,))
    ends, tested = trade_off(trials), Standing.UNTESTED not in found.states
    if tested and trials.scenario.decide is None and ends is not None and (beaten := int(ends.dominated.sum())):
        text = f"{count(beaten, 'setting')} {'is' if beaten == 1 else 'are'} worse than another in bias or pace"
        yield Sentence(f"{text}, and better in neither.", TRUST, (bias_metric(trials), PACE))
    if tested:
        text = "± is half of a 95\N{NARROW NO-BREAK SPACE}% interval; settings are compared with the best by a "
        yield Sentence(f"{text}{found.test}.", TRUST, (metric,))


def _of_optimizers(trials: Trials, optimizers: Trials) -> Iterator[Sentence]:
    """Say who leads, who is last, what they send and keep, and between what bias and pace of the cases lie."""
    found, names, own = ranked(optimizers), _names(optimizers), _typical(optimizers)
    order, figure, cases = found.order.tolist(), optimizers.meta["figure"], optimizers.meta["cases"]
    best, last = order[0], order[-1]
    if (metric := bias_metric(trials)) in trials.metrics:
        yield _spread(trials, metric, BIAS, "cases")
    where = "In the median case, " if len(cases) > 1 else ""
    ways = [f"{names[row]} {number(own[row], 2)}" for row in dict.fromkeys((best, *_usual(optimizers), last))]
    facts = (f"learning.*.{figure}",)
    yield Sentence(f"{capitalized(where + 'the ' + FIGURE_WORDS[figure])}: {listing(ways)}.", MODEL, facts)
    first = [best, *found.rows(*UNDECIDED)]
    ranks = listing_of([f"{names[row]} {found.mean[row]:.1f}" for row in first], NAMED, "more optimizer")
    text = f"The least mean rank of {count(len(names), 'optimizer')}: {ranks}; the last, {names[last]}, has "
    yield Sentence(f"{text}{found.mean[last]:.1f}.", MODEL, facts)
    if lost := optimizers.meta["lost"]:
        text = f"Without a value in some runs, and last there: {listing_of([f'“{name}”' for name in lost], NAMED)}."
        yield Sentence(text, MODEL, facts)
    if PACE in trials.metrics:
        yield _spread(trials, PACE, COST, "cases")
    for row in dict.fromkeys((best, *_usual(optimizers))):
        if (needs := footprint(optimizers.settings["kind"][row])) is not None:
            kept = f"{names[row]} sends {count(needs.sent, 'model')} a report"
            yield Sentence(f"{kept}, and keeps {needs.per_participant + needs.client} per client.", COST)
    if Standing.UNTESTED not in found.states:
        yield Sentence(f"Ranks are compared by a {found.test}.", TRUST, facts)


def _typical(optimizers: Trials) -> Floats:
    """Return the figure of each optimizer: the median over the cases of the means over the seeds."""
    own = np.stack([means(optimizers, in_case(optimizers.meta["figure"], case)) for case in optimizers.meta["cases"]])
    return np.array([np.median(row[np.isfinite(row)]) if np.isfinite(row).any() else np.nan for row in own.T])


def _usual(optimizers: Trials) -> list[int]:
    """Return FedAvg, if it is there."""
    return [row for row, name in enumerate(optimizers.settings["optimizer"]) if name == "fedavg"]


# What was simulated


def what_was_simulated(trials: Trials) -> Iterator[Sentence]:
    """Say how the settings differ, and which devices and rounds every run has."""
    axes = [axis for axis in trials.axes if axis.size > 1]
    choice = f": {listing([f'{axis.name} ({axis.every_value()})' for axis in axes])}" if axes else ""
    every, settings = math.prod(axis.size for axis in axes), count(len(trials.settings), "setting")
    settings += f" of {count(every)} combinations" if axes and len(trials.settings) < every else ""
    yield Sentence(f"{settings} with {_seeds(trials)} each, {count(len(trials.runs), 'run')}{choice}.", WHAT)
    if base := _base(trials):
        yield Sentence(f"Every run simulates {base}.", WHAT)


def trials_setup(trials: Trials) -> str:
    """Say in a few words what was simulated."""
    axes, optimizers = [axis.name for axis in trials.axes if axis.size > 1], by_optimizer(trials)
    cases, seeds = len(trials.settings), _seeds(trials)
    said = f"{count(cases, 'setting')}{f' of {listing(axes)}' if axes else ''}, {seeds} each"
    if optimizers is not None:
        said = f"{count(len(optimizers.settings))} optimizers on {count(cases, 'case')}, {seeds} each"
    base = _base(trials, groups=False)
    said = f"{said}; {base}" if base else said
    return with_separation(said) if optimizers is None else said


def _seeds(trials: Trials) -> str:
    seeds = trials.runs.group_by("setting").len()["len"].to_list() or [0]
    return f"{count_range(min(seeds), max(seeds))} seed{'' if max(seeds) == 1 else 's'}"


def _base(trials: Trials, *, groups: bool = True) -> str:
    """Describe what is not swept, the groups too where they are asked for; empty where all of it is."""
    scenario, server, stop = trials.scenario, trials.scenario.server, trials.scenario.stop
    swept = {part.partition("[")[0] for name in trials.swept for part in name.split(".")}
    whole = {name for name in trials.swept if "." not in name}
    if "population" in whole or "devices" in swept:
        return ""
    parts = [_devices(scenario.population, named=groups)]
    if "stop" not in swept:
        ways = [count(stop.rounds, "round")] if stop.rounds is not None else []
        ways += [duration(stop.duration)] if stop.duration is not None else []
        parts.append(f"over {' or '.join(ways)}" if ways else "")
    if isinstance(server, SyncServer) and "cohort" not in swept and "server" not in whole:
        parts.append(f"in cohorts of {count(server.cohort)}")
    return " ".join(filter(None, parts))


def _devices(groups: Sequence[Group], *, named: bool) -> str:
    text = count(sum(group.devices for group in groups), "device")
    if named and 1 < len(groups) <= _GROUPS:
        text += f" ({listing([f'{count(group.devices)} “{group.name}”' for group in groups])})"
    return text + (f" in {len(groups)} groups" if len(groups) > _GROUPS else "")


# Tiles, tables and charts


def tiles_of(trials: Trials) -> Iterator[Tile]:
    """Pick the key figures of trials: what was chosen by, bias and pace of the choice, or optimizers; and the runs."""
    optimizers, row, settings = by_optimizer(trials), chosen(trials), len(trials.settings)
    words = {bias_metric(trials): "from uniform (TV)", PACE: PACE_UNIT}
    aim = aim_of(trials).metric
    for metric in dict.fromkeys((aim, *words)):
        wording, mean = wording_of(metric), means(trials, metric)
        if optimizers is not None or row is None or not np.isfinite(mean[row]):
            continue
        write = wording.apart if metric == PACE else wording.write
        low, high = (write(float(end)) for end in (np.nanmin(mean), np.nanmax(mean)))
        spread = (
            f"at {trials.names[row]}; of all settings {low} to {high}" if low != high else "the same at every setting"
        )
        yield Tile(write(float(mean[row])), words.get(metric, wording.words), spread if settings > 1 else "")
    if optimizers is not None:
        found, own = ranked(optimizers), _typical(optimizers)
        for each in dict.fromkeys((int(found.order[0]), *_usual(optimizers), int(found.order[-1]))):
            place = f"{_names(optimizers)[each]}, rank {found.order.tolist().index(each) + 1} of {len(found.order)}"
            yield Tile(number(own[each], 2), FIGURE_WORDS[optimizers.meta["figure"]], place)
        yield Tile(count(settings), "cases" if settings != 1 else "case", f"{_seeds(trials)} each")
    else:
        names = ", ".join(axis.name for axis in trials.axes)
        yield Tile(count(settings), "settings" if settings != 1 else "setting", f"of {names}" if names else "")
    complete = trials.runs.filter(status=COMPLETE).height
    yield Tile(count(complete), "runs complete", f"of {count(len(trials.runs))}, {_seeds(trials)} each")


def _sections(trials: Trials, optimizers: Trials | None) -> Iterator[Section]:
    """Yield charts and tables: what is chosen among, parts of the loss, privacy, what moves, groups."""
    row, parts = chosen(trials), list(loss_parts(trials))
    settings: Table = tables.settings_table(trials)
    if optimizers is not None:
        own = [tables.optimizer_table(optimizers), tables.winners_table(optimizers)]
        yield Section("optimizers", "Optimizers", (_rank_chart(optimizers),), own)
        yield Section("points", "Cases", (), [settings])
    else:
        yield Section("points", "Settings", tuple(_first_charts(trials, row)), [settings])
    drawn = [] if optimizers is not None else [parts_chart(trials, each, row) for each in parts]
    yield Section("parts", "What the loss is made of", drawn, [tables.parts_table(trials, each) for each in parts])
    yield Section("privacy", "Privacy", (), [tables.privacy_table(trials)])
    if optimizers is None:
        yield Section("trends", "Along the sweep", tuple(_trends(trials)))
    yield Section("groups", "Groups", (), [tables.group_ratio_table(trials)])


def _first_charts(trials: Trials, row: int | None) -> Iterator[Chart | None]:
    """Draw the settings by what is chosen by, and bias against pace, or along the sweep where the pace is the same."""
    even, along = bias_metric(trials), trials.axis
    if trials.scenario.decide is not None and compared(trials).best is not None:
        yield _settings_chart(trials)
    if along is None or along.size < 2:
        return
    if paces_differ(trials) and np.isfinite(trials.samples(even)).any():
        yield trade_off_chart(trials)
    else:
        theory = "participation.l1_uniform_theory" if even == L1 else None
        yield line_chart(trials, even, "distance", "Distance from uniform (TV)", theory, row)


def _settings_chart(trials: Trials) -> Chart:
    """Draw what is chosen by at each setting with its interval, the best first."""
    found, wording = compared(trials), wording_of(aim_of(trials).metric)
    rows = [row for row in order_of(trials) if np.isfinite(found.mean[row])][:_ROWS]
    open_ = np.array([row in {found.best, *found.rows(*UNDECIDED)} for row in rows])
    legend = ("best, or no significant difference", "worse, or missing a condition")
    mean, half = wording.scale * found.mean[rows], wording.scale * found.margin[rows]
    data = Rows(tuple(trials.names[row] for row in rows), mean, half, open_, legend, wording.axis, None, chosen=0)
    left = int(np.isfinite(found.mean).sum()) - len(rows)
    notes = [f"{count(left, 'setting')} left out."] if left else []
    return row_plot(data, _PICTURE, f"{capitalized(wording.axis)} at each setting", notes)


def _rank_chart(optimizers: Trials) -> Chart:
    """Draw the mean rank of each optimizer with its interval."""
    found, words = ranked(optimizers), FIGURE_WORDS[optimizers.meta["figure"]]
    order = found.order
    open_ = np.array([row in {found.best, *found.rows(*UNDECIDED)} for row in order.tolist()])
    names = tuple(optimizers.settings["optimizer"][row] for row in order.tolist())
    unit, legend = f"mean rank of {len(order)} (1: best)", ("first, or no significant difference", "worse")
    data = Rows(names, found.mean[order], found.margin[order], open_, legend, unit, None)
    title = f"Mean ranks over {count(len(optimizers.meta['cases']), 'case')}"
    return row_plot(data, "ranks", title, [f"By the {words}; compared by a {found.test}."])


def _trends(trials: Trials) -> Iterator[Chart | None]:
    """Draw the metrics that move along the sweep, but for those of the first charts."""
    if trials.axis is None or trials.axis.size < 2:
        return
    shown = dict.fromkeys((aim_of(trials).metric, *headlines(trials)))
    for metric in [each for each in shown if each not in {bias_metric(trials), PACE}][:_TRENDS]:
        if moves(trials, metric):
            name = "".join(each if each.isascii() and (each.isalnum() or each in "_-") else "-" for each in metric)
            yield line_chart(trials, metric, f"trend-{name}", _title(metric), None, chosen(trials))


def _title(metric: str) -> str:
    """Name a metric above its chart, by its label or what it means."""
    wording, (known, parts) = wording_of(metric), split(metric)
    if wording.words != metric or known is None:
        return capitalized(wording.words)
    owner = [f"“{name}”" for name in parts.values()]
    return ", ".join((capitalized(known.words), *owner))
