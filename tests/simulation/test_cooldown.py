"""From when a client that has taken part can be selected again."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.population import build_population
from fedsim.scenario import Scenario
from fedsim.simulation.cooldowns import Cooldowns

SYNC = {"cohort": 1}
BUFFERED = {"mode": "buffered", "concurrency": 1, "buffer": 1}


@pytest.mark.parametrize(
    ("server", "group", "out"),
    [
        (SYNC, {}, False),
        (BUFFERED, {}, True),
        (SYNC, {"separation": [0, 0, 1]}, True),
        (SYNC, {"cooldown": ["0s", "0s", "1s"]}, True),
        (SYNC, {"participations": {"most": 2}}, True),
    ],
)
def test_nobody_cools_down_without_a_separation_a_length_a_cap_or_versions(
    server: dict[str, Any], group: dict[str, Any], out: bool
) -> None:
    population = [{"devices": 3, **group}]
    case = Scenario.model_validate({"stop": {"rounds": 1}, "population": population, "server": server})
    assert Cooldowns(case.server, build_population(case)).exclude == out


@given(
    number=st.integers(0, 10**6),
    separations=st.lists(st.integers(0, 50), min_size=1, max_size=9),
    buffered=st.booleans(),
)
def test_a_client_takes_part_at_most_once_in_r_plus_1_rounds(
    number: int, separations: list[int], buffered: bool
) -> None:
    """Going on as early as each is allowed: whoever is let in before the next round may still not be selected again."""
    group = {"devices": len(separations), "separation": separations}
    server = BUFFERED if buffered else SYNC
    case = Scenario.model_validate({"stop": {"rounds": 1}, "population": [group], "server": server})
    clients = np.arange(len(separations))
    first = Cooldowns(case.server, build_population(case)).begin(clients, number, 0).from_round
    next_selection = np.maximum(first, number + 1)  # no round or, with this rule, version selects a client twice
    np.testing.assert_array_equal(next_selection - number, np.array(separations) + 1)
    assert (first > number).all() == (buffered or min(separations) > 0)
