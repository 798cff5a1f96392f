"""What trials answer, be they a sweep, a decision or optimizers over cases: each number a value or a contrast."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from fedsim.common.arrays import Bools, Floats
from fedsim.common.formatting import (
    capitalized,
    count,
    count_range,
    duration,
    fixed,
    give_or_take,
    listing,
    listing_of,
    number,
    percent,
    with_separation,
)
from fedsim.measure.metrics import describe, split
from fedsim.measure.shares import ROUNDING
from fedsim.pages import trial_tables as tables
from fedsim.pages.answer import (
    BIAS,
    COST,
    MODEL,
    PRIVACY,
    QUESTIONS,
    TRUST,
    WHAT,
    Answer,
    Check,
    Grade,
    Section,
    Sentence,
    Tile,
)
from fedsim.pages.charts import Chart
from fedsim.pages.charts.plot import Rows, row_plot
from fedsim.pages.charts.sweeps import TRADE_OFF, curves_chart, line_chart, pace_chart, parts_chart, trade_off_chart
from fedsim.pages.commands import command_of, in_own_folders
from fedsim.pages.expectations import sweep_verdict
from fedsim.pages.metric_wording import read_condition, tv, wording_of
from fedsim.pages.provenance import sweep_provenance
from fedsim.pages.tables import COVERED
from fedsim.pages.trial_checks import (
    NAMED,
    checks_of_trials,
    losses_of,
    reports_and_chance,
    theory_check,
    theory_of_sides,
    unsettled,
)
from fedsim.pages.trial_tables import FIGURE_WORDS, Ranking, leaders, loss_parts, means, ranking_of, why_unfit
from fedsim.run.check import agreeing
from fedsim.scenario.server import SyncServer
from fedsim.trials.contrasts import Standing, contrasts, interval
from fedsim.trials.decision import (
    L1,
    MATTERS,
    MOSTLY,
    ROUNDS,
    SHORTAGE,
    SLACK,
    UNDECIDED,
    JudgedSettings,
    Why,
    aim_of,
    bias_metric,
    judge_settings,
    lengths_differ,
    open_settings,
    pace_metric,
    without_noise,
    worth,
)
from fedsim.trials.optimizers import by_optimizer, cases_won, footprint, metrics_of, ranked, twins
from fedsim.trials.trials import COARSE, COMPARED, FACTS, FULL, SIDE, Trials, is_separation

_ROWS = 24  # settings in a picture at most
_HARDLY = 0.9  # of the loss of an initial model: what is still above it has hardly fallen
_NOTHING = 0.001  # of a loss: an excess of one run that is no finding
_HOURS, _SESSIONS = "sessions.device_hours", "sessions.count"
_LOSSES = ("loss", "above_optimum")
_PICTURE, _OF_GROUP = "settings", "group.GROUP.reported_ratio"
_FLAGS = {
    "converged": "losses have not converged",
    "ended": "{} did not do all its rounds",
    "chance": "much of that is chance",
    "edge": "the best may lie beyond",
}
"""What a headline says of the first of these checks that asks for caution."""
_FIGURES = (_PICTURE, "distance", TRADE_OFF, "ranks", "curves", "loss-and-pace", "parts-*")


def trials_answer(trials: Trials, checks: Sequence[Check] = ()) -> Answer:
    """Return what is said of trials: of settings which to choose, of optimizers which leads.

    `checks` are those of what the trials were made of, and come first.
    """
    optimizers, checks, judged = by_optimizer(trials), (*checks, *checks_of_trials(trials)), judge_settings(trials)
    choice = None if tables.untrained(trials) else judged.choice
    sentences = [*_sentences(trials, optimizers, choice)] if trials.metrics else []
    sentences += _trust(trials, checks)
    return Answer(
        kind="decision" if command_of(trials.meta, "decide") else "sweep",
        name=trials.name,
        headline=capitalized(_headline(trials, optimizers, checks)),
        question=trials.scenario.question or "",
        setup=_setup(trials, optimizers),
        description=trials.scenario.description,
        status=str(trials.meta.get("status") or ""),
        verdict=sweep_verdict(trials),
        checks=in_own_folders(agreeing(checks)),
        sentences=sorted(sentences, key=lambda each: QUESTIONS.index(each.about)),
        picture="curves" if tables.untrained(trials) else "",
        tiles=tuple(_tiles(trials, optimizers, choice)),
        sections=tuple(_sections(trials, optimizers, tables.marked(trials))),
        figures=_FIGURES,
        origins={"": sweep_provenance(trials.meta)},
    )


# The headline


def _headline(trials: Trials, optimizers: Trials | None, checks: Sequence[Check]) -> str:
    """Return the first bad check; else the metric of `headline`, who leads of optimizers, or what to choose."""
    if (bad := next((each.text for each in checks if each.state is Grade.BAD), None)) is not None:
        return bad
    if trials.stage == FACTS and trials.scenario.decide is not None:
        return _open(trials, trials.scenario.decide.metric)
    asked = trials.scenario.headline or ""
    if (aim_of(trials).metric != asked or asked.endswith("bias_error")) and np.isfinite(trials.samples(asked)).any():
        most = np.nanmax(means(trials, asked.removesuffix("_error")), initial=0)  # of an error of theory, its scale
        scale = f"; from the optimum it ends at most {number(most, 2)}" if asked.endswith("bias_error") else ""
        return f"{_extremes(trials, asked)}{scale}."
    flag = _flag(trials, checks)
    if optimizers is None:
        return f"{_choice(trials)}{flag}."
    several = len(optimizers.meta["cases"]) > 1
    if several:
        return f"{_over_cases(ranking_of(trials), optimizers)}{flag}."
    gain, least = "", min((ratio for of in tables.start_ratios(trials) for ratio in of.values()), default=1.0)
    if optimizers.meta["figure"] == "loss" and least < 1 and tables.gained_nothing(trials):
        gain = f", no more than {percent(1 - least)} below its initial model"
    return f"{_leading(ranking_of(trials), among=gain)}{flag}."


def _over_cases(ranking: Ranking, optimizers: Trials) -> str:
    """Say in how many cases the first by mean rank is best or ties, and those that keep less among their like."""
    cases, (first, _, won), *led = len(optimizers.meta["cases"]), *leaders(optimizers)
    often = f"{won} of {count(cases)}" if won < cases else "both" if cases == 2 else f"all {count(cases)}"
    text = "cannot tell yet: " * (Standing.FEW in ranking.contrasts.states)
    ways = [f"; {of}, {optimizers.names[row]} (in {wins or 'none'})" for row, of, wins in led]
    return f"{text}{optimizers.names[first]} is best, or ties, in {often} cases{''.join(ways)}"


def _flag(trials: Trials, checks: Sequence[Check]) -> str:
    """Say in brackets what most keeps a headline from being sure, and which setting is left out; "" if nothing.

    That is one seed, or the first of `_FLAGS`.
    """
    contrast, judged = ranking_of(trials).contrasts, judge_settings(trials)
    if Standing.FEW in contrast.states or judged.why is Why.ENOUGH or SIDE in trials.parameters:
        return ""  # the headline itself says so
    amber, row = {each.name for each in checks if each.state is Grade.CAUTION}, judged.choice or 0
    moving = judged.aim.metric.startswith("learning.") and any(mask[row].any() for mask in unsettled(trials).values())
    if by_optimizer(trials) is None and not moving:
        amber.discard("converged")  # no loss is compared, or that of the choice has converged
    ways = [words.format(trials.names[row]) for name, words in _FLAGS.items() if name in amber]
    ways = ["one seed, not tested"] if Standing.UNTESTED in contrast.states else ways[:1]
    ways = ways if len(contrast.order) > 1 else []
    for row in [*_left_out(judged), *np.flatnonzero(judged.unfit).tolist()][:1]:
        ways = [each for each in ways if each != _FLAGS["edge"]]
        ways.append(f"{trials.names[row]} is not compared")
    return f" ({'; '.join(ways)})" if ways else ""


def _open(trials: Trials, metric: str) -> str:
    """Say how many settings a decision has left before it trains, and which of them is the best by facts."""
    settings, gone = count(len(trials.settings), "setting"), int((~open_settings(trials)).sum())
    went = f"{count(gone) if gone else 'none'} of {settings} surely {'miss' if gone > 1 else 'misses'} a condition"
    contrast, text = judge_settings(trials).contrast, went
    if metric != aim_of(trials).metric:
        text = f"cannot tell yet: {wording_of(metric).words} is not known before training; {went}"
    if contrast.best is None:
        return f"{text}."
    wording, value = wording_of(aim_of(trials).metric), ranking_of(trials).value(contrast.best)
    has = f"{wording.extreme(contrast)} ({value}{wording.from_uniform})"
    return f"{text}; of {'the others' if gone else 'them'} {trials.names[contrast.best]} has {has}."


def stage_in_words(trials: Trials) -> str:
    """Say how far a decision got, and of what part of the devices and of the time it speaks; "" of others."""
    part, short = trials.meta.get("part", {}), trials.meta.get("part", {}).get("short")
    if not part:
        return ""
    by = wording_of(aim_of(trials).metric).words
    what = {
        FACTS: "These are facts of short runs without training",
        COARSE: f"This is a coarse ranking by the {by}, with few variants and seeds: its intervals are wide",
        FULL: "All settings that were left were tuned and compared in full",
    }
    whole = count(trials.scenario.devices * trials.scale, "device")
    of = [f"one in {count(trials.scale)} of the {whole}"] if trials.scale > 1 else []
    of += [f"the first {count(short['days'], 'day')}, with totals carried on to the end"] if short else []
    text = f"{what[trials.stage]}{f', from {listing(of)}' if of else ''}."
    if trials.stage == FACTS:
        off = f"{100 * SLACK:.0f}\N{NARROW NO-BREAK SPACE}%"
        return f"{text} A setting goes if it misses a limit even when its figure is {off} off."
    if gone := part["gone"]:
        text += f" {count(gone, 'setting')} surely {'misses' if gone == 1 else 'miss'} a condition, and went before."
    return text


def _choice(trials: Trials) -> str:
    """Say what to choose, what ties with it, and at what price in pace; of two sides, whether they differ."""
    judged, ranking = judge_settings(trials), ranking_of(trials)
    (contrast, names, wording), row, paces = ranking, judged.choice, means(trials, pace_metric(trials))
    if contrast.best is None or row is None:
        return f"nothing to choose by: no run has a value of {wording.metric}"
    if SIDE in trials.parameters and len(names) == 2 and (open_ := _not_apart(trials)):
        return open_
    if judged.why is Why.ENOUGH:
        return _enough(trials, ranking, row)
    if judged.why is Why.FASTEST:
        return f"{names[row]} is the fastest, and the most even, {names[contrast.best]}, is not significantly more even"
    choose = "Choose " * (trials.scenario.decide is not None)
    kept = " of those compared" * bool(_left_out(judged) and Standing.FEW in contrast.states)  # else a flag says it
    kept = kept if judged.kept.all() else " of those that keep the conditions"
    along = judged.why is Why.BEST and not choose and len(names) > 2
    if (along or judged.aim.metric == trials.scenario.headline) and (course := _course(trials, ranking)):
        return course
    if judged.why is Why.TIES:
        return f"{choose}{_cheapest(trials, judged, ranking, kept)}"
    fast = row if judged.front is None else int(judged.front[0])
    if fast != row and judged.why is Why.OPEN:
        near = wording.difference(float(contrast.mean[row] - contrast.mean[fast]), sign=False)
        noise = ", noise removed," * wording.metric.endswith(without_noise(""))
        even, faster = ("more even", "faster") if len(names) == 2 else ("the most even", "the fastest")
        text = f"{names[row]} is {even} and {names[fast]} {faster}: {near} nearer to uniform{noise}"
        return f"{text} for {percent(1 - paces[row] / paces[fast])} less pace"
    return _leading(ranking, choose, kept)


def _not_apart(trials: Trials) -> str:
    """Say of two sides that they do not differ significantly, and by how much theory has it; "" where they do."""
    contrast, names, wording = ranking = ranking_of(trials)
    other = next((row for row in contrast.order.tolist() if row != contrast.reference), None)
    if other is None or contrast.states[other] is Standing.DIFFERS:
        return ""
    apart, half = abs(float(contrast.difference[other])), float(contrast.tested_half[other])
    about, both = "no more than about " * bool(np.isfinite(half)), f"{ranking.at(0)} and {ranking.at(1)}"
    by = wording.difference(apart + half if about else apart, sign=False)
    words = f"how even participation is (TV{wording.from_uniform})" if wording.from_uniform else wording.words
    if contrast.states[other] is Standing.SAME or not contrast.difference[other]:
        return f"{wording.words} is the same at {names[0]} and {names[1]}: {ranking.value(0)}"
    if contrast.states[other] is Standing.UNTESTED:
        return f"{words}: {both}; one run each is no test"
    if (theory := theory_of_sides(trials)) is not None:
        near, far = np.argsort(theory).tolist()
        more, ends = wording_of(L1).difference(np.ptp(theory), sign=False), [tv(theory[each]) for each in (far, near)]
        text = f"{names[far]} is {more} further from uniform than {names[near]}, {' for '.join(ends)}"
        text = f"by theory {text if len({*ends}) > 1 else f'both are {ends[0]} from uniform'} (TV)"
        return f"{text}; measured, they are {wording.difference(apart, half, sign=False)} apart, not significantly"
    return f"no significant difference in {words}: {both}, {about}{by} apart"


def _enough(trials: Trials, ranking: Ranking, row: int) -> str:
    """Say which length is enough, and by how much longer runs differ from it at most."""
    (axis,), (contrast, _, wording) = trials.axes, ranking
    longer = np.flatnonzero(axis.x > axis.x[row])
    most = float(np.max(np.abs(contrast.mean[longer] - contrast.mean[row])))
    rounds = axis.parameters == ("stop.rounds",)
    length = f"{count(axis.x[row], 'round')} are" if rounds else f"{axis.at(axis.x[row])} is"
    few = {contrast.states[each] for each in (row, *longer)} & {Standing.FEW, Standing.UNTESTED}
    tests = f"; {count(len(trials.seeds), 'seed')} test no such difference" if few else ", which is not significant"
    way = f"changes by {wording.difference(most, sign=False)} at most{tests}"
    return f"{length} enough: up to {axis.at(float(axis.x.max()))} the {wording.words} ({ranking.value(row)}) {way}"


def _course(trials: Trials, ranking: Ranking) -> str:
    """Say how what is asked for goes along the one axis, of which one end is the worst, and significantly if tested."""
    contrast, names, wording = ranking
    if len(trials.axes) != 1 or trials.axes[0].ticks or contrast.best is None:
        return ""
    path, best, worst = np.argsort(trials.axes[0].x).tolist(), contrast.best, int(contrast.order[-1])
    state, mean, metric = contrast.states[worst], contrast.mean, wording.metric
    nothing = _is_nothing(trials, metric)
    if nothing.all():
        return f"{wording.words} is less than {percent(_NOTHING)} of the loss at every setting"
    if worst not in {path[0], path[-1]} or state not in {Standing.DIFFERS, Standing.UNTESTED}:
        return ""
    up = worst == path[0]  # else the best is where less is swept
    ends, path = ((worst, best), path) if up else ((best, worst), path[::-1])
    shown = ranking._replace(wording=wording.of_column(float(np.abs(mean[[*ends]]).max())))
    way = np.abs(mean - mean[worst]) / abs(mean[best] - mean[worst])  # how much of it each setting has gone
    apart = contrast.differs if state is Standing.DIFFERS else way < 1 - MATTERS
    first, last = shown.at(ends[0]), shown.at(ends[1])
    if up and nothing[path[-1]]:
        since = path[max(at for at, row in enumerate(path) if not nothing[row]) + 1]
        last = f"about 0 from {names[since]} on" if since != path[-1] else f"about 0 at {names[since]}"
    falls, always = mean[ends[0]] > mean[ends[1]], bool((np.diff(way[path]) > -MATTERS).all()) and not apart[path[-1]]
    text = f"{wording.words} {'falls' if falls else 'rises'} from {first} to {last}"
    if up and always and is_separation(trials.axes[0].parameters[0]):
        text = f"the longer clients wait, the {'lower' if falls else 'higher'} the {wording.words}: {first}, {last}"
    if up and nothing[path[-1]]:
        return text
    if apart[end := path[-1]]:
        return f"{text}, and is {shown.at(end)}" if up else text
    flat = path[max(at for at, row in enumerate(path) if apart[row]) + 1 :]
    if len(flat) < 2 or best not in flat:
        return text
    if state is Standing.DIFFERS:
        level = "lower" if contrast.less_is_better else "higher"
        return f"{text}; from {names[flat[0]]} {'on' if up else 'down'} it is not significantly {level}"
    return f"{text}; {names[flat[0]]} already brings {percent(way[flat[0]])} of that" if flat[0] != best else text


def _is_nothing(trials: Trials, metric: str) -> Bools:
    """Say where one run has an excess of a loss that is too small a part of it to be a finding."""
    mean, loss = means(trials, metric), means(trials, metric.replace("excess_loss", "loss"))  # of an excess, the whole
    alone = metric.endswith("excess_loss") and len(trials.seeds) < 2
    return np.asarray(alone & (np.abs(mean) < _NOTHING * loss))


def _cheapest(trials: Trials, judged: JudgedSettings, ranking: Ranking, kept: str) -> str:
    """Say of a setting that it is as good as the best, or not significantly worse, and why it is taken."""
    (contrast, names, wording), row, why = ranking, judged.choice or 0, list[str]()
    others = [each for each in judged.tied if each != row]
    value, best, few = f"({ranking.sure(row)}{wording.from_uniform})", contrast.best or 0, len(others) < NAMED
    if abs(contrast.mean[row] - contrast.mean[best]) > MATTERS * worth(contrast):
        spent, less = means(trials, judged.cost[0]), "lowest" if contrast.less_is_better else "highest"
        costs = f"{_amount(judged.cost[0], spent[row])} against {wording_of(judged.cost[0]).write(float(spent[best]))}"
        text = f"{names[row]}: its {wording.words} ({ranking.value(row)}) is not significantly worse than the {less}"
        return f"{text} ({ranking.value(best)}){kept}, for {costs}"
    for cost in judged.cost:
        if cost not in trials.metrics:
            why.append("the least R")
            continue
        which = "fastest" if cost == pace_metric(trials) else "cheapest"
        ends = [wording_of(cost).write(float(each)) for each in means(trials, cost)[[row, others[0]]]]
        why.append(f"the {which} of them ({wording_of(cost).words}: {ends[0]} against {ends[1]} at {names[others[0]]})")
    tied_with = listing([names[each] for each in others]) if few else count(len(others), "other setting")
    return f"{names[row]}: as good as {tied_with} for {wording.extreme(contrast)} {value}{kept}, and {listing(why)}"


def _left_out(judged: JudgedSettings) -> list[int]:
    """Return the settings with a better figure than those that are compared, which did not do what others did."""
    contrast = judged.contrast
    best = np.nan if contrast.best is None else contrast.mean[contrast.best]
    better = contrast.mean < best if contrast.less_is_better else contrast.mean > best
    return np.flatnonzero(judged.unfit & better).tolist()


def _leading(ranking: Ranking, choose: str = "", among: str = "") -> str:
    """Say which setting or optimizer is the best by a metric, and what the tests say of the others."""
    contrast, names, wording = ranking
    best = contrast.best or 0
    if len(names) == 1:
        return f"{wording.words}: {ranking.sure(best)}"
    has = f"has {wording.extreme(contrast)} ({ranking.sure(best)}{wording.from_uniform}){among}"
    text = f"{choose}{names[best]}{': it' if choose else ''} {has}"
    few, tied = contrast.rows(Standing.FEW), contrast.rows(*UNDECIDED)
    others = listing_of([f"{names[row]} ({ranking.value(row)})" for row in few or tied], NAMED)
    others = "the others" if len(few) == len(names) - 1 > 1 else others
    if few:
        seeds, verb = count(int(contrast.seeds[few].max()), "seed"), "is" if len(few) == 1 else "are"
        yet = "" if choose else "cannot tell yet: "
        return f"{yet}{text}; {seeds} are too few to test whether {others} {verb} worse"
    if len(tied) == len(names) - 1 and len(tied) > 1:
        return f"{text}, but no difference is significant" if choose else f"no difference is significant: {text}"
    if tied:
        return f"{text}, {others} not significantly worse"
    if (worse := int(contrast.differs.sum())) and choose:
        return f"{text}, significantly"
    if worse:
        done = "" if among else " compared" if Standing.NO_VALUE in contrast.states else " that were tried"
        return f"{text}; {f'each of the {worse} others{done}' if worse > 1 else 'the other'} is significantly worse"
    return text


# Sentences


def _sentences(trials: Trials, optimizers: Trials | None, choice: int | None) -> Iterator[Sentence]:
    """Say how biased the choice is, what its loss is made of, what it costs, and how settings were compared."""
    judged, names, sides = judge_settings(trials), trials.names, SIDE in trials.parameters
    row, wait = None if optimizers is not None or sides else choice, means(trials, SHORTAGE)
    bias = bias_metric(trials)
    yield from [] if row is None else _of_bias(trials, row)
    yield from _of_excess(trials)
    if optimizers is not None:
        if np.isfinite(trials.samples(bias)).any():
            yield Sentence(f"{capitalized(_extremes(trials, bias))}.", BIAS, (bias,))
            fair = reports_and_chance(trials)[1]
            if not bias.endswith(without_noise("")) and np.ptp(fair) <= ROUNDING:
                yield Sentence(f"Equal chances would give {tv(float(fair[0]))}.", BIAS)
        yield from _of_optimizers(trials, optimizers)
    elif sides:
        yield from _of_sides(trials)
    if row is not None:
        yield from _of_groups(trials, row)
        yield from _of_parts(trials, row)
        yield from _of_costs(trials, judged, row)
        if 0 < wait[row] <= MOSTLY:  # else a check says so
            text = f"{percent(float(wait[row]))} of the rounds at {names[row]} found too few eligible clients."
            yield Sentence(text, COST, (SHORTAGE,))
    for out in _left_out(judged) if row is not None else ():
        wording, (there, here) = wording_of(judged.aim.metric), means(trials, bias)[[out, row or 0]].tolist()
        even = f", and is more even ({tv(there)} for {tv(here)})" * (there < here and judged.aim.metric != bias)
        value = f"{wording.words} ({wording.write(judged.contrast.mean[out])})"
        text = f"{capitalized(names[out])} has a better {value}{even}"
        yield Sentence(f"{text}, but {why_unfit(trials, out, time=True)}.", TRUST, (judged.aim.metric,))
    if (curves := curves_chart(trials)) is not None and curves.finding:
        yield Sentence(curves.finding, COST)
    if tables.untrained(trials):
        yield Sentence("Losses stay about where the initial models have them, or rise, at every setting.", WHAT)
    ratios = tables.start_ratios(trials)
    falls = [(of[name], name, at) for at, of in enumerate(ratios) for name in of]
    if falls and _HARDLY < min(falls)[0] < 1:
        least, name, at = min(falls)
        alone = optimizers is not None and len(ratios[at]) == 1  # the setting names it
        who = names[at] if alone else f"“{name}” at {names[at]}"
        text = f"Losses hardly fall: over the last half of the rounds that of {who} is {percent(1 - least)} below that"
        yield Sentence(f"{text} of the initial model, and none is further below.", MODEL)
    yield from _of_separation(trials)
    if stage := stage_in_words(trials):
        yield Sentence(stage, TRUST)
    if command_of(trials.meta, "decide") and trials.stage != FACTS:
        yield Sentence(_tuned(trials), TRUST)


def _of_bias(trials: Trials, row: int) -> Iterator[Sentence]:
    """Say how far from uniform the choice is, and whether noise or waiting explains that."""
    bias, where = bias_metric(trials), f" at {trials.names[row]}" * (len(trials.names) > 1)
    far, fair = float(means(trials, bias)[row]), float(reports_and_chance(trials)[1][row])
    of, entry = "reports" if "reported" in bias else "participations", describe(bias)
    clean = bias.endswith(without_noise(""))
    if not np.isfinite(far):
        return
    if far > ROUNDING:
        text = f"{tv(far)} of the {of}{where} would have to come from other clients for all to take part equally"
        text += ", without what noise adds." if clean else "."
    elif clean and entry is not None:
        most = f"{tv(float(means(trials, entry.high)[row]))} of the {of}"
        text = f"Noise alone can explain how unevenly clients take part{where}: beyond it, at most {most} would have to"
        text += " come from other clients."
    else:
        text = f"All clients take part equally often{where}."
    if ROUNDING < far < fair and means(trials, "participation.separation.least")[row] > 1 and not clean:
        text += f" That is more even than equal chances ({tv(fair)}): clients wait for their next turn."
    yield Sentence(text, BIAS, (bias,))


def _trust(trials: Trials, checks: Sequence[Check]) -> Iterator[Sentence]:
    """Say how many seeds there are, and what tests of differences allow for; of one seed each a check says it."""
    contrast, runs = ranking_of(trials).contrasts, trials.runs.group_by("setting").len()["len"].to_list()
    alone = max(runs, default=0) < 2
    for each in checks if alone else ():
        if each.name == "seeds" and each.state is Grade.OK:
            yield Sentence(each.text, TRUST, each.facts)
    if alone or trials.stage == FACTS:
        return
    tests = f"tests allow for {count(contrast.tests, 'difference')}, at 95\N{NARROW NO-BREAK SPACE}%"
    tests = tests if contrast.tests else "differences are the same with each of them"
    exact = "nothing is compared" if len(contrast.order) < 2 else tests
    exact = "settings are not compared, since training failed in every run" if tables.untrained(trials) else exact
    yield Sentence(f"{count_range(min(runs), max(runs))} seeds each: {exact}.", TRUST)


def _of_separation(trials: Trials) -> Iterator[Sentence]:
    """Say that no number of rounds is promised between participations, where runs had some: as with a cool-down."""
    metrics = ("privacy.separation", "privacy.most", "participation.most")
    separation, promised, most = (np.nanmax(trials.samples(each), initial=0) for each in metrics)
    if separation == 1 and 0 < most < promised:
        who = "A cool-down by the clock" if any(name.endswith("cooldown") for name in trials.swept) else "The server"
        text = f"{who} promises no least number of rounds between two participations of a client (b = 1): epsilon "
        text += f"allows for a client in all {count(promised, 'round')}, though none was in more than {count(most)}. "
        yield Sentence(f"{text}With a separation in rounds the same epsilon needs less noise.", PRIVACY, metrics)


def _of_sides(trials: Trials) -> Iterator[Sentence]:
    """Say what is on each side of a comparison: bias, losses that have converged, pace and device-hours."""
    bias, open_ = bias_metric(trials), [name for name, mask in unsettled(trials).items() if mask.any()]
    if who := listing([f"“{name}”" for name in open_ if name not in twins(trials)]):
        yield Sentence(f"What participation does to the loss of {who} cannot be said yet: it has not converged.", MODEL)
    settled = [each for each in losses_of(trials) if split(each)[1]["optimizer"] not in open_]
    for about, metrics in {BIAS: (bias,), MODEL: settled, COST: (pace_metric(trials), _HOURS)}.items():
        for metric in dict.fromkeys(each for each in metrics if np.isfinite(trials.samples(each)).any()):
            alone = about == MODEL and Standing.UNTESTED in contrasts(trials, metric, less_is_better=True).states
            text = f"{capitalized(_extremes(trials, metric))}.{' One run each is no test.' * alone}"
            yield Sentence(text, about, (metric,))


def _of_excess(trials: Trials) -> Iterator[Sentence]:
    """Say by which share the loss of the one optimizer lies above that under uniform participation."""
    names = [name for name in metrics_of(trials, "excess_loss") if name not in twins(trials)]
    for name in names if len(names) == 1 and len(trials.settings) > 1 else ():
        excess, loss = (means(trials, f"learning.{name}.{figure}") for figure in ("excess_loss", "loss"))
        share = excess / np.where(loss - excess > 0, loss - excess, np.nan)
        for high, low in [(np.nanargmax(share), np.nanargmin(share))] if np.isfinite(share).any() else ():
            ends = [f"{percent(float(share[row]))} at {trials.names[row]}" for row in dict.fromkeys((high, low))]
            text = f"Excess loss of “{name}” as a share of the loss under uniform participation: {listing(ends)}."
            yield Sentence(text, MODEL, (f"learning.{name}.excess_loss",))


def _of_groups(trials: Trials, row: int) -> Iterator[Sentence]:
    """Say which group reports least beside its size, at the choice, where that is less than its share for sure."""
    named = [(split(name), name) for name in trials.metrics]
    groups = {of["group"]: name for (entry, of), name in named if entry and entry.name == _OF_GROUP}
    shares = {group: float(means(trials, name)[row]) for group, name in groups.items()}
    least = min(shares, key=shares.__getitem__, default="")
    half = float(interval(trials.samples(groups[least])).half[row]) if least else np.nan
    if len(shares) > 1 and shares[least] + np.nan_to_num(half) < 1:
        times = f"gives {give_or_take(shares[least], half)} times its fair share of the reports"
        yield Sentence(f"Group “{least}” {times}, the least of {len(shares)} groups.", BIAS, (groups[least],))


def _of_parts(trials: Trials, row: int) -> Iterator[Sentence]:
    """Say what the loss of the choice is made of, and in short what those of other optimizers are made of."""
    who, where, both = "The loss", f"at {trials.names[row]} ", list[Floats]()
    for name, parts in loss_parts(trials).items():
        whole, *rest = [(words, float(means(trials, metric)[row])) for words, metric in parts.items()]
        if np.isfinite([value for _, value in (whole, *rest)]).all():
            of = listing([f"{fixed(value)} {words}" for words, value in rest])
            text = f"{who} of “{name}” {where}lies {fixed(whole[1])} above the optimum: {of}."
            yield Sentence(text, MODEL, tuple(parts.values()))
            who, where, both = "That", "", [*both, trials.samples(parts["whole loss"])[row]]
    for apart in [interval(both[1] - both[0])] if len(both) == 2 else ():
        if abs(apart.mean) <= apart.half:
            text = f"The two tie: they are {give_or_take(abs(float(apart.mean)), float(apart.half))} apart."
            yield Sentence(text, MODEL)


def _of_costs(trials: Trials, judged: JudgedSettings, row: int) -> Iterator[Sentence]:
    """Say at what pace the choice goes, what it takes and when it is at its target, and what is cheaper or sooner."""
    pace, cost = pace_metric(trials), _SESSIONS if lengths_differ(trials) else _HOURS
    paces, spent, names = means(trials, pace), means(trials, cost), trials.names
    shown = [_amount(each, of[row]) for each, of in ((pace, paces), (cost, spent)) if np.isfinite(of[row])]
    days = float(means(trials, "rounds.count")[row] / means(trials, ROUNDS)[row])
    if shown:
        whole = f", over {duration(86400 * days)}" if np.isfinite(days) else ""
        alike = len(names) > 1 and not any(tables.differ(each, ROUNDING) for each in (paces, spent))
        where = "At every setting" if alike else capitalized(names[row])
        yield Sentence(f"{where}: {', for '.join(shown)}{whole}.", COST, (pace, cost))
    target = f"learning.{split(judged.aim.metric)[1].get('optimizer')}.time_to_target"
    times = np.where(np.isfinite(trials.samples(target)).all(axis=1), means(trials, target), np.nan)
    if np.isfinite(times[row]):
        soonest = contrasts(trials, target, less_is_better=True, eligible=np.isfinite(times) & ~judged.unfit)
        text, soon = f"Training reaches its target after {duration(times[row])} at {names[row]}", soonest.best or 0
        if soonest.states[row] is Standing.DIFFERS:
            text += f", and after {duration(times[soon])} at {names[soon]}"
        elif len(soonest.order) > 1:
            text += ", and at no other significantly sooner"
        yield Sentence(f"{text}.", COST, (target,))
    if ties := [each for each in judged.tied if spent[each] < 0.9 * spent[row]]:
        least, wording = min(ties, key=spent.__getitem__), wording_of(judged.aim.metric)
        value = wording.write(float(judged.contrast.mean[least]))
        text = f"{capitalized(names[least])} is not significantly worse ({value}), for {_amount(cost, spent[least])}."
        yield Sentence(text, COST, (cost, judged.aim.metric))


def _amount(metric: str, value: float) -> str:
    """Write an amount with its unit: ``5,100 reports per day``, ``387 device-hours``."""
    wording = wording_of(metric)
    return f"{wording.write(float(value))}{'' if wording.unit else f' {wording.words}'}"


def _tuned(trials: Trials) -> str:
    """Say what a decision tuned at each setting, and on how many seeds of its own."""
    if not trials.tuned or (learning := trials.scenario.learning) is None:
        return "Nothing was tuned: settings are compared as they are written."
    keys = [path.split(".", 3) for path in trials.tuned]
    inside = [f"`{of[3]}` of “{learning.optimizers[int(of[2])].label}”" for of in keys if of[1:2] == ["optimizers"]]
    elsewhere = [f"`{'.'.join(of)}`" for of in keys if of[1:2] != ["optimizers"]]
    seeds = count(trials.facts.filter(pl.col("stage") != COMPARED)["stage"].n_unique(), "other seed")
    return f"Each setting was tuned on {seeds}: {listing([*inside, *elsewhere])}."


def _extremes(trials: Trials, metric: str) -> str:
    """Say at which settings a metric has its lowest and its highest mean."""
    ranking = Ranking(contrasts(trials, metric, less_is_better=True), trials.names, wording_of(metric))
    contrast, names, wording = ranking
    low, high = int(np.nanargmin(contrast.mean)), int(np.nanargmax(contrast.mean))
    if ranking.value(low) == ranking.value(high):
        some = "" if np.isfinite(contrast.mean).all() else " that has it"
        every = f" at {'both' if len(names) == 2 else 'every setting'}{some}" if len(names) > 1 else ""
        return f"{wording.words}: {ranking.value(low)}{every}"
    if len(names) == 2:
        return f"{wording.words}: {listing([f'{ranking.sure(row)} at {names[row]}' for row in (0, 1)])}"
    low_at, high_at = (f"at {names[row]} ({ranking.sure(row)})" for row in (low, high))
    return f"{wording.words}: lowest {low_at}, highest {high_at}"


def _of_optimizers(trials: Trials, optimizers: Trials) -> Iterator[Sentence]:
    """Say which optimizers are not ranked, and what those that lead send, keep and give up."""
    meta = optimizers.meta
    row, *led = dict.fromkeys([*ranked(optimizers).order[:1].tolist(), *(at for at, *_ in leaders(optimizers))])
    kinds, names, facts = [*optimizers.settings["kind"]], optimizers.names, (f"learning.*.{meta['figure']}",)
    if gone := meta["elsewhere"]:
        text = f"Not ranked, without a result in some cases: {listing_of([f'“{name}”' for name in gone], NAMED)}."
        yield Sentence(text, TRUST, facts)
    for each in (row, *led):
        if (needs := footprint(kinds[each])) is not None:
            stores = {"on the device": needs.client, "on the server": needs.per_participant}
            kept = [f"keeps {count(models, 'model')} per client {where}" for where, models in stores.items() if models]
            sends = f"{names[each]} sends {count(needs.sent, 'model')} a report"
            yield Sentence(f"{sends}, and {listing(kept) or 'keeps none per client'}.", COST)
    if len(meta["cases"]) > 1:
        yield Sentence(f"{capitalized(_leading(ranking_of(trials)))}.", MODEL, facts)
        often = [sum(case in each for each in cases_won(optimizers).values()) for case in meta["cases"]]
        alone = [case for case, best in zip(meta["cases"], often, strict=True) if best == 1]
        text = f"one optimizer is best alone in {listing_of(alone, NAMED)}" if alone else "none has one best alone"
        text = f"Of {count(len(often), 'case')} {text}; several tie in {sum(best > 1 for best in often)}."
        yield Sentence(text, MODEL, facts)
        others = [at for at, kind in enumerate(kinds) if at != row and (at in led or kind == "fedavg")]
        if times := tables.times_of(optimizers, row, others):
            far = max(times, key=lambda at: float(times[at].max()))
            ways = [f"{names[at]} {number(np.median(of), 3)}" for at, of in times.items()]
            text = f"Median {FIGURE_WORDS[meta['figure']]}, in multiples of that of {names[row]}: {listing(ways)}"
            case = tables.head_of(optimizers, meta["ranked"][int(times[far].argmax())])
            yield Sentence(f"{text}; {names[far]} is furthest behind in {case}.", MODEL, facts)


# What was simulated


def _setup(trials: Trials, optimizers: Trials | None) -> str:
    """Say in a few words what was simulated."""
    seeds = trials.runs.group_by("setting").len()["len"].to_list() or [0]
    each = f"{count_range(min(seeds), max(seeds))} seed{'' if max(seeds) == 1 else 's'} each"
    axes = listing([axis.name for axis in trials.axes if axis.size > 1 and axis.parameters != (SIDE,)])
    text = f"{count(len(trials.settings), 'setting')}{f' of {axes}' if axes else ''}"
    if optimizers is not None:
        cases = len(optimizers.meta["cases"])
        some, every = len(ranked(optimizers).order), len(optimizers.settings)
        text = f"{f'{count(some)} of ' * (some < every)}{count(every)} optimizers{' ranked' * (some < every)}"
        text += f" on {count(cases)} cases" * (cases > 1)
    base = f"; {common}" if (common := _base(trials)) else ""
    spent, privacy = trials.samples("privacy.epsilon"), trials.scenario.privacy
    if privacy is not None and np.isfinite(spent).any() and np.nanmax(spent) - np.nanmin(spent) <= ROUNDING:
        base += f"; epsilon {number(np.nanmax(spent))}, delta {number(privacy.delta)}"
    return with_separation(f"{text}, {each}{base}")


def _base(trials: Trials) -> str:
    """Describe what is not swept; empty where all of it is."""
    scenario, server, stop = trials.scenario, trials.scenario.server, trials.scenario.stop
    swept = {part.partition("[")[0] for name in trials.swept for part in name.split(".")}
    whole = {name for name in trials.swept if "." not in name}
    if "population" in whole or "devices" in swept:
        return ""
    parts = [count(scenario.devices * trials.scale, "device")]
    if "stop" not in swept:
        parts.append(stop.in_words())
    if isinstance(server, SyncServer) and "cohort" not in swept and "server" not in whole:
        parts.append(f"cohorts of {count(server.cohort * trials.scale)}")
    return ", ".join(parts)


# Tiles, tables and charts


def _tiles(trials: Trials, optimizers: Trials | None, row: int | None) -> Iterator[Tile]:
    """Pick the key figures: what was chosen by, bias and pace of the choice; and the runs."""
    if optimizers is None and row is not None:
        aim, limits, judged = aim_of(trials), dict[str, str](), judge_settings(trials)
        fast = judged.front[:1].tolist() if judged.why is Why.OPEN and judged.front is not None else []
        last = judged.contrast.order[-1:].tolist() if judged.why is Why.BEST and len(trials.axes) == 1 else []
        beside = fast or [each for each in last if each != row] or [1 - row] * (len(trials.settings) == 2)
        for each in aim.conditions:
            kept = "met" if each.holds(float(means(trials, each.metric)[row])) else "missed"
            limits[each.metric] = f"{kept}: {read_condition(each.text)[0]}"
        named = dict[str, str]()
        for metric in dict.fromkeys((aim.metric, *limits, bias_metric(trials), pace_metric(trials))):
            every, wording = means(trials, metric).tolist(), wording_of(metric)
            moves = len(every) < 2 or metric in {aim.metric, *limits} or tables.differ(means(trials, metric), ROUNDING)
            if moves and np.isfinite(every[row]) and named.setdefault(wording.words, metric) == metric:
                value, write = wording.write(every[row]), wording.write
                value = "about 0" if _is_nothing(trials, metric)[row] else value
                noisy = metric == bias_metric(trials) and not metric.endswith(without_noise(""))
                fair = reports_and_chance(trials)[1] if noisy else np.zeros(len(every))
                chance = [f" (equal chances: {tv(each)})" if each > 0 else "" for each in fair.tolist()]
                there = [f"at {name}{by}" for name, by in zip(trials.names, chance, strict=True)]
                other = [f"; {write(every[at])} {there[at]}" for at in beside if write(every[at]) != value]
                detail = f"{limits[metric]}{chance[row]}" if metric in limits else f"{there[row]}{''.join(other)}"
                yield Tile(value, wording.words, detail)
        if SIDE in trials.parameters and len(judged.contrast.order) == 2:
            first, other = judged.contrast.order.tolist()
            ends = (float(each[other]) for each in (judged.contrast.difference, judged.contrast.tested_half))
            apart = f"{trials.names[other]} minus {trials.names[first]}"
            yield Tile(wording_of(aim.metric).difference(*ends), "difference", apart)
    if optimizers is not None and len(cases := optimizers.meta["cases"]) > 1:
        (first, like, won), *led = leaders(optimizers)
        yield Tile(f"{won} of {count(len(cases))}", f"cases in which {optimizers.names[first]} is best or ties", like)
        times = tables.times_of(optimizers, first, [at for at, *_ in led])
        label = f"times the {FIGURE_WORDS[optimizers.meta['figure']]} of {optimizers.names[first]}, in the median case"
        for at, like, won in led if len(times) == len(led) else ():
            detail = f"{optimizers.names[at]}, {like}: best or ties in {won}"
            yield Tile(number(np.median(times[at]), 3), label, detail)


def _sections(trials: Trials, optimizers: Trials | None, row: int | None) -> Iterator[Section]:
    """Yield charts and tables: what is chosen among, parts of the loss, privacy, what moves."""
    parts, settings = loss_parts(trials), tables.settings_table(trials)
    drawn = list[Chart | None]()
    if optimizers is not None:
        ranking, figure = ranking_of(trials), FIGURE_WORDS[optimizers.meta["figure"]]
        cases = len(optimizers.meta["cases"])
        note = f"By the {figure}; compared by a {ranking.contrasts.test}. What is not compared is not drawn."
        yield Section("winners", "Optimizers by case", (), [tables.winners_table(optimizers)])
        open_ = {Standing.FEW, Standing.UNTESTED} & {*ranking.contrasts.states}
        failed, best = tables.gained_nothing(trials), None if open_ else ranking.contrasts.best
        missed = np.isin(optimizers.settings["optimizer"].to_numpy(), failed)
        chart = _standing_chart(ranking, "ranks", best, note, cases < 2, missed)
        table = tables.optimizer_table(optimizers, failed)
        more = [tables.figures_table(optimizers), tables.methods_table(trials, optimizers)]
        yield Section("optimizers", "Optimizers", (chart,), [table, *more])
        if cases > 1:
            yield Section("points", "Cases", (), [settings])
    else:
        yield Section("points", "Settings", tuple(_first_charts(trials, row)), [settings])
        drawn = [parts_chart(trials, *each, row) for each in parts.items()]
        drawn = [each and replace(each, aside=at > 0) for at, each in enumerate(drawn)]  # the first is chosen by
    loss = next((each for each in (aim_of(trials).metric, *losses_of(trials)) if each.endswith(_LOSSES)), None)
    several = any(name.startswith("learning.problem") for name in trials.swept)  # problems, each with its own losses
    paced = [] if loss is None or several else [pace_chart(trials, loss, "loss-and-pace", "Loss beside pace")]
    curves = curves_chart(trials)
    charts = [curves and replace(curves, finding=""), *(each and replace(each, aside=True) for each in paced)]
    yield Section("learning", "Learning", charts)
    shown = [tables.parts_table(trials, *each) for each in parts.items()]
    yield Section("parts", "What the loss is made of", drawn, shown)
    yield Section("privacy", "Privacy", (), [tables.privacy_table(trials)])


def _first_charts(trials: Trials, row: int | None) -> Iterator[Chart | None]:
    """Draw the settings by what is chosen by, bias along the sweep, and bias beside the pace where that differs."""
    even, along, contrast, aim = bias_metric(trials), trials.axis, ranking_of(trials).contrasts, aim_of(trials).metric
    failed = tables.untrained(trials) and aim.startswith("learning.")  # of which a chart shows noise
    if trials.scenario.decide is not None and contrast.best is not None:
        yield _standing_chart(ranking_of(trials), _PICTURE, row)
    elif aim != even and not failed:
        yield line_chart(trials, aim, _PICTURE, capitalized(wording_of(aim).words), None, row)
    if along is None or along.size < 2:
        return
    theory = COVERED if even in {L1, without_noise(L1)} else None
    agree = [each.text for each in theory_check(trials) if each.state is Grade.OK and theory]
    chart = line_chart(trials, even, "distance", "Distance from uniform (TV)", theory, row)
    yield chart and replace(chart, finding="".join(agree), aside=failed)
    yield trade_off_chart(trials)


def _standing_chart(
    ranking: Ranking, name: str, row: int | None, note: str = "", apart: bool = False, failed: Bools | None = None
) -> Chart:
    """Draw a metric of settings or optimizers with its interval, the best first; or how far they lie `apart` from it.

    Seeds are paired, so that differences have much shorter intervals than the figures themselves. Training may have
    `failed` at some.
    """
    contrast, names, wording = ranking
    order = contrast.order.tolist() if note else tables.order_of(contrast)  # of optimizers those that are compared
    order = [row for row in order if np.isfinite(contrast.mean[row])]
    rows, left = order[:_ROWS], len(order) - _ROWS
    filled = np.array([row in {contrast.best, *contrast.rows(*UNDECIDED)} for row in rows])
    ways = {Standing.REFERENCE: "the best"} | dict.fromkeys((Standing.TIED, Standing.SAME), "not significantly worse")
    ways |= {Standing.FEW: Standing.FEW.value}
    there = dict.fromkeys(ways[contrast.states[row]] for row in rows if contrast.states[row] in ways)
    mean, half, axis = contrast.mean[rows], contrast.margin[:, rows], wording.axis
    if apart and contrast.best is not None:
        mean = np.where(np.array(rows) == contrast.best, 0.0, contrast.difference[rows])
        half, axis = contrast.tested_half[rows], f"{axis}, minus that of {names[contrast.best]}"
    mean, half = wording.scale * mean, wording.scale * half
    chosen = next((at for at, each in enumerate(rows) if each == row), None)
    shown = [names[row] for row in rows]
    out = np.array([contrast.states[row] is Standing.NO_VALUE for row in rows]) if failed is None else failed[rows]
    legend = (", or ".join(there), "worse", "not compared" if failed is None else tables.FAILED)
    data = Rows(shown, mean, half, filled, legend, axis, 0.0 if apart else None, chosen, crossed=out)
    notes = [note, f"{count(left)} left out." * (left > 0)]
    return row_plot(data, name, capitalized(axis), [*filter(None, notes)])
