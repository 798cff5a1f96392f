"""What trials answer, be they a sweep, a decision or optimizers over cases: each number a value or a contrast."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from fedsim.common.formatting import (
    above_dust,
    capitalized,
    count,
    count_range,
    duration,
    fixed,
    listing,
    listing_of,
    number,
    percent,
    with_separation,
)
from fedsim.measure.metrics import split
from fedsim.measure.shares import ROUNDING
from fedsim.pages import trial_tables as tables
from fedsim.pages.answer import BIAS, COST, MODEL, TRUST, Answer, Check, Grade, Section, Sentence, Tile
from fedsim.pages.charts import Chart
from fedsim.pages.charts.plot import Rows, row_plot
from fedsim.pages.charts.sweeps import TRADE_OFF, curves_chart, line_chart, pace_chart, parts_chart, trade_off_chart
from fedsim.pages.commands import command_of, in_own_folders
from fedsim.pages.expectations import sweep_verdict
from fedsim.pages.metric_wording import MetricWording, read_condition, tv, wording_of
from fedsim.pages.provenance import sweep_provenance
from fedsim.pages.trial_checks import NAMED, checks_of_trials, losses_of, reports_and_chance, unsettled
from fedsim.pages.trial_tables import FIGURE_WORDS, leaders, loss_parts, means, ranking_of, why_unfit
from fedsim.run.check import agreeing
from fedsim.scenario.server import SyncServer
from fedsim.trials.contrasts import Contrasts, Standing, contrasts, margins
from fedsim.trials.decision import (
    ALIKE,
    L1,
    MATTERS,
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
from fedsim.trials.optimizers import MEMORY, by_optimizer, footprint, in_case, metrics_of, ranked, twins
from fedsim.trials.trials import COARSE, COMPARED, COMPLETE, FACTS, FULL, SIDE, Trials

_ROWS = 24  # settings in a picture at most
_HOURS, _SESSIONS = "sessions.device_hours", "sessions.count"
_PICTURE = "settings"
_ROOM = {MEMORY[1]: "where devices keep nothing", MEMORY[2]: "where a few numbers are kept"}
_FIGURES = (_PICTURE, "distance", TRADE_OFF, "ranks", "curves", "loss-and-pace", "parts-*")


def trials_answer(trials: Trials, checks: Sequence[Check] = ()) -> Answer:
    """Return what is said of trials: of settings which to choose, of optimizers which leads.

    `checks` are those of what the trials were made of, and come first.
    """
    optimizers, checks, judged = by_optimizer(trials), (*checks, *checks_of_trials(trials)), judge_settings(trials)
    choice = None if tables.untrained(trials) else judged.choice
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
        sentences=tuple(_sentences(trials, optimizers, choice)) if trials.metrics else (),
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
    if aim_of(trials).metric != asked and np.isfinite(trials.samples(asked)).any():
        return _extremes(trials, asked)
    if optimizers is not None:
        best = leaders(optimizers) if len(optimizers.meta["cases"]) > 1 else []
        first = {row: memory for memory, row in best[::-1] if row != best[0][1]}  # of one optimizer, the most room
        less = [f"{optimizers.names[row]} {_ROOM[memory]}" for row, memory in reversed(first.items())]
        gain = _gain(trials) if optimizers.meta["figure"] == "loss" and not best else ""
        return f"{_leading(*ranking_of(trials), among=gain)}{f'; the best is {listing(less)}' if less else ''}."
    return f"{_choice(trials)}."


def _gain(trials: Trials) -> str:
    """Say how far the best training got below the loss of its initial model; "" where all did, or none."""
    least = min((ratio for of in tables.start_ratios(trials) for ratio in of.values()), default=1.0)
    some = least < 1 and tables.gained_nothing(trials)
    return f", no more than {percent(1 - least)} below its initial model" if some else ""


def _open(trials: Trials, metric: str) -> str:
    """Say how many settings a decision has left before it trains, and which of them is the best by facts."""
    settings, gone = len(trials.settings), int((~open_settings(trials)).sum())
    went = f"{count(gone)} of {count(settings, 'setting')} surely {'misses' if gone == 1 else 'miss'} a condition"
    later = f"; {wording_of(metric).words} is not known yet" if metric != aim_of(trials).metric else ""
    contrast = judge_settings(trials).contrast
    if contrast.best is None:
        return f"{went}{later}."
    best, wording = contrast.best, wording_of(aim_of(trials).metric)
    has = f"{wording.extreme(contrast)} ({wording.write(float(contrast.mean[best]))}{wording.from_uniform})"
    return f"{went}{later}; of the others {trials.names[best]} has {has}."


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
    of = [f"one in {count(trials.scale)} of the {count(trials.scenario.devices * trials.scale, 'device')}"]
    of = of if trials.scale > 1 else []
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
    judged, wording, names = judge_settings(trials), wording_of(aim_of(trials).metric), trials.names
    contrast, row, paces = judged.contrast, judged.choice, means(trials, pace_metric(trials))
    if contrast.best is None or row is None:
        return f"nothing to choose by: no run has a value of {wording.metric}"
    if SIDE in trials.parameters and len(names) == 2 and (open_ := _not_apart(trials, judged)):
        return open_
    if judged.why is Why.ENOUGH:
        return _enough(trials, judged)
    if judged.why is Why.FASTEST:
        return f"{names[row]} is the fastest, and the most even, {names[contrast.best]}, is not significantly more even"
    choose = "Choose " * (trials.scenario.decide is not None)
    kept = " of those that keep the conditions" if not judged.kept.all() else ""
    kept = kept or " of those compared" * bool(_left_out(judged))
    by_aim = judged.aim.metric == trials.scenario.headline
    by_aim |= judged.why is Why.BEST and not choose and len(names) > 2
    if by_aim and (course := _course(trials, contrast, wording)):
        return course
    if judged.why is Why.TIES:
        return f"{choose}{_cheapest(trials, judged, kept)}"
    fast = int(np.nanargmax(paces)) if np.isfinite(paces).any() else row
    if fast != row and judged.why is Why.OPEN:
        write, two = wording_of(pace_metric(trials)).write, len(names) == 2
        ends = [(wording.write(float(contrast.mean[each])), write(float(paces[each]))) for each in (row, fast)]
        also = " most even of the" * bool((paces >= (1 - ALIKE) * paces[fast]).sum() > 1)
        even, at = f"{names[row]} is {'more' if two else 'the most'} even", f"at {names[fast]}"
        text = f"{even}: {ends[0][0]}{wording.from_uniform} at {ends[0][1]}, against {' at '.join(ends[1])}"
        return f"{text} {at if two else f'{at}, the{also} fastest'}{_untested(contrast)}"
    return _leading(contrast, names, wording, choose, kept)


def _not_apart(trials: Trials, judged: JudgedSettings) -> str:
    """Say of two sides that they do not differ significantly, and by how much their paces do; "" where they do."""
    contrast, wording, names = judged.contrast, wording_of(judged.aim.metric), trials.names
    other = next((row for row in contrast.order.tolist() if row != contrast.reference), None)
    if other is None or contrast.states[other] is Standing.DIFFERS:
        return ""
    values, pace = [wording.write(float(each)) for each in contrast.mean], pace_metric(trials)
    by = wording.difference(float(contrast.difference[other]), sign=False)
    paces = means(trials, pace)
    both = f"{values[0]} at {names[0]} and {values[1]} at {names[1]}"
    far = abs(float(contrast.difference[other])) + float(contrast.tested_half[other])
    by = f"no more than about {wording.difference(far, sign=False)}" if np.isfinite(far) else by
    text = f"{wording.words} does not differ significantly: {both}, {by} apart"
    if contrast.states[other] is Standing.SAME or not contrast.difference[other]:
        text = f"{wording.words} is the same at {names[0]} and {names[1]}: {values[0]}"
    elif contrast.states[other] is Standing.UNTESTED:
        text = f"{wording.words}: {both}; one run each is no test"
    if np.isfinite(paces).all() and abs(paces[1] - paces[0]) > 0.02 * paces.max():
        write = wording_of(pace).write
        text += f"; the {wording_of(pace).words} is {write(float(paces[0]))} and {write(float(paces[1]))}"
    return text


def _enough(trials: Trials, judged: JudgedSettings) -> str:
    """Say which length is enough, and by how much longer runs differ from it at most."""
    (axis,), row, contrast = trials.axes, judged.choice or 0, judged.contrast
    wording, longer = wording_of(judged.aim.metric), np.flatnonzero(axis.x > axis.x[row])
    most = float(np.max(np.abs(contrast.mean[longer] - contrast.mean[row])))
    rounds = axis.parameters == ("stop.rounds",)
    length = f"{count(axis.x[row], 'round')} are" if rounds else f"{axis.at(axis.x[row])} is"
    few = {contrast.states[each] for each in (row, *longer)} & {Standing.FEW, Standing.UNTESTED}
    tests = f"{count(len(trials.seeds), 'seed')} test no such difference" if few else "which is not significant"
    value = wording.write(float(contrast.mean[row]))
    by = f"by {wording.difference(most, sign=False)} at most; {tests}" if few else ""
    by = by or f"by {wording.difference(most, sign=False)} at most, {tests}"
    return f"{length} enough: up to {axis.at(float(axis.x.max()))} the {wording.words} ({value}) changes {by}"


def _course(trials: Trials, contrast: Contrasts, wording: MetricWording) -> str:
    """Say how what is asked for goes along the one axis, of which one end is the worst, and significantly if tested."""
    if len(trials.axes) != 1 or trials.axes[0].ticks or contrast.best is None:
        return ""
    path, best, worst = np.argsort(trials.axes[0].x).tolist(), contrast.best, int(contrast.order[-1])
    state = contrast.states[worst]
    if worst not in {path[0], path[-1]} or state not in {Standing.DIFFERS, Standing.UNTESTED}:
        return ""
    ends = (worst, best) if worst == path[0] else (best, worst)
    verb = "falls" if contrast.mean[ends[0]] > contrast.mean[ends[1]] else "rises"
    first, last = (f"{wording.write(float(contrast.mean[row]))} at {trials.names[row]}" for row in ends)
    text, path = f"{wording.words} {verb} from {first} to {last}", path if worst == path[0] else path[::-1]
    if state is Standing.UNTESTED:
        return f"{text}{_untested(contrast)}"
    if contrast.states[end := path[-1]] is Standing.DIFFERS:
        back = f"{wording.write(float(contrast.mean[end]))} at {trials.names[end]}"
        return f"{text}, and is {back}" if worst == path[0] else text
    flat = path[max(at for at, row in enumerate(path) if contrast.states[row] is Standing.DIFFERS) + 1 :]
    if len(flat) < 2 or best not in flat:
        return text
    level = "lower" if contrast.less_is_better else "higher"
    way = "on" if worst == path[0] and ends[0] == worst else "down"
    return f"{text}; from {trials.names[flat[0]]} {way} it is not significantly {level}"


def _cheapest(trials: Trials, judged: JudgedSettings, kept: str) -> str:
    """Say of a setting that it is as good as the best, or not significantly worse, and why it is taken."""
    contrast, wording, names = judged.contrast, wording_of(judged.aim.metric), trials.names
    row, others, why = judged.choice or 0, [each for each in judged.tied if each != judged.choice], list[str]()
    value = f"({wording.mean(float(contrast.mean[row]), contrast.margin[:, row])}{wording.from_uniform})"
    best, few = contrast.best or 0, len(others) < NAMED
    if abs(contrast.mean[row] - contrast.mean[best]) > MATTERS * worth(contrast):
        spent, less = means(trials, judged.cost[0]), "lowest" if contrast.less_is_better else "highest"
        costs = f"{_amount(judged.cost[0], spent[row])} against {wording_of(judged.cost[0]).write(float(spent[best]))}"
        text = f"{names[row]}: its {wording.words} {value} is not significantly worse than the {less}"
        return f"{text} ({wording.write(float(contrast.mean[best]))}){kept}, for {costs}"
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


def _untested(contrast: Contrasts) -> str:
    return " (one seed, not tested)" if Standing.UNTESTED in contrast.states else ""


def _leading(
    contrast: Contrasts, names: Sequence[str], wording: MetricWording, choose: str = "", among: str = ""
) -> str:
    """Say which setting or optimizer is the best by a metric, and what the tests say of the others."""
    best = contrast.best or 0
    value = wording.mean(float(contrast.mean[best]), contrast.margin[:, best])
    if len(names) == 1:
        return f"{wording.words}: {value}"
    value = f"({value}{wording.from_uniform})"
    text = f"{choose}{names[best]}{': it' if choose else ''} has {wording.extreme(contrast)} {value}{among}"
    few, tied = contrast.rows(Standing.FEW), contrast.rows(*UNDECIDED)
    values = [wording.write(float(each)) for each in contrast.mean]
    others = listing_of([f"{names[row]} ({values[row]})" for row in few or tied], NAMED)
    others = "the others" if len(few) == len(names) - 1 > 1 else others
    if few:
        seeds, verb = count(int(contrast.seeds[few].max()), "seed"), "is" if len(few) == 1 else "are"
        return f"{text}; {seeds} are too few to test whether {others} {verb} worse"
    if len(tied) == len(names) - 1 and len(tied) > 1:
        return f"{text}, but no difference is significant"
    if tied:
        return f"{text}, {others} not significantly worse"
    if worse := int(contrast.differs.sum()):
        done = "" if among else " compared" if Standing.NO_VALUE in contrast.states else " that were tried"
        return f"{text}; {f'each of the {worse} others{done}' if worse > 1 else 'the other'} is significantly worse"
    return f"{text}{_untested(contrast)}"


# Sentences


def _sentences(trials: Trials, optimizers: Trials | None, choice: int | None) -> Iterator[Sentence]:
    """Say how biased the choice is, what its loss is made of, what it costs, and how settings were compared."""
    judged, names, sides = judge_settings(trials), trials.names, SIDE in trials.parameters
    row, bias = None if optimizers is not None or sides else choice, bias_metric(trials)
    wait, far = means(trials, SHORTAGE), np.nan if row is None else float(means(trials, bias)[row])
    if row is not None and np.isfinite(far):
        of, where = "reports" if "reported" in bias else "participations", f" at {names[row]}" * (len(names) > 1)
        noise = ", without what noise adds" if bias.endswith(without_noise("")) else ""
        for_all = f"for all to take part equally{noise}"
        text = f"{tv(far)} of the {of}{where} would have to come from other clients {for_all}."
        text = text if far > ROUNDING else f"All clients take part equally often{where}{noise}."
        yield Sentence(text, BIAS, (bias,))
    yield from _of_excess(trials)
    if optimizers is not None:
        yield from _of_optimizers(optimizers)
    elif sides:
        yield from _of_sides(trials)
    if row is not None:
        yield from _of_groups(trials, row)
        yield from _of_parts(trials, row)
        yield from _of_costs(trials, judged, row)
        if np.isfinite(wait[row]) and wait[row] > 0:
            text = f"{percent(float(wait[row]))} of the rounds at {names[row]} found too few eligible clients."
            yield Sentence(text, COST, (SHORTAGE,))
    for out in _left_out(judged) if row is not None else ():
        value = wording_of(judged.aim.metric).write(float(judged.contrast.mean[out]))
        text = f"{capitalized(names[out])} ({value}) {why_unfit(trials, out, time=True)}."
        yield Sentence(text, TRUST, (judged.aim.metric,))
    yield from _of_separation(trials)
    if stage := stage_in_words(trials):
        yield Sentence(stage, TRUST)
    if command_of(trials.meta, "decide") and trials.stage != FACTS:
        yield Sentence(_tuned(trials), TRUST)


def _of_separation(trials: Trials) -> Iterator[Sentence]:
    """Say that no number of rounds is promised between participations, where runs had some: as with a cool-down."""
    metrics = ("privacy.separation", "privacy.most", "participation.most")
    separation, promised, most = (np.nanmax(trials.samples(each), initial=0) for each in metrics)
    if separation == 1 and 0 < most < promised:
        clock = any(name.endswith("cooldown") for name in trials.swept)
        text = (
            f"{'A cool-down by the clock' if clock else 'The server'} promises no least number of rounds between two "
        )
        text += f"participations of a client (b = 1): epsilon counts {count(promised)}, and no client had over "
        yield Sentence(f"{text}{count(most)}.", TRUST, metrics)


def _of_sides(trials: Trials) -> Iterator[Sentence]:
    """Say what is on each side of a comparison: bias, losses that have converged, pace and device-hours."""
    bias, moving = bias_metric(trials), unsettled(trials)
    parts = {BIAS: (bias,), MODEL: losses_of(trials), COST: (pace_metric(trials), _HOURS)}
    for about, metrics in parts.items():
        for metric in dict.fromkeys(each for each in metrics if np.isfinite(trials.samples(each)).any()):
            text = capitalized(_extremes(trials, metric))
            if about == MODEL:
                states = contrasts(trials, metric, less_is_better=True).states
                text += " One run each is no test." * (Standing.UNTESTED in states)
                text += " It has not converged." * bool(moving.get(split(metric)[1]["optimizer"], np.zeros(1)).any())
            yield Sentence(text, about, (metric,))


def _of_excess(trials: Trials) -> Iterator[Sentence]:
    """Say by which share the loss of the one optimizer lies above that under uniform participation."""
    names = [name for name in metrics_of(trials, "excess_loss") if name not in twins(trials)]
    for name in names if len(names) == 1 and len(trials.settings) > 1 else ():
        excess, loss = (means(trials, f"learning.{name}.{figure}") for figure in ("excess_loss", "loss"))
        share, ends = excess / np.where(loss - excess > 0, loss - excess, np.nan), list[str]()
        for row in dict.fromkeys((np.nanargmax(share), np.nanargmin(share))) if np.isfinite(share).any() else ():
            way = "above" if share[row] > 0 else "below"
            ends.append(f"{percent(abs(float(share[row])))} {way} at {trials.names[row]}")
        text = f"The loss of “{name}” beside that under uniform participation: {listing(ends)}."
        yield from [Sentence(text, MODEL, (f"learning.{name}.excess_loss",))] if ends else []


def _of_groups(trials: Trials, row: int) -> Iterator[Sentence]:
    """Say which group reports least beside its size, at the choice."""
    groups = {parts["group"]: name for name in trials.metrics if (parts := _of_group(name))}
    shares = {group: float(means(trials, name)[row]) for group, name in groups.items()}
    if len(shares) > 1 and (least := min(shares, key=shares.__getitem__)) and shares[least] < 1:
        times = f"gives {number(shares[least], 3)} times its fair share of the reports"
        yield Sentence(f"Group “{least}” {times}, the least of {len(shares)} groups.", BIAS, (groups[least],))


def _of_group(metric: str) -> Mapping[str, str]:
    """Return the group whose reports a metric counts in fair shares; empty of others."""
    entry, parts = split(metric)
    return parts if entry is not None and entry.name == "group.GROUP.reported_ratio" else {}


def _of_parts(trials: Trials, row: int) -> Iterator[Sentence]:
    """Say what the loss of the choice is made of."""
    for name, parts in loss_parts(trials).items():
        values = {words: float(means(trials, metric)[row]) for words, metric in parts.items()}
        whole, *rest = values.items()
        if np.isfinite([*values.values()]).all():
            of = listing([f"{fixed(value)} {words}" for words, value in rest])
            text = f"The loss of “{name}” at {trials.names[row]} lies {fixed(whole[1])} above the optimum: {of}."
            yield Sentence(text, MODEL, tuple(parts.values()))


def _of_costs(trials: Trials, judged: JudgedSettings, row: int) -> Iterator[Sentence]:
    """Say at what pace the choice goes and what it takes, and what the cheapest takes that ties with it."""
    pace, cost = pace_metric(trials), _SESSIONS if lengths_differ(trials) else _HOURS
    paces, spent, names = means(trials, pace), means(trials, cost), trials.names
    shown = [_amount(each, of[row]) for each, of in ((pace, paces), (cost, spent)) if np.isfinite(of[row])]
    days = float(means(trials, "rounds.count")[row] / means(trials, ROUNDS)[row])
    if shown:
        whole = f", over {duration(86400 * days)}" if np.isfinite(days) else ""
        yield Sentence(f"{capitalized(names[row])}: {', for '.join(shown)}{whole}.", COST, (pace, cost))
    ties = [each for each in judged.tied if spent[each] < 0.9 * spent[row]]
    if ties:
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
    inside, elsewhere = list[str](), list[str]()
    for path in trials.tuned:
        parts = path.split(".", 3)
        if parts[:2] == ["learning", "optimizers"]:
            inside.append(f"`{parts[3]}` of “{learning.optimizers[int(parts[2])].label}”")
        else:
            elsewhere.append(f"`{path}`")
    seeds = count(trials.facts.filter(pl.col("stage") != COMPARED)["stage"].n_unique(), "other seed")
    return f"Each setting was tuned on {seeds}: {listing([*inside, *elsewhere])}."


def _extremes(trials: Trials, metric: str) -> str:
    """Say at which settings a metric has its lowest and its highest mean."""
    wording, names, mean = wording_of(metric), trials.names, means(trials, metric)
    low, high, reach = int(np.nanargmin(mean)), int(np.nanargmax(mean)), margins(trials.samples(metric))
    at = {row: wording.mean(float(mean[row]), reach[:, row]) for row in (low, high)}
    if wording.write(float(mean[low])) == wording.write(float(mean[high])):
        some = "" if np.isfinite(mean).all() else " that has it"
        every = f" at every setting{some}" if len(names) > 1 else ""
        return f"{wording.words}: {wording.write(float(mean[low]))}{every}."
    if len(names) == 2:
        return f"{wording.words}: {listing([f'{at[row]} at {names[row]}' for row in (0, 1)])}."
    return f"{wording.words}: lowest at {names[low]} ({at[low]}), highest at {names[high]} ({at[high]})."


def _of_optimizers(optimizers: Trials) -> Iterator[Sentence]:
    """Say by what optimizers are ranked, who was lost, and what the leader sends and keeps."""
    row, meta = int(ranked(optimizers).order[0]), optimizers.meta
    facts, figure = (f"learning.*.{meta['figure']}",), FIGURE_WORDS[meta["figure"]]
    cases = len(meta["cases"])
    some = " that all ranked ones have" if len(meta["ranked"]) < cases else ""
    if cases > 1:
        yield Sentence(f"Optimizers are ranked by the {figure}, with each seed in each case{some}.", TRUST, facts)
    if gone := meta["elsewhere"]:
        text = f"{listing_of([f'“{name}”' for name in gone], NAMED)} {'has' if len(gone) == 1 else 'have'} no result in"
        yield Sentence(f"{text} some cases, and {'is' if len(gone) == 1 else 'are'} not ranked.", TRUST, facts)
    kinds, names, plain = [*optimizers.settings["kind"]], optimizers.names, optimizers.settings["optimizer"]
    for each in dict.fromkeys([row, *(best for _, best in leaders(optimizers))]):
        if (needs := footprint(kinds[each])) is not None:
            stores = {"on the device": needs.client, "on the server": needs.per_participant}
            kept = [f"keeps {count(models, 'model')} per client {where}" for where, models in stores.items() if models]
            sends = f"{names[each]} sends {count(needs.sent, 'model')} a report"
            yield Sentence(f"{sends}, and {listing(kept) or 'keeps none per client'}.", COST)
    values, usual = optimizers.samples(in_case(meta["figure"], case := meta["cases"][0])).mean(axis=1), "fedavg"
    if cases > 1 and usual in kinds and kinds[row] != usual and np.isfinite(values[[row, kinds.index(usual)]]).all():
        ends = [f"{above_dust(values[at], 3)} with “{plain[at]}”" for at in (row, kinds.index(usual))]
        yield Sentence(f"In {case} the {figure} is {' and '.join(ends)}.", MODEL, facts)


# What was simulated


def _setup(trials: Trials, optimizers: Trials | None) -> str:
    """Say in a few words what was simulated."""
    seeds = trials.runs.group_by("setting").len()["len"].to_list() or [0]
    each = f"{count_range(min(seeds), max(seeds))} seed{'' if max(seeds) == 1 else 's'} each"
    axes = listing([axis.name for axis in trials.axes if axis.size > 1 and axis.parameters != (SIDE,)])
    text = f"{count(len(trials.settings), 'setting')}{f' of {axes}' if axes else ''}"
    if optimizers is not None:
        cases = len(optimizers.meta["cases"])
        text = f"{count(len(optimizers.settings))} optimizers{f' on {count(cases)} cases' * (cases > 1)}"
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
        beside = fast or [1 - row] * (len(trials.settings) == 2)
        for each in aim.conditions:
            kept = "met" if each.holds(float(means(trials, each.metric)[row])) else "missed"
            limits[each.metric] = f"{kept}: {read_condition(each.text)[0]}"
        named = dict[str, str]()
        for metric in dict.fromkeys((aim.metric, *limits, bias_metric(trials), pace_metric(trials))):
            every, wording = means(trials, metric).tolist(), wording_of(metric)
            if np.isfinite(every[row]) and named.setdefault(wording.words, metric) == metric:
                other = "".join(f"; {wording.write(every[each])} at {trials.names[each]}" for each in beside)
                detail = limits.get(metric, f"at {trials.names[row]}{other}")
                detail += _equal_chances(trials, [row, *beside]) if metric == bias_metric(trials) else ""
                yield Tile(wording.write(every[row]), wording.words, detail)
    if optimizers is not None:
        contrast, names, wording = ranking_of(trials)
        for best in contrast.order[:3].tolist():
            yield Tile(wording.write(float(contrast.mean[best])), wording.words, names[best])
        alone = len(optimizers.meta["cases"]) < 2  # what no optimizer changes
        for metric in (bias_metric(trials), pace_metric(trials)) if alone else ():
            if np.isfinite(values := means(trials, metric)).any():
                write, words = wording_of(metric).write, wording_of(metric).words
                yield Tile(write(float(np.nanmean(values))), words, "with each optimizer")
    if len(trials.failed):
        complete = trials.runs.filter(status=COMPLETE).height
        yield Tile(count(complete), "runs complete", f"of {count(len(trials.runs))}")


def _equal_chances(trials: Trials, rows: Sequence[int]) -> str:
    """Say how far from uniform equal chances alone would be at settings; "" where noise is off, or none is known."""
    fair = reports_and_chance(trials)[1][rows]
    if bias_metric(trials).endswith(without_noise("")) or not (fair > 0).all():
        return ""
    far = [tv(each) for each in fair.tolist()]
    where = [f"{text} at {trials.names[row]}" for row, text in zip(rows, far, strict=True)]
    return f"; equal chances: {listing(where) if len({*far}) > 1 else far[0]}"


def _sections(trials: Trials, optimizers: Trials | None, row: int | None) -> Iterator[Section]:
    """Yield charts and tables: what is chosen among, parts of the loss, privacy, what moves."""
    parts, settings = loss_parts(trials), tables.settings_table(trials)
    drawn = list[Chart | None]()
    if optimizers is not None:
        (contrast, names, wording), figure = ranking_of(trials), FIGURE_WORDS[optimizers.meta["figure"]]
        note = f"By the {figure}; compared by a {contrast.test}. What is not compared is not drawn."
        yield Section("winners", "Optimizers by case", (), [tables.winners_table(optimizers)])
        chart = _standing_chart(contrast, names, wording, "ranks", contrast.best, note)
        table = tables.optimizer_table(optimizers, tables.gained_nothing(trials))
        yield Section("optimizers", "Optimizers", (chart,), [table])
        if len(optimizers.meta["cases"]) > 1:
            yield Section("points", "Cases", (), [settings])
    else:
        yield Section("points", "Settings", tuple(_first_charts(trials, row)), [settings])
        drawn = [parts_chart(trials, *each, row) for each in parts.items()]
    paced = [pace_chart(trials, each, "loss-and-pace", "Loss beside pace") for each in losses_of(trials)[:1]]
    charts = [curves_chart(trials), *(each and replace(each, aside=True) for each in paced)]
    yield Section("learning", "Learning", charts)
    shown = [tables.parts_table(trials, *each) for each in parts.items()]
    yield Section("parts", "What the loss is made of", drawn, shown)
    yield Section("privacy", "Privacy", (), [tables.privacy_table(trials)])


def _first_charts(trials: Trials, row: int | None) -> Iterator[Chart | None]:
    """Draw the settings by what is chosen by, bias along the sweep, and bias beside the pace where that differs."""
    even, along, contrast = bias_metric(trials), trials.axis, judge_settings(trials).contrast
    aim = aim_of(trials).metric
    if trials.scenario.decide is not None and contrast.best is not None:
        yield _standing_chart(contrast, trials.names, wording_of(aim), _PICTURE, row)
    elif aim != even:
        yield line_chart(trials, aim, _PICTURE, capitalized(wording_of(aim).words), None, row)
    if along is None or along.size < 2:
        return
    theory = "participation.l1_uniform_theory" if even == L1 else None
    yield line_chart(trials, even, "distance", "Distance from uniform (TV)", theory, row)
    yield trade_off_chart(trials)


def _standing_chart(
    contrast: Contrasts, names: Sequence[str], wording: MetricWording, name: str, row: int | None, note: str = ""
) -> Chart:
    """Draw a metric of settings or optimizers with its interval, the best first."""
    order = contrast.order.tolist() if note else tables.order_of(contrast)  # of optimizers those that are compared
    order = [row for row in order if np.isfinite(contrast.mean[row])]
    rows, left = order[:_ROWS], len(order) - _ROWS
    filled = np.array([row in {contrast.best, *contrast.rows(*UNDECIDED)} for row in rows])
    ways = {Standing.REFERENCE: "the best"} | dict.fromkeys((Standing.TIED, Standing.SAME), "not significantly worse")
    ways |= {Standing.FEW: Standing.FEW.value}
    there = dict.fromkeys(ways[contrast.states[row]] for row in rows if contrast.states[row] in ways)
    legend = (", or ".join(there), "worse, or not compared")
    mean, half = wording.scale * contrast.mean[rows], wording.scale * contrast.margin[:, rows]
    shown = tuple(names[row] for row in rows)
    chosen = next((at for at, each in enumerate(rows) if each == row), None)
    data = Rows(shown, mean, half, filled, legend, wording.axis, None, chosen)
    notes = [*([note] if note else []), *([f"{count(left)} left out."] if left > 0 else [])]
    return row_plot(data, name, capitalized(wording.axis), notes)
