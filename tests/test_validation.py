"""The page that compares published with simulated figures says what was measured, misses included."""

import copy
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from fedsim.scenario import Scenario


@pytest.fixture
def validation(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend("reports")
    return import_module("validation")


def test_the_page_says_what_was_measured(validation: ModuleType) -> None:
    text = Path("docs/validation.md").read_text("utf-8")
    assert validation.written(text, validation.load()) == text, "docs/validation.md is stale: reports/validation.py"
    by_hour = [validation.load()["one-zone"][f"population.available_share.local.{hour:02}"] for hour in range(24)]
    assert f"from about {max(by_hour):.0%} of".replace("%", " %") in text
    assert f"at night to {min(by_hour):.0%} in".replace("%", " %") in text


def test_every_scenario_is_in_a_row_and_has_limits(validation: ModuleType) -> None:
    files = sorted(Path("scenarios/validation").glob("*.fedsim.yaml"))
    names = {file.name.removesuffix(".fedsim.yaml") for file in files}
    assert names == {name for row in validation.ROWS for name in row.scenarios} == set(validation.load())
    assert all(Scenario.load(file).expect for file in files)


@pytest.mark.parametrize(
    ("scenario", "metric", "value", "words"),
    [
        ("us-phones", "population.available_share.ratio", 4.2, "4.2 : 1 | yes"),
        ("us-phones-plugged", "sessions.dropped_share", 0.07, "7.0% | yes"),
        ("one-zone", "population.available_share", 0.4, "40.0% | **no** (19 to 25 % would)"),
        ("papaya-buffer", "learning.fedbuff.time_to_target", 2103.0, "5.0 times | yes"),
    ],
)
def test_another_figure_makes_another_verdict(
    validation: ModuleType, scenario: str, metric: str, value: float, words: str
) -> None:
    figures = copy.deepcopy(validation.load())
    assert words not in validation.table(figures)
    figures[scenario][metric] = value
    assert words in validation.table(figures)
