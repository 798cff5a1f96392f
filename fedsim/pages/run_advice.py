"""What a run cost, how far to trust its figures, and what to do next."""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial

import numpy as np

from fedsim.common.errors import FedsimError
from fedsim.common.formatting import capitalized, count, duration, listing, many, number, percent
from fedsim.common.instants import HOUR_S, time_unit
from fedsim.measure.shares import ROUNDING
from fedsim.pages.bias import Bias, Seen
from fedsim.pages.finding import COST, MODEL, NEXT, TRUST, Finding, command_of
from fedsim.pages.methods import initial_loss, optimizer_figures, slow_descents, stopped_after
from fedsim.pages.metric_wording import tv
from fedsim.run.cautions import of_paid_rounds, of_separation, of_shocks, of_training, why_nothing
from fedsim.run.run import Run
from fedsim.scenario.learning import ConstantSchedule
from fedsim.scenario.stop import Stop
from fedsim.scenario.units import format_duration
from fedsim.theory.prediction import before_the_chain

SMALL = 0.05  # a difference that a run should be able to see
_LONG = 1_000  # times as long as it was, at which no run is proposed


def training_findings(run: Run) -> Iterator[Finding]:
    """Say how the server averages reports, and what may be wrong with that."""
    sizes, divisor = run.rounds["reported"], run.scenario.divisor
    yield from (Finding(f"{capitalized(text)}.", MODEL, warns=True) for text in of_training(run.known))
    if run.scenario.learning is not None and sizes.filter(sizes > 0).n_unique() > 1:
        how = "by their number, so that a report counts more in a small round"
        if divisor is not None or run.wanted is None:
            how = f"by {count(divisor or run.scenario.server.buffer or 1)}, so that all reports count alike"
        yield Finding(f"The server divides the sum of a {run.noun}'s reports {how}.", MODEL)


# What rounds that lack clients do, by the scenario's `shortage`
_SHORT = {"wait": ", and waited for more", "proceed": ", and went on with fewer", "skip": ", and were skipped"}


def spent_findings(run: Run) -> Iterator[Finding]:
    """Say what the run took of devices and time, and how rounds fared."""
    metric, server, said = run.known.get, run.scenario.server, list[str]()
    if epsilon := metric("privacy.epsilon"):
        assert run.scenario.privacy is not None
        said.append(f"epsilon = {number(epsilon, 3)} at delta = {number(run.scenario.privacy.delta)}")
    if hours := metric("sessions.device_hours"):
        wasted = metric("sessions.wasted_share")
        said.append(f"{many(hours, 'device-hour')}{f', {percent(wasted)} of that wasted' if wasted else ''}")
    if (pace := metric("rounds.per_day")) is not None:
        said.append(f"{many(pace, run.noun)} per simulated day")
    yield Finding(f"{capitalized('; '.join(said or ['the run took no time of devices']))}.", COST)
    length_s = (run.rounds["closed_s"] - run.rounds["opened_s"]).drop_nulls().to_numpy()
    if len(length_s) > 1 and np.ptp(length_s) <= ROUNDING * length_s.max():
        yield Finding(f"Each of the {count(len(length_s), run.noun)} took {duration(float(length_s[0]))}.", COST)
    if waiting := metric("rounds.waiting_share"):
        waited_s, longest = waiting * run.simulated_s, metric("rounds.wait.max")
        size, unit = (HOUR_S, "h") if waited_s >= HOUR_S else time_unit(waited_s)
        text = f"{number(waited_s / size, 3)} of {number(run.simulated_s / size, 3)} {unit}"
        text += f", the longest {duration(longest)}" if longest else ""
        yield Finding(f"Rounds spent {percent(waiting)} of the time waiting for clients ({text}).", COST)
    if failed := metric("rounds.failed_share"):
        least, gate = run.scenario.sync_server.minimum_reports, run.scenario.sync_server.secure_aggregation
        too_few = [f"fewer than {count(least, 'report')} came"] if least or gate is None else []
        too_few += [] if gate is None else [f"fewer than {count(gate.threshold, 'client')} stayed to unmask their sum"]
        text = f"{percent(failed)} of the rounds failed: {' or '.join(too_few)}, and none was taken"
        yield Finding(f"{text}.", COST, warns=True)
    if (shortage := metric("rounds.shortage_share")) and server.shortage is not None:
        text = f"{percent(shortage)} of the rounds found fewer eligible clients than they wanted to select"
        if (met := metric("rounds.target_share")) is not None:
            text += f"{_SHORT[server.shortage]}; {percent(met)} of all rounds closed with the reports they wanted"
        yield Finding(f"{text}.", COST)
    if (reported := metric("sessions.reported_share")) is not None and reported < 1:
        late = metric("sessions.late_share") if server.deadline else None
        why = f" ({percent(late)} missed the deadline of {duration(server.deadline)})" if late else ""
        yield Finding(f"{percent(reported)} of the sessions ended with a report{why}.", COST, warns=reported == 0)


def advice(run: Run, bias: Bias) -> Iterator[Finding]:
    """Say how far to trust the figures, warnings first, and what to do next."""
    worse = _worse(run)
    yield from sorted(_trust(run, bias, worse), key=lambda each: not each.warns)
    yield from _next(run, bias, worse)


def _trust(run: Run, bias: Bias, worse: list[str]) -> Iterator[Finding]:
    """Tell what chance does to the figures, what may not have been meant, and whether training settled."""
    separation, cooldown_s = run.clients["separation"].to_numpy(), run.clients["cooldown_s"].to_numpy()
    meant = tuple(of_separation(run.scenario, separation, cooldown_s))
    if nothing := why_nothing(run.known):
        yield Finding("Without a report that was taken nothing is known of a bias.", TRUST, warns=True)
    for text in (*of_shocks(run.scenario), *meant, *of_paid_rounds(run.known)):
        yield Finding(f"{capitalized(text)}.", TRUST, warns=True)
    if nothing:
        return
    if bias.seen in {Seen.ONCE, Seen.UNTESTED}:
        why = "nobody took part twice" if bias.seen is Seen.ONCE else f"the run has {bias.why}"
        told = (
            "No interval can be given for differences"
            if bias.far
            else "How much of a difference is chance cannot be said"
        )
        yield Finding(f"{told}: {why}.", TRUST, warns=True)
    of_theory = run.known if run.all_reported else {}  # which is of selections
    apart, noise = of_theory.get("participation.l1_chain"), of_theory.get("participation.l1_noise")
    if noise is not None and bias.seen not in {Seen.ONCE, Seen.UNTESTED}:
        by_chance = f"sampling noise alone would give {tv(noise)}"
        if apart is None:
            yield Finding(f"No theory covers this scenario{_why_not(run)}.", TRUST)
        else:
            far = apart > 2 * noise + ROUNDING
            text = f"Measurement and theory are {tv(apart)} apart (TV); {by_chance}"
            text += ": the theory does not describe this run." if far else "."
            yield Finding(text, TRUST, warns=far, brief=text.partition(";")[0] + " beyond noise." if far else text)
    elif not meant and not run.scenario.shocks and bias.seen not in {Seen.ONCE, Seen.UNTESTED}:
        yield Finding("One run, one seed: intervals are of chance within it, and no theory covers the scenario.", TRUST)
    if noise is None and bias.seen in {Seen.NONE, Seen.BIAS}:
        yield Finding(f"Chance was judged by the run itself{_why_not(run) and ', since no theory covers it'}.", TRUST)
    yield from _convergence(run, worse)


def _why_not(run: Run) -> str:
    """Say why theory does not hold, in brackets, as far as that is known."""
    with suppress(FedsimError):
        if isinstance(why := before_the_chain(run.scenario), str):
            return f" ({why})"
    return ""


def _convergence(run: Run, worse: list[str]) -> Iterator[Finding]:
    ends = optimizer_figures(run, "loss")
    names = [name for name in ends if name not in worse and run.known.get(f"learning.{name}.moved") != 0]
    if worse:
        those = [f"“{name}” ({number(initial_loss(run, name), 3)} to {number(ends[name], 3)})" for name in worse]
        text = "Training made the model worse than it was before, by the loss of"
        brief = f"Training made the model worse: see the loss of {those[0]}."
        yield Finding(f"{text} {listing(those)}.", TRUST, warns=True, brief=brief)
    state = {name: run.known.get(f"learning.{name}.converged") for name in names}
    moving, unknown = ([name for name in names if state[name] == value] for value in (0, None))
    late = {name: share for name, share in slow_descents(run).items() if name in names}
    if (stopped := stopped_after(run)) is not None:
        whole = count(len(run.rounds), run.noun)
        text = f"Training stopped after {stopped:,} of {whole}: all methods had reached the target by then."
        yield Finding(f"{text} Their losses do not show where they would end.", TRUST)
        return
    if moving:
        who = "all methods" if 1 < len(moving) == len(names) else listing(moving)
        text = f"The loss of {who} has NOT converged: it shows how far training got, not where it would end."
    elif unknown:
        text = f"Whether the loss of {listing(unknown)} converged is not known."
    elif late:
        share = " to ".join(dict.fromkeys(percent(end(late.values())) for end in (min, max)))
        text = (
            f"The losses hardly drift, yet {share} of the whole descent of {listing(list(late))} fell in the last "
            "quarter of the run: learning is slow, NOT settled."
        )
    elif names:
        who = listing(names) if worse or len(names) == 1 else "all methods"
        text = f"The loss of {who} has converged{', so that they can be compared' if len(names) > 1 else ''}."
    else:
        return
    yield Finding(text, TRUST, warns=bool(moving or unknown or late))


def _worse(run: Run) -> list[str]:
    """Return the optimizers whose loss ends above that of the initial model, by more than its three digits show."""
    ends = optimizer_figures(run, "loss")
    names = [name for name in ends if run.known.get(f"learning.{name}.moved") != 0]
    starts = {name: start for name in names if (start := initial_loss(run, name)) is not None}
    return [name for name, start in starts.items() if ends[name] > start and number(ends[name], 3) != number(start, 3)]


def longer_command(known: Mapping[str, object], verb: str, stop: Stop, times: int) -> str:
    """Return the command of a manifest or `sweep.json` for so many times as much; "" where it has none."""
    settings = [] if stop.rounds is None else [f"stop.rounds={times * stop.rounds}"]
    settings += [] if stop.duration is None else [f"stop.duration={format_duration(times * stop.duration)}"]
    return command_of(known, verb, *settings)


def _next(run: Run, bias: Bias, worse: list[str]) -> Iterator[Finding]:
    """Yield what to do next: first what the figures lack to be trusted, then what helps against what they show."""
    metric, server = run.known.get, run.scenario.server
    said, noun, trained = dict[str, str](), run.noun, optimizer_figures(run, "loss")  # with their commands
    longer = partial(longer_command, run.manifest, "run", run.scenario.stop)
    seeds = command_of(run.manifest, "sweep", "sweep.seeds=5")
    if run.manifest.get("stalled"):
        said["Lower the separation, cohort or caps, or let rounds go on with fewer clients (`shortage`)"] = ""
    elif why_nothing(run.known) or bias.seen is Seen.NOBODY:
        late = server.deadline is not None and metric("sessions.late_share")
        said["Set a longer `deadline`" if late else "See below how sessions ended, and why no report was taken"] = ""
    if worse or any(name.endswith(".diverged_round") for name in run.known):
        step = None if run.scenario.learning is None else run.scenario.learning.step_size
        lower = f"learning.step_size={step.initial / 10:g}" if isinstance(step, ConstantSchedule) else ""
        command = lower and command_of(run.manifest, "run", lower)
        said["Lower the step (`learning.step_size`): training made a model worse"] = command
    sweep = run.scenario.sweep
    if sweep is not None and sweep.paths:
        said["Run all settings of the file's sweep: this run is one of them"] = command_of(run.manifest, "sweep")
    if bias.seen is Seen.UNTESTED:
        said[f"Run longer: {bias.why} do not tell bias from chance"] = longer(10)
    elif bias.seen is Seen.ONCE and bias.visible is None:
        said["Run longer, until clients take part more than once"] = longer(10)
    elif bias.seen in {Seen.NONE, Seen.ONCE} and not bias.more_even and bias.visible is not None:
        seen = max([bias.visible, *(part.visible for part in bias.parts if math.isfinite(part.visible))])
        times = math.ceil((seen / SMALL) ** 2)
        if 1 < times <= _LONG:
            whole = f"{count(times * len(run.rounds), noun)}, about {duration(times * run.simulated_s)}"
            said[f"Run {count(times)} times as long ({whole}) to see a difference of 5 %"] = longer(times)
    state = [metric(f"learning.{name}.converged") for name in trained]
    if trained and (0 in state or slow_descents(run)) and stopped_after(run) is None:
        said["Run longer, or with a larger step: losses are not settled"] = longer(2)
    if bias.seen is Seen.BIAS:
        if metric("participation.l1_chain") is None:
            said["Repeat it with other seeds, since no theory covers it"] = seeds
        said |= _against_bias(run, trained)
    asked = "the run answers its question" if run.scenario.question else "no more is needed"
    ranking = {"To rank optimizers, repeat it with other seeds (who takes part is settled)": seeds}
    said = said or (ranking if len(trained) > 1 else {f"Nothing: {asked}": ""})
    yield from (Finding(f"{text}.", NEXT, command=command) for text, command in said.items())


def _against_bias(run: Run, trained: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Say what helps against uneven participation."""
    once, clients = run.scenario.server.selects_once, run.clients
    if run.scenario.learning is not None and once and not any("debias" in name for name in trained):
        yield "Train with `debiased_fedavg` too, which corrects the model for uneven participation", ""
    if not once:
        return
    most, longest = len(clients) // run.scenario.server.wanted - 1, int(clients["separation"].max() or 0)  # type: ignore[arg-type]
    step = longest or max(1, most // 4)
    values = [each for each in (0, step, 2 * step, 4 * step) if each <= most]
    swept = any("separation" in str(each) for each in run.manifest.get("overrides") or ())
    command = command_of(run.manifest, "sweep", f"sweep.grid={{population.*.separation: {values}}}")
    yield "Sweep the separation: what evens participation out, and at what cost", "" if swept else command
