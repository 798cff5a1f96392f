"""The page that compares published with simulated figures says what was measured, misses included."""

import re
from pathlib import Path

import pytest

from fedsim.scenario import Scenario
from reports.make import pages
from reports.make.kept import load
from reports.make.placeholders import Placeholders


def test_the_words_say_what_was_measured() -> None:
    text = Path("docs/validation.md").read_text("utf-8")
    figures = Placeholders(load()).validation["one-zone"]
    by_hour = [figures[f"population.available_share.local.{hour:02}"][0] for hour in range(24)]
    assert f"from about {max(by_hour):.0%} of".replace("%", " %") in text
    assert f"at night to {min(by_hour):.0%} in".replace("%", " %") in text


def test_every_scenario_is_in_a_row_and_has_limits() -> None:
    files = sorted(Path("scenarios/validation").glob("*.fedsim.yaml"))
    names = {file.name.removesuffix(".fedsim.yaml") for file in files}
    assert names == set(re.findall(r"`([\w-]+)`", pages.validation(load()))) == set(Placeholders(load()).validation)
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
def test_another_figure_makes_another_verdict(scenario: str, metric: str, value: float, words: str) -> None:
    kept = load()
    assert words not in pages.validation(kept)
    kept["what-ifs"][f"validation-{scenario}"]["metrics"][metric] = [value]
    assert words in pages.validation(kept)


def test_only_free_comparisons_count() -> None:
    """What follows from other numbers, or was fitted, agrees or not without a word on the model."""
    kept = load()
    assert "7 of 12 comparisons are free; 2 of these agree." in pages.validation(kept)
    figures = kept["what-ifs"]["validation-us-phones"]["metrics"]
    figures["sessions.aborted_share"] = [0.2]  # an identity
    assert "7 of 12 comparisons are free; 2 of these agree." in pages.validation(kept)
    figures["rounds.duration.mean"] = [150.0]
    assert "7 of 12 comparisons are free; 3 of these agree." in pages.validation(kept)
