"""Caps on participations: kept in random federations, the same in both engines, and after a run was killed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim import simulate
from fedsim.common.errors import ScenarioError, StalledError
from fedsim.measure.contributions import contributions
from fedsim.population import build_population
from fedsim.population.quantities import UNCAPPED
from fedsim.privacy.bounds import enforced_bounds
from fedsim.run.preflight import preflight
from fedsim.scenario import Scenario
from fedsim.simulation import simulate_log
from fedsim.theory import Stationary
from fedsim.theory.prediction import theory_or_why_not
from tests.conftest import Load, Write
from tests.scenarios import buffered_scenarios, scenarios
from tests.simulation import test_engines_agree as engines
from tests.simulation import test_journal as resumption
from tests.simulation.test_engines_agree import MANY, traces, worlds

__all__ = ["traces"]  # a fixture


@st.composite
def capped(draw: st.DrawFn, of: st.SearchStrategy[Any]) -> dict[str, Any]:
    """Scenarios in which some or all groups have a cap, from every kind of source."""
    drawn = draw(of)
    data: dict[str, Any] = drawn.model_dump(mode="json") if isinstance(drawn, Scenario) else drawn
    # A federation that has run dry may skip thousands of rounds until a duration is over.
    data["stop"] = {**data["stop"], "rounds": data["stop"].get("rounds") or 40}
    for group in data["population"]:
        sources: list[Any] = [
            1,
            2,
            5,
            {"kind": "uniform", "low": 1, "high": 6},
            [1 + i % 4 for i in range(group["devices"])],
        ]
        if data["server"]["selection"]["kind"] == "groups":
            sources = [3]
        elif draw(st.integers(0, 3)) == 0:
            continue
        group["participations"] = {"most": draw(st.sampled_from(sources))}
    return data


def check_kept(data: dict[str, Any], folder: Path) -> None:
    """See that no client goes beyond its own cap and separation, nor beyond what is promised to privacy."""
    folder.joinpath("case.fedsim.yaml").write_text(json.dumps({**data, "engine": "vectorized"}))
    scenario = Scenario.load(folder / "case.fedsim.yaml")
    population = build_population(scenario)
    try:
        log = simulate_log(scenario, population)
    except StalledError:
        return
    counted = log.participations
    if scenario.server.cooldown_from == "reported":
        counted = counted.filter(outcome="reported")
    if population.most is not None:
        assert (np.bincount(counted["client"], minlength=len(population)) <= population.most).all()
    buffered = data["server"]["mode"] == "buffered"
    if not buffered:
        for (client,), rows in counted.group_by("client"):
            assert (np.diff(rows["round"]) > population.separation[client]).all()
    if scenario.stop.rounds is None or (buffered and scenario.server.cooldown_from == "selected"):
        return
    bounds, seen = enforced_bounds(scenario, population), contributions(log.participations, len(population))
    assert seen.most <= bounds.participations
    assert seen.least_separation is None or seen.least_separation >= bounds.min_separation


def check(data: dict[str, Any], folder: Path) -> None:
    engines.check(data, folder)
    check_kept(data, folder)


EVERY = st.one_of(worlds(), scenarios(), buffered_scenarios(), worlds(buffered_scenarios()))


@pytest.mark.long
@settings(max_examples=20)
@given(data=capped(st.one_of(scenarios(), buffered_scenarios())))
def test_caps_are_kept_in_both_engines(data: dict[str, Any], traces: Path) -> None:
    check(data, traces)


@pytest.mark.campaign
@settings(max_examples=MANY)
@given(data=capped(EVERY))
def test_caps_are_kept_in_both_engines_many_times(data: dict[str, Any], traces: Path) -> None:
    check(data, traces)


@pytest.mark.long
@pytest.mark.parametrize("engine", ["process", "vectorized"])
@settings(max_examples=8)
@given(data=capped(scenarios()), after=resumption.kills)
def test_killed_and_resumed(data: dict[str, Any], after: list[int], engine: str, traces: Path) -> None:
    resumption.check(data, traces, engine, after)


@pytest.mark.campaign
@pytest.mark.parametrize("engine", ["process", "vectorized"])
@settings(max_examples=60)
@given(data=capped(st.one_of(worlds(), scenarios())), after=resumption.kills)
def test_killed_and_resumed_many_times(data: dict[str, Any], after: list[int], engine: str, traces: Path) -> None:
    resumption.check(data, traces, engine, after)


@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_a_federation_that_runs_dry_waits_until_the_run_is_over(small: Load, engine: str) -> None:
    scenario = small("population.0.participations={most: 2}", "stop={duration: 3d}", f"engine={engine}")
    result = simulate(scenario)
    assert (len(result.participations), result.simulated_s) == (24, 3 * 86400)
    assert result.rounds["outcome"].to_list() == ["target"] * 8 + ["stopped"]


@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_a_buffered_server_that_runs_dry_says_why(small: Load, engine: str) -> None:
    server = "server={mode: buffered, concurrency: 3, buffer: 2}"
    scenario = small(server, "population.0.participations={most: 2}", "stop={duration: 3d}", f"engine={engine}")
    assert simulate(scenario).rounds["outcome"].to_list() == ["target"] * 12 + ["stopped"]
    endless = scenario.with_values({"stop": {"rounds": 30}})
    with pytest.raises(StalledError, match=r"12 out for good, .*raise participations\.most"):
        simulate_log(endless, build_population(endless))


def test_caps_that_cannot_fill_the_rounds_are_told_before(small: Load) -> None:
    with pytest.raises(
        ScenarioError,
        match=r"population\[0\]\.participations\.most: the clients can take part 120 times in all, with their caps and "
        r"separations, and 60 rounds need 180; the most rounds that work are 40",
    ):
        preflight(small("population.0.participations={most: 10}"))
    preflight(small("population.0.participations={most: 10}", "stop.rounds=40"))
    preflight(small("population.0.participations={most: 10}", "stop.duration=1h"))
    preflight(small("population.0.participations={most: 10}", "server.shortage=proceed"))


@pytest.mark.parametrize(
    ("most", "words"),
    [
        ("0", "must be a whole number of at least 1, but value 0 is 0"),
        ("{kind: uniform, low: 0, high: 1}", "must be a whole number of at least 1, but value"),
        ("[1, 2]", "has 2 values for 12 devices"),
        ("2.5", "participations.most"),
        ("{kind: column, file: caps.csv, column: most}", "value 1 is 0"),
    ],
)
def test_caps_that_are_none(small: Load, write: Write, most: str, words: str) -> None:
    write("most\n" + "\n".join(map(str, [3, 0, *range(1, 11)])), "caps.csv")
    with pytest.raises(ScenarioError, match=words):
        preflight(small(f"population.0.participations.most={most}"))


def test_members_of_a_selection_group_share_a_cap(small: Load) -> None:
    caps = [30, 30, 30, 30, 30, 40, 40, 40, 40, 40, 40, 40]
    with pytest.raises(ScenarioError, match="the members of selection group 1 have different caps"):
        preflight(small("server.selection=groups", f"population.0.participations.most={caps}"))


TWO = "population=[{devices: 6, participations: {most: 20}}, {devices: 6, separation: 2}]"


def test_groups_without_a_cap_have_none(small: Load) -> None:
    population = build_population(small(TWO))
    assert population.most is not None
    assert population.most.tolist() == [20] * 6 + [UNCAPPED] * 6
    assert population.at_most(60).tolist() == [20] * 6 + [20] * 6
    assert build_population(small()).most is None


def test_what_is_promised_is_the_most_that_one_client_can_have(small: Load) -> None:
    for change, expected in {
        TWO: (1, 20),
        TWO.replace("20", "7"): (1, 20),
        TWO.replace("separation: 2", "separation: 9"): (1, 20),
        "population.0.participations={most: 4}": (3, 4),
        "population.0.participations={most: 400}": (3, 20),
    }.items():
        scenario = small(change)
        bounds = enforced_bounds(scenario, build_population(scenario))
        assert (bounds.min_separation, bounds.participations) == expected


def test_theory_is_silent_where_a_cap_can_be_reached(small: Load) -> None:
    for most, covered in ((19, False), (20, True)):
        scenario = small(f"population.0.participations={{most: {most}}}")
        assert isinstance(theory_or_why_not(scenario, build_population(scenario)), Stationary) == covered
    scenario = small("population.0.participations={most: 20}", "stop={duration: 3h}")
    assert isinstance(theory_or_why_not(scenario, build_population(scenario)), str)


def test_a_scenario_without_caps_is_written_as_before(small: Load) -> None:
    assert "participations" not in small().model_dump()["population"][0]
    assert "privacy" not in small().model_dump()
    dumped = small("population.0.participations={most: 25}").model_dump(mode="json")
    assert dumped["population"][0]["participations"]["most"]["value"] == 25
    assert Scenario.model_validate(dumped).model_dump(mode="json") == dumped
