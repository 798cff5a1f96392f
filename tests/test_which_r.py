"""The study which-r: every case is a decision whose scenario is valid, and what is kept of it is whole."""

import math

import pytest

from fedsim.run.preflight import preflight
from reports.make import which_r as script
from reports.make.kept import Record, read_store

CASES = read_store("which-r")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['problem']} {case['epsilon']} {case['mechanism']}")
def test_every_case_is_one_valid_decision_of_ten_settings_and_one_best(case: Record) -> None:
    scenario = script.scenario_of(case)
    assert scenario.privacy is not None
    assert scenario.decide is not None
    assert max(map(len, scenario.choose.values())) == math.prod(map(len, scenario.choose.values())) == 10
    preflight(scenario)
    assert len(case["settings"]) == 10
    assert [each["standing"] for each in case["settings"]].count("best") == 1
    assert script._r(case["settings"][0]) == 0


def test_no_case_is_there_twice() -> None:
    named = [(each["problem"], each["epsilon"], each["mechanism"], each["file"], *each["overrides"]) for each in CASES]
    assert len({*named}) == len(named) == 28
