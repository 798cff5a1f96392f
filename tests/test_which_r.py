"""The study which-r: every case is one command whose scenario is valid, and what is kept of it is whole."""

import math

import pytest

from fedsim.run.preflight import preflight
from fedsim.scenario import Scenario
from reports.make import which_r as script


@pytest.mark.parametrize("case", script.CASES, ids=[case.name[:60] for case in script.CASES])
def test_every_case_is_one_valid_command(case: script.Case) -> None:
    command, file, *sets = case.command
    assert command == "decide"
    assert sets[::2] == ["--set"] * (len(sets) // 2)
    scenario = Scenario.load(file, sets[1::2])
    assert scenario.privacy is not None
    assert (scenario.privacy.epsilon, scenario.privacy.mechanism.kind) == (case.epsilon, case.mechanism)
    assert scenario.decide is not None
    assert max(map(len, scenario.choose.values())) == math.prod(map(len, scenario.choose.values())) == 10
    preflight(scenario)


def test_what_was_found_has_ten_settings_and_one_best() -> None:
    found = script.found()
    assert found
    for case, settings in found:
        assert len(settings) == 10, case
        assert [each["standing"] for each in settings].count("best") == 1, case
        assert script._r(settings[0]) == 0, case
