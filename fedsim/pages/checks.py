"""The checks of a run, in one list: whether it ended, kept its promises, trained, lasted long enough, fits the theory.

The headline, if one is bad, the status strip, what to trust, what to do next, and exit codes all follow from this list.
A check of one's own is one function in `CHECKS`.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import polars as pl

from fedsim.common.errors import FedsimError
from fedsim.common.formatting import capitalized, count, duration, equation, listing, listing_of, many, number, percent
from fedsim.common.instants import DAY_S
from fedsim.common.intervals import normal_quantile, student_quantile
from fedsim.measure.contributions import Contributions
from fedsim.measure.grammar import parse_condition
from fedsim.measure.series import FEWEST_DAYS, FEWEST_ROUNDS, by_day
from fedsim.measure.verdict import LEVEL, POWER, Look
from fedsim.pages.bias import FORGOTTEN, Seen, bias_of, of_a_month, one_round, pace_of
from fedsim.pages.commands import command_of, log_command, with_seeds
from fedsim.pages.commands import longer as longer_by
from fedsim.pages.expectations import verdict
from fedsim.pages.methods import (
    FEWEST,
    JUMPS,
    compare_losses,
    compared_with,
    converged,
    jumps,
    late_losses,
    made_worse,
    optimizer_figures,
    optimizers,
    references,
    same_training,
)
from fedsim.pages.metric_wording import wording_of
from fedsim.pages.tables import COVERED, cost_parts
from fedsim.pages.trial_checks import NAMED, settled_losses, surplus, theory_check
from fedsim.pages.words import favoured, headline, hours_without, how_often_each, is_wide, left_to_chance
from fedsim.privacy.bounds import ParticipationBounds, broken_promises
from fedsim.run.cautions import OTHER_SEEDS, of_separation, of_shocks, why_nothing
from fedsim.run.check import LENGTH, SEEDS, STEP, Check, Grade
from fedsim.run.run import Run
from fedsim.scenario.habits import Habits
from fedsim.scenario.learning import ConstantSchedule
from fedsim.theory.prediction import before_the_chain
from fedsim.trials.contrasts import seeds_needed
from fedsim.trials.trials import Trials

SMALL = 0.05  # a difference that a run should be able to see
_PART = 0.2  # and a part of the clients, as a share of what it should have
_LONG = 1_000  # times as long as it was, at which no run is proposed
_MOST_STUDIED = 25_000  # rounds that a study has, from which on no longer one is proposed
_PAID = 0.9  # of the rounds that the noise of privacy is made for, this share should come about
LOWER_COHORT = "Lower the separation or the cohort, or let rounds go on with fewer clients (`shortage`)."
SEE_SESSIONS = "See how sessions ended, and why no report was taken."
_TO_TEST = "Run longer, to test participation for bias."
_WAITING = 0.1  # of the time that rounds wait for clients, from which on separations are not made longer
_WASTED = 0.1  # of the sessions that the server aborts, from which on fewer are proposed
_SEEDS, _MOST_SEEDS = 5, 100  # that are proposed
_FILLED = 0.9  # of the rounds, this share should close with the reports they wanted


def ended(run: Run) -> Iterator[Check]:
    """Whether the run reached its end."""
    if stalled := run.manifest.get("stalled"):
        text = f"The run stalled in {run.noun} {len(run.rounds) - 1:,} and ended there."
        remedy = LOWER_COHORT if run.scenario.server.selects_once else "Lower the separation or the buffer."
        yield Check("ended", Grade.BAD, text, facts=("rounds.count",), remedy=remedy)
        yield Check("ended", Grade.BAD, f"{capitalized(stalled)}.")
    elif run.rounds.is_empty():
        yield Check("ended", Grade.BAD, "Nothing was simulated: the run has no rounds.")
    elif "rounds.count" in run.known:
        text = f"The run ended after {count(len(run.rounds), run.noun)}."
        yield Check("ended", Grade.OK, text, facts=("rounds.count",))


_UNKNOWN = {
    "clients": ("Clients that never came are not known", "coverage", "clients", "all-clients.csv", "client"),
    "rounds": ("The log has no column round", "rounds", "columns", "round=NAME", "as its column of rounds is named"),
    "opened": ("When rounds opened is not known", "waits", "rounds", "rounds.csv", "round, opened_s, closed_s"),
    "eligible": (
        *("Which clients were eligible is not known", "availability"),
        *("check-ins", "check-ins.csv", "device, start, end"),
    ),
}
"""What a log may lack, what is not measured without it, and the option of `measure` that gives it, with its columns."""


def of_log(run: Run) -> Iterator[Check]:
    """Whether a log of production tells what a run does, and what it is good for."""
    if (log := run.scenario.log) is None:
        return
    lacking, rerun = [_UNKNOWN[each] for each in _UNKNOWN if each in log.unknown], run.manifest.get("command")
    holds = listing([f"`--{option}` ({columns})" for *_, option, _, columns in lacking])
    remedy = f"Measure {listing([wanted for _, wanted, *_ in lacking])} too, if you have what tells of them: {holds}."
    options = " ".join(f"--{option} {given}" for *_, option, given, _ in lacking)
    for text, wanted, *_ in lacking:
        command = "" if rerun else log_command("measure", log, options)
        yield Check("log", Grade.CAUTION, f"{text}: nothing is measured of {wanted}.", remedy=remedy, command=command)
    if not rerun and "rounds" not in log.unknown:
        command = log_command("calibrate", log, f"--backtest --out {run.scenario.name}.fedsim.yaml")
        remedy = "Make a scenario of the log, to try other settings; its backtest says for what to trust it."
        yield Check("log", Grade.NONE, "A log shows one setting.", remedy=remedy, command=command)


def reports_taken(run: Run) -> Iterator[Check]:
    """Whether any report reached the model."""
    bad = partial(Check, "reports", Grade.BAD)
    if run.rounds.is_empty():
        return
    if nothing := why_nothing(run.metrics, run.scenario.server.deadline):
        remedy, command = SEE_SESSIONS, ""
        text, wanted = capitalized(nothing), count(run.wanted or 0)
        if run.scenario.server.deadline is not None and run.known.get("sessions.late_share"):
            mean_s = 3600 * run.known["sessions.device_hours"] / run.known["sessions.count"]
            minutes = math.ceil(2 * mean_s / 60)
            text = f"{count(len(run.rounds), run.noun)} in {duration(run.simulated_s)} brought no report: {nothing}"
            remedy = f"Set a longer `deadline`, such as twice the {duration(mean_s)} that sessions took on average"
            last = 60 * minutes * len(run.rounds)  # a round that waits for no client is over at its deadline
            waits = run.known.get("rounds.waiting_share") or run.known.get("rounds.shortage_share")
            remedy += "." if waits else f": {count(len(run.rounds), run.noun)} then take at most {duration(last)}."
            command = command_of(run.manifest, "run", {"server.deadline": f"{minutes}m"})
        elif run.known.get("rounds.shortage_share") and not run.known.get("sessions.count") and len(run.gauges):
            there = run.gauges.group_by("time_s").agg(pl.col("eligible").sum())["eligible"]
            least, most = int(there.quantile(0.1) or 0), int(there.max() or 0)  # type: ignore[arg-type]
            server = run.scenario.sync_server
            text = f"No {run.noun} took {count(server.cohort, 'report')}: each of the {count(len(run.rounds))} wants "
            text += f"{wanted} eligible clients, and at most {count(most)} were there at a time"
            often = f": {count(least)} clients or more were there nine tenths of the time" * (least > 0)
            remedy, ways = f"Lower `cohort`{often}", [command_of(run.manifest, "run", {"server.cohort": least})][:least]
            if server.selection.kind != "groups":  # which is a whole group or none
                remedy += "; or let rounds go on with fewer (`shortage: proceed`)"
                ways.append(command_of(run.manifest, "run", {"server.shortage": "proceed"}, "proceed"))
            remedy, command = f"{remedy}.", "\n".join(filter(None, ways))
        yield bad(f"{text}.", facts=("rounds.count", "sessions.count"), remedy=remedy, command=command)
    elif not run.clients["reported"].sum():
        yield bad("Nobody took part.", remedy=SEE_SESSIONS)
    elif (share := run.known.get("sessions.reported_share")) is not None:
        text = f"{'All sessions' if share == 1 else f'{percent(share)} of the sessions'} ended with a report."
        yield Check("reports", Grade.OK, text, facts=("sessions.reported_share",))


def privacy(run: Run) -> Iterator[Check]:
    """Whether clients took part no more often, and no sooner again, than is promised."""
    keys = tuple(f"privacy.{name}" for name in ("rounds", "separation", "most"))
    table = run.series.get("contributions")
    if run.scenario.privacy is None or table is None or any(key not in run.known for key in keys):
        return
    rounds, apart, most = (int(run.known[key]) for key in keys)
    bounds = ParticipationBounds(rounds, apart, most)
    faults = broken_promises(bounds, Contributions(**table.row(0, named=True)))
    bad = partial(Check, "privacy", Grade.BAD, facts=(*keys, "contributions"))
    yield from (bad(f"The log breaks the promise of privacy: {fault}.") for fault in faults)
    if not faults:
        yield Check("privacy", Grade.OK, "The log keeps the promise of privacy.", facts=keys)


def budget(run: Run) -> Iterator[Check]:
    """Whether the noise of privacy was made for about as many rounds as came about."""
    paid, rounds = run.known.get("privacy.rounds", 0.0), run.known.get("rounds.count", 0.0)
    if 0 < rounds < _PAID * paid:
        text = f"The noise is made for {count(paid, 'round')}, and {count(rounds)} came about."
        remedy = f"Make the noise for {count(rounds, 'round')}: the same epsilon needs less."
        command = command_of(run.manifest, "run", {"stop.rounds": f"{rounds:.0f}"})
        yield Check("budget", Grade.CAUTION, text, "", ("privacy.rounds", "rounds.count"), remedy, command, LENGTH)


_OF_VERDICT = {"fail": Grade.BAD, "warn": Grade.CAUTION, "pass": Grade.OK, "unjudged": Grade.NONE}


def expectations(run: Run) -> Iterator[Check]:
    """Whether the expectations of the scenario are met; of losses that cannot be measured, the steps are the cause."""
    if (outcome := verdict(run.manifest.get("verdict"))) is not None:
        state = Grade.OK if outcome.status == "unjudged" and outcome.met else _OF_VERDICT[outcome.status]
        missed = [each for each in outcome.attention if each.status in {"fail", "warn"}]
        large = state is Grade.BAD and any(each.state is Grade.BAD for each in steps(run))
        large &= all(parse_condition(each.check).metric.startswith("learning.") for each in missed)
        ways = [f"{each.words}{f' (it is {each.observed})' * bool(each.observed and not large)}" for each in missed]
        text = f"{outcome.headline.removesuffix('.')}: {listing_of(ways, NAMED)}." if ways else outcome.headline
        if large:
            text = f"Expected: {listing_of(ways, NAMED)}, which cannot be measured since losses jump."
        yield Check("expectations", state, text, since="steps" if large else "")


_FAULTS: Mapping[str, tuple[Callable[[float], bool], Grade, str]] = {
    "dropped_updates": (bool, Grade.CAUTION, "Updates of “{}” that were not finite, and counted as zero: {:,.0f}."),
    "moved": (lambda value: not value, Grade.BAD, "The model of “{}” never moved: no step, or only steps of zero."),
}
"""Figures of an optimizer, where they tell of a fault, how bad it is, and what is said of it."""


def trained(run: Run) -> Iterator[Check]:
    """Whether training stayed finite, moved the model, and made it better."""
    learning, ends = run.scenario.learning, optimizer_figures(run, "loss")
    if learning is None:
        return
    faults, twins = list[Check](), {biased: twin for twin, biased in references(tuple(ends)).items()}
    worse = {name for name in ends if run.known.get(f"learning.{name}.moved") != 0 and made_worse(run, name)}
    if diverged := optimizer_figures(run, "diverged_round"):
        who = f"Training with {listing([f'“{name}”' for name in diverged])}"
        if len(diverged) == len(optimizers(run)) > 1:
            twins_too = [name for name in diverged if name in references(optimizers(run))]
            trainings = count(len(diverged) - len(twins_too), "training")
            who = f"All {trainings}{', and unbiased training,' if twins_too else ''}"
        first, last = min(diverged.values()), max(diverged.values())
        when = f"at round {count(first)}" if first == last else f"between rounds {count(first)} and {count(last)}"
        keys, by = tuple(f"learning.{name}.diverged_round" for name in diverged), _lower_step(run, next(iter(diverged)))
        faults.append(Check("trained", Grade.BAD, f"{who} diverged {when}.", facts=keys, **by))
    for name in optimizers(run):
        fault = partial(Check, "trained", of=name)
        for figure, (wrong, state, text) in _FAULTS.items():
            key = f"learning.{name}.{figure}"
            if (value := run.known.get(key)) is not None and wrong(value):
                by = {} if figure == "moved" else _lower_step(run, name)
                faults.append(fault(state, text.format(name, value), facts=(key,), **by))
        if name in worse:
            text = f"Training did not lower the loss: that of “{name}” is {number(ends[name], 3)}, "
            text += "not below that before."
            by, twin = _lower_step(run, name), twins.get(name)
            if twin is not None and twin not in worse:
                text += f" That of “{twin}” is not: the cause is who takes part."
                by = _even_out(run, harmed=True)
            elif twin is None and name not in twins.values() and bias_of(run).seen is Seen.BIAS:
                by = {"remedy": "Train with `learning.reference: uniform` too, which shows whether bias is the cause."}
            faults.append(fault(Grade.BAD, text, facts=(f"learning.{name}.loss",), **by))
    yield from faults
    if not faults and ends:
        yield Check("trained", Grade.OK, "Training stayed finite, and no model ends worse than it began.")


def _even_out(run: Run, *, harmed: bool = False) -> Mapping[str, Any]:
    """Return what evens participation out, or takes it off the model where FedAvg alone is trained and is harmed."""
    scenario, r, groups = run.scenario, run.clients["separation"], bias_of(run).of("group")
    if not scenario.server.selects_once or scenario.log is not None:
        return {}
    kinds = {} if scenario.learning is None else {each.label: each.kind for each in scenario.learning.optimizers}
    debias = not any(kind.startswith("debiased") for kind in kinds.values())
    debias &= any(kind == "fedavg" and (harmed or _may_be_harmed(run, name)) for name, kind in kinds.items())
    if groups and r.n_unique() > 1:  # who takes part most often, and waits less than others
        first = max(groups, key=lambda part: part.times).name
        at = [group.name for group in scenario.population].index(first)
        both = (pl.col("group") == first, pl.col("group") != first)
        waits, others = (int(run.clients.filter(each)["separation"].max() or 0) for each in both)  # type: ignore[arg-type]
        if waits < others:
            remedy = f"Let “{first}” wait as long as others ({equation('R', others)}, not {waits})."
            command = command_of(run.manifest, "run", {f"population.{at}.separation": others})
            return {"remedy": remedy, "command": command, "turns": ("separation",)}
    habits = [group.availability for group in scenario.population if isinstance(group.availability, Habits)]
    if bias_of(run).trend == "availability" and any(len(each.require) > 1 for each in habits):
        now = listing(sorted({each for of in habits for each in of.require}))
        remedy = f"Require less of devices than {now} (`availability.require`), so that those least available come too."
        plain = all(each == Habits(kind="habits") for each in habits) and len(habits) == len(scenario.population)
        less = {"population.*.availability": "{kind: habits, require: [charging]}"}
        command = command_of(run.manifest, "run", less) if plain else ""
        return {"remedy": remedy, "command": command, "turns": ("require",)}
    study = scenario.theory.convergence
    if study is not None and run.convergence is not None and scenario.learning is None:
        last = run.convergence.filter(pl.col("round") == pl.col("round").max())
        floor = pl.col("noise_floor").fill_null(0.0)
        far, hidden = last.filter(pl.col("tv") - floor >= FORGOTTEN), last.filter(floor >= FORGOTTEN)
        values, ways, why = dict[str, object](), list[str](), list[str]()
        if len(far) and study.rounds <= _MOST_STUDIED:
            values["theory.convergence.rounds"] = 4 * study.rounds
            ways.append(count(4 * study.rounds, "round"))
            some = listing([equation("R", r) for r in far["separation"].unique().sort()])
            why.append(f"at {some} participation is farther than {percent(FORGOTTEN)} from the long run")
        if len(hidden):
            most = float(hidden["noise_floor"].max())  # type: ignore[arg-type]
            values["theory.convergence.replicas"] = many = math.ceil((2 * most / FORGOTTEN) ** 2) * study.replicas
            ways.append(count(many, "replica"))
            why.append(f"sampling noise hides less than {listing(hidden_by_noise(run))}")
        if not ways:
            return {}  # a longer separation evens participation out, and forgets the start more slowly: both are there
        command = command_of(run.manifest, "run", values)
        return {"remedy": f"Follow {listing(ways)}: {', and '.join(why)}.", "command": command}
    most, least = int(_typically_available(run) / max(1, run.wanted or 1)) - 1, int(r.max() or 0)  # type: ignore[arg-type]
    ways, command = ["train with `debiased_fedavg`"] if debias else [], ""
    if r.n_unique() == 1 and scenario.sweep is None and least < most:
        further = sorted({least, (least + most) // 2, most})
        ways = ["sweep the separation, which evens participation out", *ways]
        command = command_of(run.manifest, "sweep", {"sweep.grid": f"{{population.*.separation: {further}}}"})
    turns = ("separation", *["optimizers"] * debias)
    return {"remedy": f"{capitalized(', or '.join(ways))}.", "command": command, "turns": turns} if ways else {}


def hidden_by_noise(run: Run) -> list[str]:
    """Say at which separations of a convergence study its noise hides distances, and which: ``2.3 % at R = 95``."""
    if run.convergence is None or run.scenario.theory.convergence is None:
        return []
    last = run.convergence.filter(pl.col("round") == pl.col("round").max(), pl.col("noise_floor") >= FORGOTTEN)
    noise = last.select("separation", "noise_floor").unique(maintain_order=True).iter_rows()
    return [f"{percent(floor)} at {equation('R', r)}" for r, floor in noise]


def _typically_available(run: Run) -> float:
    """Return how many devices separations may keep waiting without that rounds wait for clients."""
    if run.scenario.always_available:
        return float(len(run.clients))
    if run.gauges.is_empty() or run.known.get("rounds.waiting_share", 0.0) > _WAITING:
        return 0.0
    return float(run.gauges.group_by("time_s").agg(pl.col("available").sum())["available"].quantile(0.25) or 0.0)


def _may_be_harmed(run: Run, name: str) -> bool:
    """Whether an optimizer ends significantly above its twin under uniform participation, or has none to tell."""
    twin = {of: twin for twin, of in references(optimizers(run)).items()}.get(name)
    if twin is None or run.scenario.divisor is not None:
        return True
    comparable = {name, twin} <= {*optimizer_figures(run, "loss")} and converged(run, name, twin)
    look = compare_losses(run, [name], twin).get(name) if comparable else None
    return isinstance(look, Look) and look.significant and look.value > 0


def _lower_step(run: Run, name: str) -> Mapping[str, Any]:
    """Return what to do if the steps of an optimizer are too large, with the command where they are constant."""
    learning, name = run.scenario.learning, references(optimizers(run)).get(name, name)
    assert learning is not None
    steps = {each.label: (at, each.local_step_size) for at, each in enumerate(learning.optimizers)}
    at, step = steps.get(name, (0, None))
    key = "learning.step_size" if step is None else f"learning.optimizers.{at}.local_step_size"
    step = step or learning.step_size
    command, at_hand = "", ""
    if isinstance(step, ConstantSchedule):
        verb = "sweep" if swept(run) else "run"
        command = command_of(run.manifest, verb, {key: f"{step.initial / 10:g}"})
        at_hand = f", which is {step.initial:g}"
    remedy = f"Lower the step (`{key}`){at_hand}."
    return {"remedy": remedy, "command": command, "turns": STEP}


def settled(run: Run) -> Iterator[Check]:
    """Whether losses show where training ends, and whether the run is long enough to compare them."""
    if run.scenario.learning is None or one_round(run):
        return
    # Losses that rise, or follow habits that change, do not settle in a longer run.
    drifts = any(getattr(group.availability, "drift", None) is not None for group in run.scenario.population)
    moving = [name for name in optimizers(run) if not converged(run, name)]
    rising = any(run.known.get(f"learning.{name}.drift", 0.0) < 0 for name in moving)
    for each in settled_losses(_alone(run)):
        yield replace(each, remedy="", command="") if rising or drifts else each
    other, names = compared_with(run) or ("", [])
    slow = {name: look for name, look in compare_losses(run, names, other).items() if isinstance(look, float)}
    if slow := {name: values for name, values in slow.items() if converged(run, name, other)}:
        who = listing([f"“{name}”" for name in slow])
        text = f"Too short to compare the loss of {who} with that of “{other}”: the last half of the run holds about "
        text += f"{math.floor(min(slow.values()))} independent values of the difference, and a test needs {FEWEST}."
        times = math.ceil(FEWEST / min(slow.values())) + 1
        by = longer_by(run.manifest, run.scenario.stop, times, verb="run")
        remedy = f"Run {times} times as long." if run.scenario.privacy is None else ""  # noise is made for a length
        yield Check("compared", Grade.CAUTION, text, remedy=remedy, command=by if remedy else "", turns=LENGTH)


def steps(run: Run) -> Iterator[Check]:
    """Whether steps are small enough for losses to come to rest: how they jump, compared with what training gained."""
    for name in optimizer_figures(run, "loss"):
        if (by := jumps(run, name)) > JUMPS:
            late, state = late_losses(run, name)[0]["loss"], Grade.BAD if by > 2 * JUMPS else Grade.CAUTION
            ends = f"{number(late.min(), 3)} and {number(late.max(), 3)}"  # type: ignore[arg-type]
            text = f"Cannot tell where “{name}” ends: its steps are too large, so that over the last half of the run"
            text += f" its loss jumps between {ends}"
            text += ", and this is one of the settings that the file compares." if swept(run) else "."
            yield Check("steps", state, text, name, (f"learning.{name}.loss", "learning"), **_lower_step(run, name))
            return


def enough(run: Run) -> Iterator[Check]:
    """Whether the run is long enough to tell a bias from chance."""
    bias = bias_of(run)
    caution = partial(Check, "enough", Grade.CAUTION, turns=LENGTH)

    longer = partial(longer_by, run.manifest, run.scenario.stop, verb="run")
    if bias.seen in {Seen.UNTESTED, Seen.ONCE}:
        text = f"Bias cannot be tested: {bias.why}."
        if bias.seen is Seen.ONCE:
            text = "Nobody took part twice, so that a bias between clients cannot be seen."
        days = FEWEST_DAYS * DAY_S / max(run.simulated_s, 1.0) if by_day(run.scenario) else 10.0
        times = math.ceil(max(10.0, days, FEWEST_ROUNDS / max(len(run.rounds), 1)))
        yield caution(text, facts=("bias",), remedy=_TO_TEST, command=longer(times))
    elif bias.seen is Seen.NONE and not bias.more_even and bias.visible is not None:
        seen = max([bias.visible, *(part.visible for part in bias.parts if part.tested)])
        times = math.ceil((seen / SMALL) ** 2)
        text = f"A distance of {percent(bias.visible)} beyond chance would be significant in four of five such runs."
        if bias.visible <= 2 * SMALL:
            many = math.ceil((seen / _PART) ** 2)
            remedy = f"Run {count(many)} times as long to see a group with {percent(_PART)} more than its fair share."
            far = seen > 2 * _PART and many <= _LONG
            more = {"remedy": remedy, "command": longer(many)} if far else {}
            yield Check("enough", Grade.OK, text, facts=("bias",), turns=LENGTH, **more)
        else:
            whole = f"{count(times)} times as long, about {duration(times * run.simulated_s)},"
            remedy = f"Run {whole} to see a distance of {percent(SMALL)}." if times <= _LONG else ""
            yield caution(text, facts=("bias",), remedy=remedy, command=longer(times) if remedy else "")
    elif bias.seen is Seen.ALONE and run.scenario.server.selects_once and run.scenario.log is None:
        command = command_of(run.manifest, "run", {"population.*.devices": 100})
        remedy = "Simulate more devices, to see who takes part."
        yield Check("enough", Grade.NONE, "Of one client nothing can be biased.", remedy=remedy, command=command)
    elif bias.seen in {Seen.NONE, Seen.BIAS}:
        yield Check("enough", Grade.OK, "The run is long enough to test participation for bias.")


def month(run: Run) -> Iterator[Check]:
    """Whether the headline is of 30 days, of which the run has fewer."""
    if of_a_month(run) and headline(run) == how_often_each(run, bias_of(run)):
        whole, part = pace_of(run)[0], f", and not from all {duration(run.simulated_s)}, which end within a day"
        text = f"The 30 days of the headline are extrapolated from the first {many(whole, 'day')}"
        text += f"{part * (DAY_S * whole < run.simulated_s)}."
        command = command_of(run.manifest, "run", {"stop.rounds": "null", "stop.duration": "30d"})
        remedy = f"Simulate 30 days, of which this run has {duration(run.simulated_s)}."
        yield Check("month", Grade.CAUTION, text, facts=("clients",), remedy=remedy, command=command, turns=LENGTH)


def separation(run: Run) -> Iterator[Check]:
    """Whether clients can take part often enough, as far as separations and cool-downs let them."""
    clients = run.clients
    checks = list(of_separation(run.scenario, clients["separation"].to_numpy(), clients["cooldown_s"].to_numpy()))
    yield from checks
    if not checks and ((clients["separation"] > 0).any() or (clients["cooldown_s"] > 0).any()):
        yield Check("separation", Grade.OK, "The run is longer than clients wait.")


def shocks(run: Run) -> Iterator[Check]:
    """Whether shocks make one run one course of many."""
    for each in of_shocks(run.scenario):
        yield replace(each, command=with_seeds(run.manifest, 5))


def theory(run: Run) -> Iterator[Check]:
    """Whether theory covers the scenario, and agrees with what was measured."""
    if run.rounds.is_empty() or not run.clients["reported"].sum():
        return
    if COVERED in run.known:
        for each in theory_check(_alone(run)):
            yield _of_shares(run, each) if each.state is Grade.OK else each
        return
    why = ""
    with suppress(FedsimError):
        reason = before_the_chain(run.scenario)  # no population, which may be made by code and files of others
        why = f": {reason}" if isinstance(reason, str) else ""
    text = f"No theory covers this scenario{why}, so that all figures are of this one run."
    if bias_of(run).seen is Seen.BIAS:
        yield Check("theory", Grade.CAUTION, text, **_other_seeds(run))
    else:
        yield Check("theory", Grade.NONE, text)


def _of_shares(run: Run, agrees: Check) -> Check:
    """Add to what agrees with theory that some drawn shares do not, with caution if chance alone seldom does that."""
    shares = run.series["shares"].drop_nulls(["low", "theory"]).filter(pl.col("kind") == pl.col("kind").first())
    outside = shares.filter((pl.col("theory") < pl.col("low")) | (pl.col("theory") > pl.col("high")))
    if outside.is_empty():
        return agrees
    # Intervals without a test of their own have the strictest level; so many are outside no more often than this.
    chance = min(1.0, float(shares["level"].fill_null(shares["level"].min()).sum()) / len(outside))
    off = listing_of([f"“{name}”" for name in outside["name"]], NAMED)
    text = f"Of the {count(len(shares), 'share')} drawn, theory lies outside the interval of {count(len(outside))}"
    text += f" ({off}); chance alone does that in at most {percent(chance)} of runs."
    if chance < LEVEL:
        return Check("off_theory", Grade.CAUTION, text, "", ("shares",), **_other_seeds(run))
    return replace(agrees, text=f"{agrees.text} {text}")


def swept(run: Run) -> list[str]:
    """Return the paths that the file of a run sweeps."""
    return [] if run.scenario.sweep is None else run.scenario.sweep.paths


def _smaller_cohorts(run: Run, why: str) -> Mapping[str, Any]:
    """Return what to do where rounds lack clients: a sweep of the cohort down to a quarter."""
    server = run.scenario.server
    if not server.selects_once or "server.cohort" in swept(run):
        return {}
    cohorts = sorted({max(1, server.cohort // 4), max(1, server.cohort // 2), server.cohort})
    command = command_of(run.manifest, "sweep", {"sweep.grid": f"{{server.cohort: {cohorts}}}"})
    return {"remedy": f"Sweep smaller cohorts, {why}.", "command": command, "turns": ("cohort",)}


def waits(run: Run) -> Iterator[Check]:
    """Whether rounds wait long for clients: a finding, and no reason against trust."""
    share = run.known.get("rounds.waiting_share", 0.0)
    if share < _WAITING or not run.clients["reported"].sum():
        return
    text, (empty, hours) = f"Rounds wait for clients {percent(share)} of the time.", hours_without(run)
    by = _smaller_cohorts(run, "with which rounds wait less")
    if 4 * empty >= len(hours) > 0:  # no cohort is small enough for the hours in which nobody is there
        verb = "Record" if any(each.availability.kind == "trace" for each in run.scenario.population) else "Add"
        where = "that are available in the other hours, as of other time zones: rounds wait there"
        by = {"remedy": f"{verb} devices {where}."}
    yield Check("waits", Grade.NONE, text, facts=("rounds.waiting_share",), **by)


def aborted(run: Run) -> Iterator[Check]:
    """Whether much device time is wasted since rounds select more clients than they want: a finding, as `waits`."""
    server, share = run.scenario.server, run.known.get("sessions.wasted_share", 0.0)
    if server.selects_once and server.over_select > 1 and run.known.get("sessions.aborted_share", 0.0) >= _WASTED:
        text = f"{percent(share)} of the device time was wasted."
        tried = ", ".join(f"{1 + by * (server.over_select - 1):g}" for by in (0, 0.5, 1))
        command = command_of(run.manifest, "sweep", {"sweep.grid": f"{{server.over_select: [{tried}]}}"})
        remedy = f"Select fewer than {count(server.wanted)} clients for {count(server.cohort, 'report')} (sweep "
        remedy += "`over_select`): less device time is wasted, and rounds may take longer."
        yield Check("wasted", Grade.NONE, text, facts=("sessions.wasted_share",), remedy=remedy, command=command)


def spends(run: Run) -> Iterator[Check]:
    """What most of the cost is for, and what lowers it: a finding, and no reason against trust."""
    parts, groups = cost_parts(run), [group.session for group in run.scenario.population]
    if not (cost := sum(part.cost for part in parts.values())):
        return
    most, first = next(iter(parts.items()))
    sizes, command = {getattr(each, first.key, None) for each in groups} if first.key else set(), ""
    if len(sizes) == 1 and isinstance(size := next(iter(sizes)), int | float):
        command = command_of(run.manifest, "run", {f"population.*.session.{first.key}": f"{size / 2e6:g}MB"})
    text = f"{percent(first.cost / cost)} of the cost is for {wording_of(most).words}"
    facts, remedy = ("fleet.cost", most), f"{first.remedy}: {text}."
    yield Check("spends", Grade.NONE, f"{text}.", facts=facts, remedy=remedy, command=command)


def epsilons(run: Run) -> Iterator[Check]:
    """What other promises of privacy would cost the model: a question that one run leaves open."""
    privacy = run.scenario.privacy
    if privacy is None or privacy.epsilon is None or privacy.training != "noise" or run.scenario.sweep is not None:
        return
    if optimizer_figures(run, "loss"):
        text = "The run has one epsilon: it does not show what others do to the loss."
        tried = ", ".join(f"{privacy.epsilon * by:g}" for by in (0.25, 0.5, 1, 2))
        command = command_of(run.manifest, "sweep", {"sweep.grid": f"{{privacy.epsilon: [{tried}]}}"})
        remedy = "Sweep epsilon, to see what its noise does to the loss."
        yield Check("epsilons", Grade.NONE, text, facts=("privacy.epsilon",), remedy=remedy, command=command)


def favours(run: Run) -> Iterator[Check]:
    """Whether a model favours a group by what its method weighs, and what would show it: a finding."""
    if (gap := favoured(run)) is not None and gap.settings:
        verb = "sweep" if "sweep.grid" in gap.settings else "run"
        by, text = command_of(run.manifest, verb, gap.settings), f"{capitalized(gap.text)}."
        turns = tuple(key.rpartition(".")[2] for key in gap.settings)
        yield Check("favours", Grade.NONE, text, "", gap.facts, gap.remedy, by, turns)


def full_cohorts(run: Run) -> Iterator[Check]:
    """Whether rounds got the reports that they wanted, and not many more."""
    if failed := run.known.get("rounds.failed_share"):
        text = f"{percent(failed)} of the rounds failed, since too few reported or stayed, and took no report."
        remedy = "Lower `minimum_reports` or select more clients."
        turns = ("minimum_reports", "cohort")
        yield Check("cohorts", Grade.CAUTION, text, facts=("rounds.failed_share",), remedy=remedy, turns=turns)
    met, short = run.known.get("rounds.target_share"), run.known.get("rounds.shortage_share")
    wants = run.wanted is not None and run.scenario.server.fixed_size and not run.rounds.is_empty()
    if wants and met is not None and run.known.get("sessions.reported_share"):
        text = f"{percent(met)} of the rounds closed with the reports they wanted"
        text += f"; {percent(short)} found too few eligible clients" if short else ""
        state = Grade.OK if met >= _FILLED else Grade.CAUTION
        by = _smaller_cohorts(run, "which fill more often") if state is Grade.CAUTION and short else {}
        yield Check("cohorts", state, f"{text}.", facts=("rounds.target_share", "rounds.shortage_share"), **by)
    yield from surplus(_alone(run))


def even(run: Run) -> Iterator[Check]:
    """Whether clients take part evenly, and what would even it out: a finding, and no reason against trust."""
    bias = bias_of(run)
    if bias.seen is Seen.BIAS:
        who = "Clients take part" if bias.whole else "Some parts of the clients take part"
        yield Check("even", Grade.NONE, f"{who} significantly unevenly.", **(_even_out(run) if bias.whole else {}))
    elif bias.seen in {Seen.NONE, Seen.EVEN}:
        yield Check("even", Grade.OK, f"No bias found{bias.could_see}.", facts=("bias", "shares"))


def setting(run: Run) -> Iterator[Check]:
    """Whether the run is one of several settings of a sweep."""
    if swept(run):
        text = "This run is one setting of those that the file sweeps."
        by = command_of(run.manifest, "sweep")
        yield Check("setting", Grade.CAUTION, text, remedy="Run all settings.", command=by)


def seeds(run: Run) -> Iterator[Check]:
    """Whether optimizers can be ranked by this run."""
    names = optimizer_figures(run, "loss")
    if len(set(names) - set(references(tuple(names)))) > 1 and not same_training(run) and not one_round(run):
        text = "Losses are of one seed: another may rank methods otherwise that are close."
        by = _other_seeds(run)
        rank = {"remedy": "To rank optimizers, repeat it with other seeds."} if by["remedy"] == OTHER_SEEDS else {}
        yield Check("seeds", Grade.CAUTION, text, **{**by, **rank})
    elif COVERED in run.known and left_to_chance(run):
        yield Check("chance", Grade.NONE, "Chance is large beside what the headline is about.", **_other_seeds(run))


def _other_seeds(run: Run) -> Mapping[str, Any]:
    """Return how to repeat a run; where chance hides whether some clients have their fair share, how often."""
    remedy, seeds = OTHER_SEEDS, _SEEDS
    for part in bias_of(run).parts:
        if part.key == run.scenario.headline and is_wide(part):
            error = part.visible / (POWER - float(normal_quantile(part.level / 2)))
            many = seeds_needed(part.times - 1, error * float(student_quantile(2)) / math.sqrt(2), 2, 1)
            if many is not None and many <= _MOST_SEEDS:
                seeds = max(seeds, many)
                remedy = f"Repeat it with {seeds} seeds, in which a share as far from fair as that of {part.words} "
                remedy += f"({number(part.times, 3)} times) is significant four times in five."
    return {"remedy": remedy, "command": with_seeds(run.manifest, seeds), "turns": SEEDS}


CHECKS: tuple[Callable[[Run], Iterator[Check]], ...] = (
    *(ended, reports_taken, of_log, privacy, trained, steps, expectations, enough, month, settled, separation, shocks),
    *(budget, epsilons, favours, spends, setting, even, full_cohorts, aborted, waits, theory, seeds),
)
"""All checks, the gravest first, and last those whose remedy is other seeds: findings have one of their own."""


@lru_cache(maxsize=1)
def _alone(run: Run) -> Trials:
    """Return a run as trials of one setting, which several checks ask."""
    return Trials.of_run(run)


def checks_of(run: Run) -> list[Check]:
    """Return what became of every check that applies, in the order of the list; seeds first where chance decides."""
    checks = [each for check in CHECKS for each in check(run)]
    if run.scenario.log is None:
        graver = any(each.name in {"converged", "cohorts"} and each.remedy for each in checks)  # no seeds cure that
        return sorted(checks, key=lambda each: each.turns != SEEDS) if left_to_chance(run) and not graver else checks
    return [each if each.name == "log" else replace(each, remedy="", command="") for each in checks]  # nothing is rerun
