"""Trial selections: what they find, and how few clients they look at."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.log.recorder import InMemoryLog, Recorder
from fedsim.population import build_population
from fedsim.scenario import Scenario
from fedsim.simulation.clock import Clock
from fedsim.simulation.selector import Selector
from tests.selection.cases import Among


class Counted(Among):
    """A fixed mask that is counted in blocks; `counted` says whether counting is cheap."""

    def __init__(self, mask: Any, block: int = 1, *, counted: bool = False) -> None:
        super().__init__(np.asarray(mask, dtype=bool))
        self.block, self.counted = block, counted

    def ready(self, most: int) -> int:
        return min(most, int(self.mask.reshape(-1, self.block).all(axis=1).sum()) * self.block)


def selector(roster: Counted, law: str, cohort: int = 2) -> Selector:
    data = {"stop": {"rounds": 1}, "population": [{"devices": len(roster.mask)}]}
    case = Scenario.model_validate({**data, "server": {"cohort": cohort, "selection": law}})
    population = build_population(case)
    return Selector(case, population, roster, Recorder(len(population), [("all", "UTC")], InMemoryLog()), 0, Clock())


LAWS = ["midzuno", "uniform", "successive", "groups", "cyclic", "bernoulli"]


@pytest.mark.long
@pytest.mark.parametrize("law", LAWS)
@given(mask=st.lists(st.booleans(), min_size=3, max_size=10), round_=st.integers(0, 50))
def test_trying_finds_what_counting_finds(law: str, mask: list[bool], round_: int) -> None:
    """The same cohort, or how many are ready, whether the law is asked straight away or the eligible are counted."""
    mask = mask * 2  # an even number of clients
    block = 2 if law == "groups" else 1
    tried, counted = (selector(Counted(mask, block, counted=cheap), law) for cheap in (False, True))
    trial, expected = (each.try_select(round_, round_, 2) for each in (tried, counted))
    assert trial.ready == expected.ready == Counted(mask, block).ready(2)
    assert (trial.cohort is None) == (expected.cohort is None) == (trial.ready < 2)
    if trial.cohort is not None and expected.cohort is not None:
        assert trial.cohort.tolist() == expected.cohort.tolist()
        assert np.array(mask)[trial.cohort].all()
    assert tried.last_selected == counted.last_selected
    if trial.cohort is None:
        assert tried.last_selected == -1


@pytest.mark.parametrize("law", ["midzuno", "uniform", "successive", "cyclic"])
def test_of_many_eligible_clients_few_are_looked_at(law: str) -> None:
    roster = Counted(np.ones(100_000))
    assert selector(roster, law).try_select(0, 0, 2).ready == 2
    assert roster.asked_all == 0
