"""Selection by weight over estimated availability: against code of its own, in both engines, and after a restart."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim import simulate
from fedsim.population import build_population
from fedsim.scenario import Scenario
from fedsim.selection import Candidates, Remembering, Request
from fedsim.selection.built_in import InverseAvailability
from fedsim.simulation import simulate_log
from tests.conftest import Write
from tests.selection.cases import law_of, request, shown
from tests.simulation.test_journal import check

masks = st.lists(st.lists(st.booleans(), min_size=7, max_size=7), min_size=1, max_size=12)


@given(masks, st.lists(st.floats(0.05, 1), min_size=7, max_size=7), st.integers(1, 7))
def test_it_does_what_counting_by_hand_does(rounds: list[list[bool]], weights: list[float], count: int) -> None:
    """Independent code: a dictionary of counts, and a race client by client."""
    law, seen = law_of("inverse_availability", np.array(weights), count, 0), dict.fromkeys(range(7), 0)
    for number, mask in enumerate(rounds):
        asked = request(number, count)
        race = []
        for client in [client for client in range(7) if mask[client]]:
            seen[client] += 1
            available = (seen[client] + 1) / (number + 3)
            race.append((-math.log(float(asked.uniforms(client)[0])) * available / weights[client], client))
        chosen = law.select(asked, shown(mask))
        assert chosen.tolist() == [client for _, client in sorted(race)[:count]]


def test_the_first_goes_by_weight_over_estimate() -> None:
    """Of clients that were there in 1, 3 and 9 of 9 selections, counted over 6,000 draws."""
    weights, expected = np.array([1.0, 1.0, 2.0]), np.array([1 / 3, 1 / 5, 2 / 11])
    first = []
    for number in range(6_000):
        law = InverseAvailability(weights)
        law.restore({"_seen": np.array([1, 3, 9]), "_selections": np.array(9)})
        first.append(int(law.select(request(number, 1), shown([True] * 3))[0]))
    found = np.bincount(first, minlength=3) / 6_000
    np.testing.assert_allclose(found, expected / expected.sum(), atol=0.03)


@pytest.mark.long
@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_everybody_takes_part_by_weight_however_seldom_it_is_there(engine: str) -> None:
    """With `uniform` those that are always there take part four times as often as those there a quarter of the time."""

    def ratio(law: str) -> float:
        groups = [
            {"name": "always", "devices": 100},
            {"name": "seldom", "devices": 300, "availability": {"kind": "renewal", "on": "10m", "off": "30m"}},
        ]
        data = {"engine": engine, "stop": {"rounds": 1_500}, "population": groups}
        server = {"cohort": 4, "pause": "5m", "selection": law}
        return simulate(Scenario.model_validate({**data, "server": server})).metrics["group.seldom.ratio"]

    assert ratio("uniform") < 0.65
    assert ratio("inverse_availability") == pytest.approx(1, abs=0.06)


@pytest.mark.long
def test_it_is_successive_where_everybody_is_always_there() -> None:
    def log(law: str) -> Any:
        population = [{"devices": 30, "weight": {"kind": "zipf", "exponent": 1}, "session": {"train": "0s"}}]
        data = {"stop": {"rounds": 4_000}, "population": population, "server": {"cohort": 5, "selection": law}}
        case = Scenario.model_validate(data)
        return simulate_log(case, build_population(case)).participations

    counts = [np.bincount(log(law)["client"], minlength=30) for law in ("successive", "inverse_availability")]
    assert np.abs(counts[0] - counts[1]).max() < 5 * math.sqrt(2 * counts[0].max())


@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_a_run_that_was_killed_goes_on_with_what_it_has_seen(engine: str, tmp_path: Path) -> None:
    data = {
        "stop": {"rounds": 40},
        "population": [{"devices": 12, "availability": {"kind": "renewal", "on": "2m", "off": "4m"}}],
        "server": {"cohort": 3, "selection": "inverse_availability", "pause": "30s", "shortage": "proceed"},
    }
    check(data, tmp_path, engine, [25, 31])


OWN = """\
import numpy as np


class Counting:
    finds_shortage = True

    def __init__(self):
        self.asked = 0

    def select(self, request, candidates):
        self.asked += 1
        eligible = np.flatnonzero(candidates.all_eligible())
        return np.roll(eligible, -self.asked)[: request.count]

    def state(self):
        return {"asked": np.array(self.asked)}

    def restore(self, state):
        self.asked = int(state["asked"])
"""


def test_a_law_of_ones_own_may_remember(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both engines ask it equally often, even if it says that it finds shortages, and it is kept with the run."""
    from fedsim.selection.laws import CheckedSelection

    write(OWN, "counting_law.py")
    monkeypatch.syspath_prepend(tmp_path)
    from counting_law import Counting  # type: ignore[import-not-found]

    assert isinstance(Counting(), Remembering)
    law = CheckedSelection(Counting(), "counting_law:Counting")
    assert not law.finds_shortage
    everyone: Candidates = shown([True] * 6)
    asked: Request = request(0, 2)
    assert [law.select(asked, everyone).tolist() for _ in range(2)] == [[1, 2], [2, 3]]
    other = CheckedSelection(Counting(), "counting_law:Counting")
    other.restore(law.state())
    assert other.select(asked, everyone).tolist() == law.select(asked, everyone).tolist() == [3, 4]
