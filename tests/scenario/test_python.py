"""Scenarios made and changed in Python: durations without units, other values, equality, what is shown."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fedsim import Scenario, ScenarioError
from fedsim.scenario.units import format_duration
from tests.conftest import SMALL, Load, Write
from tests.scenarios import scenarios

MADE = {"stop": {"rounds": 60}, "population": [{"devices": 12, "separation": 2}], "server": {"cohort": 3}}


def made(**values: Any) -> Scenario:
    return Scenario.model_validate({**MADE, **values})


@given(st.integers(1, 10**9))
def test_a_duration_is_the_same_in_words_in_seconds_and_as_a_timedelta(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    written = made(stop={"duration": format_duration(seconds)})
    assert made(stop={"duration": seconds}) == written
    assert made(stop={"duration": timedelta(milliseconds=milliseconds)}).stop.duration == pytest.approx(seconds)
    assert made().with_values({"stop": {"duration": seconds}}) == written


def test_every_duration_takes_them() -> None:
    session = {"train": 12.5, "upload": {"kind": "exponential", "mean": timedelta(minutes=1)}}
    available = {"kind": "renewal", "on": timedelta(hours=1), "off": 1800}
    group = {"devices": 12, "cooldown": [30] * 12, "availability": available, "session": session}
    scenario = made(population=[group], records={"gauges": timedelta(hours=2)})
    (own,) = scenario.model_dump(mode="json")["population"]
    assert own["cooldown"]["values"] == ["30s"] * 12
    assert (own["availability"]["on"]["mean"], own["availability"]["off"]["mean"]) == ("1h", "30m")
    assert (own["session"]["train"]["value"], own["session"]["upload"]["mean"]) == ("12.5s", "1m")


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), 1e15, timedelta(-1), True, None, [3]])
def test_what_is_no_duration_in_python(value: Any) -> None:
    with pytest.raises(ValidationError):
        made(server={"cohort": 3, "pause": value})


def test_in_a_file_a_bare_number_stays_an_error(write: Write) -> None:
    path = write(SMALL.replace("rounds: 60", "rounds: 60, duration: 90"))
    with pytest.raises(ScenarioError, match=r"case.fedsim.yaml:1:30: error: stop.duration: needs a unit: write 90s"):
        Scenario.load(path)
    swept = write(SMALL + "sweep: {grid: {server.pause: [90]}}\n")
    from fedsim.trials.plan import points_of

    with pytest.raises(ScenarioError, match=r"server.pause: needs a unit"):
        points_of(Scenario.load(swept))


def test_values_are_put_where_the_path_says(small: Load) -> None:
    changed = small().with_values({"population.*.separation": 1, "stop.rounds": 10, "stop.duration": timedelta(days=2)})
    assert (changed.stop.rounds, changed.stop.duration) == (10, 172_800.0)
    assert changed == small("population.*.separation=1", "stop.rounds=10", "stop.duration=2d")
    # What was a number of seconds before stays one.
    assert changed.with_values({"seed": 3}).stop.duration == 172_800.0


def test_a_value_that_is_passed_stays_as_it_is() -> None:
    groups = [{"devices": 12, "separation": 2}]
    made().with_values({"population": groups, "population.0.devices": 30})
    assert groups == [{"devices": 12, "separation": 2}]


def test_mistakes_are_shown_at_the_path(small: Load) -> None:
    with pytest.raises(
        ScenarioError, match=r"^server.cohort: error: server.cohort: must be a whole number, not 'ten'$"
    ):
        small().with_values({"server.cohort": "ten"})


@given(scenarios())
def test_what_was_made_in_python_can_be_changed_and_back(scenario: Scenario) -> None:
    other = scenario.with_values({"seed": scenario.seed + 1})
    assert other != scenario
    assert other.with_values({"seed": scenario.seed}) == scenario == scenario.with_values({})


def test_a_sweep_stays_and_a_copy_is_what_it_says(small: Load) -> None:
    swept = small("sweep={grid: {server.cohort: [2, 3]}}")
    assert swept.with_values({"seed": 5}).sweep == swept.sweep
    assert swept.model_copy(update={"seed": 5}).with_values({"server.cohort": 2}).seed == 5


def test_scenarios_are_equal_wherever_they_were_read(write: Write) -> None:
    one, other = Scenario.load(write(SMALL)), Scenario.load(write("# more\n" + SMALL, "other.fedsim.yaml"))
    assert one != other  # in their names
    assert one == other.with_values({"name": "case"})
    assert one != "case"


def test_a_scenario_is_shown_in_a_line(small: Load) -> None:
    shown = "<Scenario 'case': 12 devices in 1 group, sync server, 3 selected at a time, 60 rounds or 2d>"
    assert repr(small("stop.duration=2d")) == str(small("stop.duration=2d")) == shown
