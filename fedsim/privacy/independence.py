"""What a released model may depend on, and which keys of a scenario let it depend on more: every refusal of privacy.

With a public schedule (who took part in which round, and when) a model may depend on that, on what is fixed before the
run, and on the updates of clients by their noisy sums alone. Where the schedule is secret (amplification by sampling) a
client's coin may decide about its own term and about nothing else: neither the weight of another client, nor the number
of released models, nor who else takes part may follow from it.

`KEYS` says of each key whether it is *fixed* (known before the run, whoever takes part), a client's *own* (when, how
long and how often it takes part, by its own coins), *shown* (of figures and pages, not of models), or has a *rule*. The
keys of a model that is not listed are what the key is under which it stands; under a rule they are refused where the
schedule is secret.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.errors import FedsimError, KeyPath, Mistake
from fedsim.population import Population
from fedsim.population.sessions import longest_sessions
from fedsim.scenario import Scenario
from fedsim.scenario.component import Component
from fedsim.scenario.server import COIN_LAWS
from fedsim.selection import LAWS, needs_feedback

_KEYS = {
    "fixed": """Scenario schema_version seed start engine population server starts job learning privacy stop
        Group name devices weight time_zone left_out, SharedJob server learning privacy weight groups starts stop
        SyncServer mode cohort over_select grace pause shortage partial, Poisson kind
        CyclicPoisson kind groups, AlwaysAvailable kind
        BufferedServer concurrency buffer max_staleness deadline partial check_ins patience, Start path model
        Learning problem local_steps step_size batch_size start held_out, AdaptiveClip quantile rate share
        FedAvgOptimizer kind name local_step_size server update_clip
        FedProxOptimizer kind name local_step_size server update_clip mu
        OracleWeightedOptimizer kind name local_step_size server update_clip
        Privacy noise_multiplier epsilon stands_for delta clip adaptive_clip amplification training""",
    "own": """Group separation participations session, SharedJob separation participations session
        Participations most, SyncServer cooldown_from, Session download train upload speed fails
        Work model update samples cost device link needs fails, Link down up work, WorkLink share down up""",
    "shown": """Scenario name description question headline theory records prices sweep choose decide expect drift
        Scenario replicates metrics charts
        Learning evaluate_every reference target_loss target_above_optimum loss_parts""",
    "rule": """Scenario log shocks jobs matching most_a_day alone beside, Stop rounds duration reports
        Privacy mechanism, Group cooldown joins leaves availability, SharedJob cooldown
        BufferedServer mode selection cooldown_from, Learning optimizers stop_at_target, OracleWeightedOptimizer source
        SyncServer selection minimum_reports secure_aggregation deadline overtime check_ins uplink patience""",
}
KEYS: Final = {
    f"{model}.{key}": kind
    for kind, text in _KEYS.items()
    for model, *keys in (each.split() for each in text.replace("\n", ",").split(","))
    for key in keys
}
"""What each key is, by its model and name."""


class Restriction(NamedTuple):
    """Where a key lets a released model depend on more than it may."""

    keys: str  # by model and name, with spaces between them
    path: str  # where it stands in a scenario
    why: str
    instead: str  # what is accepted


def _rules(table: str) -> tuple[Restriction, ...]:
    """Read rules, of which each begins a line."""
    return tuple(Restriction(*line.split(" | ")) for line in " ".join(table.split("\n     ")).strip().split("\n"))


PUBLIC_RULES: Final = _rules("""
Stop.rounds | stop | privacy needs stop.rounds: how many rounds there are is part of the promise, and with a duration
     alone it is luck | give it
SyncServer.selection BufferedServer.selection | server.selection | this law goes by what clients tell of their data,
     which no noise hides, and who takes part shows it | take a law that does not
Scenario.log | log | who took part is recorded, and nothing enforces separations or caps | a scenario that is simulated
BufferedServer.cooldown_from | server.cooldown_from | nothing is promised to privacy where cool-downs begin with the
     selection: two late reports of a client can be taken in one version | set cooldown_from: reported, or a
     max_staleness that is no larger than the smallest separation
""")
SECRET_RULES: Final = _rules("""
BufferedServer.mode | server.mode | a buffer is full by what all send | mode: sync
SyncServer.selection BufferedServer.selection | server.selection | this law fills a cohort, so that each client's
     chance depends on who else is there | selection: poisson or cyclic_poisson
Group.availability | population.*.availability | availability decides who takes part | availability: always
Group.joins | population.*.joins | the time decides who takes part | devices that are there from the beginning
Group.leaves | population.*.leaves | the time decides who takes part | devices that stay
Group.cooldown SharedJob.cooldown | population.*.cooldown | cool-downs by the clock decide who can be drawn, and how
     long rounds take shows who takes part | a separation in rounds
Scenario.shocks | shocks | a shock decides who takes part | no shocks
Scenario.most_a_day | most_a_day | the day decides who takes part | participations.most
Scenario.beside Scenario.jobs Scenario.matching Scenario.alone | beside | what other jobs do decides who takes part |
     one job on the fleet
SyncServer.check_ins | server.check_ins | who has checked in decides who takes part | no check_ins
SyncServer.minimum_reports | server.minimum_reports | a round fails or not by a single client's coin | 1 at most
SyncServer.secure_aggregation | server.secure_aggregation | a round fails or not by a single client's coin | none
SyncServer.overtime | server.overtime | a single client's report ends the round | no overtime
SyncServer.uplink | server.uplink | the uploads of a round slow each other | no uplink
SyncServer.deadline | server.deadline | here late sessions may keep devices away, for a time that depends on who else
     takes part | no deadline, or a deadline and a pause that no session outlasts
SyncServer.patience | server.patience | a session may outlast the server's patience, which ends the run | a deadline,
     or more patience
Stop.duration | stop.duration | the duration may end the run, so that the number of models shows who took part |
     stop.rounds alone, or a duration above that of as many of the longest rounds (deadline and pause)
Stop.reports | stop.reports | the number of models goes by how many reported, so that it shows who took part |
     stop.rounds alone
Learning.stop_at_target | learning.stop_at_target | the number of models goes by losses, which show who took part |
     stop_at_target: false
Learning.optimizers OracleWeightedOptimizer.source | learning.optimizers.* | the weight that this optimizer gives a
     client may depend on who else takes part | fedavg, fedprox, oracle_weighted with source: theory, or a class of
     your own with ignores_schedule
Privacy.mechanism | privacy.mechanism | two participations of a client may overlap in the noise | as many coefficients
     of C as rounds pass from one in which a client may be drawn to its next
""")


def broken(scenario: Scenario, population: Population) -> list[Mistake]:
    """Return where a scenario breaks the rules: those of a secret schedule too, where it counts on amplification."""
    mistakes, at = list[Mistake](), "amplification by sampling lets a coin of the server alone decide, and "
    secret = scenario.privacy is not None and scenario.privacy.amplification != "none"
    for rules, tests, begin, accepts in (
        (PUBLIC_RULES, _PUBLIC, "", ""),
        (SECRET_RULES * secret, _SECRET, at, "it takes "),
    ):
        for rule in rules:
            message, breaks = (f"{begin}{rule.why}: {accepts}{rule.instead}", tests.get(rule.path, _given))
            for path, value in _values(scenario, (), rule.path.split(".")):
                mistakes += [scenario.mistake(path, message)] if breaks(scenario, population, value) else []
    return mistakes


def _values(part: Any, path: KeyPath, keys: list[str]) -> Iterator[tuple[KeyPath, Any]]:
    """Yield what the scenario has at some keys, of which * stands for each of several."""
    if not keys:
        yield path, part
    elif keys[0] == "*":
        for index, each in enumerate(part):
            yield from _values(each, (*path, index), keys[1:])
    elif hasattr(part, keys[0]):
        yield from _values(getattr(part, keys[0]), (*path, keys[0]), keys[1:])


def _rounds(scenario: Scenario) -> int:
    """Return the most rounds that there can be; 1 where their number is refused."""
    return int(scenario.stop.most_rounds) if scenario.stop.most_rounds < np.inf else 1


def _longest_s(scenario: Scenario, population: Population) -> Floats:
    """Return what the sessions of each client last at most (N,): all together, but for a chance below delta / 10^29."""
    assert scenario.privacy is not None
    chance = scenario.privacy.delta * 1e-30 / (_rounds(scenario) * scenario.server.wanted)
    longest_s = longest_sessions(scenario, population, chance)
    return longest_s if population.most is None else np.where(population.most > 0, longest_s, 0.0)


def _duration(scenario: Scenario, population: Population, duration: float | None) -> bool:
    round_s = min(scenario.server.deadline or np.inf, float(_longest_s(scenario, population).max()))
    rounds_s = _rounds(scenario) * (round_s + scenario.server.pause)
    return duration is not None and duration <= (scenario.starts or 0.0) + rounds_s


def _patience(scenario: Scenario, population: Population, patience: float) -> bool:
    waits = scenario.server.deadline is None and scenario.stop.most_s == np.inf
    return waits and float(_longest_s(scenario, population).max()) > patience


def _late(scenario: Scenario, population: Population, deadline: float | None) -> bool:
    """Say whether a session may go on when its client can be drawn again: rounds may end at once."""
    server = scenario.server
    rests = population.separation if server.cooldown_from == "selected" else 0  # late clients do not rest
    free_s = (deadline or np.inf) + server.pause * (1 + rests)
    return server.selects_once and bool((_longest_s(scenario, population) > free_s).any())


def _two_in_one(scenario: Scenario, population: Population, cooldown_from: str) -> bool:
    server, least = scenario.server, int(population.separation.min())
    near = server.max_staleness is None or least < server.max_staleness
    return server.staleness is None and cooldown_from == "selected" and near


def _weights(_scenario: Scenario, _population: Population, optimizer: Component) -> bool:
    """Say whether the class of an optimizer does not say, for itself, that its weights ignore the schedule."""
    registry = optimizer.registry
    try:
        kind: Any = registry.find(optimizer.kind)
    except FedsimError:  # which is told elsewhere
        return False
    with registry.reraise_as_plugin_error(f"optimizer {optimizer.kind!r}, ignores_schedule", kind):
        return not ("ignores_schedule" in vars(kind) and kind.ignores_schedule(optimizer.options))


_Test = Callable[[Scenario, Population, Any], bool]
_given: _Test = lambda _scenario, _population, value: bool(value)  # noqa: E731
_PUBLIC: Mapping[str, _Test] = {
    "stop": lambda _scenario, _population, stop: stop.most_rounds == np.inf,
    "server.selection": lambda _scenario, _population, choice: (
        needs_feedback(choice) and getattr(LAWS.find(choice.kind), "reads_data", True)
    ),
    "server.cooldown_from": _two_in_one,
}
_SECRET: Mapping[str, _Test] = {
    "server.mode": lambda _scenario, _population, mode: mode != "sync",
    "server.selection": lambda _scenario, _population, choice: choice.kind not in COIN_LAWS,
    "population.*.availability": lambda _scenario, _population, model: model.kind != "always",
    "population.*.cooldown": lambda _scenario, _population, rest: rest.kind != "constant" or rest.value > 0,
    "server.minimum_reports": lambda _scenario, _population, least: least > 1,
    "server.deadline": _late,
    "server.patience": _patience,
    "stop.duration": _duration,
    "learning.optimizers.*": _weights,
    "privacy.mechanism": lambda *_: False,  # `fedsim.privacy.guarantee` knows the coefficients
}
