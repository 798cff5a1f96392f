"""Estimates the memory that a scenario takes, and refuses what does not fit.

The budget is 80 % of the free memory: of the machine, of its container, or of what ``ulimit -v`` leaves. The estimates
are lower bounds: they refuse what cannot work, and do not promise that the rest does.
"""

from dataclasses import dataclass

from fedsim.common.errors import KeyPath, Mistake, PluginError, ScenarioError
from fedsim.common.memory import SHARE, free_bytes, library_bytes, readable_bytes
from fedsim.population.distributions import distribution
from fedsim.scenario import Scenario
from fedsim.scenario.component import Choice
from fedsim.scenario.devices import DEVICE_CLASSES
from fedsim.scenario.session import AnySession
from fedsim.scenario.work import Work

DEVICE_BYTES, ROUND_BYTES, GAUGE_BYTES, ROW_BYTES, WORK_BYTES = 170, 40, 60, 36, 24
"""Of a device, a round, the counts of a group at an instant, a participation in memory, and what its work took."""
FOLLOWED_BYTES = 25_000  # of a device with habits in the process engine


@dataclass(frozen=True)
class Need:
    """Bytes that are needed: what for, and which key of the file asks for them."""

    path: KeyPath
    what: str
    size: float


def check_budget(scenario: Scenario, *, training: bool = True) -> list[Mistake]:
    """Return a mistake at the largest need if a scenario, with or without its training, takes more than the budget."""
    return refusals(scenario, _needs(scenario, training=training))


def address_space_bytes(scenario: Scenario) -> int:
    """Return about how much address space a run of a scenario takes; a limit of twice as much is enough."""
    followed = FOLLOWED_BYTES * scenario.devices if scenario.engine == "process" else 0
    needs = (need for each in scenario.servers().values() for need in _needs(each))
    return library_bytes() + followed + int(sum(need.size for need in needs))


def _needs(scenario: Scenario, *, training: bool = True) -> list[Need]:
    groups = scenario.population
    largest = max(range(len(groups)), key=lambda index: groups[index].devices)
    devices = Need(("population", largest, "devices"), f"{scenario.devices:,} devices", DEVICE_BYTES * scenario.devices)
    return [devices, *_rounds(scenario), *(_learning(scenario) if training else [])]


def check_log_size(scenario: Scenario) -> None:
    """Raise a `ScenarioError` with the estimated size for a run whose log cannot be kept in memory."""
    rows = about_rounds(scenario) * _selected(scenario)
    size = (ROW_BYTES + WORK_BYTES * scenario.works) * rows
    log = Need(("stop", scenario.stop.key), f"a log of about {rows:,.0f} participations", size)
    if mistakes := refusals(scenario, [log, *_rounds(scenario)]):
        raise ScenarioError(mistakes)


def refusals(scenario: Scenario, needs: list[Need]) -> list[Mistake]:
    """Return a mistake at the place of the largest need, if together they exceed the budget."""
    free = free_bytes()
    total = sum(need.size for need in needs)
    if free is None or total <= SHARE * free:
        return []
    most = max(needs, key=lambda need: need.size)
    text = f"{most.what} would take {readable_bytes(most.size)} of memory, and "
    text += f"the budget is {readable_bytes(int(SHARE * free))} ({SHARE:.0%} of what is free)"
    return [scenario.mistake(most.path, text)]


def _rounds(scenario: Scenario) -> list[Need]:
    rounds = about_rounds(scenario)
    needs = [Need(("stop", scenario.stop.key), f"a table of about {rounds:,.0f} rounds", ROUND_BYTES * rounds)]
    every_s = scenario.records.gauges
    if every_s is not None:
        ticks = rounds * about_round_s(scenario) / every_s
        what = f"counting the population every {every_s:g} s, about {ticks:,.0f} times,"
        needs.append(Need(("records", "gauges"), what, GAUGE_BYTES * ticks * len(scenario.population)))
    return needs


def _learning(scenario: Scenario) -> list[Need]:
    learning = scenario.learning
    if learning is None:
        return []
    from fedsim.learning import problem_size

    clients = scenario.devices + (learning.held_out or 0)
    data, parameters = problem_size(learning.problem.kind, learning.problem.options, clients)
    trained = min(scenario.server.wanted, scenario.devices)
    models = 4 * 8 * trained * len(learning.optimizers) * parameters
    batch = learning.batch_size or 0
    samples = 3 * 8 * trained * learning.most_steps * batch
    return [
        Need(("learning", "problem"), f"the problem's data for {clients:,} clients", data),
        Need(("learning", "problem"), f"a cohort's models of {parameters:,} parameters", models),
        Need(("learning", "batch_size"), f"the cohort's minibatches of {batch:,} samples", samples),
    ]


def about_rounds(scenario: Scenario) -> float:
    """Return about how many rounds or versions a run has."""
    return scenario.stop.about_rounds(about_round_s(scenario), _selected(scenario))


def _selected(scenario: Scenario) -> int:
    """Return about how many clients a round or version selects."""
    server = scenario.server
    return min(server.wanted if server.selects_once else server.buffer, scenario.devices)


def about_round_s(scenario: Scenario) -> float:
    """Return about how long a round takes without waiting for clients, by the shortest session."""
    sessions = (_session_s(group.session) for group in scenario.population)
    return scenario.server.round_s(min(sessions), scenario.devices)


def _session_s(session: AnySession) -> float:
    if isinstance(session, Work):
        step_s, link = min(each.step_s for each in DEVICE_CLASSES), session.link
        network = 8 * session.model / _typical(link.down) + 8 * session.sent / _typical(link.up)
        return network + session.cost * step_s
    return sum(map(_typical, (session.download, session.train, session.upload)))


def _typical(source: Choice) -> float:
    if source.kind == "column":  # of links
        return 1e7
    if source.kind in {"constant", "lognormal"}:
        return float(source.value if source.kind == "constant" else source.median)
    try:
        return distribution(source).mean
    except PluginError:  # reported elsewhere, with its place
        return 60.0
