"""The checks of a run, in one list: whether it ended, kept its promises, trained, lasted long enough, fits the theory.

The headline, if one is bad, the status strip, what to trust, what to do next, and exit codes all follow from this list.
A check of one's own is one function in `CHECKS`.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial

from fedsim.common.errors import FedsimError
from fedsim.common.formatting import capitalized, count, duration, number, percent
from fedsim.measure.contributions import Contributions
from fedsim.measure.shares import ROUNDING
from fedsim.pages.bias import Seen, bias_of
from fedsim.pages.commands import command_of, longer_command
from fedsim.pages.expectations import verdict
from fedsim.pages.methods import initial_loss, optimizer_figures, references, slow_descents, stopped_after
from fedsim.pages.metric_wording import tv
from fedsim.privacy.bounds import ParticipationBounds, broken_promises
from fedsim.run.cautions import OTHER_SEEDS, of_separation, of_shocks, why_nothing
from fedsim.run.check import Check, State
from fedsim.run.run import Run
from fedsim.scenario.learning import ConstantSchedule
from fedsim.theory.prediction import before_the_chain

SMALL = 0.05  # a difference that a run should be able to see
_LONG = 1_000  # times as long as it was, at which no run is proposed
_PAID = 0.9  # of the rounds that the noise of privacy is made for, this share should come about
_FILLED = 0.9  # of the rounds, this share should close with the reports they wanted
LONGER = "Run longer."
LOWER_STEP = "Lower the step (`learning.step_size`)."


def ended(run: Run) -> Iterator[Check]:
    """Whether the run reached its end."""
    if stalled := run.manifest.get("stalled"):
        text = f"The run stalled in {run.noun} {len(run.rounds) - 1:,} and ended there: {stalled}."
        remedy = "Lower the separation, the cohort or the caps, or let rounds go on with fewer clients (`shortage`)."
        yield Check("ended", State.BAD, text, facts=("rounds.count",), remedy=remedy)
    elif run.rounds.is_empty():
        yield Check("ended", State.BAD, "Nothing was simulated: the run has no rounds.")
    else:
        text = f"The run ended after {count(len(run.rounds), run.noun)}."
        yield Check("ended", State.OK, text, facts=("rounds.count",))


def reports(run: Run) -> Iterator[Check]:
    """Whether any report reached the model."""
    bad = partial(Check, "reports", State.BAD)
    if run.rounds.is_empty():
        return
    if nothing := why_nothing(run.known):
        late = run.scenario.server.deadline is not None and run.known.get("sessions.late_share")
        remedy = "Set a longer `deadline`." if late else "See how sessions ended, and why no report was taken."
        yield bad(f"{capitalized(nothing)}.", facts=("rounds.count", "sessions.count"), remedy=remedy)
    elif not run.clients["reported"].sum():
        yield bad("Nobody took part.", remedy="See how sessions ended, and why no report was taken.")
    elif (share := run.known.get("sessions.reported_share")) is not None:
        text = f"{'All sessions' if share == 1 else f'{percent(share)} of the sessions'} ended with a report."
        yield Check("reports", State.OK, text, facts=("sessions.reported_share",))


def privacy(run: Run) -> Iterator[Check]:
    """Whether clients took part no more often, and no sooner again, than is promised."""
    keys = tuple(f"privacy.{name}" for name in ("rounds", "separation", "most"))
    table = run.series.get("contributions")
    if run.scenario.privacy is None or table is None or any(key not in run.known for key in keys):
        return
    rounds, apart, most = (int(run.known[key]) for key in keys)
    bounds = ParticipationBounds(rounds, apart, most)
    faults = broken_promises(bounds, Contributions(**table.row(0, named=True)))
    bad = partial(Check, "privacy", State.BAD, facts=(*keys, "contributions"))
    yield from (bad(f"The log breaks the promise of privacy: {fault}.") for fault in faults)
    if not faults:
        yield Check("privacy", State.OK, "The log keeps the promise of privacy.", facts=keys)


def budget(run: Run) -> Iterator[Check]:
    """Whether the noise of privacy was made for about as many rounds as came about."""
    paid, rounds = run.known.get("privacy.rounds", 0.0), run.known.get("rounds.count", 0.0)
    if 0 < rounds < _PAID * paid:
        text = f"The noise is made for {count(paid, 'round')}, and {count(rounds)} came about."
        remedy = f"Make the noise for {count(rounds, 'round')}: the same epsilon needs less."
        command = command_of(run.manifest, "run", f"stop.rounds={rounds:.0f}")
        yield Check("budget", State.CAUTION, text, "", ("privacy.rounds", "rounds.count"), remedy, command)


_OF_VERDICT = {"fail": State.BAD, "warn": State.CAUTION, "pass": State.OK, "unjudged": State.NONE}


def expectations(run: Run) -> Iterator[Check]:
    """Whether the expectations of the scenario are met."""
    if (found := verdict(run.manifest.get("verdict"))) is not None:
        state = State.OK if found.status == "unjudged" and found.met else _OF_VERDICT[found.status]
        yield Check("expectations", state, found.headline)


def trained(run: Run) -> Iterator[Check]:
    """Whether training stayed finite, moved the model, and made it better."""
    learning, made = run.scenario.learning, _made_worse(run)
    if learning is None:
        return
    step = learning.step_size
    lower = f"learning.step_size={step.initial / 10:g}" if isinstance(step, ConstantSchedule) else ""
    of_step = {"remedy": LOWER_STEP, "command": lower and command_of(run.manifest, "run", lower)}
    said = 0
    for name, figure in _optimizer_keys(run):
        key = f"learning.{name}.{figure}"
        value = run.known.get(key)
        found = None
        if value is None:
            continue
        if figure == "diverged_round":
            found = Check(
                "trained", State.BAD, f"Training with “{name}” diverged at round {value:,.0f}.", name, (key,), **of_step
            )
        elif figure == "dropped_updates" and value:
            were = "was" if value == 1 else "were"
            text = f"{count(value, 'update')} of “{name}” {were} not finite, and counted as zero."
            found = Check("trained", State.CAUTION, text, name, (key,), **of_step)
        elif figure == "moved" and not value:
            text = f"The model of “{name}” never moved: the server made no step, or every step was zero."
            found = Check("trained", State.BAD, text, name, (key,))
        elif figure == "loss" and name in made:
            end = f"the loss of “{name}”, {number(value, 3)}, is above that before training"
            text = f"Training made the model worse: {end}."
            found = Check("trained", State.BAD, text, name, (key,), **of_step)
        if found is not None:
            said += 1
            yield found
    if not said and optimizer_figures(run, "loss"):
        yield Check("trained", State.OK, "Training stayed finite, and no model ends worse than it began.")


def _optimizer_keys(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the optimizers of a run with each figure that tells of a fault."""
    names = [] if run.learning is None else run.learning["optimizer"].unique(maintain_order=True).to_list()
    return ((name, figure) for name in names for figure in ("diverged_round", "dropped_updates", "moved", "loss"))


def _made_worse(run: Run) -> set[str]:
    """Return the optimizers whose loss ends above that of the initial model, by more than its three digits show."""
    ends = optimizer_figures(run, "loss")
    names = [name for name in ends if run.known.get(f"learning.{name}.moved") != 0]
    starts = {name: start for name in names if (start := initial_loss(run, name)) is not None}
    return {name for name, start in starts.items() if ends[name] > start and number(ends[name], 3) != number(start, 3)}


def settled(run: Run) -> Iterator[Check]:
    """Whether losses show where training ends; those of models that trained at all."""
    worse = _made_worse(run)
    names = [
        name
        for name in optimizer_figures(run, "loss")
        if name not in worse and run.known.get(f"learning.{name}.moved") != 0
    ]
    if names and (stopped := stopped_after(run)) is not None:
        text = f"Training stopped after {count(stopped, run.noun)}: all methods had reached the target by then."
        keys = tuple(f"learning.{name}.rounds_to_target" for name in names)
        yield Check("settled", State.OK, text, facts=keys)
        return
    late, longer = slow_descents(run), longer_command(run.manifest, "run", run.scenario.stop, 2)
    for name in names:
        key = f"learning.{name}.converged"
        caution = partial(Check, "settled", State.CAUTION, of=name, remedy=LONGER, command=longer)
        state = run.known.get(key)
        if state == 0:
            text = f"The loss of “{name}” has not converged: it shows how far training got, not where it would end."
            yield caution(text, facts=(key,))
        elif name in late:
            text = f"{percent(late[name])} of the descent of the loss of “{name}” fell in the last quarter of the run."
            yield caution(text, facts=(f"learning.{name}.late_descent",))
        elif state is None:
            yield Check("settled", State.CAUTION, f"Whether the loss of “{name}” converged is not known.", name)
        else:
            yield Check("settled", State.OK, f"The loss of “{name}” has converged.", name, (key,))


def enough(run: Run) -> Iterator[Check]:
    """Whether the run is long enough to tell a bias from chance."""
    bias = bias_of(run)
    longer, caution = (
        partial(longer_command, run.manifest, "run", run.scenario.stop),
        partial(Check, "enough", State.CAUTION),
    )
    if bias.seen is Seen.UNTESTED:
        text = f"Bias cannot be tested: {bias.why}."
        yield caution(text, facts=("bias",), remedy=LONGER, command=longer(10))
    elif bias.seen is Seen.ONCE:
        text = "Nobody took part twice, so that a bias between clients cannot be seen."
        yield caution(text, remedy=LONGER, command=longer(10))
    elif bias.seen is Seen.NONE and not bias.more_even and bias.visible is not None:
        seen = max([bias.visible, *(part.visible for part in bias.parts if part.tested)])
        times = math.ceil((seen / SMALL) ** 2)
        text = f"A distance of {percent(bias.visible)} beyond chance would be significant in four of five such runs."
        if bias.visible <= 2 * SMALL or times > _LONG:
            state = State.OK if bias.visible <= 2 * SMALL else State.CAUTION
            yield Check("enough", state, text, facts=("bias",))
        else:
            whole = f"{count(times)} times as long, about {duration(times * run.simulated_s)},"
            remedy = f"Run {whole} to see a distance of {percent(SMALL)}."
            yield caution(text, facts=("bias",), remedy=remedy, command=longer(times))
    elif bias.seen in {Seen.NONE, Seen.BIAS}:
        yield Check("enough", State.OK, "The run is long enough to test participation for bias.")


def separation(run: Run) -> Iterator[Check]:
    """Whether clients can take part often enough, as far as separations and cool-downs let them."""
    clients = run.clients
    found = list(of_separation(run.scenario, clients["separation"].to_numpy(), clients["cooldown_s"].to_numpy()))
    yield from found
    if not found and ((clients["separation"] > 0).any() or (clients["cooldown_s"] > 0).any()):
        yield Check("separation", State.OK, "The run is longer than clients wait.")


def shocks(run: Run) -> Iterator[Check]:
    """Whether shocks make one run one course of many."""
    yield from of_shocks(run.scenario)


def theory(run: Run) -> Iterator[Check]:
    """Whether theory covers the scenario, and agrees with what was measured."""
    known, bias = run.known, bias_of(run)
    expected, apart, noise = (
        known.get(f"participation.{name}") for name in ("l1_uniform_theory", "l1_chain", "l1_noise")
    )
    if run.rounds.is_empty() or not run.clients["participations"].sum():
        return
    if expected is None and apart is None:
        why = ""
        try:
            found = before_the_chain(run.scenario)
            why = f": {found}" if isinstance(found, str) else ""
        except FedsimError:
            pass
        state = State.CAUTION if bias.seen is Seen.BIAS else State.NONE
        seeds = command_of(run.manifest, "sweep", "sweep.seeds=5")
        yield Check("theory", state, f"No theory covers this scenario{why}.", remedy=OTHER_SEEDS, command=seeds)
    elif apart is not None and noise is not None:
        what = "Participation" if run.all_reported else "Selection"
        far = apart > 2 * noise + ROUNDING
        text = f"{what} is {tv(apart)} from theory (TV), where noise alone would give {tv(noise)}"
        text += ": the theory does not describe this run." if far else "."
        facts = ("participation.l1_chain", "participation.l1_noise")
        yield Check("theory", State.CAUTION if far else State.OK, text, facts=facts)
    else:
        yield Check("theory", State.OK, "Theory covers this scenario; how far noise puts a run from it is not known.")


def cohorts(run: Run) -> Iterator[Check]:
    """Whether rounds got the reports that they wanted."""
    if failed := run.known.get("rounds.failed_share"):
        text = f"{percent(failed)} of the rounds failed, since too few reported or stayed, and took no report."
        yield Check(
            "cohorts",
            State.CAUTION,
            text,
            facts=("rounds.failed_share",),
            remedy="Lower `minimum_reports` or select more clients.",
        )
    met, short = run.known.get("rounds.target_share"), run.known.get("rounds.shortage_share")
    if met is not None and run.wanted is not None and run.scenario.server.fixed_size and not run.rounds.is_empty():
        text, facts = f"{percent(met)} of the rounds closed with the reports they wanted", ["rounds.target_share"]
        if short:
            text += f"; {percent(short)} found too few eligible clients"
            facts.append("rounds.shortage_share")
        state = State.OK if met >= _FILLED else State.CAUTION
        yield Check("cohorts", state, f"{text}.", facts=tuple(facts))


def even(run: Run) -> Iterator[Check]:
    """Whether clients take part evenly, and what would even it out."""
    bias, server, clients = bias_of(run), run.scenario.server, run.clients
    if bias.seen not in {Seen.BIAS, Seen.NONE, Seen.EVEN}:
        return
    if bias.seen is not Seen.BIAS:
        yield Check("even", State.OK, "Participation is not significantly uneven.")
        return
    who = "Clients take part" if bias.whole else "Some parts of the clients take part"
    remedy = command = ""
    if server.selects_once:
        most, longest = len(clients) // server.wanted - 1, int(clients["separation"].max() or 0)  # type: ignore[arg-type]
        step = longest or max(1, most // 4)
        values = [each for each in (0, step, 2 * step, 4 * step) if each <= most]
        swept = any("separation" in str(each) for each in run.manifest.get("overrides") or ())
        if len(values) > 1:
            remedy = "Sweep the separation: which one evens participation out, and at what cost?"
            command = (
                "" if swept else command_of(run.manifest, "sweep", f"sweep.grid={{population.*.separation: {values}}}")
            )
    yield Check("even", State.CAUTION, f"{who} significantly unevenly.", remedy=remedy, command=command)


def debiased(run: Run) -> Iterator[Check]:
    """Whether a method that corrects for uneven participation is among those trained, where that is needed."""
    kinds = [] if run.scenario.learning is None else [each.kind for each in run.scenario.learning.optimizers]
    if kinds and bias_of(run).seen is Seen.BIAS and run.scenario.server.selects_once:
        corrected = any("debiased" in kind for kind in kinds)
        text = f"{'A' if corrected else 'No'} method that corrects for uneven participation is trained."
        remedy = (
            "" if corrected else "Train with `debiased_fedavg` too, which corrects the model for uneven participation."
        )
        yield Check("debiased", State.OK if corrected else State.CAUTION, text, remedy=remedy)


def setting(run: Run) -> Iterator[Check]:
    """Whether the run is one of several settings of a sweep."""
    sweep = run.scenario.sweep
    if sweep is not None and sweep.paths:
        text = "This run is one setting of those that the file sweeps."
        yield Check(
            "setting", State.CAUTION, text, remedy="Run all settings.", command=command_of(run.manifest, "sweep")
        )


def seeds(run: Run) -> Iterator[Check]:
    """Whether optimizers can be ranked by this run."""
    names = optimizer_figures(run, "loss")
    if len(set(names) - set(references(tuple(names)))) > 1:
        text = "Losses are of one seed, and their intervals are of chance within it."
        command = command_of(run.manifest, "sweep", "sweep.seeds=5")
        yield Check("seeds", State.OK, text, remedy="To rank optimizers, repeat it with other seeds.", command=command)


CHECKS: tuple[Callable[[Run], Iterator[Check]], ...] = (
    *(ended, reports, privacy, expectations, trained, settled, enough, separation, shocks, budget),
    *(theory, cohorts, setting, even, debiased, seeds),
)
"""All checks, the gravest first."""


def checks_of(run: Run) -> list[Check]:
    """Return what became of every check of a run, in the order of the list; one that does not apply says nothing."""
    return [found for check in CHECKS for found in check(run)]
