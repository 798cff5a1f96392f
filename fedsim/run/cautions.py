"""Checks of a scenario before it runs: too short to measure bias, separations too long, shocks, deadlines."""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.common.instants import DAY_S, readable_time, to_ms
from fedsim.common.keyed import Purpose, stream
from fedsim.common.outcomes import SESSION_OUTCOMES
from fedsim.measure.metrics import of_jobs
from fedsim.population.feasibility import shortage
from fedsim.population.sessions import session_phases, upload_bits
from fedsim.run.check import Check, State
from fedsim.run.federation import PreparedFederation
from fedsim.scenario import Scenario
from fedsim.simulation.engine import sample
from fedsim.simulation.world import whole_lengths
from fedsim.theory.prediction import before_the_chain

_SHOWN = 3
OTHER_SEEDS = "Repeat it with other seeds."
"""What helps where one run shows one course of chance."""
_ROUND = 1_000  # clients that stand for a larger round
_SAMPLED = 10_000  # clients whose sessions are compared with the deadline


def of_separation(scenario: Scenario, separation: Ints, cooldown_s: Floats) -> Iterator[Check]:
    """Check separations (N,) in rounds, cool-downs (N,) and the length of the run against each other."""
    rounds, stop_s, server, clients = scenario.stop.rounds, scenario.stop.most_s, scenario.server, len(separation)
    wanted = server.wanted
    longest = float(cooldown_s.max(initial=0.0))
    once = f"can {'take part' if server.cooldown_from == 'selected' else 'report'} once at most, with "
    nothing = "how often says nothing of a bias."
    caution = partial(Check, "separation", State.CAUTION, remedy="Run longer than clients wait, or let them wait less.")
    if rounds is not None and (kept := int(((separation > 0) & (separation + 1 >= rounds)).sum())):
        most = int(separation.max())
        of = f"a separation of {most:,} {server.turn}{'' if most == 1 else 's'} in a run of {rounds:,}"
        yield caution(f"{_who(kept, clients)} {once}{of}: {nothing}")
    if kept := int((cooldown_s >= stop_s).sum()):
        of = f"a cool-down of {readable_time(longest)} in a run of {readable_time(stop_s)}"
        yield caution(f"{_who(kept, clients)} {once}{of}: {nothing}")
    if rounds is not None and server.selects_once and rounds * wanted < clients:
        taken = f"{rounds:,} round{'s' if rounds > 1 else ''} of {wanted:,} "
        taken += "is 1 participation" if rounds * wanted == 1 else f"are {rounds * wanted:,} participations"
        text = f"{taken} for {clients:,} clients, not even one for each: only groups of clients can be compared."
        yield caution(text, remedy="Run longer, to compare clients.")
    if 0 < longest < DAY_S and any(group.availability.kind == "habits" for group in scenario.population):
        yield caution(
            f"A cool-down of {readable_time(longest)} is shorter than a day, and devices with habits come at about the "
            "same hours every day: it keeps nobody out from one day to the same hour of the next.",
            remedy="Set a cool-down longer than a day.",
        )


def of_shortage(federation: PreparedFederation) -> Iterator[Check]:
    """Find separations and caps that stop a run which gets far enough."""
    scenario, population = federation.scenario, federation.population
    if (short := shortage(scenario, population)) is not None:
        turn = scenario.server.turn
        text = (
            f"The separations (or caps) can be kept for less than {short.rounds:,} {turn}s: clients can take part "
            f"{short.possible:,} times in these, which need {short.needed:,}; a run that gets so far waits for ever."
        )
        yield Check("ended", State.CAUTION, text, remedy="Lower the separation, the cohort or the caps.")


def of_theory(federation: PreparedFederation) -> Iterator[Check]:
    """Say whether theory holds for devices that are always available, where one might take the chain for granted."""
    scenario, population = federation.scenario, federation.population
    known = before_the_chain(scenario, population) if scenario.always_available else None
    if isinstance(known, str):
        yield Check("theory", State.CAUTION, f"Theory does not hold here: {known}.")
    elif known is not None:
        yield Check("theory", State.OK, f"Theory holds here by the method {known.method}: {known.caveats[0]}.")


def _who(kept: int, clients: int) -> str:
    return "Every client" if kept == clients else f"{kept:,} of {clients:,} clients"


def of_shocks(scenario: Scenario) -> Iterator[Check]:
    """Find shocks, of which one run shows one course."""
    if scenario.shocks:
        names = ", ".join(f"“{shock.name}”" for shock in scenario.shocks[:_SHOWN])
        more = f" and {len(scenario.shocks) - _SHOWN} more" if len(scenario.shocks) > _SHOWN else ""
        text = f"Shocks ({names}{more}) take devices out together, and one run shows one course of them."
        yield Check("shocks", State.CAUTION, text, remedy=OTHER_SEEDS)


def of_deadline(federation: PreparedFederation) -> Iterator[Check]:
    """Find a deadline that the median session misses."""
    scenario, population = federation.scenario, federation.population
    if scenario.server.deadline is None:
        return
    deadline, some = to_ms(scenario.server.deadline), sample(population.group, _SAMPLED).clients
    some = np.arange(len(population)) if some is None else some
    phases = session_phases(scenario, population, stream(scenario.own_seed, 0, Purpose.SESSION))(some, 0)
    lengths = whole_lengths(phases, population.speed[some])
    late, median = float((lengths > deadline).mean()), float(np.median(lengths)) / 1000
    if late >= 0.5:
        text = (
            f"{'Every session' if late == 1 else f'{late:.0%} of the sessions'} would be late: the median takes "
            f"{readable_time(median)}, and the deadline is {readable_time(scenario.server.deadline)}."
        )
        yield Check("cohorts", State.CAUTION, text, remedy="Set a longer `deadline`.")


def of_uplink(federation: PreparedFederation) -> Iterator[str]:
    """Say how long the server's uplink makes a round in which everyone reports, and how much of it is used."""
    scenario, population = federation.scenario, federation.population
    if (uplink := scenario.server.uplink) is None:
        return
    from fedsim.population.uplink import shared  # only where needed: it compiles

    wanted = scenario.server.wanted
    few = min(wanted, len(population), _ROUND)
    clients, uplink = np.arange(few) * len(population) // few, uplink * few / wanted
    phases = session_phases(scenario, population, stream(scenario.own_seed, 0, Purpose.SESSION))(clients, 0)
    speed, bits = population.speed[clients], upload_bits(scenario)[population.group[clients]]
    alone_s = whole_lengths(phases, speed).max() / 1000
    phases[2], _ = shared(phases, bits, np.full(few, np.inf), uplink)
    round_s, busy_s = whole_lengths(phases, speed).max() / 1000, float(bits.sum()) / uplink
    yield (
        f"server.uplink: a round in which all {wanted:,} report takes about {readable_time(round_s)} "
        f"({readable_time(alone_s)} without a limit), and uses {busy_s / round_s:.0%} of the uplink, over which alone "
        f"its reports need {readable_time(busy_s)}"
    )


def of_memory(federation: PreparedFederation) -> Iterator[str]:
    """Tell how many devices of each group have too little memory to train."""
    scenario, population = federation.scenario, federation.population
    small = np.bincount(population.group[population.barred], minlength=len(scenario.population))
    for group, count in zip(scenario.population, small.tolist(), strict=True):
        if count and not group.left_out:
            share = f"{count:,} of {group.devices:,} devices ({count / group.devices:.1%})"
            yield f"session.needs: {share} of group {group.name!r} have less memory and never take part"


def before(federation: PreparedFederation) -> Iterator[Check]:
    """Check a scenario before it runs, in the order of the list of checks."""
    scenario, population = federation.scenario, federation.population
    yield from of_shortage(federation)
    yield from of_separation(scenario, population.separation, population.cooldown_s)
    yield from of_shocks(scenario)
    yield from of_theory(federation)
    yield from of_deadline(federation)


def why_nothing(metrics: Mapping[str, float]) -> str:
    """Say that no report was taken, and what became of the sessions; "" where one was, or if that is not known.

    Of several jobs it says that of the first one without a report.
    """
    for job, own in of_jobs(metrics).items():
        if nothing := why_nothing(own):
            return f"job {job!r}: {nothing}"
    sessions, rounds = (round(metrics.get(name, -1)) for name in ("sessions.count", "rounds.count"))
    if sessions < 0 or metrics.get("sessions.reported_share", 0.0) > 0:
        return ""
    shares = {name: metrics.get(f"sessions.{name}_share", 0.0) for name in SESSION_OUTCOMES}
    ended = ", ".join(f"{round(share * sessions):,} {name}" for name, share in shares.items() if share)
    what = f"sessions: {ended}" if sessions else "nobody was selected"
    return f"no report was taken in {rounds:,} round{'s' * (rounds != 1)} ({what})"
