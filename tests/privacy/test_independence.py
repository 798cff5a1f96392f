"""What a released model may depend on: every key of the scenario is classified, and what breaks a rule is refused."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from fedsim import Scenario, privacy_guarantees, simulate
from fedsim.common.errors import ScenarioError, dotted
from fedsim.learning import FedAvg
from fedsim.learning.optimizers.debiased_fedavg import OracleWeighted
from fedsim.population import build_population
from fedsim.privacy.independence import KEYS, PUBLIC_RULES, SECRET_RULES, broken
from fedsim.run.preflight import preflight
from fedsim.scenario.roles import registry_of
from fedsim.scenario.schema import scenario_schema
from fedsim.scenario.server import COIN_LAWS


@cache
def definitions() -> dict[str, Any]:
    """Return the models of the scenario, as the code has them."""
    whole = json.loads(json.dumps(scenario_schema()))
    models: dict[str, Any] = whole.pop("definitions")
    return models | {"Scenario": whole}


def referred(part: Any) -> Iterator[str]:
    """Yield the models that a part of the schema names, by what several share too."""
    if isinstance(part, dict):
        if "$ref" in part:
            name = part["$ref"].rpartition("/")[2]
            yield from [name] if "properties" in definitions()[name] else referred(definitions()[name])
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from referred(each)


def test_every_key_of_the_scenario_is_classified() -> None:
    """From the scenario down; a model that is not listed has the class of the key above, or is refused under a rule."""
    listed = {name.partition(".")[0] for name in KEYS}
    seen, waiting = set[str](), ["Scenario"]
    while waiting:
        if (model := waiting.pop()) in seen or model not in listed:
            continue
        seen.add(model)
        keys = definitions()[model]["properties"]
        keys.pop("extends", None)  # of a file
        assert {f"{model}.{key}" for key in keys} == {name for name in KEYS if name.partition(".")[0] == model}
        waiting += [name for part in keys.values() for name in referred(part)]
    assert seen == listed


def test_each_rule_is_of_keys_that_have_one() -> None:
    ruled = {key for rule in (*PUBLIC_RULES, *SECRET_RULES) for key in rule.keys.split()}
    assert ruled == {key for key, kind in KEYS.items() if kind == "rule"}


QUADRATIC = {"problem": {"kind": "quadratic", "dimension": 3}, "step_size": 0.1, "local_steps": 1}
PRIVACY = {"mechanism": "independent", "noise_multiplier": 1, "delta": 1e-4, "clip": 1, "training": "noise"}


def secret(**changes: Any) -> Scenario:
    data = {
        "stop": {"rounds": 30},
        "population": [{"devices": 20}],
        "server": {"cohort": 3, "selection": "poisson"},
        "learning": QUADRATIC | {"optimizers": ["fedavg"]},
        "privacy": PRIVACY | {"amplification": "sampling"},
    }
    return Scenario.model_validate(data | changes)


class Silent(FedAvg):
    """What a class inherits says nothing of its own weights."""


class Saying(FedAvg):
    """A class that says so for itself."""

    @staticmethod
    def ignores_schedule(_options: object) -> bool:
        return True


def server(**keys: Any) -> dict[str, Any]:
    return {"server": {"cohort": 3, "selection": "poisson", **keys}}


def devices(**keys: Any) -> dict[str, Any]:
    return {"population": [{"devices": 20, **keys}]}


def learning(*optimizers: Any, **keys: Any) -> dict[str, Any]:
    return {"learning": QUADRATIC | {"optimizers": list(optimizers) or ["fedavg"], **keys}}


LONG = {"session": {"train": {"kind": "lognormal", "median": "60s", "sigma": 0.5}}}
REFUSED: list[tuple[str, dict[str, Any]]] = [
    *(("server.selection", server(selection=law)) for law in ("midzuno", "uniform", "successive", "bernoulli", "age")),
    ("server.mode", {"server": {"mode": "buffered", "concurrency": 9, "buffer": 3, "cooldown_from": "reported"}}),
    ("server.minimum_reports", server(minimum_reports=2)),
    ("server.secure_aggregation", server(secure_aggregation={"threshold": 1})),
    ("server.check_ins", server(check_ins={"every": "1h", "window": "30m"})),
    ("server.deadline", server(deadline="80s")),
    ("server.deadline", server(deadline="10m", pause="15m") | devices(**LONG)),  # 3 of 5,955 reports are late
    ("server.deadline", server(deadline="80s", pause="5s", cooldown_from="reported") | devices(separation=9)),
    ("server.patience", server(patience="80s")),
    ("server.patience", server(patience="30m") | devices(**LONG)),
    ("stop.duration", {"stop": {"rounds": 30, "duration": "40m"}}),
    ("stop.duration", {"stop": {"rounds": 30, "duration": "30d"}} | devices(**LONG) | server(pause="1d")),
    ("stop.duration", {"stop": {"rounds": 30, "duration": "50m"}, "starts": "5m"}),
    ("population[0].availability", devices(availability="habits")),
    ("population[0].joins", devices(joins="1h")),
    ("population[0].leaves", devices(leaves="9d")),
    ("population[0].cooldown", devices(cooldown="1s")),
    ("shocks", {"shocks": [{"every": "10d", "length": "1h"}]}),
    ("most_a_day", {"most_a_day": 90}),
    ("beside", {"job": "one", "beside": ["other"]}),
    ("learning.optimizers[0]", learning("debiased_fedavg")),
    ("learning.optimizers[1]", learning("fedavg", {"kind": "oracle_weighted", "source": "log"})),
    ("learning.optimizers[0]", learning(f"{__name__}:Silent")),
    ("stop.reports", {"stop": {"rounds": 30, "reports": 20}}),
    ("learning.stop_at_target", learning(target_loss=0.1, stop_at_target=True)),
    ("privacy.mechanism", {"privacy": PRIVACY | {"mechanism": "sqrt", "amplification": "sampling"}}),
]
ACCEPTED: list[dict[str, Any]] = [
    {},
    server(deadline="80s", pause="10s"),
    server(deadline="80s", pause="5s") | devices(separation=9),
    server(deadline="100s", pause="2m", cooldown_from="reported"),
    server(shortage="skip", minimum_reports=1, over_select=2),
    server(selection={"kind": "cyclic_poisson", "groups": 4}),
    {"stop": {"rounds": 30, "duration": "50m"}},
    {"stop": {"rounds": 30, "duration": "45h"}}
    | server(deadline="10m", pause="1h")
    | devices(session={"train": {"kind": "lognormal", "median": "60s", "sigma": 0.2}}),
    devices(**LONG),
    devices(separation=4, participations={"most": 3}, cooldown="0s"),
    devices(weight={"kind": "zipf", "exponent": 1}, time_zone="Asia/Tokyo"),
    learning("fedavg", {"kind": "fedprox", "mu": 1}, {"kind": "oracle_weighted", "source": "theory"}),
    learning({"kind": "fedavg", "server": {"kind": "momentum", "step_size": 0.1}, "update_clip": 2}),
    learning(f"{__name__}:Saying"),
    learning(target_loss=0.1, loss_parts=True, reference="uniform", batch_size=None),
]


@pytest.mark.parametrize(("where", "change"), REFUSED)
def test_it_is_refused_where_more_than_a_coin_decides(where: str, change: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError) as refusal:
        preflight(secret(**change))
    messages = [each.message for each in refusal.value.mistakes if dotted(each.path) == where]
    assert any("it takes " in each for each in messages) or where == "privacy.mechanism"
    preflight(secret(**change | {"privacy": PRIVACY}))  # with a public schedule


@pytest.mark.parametrize("change", ACCEPTED)
def test_it_is_accepted_where_a_coin_alone_decides(change: dict[str, Any]) -> None:
    preflight(secret(**change))


def test_kinds_that_are_not_listed_are_refused() -> None:
    for kind in set(registry_of("selection law").built_in) - set(COIN_LAWS):
        scenario = secret().model_copy(
            update={"server": secret().server.model_copy(update={"selection": _named(kind)})}
        )
        assert ("server", "selection") in [each.path for each in broken(scenario, build_population(secret()))]
    for kind in set(registry_of("optimizer").built_in) - {"fedavg", "fedprox", "oracle_weighted"}:
        assert "ignores_schedule" not in vars(registry_of("optimizer").find(kind))
    assert not OracleWeighted.ignores_schedule({"source": "predicted"})


def _named(kind: str) -> Any:
    return type("Choice", (), {"kind": kind, "options": {}})()


def test_a_mistake_has_its_place_in_the_file(write: Any) -> None:
    file = write(
        "stop: {rounds: 6, duration: 1h}\n"
        "population: [{devices: 20, session: {train: 20m}}]\n"
        "server: {cohort: 3, selection: poisson}\n"
        "privacy: {mechanism: independent, noise_multiplier: 1, delta: 1.0e-4, amplification: sampling}\n"
    )
    with pytest.raises(ScenarioError, match=rf"{file}:1:29: error: stop\.duration: .* it takes stop\.rounds alone"):
        privacy_guarantees(file)


def test_a_law_by_lengths_alone_is_no_law_by_data() -> None:
    """`refl` reads how long rounds last, and nothing that clients tell of their data."""
    public = secret(**server(selection="refl"), privacy=PRIVACY)
    assert privacy_guarantees(public).guarantee.bounds.sampling is None
    with pytest.raises(ScenarioError, match=r"server\.selection: this law goes by what clients tell of their data"):
        privacy_guarantees(secret(**server(selection="oort"), privacy=PRIVACY))


# What may be written beside each other, with whether it leaves the coin alone: by hand, not by the rules.
CHOICES: dict[str, list[tuple[bool, Any]]] = {
    "server.selection": [(True, "poisson"), (True, {"kind": "cyclic_poisson", "groups": 3}), (False, "uniform")],
    "server.shortage": [(True, "wait"), (True, "skip"), (True, "proceed")],
    "server.over_select": [(True, 1), (True, 1.5)],
    "server.minimum_reports": [(True, 0), (True, 1), (False, 2)],
    "server.deadline": [(True, None), (True, "100s"), (False, "70s")],
    "stop.duration": [(True, None), (True, "2d"), (False, "30m")],
    "population.0.cooldown": [(True, "0s"), (True, "0s"), (True, "0s"), (False, "5m")],
    "population.*.separation": [(True, 0), (True, 2)],
    "population.0.participations": [(True, None), (True, {"most": 4})],
    "server.cooldown_from": [(True, "selected"), (True, "reported")],
    "learning.optimizers": [(True, ["fedavg"]), (True, [{"kind": "fedprox", "mu": 0.1}]), (False, ["debiased_fedavg"])],
    "learning.stop_at_target": [(True, False), (True, False), (True, False), (False, True)],
}


def drawn(draws: np.random.Generator, breaking: bool) -> tuple[bool, Scenario]:
    """Return a random scenario with a client of its own group, and whether its coins decide about itself alone."""
    free, values = True, dict[str, Any]()
    for path, choices in CHOICES.items():
        fits, values[path] = choices[int(draws.integers(len(choices)))] if breaking else choices[0]
        free &= fits
    if breaking and draws.random() < 0.6:  # else nearly all would be refused
        free = True
        for path, choices in CHOICES.items():
            kept = [value for fits, value in choices if fits]
            values[path] = kept[int(draws.integers(len(kept)))]
    groups = [{"name": "one", "devices": 1, "session": {"train": "60s"}}, {"name": "others", "devices": 15}]
    base = secret(population=groups, **learning(target_loss=1e-9))
    return free, base.with_values({"seed": int(draws.integers(1 << 40)), **values})


def compared(count: int) -> tuple[int, int]:
    """Compare random scenarios with the classification, and the accepted ones with and without one client.

    Nothing but its own rows may differ: neither the number of rounds nor who else takes part, nor their outcomes.
    Return how many were accepted, and how many coins of others were compared.
    """
    draws, accepted, coins = np.random.default_rng(59), 0, 0
    for _ in range(count):
        free, scenario = drawn(draws, breaking=True)
        if not free:
            with pytest.raises(ScenarioError, match="amplification by sampling"):
                preflight(scenario)
            continue
        preflight(scenario)
        accepted += 1
        alone = {"learning": None, "privacy": None}
        with_it, without = (
            simulate(scenario.with_values(alone | {"population.0.left_out": left_out})) for left_out in (False, True)
        )
        columns = ["round", "client", "outcome"]
        rows = [
            run.participations.filter(run.participations["client"] != 0).select(columns).sort(columns[:2])
            for run in (with_it, without)
        ]
        assert rows[0].equals(rows[1])
        assert len(with_it.rounds) == len(without.rounds) == scenario.stop.rounds
        assert (with_it.participations["client"] == 0).any() or not (without.participations["client"] == 0).any()
        coins += len(rows[0])
    return accepted, coins


@pytest.mark.long
def test_random_scenarios_are_as_the_classification_says() -> None:
    accepted, _ = compared(20)
    assert 5 <= accepted <= 17


@pytest.mark.campaign
def test_many_random_scenarios_are_as_the_classification_says() -> None:
    """200 scenarios; what others do is compared row by row, so that no distinguisher of them could find anything."""
    accepted, coins = compared(200)
    assert accepted >= 60
    assert coins >= 10_000
