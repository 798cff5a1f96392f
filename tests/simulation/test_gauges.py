"""Gauges count everyone, or clients that stand for all of their cell."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedsim.population import build_population
from fedsim.scenario import Scenario
from fedsim.simulation import simulate_log
from fedsim.simulation.engine import sample


@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=8), most=st.integers(1, 200), seed=st.integers(0, 99))
def test_a_sample_stands_for_every_cell(sizes: list[int], most: int, seed: int) -> None:
    cell = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    chosen = sample(cell, most)
    if sum(sizes) <= most:
        assert chosen.clients is None
        return
    assert chosen.clients is not None
    assert len(np.unique(chosen.clients)) == len(chosen.clients) == chosen.taken.sum() == max(most, len(sizes))
    assert np.bincount(cell[chosen.clients]).tolist() == chosen.taken.tolist()
    # Nobody is left out of a cell while another one of at least that size has more: the shares are even.
    assert all(
        taken == size or taken >= chosen.taken.max() - 1 for taken, size in zip(chosen.taken, sizes, strict=True)
    )
    assert chosen.scaled(chosen.taken).tolist() == sizes
    assert chosen.scaled(np.zeros_like(chosen.taken)).tolist() == [0] * len(sizes)


def test_the_clients_of_a_cell_are_evenly_spaced() -> None:
    chosen = sample(np.zeros(100, dtype=np.int64), 5)
    assert chosen.clients is not None
    assert chosen.clients.tolist() == [10, 30, 50, 70, 90]


def test_a_sample_is_close_to_a_census() -> None:
    """2,000 of 40,000 devices at nine instants of a fixed seed: 5 standard errors, one false alarm in 10^5."""
    data = {
        "stop": {"duration": "8h30m"},
        "population": [{"devices": 40_000, "separation": 3, "availability": "habits"}],
        "server": {"cohort": 50, "pause": "20m"},
    }
    logs = []
    for most in (2_000, None):
        scenario = Scenario.model_validate({**data, "records": {"gauge_sample": most}})
        logs.append(simulate_log(scenario, build_population(scenario)))
    few, everyone = (log.gauges for log in logs)
    assert few["in_session"].to_list() == everyone["in_session"].to_list()
    for name in ("available", "eligible"):
        share = everyone[name].to_numpy() / 40_000
        error = np.sqrt(share * (1 - share) / 2_000)
        assert (np.abs(few[name].to_numpy() / 40_000 - share) < 5 * error).all()
    assert logs[0].participations.equals(logs[1].participations)
