"""The verdict in words: what was missed comes first, figures in the form of their limit."""

from typing import Any

import pytest

from fedsim.common.json_files import Json
from fedsim.pages.expectations import SHOWN, verdict


def entry(**changes: Any) -> dict[str, Json]:
    found: dict[str, Json] = {
        "check": "participation.l1_chain < 0.05",
        "severity": "error",
        "why": "theory is exact here",
        "observed": 0.07,
        "limit": 0.05,
        "margin": -0.02,
        "status": "fail",
        "place": "a.fedsim.yaml:12:5",
        "note": "",
    }
    return found | changes


def plain(text: str) -> str:
    return text.replace("\N{NARROW NO-BREAK SPACE}", " ").replace("\N{MINUS SIGN}", "-")


@pytest.mark.parametrize(
    ("check", "value", "words", "observed"),
    [
        ("learning.a.converged == 1", 0.0, "the loss of “a” has converged", "0"),
        ("learning.a.diverged == 0", 1.0, "not so: the training of “a” diverged", "1"),
        (
            "learning.a.excess_loss <= 0.1",
            -0.07,
            "excess loss of “a” over uniform participation of at most 0.1",
            "-0.07",
        ),
        ("learning.a.loss <= 0.1", -0.07, "loss of “a” of at most 0.1", "-0.07"),
    ],
)
def test_a_limit_is_in_words_of_people(check: str, value: float, words: str, observed: str) -> None:
    judged = verdict([entry(check=check, observed=value)])
    (found,) = () if judged is None else judged.attention
    assert (found.words, plain(found.observed)) == (words, observed)


@pytest.mark.parametrize("nothing", [None, [], "odd", 3])
def test_without_conditions_there_is_no_verdict(nothing: Json) -> None:
    assert verdict(nothing) is None


def test_what_was_missed_comes_first() -> None:
    found = verdict([entry(status="pass"), entry(status="warn"), entry(), entry(status="unjudged")])
    assert found is not None
    assert found.status == "fail"
    assert found.headline == "Of 4 expectations, 1 missed, 1 missed with a warning, 1 not judged and 1 met."
    assert [condition.outcome for condition in found.attention] == ["missed", "warning", "not judged"]
    assert [condition.outcome for condition in found.met] == ["met"]


@pytest.mark.parametrize(
    ("statuses", "headline"),
    [
        (["pass"], "Of 1 expectation, 1 met."),
        (["pass"] * 3, "Of 3 expectations, 3 met."),
        (["pass", "warn", "warn"], "Of 3 expectations, 2 missed with a warning and 1 met."),
        (["fail", "fail"], "Of 2 expectations, 2 missed."),
        (["pass", "of the future"], "Of 2 expectations, 1 not judged and 1 met."),
    ],
)
def test_the_headline_counts(statuses: list[str], headline: str) -> None:
    found = verdict([entry(status=status) for status in statuses])
    assert found is not None
    assert plain(found.headline) == headline


@pytest.mark.parametrize(
    ("changes", "observed", "words"),
    [
        ({}, "3.5 %", "distance from theory (TV) below 2.5 %"),
        (
            {"check": "0.4 <= participation.l1_uniform <= 0.6", "observed": 0.478},
            "23.9 %",
            "distance of participation from uniform (TV) from 20.0 % to 30.0 %",
        ),
        ({"check": "x <= 10%", "observed": 0.12}, "12.0 %", "x of at most 10.0 %"),
        ({"check": "x > 6m", "observed": 400.0}, "6.67 min", "x above 6 min"),
        ({"check": "100 <= x <= 2000", "observed": 3e3}, "3,000", "x from 100 to 2,000"),
        (
            {"check": "rounds.target_share == 100%", "observed": 1.0},
            "100 %",
            "rounds with all the reports they wanted at 100 %",
        ),
        (
            {"check": "rounds.per_day >= 200", "observed": 960.0},
            "960 rounds per day",
            "pace in rounds of at least 200 rounds per day",
        ),
        (
            {"check": "participation.coverage > 0.9", "observed": 1.0},
            "100 %",
            "clients that took part at least once above 90.0 %",
        ),
        ({"observed": None, "note": "no samples"}, "", "distance from theory (TV) below 2.5 %"),
        ({"check": "what < is this", "observed": 2.0}, "2", "what < is this"),
    ],
)
def test_conditions_are_said_in_words_and_l1_as_tv(changes: dict[str, Json], observed: str, words: str) -> None:
    found = verdict([entry(**changes)])
    assert found is not None
    (condition,) = found.attention
    assert (plain(condition.observed), plain(condition.words)) == (observed, words)


def test_a_long_list_is_capped_and_says_so() -> None:
    found = verdict([entry() for _ in range(SHOWN + 3)])
    assert found is not None
    assert len(found.attention) == SHOWN
    assert found.omitted == "3 more conditions in manifest.json."


def test_a_place_is_named_so_that_it_can_be_found_elsewhere() -> None:
    shown = verdict([entry(place="/elsewhere/a.fedsim.yaml:12:5")])
    assert shown is not None
    assert shown.attention[0].place == "a.fedsim.yaml:12:5"
