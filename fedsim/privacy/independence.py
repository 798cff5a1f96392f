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

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.errors import FedsimError, KeyPath, Mistake
from fedsim.common.registry import registry_of
from fedsim.population import Population
from fedsim.population.sessions import longest_sessions
from fedsim.scenario import Scenario
from fedsim.scenario.server import COIN_LAWS
from fedsim.selection import reads_data

_KEYS = {
    "fixed": """Scenario schema_version seed start engine population server starts job learning privacy stop
        Group name devices weight time_zone left_out, SharedJob server learning privacy weight groups starts stop
        SyncServer mode cohort over_select pause shortage, Poisson kind, CyclicPoisson kind groups, AlwaysAvailable kind
        BufferedServer concurrency buffer max_staleness deadline check_ins patience, Start path model
        Learning problem local_steps step_size batch_size start, AdaptiveClip quantile rate share
        FedAvgOptimizer kind name local_step_size server update_clip
        FedProxOptimizer kind name local_step_size server update_clip mu
        OracleWeightedOptimizer kind name local_step_size server update_clip
        Privacy noise_multiplier epsilon stands_for delta clip adaptive_clip amplification training""",
    "own": """Group separation participations session, SharedJob separation participations session
        Participations most, SyncServer cooldown_from, Session download train upload speed
        Work model update samples cost device link needs, Link down up work, WorkLink share down up""",
    "shown": """Scenario name description question headline theory records prices sweep choose decide expect drift
        Scenario replicates metrics charts
        Learning evaluate_every reference target_loss target_above_optimum loss_parts""",
    "rule": """Scenario shocks jobs matching most_a_day alone beside, Stop rounds duration, Privacy mechanism
        Group cooldown joins leaves availability, SharedJob cooldown, BufferedServer mode selection cooldown_from
        SyncServer selection minimum_reports secure_aggregation deadline check_ins uplink patience
        Learning optimizers stop_at_target, OracleWeightedOptimizer source""",
}
KEYS: Final = {
    f"{model}.{key}": kind
    for kind, text in _KEYS.items()
    for model, *keys in (each.split() for each in text.replace("\n", ",").split(","))
    for key in keys
}
"""What each key is, by its model and name."""
_At = Callable[[Scenario, Population], Iterable[KeyPath]]


class Rule(NamedTuple):
    """Where a key lets a released model depend on more than it may."""

    keys: str  # by model and name, with spaces between them
    why: str
    instead: str  # what is accepted
    at: _At  # the places in a scenario where it does


def broken(scenario: Scenario, population: Population) -> list[Mistake]:
    """Return where a scenario breaks the rules: those of a secret schedule too, where it counts on amplification."""
    found, at = list[Mistake](), "amplification by sampling lets a coin of the server alone decide, and "
    secret = scenario.privacy is not None and scenario.privacy.amplification != "none"
    for rules, begin, accepts in ((PUBLIC, "", ""), (SECRET if secret else (), at, "it takes ")):
        for rule in rules:
            said = f"{begin}{rule.why}: {accepts}{rule.instead}"
            found += [scenario.mistake(path, said) for path in rule.at(scenario, population)]
    return found


def _given(*written: str, breaks: Callable[[Any], bool] = bool) -> _At:
    """Return where the scenario has values, at some paths, that break a rule."""

    def values(part: Any, path: KeyPath, keys: list[str]) -> Iterator[KeyPath]:
        if not keys:
            yield from [path] if breaks(part) else []
        elif keys[0] == "*":
            for index, each in enumerate(part):
                yield from values(each, (*path, index), keys[1:])
        elif hasattr(part, keys[0]):
            yield from values(getattr(part, keys[0]), (*path, keys[0]), keys[1:])

    return lambda scenario, _: [path for each in written for path in values(scenario, (), each.split("."))]


def _longest_s(scenario: Scenario, population: Population) -> Floats:
    """Return what the sessions of each client last at most (N,): all together, but for a chance below delta / 10^29."""
    assert scenario.privacy is not None
    chance = scenario.privacy.delta * 1e-30 / ((scenario.stop.rounds or 1) * scenario.server.wanted)
    found = longest_sessions(scenario, population, chance)
    return found if population.most is None else np.where(population.most > 0, found, 0.0)


def _duration(scenario: Scenario, population: Population) -> Iterator[KeyPath]:
    stop, server = scenario.stop, scenario.server
    round_s = min(server.deadline or np.inf, float(_longest_s(scenario, population).max())) + server.pause
    if (
        stop.duration is not None
        and stop.rounds is not None
        and stop.duration <= (scenario.starts or 0.0) + stop.rounds * round_s
    ):
        yield "stop", "duration"


def _patience(scenario: Scenario, population: Population) -> Iterator[KeyPath]:
    waits = scenario.server.deadline is None and scenario.stop.duration is None
    if waits and float(_longest_s(scenario, population).max()) > scenario.server.patience:
        yield "server", "patience"


def _late(scenario: Scenario, population: Population) -> Iterator[KeyPath]:
    """Yield the deadline where a session may go on when its client can be drawn again: rounds may end at once."""
    server = scenario.server
    rests = population.separation if server.cooldown_from == "selected" else 0  # late clients do not rest
    free_s = (server.deadline or np.inf) + server.pause * (1 + rests)
    if server.selects_once and (_longest_s(scenario, population) > free_s).any():
        yield "server", "deadline"


def _two_in_one(scenario: Scenario, population: Population) -> Iterator[KeyPath]:
    server, least = scenario.server, int(population.separation.min())
    buffered = server.staleness is None and server.cooldown_from == "selected"
    if buffered and (server.max_staleness is None or least < server.max_staleness):
        yield "server", "cooldown_from"


def _weights(scenario: Scenario, _population: Population) -> Iterator[KeyPath]:
    """Yield the optimizers whose class does not say, for itself, that its weights ignore the schedule."""
    registry = registry_of("optimizer")
    for index, choice in enumerate(scenario.learning.optimizers if scenario.learning is not None else ()):
        try:
            kind: Any = registry.find(choice.kind)
        except FedsimError:  # which is told elsewhere
            continue
        with registry.reraise_as_plugin_error(f"optimizer {choice.kind!r}, ignores_schedule", kind):
            ignores = "ignores_schedule" in vars(kind) and kind.ignores_schedule(choice.options)
        if not ignores:
            yield "learning", "optimizers", index


PUBLIC: Final = (
    Rule(
        "Stop.rounds",
        "privacy needs stop.rounds: how many there are is part of the promise, and with a duration alone it is luck",
        "give it",
        lambda scenario, _: [("stop",)] if scenario.stop.rounds is None else [],
    ),
    Rule(
        "SyncServer.selection BufferedServer.selection",
        "this law goes by what clients tell of their data, which no noise hides, and who takes part shows it",
        "take a law that does not",
        _given("server.selection", breaks=reads_data),
    ),
    Rule(
        "BufferedServer.cooldown_from",
        "nothing is promised to privacy where cool-downs begin with the selection: two late reports of a client can be "
        "taken in one version",
        "set cooldown_from: reported, or a max_staleness that is no larger than the smallest separation",
        _two_in_one,
    ),
)
_WHO = "decides who takes part"
SECRET: Final = (
    Rule(
        "BufferedServer.mode",
        "a buffered server fills places",
        "mode: sync",
        _given("server.mode", breaks="sync".__ne__),
    ),
    Rule(
        "SyncServer.selection BufferedServer.selection",
        "this law fills a cohort, so that each client's chance depends on who else is there",
        "selection: poisson or cyclic_poisson",
        _given("server.selection", breaks=lambda law: law.kind not in COIN_LAWS),
    ),
    Rule(
        "Group.availability",
        f"availability {_WHO}",
        "availability: always",
        _given("population.*.availability", breaks=lambda model: model.kind != "always"),
    ),
    Rule(
        "Group.joins Group.leaves",
        f"the time {_WHO}",
        "devices that are there from beginning to end",
        _given("population.*.joins", "population.*.leaves"),
    ),
    Rule(
        "Group.cooldown SharedJob.cooldown",
        "cool-downs by the clock decide who can be drawn, and how long rounds take shows who takes part",
        "a separation in rounds",
        _given("population.*.cooldown", breaks=lambda law: law.kind != "constant" or law.value > 0),
    ),
    Rule("Scenario.shocks", f"a shock {_WHO}", "no shocks", _given("shocks")),
    Rule("Scenario.most_a_day", f"the day {_WHO}", "participations.most", _given("most_a_day")),
    Rule(
        "Scenario.beside Scenario.jobs Scenario.matching Scenario.alone",
        f"what other jobs do {_WHO}",
        "one job on the fleet",
        _given("beside"),
    ),
    Rule("SyncServer.check_ins", f"who has checked in {_WHO}", "no check_ins", _given("server.check_ins")),
    Rule(
        "SyncServer.minimum_reports",
        "a round fails or not by a single client's coin",
        "minimum_reports of 1 at most",
        _given("server.minimum_reports", breaks=lambda least: least > 1),
    ),
    Rule(
        "SyncServer.secure_aggregation",
        "a round fails or not by a single client's coin",
        "no secure_aggregation",
        _given("server.secure_aggregation"),
    ),
    Rule("SyncServer.uplink", "the uploads of a round slow each other", "no uplink", _given("server.uplink")),
    Rule(
        "SyncServer.deadline",
        "here late sessions may keep devices away, for a time that depends on who else takes part",
        "no deadline, or a deadline and a pause that no session outlasts",
        _late,
    ),
    Rule(
        "SyncServer.patience",
        "a session may outlast the server's patience, which ends the run",
        "a deadline, or more patience",
        _patience,
    ),
    Rule(
        "Stop.duration",
        "the duration may end the run, so that the number of models shows who took part",
        "stop.rounds alone, or a duration above that of as many of the longest rounds (deadline and pause)",
        _duration,
    ),
    Rule(
        "Learning.stop_at_target",
        "the number of models goes by losses, which show who took part",
        "stop_at_target: false",
        _given("learning.stop_at_target"),
    ),
    Rule(
        "Learning.optimizers OracleWeightedOptimizer.source",
        "the weight that this optimizer gives a client may depend on who else takes part",
        "fedavg, fedprox, oracle_weighted with source: theory, or a class of your own with ignores_schedule",
        _weights,
    ),
    Rule(
        "Privacy.mechanism",
        "two participations of a client may overlap in the noise",
        "as many coefficients of C as rounds pass from one in which a client may be drawn to its next",
        lambda *_: [],  # `fedsim.privacy.guarantee` knows the coefficients
    ),
)
