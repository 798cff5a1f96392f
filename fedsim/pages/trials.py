"""What trials answer, be they a sweep, a decision or optimizers over cases: each number a value or a contrast."""

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from fedsim.common.formatting import capitalized, count, count_range, listing, listing_of, percent, with_separation
from fedsim.measure.metrics import split
from fedsim.pages import trial_tables as tables
from fedsim.pages.answer import BIAS, COST, MODEL, TRUST, Answer, Check, Grade, Section, Sentence, Tile
from fedsim.pages.charts import Chart
from fedsim.pages.charts.plot import Rows, row_plot
from fedsim.pages.charts.sweeps import (
    TRADE_OFF,
    curves_chart,
    line_chart,
    loss_and_pace_chart,
    parts_chart,
    trade_off_chart,
)
from fedsim.pages.commands import command_of
from fedsim.pages.expectations import sweep_verdict
from fedsim.pages.metric_wording import MetricWording, wording_of
from fedsim.pages.provenance import sweep_provenance
from fedsim.pages.trial_checks import NAMED, checks_of_trials, losses_of, of_parts, optimizer_facts
from fedsim.pages.trial_tables import FIGURE_WORDS, headlines, loss_parts, means, moves, ranking_of
from fedsim.scenario.server import SyncServer
from fedsim.trials.contrasts import Contrasts, Standing, interval
from fedsim.trials.decision import (
    L1,
    PULL,
    SHORTAGE,
    SLACK,
    UNDECIDED,
    Cheapest,
    aim_of,
    bias_metric,
    cheapest,
    chosen,
    compared,
    is_open,
    lengths_differ,
    open_settings,
    pace_metric,
    tied,
    without_noise,
)
from fedsim.trials.optimizers import by_optimizer, footprint, ranked
from fedsim.trials.trials import COARSE, COMPARED, COMPLETE, FACTS, FULL, SIDE, Trials

_TRENDS = 8  # metrics with charts of their own at most
_ROWS = 24  # settings in a picture at most
_HOURS, _SESSIONS = "sessions.device_hours", "sessions.count"
_PICTURE = "settings"
_FIGURES = (_PICTURE, "distance", TRADE_OFF, "ranks", "curves", "loss-and-pace", "parts-*", "trend-*")


def trials_answer(trials: Trials, checks: Sequence[Check] = ()) -> Answer:
    """Return what is said of trials: of settings which to choose, of optimizers which leads.

    `checks` are those of what the trials were made of, and come first.
    """
    optimizers, checks = by_optimizer(trials), (*checks, *checks_of_trials(trials))
    return Answer(
        kind="decision" if command_of(trials.meta, "decide") else "sweep",
        name=trials.name,
        headline=capitalized(_headline(trials, optimizers, checks)),
        question=trials.scenario.question or "",
        setup=_setup(trials, optimizers),
        description=trials.scenario.description,
        status=str(trials.meta.get("status") or ""),
        verdict=sweep_verdict(trials),
        checks=checks,
        sentences=tuple(_sentences(trials, optimizers)) if trials.metrics else (),
        tiles=tuple(_tiles(trials, optimizers)),
        sections=tuple(_sections(trials, optimizers)),
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
        return f"{_leading(*ranking_of(trials))}."
    feasible = [each.text for each in checks if each.name in {"cohorts", "ended"} and each.state is Grade.CAUTION]
    return " ".join([f"{_choice(trials)}.", *feasible])


def _open(trials: Trials, metric: str) -> str:
    """Say how many settings a decision has left before it trains, and which of them is the best by facts."""
    settings, gone = len(trials.settings), int((~open_settings(trials)).sum())
    went = f"{count(gone)} of {count(settings, 'setting')} surely {'misses' if gone == 1 else 'miss'} a condition"
    later = f"; {wording_of(metric).words} is not known yet" if metric != aim_of(trials).metric else ""
    contrast = compared(trials)
    if contrast.best is None:
        return f"{went}{later}."
    best, wording = contrast.best, wording_of(aim_of(trials).metric)
    has = f"{wording.extreme(contrast)} ({wording.write(float(contrast.mean[best]))}{wording.from_uniform})"
    return f"{went}{later}; of the others {trials.names[best]} has {has}."


def stage_in_words(trials: Trials) -> str:
    """Say which stage of a decision these trials are, and of what part of the devices and of the time; "" of others."""
    part, short = trials.meta.get("part", {}), trials.meta.get("part", {}).get("short")
    if not part:
        return ""
    what = {
        FACTS: "facts, without training",
        COARSE: "a coarse ranking, with few variants and seeds: its intervals are wide",
        FULL: "in full, all variants and as many seeds as it takes",
    }
    of = [f"1/{trials.scale:,} of devices and cohorts"] if trials.scale > 1 else []
    of += [f"the first {count(short['days'], 'day')}, with totals carried on to the end"] if short else []
    text = f"Stage {[*what].index(trials.stage) + 1} of 3, {what[trials.stage]}{f', from {listing(of)}' if of else ''}."
    if trials.stage == FACTS:
        off = f"{100 * SLACK:.0f}\N{NARROW NO-BREAK SPACE}%"
        return f"{text} A setting goes if it misses a limit even when its figure is {off} off."
    if gone := part["gone"]:
        text += (
            f" {count(gone, 'setting')} that surely {'misses' if gone == 1 else 'miss'} a condition went in stage 1."
        )
    return text


def _choice(trials: Trials) -> str:
    """Say what to choose, what ties with it, and at what price in pace."""
    contrast, wording, row, names = compared(trials), wording_of(aim_of(trials).metric), chosen(trials), trials.names
    if contrast.best is None or row is None:
        return f"nothing to choose by: no run has a value of {wording.metric}"
    kept = " of those that keep the conditions" if aim_of(trials).conditions else ""
    if not is_open(trials) and (least := cheapest(trials)) is not None:
        return f"{'Choose ' * (trials.scenario.decide is not None)}{_cheapest(trials, least, kept)}"
    if row != contrast.best:
        return f"{names[row]} is the fastest, and the most even, {names[contrast.best]}, is not significantly more even"
    paces = means(trials, pace_metric(trials))
    fast = int(np.nanargmax(paces)) if np.isfinite(paces).any() else row
    if fast == row or not is_open(trials):
        return _leading(contrast, names, wording, "Choose " * (trials.scenario.decide is not None), kept)
    value = wording.write(float(contrast.mean[row]))
    slower = f"{percent(1 - paces[row] / paces[fast])} slower than {names[fast]}"
    most = "more" if len(names) == 2 else "the most"
    return f"{names[row]} is {most} even ({value}{wording.from_uniform}) and {slower}{_untested(contrast)}"


def _cheapest(trials: Trials, least: Cheapest, kept: str) -> str:
    """Say of a setting that it ties for the best, and why it is taken."""
    contrast, wording, names = compared(trials), wording_of(aim_of(trials).metric), trials.names
    row, cost, others = least.row, least.cost, [each for each in least.among if each != least.row]
    value = f"({wording.mean(float(contrast.mean[row]), float(contrast.margin[row]))}{wording.from_uniform})"
    why = "the least R" if cost else "the best of those that find their clients and do all their rounds"
    if cost in trials.metrics:
        ends = [wording_of(cost).write(float(each)) for each in means(trials, cost)[[row, others[0]]]]
        why = f"the cheapest of them ({wording_of(cost).words}: {ends[0]} against {ends[1]} at {names[others[0]]})"
    few = len(others) < NAMED
    tied_with = listing([names[each] for each in others]) if few else count(len(others), "other setting")
    return f"{names[row]}: tied with {tied_with} for {wording.extreme(contrast)} {value}{kept}, and {why}"


def _untested(contrast: Contrasts) -> str:
    return " (one seed, not tested)" if Standing.UNTESTED in contrast.states else ""


def _leading(
    contrast: Contrasts, names: Sequence[str], wording: MetricWording, choose: str = "", among: str = ""
) -> str:
    """Say which setting or optimizer is the best by a metric, and what the tests say of the others."""
    best = contrast.best or 0
    value = wording.mean(float(contrast.mean[best]), float(contrast.margin[best]))
    if len(names) == 1:
        return f"{wording.words}: {value}"
    value = f"({value}{wording.from_uniform})"
    text = f"{choose}{names[best]}{': it' if choose else ''} has {wording.extreme(contrast)} {value}"
    few, tied = contrast.rows(Standing.FEW), contrast.rows(*UNDECIDED)
    others = listing_of([names[row] for row in few or tied], NAMED)
    others = "the others" if len(few) == len(names) - 1 > 1 else others
    if few:
        return f"{text}{among}; {count(int(contrast.seeds[few].max()), 'seed')} are too few to test it against {others}"
    if tied:
        return f"{text}{among}; {others} {'ties' if len(tied) == 1 else 'tie'} with it"
    if contrast.differs.any():
        some = " that is compared" if Standing.NO_VALUE in contrast.states else ""
        return f"{text}{among}; every other{some} is significantly worse"
    return f"{text}{among}{_untested(contrast)}"


# Sentences


def _sentences(trials: Trials, optimizers: Trials | None) -> Iterator[Sentence]:
    """Say between which ends bias, losses and costs lie, and what is tested."""
    bias, row = bias_metric(trials), chosen(trials) if optimizers is None else None
    raw = bias.removesuffix(without_noise(""))
    others = [each for each in (L1, PULL, without_noise(raw)) if _apart(trials, raw, each)]
    spent = (_HOURS, *([_SESSIONS] if lengths_differ(trials) else []))
    costs = [pace_metric(trials), *(each for each in (SHORTAGE, *spent) if moves(trials, each))]
    parts = {
        BIAS: dict.fromkeys((bias, raw, *others)),
        MODEL: losses_of(trials) if optimizers is None else [],
        COST: costs,
    }
    if optimizers is not None and len(optimizers.meta["cases"]) > 1:  # cases are no choice
        parts = {MODEL: []}
    for about, metrics in parts.items():
        measured = [each for each in metrics if np.isfinite(trials.samples(each)).any()]
        for metric in measured:
            yield Sentence(capitalized(_extremes(trials, metric, row)), about, (metric,))
        if optimizers is not None and about == MODEL:
            yield from _of_optimizers(optimizers)
        elif not measured and about != COST:
            yield Sentence(_why_nothing(trials, about), about)
    yield from _tested(*ranking_of(trials))
    if optimizers is None and len(trials.axes) == 1 and (flat := _flat_from(trials)):
        yield Sentence(flat, TRUST, (aim_of(trials).metric,))
    if stage := stage_in_words(trials):
        yield Sentence(stage, TRUST)
    if command_of(trials.meta, "decide") and trials.stage != FACTS:
        yield Sentence(_tuned(trials), TRUST)


def _apart(trials: Trials, distance: str, other: str) -> bool:
    """Say whether another distance is more than 1 % off from one, at some setting."""
    values = means(trials, distance)
    return bool((np.nan_to_num(np.abs(means(trials, other) - values)) > 0.01 * values).any())


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


def _why_nothing(trials: Trials, about: str) -> str:
    """Say why there is no bias, or no loss."""
    if parts := of_parts(trials, bias_metric(trials) if about == BIAS else "learning.OPTIMIZER.loss"):
        return parts
    if about == BIAS:
        return "Bias was not measured."
    if optimizer_facts(trials, "diverged_round"):
        return "Training diverged, so no loss can be compared."
    return "No model was trained."


def _extremes(trials: Trials, metric: str, choice: int | None = None) -> str:
    """Say at which settings a metric has its lowest and its highest mean, and what it is at the choice."""
    wording, names, values = wording_of(metric), trials.names, interval(trials.samples(metric))
    low, high = int(np.nanargmin(values.mean)), int(np.nanargmax(values.mean))

    def at(row: int) -> str:
        return wording.mean(float(values.mean[row]), float(values.half[row]))

    if wording.write(float(values.mean[low])) == wording.write(float(values.mean[high])):
        some = "" if np.isfinite(values.mean).all() else " that has it"
        every = f" at every setting{some}" if len(names) > 1 else ""
        return f"{wording.words}: {wording.write(float(values.mean[low]))}{every}."
    if len(names) == 2:
        return f"{wording.words}: {listing([f'{at(row)} at {names[row]}' for row in (0, 1)])}."
    text = f"{wording.words}: lowest at {names[low]} ({at(low)}), highest at {names[high]} ({at(high)})"
    if choice is not None and choice not in {low, high} and np.isfinite(values.mean[choice]):
        text += f"; {at(choice)} at the choice, {names[choice]}"
    return f"{text}."


def _tested(contrast: Contrasts, names: Sequence[str], wording: MetricWording) -> Iterator[Sentence]:
    """Say how others differ from the best, with intervals and what the tests say, and what the test was."""
    if contrast.best is None or len(contrast.order) < 2:
        return
    others = [f"{names[row]} ({wording.contrast(contrast, row)})" for row in contrast.order[1:].tolist()]
    text = f"Compared with {names[contrast.best]}: {listing_of(others, NAMED)}."
    yield Sentence(text, TRUST, (wording.metric,))
    if Standing.UNTESTED not in contrast.states:
        text = f"± is half of a 95\N{NARROW NO-BREAK SPACE}% interval; the test is a {contrast.test}."
        yield Sentence(text, TRUST, (wording.metric,))


def _flat_from(trials: Trials) -> str:
    """Say from which value on settings along the one axis tie with the best; "" where that is of one or of all."""
    (axis,), order = trials.axes, np.argsort(trials.axes[0].x)
    apart = np.flatnonzero(~np.isin(order, tied(trials)))
    if axis.ticks or not len(apart) or apart[-1] > len(order) - 3:
        return ""
    return f"From {trials.names[order[apart[-1] + 1]]} on the curve is flat: no larger value is significantly better."


def _of_optimizers(optimizers: Trials) -> Iterator[Sentence]:
    """Say by what optimizers are ranked, who was lost, and what the leader sends and keeps."""
    row, meta = int(ranked(optimizers).order[0]), optimizers.meta
    facts, figure = (f"learning.*.{meta['figure']}",), FIGURE_WORDS[meta["figure"]]
    some = " that all ranked ones have" if len(meta["ranked"]) < len(meta["cases"]) else ""
    yield Sentence(f"Optimizers are ranked by the {figure}, with each seed in each case{some}.", MODEL, facts)
    why = {
        "lost": "Diverged or far off in some runs, and not compared",
        "elsewhere": "Without a result in some cases, and not ranked",
    }
    for which, words in why.items():
        if meta[which]:
            yield Sentence(f"{words}: {listing_of([f'“{name}”' for name in meta[which]], NAMED)}.", MODEL, facts)
    if (needs := footprint(optimizers.settings["kind"][row])) is not None:
        kept = f"{optimizers.names[row]} sends {count(needs.sent, 'model')} a report"
        yield Sentence(f"{kept}, and keeps {needs.per_participant + needs.client} per client.", COST)


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


def _tiles(trials: Trials, optimizers: Trials | None) -> Iterator[Tile]:
    """Pick the key figures: what was chosen by, bias and pace of the choice; and the runs."""
    row = chosen(trials)
    if optimizers is None and row is not None:
        aim, limits = aim_of(trials), dict[str, str]()
        for each in aim.conditions:
            kept = "met" if each.holds(float(means(trials, each.metric)[row])) else "missed"
            limits[each.metric] = f"{kept}: {' '.join(each.text.split())}"
        named = dict[str, str]()
        for metric in dict.fromkeys((aim.metric, *limits, bias_metric(trials), pace_metric(trials))):
            every, wording = means(trials, metric).tolist(), wording_of(metric)
            if np.isfinite(every[row]) and named.setdefault(wording.words, metric) == metric:
                other = f"; {wording.write(every[1 - row])} at {trials.names[1 - row]}" if len(every) == 2 else ""
                detail = limits.get(metric, f"at {trials.names[row]}{other}")
                yield Tile(wording.write(every[row]), wording.words, detail)
    if optimizers is not None and (best := ranked(optimizers).best) is not None:
        contrast, names, wording = ranking_of(trials)
        yield Tile(wording.write(float(contrast.mean[best])), wording.words, names[best])
    complete = trials.runs.filter(status=COMPLETE).height
    yield Tile(count(complete), "runs complete", f"of {count(len(trials.runs))}")


def _sections(trials: Trials, optimizers: Trials | None) -> Iterator[Section]:
    """Yield charts and tables: what is chosen among, parts of the loss, privacy, what moves."""
    row, parts, settings = chosen(trials), loss_parts(trials), tables.settings_table(trials)
    drawn, trends = list[Chart | None](), list[Chart | None]()
    if optimizers is not None:
        (contrast, names, wording), figure = ranking_of(trials), FIGURE_WORDS[optimizers.meta["figure"]]
        note = f"By the {figure}; compared by a {contrast.test}."
        yield Section("winners", "Optimizers by case", (), [tables.winners_table(optimizers)])
        chart = _standing_chart(contrast, names, wording, "ranks", contrast.best, note)
        yield Section("optimizers", "Optimizers", (chart,), [tables.optimizer_table(optimizers)])
        if len(optimizers.meta["cases"]) > 1:
            yield Section("points", "Cases", (), [settings])
    else:
        yield Section("points", "Settings", tuple(_first_charts(trials, row)), [settings])
        drawn, trends = [parts_chart(trials, *each, row) for each in parts.items()], list(_trends(trials))
    trained = [split(each)[1]["optimizer"] for each in losses_of(trials)]
    yield Section("learning", "Learning", [curves_chart(trials), loss_and_pace_chart(trials, trained)])
    shown = [tables.parts_table(trials, *each) for each in parts.items()]
    yield Section("parts", "What the loss is made of", drawn, shown)
    yield Section("privacy", "Privacy", (), [tables.privacy_table(trials)])
    yield Section("trends", "Along the sweep", trends)


def _first_charts(trials: Trials, row: int | None) -> Iterator[Chart | None]:
    """Draw the settings by what is chosen by, and bias against pace, or along the sweep where the pace is the same."""
    even, along, contrast, aim = bias_metric(trials), trials.axis, compared(trials), aim_of(trials).metric
    if trials.scenario.decide is not None and contrast.best is not None:
        yield _standing_chart(contrast, trials.names, wording_of(aim), _PICTURE, row)
    elif aim != even:
        yield line_chart(trials, aim, _PICTURE, capitalized(wording_of(aim).words), None, row)
    if along is None or along.size < 2:
        return
    if np.ptp(np.nan_to_num(means(trials, pace_metric(trials)))) > 0 and np.isfinite(trials.samples(even)).any():
        yield trade_off_chart(trials)
    else:
        theory = "participation.l1_uniform_theory" if even == L1 else None
        yield line_chart(trials, even, "distance", "Distance from uniform (TV)", theory, row)


def _standing_chart(
    contrast: Contrasts, names: Sequence[str], wording: MetricWording, name: str, row: int | None, note: str = ""
) -> Chart:
    """Draw a metric of settings or optimizers with its interval, the best first."""
    order = [row for row in tables.order_of(contrast) if np.isfinite(contrast.mean[row])]
    rows, left = order[:_ROWS], len(order) - _ROWS
    filled = np.array([row in {contrast.best, *contrast.rows(*UNDECIDED)} for row in rows])
    legend = ("best, or no significant difference", "worse, or not compared")
    mean, half = wording.scale * contrast.mean[rows], wording.scale * contrast.margin[rows]
    shown = tuple(names[row] for row in rows)
    data = Rows(shown, mean, half, filled, legend, wording.axis, None, rows.index(row) if row in rows else 0)
    notes = [*([note] if note else []), *([f"{count(left)} left out."] if left > 0 else [])]
    return row_plot(data, name, capitalized(wording.axis), notes)


def _trends(trials: Trials) -> Iterator[Chart | None]:
    """Draw the metrics that move along the sweep, but for those of the first charts."""
    if trials.axis is None or trials.axis.size < 2:
        return
    aim = aim_of(trials).metric
    drawn = {wording_of(each).words for each in (aim, bias_metric(trials), pace_metric(trials))}
    for metric in [each for each in headlines(trials) if wording_of(each).words not in drawn][:_TRENDS]:
        if moves(trials, metric):
            name = "".join(each if each.isascii() and (each.isalnum() or each in "_-") else "-" for each in metric)
            title = capitalized(wording_of(metric).words)
            yield line_chart(trials, metric, f"trend-{name}", title, None, chosen(trials))
