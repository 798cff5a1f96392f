"""Parts of the clients beside each other, against naive counts and simulated chance."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from fedsim.findings.bias import LargestContrast, group_rates, largest_contrast, never_by_chance, tenth_shares
from fedsim.findings.finished_run import FinishedRun, read_run
from fedsim.findings.gathered import Asked, gather
from fedsim.scenario.component import Choice


@pytest.fixture(scope="session")
def run(written: Path) -> FinishedRun:
    return read_run(written)


def drawn(run: FinishedRun, chances: np.ndarray[tuple[int], np.dtype[np.float64]], seed: int) -> FinishedRun:
    """Give the run 4,000 participations, ten a round, each of a client drawn by these chances."""
    client = np.random.default_rng(seed).choice(100, size=4000, p=chances / chances.sum())
    table = pl.DataFrame({"round": np.repeat(np.arange(400), 10), "client": client}).with_columns(
        pl.lit(0.0).alias("selected_s"),
        pl.lit(1.0).alias("ended_s"),
        pl.lit("reported").alias("outcome"),
        pl.lit(None, pl.Int32).alias("gap"),
    )
    clients = run.clients.with_columns(participations=pl.Series(np.bincount(client, minlength=100)))
    server = run.scenario.server.model_copy(update={"selection": Choice(kind="uniform")})
    return replace(
        run, participations=table.lazy(), clients=clients, scenario=run.scenario.model_copy(update={"server": server})
    )


def ends(run: FinishedRun) -> LargestContrast | None:
    """Return the ends of a run whose clients or rounds were changed after it was read."""
    asked = Asked.of(run.scenario, None, run.rounds, run.simulated_s)
    by_weight = gather(run.participations, run.clients, asked).by_weight
    return largest_contrast(replace(run, gathered=replace(run.gathered, by_weight=by_weight)))


def test_groups_by_equal_chances_are_seldom_apart(run: FinishedRun) -> None:
    """Five of 100 groups are, by the definition of the margin; the farthest two of twenty are named in few runs."""
    runs = [drawn(run, np.ones(100), seed) for seed in range(40)]
    found = [group.apart for each in runs for group in group_rates(each)]
    assert len(found) == 800
    assert 0.02 < np.mean(found) < 0.09
    flat = [replace(each, clients=each.clients.with_columns(weight=pl.lit(0.01))) for each in runs]
    assert sum(ends(each) is not None for each in flat) <= 5


def test_heaviest_and_lightest_are_within_their_interval_of_the_truth(run: FinishedRun) -> None:
    """The heaviest tenth is drawn three times as often as the others, and 95 of 100 intervals say so."""
    weight = np.where(np.arange(100) < 10, 3.0, np.linspace(1.0, 0.9999, 100))
    hits = []
    for seed in range(40):
        given = drawn(run, weight, seed)
        given = replace(given, clients=given.clients.with_columns(group=pl.lit("all"), weight=pl.Series(weight)))
        found = ends(given)
        assert found is not None
        assert found.times is not None
        assert found.margin is not None
        assert (found.high, found.low) == ("the heaviest tenth", "the lightest")
        hits.append(abs(found.times - 3) < found.margin)
    assert np.mean(hits) > 0.85


def test_who_never_takes_part_is_said_so(run: FinishedRun) -> None:
    given = drawn(run, np.where(np.arange(100) < 90, 1.0, 0.0), 1)
    one = replace(given, clients=given.clients.with_columns(group=pl.lit("all")))
    found = ends(one)
    assert found is not None
    assert found.words == "the lightest tenth never trains"
    halves = given.clients.with_columns(
        group=pl.when(pl.col("client") < 90).then(pl.lit("a")).otherwise(pl.lit("b")), weight=pl.lit(0.01)
    )
    found = ends(replace(given, clients=halves))
    assert found is not None
    assert found.words == "a device of b never trains"


def test_a_wide_interval_leaves_a_bound(run: FinishedRun) -> None:
    """Of a ratio that is known to less than a quarter only its lower end is told."""
    one = replace(run, clients=run.clients.with_columns(group=pl.lit("all")))
    found = ends(one)
    assert found is not None
    assert found.margin is not None
    assert found.times is not None
    assert found.margin > found.times / 4
    assert found.words.startswith(f"the heaviest group trains at least {found.times - found.margin:.2g} times")
    assert "at least" not in replace(found, margin=0.1).words


def test_few_rounds_tell_nothing_of_weights(run: FinishedRun) -> None:
    one = replace(run, clients=run.clients.with_columns(group=pl.lit("all")), rounds=run.rounds.head(199))
    assert ends(one) is None


@given(taken=st.integers(1, 3000), clients=st.integers(20, 200))
def test_tenths_by_chance_add_up(run: FinishedRun, taken: int, clients: int) -> None:
    """Against the whole binomial law: what its upper and its lower part hold, and who is left out."""
    frame = pl.DataFrame({"participations": [taken] + [0] * (clients - 1)})
    found = tenth_shares(replace(run, clients=frame))
    assert found is not None
    count, share = np.arange(taken + 1), clients // 10 / clients
    chance = binom.pmf(count, taken, 1 / clients)
    lower = np.diff(np.minimum(np.cumsum(chance), share), prepend=0.0) @ count / (taken / clients)
    upper = np.diff(np.minimum(np.cumsum(chance[::-1]), share), prepend=0.0) @ count[::-1] / (taken / clients)
    assert (found.most, found.least) == (1.0, 0.0)
    assert found.least_by_chance == pytest.approx(float(lower))
    assert found.most_by_chance == pytest.approx(float(upper))
    assert never_by_chance(taken, clients) == pytest.approx(chance[0])
