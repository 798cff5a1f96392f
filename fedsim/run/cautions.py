"""Checks of a scenario before it runs: too short to measure bias, separations too long, shocks, deadlines."""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.common.formatting import count
from fedsim.common.instants import DAY_S, readable_time, to_ms
from fedsim.common.keyed import Purpose, stream
from fedsim.common.outcomes import SESSION_OUTCOMES
from fedsim.population.feasibility import shortage
from fedsim.population.sessions import cut_short, session_phases, whole_steps
from fedsim.run.check import LENGTH, SEEDS, Check, Grade
from fedsim.run.federation import PreparedFederation
from fedsim.scenario import Scenario
from fedsim.simulation.endings import whole_lengths
from fedsim.simulation.engine import sample
from fedsim.theory.busy import is_busy

OTHER_SEEDS = "Repeat it with other seeds."
"""What helps where one run shows one course of chance."""
SPREAD = "Let sessions differ in length, so that not all end at once: by a lognormal `train`, `samples` or `link`."
SURPLUS = 1.1  # times the reports that a round wants, from which on it takes too many
_SAMPLED = 10_000  # clients whose sessions are compared with the deadline


def of_separation(scenario: Scenario, separation: Ints, cooldown_s: Floats) -> Iterator[Check]:
    """Check separations (N,) in rounds, cool-downs (N,) and the length of the run against each other."""
    rounds, server, clients = scenario.stop.most_rounds, scenario.server, len(separation)
    caution = partial(Check, "separation", Grade.CAUTION)
    waiting = ((separation > 0) & (separation + 1 >= rounds)) | (cooldown_s >= scenario.stop.most_s)
    if once := int(waiting.sum()):
        who = "Every client" if once == clients else f"{once:,} of {clients:,} clients"
        does = "take part" if server.cooldown_from == "selected" else "report"
        text = f"{who} can {does} once at most before the run ends: how often says nothing of a bias."
        remedy = "Run longer than clients wait, or let them wait less."
        yield caution(text, remedy=remedy, turns=(*LENGTH, "separation", "cooldown"))
    if server.selects_once and (most := rounds * server.wanted) < clients:
        text = f"The run can reach {most:,} of {clients:,} clients at most: only groups of clients can be compared."
        yield caution(text, remedy="Run longer, to compare clients.", turns=LENGTH)
    longest = float(cooldown_s.max(initial=0.0))
    if 0 < longest < DAY_S and any(group.availability.kind == "habits" for group in scenario.population):
        text = f"A cool-down of {readable_time(longest)} is shorter than a day: devices with habits come at about the "
        text += "same hours every day, and it keeps nobody out until the same hour of the next."
        yield caution(text, remedy="Set a cool-down longer than a day.", turns=("cooldown",))


def of_shortage(federation: PreparedFederation) -> Iterator[Check]:
    """Find separations and caps that stop a run which gets far enough."""
    scenario, population = federation.scenario, federation.population
    if (short := shortage(scenario, population)) is not None:
        noun = scenario.server.noun
        text = f"The separations (or caps) can be kept for less than {short.rounds:,} {noun}s: clients can take part "
        text += (
            f"{short.possible:,} times in these, which need {short.needed:,}; a run that gets so far waits for ever."
        )
        remedy = "Lower the separation or the cohort, or raise the caps."
        yield Check("ended", Grade.CAUTION, text, remedy=remedy, turns=("separation", "cohort", "most"))


def of_theory(federation: PreparedFederation) -> Iterator[Check]:
    """Say whether theory holds for devices that are always available, where one might take the chain for granted."""
    if not federation.scenario.always_available:
        return
    if isinstance(theory := federation.theory, str):
        yield Check("theory", Grade.CAUTION, f"Theory does not hold here: {theory}.")
    elif is_busy(theory):
        yield Check("theory", Grade.OK, f"Theory holds here by the method {theory.method}: {theory.caveats[0]}.")


def of_shocks(scenario: Scenario) -> Iterator[Check]:
    """Find shocks, of which one run shows one course."""
    if scenario.shocks:
        text = "Shocks take devices out together, and one run shows one course of them."
        yield Check("shocks", Grade.CAUTION, text, remedy=OTHER_SEEDS, turns=SEEDS)


def of_sessions(federation: PreparedFederation) -> Iterator[Check]:
    """Find a deadline that the median session misses, and sessions that end together where more are selected."""
    scenario, population, server = federation.scenario, federation.population, federation.scenario.server
    deadline, some = to_ms(server.deadline or 0.0), sample(population.group, _SAMPLED).clients
    some = np.arange(len(population)) if some is None else some
    phases = session_phases(scenario, population, stream(scenario.own_seed, 0, Purpose.SESSION))(some, 0)
    if server.deadline and server.partial and (steps := whole_steps(scenario, population)) is not None:
        cut_short(phases, steps[some], server.deadline * population.speed[some])
    lengths = np.sort(whole_lengths(phases, population.speed[some]))
    late, median = float((lengths > deadline).mean()), float(np.median(lengths)) / 1000
    if server.deadline and not server.overtime and late >= 0.5:
        text = f"{late:.0%} of the sessions would be late: the median takes {readable_time(median)}, and the "
        text += f"deadline is {readable_time(server.deadline)}."
        yield Check("cohorts", Grade.CAUTION, text, remedy="Set a longer `deadline`.", turns=("deadline",))
    if not server.closes_early:
        return
    cohort = scenario.sync_server.cohort
    closes = int(lengths[-(-len(lengths) * cohort // server.wanted) - 1])  # of a round, from its selection
    taken = server.wanted * float((lengths <= closes).mean())
    if not 0 < deadline < closes and taken > SURPLUS * cohort + server.wanted / len(lengths):
        text = f"A round takes about {taken:,.0f} reports and wants {cohort:,}: many sessions take "
        text += f"{readable_time(closes / 1000)}, and all reports of the instant at which a round closes count."
        yield Check("surplus", Grade.CAUTION, text, remedy=SPREAD, turns=("session",))


def of_memory(federation: PreparedFederation) -> Iterator[Check]:
    """Tell how many devices of each group have too little memory to train."""
    scenario, population = federation.scenario, federation.population
    small = np.bincount(population.group[population.barred], minlength=len(scenario.population))
    for group, number in zip(scenario.population, small.tolist(), strict=True):
        if number and not group.left_out:
            text = f"{number:,} of {group.devices:,} devices have less memory than session.needs and never take part."
            yield Check("cohorts", Grade.CAUTION, text, of=group.name)


def before(federation: PreparedFederation) -> Iterator[Check]:
    """Check a scenario before it runs, in the order of the list of checks."""
    scenario, population = federation.scenario, federation.population
    yield from of_shortage(federation)
    yield from of_separation(scenario, population.separation, population.cooldown_s)
    yield from of_shocks(scenario)
    yield from of_theory(federation)
    yield from of_sessions(federation)
    yield from of_memory(federation)


def why_nothing(metrics: Mapping[str, float], deadline_s: float | None = None) -> str:
    """Say that no report was taken, and what became of the sessions; "" where one was, or if that is not known.

    The deadline is named where it is given.
    """
    sessions = round(metrics.get("sessions.count", -1))
    if sessions < 0 or "rounds.count" not in metrics or metrics.get("sessions.reported_share", 0.0) > 0:
        return ""
    ends = {name: round(metrics.get(f"sessions.{name}_share", 0.0) * sessions) for name in SESSION_OUTCOMES}
    if not sessions:
        return f"nobody was selected in {count(metrics['rounds.count'], 'round')}"
    if sessions == ends["late"]:
        limit = "" if deadline_s is None else f"{readable_time(deadline_s)} "
        return f"all {count(sessions, 'session')} missed the {limit}deadline"
    ended = ", ".join(f"{number:,} {name}" for name, number in ends.items() if number)
    return f"no report was taken of {count(sessions, 'session')} in {count(metrics['rounds.count'], 'round')} ({ended})"
