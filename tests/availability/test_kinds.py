"""Availability as a person writes it: short forms, defaults, and mistakes with their place."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.common.errors import ScenarioError
from fedsim.scenario import Scenario
from fedsim.scenario.habits import Habits
from fedsim.scenario.sources import ConstantZone
from fedsim.scenario.units import format_clock, parse_clock
from tests.conftest import Write

TEXT = """\
stop: {rounds: 10}
population:
  - devices: 10
    GROUP
server: {cohort: 2}
"""


def load(write: Write, group: str) -> Scenario:
    return Scenario.load(write(TEXT.replace("GROUP", group)))


@pytest.mark.parametrize("group", ["availability: habits", "availability: {kind: habits}"])
def test_habits_alone_are_enough(write: Write, group: str) -> None:
    only = load(write, group).population[0]
    assert isinstance(only.availability, Habits)
    assert only.availability.require == ["charging", "network", "idle"]
    assert only.time_zone == ConstantZone(kind="constant", value="UTC")


def test_what_is_written_is_read_again(write: Write) -> None:
    group = (
        "time_zone: Asia/Kolkata\n"
        "    availability: {kind: habits, require: [idle], charging: {night: {plug_in: 0:30}}, idle: {settle: 31m}}"
    )
    first = load(write, group)
    again = Scenario.model_validate(first.model_dump(mode="json"))
    assert again.population == first.population
    assert first.population[0].availability.charging.night.plug_in == 1800.0


def test_a_bare_duration_is_the_mean_of_an_exponential_law(write: Write) -> None:
    kind = load(write, "availability: {kind: renewal, on: 8h, off: {kind: pareto, mean: 16h, shape: 2}}")
    assert kind.population[0].availability.model_dump(mode="json") == {
        "kind": "renewal",
        "on": {"kind": "exponential", "mean": "8h"},
        "off": {"kind": "pareto", "mean": "16h", "shape": 2.0},
    }


@pytest.mark.parametrize(
    ("group", "complaint"),
    [
        (
            "time_zone: Europe/Berln",
            "4:16: error: population[0].time_zone: unknown time zone 'Europe/Berln'; did you mean 'Europe/Berlin'?",
        ),
        (
            "time_zone: Kolkata",
            "4:16: error: population[0].time_zone: unknown time zone 'Kolkata'; did you mean 'Asia/Kolkata'?",
        ),
        (
            "time_zone: New York",
            "4:16: error: population[0].time_zone: unknown time zone 'New York'; did you mean 'America/New_York'?",
        ),
        (
            "time_zone: xyzzy",
            "4:16: error: population[0].time_zone: unknown time zone 'xyzzy'; names are those of the IANA database, "
            "such as Europe/Berlin, Asia/Kolkata or UTC",
        ),
        ("time_zone: 1", "4:16: error: population[0].time_zone: must be text, not 1"),
        (
            "availability: habit",
            "4:19: error: population[0].availability: unknown kind 'habit'; did you mean 'habits'?",
        ),
        (
            "availability: {kind: habits, chargin: {}}",
            "4:34: error: population[0].availability.chargin: unknown key; did you mean 'charging'?",
        ),
        (
            "availability: {kind: habits, charging: {night: {plugin: 22:00}}}",
            "4:53: error: population[0].availability.charging.night.plugin: unknown key; did you mean 'plug_in'?",
        ),
        (
            "availability: {kind: habits, charging: {night: {plug_in: 24:30}}}",
            "4:62: error: population[0].availability.charging.night.plug_in: must be a time of day such as 22:30, "
            "not '24:30'",
        ),
        (
            "availability: {kind: habits, charging: {night: {plug_in: 22}}}",
            "4:62: error: population[0].availability.charging.night.plug_in: must be a time of day such as 22:30, "
            "not 22",
        ),
        (
            "availability: {kind: habits, charging: {night: {between_days: 4h}}}",
            "4:67: error: population[0].availability.charging.night.between_days: must be at most 3h, not '4h'",
        ),
        (
            "availability: {kind: habits, require: [charging, idel]}",
            "4:54: error: population[0].availability.require[1]: must be one of 'charging', 'network' or 'idle', "
            "not 'idel'; did you mean 'idle'?",
        ),
        (
            "availability: {kind: habits, require: []}",
            "4:43: error: population[0].availability.require: must have at least 1 items, not 0",
        ),
        (
            "availability: {kind: habits, require: [idle, idle]}",
            "4:43: error: population[0].availability.require: has 'idle' twice",
        ),
        (
            "availability: {kind: habits, network: {weekday: {chance: 1, leave: 18:00, back: 8:00}}}",
            "4:53: error: population[0].availability.network.weekday: back must be later than leave: "
            "an outing begins and ends on the same day",
        ),
        (
            "availability: {kind: habits, idle: {by_hour: [1, 2]}}",
            "4:50: error: population[0].availability.idle.by_hour: must have at least 24 items, not 2",
        ),
        (
            f"availability: {{kind: habits, idle: {{by_hour: {[0] * 24}}}}}",
            "4:50: error: population[0].availability.idle.by_hour: needs at least one hour with a weight above 0",
        ),
        (
            "availability: {kind: renewal, on: {kind: pareto, mean: 1h, shape: 1}, off: 1h}",
            "4:71: error: population[0].availability.on.shape: must be above 1.0, not 1",
        ),
        (
            "availability: {kind: renewal, on: {kind: weibul, mean: 1h, shape: 1}, off: 1h}",
            "4:46: error: population[0].availability.on.kind: unknown kind 'weibul'; did you mean 'weibull'?",
        ),
        (
            "availability: {kind: renewal, on: 8, off: 1h}",
            "4:39: error: population[0].availability.on: needs a unit: write 8s, 8m or 8h, not 8",
        ),
    ],
)
def test_mistakes_have_a_place_and_a_remedy(write: Write, group: str, complaint: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load(write, group)
    assert str(caught.value).rpartition(".yaml:")[2] == complaint


@given(st.integers(0, 86_399))
def test_clock_times_are_read_as_they_are_written(seconds: int) -> None:
    assert parse_clock(format_clock(seconds)) == seconds


@pytest.mark.parametrize("value", ["24:00", "7", "07:60", "7:5", "noon", 7, 7.5, None, True, "12:00:60", ""])
def test_anything_else_is_no_clock_time(value: Any) -> None:
    with pytest.raises(ValueError, match="time of day"):
        parse_clock(value)
