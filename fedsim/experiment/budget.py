"""How much memory a scenario takes, as far as the file tells, and the refusal of what does not fit.

The budget is 80 % of the memory that is free: of the machine, of its container, or of what ``ulimit -v`` leaves. The
estimates are lower ends: they are there to refuse a scenario that cannot work, not to promise that one does.
"""

from dataclasses import dataclass

from fedsim.common.errors import KeyPath, Mistake, PluginError, ScenarioError
from fedsim.common.memory import SHARE, free_bytes, readable
from fedsim.population.distributions import distribution
from fedsim.scenario import Scenario
from fedsim.scenario.server import BufferedServer
from fedsim.scenario.sources import ConstantTime, LognormalTime, TimeSource

DEVICE_BYTES = 400
"""What a device takes in the population, the engine, the roster and the tables of a run."""
ROUND_BYTES, GAUGE_BYTES = 40, 60
"""What a round takes, and the counts of a group at an instant."""
ROW_BYTES = 36
"""What a participation takes in a log that is kept in memory."""


@dataclass(frozen=True)
class Need:
    """Memory that is needed: what for, and where the file asks for it."""

    path: KeyPath
    what: str
    size: float


def check_budget(scenario: Scenario) -> list[Mistake]:
    """Return what is wrong if a scenario needs more memory than the budget has: the largest need, at its place."""
    groups = scenario.population
    largest = max(range(len(groups)), key=lambda index: groups[index].devices)
    needs = [
        Need(("population", largest, "devices"), f"{scenario.devices:,} devices", DEVICE_BYTES * scenario.devices),
        *_rounds(scenario),
        *_learning(scenario),
    ]
    return refusals(scenario, needs)


def check_log(scenario: Scenario) -> None:
    """Refuse a run whose log cannot be kept in memory.

    Raises
    ------
    ScenarioError
        With the estimated size.
    """
    server = scenario.server
    sessions = server.buffer if isinstance(server, BufferedServer) else server.wanted
    rows = _round_count(scenario) * min(sessions, scenario.devices)
    log = Need(_stop(scenario), f"a log of about {rows:,.0f} participations", ROW_BYTES * rows)
    if mistakes := refusals(scenario, [log, *_rounds(scenario)]):
        raise ScenarioError(mistakes)


def refusals(scenario: Scenario, needs: list[Need]) -> list[Mistake]:
    """Return a mistake at the place of the largest need, if together they exceed the budget."""
    free = free_bytes()
    total = sum(need.size for need in needs)
    if free is None or total <= SHARE * free:
        return []
    most = max(needs, key=lambda need: need.size)
    budget = f"the budget is {readable(int(SHARE * free))} ({SHARE:.0%} of what is free)"
    return [scenario.mistake(most.path, f"{most.what} would take {readable(most.size)} of memory, and {budget}")]


def _rounds(scenario: Scenario) -> list[Need]:
    rounds = _round_count(scenario)
    needs = [Need(_stop(scenario), f"a table of about {rounds:,.0f} rounds", ROUND_BYTES * rounds)]
    every_s = scenario.records.gauges
    if every_s is not None:
        ticks = min(_duration(scenario), (scenario.stop.rounds or float("inf")) * _round_s(scenario)) / every_s
        what = f"counting the population every {every_s:g} s, about {ticks:,.0f} times,"
        needs.append(Need(("records", "gauges"), what, GAUGE_BYTES * ticks * len(scenario.population)))
    return needs


def _learning(scenario: Scenario) -> list[Need]:
    learning = scenario.learning
    if learning is None:
        return []
    from fedsim.learning import problem_size

    data, parameters = problem_size(learning.problem.kind, learning.problem.options, scenario.devices)
    trained = min(scenario.server.wanted, scenario.devices)
    models = 4 * 8 * trained * len(learning.optimizers) * parameters
    batch = learning.batch_size or 0
    samples = 3 * 8 * trained * learning.local_steps * batch
    return [
        Need(("learning", "problem"), f"the problem's data for {scenario.devices:,} clients", data),
        Need(("learning", "problem"), f"a cohort's models of {parameters:,} parameters", models),
        Need(("learning", "batch_size"), f"the cohort's minibatches of {batch:,} samples", samples),
    ]


def _stop(scenario: Scenario) -> KeyPath:
    return ("stop", "duration" if scenario.stop.rounds is None else "rounds")


def _round_count(scenario: Scenario) -> float:
    return min(scenario.stop.rounds or float("inf"), _duration(scenario) / max(_round_s(scenario), 1e-9))


def _duration(scenario: Scenario) -> float:
    return scenario.stop.duration if scenario.stop.duration is not None else float("inf")


def _round_s(scenario: Scenario) -> float:
    """Return about how long a round takes where nobody has to be waited for: the pause and the shortest session.

    A buffered server goes through a version in the time in which its places give as many reports as it takes.
    """
    server = scenario.server
    sessions = (
        sum(_typical(part) for part in (group.session.download, group.session.train, group.session.upload))
        for group in scenario.population
    )
    if isinstance(server, BufferedServer):
        return min(sessions) * server.buffer / min(server.concurrency, scenario.devices)
    return server.pause + min(sessions)


def _typical(source: TimeSource) -> float:
    if isinstance(source, ConstantTime):
        return source.value
    if isinstance(source, LognormalTime):
        return source.median
    try:
        return distribution(source).mean
    except PluginError:  # said elsewhere, with its place
        return 60.0
