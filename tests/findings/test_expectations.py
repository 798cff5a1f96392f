"""The verdict in words: what was missed comes first, figures in the form of their limit."""

from typing import Any

import pytest

from fedsim.findings.expectations import SHOWN, verdict
from fedsim.findings.finished_run import Json


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


@pytest.mark.parametrize("nothing", [None, [], "odd", 3])
def test_without_conditions_there_is_no_verdict(nothing: Json) -> None:
    assert verdict(nothing) is None


def test_what_was_missed_comes_first() -> None:
    found = verdict([entry(status="pass"), entry(status="warn"), entry(), entry(status="unjudged")])
    assert found is not None
    assert found.status == "fail"
    assert found.headline == "1 of 4 expectations is missed, 1 warning, 1 not judged."
    assert [condition.outcome for condition in found.attention] == ["missed", "warning", "not judged"]
    assert [condition.outcome for condition in found.met] == ["met"]


@pytest.mark.parametrize(
    ("statuses", "headline"),
    [
        (["pass"], "The one expectation is met: participation.l1_chain < 0.05."),
        (
            ["pass", "pass"],
            "Both expectations are met: participation.l1_chain < 0.05 and participation.l1_chain < 0.05.",
        ),
        (
            ["pass"] * 3,
            "All 3 expectations are met: participation.l1_chain < 0.05, participation.l1_chain < 0.05 and 1 more.",
        ),
        (["pass", "warn"], "1 of 2 expectations met, 1 warning."),
        (["fail", "fail"], "2 of 2 expectations are missed."),
        (["pass", "of the future"], "1 of 2 expectations met, 1 not judged."),
    ],
)
def test_the_headline_counts(statuses: list[str], headline: str) -> None:
    found = verdict([entry(status=status) for status in statuses])
    assert found is not None
    assert found.headline == headline


def test_a_headline_names_as_many_as_a_line_holds() -> None:
    names: list[Json] = [
        entry(status="pass", check=f"participation.some.long.metric.number.{k} < 0.05") for k in range(3)
    ]
    found, alone = verdict(names), verdict([entry(status="pass", check=f"{'x' * 90} < 1")])
    assert found is not None
    assert found.headline == "All 3 expectations are met: participation.some.long.metric.number.0 < 0.05 and 2 more."
    assert alone is not None
    assert alone.headline == "The one expectation is met."


@pytest.mark.parametrize(
    ("changes", "figures"),
    [
        ({}, ["0.0700", "0.0500", "-0.0200"]),
        ({"check": "x <= 10%", "observed": 0.12, "limit": 0.1, "margin": -0.02}, ["12.0 %", "10.0 %", "-2.0 %"]),
        ({"check": "x <= 6m", "observed": 400.0, "limit": 360.0, "margin": -40.0}, ["6.67 min", "6 min", "-40 s"]),
        ({"check": "100 <= x <= 2000", "observed": 3e3, "limit": [100, 2000], "margin": -1e3}, None),
        ({"observed": None, "margin": None, "note": "no samples"}, ["0.0500"]),
    ],
)
def test_figures_are_in_the_form_of_the_limit(changes: dict[str, Json], figures: list[str] | None) -> None:
    found = verdict([entry(**changes)])
    assert found is not None
    (condition,) = found.attention
    shown = [plain(value) for _, value in condition.figures]
    assert shown == (figures if figures is not None else ["3,000", "100 to 2,000", "-1,000"])


def test_a_long_list_is_capped_and_says_so() -> None:
    found = verdict([entry() for _ in range(SHOWN + 3)])
    assert found is not None
    assert len(found.attention) == SHOWN
    assert found.omitted == "3 more conditions in manifest.json."


def test_a_place_is_named_so_that_it_can_be_found_elsewhere() -> None:
    shown = verdict([entry(place="/elsewhere/a.fedsim.yaml:12:5")])
    assert shown is not None
    assert shown.attention[0].place == "a.fedsim.yaml:12:5"
