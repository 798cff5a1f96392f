"""Transitions of chosen devices against the availability that the gauges count."""

import polars as pl
import pytest

from fedsim.population import build_population
from fedsim.scenario import Scenario
from fedsim.simulation import simulate_log, transitions_table


def scenario(availability: object, gauges: str = "10m") -> Scenario:
    return Scenario.model_validate(
        {
            "stop": {"duration": "2d"},
            "population": [{"devices": 30, "availability": availability, "time_zone": "America/New_York"}],
            "server": {"cohort": 1},
            "records": {"gauges": gauges},
        }
    )


def state_at(transitions: pl.DataFrame, instant: float, conditions: list[str]) -> list[bool]:
    """Return for each client whether all its conditions hold at an instant, from its last transitions before."""
    past = transitions.filter(pl.col("time_s") <= instant)
    last = past.group_by("client", "condition", maintain_order=True).last()
    on = last.filter("on").group_by("client").len().filter(len=len(conditions))["client"].to_list()
    return [client in on for client in range(30)]


@pytest.mark.long
@pytest.mark.parametrize("gauges", ["47m", pytest.param("10m", marks=pytest.mark.long)])
def test_all_conditions_together_are_what_the_gauges_count(gauges: str) -> None:
    for availability, names in [
        ("habits", ["charging", "network", "idle"]),
        ({"kind": "habits", "require": ["charging", "idle"]}, ["charging", "idle"]),
        ({"kind": "renewal", "on": "1h", "off": "2h"}, ["available"]),
        ("always", ["available"]),
    ]:
        case = scenario(availability, gauges)
        population = build_population(case)
        log = simulate_log(case, population)
        table = transitions_table(case, population, list(range(30)), log.ended_s)
        assert set(table["condition"]) <= set(names)
        for row in log.gauges.iter_rows(named=True):
            assert sum(state_at(table, row["time_s"], names)) == row["available"]


def test_transitions_alternate_and_are_in_order() -> None:
    case = scenario("habits")
    table = transitions_table(case, build_population(case), [3, 7], 2 * 86_400.0)
    assert table["time_s"].is_sorted()
    assert set(table["client"]) == {3, 7}
    for _, changes in table.group_by("client", "condition", maintain_order=True):
        assert changes["on"].to_list() == [index % 2 == 0 for index in range(len(changes))]


def test_clients_of_one_group_live_by_their_own_clocks() -> None:
    case = scenario("habits")
    data = case.model_dump(mode="json")
    data["population"][0]["time_zone"] = ["Asia/Kolkata", "America/New_York", "UTC"] * 10
    mixed = Scenario.model_validate(data)
    table = transitions_table(mixed, build_population(mixed), list(range(30)), 2 * 86_400.0)
    same = transitions_table(case, build_population(case), list(range(30)), 2 * 86_400.0)
    mine = pl.col("client") % 3 == 1
    assert table.filter(mine).equals(same.filter(mine))
    assert not table.filter(~mine).equals(same.filter(~mine))
