"""Devices that join and leave: who is there when, in both engines, and what is refused."""

from typing import Any

import numpy as np
import pytest

from fedsim.availability.population import strata
from fedsim.availability.shocks import availability_of
from fedsim.availability.spells import Spells
from fedsim.common.errors import StalledError
from fedsim.common.instants import FOREVER
from fedsim.population import build_population
from fedsim.population.feasibility import check_feasible
from fedsim.scenario import Scenario
from fedsim.simulation import simulate_log
from fedsim.theory.prediction import theory_or_why_not

CONSTANT = {"download": "0s", "train": "10s", "upload": "0s"}


def case(group: dict[str, Any], **changes: Any) -> Scenario:
    base = {
        "stop": {"rounds": 20},
        "population": [{"devices": 4, "session": CONSTANT, **group}],
        "server": {"cohort": 2, "selection": "cyclic"},
        "records": {"gauges": None},
    }
    return Scenario.model_validate(base | changes)


@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_who_is_there_when(engine: str) -> None:
    """Clients 2 and 3 join after 25 s; client 1 leaves for good after 35 s, and drops out of its session."""
    churn = {"joins": ["0s", "0s", "25s", "25s"], "leaves": ["1d", "35s", "1d", "1d"]}
    log = simulate_log(scenario := case(churn, engine=engine), build_population(scenario))
    by_round = log.participations.group_by("round", maintain_order=True).agg("client", "outcome")
    assert by_round["client"].to_list()[:3] == [[0, 1]] * 3
    last = log.participations.filter(client=1).row(-1, named=True)
    assert (last["ended_s"], last["outcome"]) in {(30.0, "reported"), (35.0, "dropped")}
    chosen = log.participations.select("client", "selected_s").rows()
    assert {client for client, at in chosen if at >= 35.0} == {0, 2, 3}
    assert min(at for client, at in chosen if client >= 2) >= 25.0


@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_a_server_whose_devices_have_all_left_stalls(engine: str) -> None:
    scenario = case({"leaves": "1m"}, engine=engine)
    with pytest.raises(StalledError, match="at most 0 can become eligible"):
        simulate_log(scenario, build_population(scenario))


@pytest.mark.parametrize(("stop", "refused"), [({"duration": "2d"}, True), ({"duration": "5d"}, False), ({}, False)])
def test_a_group_that_joins_after_the_end_is_refused(stop: dict[str, str], refused: bool) -> None:
    """Two of four groups: one joins after two days, of the other half does."""
    devices = {"devices": 4, "session": CONSTANT}
    groups = [devices, {**devices, "joins": "3d"}, {**devices, "joins": ["0s", "0s", "3d", "3d"]}]
    named = [{"name": name, **group} for name, group in zip("abc", groups, strict=True)]
    scenario = case({}, population=named, stop={"rounds": 20} | stop)
    mistakes = check_feasible(scenario, build_population(scenario))
    assert [each.path for each in mistakes] == [("population", 1, "joins")] * refused


def test_spells_are_cut_and_leaving_is_known() -> None:
    scenario = case({"joins": "5s", "leaves": ["7s", "1h", "2h", "1000d"], "availability": "always"})
    population = build_population(scenario)
    assert population.joins is not None
    assert population.leaves is not None
    assert population.joins.tolist() == [5000] * 4
    found = availability_of(scenario, strata(scenario, population), 0)
    everyone = np.arange(4)
    spells: Spells = found.spells(everyone, 0, 20_000)
    order = np.argsort(spells.who)
    assert spells.starts[order].tolist() == [5000] * 4
    assert spells.ends[order][0] == 12_000
    assert found.leaves(everyone, 0, 20_000).tolist() == [12_000, FOREVER, FOREVER, FOREVER]
    assert found.at(everyone, 4_999).tolist() == [False] * 4
    assert found.at(everyone, 12_000).tolist() == [False, True, True, True]
    assert "churn" in str(theory_or_why_not(scenario, population))


def test_devices_join_by_the_curve_of_a_roll_out() -> None:
    """A tenth is there at once, a half by 4 h, evenly in between, and the others at 6 h; 6 deviations are allowed."""
    curve = {"kind": "roll_out", "times": ["0s", "4h", "6h", "6h"], "shares": [0.1, 0.5, 0.5, 1]}
    joins = build_population(case({"devices": 20_000, "joins": curve})).joins
    assert joins is not None
    for hour, share in ((0, 0.1), (1, 0.2), (2, 0.3), (4, 0.5), (5.99, 0.5), (6, 1.0)):
        assert abs((joins <= 3_600_000 * hour).mean() - share) <= 6 * np.sqrt(share * (1 - share) / 20_000)


@pytest.mark.parametrize(
    ("times", "shares", "message"),
    [
        (["1d", "0s"], [0.5, 1], "times must not fall"),
        (["0s", "1d", "2d"], [0.5, 0.2, 1], "shares must not fall"),
        (["0s", "1d"], [0.5, 0.9], "shares must end with 1"),
        ([], [], "shares must end with 1"),
        (["0s"], [0.5, 1], "differ in length"),
        (["0s", "1d"], [0, 1], "greater than 0"),
        (["0s", 3.0], [0.5, 2], "less than or equal to 1"),
    ],
)
def test_no_curve_of_a_roll_out(times: list[Any], shares: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        case({"joins": {"kind": "roll_out", "times": times, "shares": shares}})
